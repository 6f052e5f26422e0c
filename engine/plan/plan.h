/* plan.h: what a model computes, as a short list of fused steps with their weights. It is made
 * once, when the model is loaded, and never changes. A backend (engine/backend.h) runs it. */
#ifndef HKE_PLAN_H
#define HKE_PLAN_H

#include "engine/engine.h"

static inline size_t hke_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- weights ---- */

/* Matrices [STACK][ROWS][COLS] of one tensor: all of it, or of each of its matrices the rows from
 * ROW_BEGIN on. Any type that can be decoded. */
struct hke_weight {
    const struct hk_tensor *tensor;
    struct hk_decoder *decoder;
    const uint8_t *data; /* of the whole tensor, in the file, if that is nothing but rows of TYPE;
                            else NULL */
    unsigned type;       /* enum hk_type */
    size_t stack, rows, cols;
    size_t row_begin, tensor_rows; /* in each matrix of the tensor */
};

/* Bind ROWS rows, from ROW_BEGIN on, of each matrix of T to *OUT. T has two dimensions or three,
 * and those rows. */
HK_MUST enum hk_status hke_bind_weight(struct hke_weight *out, const struct hk_file *f,
                                       const struct hk_tensor *t, size_t row_begin, size_t rows,
                                       struct hk_error *err);
void hke_unbind_weight(struct hke_weight *w);
/* Floats as those of weights lie in a file. */
void hke_to_file_order(float *x, size_t n);

/* Number in the tensor of row ROW of W's matrix INDEX. */
static inline size_t hke_weight_row(const struct hke_weight *w, size_t index, size_t row)
{
    return index * w->tensor_rows + w->row_begin + row;
}

/* ---- steps ---- */

/* What steps hand on: so many numbers for each token of a batch. */
enum hke_buffer {
    HKE_RESIDUAL, /* the sum of what all layers so far gave */
    HKE_DELTA,    /* what the next step adds to it */
    HKE_QUERIES,
    HKE_KEYS,
    HKE_VALUES,
    HKE_ATTENDED,
    HKE_FFN,    /* inside the feed-forward part; while this and those below are in use, the four
                   before are not */
    HKE_SCORES, /* of all experts */
    HKE_SHARED_GATE, /* one number: how much the shared expert counts, before the sigmoid */
    HKE_EXPERT_FFN,  /* inside the experts that are chosen */
    HKE_EXPERT_OUT,  /* what each of these gives */
    HKE_BUFFERS
};

enum hke_norm_kind { HKE_NO_NORM, HKE_RMS_NORM, HKE_LAYER_NORM };

struct hke_norm {
    enum hke_norm_kind kind;
    const float *weight; /* NULL: ones */
    const float *bias;   /* of a layer norm; NULL: none */
    float epsilon;
};

enum hke_store { HKE_STORE_NOTHING, HKE_STORE_KEYS, HKE_STORE_VALUES };

enum { HKE_NO_ROPE = -1 };

/* One matrix of a product, and what its result goes through, in this order. */
struct hke_operand {
    const struct hke_weight *weight;
    enum hke_buffer to;
    const float *bias;        /* NULL: none */
    float scale;              /* 0: none */
    float soft_cap;           /* y = soft_cap * tanh(y / soft_cap); 0: none */
    struct hke_norm row_norm; /* of all rows together, before heads */
    size_t heads, head_dim;   /* the following is done to each head; 0: nothing is */
    struct hke_norm norm;     /* of a head */
    float temperature;        /* times 1 + this * ln(1 + whole part of position / period) */
    size_t period;            /* 0: nothing of that */
    int rope;                 /* index of the plan's rope table, or HKE_NO_ROPE */
    enum hke_store store;     /* into the KV cache */
    bool adds;                /* to what is in TO; of a step with one operand */
    bool gated;               /* of a step that ADDS: times the sigmoid of SHARED_GATE */
};

/* Of the first operand; times the second where there are two, in place of the first. */
enum hke_activation {
    HKE_NO_ACTIVATION,
    HKE_SILU,
    HKE_GELU, /* the tanh form */
    HKE_GELU_ERF,
    HKE_RELU_2,         /* squares of what is above 0 */
    HKE_CLAMPED_SWIGLU, /* (up + 1) * gate * sigmoid(1.702 gate); always of two, within LIMIT */
};

/* How a token chooses experts (kernels/kernels.h says it in full). */
struct hke_router {
    size_t experts, chosen;     /* of how many, and how many */
    bool sigmoid;               /* of each score; else softmax over all */
    const float *bias;          /* [experts], added for the choice alone; or NULL */
    size_t groups, kept_groups; /* from the best groups only; 0: from all */
    size_t group_best;          /* a group is as good as the sum of its best, 1 or 2 of them */
    bool normalise;             /* by the sum of those chosen, plus EPSILON; then times SCALE */
    float epsilon, scale;
    const float *expert_scale; /* [experts], and times this of the expert; or NULL */
};

enum hke_step_kind {
    HKE_EMBED,   /* rows of the embedding to the residual */
    HKE_PRODUCT, /* matrices times IN: before it residual add, norm, rounding; after it as the
                    operands say, or the activation */
    HKE_ATTEND,  /* queries to attended values, over what is in the KV cache */
    HKE_ROUTE,   /* a PRODUCT whose first operand gives SCORES; from them the experts of each token,
                    and their weights */
    HKE_EXPERTS_UP,   /* a PRODUCT for each expert that is chosen, whose operands are stacks: of the
                         tokens that have chosen it, to EXPERT_FFN */
    HKE_EXPERTS_DOWN, /* likewise of EXPERT_FFN, to EXPERT_OUT; then the sum of what a token's
                         experts give, times their weights and rounded, best expert first, to DELTA
                       */
    HKE_LOGITS,       /* residual add, norm, product, for tokens whose logits are wanted */
};

enum { HKE_MAX_OPERANDS = 4 };

struct hke_step {
    enum hke_step_kind kind;
    uint32_t layer;
    bool wanted_only; /* what it gives is of use only to tokens whose logits are wanted */

    enum hke_buffer in;
    bool add;                   /* DELTA to the residual first */
    struct hke_norm delta_norm; /* of DELTA before that */
    struct hke_norm norm;       /* then this, of the residual */
    struct hke_operand operand[HKE_MAX_OPERANDS];
    size_t operands;
    enum hke_activation activation;
    float limit; /* of HKE_CLAMPED_SWIGLU */

    uint32_t cache, cache_layer; /* what it stores to or attends to: class, and layer in that */
    uint32_t heads;              /* ATTEND: of queries */
    float scale;                 /* ATTEND: of scores */
    float soft_cap;              /* ATTEND: of scores, then; 0: none */
    const float *sinks;          /* ATTEND: of each head a score without value; NULL: none */
    struct hke_router router;    /* ROUTE and those of experts */
};

/* ---- a plan ---- */

/* Layers whose keys and values have one shape and are kept equally long. */
struct hke_cache_class {
    uint32_t layers, kv_heads, key_dim, value_dim;
    uint32_t window; /* positions that a token sees, itself among them; 0: all */
    bool chunked;    /* those behind the last multiple of WINDOW, instead of the last ones */
};

/* The first position that the token at POSITION sees. */
static inline size_t hke_first_visible(const struct hke_cache_class *c, size_t position)
{
    if (c->window == 0)
        return 0;
    if (c->chunked)
        return position - position % c->window;
    return position < c->window ? 0 : position + 1 - c->window;
}

enum { HKE_DEFAULT_BATCH = 512 };

/* Positions that a sequence with windows can always go back. */
enum { HKE_REWIND = HKE_BLOCK };

static inline size_t hke_blocks_for(size_t positions)
{
    return (positions + HKE_BLOCK - 1) / HKE_BLOCK;
}

/* Blocks that have to be there at once for a sequence that goes on with batches of at most BATCH,
 * of which the first may be full but for one position. */
static inline size_t hke_window_blocks(const struct hke_cache_class *c, size_t batch)
{
    return hke_blocks_for(c->window + HKE_REWIND + batch) + 1;
}

/* Pair i is rotated by frequency[i] radians from one position to the next; by FAR[i] where a
 * sequence may have more than NEAR positions. */
struct hke_rope_table {
    double *frequency;
    double *far; /* NULL: there is no difference */
    size_t near;
    size_t pairs;
    double magnitude; /* of what is rotated */
    bool halves;      /* elements of a pair are PAIRS apart, not neighbours */
};

enum { HKE_MAX_CACHES = 4, HKE_MAX_ROPES = 4 };

struct hke_plan {
    const struct hk_file *file;
    size_t hidden; /* numbers of a token in the residual */
    size_t vocab;  /* rows of the embedding, and logits of a token */
    uint32_t layers;
    size_t elems[HKE_BUFFERS]; /* of a token */

    struct hke_step *step;
    size_t steps;
    struct hke_weight *weight; /* all matrices */
    size_t weights;
    float **vector; /* all norms and biases, decoded */
    size_t vectors;
    struct hke_cache_class cache[HKE_MAX_CACHES];
    size_t caches;
    struct hke_rope_table rope[HKE_MAX_ROPES];
    size_t ropes;
};

/* The plan of the model in F, whose parameters are P. HK_E_MISSING, HK_E_FORMAT: a tensor is
 * absent, misshapen, forbidden by the family or of no use in it. */
HK_MUST enum hk_status hke_plan_new(struct hke_plan **out, const struct hk_file *f,
                                    const struct hk_model_params *p, struct hk_error *err);
/* *P becomes NULL. NULL is allowed. */
void hke_plan_free(struct hke_plan **p);

#endif
