/* What shards say of themselves: header fields and keys of .hk (format-notes 1.2), keys of GGUF. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/set.h"

bool hk_shard_key(struct hk_bytes key)
{
    static const char *const keys[] = {
        "split_index",   "split_count", "shard_files", "index_file",          "total_size_bytes",
        "total_tensors", "split.no",    "split.count", "split.tensors.count",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (hk_bytes_are(key, keys[i]))
            return true;
    return false;
}

/* A view is no longer the set that it shows a part of. */
bool hk_is_shard_key(const struct hk_file *f, const struct hk_kv *kv)
{
    return f->part_count > 1 && f->how == NULL && hk_shard_key(kv->key);
}

/* The number in KV, which the reference's two savers write as int64 or as text. */
static enum hk_status number(const struct hk_kv *kv, int64_t *out, struct hk_error *err)
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
    enum hk_status status = of == NULL ? HK_OK : number(of, &total, err);
    if (status == HK_OK && no != NULL)
        status = number(no, &index, err);
    if (status != HK_OK)
        return status;
    if (total == 0 || total == 1)
        index = 0, total = 1;
    if (total < 0 || total > HK_MAX_SHARDS || index < 0 || index >= total)
        return hk_fail(err, HK_E_FORMAT, of->offset, "%s %lld of %s %lld", index_key,
                       (long long)index, count_key, (long long)total);
    *out = (struct hk_place){(unsigned)index + 1, (unsigned)total};
    return HK_OK;
}

static bool same(struct hk_place a, struct hk_place b)
{
    return a.number == b.number && a.count == b.count;
}

/* Keys alone make a shard only if an index or the name says the same: they may be what is left in a
 * file that was put together. */
static enum hk_status place_in_hk(const struct hk_file *f, const char *name, struct hk_place *out,
                                  struct hk_error *err)
{
    const struct hk_place header = {f->header.split_index + 1u, f->header.split_count};
    struct hk_shard_name n = {0};
    struct hk_place keys;
    enum hk_status status = place_in_keys(f, "split_index", "split_count", &keys, err);
    if (status != HK_OK)
        return status;
    if (header.count > 1 && keys.count > 1 && !same(header, keys))
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
    *out = (struct hk_place){1, 1};
    return f->format == HK_FORMAT_HK     ? place_in_hk(f, name, out, err)
           : f->format == HK_FORMAT_GGUF ? place_in_keys(f, "split.no", "split.count", out, err)
                                         : HK_OK;
}

uint64_t hk_payload_size(const struct hk_file *f)
{
    uint64_t size = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->type != HK_TYPE_SHARED_REF) /* sections lie in files, so no sum wraps */
            size += t->data_size + t->scale_size + t->residual_size;
    }
    return size;
}

/* Writers of sets note how many tensors all shards hold together. */
enum hk_status hk_check_totals(const struct hk_file *whole, struct hk_error *err)
{
    static const char *const keys[] = {"total_tensors", "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct hk_kv *kv = hk_kv_find(whole, keys[i]);
        int64_t total;
        if (kv == NULL)
            continue;
        enum hk_status status = number(kv, &total, err);
        if (status != HK_OK)
            return status;
        if (total < 0 || (uint64_t)total != whole->tensor_count)
            return hk_fail(err, HK_E_FORMAT, kv->offset,
                           "key %s says %lld tensors, the shards hold %zu", keys[i],
                           (long long)total, whole->tensor_count);
    }
    return HK_OK;
}
