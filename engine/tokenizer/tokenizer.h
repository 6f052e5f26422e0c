/* tokenizer.h: text to token ids and back, as the vocabulary in a model file says.
 * Bytes are kept exactly: NUL and invalid UTF-8 become byte tokens and come back as they were. */
#ifndef HKE_TOKENIZER_H
#define HKE_TOKENIZER_H

#include "libhkfmt/hkmodel.h"

/* Immutable once made: any number of threads may use it. */
struct hke_tokenizer;

/* Build the tokenizer that the tokenizer.* metadata of F describe; F may be closed afterwards.
 * HK_E_MISSING: no vocabulary; HK_E_UNSUPPORTED: a kind or a pre-tokenizer that is not known here
 * (named); HK_E_FORMAT and HK_E_RANGE: arrays that do not fit each other, ids outside the
 * vocabulary. Cost: linear in the vocabulary. */
HK_MUST enum hk_status hke_tokenizer_new(struct hke_tokenizer **out, const struct hk_file *f,
                                         struct hk_error *err);
/* *T becomes NULL. NULL is allowed. */
void hke_tokenizer_free(struct hke_tokenizer **t);

/* ---- the vocabulary ---- */

uint32_t hke_vocab_size(const struct hke_tokenizer *t);
/* Ids below are those that the file names; -1 where it names none (and SentencePiece has no
 * default). */
int64_t hke_bos(const struct hke_tokenizer *t);
int64_t hke_eos(const struct hke_tokenizer *t);
/* Whether HKE_ADD_SPECIAL puts a bos before, an eos after the text. */
bool hke_adds_bos(const struct hke_tokenizer *t);
bool hke_adds_eos(const struct hke_tokenizer *t);
/* Whether ID ends a generation: eos, eot and eom, tokenizer.hk.eog_ids, and special tokens with the
 * well-known spellings of an end of turn. False for an id outside the vocabulary. */
bool hke_is_end_token(const struct hke_tokenizer *t, uint32_t id);
/* The next three take ids below hke_vocab_size(). Results live as long as T. */
enum hk_token_type hke_token_type(const struct hke_tokenizer *t, uint32_t id);
/* The token as the vocabulary spells it (U+2581 for a space, <0x0A>, the byte alphabet of GPT-2).
 */
struct hk_bytes hke_token_piece(const struct hke_tokenizer *t, uint32_t id);
/* The bytes it stands for in a text; of a control token its spelling. */
struct hk_bytes hke_token_bytes(const struct hke_tokenizer *t, uint32_t id);

/* ---- text to ids ---- */

struct hke_ids { /* start with {0}; free id, or hke_ids_free() */
    uint32_t *id;
    size_t n, capacity;
};
void hke_ids_free(struct hke_ids *ids);

enum {
    HKE_ADD_SPECIAL = 1,     /* bos and eos, where the file asks for them */
    HKE_PARSE_SPECIAL = 2,   /* control tokens spelled in the text are taken as such */
    HKE_CONTINUED = 4,       /* the text continues one encoded before: no dummy prefix, no bos */
    HKE_TO_BE_CONTINUED = 8, /* more of it follows: no eos */
    HKE_ADD_BOS = 16, /* a bos, which the vocabulary has, even where the file asks for none */
    HKE_ONE_BOS = 32, /* a text that begins with the bos, parsed as such, gets no second one */
};

/* How many bytes of TEXT, of which more may follow, can be encoded without the rest: the ids of
 * both parts are those of the whole. 0: not known of any. Linear at worst. */
size_t hke_encode_cut(const struct hke_tokenizer *t, struct hk_bytes text);

/* Append the ids of TEXT to OUT, which is as before on failure. HK_E_UNSUPPORTED: the vocabulary
 * has no token for a byte of the text. Time: n log n at worst, linear in practice; the stack used
 * does not depend on the text. */
HK_MUST enum hk_status hke_encode(const struct hke_tokenizer *t, struct hk_bytes text,
                                  unsigned options, struct hke_ids *out, struct hk_error *err);

/* ---- ids to text ---- */

struct hke_text { /* start with {0}; free p, or hke_text_free() */
    uint8_t *p;
    size_t n, capacity;
};
void hke_text_free(struct hke_text *text);

enum {
    HKE_SHOW_SPECIAL = 1, /* control tokens give their spelling instead of nothing */
    HKE_CONTINUE = 2, /* the ids continue an earlier text: the first space is not a dummy prefix */
};

/* Append the text of N ids to OUT. HK_E_RANGE: an id outside the vocabulary. */
HK_MUST enum hk_status hke_decode(const struct hke_tokenizer *t, const uint32_t *id, size_t n,
                                  unsigned options, struct hke_text *out, struct hk_error *err);

/* The same one token at a time, giving out whole UTF-8 characters only: a started character is held
 * back until it is complete or can no longer become one. Invalid bytes are passed on unchanged, so
 * that all that was given out, with the rest from hke_stream_end(), is the text of hke_decode(). */
struct hke_stream {
    const struct hke_tokenizer *t;
    unsigned options;
    bool started; /* something was decoded: no dummy prefix any more */
    unsigned held;
    uint8_t hold[4];
};
void hke_stream_start(struct hke_stream *s, const struct hke_tokenizer *t, unsigned options);
/* Append to OUT what ID completes; perhaps nothing. */
HK_MUST enum hk_status hke_stream_push(struct hke_stream *s, uint32_t id, struct hke_text *out,
                                       struct hk_error *err);
/* Append what is held back. */
HK_MUST enum hk_status hke_stream_end(struct hke_stream *s, struct hke_text *out,
                                      struct hk_error *err);

#endif
