/* Special ids, what is put around a text, and end tokens. */
#ifndef HK_HF_TOKENIZER_IDS_H
#define HK_HF_TOKENIZER_IDS_H

#include "libhkfmt/hf/tokenizer/tokens.h"

enum hk_status hk_tok_put_ids(struct hk_tok *t);

#endif
