/* Metadata as the strings of __metadata__, with what "hk.types" needs to turn them back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/number.h"
#include "libhkfmt/base/utf8.h"
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"

static bool strings_are_utf8(const struct hk_array *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (!hk_utf8_valid(hk_array_string(a, i)))
            return false;
    return true;
}

static void put_element(struct hk_buf *b, const struct hk_array *a, uint32_t i)
{
    char number[16];
    switch (a->kind) {
    case HK_ARRAY_STRING:
        hk_json_quote(b, hk_array_string(a, i));
        break;
    case HK_ARRAY_F32:
        hk_put_json_double(b, hk_widen_float(hk_array_f32(a, i)), 9);
        break;
    case HK_ARRAY_I32:
        snprintf(number, sizeof number, "%" PRId32, hk_array_i32(a, i));
        hk_buf_text(b, number);
        break;
    }
}

static void put_array(struct hk_buf *b, const struct hk_array *a)
{
    hk_buf_text(b, "[");
    for (uint32_t i = 0; i < a->count; i++) {
        hk_buf_text(b, i > 0 ? "," : "");
        put_element(b, a, i);
    }
    hk_buf_text(b, "]");
}

static const char *put_bytes(struct hk_buf *b, struct hk_bytes value)
{
    static const char *const names[] = {[HK_ARRAY_STRING] = "array<string>",
                                        [HK_ARRAY_F32] = "array<f32>",
                                        [HK_ARRAY_I32] = "array<i32>"};
    struct hk_array a;
    if (hk_array_from_blob(value, &a) && (a.kind != HK_ARRAY_STRING || strings_are_utf8(&a))) {
        put_array(b, &a);
        return names[a.kind];
    }
    hk_st_put_base64(b, value);
    return "bytes";
}

/* Text as such, base64 where it is not UTF-8. */
static const char *put_text(struct hk_buf *b, struct hk_bytes value, const char *name,
                            const char *coded)
{
    if (!hk_utf8_valid(value)) {
        hk_st_put_base64(b, value);
        return coded;
    }
    hk_buf_put(b, value.p, value.n);
    return name;
}

static const char *put_real(struct hk_buf *b, struct hk_bytes value)
{
    struct hk_buf text = {0};
    hk_put_json_double(&text, le_f64(value.p), 17);
    size_t quote = text.n > 0 && text.p[0] == '"'; /* around a word */
    if (text.failed)
        b->failed = true;
    else
        hk_buf_put(b, text.p + quote, text.n - 2 * quote);
    hk_buf_free(&text);
    return "float64";
}

/* The text of KV's value to B; its *TYPE, NULL of a plain string. */
static enum hk_status put_value(struct hk_buf *b, const struct hk_kv *kv, const char **type,
                                struct hk_error *err)
{
    char number[24];
    switch (kv->type) {
    case HK_META_STRING:
        *type = put_text(b, kv->value, NULL, "string<base64>");
        return HK_OK;
    case HK_META_JSON:
        *type = put_text(b, kv->value, "json", "json<base64>");
        return HK_OK;
    case HK_META_INT64:
        snprintf(number, sizeof number, "%" PRId64, (int64_t)le64(kv->value.p));
        hk_buf_text(b, number);
        *type = "int64";
        return HK_OK;
    case HK_META_FLOAT64:
        *type = put_real(b, kv->value);
        return HK_OK;
    case HK_META_BOOL:
        if (kv->value.p[0] > 1)
            return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s: bool is %u, not 0 or 1",
                           HK_STR(kv->key), kv->value.p[0]);
        hk_buf_text(b, kv->value.p[0] ? "true" : "false");
        *type = "bool";
        return HK_OK;
    default:
        *type = put_bytes(b, kv->value);
        return HK_OK;
    }
}

/* "KEY":"VALUE", and what KV adds to TYPES. */
static enum hk_status put_pair(struct hk_buf *b, struct hk_buf *types, const struct hk_kv *kv,
                               struct hk_error *err)
{
    if (hk_bytes_are(kv->key, "hk.types"))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key hk.types has a meaning of its own in a safetensors file");
    if (!hk_utf8_valid(kv->key))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key %.*s is not UTF-8, which a safetensors file cannot carry",
                       HK_STR(kv->key));
    struct hk_buf text = {0};
    const char *type = NULL;
    enum hk_status status = put_value(&text, kv, &type, err);
    if (status == HK_OK && text.failed)
        status = hk_fail_nomem(err);
    if (status == HK_OK) {
        hk_json_quote(b, kv->key);
        hk_buf_text(b, ":");
        hk_json_quote(b, (struct hk_bytes){text.p, text.n});
    }
    if (status == HK_OK && type != NULL) {
        hk_buf_text(types, types->n > 0 ? "," : "{");
        hk_json_quote(types, kv->key);
        hk_buf_text(types, ":\"");
        hk_buf_text(types, type);
        hk_buf_text(types, "\"");
    }
    hk_buf_free(&text);
    return status;
}

/* __metadata__ in the making. */
struct members {
    struct hk_buf *b;
    struct hk_buf types;
    bool any;
};

static enum hk_status put_member(struct members *m, const struct hk_kv *kv, struct hk_error *err)
{
    hk_buf_text(m->b, m->any ? "," : "\"__metadata__\":{");
    m->any = true;
    return put_pair(m->b, &m->types, kv, err);
}

static struct hk_bytes bytes(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

/* What a .hk made from GGUF F would have too, so that types that .hk does not tell apart stay. */
static enum hk_status put_source(struct members *m, const struct hk_file *f, struct hk_error *err)
{
    uint8_t version[8];
    char *types = NULL;
    put64(version, f->header.version_major);
    enum hk_status status = hk_gguf_types_text(f, &types, err);
    struct hk_kv kvs[] = {
        {bytes("hk.source.format"), bytes("gguf"), .type = HK_META_STRING},
        {bytes("hk.source.gguf_version"), {version, sizeof version}, .type = HK_META_INT64},
        {bytes("hk.gguf.types"), bytes(types != NULL ? types : ""), .type = HK_META_JSON},
    };
    for (size_t i = 0; status == HK_OK && i < (types != NULL ? 3 : 2); i++)
        status = put_member(m, &kvs[i], err);
    free(types);
    return status;
}

static enum hk_status put_pairs(struct members *m, const struct hk_file *f, struct hk_error *err)
{
    const bool gguf = f->format == HK_FORMAT_GGUF;
    enum hk_status status = gguf ? hk_gguf_refuse_keys(f, err) : HK_OK;
    for (size_t i = 0; status == HK_OK && i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        /* How a .hk is laid out: of no meaning here. */
        if (!hk_is_shard_key(f, kv) && !hk_bytes_are(kv->key, "hk.alignment"))
            status = put_member(m, kv, err);
    }
    return status == HK_OK && gguf ? put_source(m, f, err) : status;
}

enum hk_status hk_st_put_metadata(struct hk_buf *b, const struct hk_file *f, struct hk_error *err)
{
    struct members m = {.b = b};
    enum hk_status status = put_pairs(&m, f, err);
    if (status == HK_OK && m.types.n > 0) {
        hk_buf_text(&m.types, "}");
        hk_buf_text(b, ",\"hk.types\":");
        hk_json_quote(b, (struct hk_bytes){m.types.p, m.types.n});
    }
    hk_buf_text(b, m.any ? "}," : "");
    if (status == HK_OK && (b->failed || m.types.failed))
        status = hk_fail_nomem(err);
    hk_buf_free(&m.types);
    return status;
}
