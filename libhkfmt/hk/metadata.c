/* The metadata section (format section 3): a sequence of typed pairs. */
#include <jansson.h>
#include <stdlib.h>

#include "libhkfmt/base/cursor.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/hkmodel.h"

static struct hk_where place_of_key(const struct hk_kv *kv, uint64_t index, uint64_t offset)
{
    return (struct hk_where){offset, HK_SUBJECT_KEY, kv->key, index};
}

static bool is_json_valid(struct hk_bytes text)
{
    /* Integers past 2^63-1 are valid JSON, and what a u64 of a GGUF becomes. */
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    if (!hk_json_fits(text)) {
        struct hk_json j = {.text = text};
        enum hk_json_token token = hk_json_next(&j);
        while (token != HK_JSON_END && token != HK_JSON_ERROR)
            token = hk_json_next(&j);
        return token == HK_JSON_END;
    }
    json_t *v = hk_json_load(text, flags, NULL);
    json_decref(v);
    return v != NULL;
}

/* Contents that a reader takes as they are, but that are not what the type promises. */
static void check_pair_contents(const struct hk_scan *s, const struct hk_kv *kv, uint64_t index)
{
    struct hk_where w = place_of_key(kv, index, kv->offset);
    if (kv->type == HK_META_BOOL && kv->value.n == 1 && kv->value.p[0] > 1)
        hk_report(s->r, HK_FAULT_VALUE_BOOL, &w, "key %.*s: bool is %u, not 0 or 1",
                  HK_STR(kv->key), kv->value.p[0]);
    if (kv->type == HK_META_STRING && !hk_utf8_valid(kv->value))
        hk_report(s->r, HK_FAULT_VALUE_UTF8, &w, "key %.*s: string is not UTF-8", HK_STR(kv->key));
    if (kv->type == HK_META_JSON && !is_json_valid(kv->value))
        hk_report(s->r, HK_FAULT_VALUE_JSON, &w, "key %.*s: json does not parse", HK_STR(kv->key));
    if (!hk_utf8_valid(kv->key))
        hk_report(s->r, HK_FAULT_VALUE_UTF8, &w, "key %.*s is not UTF-8", HK_STR(kv->key));
}

static void check_pair(const struct hk_scan *s, const struct hk_kv *kv, uint64_t index,
                       uint64_t start)
{
    struct hk_where w = place_of_key(kv, index, start);
    if (kv->key.n == 0)
        hk_report(s->r, HK_FAULT_KEY_EMPTY, &w, "metadata pair %llu has an empty key",
                  (unsigned long long)index);
    w.offset = start + 2 + kv->key.n;
    size_t fixed = hk_meta_fixed_size(kv->type);
    if (hk_meta_type_name(kv->type) == NULL)
        hk_report(s->r, HK_FAULT_VALUE_TYPE, &w, "key %.*s: unknown value type 0x%02x",
                  HK_STR(kv->key), kv->type);
    else if (fixed != 0 && kv->value.n != fixed)
        hk_report(s->r, HK_FAULT_VALUE_SIZE, &w, "key %.*s: %s of %zu bytes, not %zu",
                  HK_STR(kv->key), hk_meta_type_name(kv->type), kv->value.n, fixed);
    if (s->thorough)
        check_pair_contents(s, kv, index);
}

/* One pair; false where it runs past the section. */
static bool take_pair(struct cursor *c, struct hk_kv *kv)
{
    const uint8_t *p = cursor_take(c, 2);
    if (p == NULL)
        return false;
    kv->key.n = le16(p);
    kv->key.p = cursor_take(c, kv->key.n);
    p = kv->key.p == NULL ? NULL : cursor_take(c, 5);
    if (p == NULL)
        return false;
    kv->type = p[0];
    kv->value.n = le32(p + 1);
    kv->offset = c->at;
    kv->value.p = cursor_take(c, kv->value.n);
    return kv->value.p != NULL;
}

static void check_known_defects(const struct hk_scan *s)
{
    static const char swapped[] = "endian_conversion", transcoded[] = "hk.transcoded_from";
    for (size_t i = 0; i < s->f->kv_count; i++) {
        const struct hk_kv *kv = &s->f->kvs[i];
        struct hk_where w = place_of_key(kv, i, kv->offset);
        if (hk_bytes_are(kv->key, swapped) && hk_bytes_are(kv->value, "swapped"))
            hk_report(s->r, HK_FAULT_SWAPPED, &w,
                      "%s is \"swapped\": payloads are big-endian under a little-endian header",
                      swapped);
        if (hk_bytes_are(kv->key, transcoded))
            hk_report(
                s->r, HK_FAULT_DEFECT, &w,
                "%s: written by an old converter that dropped every array (no vocabulary) and "
                "mislabelled some types",
                transcoded);
        if (hk_bytes_are(kv->key, "hk.alignment") && kv->type == HK_META_INT64 &&
            kv->value.n == 8 && le64(kv->value.p) == HK_MAX_ALIGNMENT &&
            s->f->header.alignment == 32768)
            s->f->header.alignment = HK_MAX_ALIGNMENT; /* does not fit the header's u16 */
    }
}

enum hk_status hk_scan_metadata(struct hk_scan *s, struct hk_error *err)
{
    const struct hk_header *h = &s->f->header;
    struct hk_where w = {.offset = HK_AT_KV_COUNT, .subject = HK_SUBJECT_FILE};
    if (h->metadata_size > 0 && !range_ok(h->metadata_offset, h->metadata_size, s->size))
        return HK_OK; /* reported with the header */
    if (h->metadata_kv_count > h->metadata_size / HK_KV_FIXED) {
        hk_report(s->r, HK_FAULT_METADATA_COUNT, &w,
                  "metadata_kv_count %llu does not fit %llu bytes",
                  (unsigned long long)h->metadata_kv_count, (unsigned long long)h->metadata_size);
        return HK_OK;
    }
    enum hk_status st = hk_source_copy(s->src, &s->f->arena, &s->f->metadata, h->metadata_offset,
                                       h->metadata_size, err);
    if (st != HK_OK)
        return st;
    const size_t count = (size_t)h->metadata_kv_count, most = s->f->metadata.n / HK_KV_FIXED;
    s->f->kvs = calloc((count < most ? count : most) + 1, sizeof *s->f->kvs);
    if (s->f->kvs == NULL)
        return hk_fail_nomem(err);
    struct cursor c = {.base = s->f->metadata.p,
                       .at = h->metadata_offset,
                       .end = h->metadata_offset + s->f->metadata.n,
                       .start = h->metadata_offset};
    for (size_t i = 0; i < count; i++) {
        struct hk_kv *kv = &s->f->kvs[i];
        uint64_t start = c.at;
        if (!take_pair(&c, kv)) {
            if (s->cut && s->f->metadata.n < h->metadata_size)
                return HK_OK;
            w.offset = start;
            hk_report(s->r, HK_FAULT_METADATA_COUNT, &w,
                      "metadata pair %zu of %zu ends past the metadata section", i, count);
            return HK_OK;
        }
        s->f->kv_count = i + 1;
        check_pair(s, kv, i, start);
    }
    w.offset = c.at;
    if (cursor_left(&c) > 0)
        hk_report(s->r, HK_FAULT_METADATA_TRAILING, &w,
                  "%llu bytes of the metadata section follow its last pair",
                  (unsigned long long)cursor_left(&c));
    check_known_defects(s);
    return HK_OK;
}
