/* Models: what the files of libhkfmt share of them, beside what hkmodel.h declares. A family is a
 * row of model/families.c, a key one of model/keys.c, a tensor one of model/tensors.c. */
#ifndef HK_MODEL_H
#define HK_MODEL_H

#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hkmodel.h"

/* ---- families (model/families.c) ---- */

enum { /* tensors that the layers of a family have, each required there and an error elsewhere */
       HK_HAS_QKV_BIAS = 1 << 0,
       HK_HAS_QK_NORM = 1 << 1,      /* of each head */
       HK_HAS_WIDE_QK_NORM = 1 << 2, /* of all heads together */
       HK_HAS_POST_NORMS = 1 << 3,   /* of what attention and feed-forward part give */
       HK_HAS_ALL_BIASES = 1 << 4,   /* of all matrices but embedding and head */
       HK_HAS_NO_PRE_NORMS = 1 << 5,
       HK_HAS_NO_GATE = 1 << 6,
       HK_HAS_EXPERTS = 1 << 7,        /* in the place of the feed-forward part */
       HK_HAS_SPARSE_MOE = 1 << 8,     /* these as transformers names those of its first class */
       HK_HAS_SHARED_EXPERT = 1 << 9,  /* that all tokens have, with a gate */
       HK_HAS_SINKS = 1 << 10,         /* a score without a value for each head */
       HK_HAS_EXPERT_BIASES = 1 << 11, /* of experts, their router, and what attention gives */
       HK_HAS_NORM_BIASES = 1 << 20,
       HK_HAS_FULLY_CONNECTED =
           1 << 21,                 /* which is what transformers calls the matrix without gate */
       HK_HAS_FUSED_QKV = 1 << 22,  /* rows of queries, keys and values are one matrix */
       HK_HAS_FUSED_GATE = 1 << 23, /* and so are those of gate and up */
       HK_HAS_LAYER_POST_NORMS = 1 << 24, /* HK_HAS_POST_NORMS beside what others have, so named */
       HK_MAY_HAVE_QKV_BIAS = 1 << 25,
       HK_MAY_HAVE_LONGROPE = 1 << 26,    /* factors for short and for long texts */
       HK_HAS_SHARED_GATE = 1 << 12,      /* how much the shared expert counts */
       HK_HAS_CHOICE_BIAS = 1 << 13,      /* of experts, for choosing them alone */
       HK_MAY_HAVE_QK_NORM = 1 << 15,     /* in some models of the family */
       HK_HAS_FFN_NORM_BY_POST = 1 << 16, /* GGUF: the norm of the feed-forward part is named after
                                             what it follows */
};

enum {                               /* fields of config.json that a family's class has */
       HK_CONFIG_SOFT_CAPS = 1 << 0, /* attn_ and final_logit_softcapping */
       HK_CONFIG_MULTIPLIERS =
           1 << 1, /* embedding_, attention_, residual_multiplier, logits_scaling */
       HK_CONFIG_QUERY_SCALAR = 1 << 2, /* query_pre_attn_scalar */
};

struct hk_family {
    const char *model_type;   /* of config.json */
    const char *class_name;   /* of its "architectures" */
    const char *architecture; /* general.architecture, and what keys begin with */
    const char *also;         /* the same in files that only .hk knows; NULL: no other */
    unsigned tensors;
    bool pairs_in_gguf;   /* llama.cpp rotates neighbouring rows, so q and k are reordered for it */
    bool factors_in_gguf; /* llama.cpp takes rope_freqs.weight */
    bool slides;          /* config.json: sliding_window counts without use_sliding_window */
    uint32_t window;      /* where config.json has no sliding_window; 0: all */
    uint32_t whole_every; /* of so many layers the last has no window; 0: all have one */
    bool pairs_in_hf;     /* transformers rotates neighbouring rows */
    double rope_part;     /* where config.json has no partial_rotary_factor; 0: all of a head */
    bool tempers;         /* GGUF and config.json: queries grow with the position */
    double rope_base;     /* where config.json has no rope_theta; 0: 10000 */
    double window_rope_base;      /* likewise, of layers with a window; 0: they turn as all do */
    uint32_t no_rope_every;       /* of so many layers the last has no rope; 0: all have one */
    uint32_t shared_scale_layers; /* a model of so many scales scores by hidden size over heads */
    enum hk_norm_kind norm;
    enum hk_activation activation;
    bool norms_less_one;   /* transformers has norms' weights less one */
    bool scales_embedding; /* by the root of hidden_size */
    bool sigmoid_scores;   /* of experts, unless a file says otherwise; else softmax */
    bool experts_add_up;   /* GGUF: weights of the chosen experts do, unless it says otherwise */
    unsigned config;       /* fields that others do not have */
    uint32_t head_dim;     /* where config.json has none; 0: hidden_size / num_attention_heads */
    bool between_pairs;    /* hk_rope.between_pairs */
    bool only_gguf;        /* what transformers saves is not read */
    bool ties;             /* likewise, tie_word_embeddings */
    double config_epsilon; /* likewise, that of the norms */
    const char *epsilon_field; /* what it is called there; NULL: rms_norm_eps */
};

const struct hk_family *hk_family_of_type(struct hk_bytes model_type); /* NULL: unknown */
/* By general.architecture, the first row with it; NULL: unknown. *NAME is ARCHITECTURE, of static
 * storage. */
const struct hk_family *hk_family_of_architecture(struct hk_bytes architecture, const char **name);

/* The row of F's architecture that has experts; F where none has. */
const struct hk_family *hk_family_with_experts(const struct hk_family *f);

/* ---- keys (model/keys.c) ---- */

enum {                           /* of a key */
       HK_KEY_PREFIXED = 1 << 0, /* it begins with the architecture's name */
       HK_KEY_HIDEABLE =
           1 << 1, /* a GGUF may have it behind "hk." instead, for .hk alone to read */
       HK_KEY_IN_CONFIG = 1 << 2, /* config.json has a field that it is made from and becomes */
};

/* Each key, spelled here and nowhere else. OWN: as it stands; SIZE, SCALING and READ behind the
 * architecture's name. READ: config.json has no field for it. */
/* clang-format off */
#define HK_MODEL_KEY_LIST(X) \
    X(ARCHITECTURE,         "general.architecture",                 OWN) \
    X(ROPE_STYLE,           "hk.rope_style",                        OWN) \
    X(LOW_FREQ_FACTOR,      "hk.rope.low_freq_factor",              OWN) \
    X(HIGH_FREQ_FACTOR,     "hk.rope.high_freq_factor",             OWN) \
    X(BETA_FAST,            "hk.rope.beta_fast",                    OWN) \
    X(BETA_SLOW,            "hk.rope.beta_slow",                    OWN) \
    X(CONFIG,               "hk.hf.config",                         OWN) \
    X(GENERATION_CONFIG,    "hk.hf.generation_config",              OWN) \
    X(BLOCK_COUNT,          "block_count",                          SIZE) \
    X(CONTEXT_LENGTH,       "context_length",                       SIZE) \
    X(EMBEDDING_LENGTH,     "embedding_length",                     SIZE) \
    X(FEED_FORWARD_LENGTH,  "feed_forward_length",                  SIZE) \
    X(VOCAB_SIZE,           "vocab_size",                           SIZE) \
    X(EXPERT_COUNT,         "expert_count",                         SIZE) \
    X(EXPERT_USED_COUNT,    "expert_used_count",                    SIZE) \
    X(EXPERT_FFN_LENGTH,    "expert_feed_forward_length",           SIZE) \
    X(EXPERT_SHARED_FFN_LENGTH, "expert_shared_feed_forward_length", SIZE) \
    X(EXPERT_SHARED_COUNT, "expert_shared_count", SIZE) \
    X(EXPERT_WEIGHTS_SCALE, "expert_weights_scale", SIZE) \
    X(EXPERT_GATING, "expert_gating_func", SIZE) \
    X(EXPERT_GROUPS, "expert_group_count", SIZE) \
    X(EXPERT_GROUPS_USED, "expert_group_used_count", SIZE) \
    X(LEADING_DENSE, "leading_dense_block_count", SIZE) \
    X(NEXT_TOKEN_LAYERS, "nextn_predict_layers", SIZE) \
    X(EXPERT_WEIGHTS_NORM,  "expert_weights_norm",                  SIZE) \
    X(HEAD_COUNT,           "attention.head_count",                 SIZE) \
    X(HEAD_COUNT_KV,        "attention.head_count_kv",              SIZE) \
    X(KEY_LENGTH,           "attention.key_length",                 SIZE) \
    X(VALUE_LENGTH,         "attention.value_length",               SIZE) \
    X(NORM_EPSILON,         "attention.layer_norm_rms_epsilon",     SIZE) \
    X(LAYER_NORM_EPSILON,   "attention.layer_norm_epsilon",         SIZE) \
    X(ATTENTION_SCALE,      "attention.scale",                      SIZE) \
    X(ATTENTION_CAP,        "attn_logit_softcapping",               SIZE) \
    X(LOGITS_CAP,           "final_logit_softcapping",              SIZE) \
    X(EMBEDDING_SCALE,      "embedding_scale",                      SIZE) \
    X(RESIDUAL_SCALE,       "residual_scale",                       SIZE) \
    X(LOGITS_DIVISOR,       "logit_scale",                          SIZE) \
    X(CAUSAL,               "attention.causal",                     READ) \
    X(SLIDING_WINDOW,       "attention.sliding_window",             SIZE) \
    X(WINDOW_PATTERN,       "attention.sliding_window_pattern",     SIZE) \
    X(ROPE_DIMENSION_COUNT, "rope.dimension_count",                 SIZE) \
    X(ROPE_FREQ_BASE,       "rope.freq_base",                       SIZE) \
    X(ROPE_FREQ_BASE_SWA,   "rope.freq_base_swa",                   SIZE) \
    X(ROPE_SCALE_LINEAR,    "rope.scale_linear",                    SIZE) \
    X(SCALING_TYPE,         "rope.scaling.type",                    SCALING) \
    X(SCALING_FACTOR,       "rope.scaling.factor",                  SCALING) \
    X(SCALING_ORIGINAL,     "rope.scaling.original_context_length", SCALING) \
    X(SCALING_ATTN_FACTOR,  "rope.scaling.attn_factor",             SIZE) \
    X(YARN_BETA_FAST,       "rope.scaling.yarn_beta_fast",          SIZE) \
    X(YARN_BETA_SLOW,       "rope.scaling.yarn_beta_slow",          SIZE) \
    X(YARN_ATTN_FACTOR,     "rope.scaling.yarn_attn_factor",        READ) \
    X(YARN_EXT_FACTOR,      "rope.scaling.yarn_ext_factor",         READ) \
    X(YARN_LOG_MULTIPLIER,  "rope.scaling.yarn_log_multiplier",     SIZE) \
    X(TEMPERATURE_SCALE,    "attention.temperature_scale",          SIZE)
/* clang-format on */

enum hk_model_key {
#define X(key, name, flags) HK_KEY_##key,
    HK_MODEL_KEY_LIST(X)
#undef X
        HK_MODEL_KEYS
};
unsigned hk_key_flags(enum hk_model_key key);

/* Of the file, not of the model. */
#define HK_FILE_NAME_KEY "general.name"
#define HK_FILE_TYPE_KEY "general.file_type"

struct hk_key_text {
    char s[96];
};
/* "llama.block_count"; or "hk.rope_style", which no ARCHITECTURE stands before. */
struct hk_key_text hk_key_text(const char *architecture, enum hk_model_key key);
/* "hk.rope.scaling.type" of a key that is HK_KEY_HIDEABLE. */
struct hk_key_text hk_hidden_key_text(enum hk_model_key key);
/* Which key TEXT is in a model of ARCHITECTURE; HK_MODEL_KEYS: none. */
enum hk_model_key hk_key_of_text(const char *architecture, struct hk_bytes text);

/* Metadata to look keys up in. */
struct hk_key_source {
    const struct hk_kv *(*find)(const void *from, const char *key);
    const void *from;
    size_t max_layers; /* as many tensors as there are */
};
struct hk_key_source hk_keys_of_file(const struct hk_file *f);
struct hk_key_source hk_keys_of_list(const struct hk_kvlist *l); /* of tensors nothing is known */
/* NULL where it is absent. */
const struct hk_kv *hk_key_find(const struct hk_key_source *s, const char *architecture,
                                enum hk_model_key key);

/* ---- hyperparameters (model/hyperparameters.c) ---- */

/* The family and the architecture's name, as hk_family_of_architecture(). HK_E_MISSING,
 * HK_E_UNSUPPORTED: there is none, or it is not known. */
enum hk_status hk_family_read(const struct hk_key_source *s, const struct hk_family **family,
                              const char **architecture, struct hk_error *err);

/* Which key has the epsilon of the family's norms. */
enum hk_model_key hk_epsilon_key(const struct hk_family *family);

enum hk_params_use {
    HK_PARAMS_TO_RUN,  /* refuse what is not run; what has no default must be there */
    HK_PARAMS_TO_KNOW, /* sizes that are absent are 0 */
};
enum hk_status hk_params_read(const struct hk_key_source *s, enum hk_params_use use,
                              struct hk_model_params *out, struct hk_error *err);
/* HK_E_MISSING: KEY, a size that P was read without and that is needed now. */
enum hk_status hk_params_need(const struct hk_model_params *p, enum hk_model_key key,
                              uint32_t value, struct hk_error *err);

/* ---- ropes (model/rope.c) ---- */

/* "linear", ...; "none". */
const char *hk_rope_name(enum hk_rope_kind kind);
bool hk_rope_kind_of(struct hk_bytes name, enum hk_rope_kind *out);
/* What HK_KEY_ROPE_STYLE is where rows that rotate together are HALVES of a head apart, or
 * neighbours. */
const char *hk_rope_style(bool halves);
/* What llama3 scaling divides the frequency of pair I of DIMS / 2 by, as rope_freqs.weight has it.
 */
float hk_rope_factor(const struct hk_rope *r, uint32_t dims, uint32_t i);

/* The number of the pair, of DIMS / 2, that turns TURNS times in the original context. */
double hk_rope_pair_of_turns(const struct hk_rope *r, uint32_t dims, double turns);
/* What yarn multiplies cosine and sine with, where SCALE is 1. */
double hk_yarn_magnitude(double factor, double scale);

/* ---- tensors (model/tensors.c) ---- */

/* What an extent of a tensor is. */
enum hk_extent {
    HK_EXTENT_ONE, /* of a vector, which has no rows */
    HK_EXTENT_HIDDEN,
    HK_EXTENT_FFN,
    HK_EXTENT_VOCAB,
    HK_EXTENT_QUERIES, /* heads * key_dim */
    HK_EXTENT_KEYS,    /* kv_heads * key_dim */
    HK_EXTENT_VALUES,  /* kv_heads * value_dim */
    HK_EXTENT_MIXED,   /* heads * value_dim */
    HK_EXTENT_HEAD,    /* key_dim */
    HK_EXTENT_PAIRS,   /* rope_dims / 2 */
    HK_EXTENT_QKV,     /* queries, keys and values together */
    HK_EXTENT_TWO_FFN,
    HK_EXTENT_EXPERTS,
    HK_EXTENT_EXPERT_FFN,
    HK_EXTENT_SHARED_FFN,
    HK_EXTENT_HEADS,
    HK_EXTENT_SINGLE, /* a matrix of one row */
};

enum hk_rotates { HK_ROTATES_NOT, HK_ROTATES_QUERIES, HK_ROTATES_KEYS };

enum hk_layers { HK_LAYERS_ALL, HK_LAYERS_DENSE, HK_LAYERS_SPARSE }; /* without, with experts */

struct hk_tensor_row { /* a tensor that models have, once or in each layer */
    enum hk_tensor_role role;
    const char *gguf;   /* its name, behind "blk.N." if LAYER */
    const char *hf;     /* likewise, behind "model.layers.N."; NULL: transformers has none. Of a
                           tensor an expert, "*" stands for the expert's number */
    unsigned needs;     /* of hk_family.tensors; 0: every family has it, but for those with... */
    unsigned without;   /* ...any of these */
    uint8_t rows, cols; /* enum hk_extent */
    uint8_t rotates;    /* enum hk_rotates */
    bool layer, optional;
    bool experts;      /* ROWS times COLS an expert, in a stack */
    bool wide_in_gguf; /* a matrix that llama.cpp needs in f32 */
    uint8_t among;     /* enum hk_layers */
    bool numbers;      /* not a matrix that something is multiplied with: biases */
};
const struct hk_tensor_row *hk_tensor_row(size_t i); /* NULL past the last */
/* Whether models of FAMILY have it. */
bool hk_tensor_row_is_of(const struct hk_tensor_row *row, const struct hk_family *family);
/* Its whole name in LAYER, as GGUF (and .hk) or transformers have it, to OUT (HK_MAX_NAME + 1). */
void hk_tensor_row_name(const struct hk_tensor_row *row, uint32_t layer, bool gguf, char *out);
/* What GGUF, and what transformers, calls a tensor that is in no layer. */
const char *hk_tensor_role_name(enum hk_tensor_role role);
const char *hk_tensor_role_name_in_hf(enum hk_tensor_role role);
uint64_t hk_extent_of(const struct hk_model_params *p, enum hk_extent extent);

/* Whether transformers has the stack as a tensor an expert. */
bool hk_tensor_row_by_expert(const struct hk_tensor_row *row);

struct hk_tensor_place { /* of a tensor in a model */
    const struct hk_tensor_row *row;
    uint32_t layer, expert; /* 0 where it is of none */
};
/* Where NAME, as GGUF (and .hk) or transformers have it, belongs. HK_E_UNSUPPORTED: it is no tensor
 * of FAMILY, whose layers are counted from 0 to LAYERS - 1. */
enum hk_status hk_tensor_place_find(const struct hk_family *family, uint32_t layers,
                                    struct hk_bytes name, bool gguf, struct hk_tensor_place *out,
                                    struct hk_error *err);
/* The name of it, or of the stack that it is a slice of, to OUT (HK_MAX_NAME + 1 bytes). */
void hk_tensor_place_name(const struct hk_tensor_place *place, bool gguf, char *out);

/* Write the other name of NAME, terminated, to OUT (HK_MAX_NAME + 1 bytes). HK_E_UNSUPPORTED: it is
 * no tensor of FAMILY, or that of one expert, which has no name in a .hk. */
enum hk_status hk_name_from_hf(const struct hk_family *family, uint32_t layers, struct hk_bytes hf,
                               char *out, struct hk_error *err);
enum hk_status hk_name_to_hf(const struct hk_family *family, uint32_t layers, struct hk_bytes gguf,
                             char *out, struct hk_error *err);
/* Whether rows that rotate together lie in P's model as in transformers. */
static inline bool hk_turns_as_in_hf(const struct hk_model_params *p)
{
    return p->halves != p->family->pairs_in_hf;
}
/* Heads of the tensor called GGUF, queries or keys, whose rows rotate; 0 of any other. */
uint32_t hk_rotating_heads(const struct hk_model_params *p, struct hk_bytes gguf);

/* hk_is_of_next_layers() by the name that transformers has, of LAYERS with NEXT behind them. */
bool hk_is_of_next_layers_in_hf(uint32_t layers, uint32_t next, struct hk_bytes name);

/* Whether llama.cpp needs the matrix called GGUF in f32. */
bool hk_tensor_is_wide_in_gguf(struct hk_bytes gguf);

bool hk_has_shape_of(const struct hk_tensor *t, const struct hk_model_tensor *wanted);
/* Whether A and B of F are alike in all but their names, bytes and all. */
bool hk_tensors_are_equal(const struct hk_file *f, const struct hk_tensor *a,
                          const struct hk_tensor *b);
/* Whether the output matrix of F's model is its embedding: it is not there or refers to it; or is
 * equal to it, where ALSO_EQUAL. */
enum hk_status hk_output_is_tied(const struct hk_file *f, bool also_equal, bool *tied,
                                 struct hk_error *err);

#endif
