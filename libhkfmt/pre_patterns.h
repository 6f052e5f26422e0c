/* The way back from split patterns to the name that tokenizer.ggml.pre has for them. */
#ifndef HK_PRE_PATTERNS_H
#define HK_PRE_PATTERNS_H

#include "libhkfmt/internal.h"

/* The first row with these N patterns whose llama3 is WHOLE_WORDS; NULL if there is none. */
const struct hk_pre_tokenizer *hk_pre_tokenizer_of(const struct hk_bytes *pattern, size_t n,
                                                   bool whole_words);
/* What a pre-tokenizer ByteLevel splits by. */
const char *hk_pre_gpt2(void);

#endif
