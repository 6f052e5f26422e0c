/* tokenizer.model, SentencePiece's own file. */
#ifndef HK_HF_TOKENIZER_MODEL_FILE_H
#define HK_HF_TOKENIZER_MODEL_FILE_H

#include "libhkfmt/hf/tokenizer/merges.h"

/* Pieces, types, scores, special ids and the prefix of tokenizer.model. */
enum hk_status hk_tok_read_model_file(struct hk_tok *t);
/* Only its scores: its pieces must be those of tokenizer.json, whose MERGES must be in their order.
 */
enum hk_status hk_tok_read_model_scores(struct hk_tok *t, const struct hk_tok_merges *merges);

#endif
