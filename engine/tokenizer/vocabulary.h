/* A tokenizer as it is once loaded, and what it knows of each token. */
#ifndef HKE_VOCABULARY_H
#define HKE_VOCABULARY_H

#include "engine/tokenizer/hash.h"
#include "libhkfmt/hkmodel.h"

struct tok_splits; /* split.h */

struct tok_added_one {
    struct hk_bytes text; /* what is matched */
    uint32_t id;
};
struct tok_added { /* tokens matched in the text before it is split, in order of their bytes */
    struct tok_added_one *one;
    uint32_t n;
    uint32_t first[257]; /* those that begin with byte b are first[b] .. first[b + 1] - 1 */
    uint8_t *own;        /* texts that are not those of the vocabulary */
};

struct hke_tokenizer {
    enum hk_vocab_kind kind;
    struct tok_strings piece; /* as spelled in the file */
    struct tok_strings text;  /* what they stand for */
    uint8_t *type;            /* enum hk_token_type */
    bool *ends;               /* ends a generation */
    int64_t bos, eos, unk;
    bool add_bos, add_eos;
    uint32_t byte[256];        /* token of a byte, or TOK_NONE */
    uint8_t *flags;            /* by token */
    struct tok_added added[2]; /* matched in the text as it is; once it is normalised */
    bool nfc;
    bool cuts; /* hke_encode_cut() may cut a text */
    /* By spelling. SPM: what may come out of merging; BPE: all, kept only for ignore_merges. */
    struct tok_table words;
    bool ignore_merges;
    /* SPM only */
    uint32_t *rank;       /* of a token by falling score; equal scores have equal ranks */
    uint32_t letter[128]; /* token of an ASCII character, or TOK_NONE */
    bool space_prefix;    /* a text begins with a space of its own */
    bool prefix_single;   /* not if it begins with one already */
    bool prefix_first;    /* nor behind an added token */
    /* By last byte of a character: some piece has a space, or a line's end, behind it. */
    bool joins[256], joins_line[256];
    bool before_prefix[256]; /* last bytes of added tokens, where a dummy prefix follows these */
    bool has_unused;
    /* BPE only */
    struct tok_merges merges;
    struct tok_splits *splits;
    bool known_splits; /* they are among those known here */
};

/* Pieces, types and special ids of F. */
enum hk_status hke_load_vocabulary(struct hke_tokenizer *t, const struct hk_file *f,
                                   struct hk_error *err);
/* Set T->text: what each token stands for. */
enum hk_status hke_load_token_texts(struct hke_tokenizer *t, struct hk_error *err);
/* Value of an optional key. *OUT is untouched where there is none. */
enum hk_status hke_load_bool(const struct hk_file *f, enum hk_vocab_key key, bool *out,
                             struct hk_error *err);

#endif
