/* Sizes of a model, from the keys of its architecture, for what is made of it on the way to GGUF.
 */
#include <stdio.h>

#include "libhkfmt/gguf/view.h"

const struct hk_kv *hk_gguf_find(const struct gguf_making *m, const char *suffix)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->architecture, suffix);
    return hk_kvlist_find(&m->v->kvs, key);
}

/* A count of 1 to 2^20. */
enum hk_status hk_gguf_get_count(const struct gguf_making *m, const char *suffix, int64_t fallback,
                                 uint32_t *out, struct hk_error *err)
{
    const struct hk_kv *kv = hk_gguf_find(m, suffix);
    int64_t v = fallback;
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_int(kv, &v, err);
    if (status == HK_OK && (v < 1 || v > 1 << 20))
        status = hk_fail(err, HK_E_RANGE, kv != NULL ? kv->offset : HK_NO_OFFSET,
                         "key %s.%s is needed, from 1 to 2^20", m->architecture, suffix);
    if (status == HK_OK)
        *out = (uint32_t)v;
    return status;
}

enum hk_status hk_gguf_head_dims(const struct gguf_making *m, uint32_t *head, uint32_t *rotated,
                                 struct hk_error *err)
{
    uint32_t width, heads;
    enum hk_status status = hk_gguf_get_count(m, "embedding_length", 0, &width, err);
    if (status == HK_OK)
        status = hk_gguf_get_count(m, "attention.head_count", 0, &heads, err);
    if (status == HK_OK)
        status = hk_gguf_get_count(m, "attention.key_length", width / heads, head, err);
    if (status == HK_OK)
        status = hk_gguf_get_count(m, "rope.dimension_count", *head, rotated, err);
    return status;
}
