/* The merges of a vocabulary. */
#ifndef HK_HF_TOKENIZER_MERGES_H
#define HK_HF_TOKENIZER_MERGES_H

#include "libhkfmt/hf/tokenizer/tokens.h"

struct hk_tok_merge { /* of two tokens to a third; rank is its place in the list */
    uint32_t left, right, rank, id;
};
struct hk_tok_merges { /* in order of their halves */
    struct hk_tok_merge *merge;
    uint32_t count;
};
/* model.merges in either serialisation; each of three pieces, none twice. */
enum hk_status hk_tok_read_merges(struct hk_tok *t, struct hk_tok_merges *out);
/* All as "left right" in the order of their ranks under KEY. */
enum hk_status hk_tok_put_merges(const struct hk_tok *t, enum hk_vocab_key key,
                                 const struct hk_tok_merges *m);
/* The merges that transformers makes of scores, in the order of their ranks:
 * each way to cut a piece in two others, better scores first. */
enum hk_status hk_tok_make_merges(const struct hk_tok *t, struct hk_tok_merges *out);
/* Into the order in which hk_tok_find_merge() looks. */
void hk_tok_sort_merges(struct hk_tok_merges *m);
/* NULL if the two do not merge. */
const struct hk_tok_merge *hk_tok_find_merge(const struct hk_tok_merges *m, uint32_t left,
                                             uint32_t right);

#endif
