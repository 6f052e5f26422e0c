/* Byte-level BPE vocabularies. */
#ifndef HKE_BPE_H
#define HKE_BPE_H

#include "engine/tokenizer/split.h"

/* What T needs beside its vocabulary and split patterns. */
enum hk_status hke_load_bpe(struct hke_tokenizer *t, const struct hk_file *f, struct hk_error *err);
/* Encode text between added tokens. */
enum hk_status hke_encode_bpe(struct tok_splitter *x, struct hk_bytes text);

#endif
