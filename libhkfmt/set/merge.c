/* Files that are one model, opened one after the other and put together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/set.h"

/* ---- the files ---- */

static enum hk_status in_file(const char *name, const struct hk_error *why, struct hk_error *err)
{
    enum hk_status status = why->status;
    int sys = why->sys;
    hk_fail(err, status, why->offset, "%.100s: %s", name, why->text);
    if (err != NULL)
        err->sys = sys;
    return status;
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

static enum hk_status refuse_count(const struct hk_set *s, struct hk_place is, struct hk_error *err)
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
    enum hk_status status = hk_place_of(f, indexed ? NULL : name, &is, err);
    *out = i;
    if (status != HK_OK || f->format == HK_FORMAT_SAFETENSORS)
        return status;
    bool named = !indexed && hk_shard_name_parse(name, &n);
    if (is.count != s->names.count || (named && is.number != n.number))
        return refuse_count(s, is, err);
    *out = is.number - 1;
    return HK_OK;
}

static enum hk_status check_appendix(const struct hk_file *f, size_t position, struct hk_error *err)
{
    if (position > 0 && f->record_count > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, f->header.appendix_offset,
                       "has appendix records; only the first shard may");
    return HK_OK;
}

static enum hk_status place(struct hk_set *s, size_t i, struct hk_file *f, struct hk_error *err)
{
    size_t at;
    if (i == 0)
        s->format = f->format;
    if (f->format != s->format)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is %s, and the files before it are %s",
                       hk_format_name(f->format), hk_format_name(s->format));
    enum hk_status status = find_position(s, i, f, &at, err);
    if (status == HK_OK)
        status = check_appendix(f, at, err);
    if (status != HK_OK)
        return status;
    if (s->files[at] != NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is shard %zu, as %.100s is", at + 1,
                       s->files[at]->parts[0].name);
    s->files[at] = f;
    return HK_OK;
}

static enum hk_status open_file(struct hk_set *s, size_t i, struct hk_error *err)
{
    struct hk_file *f = NULL;
    struct hk_error why;
    char *path = NULL;
    if (asprintf(&path, "%s%s", s->dir, s->names.names[i]) < 0)
        return hk_fail_nomem(err);
    enum hk_status status = hk_open(&f, path, &why);
    if (status != HK_OK) {
        free(path);
        s->about = s->names.names[i];
        return in_file(s->about, &why, err);
    }
    f->parts[0].path = path;
    if ((f->parts[0].name = strdup(s->names.names[i])) == NULL)
        status = hk_fail_nomem(&why);
    if (status == HK_OK)
        status = place(s, i, f, &why);
    if (status != HK_OK) {
        hk_close(&f);
        s->about = s->names.names[i];
        return in_file(s->about, &why, err);
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

static struct hk_bytes key_at(const void *kvs, size_t i)
{
    return ((const struct hk_kv *)kvs)[i].key;
}

static bool same_value(const struct hk_kv *a, const struct hk_kv *b)
{
    return a->type == b->type && a->value.n == b->value.n &&
           (a->value.n == 0 || memcmp(a->value.p, b->value.p, a->value.n) == 0);
}

/* Metadata is the first file's. Another one may have a copy, as older writers put there, which does
 * not count and may have fallen behind since. */
static void report_metadata(const struct hk_set *s, const struct hk_file *f)
{
    const struct hk_file *first = s->files[0];
    for (size_t i = 0; i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        struct hk_where w = {kv->offset, HK_SUBJECT_KEY, kv->key, i};
        if (hk_shard_key(kv->key) || hk_bytes_are(kv->key, "hk.alignment"))
            continue;
        size_t at = hk_index_find(&first->kv_index, first->kvs, key_at, kv->key);
        if (at == SIZE_MAX)
            hk_report(s->r, HK_FAULT_SET_METADATA, &w,
                      "key %.*s is not in %.80s, whose metadata is that of the set",
                      HK_STR(kv->key), first->parts[0].name);
        else if (!same_value(kv, &first->kvs[at]))
            hk_report(s->r, HK_FAULT_SET_METADATA, &w,
                      "key %.*s has another value in %.80s, whose metadata is that of the set",
                      HK_STR(kv->key), first->parts[0].name);
    }
}

static void report_files(struct hk_set *s)
{
    for (size_t i = 1; s->r != NULL && i < s->names.count; i++) {
        s->about = s->files[i]->parts[0].name;
        report_metadata(s, s->files[i]);
        s->about = NULL;
    }
}

/* ---- one of many ---- */

static bool allocate(struct hk_file *whole, const struct hk_set *s)
{
    size_t tensors = 0;
    for (size_t i = 0; i < s->names.count; i++)
        tensors += s->files[i]->tensor_count;
    whole->parts = calloc(s->names.count, sizeof *whole->parts);
    whole->tensors = calloc(tensors + 1, sizeof *whole->tensors);
    return whole->parts != NULL && whole->tensors != NULL;
}

/* Move what FILE holds into WHOLE as its next part. */
static void adopt(struct hk_file *whole, struct hk_file *file)
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

static enum hk_status check_whole(const struct hk_set *s, struct hk_file *whole,
                                  struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status status = hk_build_targets(whole, err);
    if (status == HK_OK)
        status = hk_build_indexes(whole, &reporter, err);
    if (status == HK_OK)
        status = capture.status;
    if (status == HK_OK)
        status = hk_check_totals(whole, err);
    if (status == HK_OK && s->index.name != NULL)
        status = hk_set_index_check(&s->index, whole, err);
    return status;
}

static enum hk_status merge(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    struct hk_file *whole = calloc(1, sizeof *whole);
    if (whole == NULL || !allocate(whole, s)) {
        hk_close(&whole);
        return hk_fail_nomem(err);
    }
    for (size_t i = 0; i < s->names.count; i++)
        adopt(whole, s->files[i]);
    enum hk_status status = check_whole(s, whole, err);
    if (status != HK_OK) {
        hk_close(&whole);
        return status;
    }
    *out = whole;
    return HK_OK;
}

static enum hk_status open_all(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    enum hk_status status = check_present(s, err);
    for (size_t i = 0; status == HK_OK && i < s->names.count; i++)
        status = open_file(s, i, err);
    if (status != HK_OK)
        return status;
    report_files(s);
    return merge(out, s, err);
}

enum hk_status hk_set_open_files(struct hk_file **out, struct hk_set *s, struct hk_error *err)
{
    s->files = calloc(s->names.count, sizeof(struct hk_file *));
    if (s->files == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = open_all(out, s, err);
    for (size_t i = 0; i < s->names.count; i++)
        hk_close(&s->files[i]);
    free(s->files);
    s->files = NULL;
    return status;
}
