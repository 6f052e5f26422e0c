/* The way back from split patterns to the name that tokenizer.ggml.pre has for them. */
#ifndef HK_PRE_PATTERNS_H
#define HK_PRE_PATTERNS_H

#include "libhkfmt/hkmodel.h"

/* The row called NAME, of static storage; NULL if it is not known. */
const struct hk_pre_tokenizer *hk_pre_tokenizer(struct hk_bytes name);
/* The first row with these N patterns whose whole_words is WHOLE_WORDS, else the first of the
 * others; NULL if none has them. */
const struct hk_pre_tokenizer *hk_pre_tokenizer_for(const struct hk_bytes *pattern, size_t n,
                                                    bool whole_words);
/* Whether A and B have the same patterns. */
bool hk_pre_same(const struct hk_pre_tokenizer *a, const struct hk_pre_tokenizer *b);
/* Whether PATTERN alone is a row's, and its matches leave nothing of a text out. */
bool hk_pre_covers(struct hk_bytes pattern);
/* What a pre-tokenizer ByteLevel splits by. */
const char *hk_pre_gpt2(void);

#endif
