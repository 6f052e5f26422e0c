/* A tokenizer being written, and its tokens. */
#ifndef HK_HF_TOKENIZER_EXPORT_TOKENS_H
#define HK_HF_TOKENIZER_EXPORT_TOKENS_H

#include "libhkfmt/hf/tokenizer/tokens.h"

struct hk_tok_export { /* a tokenizer being written */
    const struct hk_file *f;
    const struct hk_convert_options *opt;
    struct hk_side_files *out;
    struct hk_tok t; /* tokens from the keys; json, settings and special from the stored files */
    json_t *form;    /* hk.hf.tokenizer_form, or NULL */
    struct hk_array pieces;
    bool stored; /* the file has hk.hf.tokenizer */
};

/* Tokens, types, scores and flags of P's file. */
enum hk_status hk_tok_export_load(struct hk_tok_export *p);
/* An integer or boolean key; *OUT is untouched where there is none. */
enum hk_status hk_tok_export_int(const struct hk_tok_export *p, enum hk_vocab_key key,
                                 int64_t *out);
enum hk_status hk_tok_export_bool(const struct hk_tok_export *p, enum hk_vocab_key key, bool *out);
/* Set model.vocab and model.merges of P's tokenizer.json. */
enum hk_status hk_tok_export_model(struct hk_tok_export *p);

#endif
