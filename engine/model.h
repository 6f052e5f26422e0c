/* model.h: what the engine's files share: parameters, the table of architectures, bound weights. */
#ifndef HKE_MODEL_H
#define HKE_MODEL_H

#include "engine/engine.h"

/* ---- architectures (arch.c) ---- */

/* Tensors that a layer has or has not, by architecture. */
enum hke_extra {
    HKE_Q_BIAS = 1 << 0,
    HKE_K_BIAS = 1 << 1,
    HKE_V_BIAS = 1 << 2,
    HKE_QKV_BIAS = HKE_Q_BIAS | HKE_K_BIAS | HKE_V_BIAS,
    HKE_Q_NORM = 1 << 3,
    HKE_K_NORM = 1 << 4,
    HKE_QK_NORM = HKE_Q_NORM | HKE_K_NORM,
};

struct hke_arch {
    const char *name;
    unsigned extras; /* enum hke_extra: required where set, forbidden where not */
    bool neox;       /* unless hk.rope_style says otherwise */
};

/* The row of F's general.architecture. HK_E_UNSUPPORTED names another one. */
enum hk_status hke_arch_of(const struct hk_file *f, const struct hke_arch **out,
                           struct hk_error *err);

/* ---- hyperparameters (params.c) ---- */

/* Refuse what the architecture's name does not tell but the engine does not run: sliding windows,
 * experts, rope scalings. Before any content is looked at. */
enum hk_status hke_check_features(const struct hk_file *f, const struct hke_arch *arch,
                                  struct hk_error *err);
/* All of *OUT but vocab and tokens. */
enum hk_status hke_read_params(const struct hk_file *f, const struct hke_arch *arch,
                               struct hke_params *out, struct hk_error *err);

/* ---- weights (weights.c) ---- */

struct hke_matrix { /* [rows][cols] of any decodable type; decoder NULL: absent */
    struct hk_decoder *decoder;
    size_t rows, cols;
};

struct hke_layer { /* vectors are decoded once; NULL: absent */
    struct hke_matrix q, k, v, o, gate, up, down;
    float *attn_norm, *ffn_norm;
    float *q_bias, *k_bias, *v_bias;
    float *q_norm, *k_norm;
};

struct hke_model {
    const struct hk_file *file;
    const struct hke_arch *arch;
    struct hke_params params;
    struct hke_matrix embedding, output; /* output.decoder NULL: the embedding serves */
    float *output_norm;
    float *rope_factors; /* rope_dims / 2 divisors of the frequencies; NULL: all 1 */
    struct hke_layer *layers;
};

/* Every tensor of F has a type that can be decoded. HK_E_UNSUPPORTED names tensor and type. */
enum hk_status hke_check_types(const struct hk_file *f, struct hk_error *err);
/* Bind every tensor of M's file to its place. HK_E_MISSING, HK_E_FORMAT: one is absent, misshapen,
 * forbidden by the architecture or of no use in it. M is freed by the caller in either case. */
enum hk_status hke_bind_weights(struct hke_model *m, struct hk_error *err);
void hke_free_weights(struct hke_model *m);

/* ---- the cache (kv.c) ---- */

enum { HKE_SEGMENT = 256 }; /* positions; attention's unit, so results hang on it */

/* Positions SEGMENT * i onwards: turns of the rope, then keys and values of each layer and head,
 * position by position. f32: this is the path that others are measured against. */
struct hke_cache {
    const struct hke_model *model;
    float **segment;
    size_t segments, allocated;
};

enum hk_status hke_cache_init(struct hke_cache *c, const struct hke_model *m, size_t positions,
                              struct hk_error *err);
void hke_cache_free(struct hke_cache *c);
/* Have room for POSITIONS, which must not exceed those of hke_cache_init(). */
enum hk_status hke_cache_reserve(struct hke_cache *c, size_t positions, struct hk_error *err);
/* Cosine and sine pairs of POSITION. */
const float *hke_cache_turns(const struct hke_cache *c, size_t position);
/* Where LAYER's HEAD keeps its key or value of POSITION; those of later positions of the segment
 * follow. */
float *hke_cache_key(const struct hke_cache *c, size_t layer, size_t head, size_t position);
float *hke_cache_value(const struct hke_cache *c, size_t layer, size_t head, size_t position);

/* ---- the rope's table (rope.c) ---- */

/* cosine, sine, ... of every pair at POSITION. Computed in double, rounded once. */
void hke_rope_turns(const struct hke_model *m, size_t position, float *out);

/* ---- one forward pass (forward.c) ---- */

struct hke_context {
    const struct hke_model *model;
    struct hke_cache cache;
    size_t positions, used, batch;
    size_t logit_rows; /* positions whose logits are computed together */
    bool every_logit;
    float *arena;      /* all below */
    float *x;          /* batch x width: the stream between layers */
    float *h;          /* batch x width: normed */
    float *q;          /* batch x heads * key_dim */
    float *k, *v;      /* batch x kv_heads * (key_dim or value_dim) */
    float *att;        /* batch x heads * value_dim */
    float *gate, *up;  /* batch x ffn */
    float *row;        /* HKE_ROW_GROUP decoded rows of the widest matrix */
    float *scores;     /* HKE_SEGMENT */
    float *part;       /* value_dim: one segment's values */
    float *logits;     /* logit_rows x vocab */
    const float *last; /* of the last position evaluated */
};

/* Rows of a weight that are decoded together, then used for every token of a batch. */
enum { HKE_ROW_GROUP = 4 };

/* Compute N positions (at most the batch) after those used, into x. Room was reserved. */
void hke_forward(struct hke_context *c, const uint32_t *id, size_t n);
/* Logits of N rows of x from FIRST on (at most logit_rows), into logits. */
void hke_forward_logits(struct hke_context *c, size_t first, size_t n);

#endif
