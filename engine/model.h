/* model.h: what the engine's files share: bound weights,
 * the cache, a context's buffers, a pass. */
#ifndef HKE_MODEL_H
#define HKE_MODEL_H

#include "engine/cpu/pool.h"
#include "engine/engine.h"
#include "kernels/kernels.h"

/* ---- weights (weights.c) ---- */

struct hke_matrix {                 /* [rows][cols] of any decodable type */
    const struct hk_tensor *tensor; /* NULL: absent */
    struct hk_decoder *decoder;
    const uint8_t *data; /* in the file, whole rows of TYPE for which there are kernels; or NULL */
    unsigned type;       /* enum hkk_type */
    size_t rows, cols;
    struct hke_low_rank *low; /* what adapters add, or NULL */
};

struct hke_layer { /* vectors are decoded once; NULL: absent */
    struct hke_matrix q, k, v, o, gate, up, down;
    float *attn_norm, *ffn_norm;
    float *q_bias, *k_bias, *v_bias;
    float *q_norm, *k_norm;
};

struct hke_model {
    const struct hk_file *file;
    struct hk_model_params params;
    uint32_t tokens; /* that the file's vocabulary names; params.vocab if it has none */
    struct hke_matrix embedding, output; /* output.tensor NULL: the embedding serves */
    struct hke_low_rank *embedding_low;  /* what adapters add to rows of the embedding, or NULL */
    float *output_norm;
    float *rope_factors;    /* rope_dims / 2 divisors of the frequencies; NULL: all 1 */
    double *rope_frequency; /* rope_dims / 2: turn of a pair from one position to the next */
    struct hke_layer *layers;
    size_t most_rank; /* of what adapters add to one matrix; 0: nothing */
};

/* Every tensor of F has a type that can be decoded. HK_E_UNSUPPORTED names tensor and type. */
enum hk_status hke_check_types(const struct hk_file *f, struct hk_error *err);
/* Bind every tensor of M's file to its place. HK_E_MISSING, HK_E_FORMAT: one is absent, misshapen,
 * forbidden by the architecture or of no use in it. M is freed by the caller in either case. */
enum hk_status hke_bind_weights(struct hke_model *m, struct hk_error *err);
/* Every matrix can be multiplied with rounded activations. HK_E_UNSUPPORTED names one that cannot,
 * and its type. */
enum hk_status hke_check_kernels(const struct hke_model *m, struct hk_error *err);
void hke_free_weights(struct hke_model *m);

/* The matrix that logits are made with. */
static inline const struct hke_matrix *hke_output(const struct hke_model *m)
{
    return m->output.tensor != NULL ? &m->output : &m->embedding;
}

/* ---- the rope's table (rope.c) ---- */

/* The frequencies of M, whose parameters and factors are known. */
enum hk_status hke_rope_prepare(struct hke_model *m, struct hk_error *err);
/* cosine, sine, ... of every pair at POSITION. Computed in double, rounded once. */
void hke_rope_turns(const struct hke_model *m, size_t position, float *out);

/* ---- the cache (kv.c) ---- */

/* HKK_SEGMENT positions of all layers. */
struct hke_segment {
    float *turns; /* of the rope: rope_dims for each position. Start of the allocation */
    struct hkk_attention *part; /* [HKE_SPLIT_TOKENS][heads]: what the segment alone gives */
    uint16_t *halves;           /* keys and values as kernels.h lays them out, layer by layer */
};

struct hke_cache {
    const struct hke_model *model;
    struct hke_segment *segment;
    size_t segments, allocated;
    bool huge_pages;
};

enum hk_status hke_cache_init(struct hke_cache *c, const struct hke_model *m, size_t positions,
                              struct hk_error *err);
void hke_cache_free(struct hke_cache *c);
/* Have room for POSITIONS, which must not exceed those of hke_cache_init(). */
enum hk_status hke_cache_reserve(struct hke_cache *c, size_t positions, struct hk_error *err);
/* Cosine and sine pairs of POSITION. */
const float *hke_cache_turns(const struct hke_cache *c, size_t position);
/* The part of segment SEGMENT that LAYER's HEAD (of keys and values) has. */
uint16_t *hke_cache_keys(const struct hke_cache *c, size_t layer, size_t head, size_t segment);
uint16_t *hke_cache_values(const struct hke_cache *c, size_t layer, size_t head, size_t segment);

/* ---- a context's buffers (buffers.c) ---- */

enum {
    HKE_ROW_GROUP = 16,    /* rows that are handed out together, and decoded together */
    HKE_FFN_ROWS = 256,    /* most rows of the gate that a worker takes at once */
    HKE_TOGETHER = 3,      /* most matrices with the same input */
    HKE_SPLIT_TOKENS = 16, /* at most these have the segments of their past shared out */
};

struct hke_worker { /* what a thread has for itself */
    void *scratch;  /* of a product or of attention */
    float *row;     /* HKE_ROW_GROUP decoded rows of the widest matrix; NULL: none is decoded */
    float *up;      /* batch x HKE_FFN_ROWS */
    struct hkk_query *query;       /* queries attended together */
    struct hkk_attention *running; /* likewise: what they have from the segments so far */
    float *part;                   /* likewise x value_dim: what the next segment gives */

    /* Where a pass has one token, as the context's members of these names. */
    float *x, *h;
    void *acts[HKK_KINDS];
    float *low[HKE_TOGETHER];
};

struct hke_context {
    const struct hke_model *model;
    const struct hkk_table *kernels;
    struct hke_pool *pool;
    enum hke_activations activations;
    struct hke_cache cache;
    size_t positions, used, batch;
    size_t logit_rows; /* positions whose logits are computed together */
    bool every_logit, huge_pages;

    void *arena;               /* all below */
    float *x;                  /* batch x width: the stream between layers */
    float *h;                  /* batch x width: normed, or what a layer adds to the stream */
    float *q;                  /* batch x heads * key_dim */
    float *k, *v;              /* batch x kv_heads * (key_dim or value_dim) */
    float *att;                /* batch x heads * value_dim */
    float *gate;               /* batch x ffn; in the memory of q, k, v and att */
    void *acts[HKK_KINDS];     /* rounded activations of the product that is next, of each kind */
    void *tiles[HKK_KINDS];    /* the same in tiles, or NULL */
    float *low[HKE_TOGETHER];  /* batch x most_rank: what adapters make of the input; or NULL */
    float *logits;             /* logit_rows x vocab */
    struct hke_worker *worker; /* one for each of the pool */
    const float *last;         /* logits of the last position evaluated */
};

/* memory.c: SIZE bytes (a multiple of HKK_ALIGN), aligned to HKK_ALIGN; free() them. HUGE_PAGES: on
 * large pages, where they fill some. */
void *hke_alloc(size_t size, bool huge_pages);

/* Set up the buffers of C, whose options are settled. */
enum hk_status hke_buffers_new(struct hke_context *c, struct hk_error *err);
void hke_buffers_free(struct hke_context *c);

/* Tokens whose queries of a head of keys are attended together: about HKK_QUERIES. */
size_t hke_query_tokens(const struct hk_model_params *p);

/* ---- one pass over a batch: every worker of the pool in step ---- */

struct hke_pass {
    struct hke_context *c;
    const uint32_t *id;
    size_t n;           /* tokens */
    size_t first, rows; /* logits are wanted of the tokens FIRST .. FIRST+ROWS-1, for now */
};

/* Whether the steps between products are done by every worker for itself. */
static inline bool hke_pass_alone(const struct hke_pass *p)
{
    return p->n == 1;
}

/* A matrix, where its product goes, y[t * rows + row], and how many rows stay together. */
struct hke_product {
    const struct hke_matrix *w;
    float *y;
    size_t unit;
};

/* What a product is made with: the numbers as they are, and rounded in each way that is needed. */
struct hke_input {
    struct hkk_acts as[HKK_KINDS];
    unsigned kinds;                           /* bits of enum hkk_kind */
    const struct hke_matrix *w[HKE_TOGETHER]; /* COUNT matrices that it is multiplied with */
    float *low[HKE_TOGETHER];                 /* of each: [n][rank], set by hke_lower() */
    size_t count;
};

/* matmul.c: X is [n][cols]; W (COUNT matrices) tells what kinds are needed. Rounded in memory that
 * all share, or OWN where each is alone. */
void hke_input_of(const struct hke_pass *p, const struct hke_worker *own, const float *x, size_t n,
                  const struct hke_matrix *const *w, size_t count, struct hke_input *in);
/* Round token T of IN, whose numbers are complete. */
void hke_input_round(const struct hke_pass *p, const struct hke_input *in, size_t t);
/* The same for all tokens, shared among the workers, then a barrier; no barrier where nothing is to
 * be rounded or each worker is alone. */
void hke_input_round_all(const struct hke_pass *p, const struct hke_input *in);
/* This worker's next share of COUNT products: units [*BEGIN, *END), counted through all matrices.
 * False where nothing is left; a barrier has to follow then. */
bool hke_multiply_some(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                       const struct hke_product *to, size_t count, size_t *begin, size_t *end);
/* All of this worker's share of one product, y[t * rows + row]. */
void hke_multiply(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                  const struct hke_matrix *w, float *y);
/* y = silu(gate x) * (up x), likewise. */
void hke_multiply_gated(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in, const struct hke_matrix *gate,
                        const struct hke_matrix *up, float *y);

/* As weights lie in a file. */
void hke_make_little(float *x, size_t n);

/* low_rank.c: what adapters make of IN, whose numbers are complete: shared among the workers, then
 * a barrier; neither where IN's matrices have no adapters, no barrier where each worker is alone.
 */
void hke_lower(const struct hke_pass *p, const struct hke_worker *own, const struct hke_input *in);
/* Add that to rows [BEGIN, END) of W's product, y[t * stride], y[t * stride + 1], ... */
void hke_raise(const struct hke_input *in, const struct hke_matrix *w, size_t begin, size_t end,
               float *y, size_t stride);
/* The row of the embedding for TOKEN, and what adapters add to it, to X. */
void hke_embed(const struct hke_model *m, uint32_t token, float *x);
void hke_low_rank_free(struct hke_low_rank **low);

/* attention.c: C->att of the tokens from FROM on, whose keys and values are in the cache; then a
 * barrier. */
void hke_attend(const struct hke_pass *p, struct hke_worker *own, size_t layer, size_t from);

/* How many of TOTAL things, none larger than MOST, a worker takes at once. */
size_t hke_grain(const struct hke_context *c, size_t total, size_t most);

/* forward.c: compute N positions (at most the batch) after those used, and logits of the ROWS (at
 * most logit_rows) from FIRST on into c->logits; of several positions the stream stays in x from
 * FIRST on. Room was reserved. Nothing is allocated, and only waiting calls the system. */
void hke_forward(struct hke_pass *p);
/* Logits of other rows of the last pass, which was one of several positions. */
void hke_forward_logits(struct hke_pass *p);

#endif
