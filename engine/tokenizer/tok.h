/* What the files of the tokenizer share with each other and with nobody else. */
#ifndef HKE_TOK_H
#define HKE_TOK_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/tokenizer/tokenizer.h"

#define TOK_NONE UINT32_MAX /* no token */

/* ---- strings by number (tokenizer/vocab.c) ---- */

struct tok_strings { /* string i is p[off[i]] .. p[off[i + 1]] */
    uint8_t *p;
    uint32_t *off;
    uint32_t n;
};

static inline struct hk_bytes tok_string(const struct tok_strings *s, uint32_t i)
{
    return (struct hk_bytes){s->p + s->off[i], s->off[i + 1] - s->off[i]};
}

/* ---- hash tables (hke_tok_hash.c) ----
 * Open addressing. A vocabulary is free to choose its strings so that they collide, so building
 * bounds the number of probes: it tries other seeds and then larger tables before it gives up. */

struct tok_slot {
    uint32_t hash, id; /* id TOK_NONE: empty */
};
struct tok_table {
    struct tok_slot *slot;
    uint32_t mask, probes;
    uint64_t seed;
};
/* Index those strings of S that KEEP (indexed by number; NULL: all) marks; of equal strings the
 * first. */
enum hk_status hke_tok_table_build(struct tok_table *x, const struct tok_strings *s,
                                   const bool *keep, struct hk_error *err);
/* Number of the string, or TOK_NONE. */
uint32_t hke_tok_table_find(const struct tok_table *x, const struct tok_strings *s,
                            const uint8_t *p, size_t n);
/* Ask memory for what looking up P will read first. */
void hke_tok_table_prefetch(const struct tok_table *x, const uint8_t *p, size_t n);
void hke_tok_table_free(struct tok_table *x);

struct tok_merge {
    uint32_t left, right, rank, id; /* rank TOK_NONE: empty slot */
};
struct tok_merges {
    struct tok_merge *slot;
    uint32_t mask, probes;
    uint64_t seed;
};
/* Index N merges; of equal pairs the first. */
enum hk_status hke_tok_merges_build(struct tok_merges *x, const struct tok_merge *m, uint32_t n,
                                    struct hk_error *err);
/* The merge of a pair, or NULL. */
const struct tok_merge *hke_tok_merges_find(const struct tok_merges *x, uint32_t left,
                                            uint32_t right);
uint64_t hke_tok_hash(uint64_t seed, const uint8_t *p, size_t n);

/* ---- the tokenizer ---- */

enum { TOK_MAX_PATTERNS = 16 };

struct tok_pre { /* split patterns, applied one after the other to the pieces of the one before */
    pcre2_code *code[TOK_MAX_PATTERNS];
    unsigned n;
    bool named;      /* they are among those known here */
    uint32_t weight; /* most steps between two callouts, in units of work; 0 without callouts */
};

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
    bool space_prefix;    /* a text begins with a blank of its own */
    bool prefix_single;   /* not if it begins with one already */
    bool prefix_first;    /* nor behind an added token */
    /* By last byte of a character: some piece has a blank, or a line's end, behind it. */
    bool joins[256], joins_line[256];
    bool before_prefix[256]; /* last bytes of added tokens, where a dummy prefix follows these */
    bool has_unused;
    /* BPE only */
    struct tok_merges merges;
    struct tok_pre pre;
};

/* tokenizer/vocab.c: pieces, types and ids. */
enum hk_status hke_tok_vocab_load(struct hke_tokenizer *t, const struct hk_file *f,
                                  struct hk_error *err);
/* Value of an optional key. *OUT is untouched where there is none. */
enum hk_status hke_tok_key_bool(const struct hk_file *f, enum hk_vocab_key key, bool *out,
                                struct hk_error *err);
/* tokenizer/text.c: what each token stands for. */
enum hk_status hke_tok_text_build(struct hke_tokenizer *t, struct hk_error *err);
/* tokenizer/spm.c, tokenizer/bpe.c: the rest of each kind. */
enum hk_status hke_tok_spm_load(struct hke_tokenizer *t, const struct hk_file *f,
                                struct hk_error *err);
enum hk_status hke_tok_bpe_load(struct hke_tokenizer *t, const struct hk_file *f,
                                struct hk_error *err);

/* ---- added tokens (tokenizer/added.c) ---- */

bool hke_tok_is_added(enum hk_token_type type);
enum hk_status hke_tok_added_build(struct hke_tokenizer *t, struct hk_error *err);
/* The longest of the added tokens A at byte AT of TEXT, of control tokens only if SPECIAL; NULL if
 * there is none. Adds to *WORK what the search took. */
const struct tok_added_one *hke_tok_added_match(const struct hke_tokenizer *t,
                                                const struct tok_added *a, struct hk_bytes text,
                                                size_t at, bool special, uint64_t *work);

/* tokenizer/strip.c: the flags of added tokens, and where texts may be cut. */
enum hk_status hke_tok_flags_load(struct hke_tokenizer *t, const struct hk_file *f,
                                  struct hk_error *err);
/* Whether a word goes on before FROM or after TO. */
bool hke_tok_inside_word(struct hk_bytes text, size_t from, size_t to);
/* AT moved back over white space, but not below LEAST; forward. */
size_t hke_tok_spaces_before(struct hk_bytes text, size_t least, size_t at);
size_t hke_tok_spaces_behind(struct hk_bytes text, size_t at);
/* Set T->cuts. */
void hke_tok_find_cuts(struct hke_tokenizer *t);

/* ---- normalisation (tokenizer/nfc.c) ---- */

struct tok_nfc { /* start with {0}, use again, free with hke_tok_nfc_free() */
    uint8_t *text;
    size_t n, capacity;
    int32_t *code;
    size_t codes, code_room;
    uint64_t *key;
    size_t key_room;
};
/* *OUT becomes TEXT in normalisation form C: TEXT itself, or bytes of X that live until its next
 * use. False: out of memory. */
bool hke_tok_nfc(struct tok_nfc *x, struct hk_bytes text, struct hk_bytes *out);
void hke_tok_nfc_free(struct tok_nfc *x);
/* Whether a character is never changed by it, nor combined with one before it. (Some such are not
 * known here.) */
bool hke_tok_is_stable(uint32_t code);

/* ---- one encoding in progress ---- */

struct tok_symbol {
    uint32_t start, n; /* bytes in the word; n 0: merged into the one before it */
    uint32_t prev, next;
    uint32_t id;
};
struct tok_bigram {
    uint64_t key; /* rank, then position: the order in which merges happen */
    uint32_t n, id;
};
struct tok_cached;
struct tok_pair {             /* SPM: what two tokens merge to, found before */
    uint32_t left, right, id; /* left: the token plus 1, 0 for an empty entry */
};
enum { TOK_PAIRS = 1 << 15 };

struct tok_run {
    const struct hke_tokenizer *t;
    struct hke_ids *out;
    struct hk_error *err;
    bool special; /* control tokens are taken as such */
    struct tok_symbol *symbol;
    size_t symbols;
    struct tok_bigram *heap;
    size_t heap_n, heap_capacity;
    uint32_t *unused_split;   /* SPM: how long the left half of an unused piece was */
    struct tok_cached *cache; /* these two are NULL for short texts */
    struct tok_pair *pair;
    uint8_t
        *escaped; /* the text with its blanks replaced (SPM), a word in the byte alphabet (BPE) */
    size_t escaped_capacity;
    struct tok_nfc nfc;
    /* What vocabularies and patterns may make long is counted, and given up beyond BUDGET. */
    uint64_t work, budget;
    size_t match_at; /* where the pattern was at its last callout */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack;
};

/* tokenizer/encode.c */
/* HK_E_UNSUPPORTED where R's work is beyond its budget: WHAT of the vocabulary does not suit. */
enum hk_status hke_tok_check_work(const struct tok_run *r, const char *what);
enum hk_status hke_tok_emit(struct tok_run *r, uint32_t id);
enum hk_status hke_tok_emit_bytes(struct tok_run *r, const uint8_t *p, size_t n);
/* The ids of a word that no merge crosses, from the cache if it was seen before. */
enum hk_status hke_tok_word(struct tok_run *r, const uint8_t *p, size_t n);
/* Make room for NEED items of SIZE bytes in *P, keeping what is there. */
bool hke_tok_grow(void *p, size_t *capacity, size_t need, size_t size);
/* tokenizer/merge.c: the same by merging. */
enum hk_status hke_tok_merge_word(struct tok_run *r, const uint8_t *p, size_t n);
/* tokenizer/spm.c, tokenizer/bpe.c: text between added tokens. PREFIX: it stands at the start or
 * behind one. */
enum hk_status hke_tok_spm_text(struct tok_run *r, struct hk_bytes text, bool prefix);
/* BPE: *ID becomes the token that is the whole word, or TOK_NONE. */
enum hk_status hke_tok_bpe_whole(struct tok_run *r, const uint8_t *p, size_t n, uint32_t *id);
enum hk_status hke_tok_bpe_text(struct tok_run *r, struct hk_bytes text);

/* ---- split patterns (tokenizer/pre.c) ---- */

enum hk_status hke_tok_pre_load(struct hke_tokenizer *t, const struct hk_file *f,
                                struct hk_error *err);
void hke_tok_pre_free(struct tok_pre *p);
/* Split well-formed TEXT into words. */
enum hk_status hke_tok_pre_split(struct tok_run *r, struct hk_bytes text);

#endif
