/* A .hk on its way to GGUF: what the steps of hk_gguf_view() share. */
#ifndef HK_GGUF_VIEW_H
#define HK_GGUF_VIEW_H

#include "libhkfmt/convert/view.h"

struct gguf_making {
    struct hk_view *v; /* its metadata is still the list V->kvs */
    const struct hk_convert_options *opt;
    char architecture[32];
};

/* ---- gguf/sizes.c ---- */

/* Key ARCHITECTURE.SUFFIX; NULL if absent. */
const struct hk_kv *hk_gguf_find(const struct gguf_making *m, const char *suffix);
/* The same as a count of 1 to 2^20, FALLBACK where it is absent. HK_E_RANGE: it is none. */
enum hk_status hk_gguf_get_count(const struct gguf_making *m, const char *suffix, int64_t fallback,
                                 uint32_t *out, struct hk_error *err);
/* Rows of a head of queries or keys, and how many of them rotate. */
enum hk_status hk_gguf_head_dims(const struct gguf_making *m, uint32_t *head, uint32_t *rotated,
                                 struct hk_error *err);

/* ---- gguf/rope.c ---- */

/* llama3 scaling becomes the tensor rope_freqs.weight; what GGUF has no terms for moves to keys
 * that only .hk reads. */
enum hk_status hk_gguf_settle_scaling(struct gguf_making *m, struct hk_error *err);

#endif
