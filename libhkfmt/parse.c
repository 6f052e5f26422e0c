/* A whole .hk: its pieces in the order in which they depend on each other, then the indexes. */
#include <string.h>

#include "libhkfmt/internal.h"

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

enum hk_status hk_parse(struct hk_file *f, bool thorough, const struct hk_reporter *r,
                        struct hk_error *err)
{
    f->format = HK_FORMAT_HK;
    struct hk_scan s = {
        .f = f, .map = f->parts[0].map, .size = f->parts[0].size, .r = r, .thorough = thorough};
    if (!hk_scan_header(&s))
        return HK_OK;
    enum hk_status status = hk_scan_metadata(&s, err);
    if (status == HK_OK)
        status = hk_scan_toc(&s, err);
    if (status == HK_OK)
        status = hk_scan_ranges(&s, err);
    if (status == HK_OK)
        status = hk_scan_appendix(&s, err);
    if (status == HK_OK)
        status = hk_build_indexes(f, r, err);
    return status;
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
