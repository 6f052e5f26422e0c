/* Byte-level BPE vocabularies. */
#ifndef HK_HF_TOKENIZER_BYTE_LEVEL_H
#define HK_HF_TOKENIZER_BYTE_LEVEL_H

#include "libhkfmt/hf/tokenizer/tokens.h"

/* Whether tokenizer.json's model is one of type BPE that can be run; both kinds ask for it. Reads
 * its ignore_merges. */
enum hk_status hk_tok_check_bpe(struct hk_tok *t);
enum hk_status hk_tok_read_bpe(struct hk_tok *t);

#endif
