/* SentencePiece's BPE. */
#ifndef HK_HF_TOKENIZER_SENTENCEPIECE_H
#define HK_HF_TOKENIZER_SENTENCEPIECE_H

#include "libhkfmt/hf/tokenizer/tokens.h"

/* A model with byte_fallback in tokenizer.json, perhaps with a tokenizer.model beside it. */
enum hk_status hk_tok_read_spm(struct hk_tok *t);
/* tokenizer.model alone. */
enum hk_status hk_tok_read_spm_file(struct hk_tok *t);

#endif
