/* Split patterns: how a byte-level BPE vocabulary wants a text cut before it merges. */
#ifndef HKE_SPLIT_H
#define HKE_SPLIT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/tokenizer/words.h"

/* Set T->splits, and what a named row of patterns says besides. */
enum hk_status hke_load_splits(struct hke_tokenizer *t, const struct hk_file *f,
                               struct hk_error *err);
/* *P becomes NULL. NULL is allowed. */
void hke_free_splits(struct tok_splits **p);

struct tok_splitter { /* start with {.words = ...} */
    struct tok_words *words;
    size_t match_at; /* where the pattern was at its last callout */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack;
};
/* Split well-formed TEXT into words, which go to X->words. */
enum hk_status hke_split_text(struct tok_splitter *x, struct hk_bytes text);
void hke_splitter_release(struct tok_splitter *x);

#endif
