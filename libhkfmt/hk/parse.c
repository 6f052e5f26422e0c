/* A whole .hk: its pieces in the order in which they depend on each other, then the indexes. */
#include <string.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/several.h"

static struct hk_bytes kv_name(const void *table, size_t i)
{
    return ((const struct hk_kv *)table)[i].key;
}

static struct hk_bytes tensor_name(const void *table, size_t i)
{
    return ((const struct hk_tensor *)table)[i].name;
}

struct duplicates {
    const struct hk_file *f;
    const struct hk_reporter *r;
};

static void duplicate_key(void *arg, size_t i, size_t first)
{
    const struct duplicates *d = arg;
    const struct hk_kv *kv = &d->f->kvs[i];
    struct hk_where w = {kv->offset, HK_SUBJECT_KEY, kv->key, i};
    hk_report(d->r, HK_FAULT_KEY_DUPLICATE, &w, "key %.*s occurs again (pairs %zu and %zu)",
              HK_STR(kv->key), first, i);
}

static void duplicate_tensor(void *arg, size_t i, size_t first)
{
    const struct duplicates *d = arg;
    const struct hk_tensor *t = &d->f->tensors[i];
    struct hk_where w = {t->entry_offset, HK_SUBJECT_TENSOR, t->name, i};
    hk_report(d->r, HK_FAULT_NAME_DUPLICATE, &w, "tensor %.*s occurs again (entries %zu and %zu)",
              HK_STR(t->name), first, i);
}

enum hk_status hk_build_indexes(struct hk_file *f, const struct hk_reporter *r,
                                struct hk_error *err)
{
    struct duplicates d = {f, r};
    if (!hk_index_build(&f->kv_index, f->kvs, f->kv_count, kv_name, duplicate_key, &d) ||
        !hk_index_build(&f->tensor_index, f->tensors, f->tensor_count, tensor_name,
                        duplicate_tensor, &d))
        return hk_fail_nomem(err);
    return HK_OK;
}

enum hk_status hk_copy_section(const struct hk_scan *s, struct hk_bytes *out, uint64_t offset,
                               uint64_t size, struct hk_error *err)
{
    uint8_t *p = size > SIZE_MAX ? NULL : hk_arena_block(&s->f->arena, (size_t)size);
    if (p == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_source_read(s->src, p, (size_t)size, offset, err);
    if (st == HK_OK)
        *out = (struct hk_bytes){p, (size_t)size};
    return st;
}

bool hk_scan_in_progress(const struct hk_scan *s)
{
    return hk_has_writer(s->src->fd);
}

struct passing {
    struct hk_file *f;
    const struct hk_reporter *to;
};

static void pass_fault(void *arg, const struct hk_fault *fault)
{
    const struct passing *p = arg;
    bool tail =
        strcmp(fault->code, "record-torn") == 0 || strcmp(fault->code, "trailing-bytes") == 0;
    p->f->errors += fault->severity == HK_ERROR && !tail;
    p->to->fn(p->to->arg, fault);
}

static bool refuse_several(const struct hk_scan *s)
{
    const uint64_t next = hk_next_in_hk(s->f, s->src);
    if (next == 0)
        return false;
    hk_report(s->r, HK_FAULT_SEVERAL_FILES, hk_at(next), HK_SEVERAL_FILES);
    return true;
}

enum hk_status hk_parse(struct hk_file *f, const struct hk_source *src, bool thorough,
                        const struct hk_reporter *r, struct hk_error *err)
{
    f->format = HK_FORMAT_HK;
    struct passing passing = {f, r};
    const struct hk_reporter counting = {pass_fault, &passing};
    struct hk_scan s = {
        .f = f, .src = src, .size = src->size, .r = &counting, .thorough = thorough};
    bool good = false;
    enum hk_status st = hk_scan_header(&s, &good, err);
    if (st != HK_OK || !good)
        return st;
    st = hk_scan_metadata(&s, err);
    if (st == HK_OK)
        st = hk_scan_toc(&s, err);
    if (st == HK_OK)
        st = hk_scan_ranges(&s, err);
    if (st == HK_OK)
        st = hk_scan_appendix(&s, err);
    if (st == HK_OK) {
        f->ends = hk_ends_of(f, src);
        if (!refuse_several(&s))
            hk_scan_tail(&s);
        st = hk_build_indexes(f, &counting, err);
    }
    return st;
}

const struct hk_kv *hk_kv_find(const struct hk_file *f, const char *key)
{
    struct hk_bytes name = {(const uint8_t *)key, strlen(key)};
    size_t i = hk_index_find(&f->kv_index, f->kvs, kv_name, name);
    return i == SIZE_MAX ? NULL : &f->kvs[i];
}

const struct hk_tensor *hk_tensor_find(const struct hk_file *f, const char *name)
{
    struct hk_bytes wanted = {(const uint8_t *)name, strlen(name)};
    size_t i = hk_index_find(&f->tensor_index, f->tensors, tensor_name, wanted);
    return i == SIZE_MAX ? NULL : &f->tensors[i];
}
