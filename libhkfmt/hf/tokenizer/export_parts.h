/* The parts of tokenizer.json and tokenizer_config.json that the keys settle. */
#ifndef HK_HF_TOKENIZER_EXPORT_PARTS_H
#define HK_HF_TOKENIZER_EXPORT_PARTS_H

#include "libhkfmt/hf/tokenizer/export_tokens.h"

/* What of the files is made anew from the keys. */
enum {
    HK_EXPORT_ADDED = 1,  /* added tokens */
    HK_EXPORT_SPLIT = 2,  /* normalizer, pre-tokenizer, decoder */
    HK_EXPORT_AROUND = 4, /* special ids and what is put around a text */
    HK_EXPORT_MODEL = 8,  /* the model's settings */
    HK_EXPORT_ALL = 15,
};

/* Make the PARTS of P's files of the keys. */
enum hk_status hk_tok_export_parts(struct hk_tok_export *p, unsigned parts);

#endif
