/* Words to tokens. */
#ifndef HKE_WORDS_H
#define HKE_WORDS_H

#include "engine/tokenizer/output.h"

struct tok_symbol {
    uint32_t start, n; /* bytes in the word; n 0: merged into the one before it */
    uint32_t prev, next;
    uint32_t id;
};
struct tok_bigram {
    uint64_t key; /* rank, then position: the order in which merges happen */
    uint32_t n, id;
};
struct tok_cached;
struct tok_pair {             /* SPM: what two tokens merge to, found before */
    uint32_t left, right, id; /* left: the token plus 1, 0 for an empty entry */
};

struct tok_words { /* start with {.out = ...} */
    struct tok_output *out;
    struct tok_symbol *symbol;
    size_t symbols;
    struct tok_bigram *heap;
    size_t heap_n, heap_capacity;
    uint32_t *unused_split;   /* SPM: how long the left half of an unused piece was */
    struct tok_cached *cache; /* these two are NULL for short texts */
    struct tok_pair *pair;
    uint8_t *spelled; /* BPE: a word in the byte alphabet */
    size_t spelled_capacity;
};

/* Get ready for a text of SIZE bytes; false: out of memory. Release W in either case. */
bool hke_words_prepare(struct tok_words *w, size_t size);
void hke_words_release(struct tok_words *w);
/* Put out the tokens of a word that no merge crosses, from the cache if it was seen before. */
enum hk_status hke_encode_word(struct tok_words *w, const uint8_t *p, size_t n);

#endif
