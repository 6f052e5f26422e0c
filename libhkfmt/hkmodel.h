/* hkmodel.h: what models are, for programs that run, change or convert them: defaults,
 * vocabularies, split patterns, order of rows, adapters, merging. Whoever reads or writes
 * containers needs hkfmt.h alone, whose conventions hold here too.
 */
#ifndef HKMODEL_H
#define HKMODEL_H

#include "hkfmt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ---- */

/* EACH is called with a line for each thing that F does not say, if it is a model that hk runs, and
 * what is taken in its place: the base or the kind of its rope, types of tokens, split patterns. */
HK_API void hk_defaults(const struct hk_file *f, void (*each)(void *arg, const char *text),
                        void *arg);

/* ---- models: what they are, for people ---- */

enum { HK_FACTS_TYPES = 64 };

struct hk_type_share { /* of the weights of a model */
    unsigned type;     /* enum hk_type */
    uint64_t params, bytes;
};

struct hk_model_facts {
    struct hk_bytes name, architecture; /* n 0: the file does not say; borrowed from it */
    uint64_t params, bytes; /* elements and bytes of all tensors; references have none */
    struct hk_type_share share[HK_FACTS_TYPES]; /* the largest first; what is beyond is left out */
    size_t shares;
    const char *type; /* "q4_k_m" where the file says a mix that its layers are of, else the type of
                         most elements in layers, or in all tensors; NULL: no tensors */
    int64_t context, hidden, layers, vocab; /* 0: the file does not say; vocab is of tokens */
};

/* Facts about F as far as it has them, whether or not it is a model that hk runs. Linear in the
 * number of tensors. */
HK_API void hk_model_facts(const struct hk_file *f, struct hk_model_facts *out);

/* ---- files that end too early ---- */

struct hk_cut {
    uint64_t size;         /* bytes that are there */
    uint64_t needed;       /* that there would be at least; 0: the tables are cut too */
    size_t tensors;        /* those in the table whose bytes are not all there */
    struct hk_bytes first; /* name of the first of them */
};

/* Open a file that hk_open() refuses because it ends too early, to show what is left: header,
 * metadata and tensors are as many as are whole; the header's counts are those that there were,
 * where it has them (not in safetensors). hk_tensor_data() and its like are empty for what is not
 * there, and nothing hashes or converts it; a data_offset is HK_NO_OFFSET where the end of the
 * table would say it. Any other fault is an error, as in hk_open(), but for sections that overlap.
 */
HK_API HK_MUST enum hk_status hk_open_cut(struct hk_file **out, const char *path,
                                          struct hk_cut *cut, struct hk_error *err);

/* ---- directories that are kept as they are ---- */

/* Open the model directory PATH, whatever its config.json says or if it has none: tensors have
 * their own names, and the small files beside them, text and vocabularies of up to 64 MiB each, are
 * values under "hk.raw.NAME", byte for byte. LEFT_OUT, which may be NULL, is called with the name
 * of each entry that is not kept. hk_save() makes the directory again of whatever this is converted
 * to. */
HK_API HK_MUST enum hk_status hk_open_raw(struct hk_file **out, const char *path,
                                          void (*left_out)(void *arg, const char *what), void *arg,
                                          struct hk_error *err);

/* ---- models: hyperparameters, ropes, tensors ---- */

/* Name of the I-th architecture that is known; NULL past the last. */
HK_API const char *hk_architecture(size_t i);

enum hk_rope_kind {
    HK_ROPE_NONE, /* not scaled */
    HK_ROPE_LINEAR,
    HK_ROPE_DYNAMIC, /* not scaled within the context; beyond it nothing is computed */
    HK_ROPE_LLAMA3,
    HK_ROPE_YARN,
};

/* Rotary embedding: pair i rotates by base^(-2i / rope_dims) a position, scaled. */
struct hk_rope {
    enum hk_rope_kind kind;
    double base, factor;
    double original;             /* positions before scaling */
    double low_freq, high_freq;  /* llama3: turns in those, between which it blends */
    double beta_fast, beta_slow; /* yarn: likewise */
    double ext_factor;           /* yarn: how much of the blend, 1 for all */
    double attn_factor;          /* magnitude beyond yarn's own */
    double yarn_attn_factor;     /* likewise, where nothing is blended */
    double log_multiplier;       /* of yarn's magnitude, which is divided by it; 0: nothing is */
    bool between_pairs;          /* yarn's blend begins and ends anywhere, not at whole pairs */
    double magnitude;            /* what cosine and sine are multiplied with, after all these */
};

struct hk_family; /* of models: a row of a table */

enum hk_norm_kind { HK_NORM_RMS, HK_NORM_LAYER };
enum hk_activation {
    HK_ACTIVATION_SILU,
    HK_ACTIVATION_GELU,           /* the tanh form */
    HK_ACTIVATION_CLAMPED_SWIGLU, /* of gpt-oss, within 7 */
    HK_ACTIVATION_RELU_2,         /* squares of what is above 0 */
};

struct hk_model_params { /* as metadata state them, or the defaults */
    const struct hk_family *family;
    const char *architecture;
    uint32_t layers, context;
    uint32_t hidden;             /* hidden size */
    uint32_t ffn;                /* of the feed-forward part */
    uint32_t heads, kv_heads;    /* of queries; of keys and values, which divides it */
    uint32_t key_dim, value_dim; /* of one head */
    uint32_t rope_dims;          /* leading elements of a head that rotate; even */
    uint32_t vocab;              /* rows of the embedding; 0: set by whoever knows the tensor */
    double epsilon;              /* of the norms */
    bool halves;                 /* rope pairs element i with i + rope_dims / 2, not neighbours */
    bool causal;
    enum hk_norm_kind norm; /* these two are the family's */
    enum hk_activation activation;
    int64_t experts;        /* 0: none */
    uint32_t window;        /* positions that a token sees, itself among them; 0: all */
    uint32_t whole_every;   /* of so many layers the last sees all, whatever WINDOW; 0: none does */
    double attention_scale; /* of scores */
    double attention_cap, logits_cap;       /* soft-caps of scores and of logits; 0: none */
    double embedding_scale, residual_scale; /* of the embedding; of what layers add */
    double logits_divisor;
    uint32_t experts_used, expert_ffn; /* of each token; of one expert. 0 without experts */
    bool experts_add_up;               /* weights of the chosen experts are made to sum to 1 */
    uint32_t shared_ffn;               /* of the expert that all tokens have; 0 without */
    uint32_t dense_layers;             /* the first so many have no experts */
    uint32_t next_layers;              /* behind the model's: they guess at later tokens */
    bool sigmoid_scores;               /* of experts; else softmax of all */
    double experts_scale;              /* of their weights */
    uint32_t expert_groups, expert_groups_used; /* experts are from the best groups; 0: from all */
    struct hk_rope rope;
    double window_rope_base; /* of layers with a window, unscaled; 0: they turn as all do */
    double temperature; /* queries grow by this times ln(1 + position / original context, whole) */
    uint32_t no_rope_every; /* of so many layers the last has no rope; 0: all have one */
};

/* Whether LAYER sees no more than P's window. */
static inline bool hk_layer_has_window(const struct hk_model_params *p, uint32_t layer)
{
    return p->window > 0 && (p->whole_every == 0 || layer % p->whole_every + 1 < p->whole_every);
}

static inline bool hk_layer_has_rope(const struct hk_model_params *p, uint32_t layer)
{
    return p->no_rope_every == 0 || layer % p->no_rope_every + 1 < p->no_rope_every;
}

static inline bool hk_layer_has_experts(const struct hk_model_params *p, uint32_t layer)
{
    return p->experts > 0 && layer >= p->dense_layers;
}

/* What F's metadata say of its model. HK_E_UNSUPPORTED: what is not run here, in whatever format it
 * is: architecture, experts, rope scalings. HK_E_MISSING: a key without a default;
 * HK_E_FORMAT, HK_E_RANGE: one whose value cannot be. */
HK_API HK_MUST enum hk_status hk_model_params_read(struct hk_model_params *out,
                                                   const struct hk_file *f, struct hk_error *err);
/* Turn of each of DIMS / 2 pairs from one position to the next. FACTORS, which they are divided by,
 * are those of tensor rope_freqs.weight; NULL: it is absent, and those of llama3 scaling, rounded
 * to f32 as they are in that tensor, are taken. */
HK_API void hk_rope_frequencies(const struct hk_rope *r, uint32_t dims, const float *factors,
                                double *out);

enum hk_tensor_role {
    HK_ROLE_EMBEDDING,
    HK_ROLE_OUTPUT_NORM,
    HK_ROLE_OUTPUT,
    HK_ROLE_OUTPUT_NORM_BIAS,
    HK_ROLE_ROPE_FACTORS,
    HK_ROLE_ROPE_SHORT, /* factors of texts within the original context */
    HK_ROLE_ROPE_LONG,
    /* of each layer */
    HK_ROLE_ATTN_NORM,
    HK_ROLE_ATTN_NORM_BIAS,
    HK_ROLE_Q,
    HK_ROLE_K,
    HK_ROLE_V,
    HK_ROLE_QKV, /* those three in one */
    HK_ROLE_ATTN_OUTPUT,
    HK_ROLE_Q_BIAS,
    HK_ROLE_K_BIAS,
    HK_ROLE_V_BIAS,
    HK_ROLE_ATTN_OUTPUT_BIAS,
    HK_ROLE_Q_NORM, /* of a head */
    HK_ROLE_K_NORM,
    HK_ROLE_Q_WIDE_NORM, /* of all heads together */
    HK_ROLE_K_WIDE_NORM,
    HK_ROLE_ATTN_POST_NORM, /* of what attention gives */
    HK_ROLE_FFN_NORM,
    HK_ROLE_FFN_NORM_BIAS,
    HK_ROLE_FFN_GATE,
    HK_ROLE_FFN_UP,
    HK_ROLE_FFN_GATE_UP, /* those two in one */
    HK_ROLE_FFN_UP_BIAS,
    HK_ROLE_FFN_DOWN,
    HK_ROLE_FFN_DOWN_BIAS,
    HK_ROLE_FFN_POST_NORM,
    HK_ROLE_ROUTER,
    HK_ROLE_FFN_GATE_EXPERTS,
    HK_ROLE_FFN_UP_EXPERTS,
    HK_ROLE_FFN_DOWN_EXPERTS,
    HK_ROLE_SHARED_GATE, /* how much the shared expert counts */
    HK_ROLE_FFN_GATE_SHARED,
    HK_ROLE_FFN_UP_SHARED,
    HK_ROLE_FFN_DOWN_SHARED,
    HK_ROLE_SINKS,
    HK_ROLE_CHOICE_BIAS,
    HK_ROLE_ROUTER_BIAS,
    HK_ROLE_FFN_GATE_EXPERTS_BIAS,
    HK_ROLE_FFN_UP_EXPERTS_BIAS,
    HK_ROLE_FFN_DOWN_EXPERTS_BIAS,
    HK_TENSOR_ROLES
};

struct hk_model_tensor { /* that a model has */
    enum hk_tensor_role role;
    uint32_t layer; /* 0 where it is in none */
    bool in_layer, optional;
    uint64_t rows, cols; /* rows is 0 of a vector */
    bool numbers;        /* rows of biases, no matrix */
    uint64_t experts;    /* of a stack of that many matrices, ROWS times COLS each; else 0 */
    char name[HK_MAX_NAME + 1];
};

/* The next tensor of a model with params P, all but vocab of which are read; *AT is 0 at first.
 * False: there are no more. Those outside of the layers come first. */
HK_API bool hk_model_tensor_next(const struct hk_model_params *p, size_t *at,
                                 struct hk_model_tensor *out);

/* Whether the tensor called NAME is of a layer behind P's own, which guesses at later tokens and is
 * not run. */
HK_API bool hk_is_of_next_layers(const struct hk_model_params *p, struct hk_bytes name);

/* ---- vocabularies ---- */

/* The keys by which a file describes its tokenizer; the name of each is hk_vocab_key()'s. */
enum hk_vocab_key {
    HK_VOCAB_MODEL, /* the kind: hk_vocab_kind() */
    HK_VOCAB_TOKENS,
    HK_VOCAB_TYPES, /* enum hk_token_type of each token */
    HK_VOCAB_SCORES,
    HK_VOCAB_MERGES,
    HK_VOCAB_PRE,    /* the name of a row of split patterns */
    HK_VOCAB_SPLITS, /* the split patterns themselves */
    HK_VOCAB_IGNORE_MERGES,
    HK_VOCAB_ADD_SPACE_PREFIX, /* a space is put before a text... */
    HK_VOCAB_PREFIX_SCHEME,    /* ...but not if it begins with one; "always" or "first" */
    HK_VOCAB_NORMALIZER,
    HK_VOCAB_ADDED_FLAGS, /* pairs of a token and its enum hk_added_flag */
    HK_VOCAB_ADD_BOS,
    HK_VOCAB_ADD_EOS,
    HK_VOCAB_BOS, /* special tokens by their ids */
    HK_VOCAB_EOS,
    HK_VOCAB_UNK,
    HK_VOCAB_SEP,
    HK_VOCAB_PAD,
    HK_VOCAB_CLS,
    HK_VOCAB_MASK,
    HK_VOCAB_EOT,
    HK_VOCAB_EOM,
    HK_VOCAB_END_IDS, /* all tokens that end a generation */
    HK_VOCAB_CHAT_TEMPLATE,
    HK_VOCAB_CHAT_TEMPLATES,  /* names of others, whose keys are "tokenizer.chat_template.NAME" */
    HK_VOCAB_STORED_JSON,     /* tokenizer.json without vocabulary and merges */
    HK_VOCAB_STORED_SETTINGS, /* tokenizer_config.json without chat template */
    HK_VOCAB_STORED_SPECIAL,  /* special_tokens_map.json */
    HK_VOCAB_STORED_FORM,     /* what the other keys leave open of how the files said it */
    HK_VOCAB_STORED_MERGES,   /* where they are not those that the scores give */
    HK_VOCAB_KEYS
};
HK_API const char *hk_vocab_key(enum hk_vocab_key key);
/* F's pair under KEY; NULL if it has none. */
HK_API const struct hk_kv *hk_vocab_find(const struct hk_file *f, enum hk_vocab_key key);

enum hk_vocab_kind {
    HK_VOCAB_OTHER, /* none that is known here */
    HK_VOCAB_SPM,   /* SentencePiece BPE: scores order the merges, spaces are spelled U+2581 */
    HK_VOCAB_BPE,   /* byte-level BPE: a list of merges, split patterns */
};
/* The kind that NAME, the value of HK_VOCAB_MODEL, stands for. */
HK_API enum hk_vocab_kind hk_vocab_kind(struct hk_bytes name);

enum hk_token_type { /* the values of HK_VOCAB_TYPES */
                     HK_TOKEN_NORMAL = 1,
                     HK_TOKEN_UNKNOWN = 2,
                     HK_TOKEN_CONTROL = 3,
                     HK_TOKEN_USER = 4,
                     HK_TOKEN_UNUSED = 5,
                     HK_TOKEN_BYTE = 6,
};
enum hk_added_flag { /* bits of HK_VOCAB_ADDED_FLAGS */
                     HK_ADDED_LSTRIP = 1,
                     HK_ADDED_RSTRIP = 2,
                     HK_ADDED_NORMALIZED = 4,
                     HK_ADDED_SINGLE_WORD = 8,
                     HK_ADDED_ALL = 15,
};

#define HK_VOCAB_SPACE "\xe2\x96\x81" /* U+2581, a space in the pieces of HK_VOCAB_SPM */

/* What holds where a file of kind KIND with COUNT tokens does not say: the id of special token KEY,
 * -1 for none. */
HK_API int64_t hk_vocab_default_id(enum hk_vocab_kind kind, enum hk_vocab_key key, uint32_t count);
/* Likewise the type of token ID, PIECE, where these are special, or -1. */
HK_API enum hk_token_type hk_vocab_default_type(enum hk_vocab_kind kind, struct hk_bytes piece,
                                                uint32_t id, int64_t bos, int64_t eos, int64_t unk);
/* The byte that PIECE, spelled "<0x0A>", stands for; -1 if it is spelled otherwise. */
HK_API int hk_vocab_byte(struct hk_bytes piece);
/* Whether PIECE, token ID, is the name that a row of the embedding without a token has in a GGUF:
 * "[PAD12]". */
HK_API bool hk_vocab_is_padding(struct hk_bytes piece, uint32_t id);

/* ---- split patterns ---- */

enum {
    HK_PRE_PATTERNS = 6,      /* max of a row that is known by name */
    HK_PRE_MAX_PATTERNS = 16, /* of HK_VOCAB_SPLITS */
};

/* What a value of tokenizer.ggml.pre stands for. */
struct hk_pre_tokenizer {
    const char *name;
    const char *pattern[HK_PRE_PATTERNS]; /* one applied after the other; NULL behind the last */
    bool whole_words;                     /* a word that is a token is not made by merging */
    bool bos;                             /* put before a text where the file does not say */
    bool over_blanks;                     /* a match may go on behind a blank */
    bool costly;                          /* some texts cost more than in proportion to them */
};
/* The row, of static storage, that F names under HK_VOCAB_PRE; "default" where it names none.
 * HK_E_UNSUPPORTED: it is not known. */
HK_API HK_MUST enum hk_status hk_pre_tokenizer_of_file(const struct hk_pre_tokenizer **out,
                                                       const struct hk_file *f,
                                                       struct hk_error *err);
/* The first row with these N patterns, or other spellings of them; NULL if none has them. */
HK_API const struct hk_pre_tokenizer *hk_pre_tokenizer_of(const struct hk_bytes *pattern, size_t n);

/* ---- order of rows ---- */

/* Rotary position embedding turns the rows of a head of queries or keys two by two. A file has them
 * as neighbours (rows 2i and 2i + 1, as llama.cpp's files of llama models) or half a head apart (i
 * and i + head_dim / 2, as Hugging Face's libraries): hk.rope_style says which ("norm" or "neox"),
 * else the architecture does. */
enum hk_rotation { HK_ROTATION_UNKNOWN, HK_ROTATION_PAIRS, HK_ROTATION_HALVES };
HK_API enum hk_rotation hk_file_rotation(const struct hk_file *f);
/* Whether KEY says nothing but that. */
HK_API bool hk_is_rotation_key(struct hk_bytes key);
/* Rows (elements of a vector) of a head of T, a tensor of F that is rotated whole; 0 for any other
 * and where the metadata do not say. */
HK_API uint64_t hk_tensor_head_rows(const struct hk_file *f, const struct hk_tensor *t);
/* Which row of a tensor in order FROM is row ROW of the same tensor in order TO. ROW itself where
 * HEAD_ROWS is 0 or an order is not known. */
HK_API uint64_t hk_rotated_row(uint64_t head_rows, enum hk_rotation from, enum hk_rotation to,
                               uint64_t row);

/* ---- low-rank adapters ---- */

/* A record of type lora_adapter whose payload is a safetensors file: tensors under PEFT's names,
 * and under "adapter_config" in its metadata the text of adapter_config.json; or a GGUF adapter. */
struct hk_adapter;

enum hk_weight_use {                   /* which use of a tensor changes */
                     HK_USE_MATRIX,    /* any tensor but the following */
                     HK_USE_EMBEDDING, /* token_embd.weight, as the embedding only, also where it is
                                          the head too */
                     HK_USE_HEAD, /* output.weight; in a tied model token_embd.weight, as the head
                                     only */
                     HK_USE_BOTH, /* token_embd.weight of a tied model, as embedding and head */
};

struct hk_low_rank { /* W becomes W + scale * B A, and with a magnitude its rows are scaled to that
                      */
    const struct hk_tensor *base; /* W in the file, [out][in] */
    uint32_t rank;
    double scale;           /* alpha / rank, or alpha / sqrt(rank) where the adapter says rsLoRA */
    const float *a;         /* A, [rank][in] */
    const float *b;         /* B, [out][rank]; its rows are in the order of W's */
    const float *magnitude; /* [out], of DoRA; NULL without */
    /* Of an embedding out is the vocabulary: B is PEFT's lora_embedding_A transposed, A its
     * lora_embedding_B transposed. */
    enum hk_weight_use use;
};

struct hk_replacement { /* a tensor that was trained whole, or rows of one. Comes before pairs */
    const struct hk_tensor *base;
    const float *values; /* as many as BASE has elements, in their order; or ROW_COUNT rows */
    enum hk_weight_use use;
    const uint32_t *rows; /* which rows, ascending; NULL: all */
    size_t row_count;
};

/* Read record RECORD of F and find the tensors that it changes: hk_adapter_read() with F as the
 * base. Messages name the record. */
HK_API HK_MUST enum hk_status hk_adapter_open(struct hk_adapter **out, const struct hk_file *f,
                                              size_t record, struct hk_error *err);
/* Read the adapter in PAYLOAD, an open file as hk_adapter_payload() makes it, and find the tensors
 * of BASE that it changes. Every key and tensor of it is known and used, or known to make no
 * difference: HK_E_UNSUPPORTED and HK_E_MISSING name one that cannot be applied, HK_E_FORMAT and
 * HK_E_RANGE one whose value, shape or rank does not fit. HK_E_FORMAT too where nothing in it
 * changes the model. The adapter holds all of its values as f32; BASE must outlive it. */
HK_API HK_MUST enum hk_status hk_adapter_read(struct hk_adapter **out, struct hk_file *payload,
                                              const struct hk_file *base, struct hk_error *err);
HK_API void hk_adapter_free(struct hk_adapter **a); /* NULL is allowed */

struct hk_adapter_found {
    bool known;     /* it is an adapter */
    char note[200]; /* what whoever uses it should be told, or why it is none; "" if nothing */
};

/* Write the adapter at PATH, for the model BASE, to OUT as such a payload: a PEFT directory, the
 * adapter_model.safetensors in one, a safetensors file that is such a payload already, or a GGUF
 * adapter. Nothing is written where PATH is none of these (FOUND->known). A GGUF that cannot be
 * brought into PEFT's form is written as it is, for hk_adapter_read() to say why. HK_E_FORMAT: it
 * has no tensors, or is broken. */
HK_API HK_MUST enum hk_status hk_adapter_payload(const char *path, const struct hk_file *base,
                                                 struct hk_out *out, struct hk_adapter_found *found,
                                                 struct hk_error *err);
HK_API size_t hk_adapter_count(const struct hk_adapter *a);
HK_API const struct hk_low_rank *hk_adapter_at(const struct hk_adapter *a, size_t i);
HK_API size_t hk_adapter_replacements(const struct hk_adapter *a);
HK_API const struct hk_replacement *hk_adapter_replacement(const struct hk_adapter *a, size_t i);

/* ---- adapters in other forms ---- */

/* Whether F, by its contents, is an adapter and no model: a safetensors file with PEFT's names, or
 * a GGUF that says so. */
HK_API bool hk_is_adapter(const struct hk_file *f);
/* Write PAYLOAD, an adapter for BASE that hk_adapter_payload() or hk_record_write() gave, as one
 * file to OUT, which is not committed: HK_FORMAT_GGUF, an adapter as llama.cpp loads it, or
 * HK_FORMAT_SAFETENSORS, such a payload. HK_E_UNSUPPORTED names a tensor that GGUF cannot carry;
 * what is rounded goes to opt->loss. */
HK_API HK_MUST enum hk_status hk_adapter_convert(struct hk_file *payload,
                                                 const struct hk_file *base, enum hk_format to,
                                                 const struct hk_convert_options *opt,
                                                 struct hk_out *out, struct hk_error *err);
/* The same as the directory PATH with adapter_config.json and adapter_model.safetensors, as PEFT
 * keeps adapters; opt->replace as for hk_save(). */
HK_API HK_MUST enum hk_status hk_adapter_save(struct hk_file *payload, const struct hk_file *base,
                                              const char *path,
                                              const struct hk_convert_options *opt,
                                              struct hk_error *err);

/* ---- merging ---- */

struct hk_merge_item {
    size_t record; /* of the appendix: lora_adapter or delta_patch */
    double scale;  /* times the adapter's own */
};

/* What is done with a merged model, such as hk_convert() or hk_save(): it is an open file until
 * this returns. */
typedef enum hk_status hk_merged_fn(void *arg, struct hk_file *merged, struct hk_error *err);

/* Give USE the model F, a .hk, with the COUNT records of ITEMS folded into the tensors that they
 * change, in order; those become TYPE (f32, f16, bf16), all others stay as they are. It has no
 * appendix; its metadata say under hk.merged (json) what was folded in. The status is that of USE,
 * or HK_E_UNSUPPORTED: a record, or something in it, cannot be applied. A delta's tensors have the
 * names of the base's. MAX_OUTPUT: as in struct hk_convert_options, of what is decoded. */
HK_API HK_MUST enum hk_status hk_merge(struct hk_file *f, const struct hk_merge_item *items,
                                       size_t count, enum hk_type type, uint64_t max_output,
                                       hk_merged_fn *use, void *arg, struct hk_error *err);

/* ---- UTF-8, as RFC 3629 has it: nothing overlong, no surrogates ---- */

/* Length of the character at P < END, 0 if it is not well formed or not complete. */
HK_API unsigned hk_utf8_length(const uint8_t *p, const uint8_t *end);
/* Code point of the well-formed character of N bytes at P. */
HK_API uint32_t hk_utf8_code(const uint8_t *p, unsigned n);
/* Whether all of B is well formed. */
HK_API bool hk_utf8_valid(struct hk_bytes b);
/* How many of the last of N bytes at P begin a character that is not complete: 0 to 3. */
HK_API unsigned hk_utf8_unfinished(const uint8_t *p, size_t n);

/* ---- how much may be made of a file ---- */

/* Most bytes that are made of F: MOST or, where that is 0, 64 MiB and at least 16 times the size of
 * F. References to nothing and sparse forms are a few bytes in a file for any number of values. */
HK_API uint64_t hk_output_limit(const struct hk_file *f, uint64_t most);
/* HK_E_RANGE: SIZE bytes are more than LIMIT. The message names --max-output, which is what every
 * program calls its option for MOST. */
HK_API HK_MUST enum hk_status hk_check_output(uint64_t size, uint64_t limit, struct hk_error *err);

/* Whether the values that TEXT, which looks like JSON, can have take no more than 64 MiB or 32
 * times the text as a tree in memory. Linear. */
HK_API bool hk_json_fits(struct hk_bytes text);

#ifdef __cplusplus
}
#endif
#endif
