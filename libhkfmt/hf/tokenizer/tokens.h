/* Tokenizers of model directories: what the files that read them share. */
#ifndef HK_HF_TOK_H
#define HK_HF_TOK_H

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/model/vocabulary.h"

enum { HK_TOK_FILE = 256 << 20 }; /* most bytes of a file */

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

/* ---- hf/tokenizer/json.c ---- */

/* DIR/NAME parsed, NULL where there is none. Integers beyond 64 bits become reals: transformers
 * writes int(1e30) for a length without limit. */
enum hk_status hk_tok_json(const struct hk_tok *t, const char *name, json_t **out);
struct hk_bytes hk_tok_string(const json_t *string);
/* Whether O is an object whose "type" is NAME. */
bool hk_tok_is(const json_t *o, const char *name);
/* O.KEY as text, "(none)" if it is no string: for messages. */
const char *hk_tok_text(const json_t *o, const char *key);
/* O as compact JSON under KEY. */
enum hk_status hk_tok_put_json(const struct hk_tok *t, enum hk_vocab_key key, const json_t *o);

/* ---- hf/tokenizer/tokens.c ---- */

/* The pieces of model.vocab. */
enum hk_status hk_tok_read_vocab(struct hk_tok *t);
/* Room for COUNT tokens; their pieces are then named one by one. */
enum hk_status hk_tok_make_room(struct hk_tok *t, uint32_t count);
/* Id of PIECE, or -1. */
int64_t hk_tok_id(const struct hk_tok *t, struct hk_bytes piece);
/* Tokens, types and flags as keys. */
enum hk_status hk_tok_put_vocab(struct hk_tok *t);

/* ---- hf/tokenizer/added.c ---- */

/* Added tokens from all their sources; those of tokenizer.model are there already. */
enum hk_status hk_tok_read_added(struct hk_tok *t);
/* The special token NAME ("bos_token"), as tokenizer_config.json or special_tokens_map.json has it;
 * p NULL if neither does. */
struct hk_bytes hk_tok_special(const struct hk_tok *t, const char *name);

/* ---- the two kinds (hf/tokenizer/byte_level.c, hf/tokenizer/sentencepiece.c),
 * hf/tokenizer/patterns.c, hf/tokenizer/merges.c ---- */

/* What both ask of a model of type BPE, and its ignore_merges. */
enum hk_status hk_tok_check_bpe(struct hk_tok *t);
/* model.byte_fallback. */
bool hk_tok_has_bytes(const struct hk_tok *t);
enum hk_status hk_tok_read_bpe(struct hk_tok *t);
enum hk_status hk_tok_read_spm(struct hk_tok *t);
/* hf/tokenizer/decoder.c */
enum hk_status hk_tok_check_decoder(const struct hk_tok *t);
/* tokenizer.model alone. */
enum hk_status hk_tok_read_sentencepiece(struct hk_tok *t);
/* Normalizer and pre-tokenizer of a byte-level vocabulary. */
enum hk_status hk_tok_put_pre(struct hk_tok *t);

struct hk_tok_merge { /* of two tokens to a third; rank is its place in the list */
    uint32_t left, right, rank, id;
};
struct hk_tok_merges { /* in order of their halves */
    struct hk_tok_merge *merge;
    uint32_t count;
};
/* model.merges in either serialisation; each of three pieces, none twice. */
enum hk_status hk_tok_read_merges(struct hk_tok *t, struct hk_tok_merges *out);
/* All as "left right" in the order of their ranks under KEY. */
enum hk_status hk_tok_put_merges(const struct hk_tok *t, enum hk_vocab_key key,
                                 const struct hk_tok_merges *m);
/* hf/tokenizer/scores.c: the merges that transformers makes of scores, in the order of their ranks:
 * each way to cut a piece in two others, better scores first. */
enum hk_status hk_tok_make_merges(const struct hk_tok *t, struct hk_tok_merges *out);
/* Into the order in which hk_tok_find_merge() looks. */
void hk_tok_sort_merges(struct hk_tok_merges *m);
/* NULL if the two do not merge. */
const struct hk_tok_merge *hk_tok_find_merge(const struct hk_tok_merges *m, uint32_t left,
                                             uint32_t right);

/* ---- hf/tokenizer/model_file.c ---- */

/* Pieces, types, scores, special ids and the prefix of tokenizer.model. */
enum hk_status hk_tok_read_model(struct hk_tok *t);
/* Only its scores: its pieces must be those of tokenizer.json, whose MERGES must be in their order.
 */
enum hk_status hk_tok_model_scores(struct hk_tok *t, const struct hk_tok_merges *merges);

/* ---- hf/tokenizer/ids.c, hf/tokenizer/templates.c ---- */

/* Special ids, what is put around a text, and end tokens. */
enum hk_status hk_tok_put_ids(struct hk_tok *t);
enum hk_status hk_tok_put_templates(struct hk_tok *t);

/* ---- hf/tokenizer/import.c ---- */

/* The keys of T's JSON files, which are there already, but for those that keep the files. */
enum hk_status hk_tok_put_keys(struct hk_tok *t);
void hk_tok_free(struct hk_tok *t);

#endif
