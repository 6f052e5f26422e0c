/* Strings and pairs of tokens to numbers. */
#ifndef HKE_HASH_H
#define HKE_HASH_H

#include "libhkfmt/hkfmt.h"

#define TOK_NONE UINT32_MAX /* no token */

struct tok_strings { /* string i is p[off[i]] .. p[off[i + 1]] */
    uint8_t *p;
    uint32_t *off;
    uint32_t n;
};

static inline struct hk_bytes tok_string(const struct tok_strings *s, uint32_t i)
{
    return (struct hk_bytes){s->p + s->off[i], s->off[i + 1] - s->off[i]};
}

/* ---- tables ----
 * Open addressing. A vocabulary is free to choose its strings so that they collide, so building
 * bounds the number of probes: it tries other seeds and then larger tables before it gives up. */

struct tok_slot {
    uint32_t hash, id; /* id TOK_NONE: empty */
};
struct tok_table {
    struct tok_slot *slot;
    uint32_t mask, probes;
    uint64_t seed;
};
/* Index those strings of S that KEEP (indexed by number; NULL: all) marks; of equal strings the
 * first. */
enum hk_status hke_index_strings(struct tok_table *x, const struct tok_strings *s, const bool *keep,
                                 struct hk_error *err);
/* Number of the string, or TOK_NONE. */
uint32_t hke_find_string(const struct tok_table *x, const struct tok_strings *s, const uint8_t *p,
                         size_t n);
/* Ask memory for what looking up P will read first. */
void hke_prefetch_string(const struct tok_table *x, const uint8_t *p, size_t n);
void hke_free_string_index(struct tok_table *x);

struct tok_merge {
    uint32_t left, right, rank, id; /* rank TOK_NONE: empty slot */
};
struct tok_merges {
    struct tok_merge *slot;
    uint32_t mask, probes;
    uint64_t seed;
};
/* Index N merges; of equal pairs the first. */
enum hk_status hke_index_merges(struct tok_merges *x, const struct tok_merge *m, uint32_t n,
                                struct hk_error *err);
/* The merge of a pair, or NULL. */
const struct tok_merge *hke_find_merge(const struct tok_merges *x, uint32_t left, uint32_t right);
uint64_t hke_hash_bytes(uint64_t seed, const uint8_t *p, size_t n);

#endif
