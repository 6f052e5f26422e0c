/* A tokenizer being read, and its tokens. */
#ifndef HK_HF_TOKENIZER_TOKENS_H
#define HK_HF_TOKENIZER_TOKENS_H

#include "libhkfmt/hf/tokenizer/json.h"
#include "libhkfmt/model/vocabulary.h"

struct hk_tok_token {
    struct hk_bytes piece; /* p NULL: no token has this id */
    float score;
    uint8_t type, flags;
    bool in_model; /* a piece of the model's vocabulary */
    bool added;    /* found in a text before it is split */
};

/* Special tokens as the files of a directory and the keys call them. */
struct hk_tok_name {
    const char *token, *id; /* "bos_token", "bos_token_id" */
    enum hk_vocab_key key;
};
enum { HK_TOK_BOS, HK_TOK_EOS, HK_TOK_UNK, HK_TOK_NAMES = 7 };
extern const struct hk_tok_name hk_tok_names[HK_TOK_NAMES];

struct hk_tok { /* a tokenizer being read */
    const char *dir;
    const struct hk_hf_config *config;
    struct hk_kvlist *out;
    struct hk_error *err;
    json_t *json;     /* tokenizer.json, or NULL */
    json_t *settings; /* tokenizer_config.json, or NULL */
    json_t *special;  /* special_tokens_map.json, or NULL */
    json_t *extra;    /* added_tokens.json, or NULL */
    json_t *ids;      /* piece: id */
    uint8_t *model;   /* tokenizer.model, in which the pieces may lie */
    size_t model_size;
    int64_t unk, bos, eos; /* tokenizer.model's, -1 for none */
    bool spm;
    bool space_prefix;  /* SPM only */
    const char *scheme; /* of a prefix by Metaspace: "first", "always"; or NULL */
    bool ignore_merges;
    bool kept;             /* the JSON files are stored ones: there are no others */
    bool pairs;            /* merges are lists of two strings */
    const char *templates; /* the file that the chat template is from, or NULL */
    struct hk_tok_token *token;
    uint32_t count;
};

void hk_tok_free(struct hk_tok *t);
/* The pieces of model.vocab. */
enum hk_status hk_tok_read_vocab(struct hk_tok *t);
/* Room for COUNT tokens; their pieces are then named one by one. */
enum hk_status hk_tok_make_room(struct hk_tok *t, uint32_t count);
/* Id of PIECE, or -1. */
int64_t hk_tok_id(const struct hk_tok *t, struct hk_bytes piece);
/* Tokens, types and flags as keys. */
enum hk_status hk_tok_put_vocab(struct hk_tok *t);

/* Added tokens from all their sources; those of tokenizer.model are there already. */
enum hk_status hk_tok_read_added(struct hk_tok *t);
/* The special token NAME ("bos_token"), as tokenizer_config.json or special_tokens_map.json has it;
 * p NULL if neither does. */
struct hk_bytes hk_tok_special_text(const struct hk_tok *t, const char *name);

#endif
