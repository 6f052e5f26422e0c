/* SentencePiece BPE vocabularies. */
#ifndef HKE_SPM_H
#define HKE_SPM_H

#include "engine/tokenizer/words.h"

/* What T needs beside its vocabulary. */
enum hk_status hke_load_spm(struct hke_tokenizer *t, const struct hk_file *f, struct hk_error *err);
/* Encode text between added tokens. PREFIX: it stands at the start or behind one. ESCAPED is used
 * for the text with its spaces replaced. */
enum hk_status hke_encode_spm(struct tok_words *w, struct hke_text *escaped, struct hk_bytes text,
                              bool prefix);

#endif
