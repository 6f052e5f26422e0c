/* Metadata being made. */
#include <stdio.h>
#include <stdlib.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"

static void fail_kvlist(struct hk_kvlist *l, struct hk_bytes key, enum hk_status st)
{
    if (l->status != HK_OK)
        return;
    l->status = st;
    snprintf(l->failed, sizeof l->failed, "%.*s", HK_STR(key));
}

static struct hk_kv *find_in_kvlist(const struct hk_kvlist *l, struct hk_bytes key)
{
    for (size_t i = 0; i < l->count; i++)
        if (hk_bytes_equal(l->kvs[i].key, key))
            return &l->kvs[i];
    return NULL;
}

const struct hk_kv *hk_kvlist_find(const struct hk_kvlist *l, const char *key)
{
    return find_in_kvlist(l, hk_bytes_of(key));
}

/* N bytes of the arena, which is never NULL for N = 0 either. */
static uint8_t *alloc_for_key(struct hk_kvlist *l, struct hk_bytes key, uint64_t n)
{
    uint8_t *p = NULL;
    if (n > UINT32_MAX)
        fail_kvlist(l, key, HK_E_RANGE);
    else if ((p = hk_arena_alloc(l->arena, n > 0 ? (size_t)n : 1)) == NULL)
        fail_kvlist(l, key, HK_E_NOMEM);
    return p;
}

static struct hk_kv *append_kv(struct hk_kvlist *l, struct hk_bytes key)
{
    if (!hk_grow(&l->kvs, &l->room, l->count + 1, sizeof *l->kvs)) {
        fail_kvlist(l, key, HK_E_NOMEM);
        return NULL;
    }
    uint8_t *p = alloc_for_key(l, key, key.n);
    if (p == NULL)
        return NULL;
    memcpy(p, key.p, key.n);
    struct hk_kv *kv = &l->kvs[l->count++];
    *kv = (struct hk_kv){.key = {p, key.n}};
    return kv;
}

/* KEY gets VALUE, which lies in the arena already. */
static void put_kv(struct hk_kvlist *l, struct hk_bytes key, enum hk_meta_type type,
                   struct hk_bytes value)
{
    if (key.n == 0 || key.n > UINT16_MAX) {
        fail_kvlist(l, key, HK_E_RANGE);
        return;
    }
    struct hk_kv *kv = find_in_kvlist(l, key);
    if (kv == NULL && (kv = append_kv(l, key)) == NULL)
        return;
    kv->type = (uint8_t)type;
    kv->value = value;
    kv->gguf_type = NULL;
}

void hk_kvlist_set(struct hk_kvlist *l, struct hk_bytes key, enum hk_meta_type type,
                   struct hk_bytes value)
{
    uint8_t *p = alloc_for_key(l, key, value.n);
    if (p == NULL)
        return;
    if (value.n > 0)
        memcpy(p, value.p, value.n);
    put_kv(l, key, type, (struct hk_bytes){p, value.n});
}

void hk_kvlist_string(struct hk_kvlist *l, const char *key, struct hk_bytes value)
{
    hk_kvlist_set(l, hk_bytes_of(key), HK_META_STRING, value);
}

void hk_kvlist_text(struct hk_kvlist *l, const char *key, const char *value)
{
    hk_kvlist_string(l, key, hk_bytes_of(value));
}

void hk_kvlist_json(struct hk_kvlist *l, const char *key, struct hk_bytes value)
{
    hk_kvlist_set(l, hk_bytes_of(key), HK_META_JSON, value);
}

void hk_kvlist_int(struct hk_kvlist *l, const char *key, int64_t v)
{
    uint8_t p[8];
    put64(p, (uint64_t)v);
    hk_kvlist_set(l, hk_bytes_of(key), HK_META_INT64, (struct hk_bytes){p, sizeof p});
}

void hk_kvlist_float(struct hk_kvlist *l, const char *key, double v)
{
    uint8_t p[8];
    put_f64(p, (double)(float)v);
    hk_kvlist_set(l, hk_bytes_of(key), HK_META_FLOAT64, (struct hk_bytes){p, sizeof p});
}

void hk_kvlist_bool(struct hk_kvlist *l, const char *key, bool v)
{
    uint8_t p = v;
    hk_kvlist_set(l, hk_bytes_of(key), HK_META_BOOL, (struct hk_bytes){&p, 1});
}

static void put_blob_head(uint8_t *p, enum hk_array_kind kind, uint32_t count)
{
    put32(p, (uint32_t)kind);
    put32(p + 4, count);
}

void hk_kvlist_strings(struct hk_kvlist *l, const char *key, const struct hk_bytes *v,
                       uint32_t count)
{
    const uint64_t table = 8 + 4 * ((uint64_t)count + 1);
    uint64_t size = table;
    for (uint32_t i = 0; i < count; i++)
        if (!add_ok(size, v[i].n, &size)) {
            fail_kvlist(l, hk_bytes_of(key), HK_E_RANGE);
            return;
        }
    uint8_t *p = alloc_for_key(l, hk_bytes_of(key), size);
    if (p == NULL)
        return;
    put_blob_head(p, HK_ARRAY_STRING, count);
    uint8_t *to = p + table;
    for (uint32_t i = 0; i < count; i++) {
        put32(p + 8 + 4 * (uint64_t)i, (uint32_t)(to - p - (ptrdiff_t)table));
        if (v[i].n > 0)
            memcpy(to, v[i].p, v[i].n);
        to += v[i].n;
    }
    put32(p + table - 4, (uint32_t)(size - table));
    put_kv(l, hk_bytes_of(key), HK_META_BYTES, (struct hk_bytes){p, (size_t)size});
}

/* COUNT words of 32 bits. */
static void put_word_array(struct hk_kvlist *l, const char *key, enum hk_array_kind kind,
                           const void *v, uint32_t count)
{
    const uint64_t size = 8 + 4 * (uint64_t)count;
    uint8_t *p = alloc_for_key(l, hk_bytes_of(key), size);
    if (p == NULL)
        return;
    put_blob_head(p, kind, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)v + 4 * (uint64_t)i, sizeof word);
        put32(p + 8 + 4 * (uint64_t)i, word);
    }
    put_kv(l, hk_bytes_of(key), HK_META_BYTES, (struct hk_bytes){p, (size_t)size});
}

void hk_kvlist_f32s(struct hk_kvlist *l, const char *key, const float *v, uint32_t count)
{
    put_word_array(l, key, HK_ARRAY_F32, v, count);
}

void hk_kvlist_i32s(struct hk_kvlist *l, const char *key, const int32_t *v, uint32_t count)
{
    put_word_array(l, key, HK_ARRAY_I32, v, count);
}

void hk_kvlist_remove(struct hk_kvlist *l, const char *key)
{
    struct hk_kv *kv = find_in_kvlist(l, hk_bytes_of(key));
    if (kv == NULL)
        return;
    l->count--;
    memmove(kv, kv + 1, (size_t)(&l->kvs[l->count] - kv) * sizeof *kv);
}

enum hk_status hk_kvlist_take(struct hk_kvlist *l, struct hk_file *f, struct hk_error *err)
{
    if (l->status == HK_E_NOMEM)
        return hk_fail_nomem(err);
    if (l->status != HK_OK)
        return hk_fail(err, l->status, HK_NO_OFFSET,
                       "key %s: key or value has a length that .hk has no room for", l->failed);
    free(f->kvs);
    f->kvs = l->kvs;
    f->kv_count = l->count;
    f->header.metadata_kv_count = l->count;
    *l = (struct hk_kvlist){.arena = l->arena};
    return HK_OK;
}

void hk_kvlist_free(struct hk_kvlist *l)
{
    free(l->kvs);
    *l = (struct hk_kvlist){.arena = l->arena};
}

/* ---- keys of shards ---- */

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
