/* A tokenizer's files as keys. */
#ifndef HK_HF_TOKENIZER_IMPORT_H
#define HK_HF_TOKENIZER_IMPORT_H

#include "libhkfmt/hf/tokenizer/tokens.h"

/* The keys of T's JSON files, which are there already, but for those that keep the files. */
enum hk_status hk_tok_put_keys(struct hk_tok *t);

#endif
