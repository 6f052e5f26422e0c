/* Sharded sets: any file STEM-00002-of-00003.EXT leads to all of them, presented as one file
 * (format-notes section 1.2; for GGUF the keys split.no and split.count). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/internal.h"
#include "libhkfmt/le.h"

struct shard_name { /* PATH taken apart */
    size_t stem;    /* bytes before "-00001-of-" */
    unsigned number, count;
    const char *suffix; /* ".hk" */
};

static bool five_digits(const char *p, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

static bool parse_name(const char *path, struct shard_name *out)
{
    enum { TAIL = 15 }; /* -00001-of-00003 */
    const char *dot = strrchr(path, '.');
    if (dot == NULL || dot - path < TAIL)
        return false;
    const char *p = dot - TAIL;
    *out = (struct shard_name){.stem = (size_t)(p - path), .suffix = dot};
    return p[0] == '-' && five_digits(p + 1, &out->number) && memcmp(p + 6, "-of-", 4) == 0 &&
           five_digits(p + 10, &out->count);
}

/* Which shard of how many F says it is; 1 of 1 for a whole file. NUMBER counts from 1. */
static enum hk_status place_of(const struct hk_file *f, unsigned *number, unsigned *count,
                               struct hk_error *err)
{
    *number = f->header.split_index + 1u;
    *count = f->header.split_count;
    if (f->format == HK_FORMAT_HK)
        return HK_OK;
    const struct hk_kv *no = hk_kv_find(f, "split.no"), *of = hk_kv_find(f, "split.count");
    int64_t index = 0, total = 1;
    enum hk_status status = of == NULL ? HK_OK : hk_kv_int(of, &total, err);
    if (status == HK_OK && no != NULL)
        status = hk_kv_int(no, &index, err);
    if (status != HK_OK)
        return status;
    if (total <= 1)
        index = 0, total = 1;
    if (total > UINT16_MAX || index < 0 || index >= total)
        return hk_fail(err, HK_E_FORMAT, of->offset, "split.no %lld of split.count %lld",
                       (long long)index, (long long)total);
    *number = (unsigned)index + 1;
    *count = (unsigned)total;
    return HK_OK;
}

static char *shard_path(const char *path, const struct shard_name *name, unsigned number)
{
    char *out = NULL;
    if (asprintf(&out, "%.*s-%05u-of-%05u%s", (int)name->stem, path, number, name->count,
                 name->suffix) < 0)
        return NULL;
    return out;
}

struct set {
    const char *path;
    struct shard_name name;
    enum hk_format format;
    struct hk_file **files; /* name.count of them */
};

/* Every absent shard, so that they can be fetched in one go. */
static enum hk_status check_present(const struct set *s, struct hk_error *err)
{
    char list[200] = "";
    unsigned missing = 0;
    for (unsigned i = 1; i <= s->name.count; i++) {
        char *path = shard_path(s->path, &s->name, i);
        if (path == NULL)
            return hk_fail_nomem(err);
        if (access(path, F_OK) != 0) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%05u", missing > 0 ? ", " : "", i);
            missing++;
        }
        free(path);
    }
    if (missing == 0)
        return HK_OK;
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "%u of %u shards are missing: %s", missing,
                   s->name.count, list);
}

static enum hk_status open_shard(struct set *s, unsigned number, struct hk_error *err)
{
    struct hk_error why = {0};
    unsigned is = 0, of = 0;
    char *path = shard_path(s->path, &s->name, number);
    if (path == NULL)
        return hk_fail_nomem(err);
    struct hk_file *f = NULL;
    enum hk_status status = hk_open(&f, path, &why);
    free(path);
    if (status == HK_OK)
        status = place_of(f, &is, &of, &why);
    s->files[number - 1] = f;
    if (status != HK_OK) {
        hk_fail(err, status, why.offset, "shard %05u: %s", number, why.text);
        if (err != NULL)
            err->sys = why.sys;
        return status;
    }
    if (f->format != s->format || is != number || of != s->name.count)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "shard %05u says that it is %s shard %u of %u", number,
                       hk_format_name(f->format), is, of);
    if (number > 1 && f->record_count > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, f->header.appendix_offset,
                       "shard %05u has appendix records; only the first may", number);
    close(f->parts[0].fd); /* sets of hundreds of shards must not need as many descriptors */
    f->parts[0].fd = -1;
    return HK_OK;
}

static bool allocate(struct hk_file *whole, const struct set *s)
{
    size_t tensors = 0;
    for (unsigned i = 0; i < s->name.count; i++)
        tensors += s->files[i]->tensor_count;
    whole->parts = calloc(s->name.count, sizeof *whole->parts);
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

/* Writers of sets note how many tensors all shards hold together. */
static enum hk_status check_total(const struct hk_file *whole, struct hk_error *err)
{
    static const char *const keys[] = {"total_tensors", "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct hk_kv *kv = hk_kv_find(whole, keys[i]);
        char text[32];
        int64_t total = -1;
        if (kv == NULL)
            continue;
        if (kv->type == HK_META_STRING && kv->value.n < sizeof text) {
            memcpy(text, kv->value.p, kv->value.n);
            text[kv->value.n] = '\0';
            total = strtoll(text, NULL, 10);
        } else if (kv->type == HK_META_INT64) {
            total = (int64_t)le64(kv->value.p);
        }
        if (total != (int64_t)whole->tensor_count)
            return hk_fail(err, HK_E_FORMAT, kv->offset,
                           "key %s says %lld tensors, the shards hold %zu", keys[i],
                           (long long)total, whole->tensor_count);
    }
    return HK_OK;
}

static enum hk_status merge(struct hk_file **out, struct set *s, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_file *whole = calloc(1, sizeof *whole);
    if (whole == NULL || !allocate(whole, s)) {
        hk_close(&whole);
        return hk_fail_nomem(err);
    }
    for (unsigned i = 0; i < s->name.count; i++)
        adopt(whole, s->files[i]);
    enum hk_status status = hk_build_targets(whole, err);
    if (status == HK_OK)
        status = hk_build_indexes(whole, &reporter, err);
    if (status == HK_OK)
        status = capture.status;
    if (status == HK_OK)
        status = check_total(whole, err);
    if (status != HK_OK) {
        hk_close(&whole);
        return status;
    }
    *out = whole;
    return HK_OK;
}

static enum hk_status open_all(struct hk_file **out, struct set *s, struct hk_error *err)
{
    enum hk_status status = check_present(s, err);
    for (unsigned i = 1; status == HK_OK && i <= s->name.count; i++)
        status = open_shard(s, i, err);
    return status != HK_OK ? status : merge(out, s, err);
}

enum hk_status hk_open_set(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct hk_file *f;
    unsigned number, count;
    enum hk_status status = hk_open(&f, path, err);
    if (status != HK_OK)
        return status;
    status = place_of(f, &number, &count, err);
    if (status == HK_OK && count <= 1) {
        *out = f;
        return HK_OK;
    }
    struct set s = {.path = path, .format = f->format};
    hk_close(&f);
    if (status != HK_OK)
        return status;
    if (!parse_name(path, &s.name) || s.name.count != count || s.name.number != number)
        return hk_fail(
            err, HK_E_FORMAT, HK_NO_OFFSET,
            "is shard %u of %u, so its name should end in -%05u-of-%05u and an extension", number,
            count, number, count);
    s.files = calloc(count, sizeof *s.files);
    if (s.files == NULL)
        return hk_fail_nomem(err);
    status = open_all(out, &s, err);
    for (unsigned i = 0; i < count; i++)
        hk_close(&s.files[i]);
    free(s.files);
    return status;
}
