/* Tokenizers of model directories: what the files that write them share. */
#ifndef HK_HF_PUT_TOK_H
#define HK_HF_PUT_TOK_H

#include "libhkfmt/hf/tokenizer/tokens.h"

struct hk_put_tok { /* a tokenizer being written */
    const struct hk_file *f;
    const struct hk_convert_options *opt;
    struct hk_side_files *out;
    struct hk_tok t; /* tokens from the keys; json, settings and special from the stored files */
    json_t *form;    /* hk.hf.tokenizer_form, or NULL */
    struct hk_array pieces;
    bool stored; /* the file has hk.hf.tokenizer */
};

/* What of the files is made anew from the keys. */
enum {
    HK_PUT_ADDED = 1,  /* added tokens */
    HK_PUT_SPLIT = 2,  /* normalizer, pre-tokenizer, decoder */
    HK_PUT_AROUND = 4, /* special ids and what is put around a text */
    HK_PUT_MODEL = 8,  /* the model's settings */
    HK_PUT_ALL = 15,
};

/* hf/tokenizer/export_tokens.c: tokens, types, scores and flags. */
enum hk_status hk_put_tok_load(struct hk_put_tok *p);
/* An integer or boolean key; *OUT is untouched where there is none. */
enum hk_status hk_put_tok_int(const struct hk_put_tok *p, enum hk_vocab_key key, int64_t *out);
enum hk_status hk_put_tok_bool(const struct hk_put_tok *p, enum hk_vocab_key key, bool *out);
/* A new JSON string of B; NULL if it is no UTF-8 or memory is out. */
json_t *hk_put_tok_string(struct hk_bytes b);
/* O.KEY = VALUE, which it takes over; false if memory is out. */
bool hk_put_tok_set(json_t *o, const char *key, json_t *value);

/* hf/tokenizer/export_model.c: model.vocab and model.merges. */
enum hk_status hk_put_tok_model(struct hk_put_tok *p);
/* hf/tokenizer/export_parts.c: the parts asked for, made of the keys. */
enum hk_status hk_put_tok_parts(struct hk_put_tok *p, unsigned parts);
/* hf/tokenizer/export_compare.c: which parts of the stored files no longer say what the keys say,
 * and in WHY what does not. */
enum hk_status hk_put_tok_compare(const struct hk_put_tok *p, unsigned *parts,
                                  struct hk_error *why);
/* hf/tokenizer/export_templates.c */
enum hk_status hk_put_tok_templates(struct hk_put_tok *p);

#endif
