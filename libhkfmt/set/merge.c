/* Files that are one model, opened one after the other and put together; and what each says of its
 * place: header fields and keys of .hk (format-notes 1.2), keys of GGUF. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/set/set.h"

/* ---- places ---- */

/* The number in KV, which the reference's two savers write as int64 or as text. */
static enum hk_status read_shard_number(const struct hk_kv *kv, int64_t *out, struct hk_error *err)
{
    char text[24], *end;
    if (kv->type != HK_META_STRING)
        return hk_kv_int(kv, out, err);
    if (kv->value.n > 0 && kv->value.n < sizeof text && kv->value.p[0] >= '0' &&
        kv->value.p[0] <= '9') {
        memcpy(text, kv->value.p, kv->value.n);
        text[kv->value.n] = '\0';
        *out = strtoll(text, &end, 10);
        if (*end == '\0')
            return HK_OK;
    }
    return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s is no number", HK_STR(kv->key));
}

/* The pair of keys, as a place: 1 of 1 where they are absent. */
static enum hk_status place_in_keys(const struct hk_file *f, const char *index_key,
                                    const char *count_key, struct hk_place *out,
                                    struct hk_error *err)
{
    const struct hk_kv *no = hk_kv_find(f, index_key), *of = hk_kv_find(f, count_key);
    int64_t index = 0, total = 1;
    enum hk_status st = of == NULL ? HK_OK : read_shard_number(of, &total, err);
    if (st == HK_OK && no != NULL)
        st = read_shard_number(no, &index, err);
    if (st != HK_OK)
        return st;
    if (total == 0 || total == 1)
        index = 0, total = 1;
    if (total < 0 || total > HK_MAX_SHARDS || index < 0 || index >= total)
        return hk_fail(err, HK_E_FORMAT, of->offset, "%s %lld of %s %lld", index_key,
                       (long long)index, count_key, (long long)total);
    *out = (struct hk_place){(unsigned)index + 1, (unsigned)total};
    return HK_OK;
}

static bool is_same_place(struct hk_place a, struct hk_place b)
{
    return a.number == b.number && a.count == b.count;
}

/* Keys alone make a shard only if an index or the name says the same: they may be what is left in a
 * file that was put together. */
static enum hk_status place_in_header(const struct hk_file *f, const struct hk_shard_rules *rules,
                                      const char *name, struct hk_place *out, struct hk_error *err)
{
    const struct hk_place header = {f->header.split_index + 1u, f->header.split_count};
    struct hk_shard_name n = {0};
    struct hk_place keys;
    enum hk_status st = place_in_keys(f, rules->number_key, rules->count_key, &keys, err);
    if (st != HK_OK)
        return st;
    if (header.count > 1 && keys.count > 1 && !is_same_place(header, keys))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "is shard %u of %u in its header, %u of %u in its keys", header.number,
                       header.count, keys.number, keys.count);
    bool named = name == NULL || (hk_shard_name_parse(name, &n) && n.number == keys.number &&
                                  n.count == keys.count);
    *out = header.count <= 1 && named ? keys : header;
    return HK_OK;
}

enum hk_status hk_place_of(const struct hk_file *f, const char *name, struct hk_place *out,
                           struct hk_error *err)
{
    const struct hk_shard_rules *rules = hk_format_row(f->format)->shards;
    *out = (struct hk_place){1, 1};
    if (rules->number_key == NULL)
        return HK_OK;
    return rules->in_header ? place_in_header(f, rules, name, out, err)
                            : place_in_keys(f, rules->number_key, rules->count_key, out, err);
}

/* Writers of sets note how many tensors all shards hold together. */
enum hk_status hk_check_totals(const struct hk_file *whole, struct hk_error *err)
{
    for (enum hk_format f = HK_FORMAT_HK; hk_format_row(f) != NULL; f++) {
        const struct hk_shard_rules *rules = hk_format_row(f)->shards;
        const char *key = rules != NULL ? rules->total_key : NULL;
        const struct hk_kv *kv = key != NULL ? hk_kv_find(whole, key) : NULL;
        int64_t total;
        if (kv == NULL)
            continue;
        enum hk_status st = read_shard_number(kv, &total, err);
        if (st != HK_OK)
            return st;
        if (total < 0 || (uint64_t)total != whole->tensor_count)
            return hk_fail(err, HK_E_FORMAT, kv->offset,
                           "key %s says %lld tensors, the shards hold %zu", key, (long long)total,
                           whole->tensor_count);
    }
    return HK_OK;
}

/* ---- the files ---- */

static enum hk_status fail_in_file(const char *name, const struct hk_error *why,
                                   struct hk_error *err)
{
    enum hk_status st = why->status;
    int sys = why->sys;
    hk_fail(err, st, why->offset, "%.100s: %s", name, why->text);
    if (err != NULL)
        err->sys = sys;
    return st;
}

/* Every absent file, so that they can be fetched in one go. */
static enum hk_status check_present(const struct hk_set *s, struct hk_error *err)
{
    char list[200] = "";
    size_t missing = 0;
    for (size_t i = 0; i < s->names.count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s%s", s->dir, s->names.names[i]) < 0)
            return hk_fail_nomem(err);
        if (access(path, F_OK) != 0) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", missing > 0 ? ", " : "",
                     s->names.names[i]);
            missing++;
        }
        free(path);
    }
    if (missing == 0)
        return HK_OK;
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "%zu of %zu files are missing: %s", missing,
                   s->names.count, list);
}

static enum hk_status refuse_shard_count(const struct hk_set *s, struct hk_place is,
                                         struct hk_error *err)
{
    if (s->index.name != NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "says that it is shard %u of %u, and %.100s names %zu files", is.number,
                       is.count, s->index.name, s->names.count);
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                   "says that it is shard %u of %u, and is taken for one of %zu", is.number,
                   is.count, s->names.count);
}

/* Without an index, names say which shards there are, and have to be right. The order is that of
 * the numbers in the files; files without any are in order of their names. */
static enum hk_status find_position(const struct hk_set *s, size_t i, const struct hk_file *f,
                                    size_t *out, struct hk_error *err)
{
    const char *name = s->names.names[i];
    struct hk_shard_name n;
    struct hk_place is;
    const bool indexed = s->index.name != NULL;
    enum hk_status st = hk_place_of(f, indexed ? NULL : name, &is, err);
    *out = i;
    if (st != HK_OK || hk_format_row(f->format)->shards->number_key == NULL)
        return st;
    bool named = !indexed && hk_shard_name_parse(name, &n);
    if (is.count != s->names.count || (named && is.number != n.number))
        return refuse_shard_count(s, is, err);
    *out = is.number - 1;
    return HK_OK;
}

static enum hk_status check_no_records(const struct hk_file *f, size_t position,
                                       struct hk_error *err)
{
    if (position > 0 && f->record_count > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, f->header.appendix_offset,
                       "has appendix records; only the first shard may");
    return HK_OK;
}

static enum hk_status place_file(struct hk_set *s, size_t i, struct hk_file *f,
                                 struct hk_error *err)
{
    size_t at;
    if (i == 0)
        s->format = f->format;
    if (f->format != s->format)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is %s, and the files before it are %s",
                       hk_format_name(f->format), hk_format_name(s->format));
    enum hk_status st = find_position(s, i, f, &at, err);
    if (st == HK_OK)
        st = check_no_records(f, at, err);
    if (st != HK_OK)
        return st;
    if (s->files[at] != NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is shard %zu, as %.100s is", at + 1,
                       s->files[at]->parts[0].name);
    s->files[at] = f;
    return HK_OK;
}

static enum hk_status open_file_of_set(struct hk_set *s, size_t i, struct hk_error *err)
{
    struct hk_file *f = NULL;
    struct hk_error why;
    char *path = NULL;
    if (asprintf(&path, "%s%s", s->dir, s->names.names[i]) < 0)
        return hk_fail_nomem(err);
    enum hk_status st = hk_open(&f, path, &why);
    if (st != HK_OK) {
        free(path);
        s->about = s->names.names[i];
        return fail_in_file(s->about, &why, err);
    }
    f->parts[0].path = path;
    if ((f->parts[0].name = strdup(s->names.names[i])) == NULL)
        st = hk_fail_nomem(&why);
    if (st == HK_OK)
        st = place_file(s, i, f, &why);
    if (st != HK_OK) {
        hk_close(&f);
        s->about = s->names.names[i];
        return fail_in_file(s->about, &why, err);
    }
    /* Sets of hundreds of shards must not need as many descriptors; that of the first has the locks
     * (hk_file_keep()): what others change in place is all there. */
    if (f != s->files[0]) {
        close(f->parts[0].fd);
        f->parts[0].fd = -1;
    }
    return HK_OK;
}

/* ---- agreement ---- */

static struct hk_bytes kv_key_at(const void *kvs, size_t i)
{
    return ((const struct hk_kv *)kvs)[i].key;
}

static bool is_same_value(const struct hk_kv *a, const struct hk_kv *b)
{
    return a->type == b->type && hk_bytes_equal(a->value, b->value);
}

/* Metadata is the first file's. Another one may have a copy, as older writers put there, which does
 * not count and may have fallen behind since. */
static void report_other_metadata(const struct hk_set *s, const struct hk_file *f)
{
    const struct hk_file *first = s->files[0];
    for (size_t i = 0; i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        struct hk_where w = {kv->offset, HK_SUBJECT_KEY, kv->key, i};
        if (hk_shard_key(kv->key) || hk_bytes_are(kv->key, "hk.alignment"))
            continue;
        size_t at = hk_index_find(&first->kv_index, first->kvs, kv_key_at, kv->key);
        if (at == SIZE_MAX)
            hk_report(s->r, HK_FAULT_SET_METADATA, &w,
                      "key %.*s is not in %.80s, whose metadata is that of the set",
                      HK_STR(kv->key), first->parts[0].name);
        else if (!is_same_value(kv, &first->kvs[at]))
            hk_report(s->r, HK_FAULT_SET_METADATA, &w,
                      "key %.*s has another value in %.80s, whose metadata is that of the set",
                      HK_STR(kv->key), first->parts[0].name);
    }
}

static void report_other_files(struct hk_set *s)
{
    for (size_t i = 1; s->r != NULL && i < s->names.count; i++) {
        s->about = s->files[i]->parts[0].name;
        report_other_metadata(s, s->files[i]);
        s->about = NULL;
    }
}

/* ---- one of many ---- */

static bool allocate_whole(struct hk_file *whole, const struct hk_set *s)
{
    size_t tensors = 0;
    for (size_t i = 0; i < s->names.count; i++)
        tensors += s->files[i]->tensor_count;
    whole->parts = calloc(s->names.count, sizeof *whole->parts);
    whole->tensors = calloc(tensors + 1, sizeof *whole->tensors);
    return whole->parts != NULL && whole->tensors != NULL;
}

/* Move what FILE holds into WHOLE as its next part. */
static void adopt_file(struct hk_file *whole, struct hk_file *file)
{
    uint32_t part = (uint32_t)whole->part_count;
    whole->parts[whole->part_count++] = file->parts[0];
    file->part_count = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct hk_tensor *t = &whole->tensors[whole->tensor_count++];
        *t = file->tensors[i];
        t->part = part;
    }
    hk_arena_adopt(&whole->arena, &file->arena);
    if (part > 0)
        return;
    whole->format = file->format;
    whole->header = file->header;
    whole->kvs = file->kvs;
    whole->kv_count = file->kv_count;
    whole->records = file->records;
    whole->record_count = file->record_count;
    file->kvs = NULL;
    file->records = NULL;
}

static enum hk_status check_merged(const struct hk_set *s, struct hk_file *whole,
                                   struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_build_targets(whole, err);
    if (st == HK_OK)
        st = hk_build_indexes(whole, &reporter, err);
    if (st == HK_OK)
        st = capture.status;
    if (st == HK_OK)
        st = hk_check_totals(whole, err);
    if (st == HK_OK && s->index.name != NULL)
        st = hk_set_index_check(&s->index, whole, err);
    return st;
}

static enum hk_status merge_files(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    struct hk_file *whole = calloc(1, sizeof *whole);
    if (whole == NULL || !allocate_whole(whole, s)) {
        hk_close(&whole);
        return hk_fail_nomem(err);
    }
    for (size_t i = 0; i < s->names.count; i++)
        adopt_file(whole, s->files[i]);
    enum hk_status st = check_merged(s, whole, err);
    if (st != HK_OK) {
        hk_close(&whole);
        return st;
    }
    *out = whole;
    return HK_OK;
}

static enum hk_status open_all_files(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    enum hk_status st = check_present(s, err);
    for (size_t i = 0; st == HK_OK && i < s->names.count; i++)
        st = open_file_of_set(s, i, err);
    if (st != HK_OK)
        return st;
    report_other_files(s);
    return merge_files(out, s, err);
}

enum hk_status hk_set_open_files(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    s->files = calloc(s->names.count, sizeof(struct hk_file *));
    if (s->files == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = open_all_files(out, s, err);
    for (size_t i = 0; i < s->names.count; i++)
        hk_close(&s->files[i]);
    free(s->files);
    s->files = NULL;
    return st;
}
