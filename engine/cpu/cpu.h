/* cpu.h: what the files of the CPU's backend share: the device and its buffers, the KV cache, a
 * pass over a batch. */
#ifndef HKE_CPU_H
#define HKE_CPU_H

#include <stdatomic.h>

#include "engine/backend.h"
#include "engine/cpu/pool.h"
#include "engine/cpu/residency.h"
#include "engine/cpu/sys.h"
#include "kernels/kernels.h"

_Static_assert((int)HKE_BLOCK == (int)HKK_SEGMENT, "kernels attend to a block");

enum {
    HKE_ROW_GROUP = 16,    /* rows that are handed out together, and decoded together */
    HKE_FFN_ROWS = 256,    /* most rows of the gate that a worker takes at once */
    HKE_SPLIT_TOKENS = 16, /* at most these have the blocks of their past shared out */
};

/* Which experts the tokens of a pass have chosen: K each, best first. A place is one token with one
 * of its experts; places are numbered by expert, then by token. */
struct hke_routes {
    uint32_t *expert; /* [n][k] */
    float *weight;    /* [n][k] */
    uint32_t *place;  /* [n][k] */
    uint32_t *token;  /* [n * k]: of each place */
    uint32_t *begin;  /* [experts + 1]: the first place of each expert */
    uint32_t *active; /* [experts]: those with places, */
    size_t actives;   /* so many */
};

struct hke_worker {  /* what a thread has for itself */
    unsigned number; /* in the pool */
    void *scratch;   /* of a product or of attention */
    float *row;      /* HKE_ROW_GROUP decoded rows of the widest matrix; NULL: none is decoded */
    float *up;       /* batch x HKE_FFN_ROWS */
    struct hkk_query *query;       /* queries attended together */
    struct hkk_attention *running; /* likewise: what they have from the blocks so far */
    float *part;                   /* likewise x value_dim: what the next block gives */

    float *scores; /* 2 x experts: of a token that is routed */

    /* Where a pass has one token, its residual and as the device's members of these names. */
    float *residual, *normed;
    void *acts[HKK_KINDS], *place_acts[HKK_KINDS];
    struct hke_routes routes;
    float *low[HKE_MAX_OPERANDS];
};

/* What is the same for HKE_BLOCK positions of every sequence. */
struct hke_span {
    float *cos_sin;             /* of the ropes, for each position. Start of the allocation */
    struct hkk_attention *part; /* [HKE_SPLIT_TOKENS][heads]: what one block alone gives */
};

/* Tokens of a batch that a token is computed together with: those from it to before these. */
struct hke_group {
    uint32_t text_end;     /* their positions follow each other in one sequence */
    uint32_t adapters_end; /* their adapters are the same */
};

/* Blocks of a cache class. In a block layer by layer: all heads' keys, then all heads' values;
 * halves, laid out as the kernels want them. */
struct hke_kv {
    uint16_t **block; /* by number */
    size_t n, room;
};

struct hke_cpu {
    struct hke_device device; /* first */
    const struct hke_plan *plan;
    const struct hkk_table *kernels;
    struct hke_pool *pool;
    struct hke_device_options opt;
    size_t max_cols;               /* of the matrices */
    size_t max_heads, max_queries; /* of queries: all of a token; attended together */
    size_t max_key_dim, max_value_dim;
    size_t max_experts, max_chosen, max_expert_cols; /* 0: there are none */
    size_t layer_weights;                            /* multiply-adds of a layer for a token */
    size_t cos_sin_elems;                            /* of all ropes, of a position */

    struct hke_span *span;
    size_t spans;
    struct hke_kv kv[HKE_MAX_CACHES];

    struct hke_residency *residency; /* worker 0 keeps it in step */

    void *arena; /* all below */
    size_t arena_bytes;
    float *buffer[HKE_BUFFERS];  /* batch x the plan's elems */
    float *normed;               /* batch x hidden: input of a product; in the memory of DELTA */
    void *acts[HKK_KINDS];       /* rounded activations of the product that is next, of each kind */
    void *tiles[HKK_KINDS];      /* the same in tiles, or NULL */
    void *place_acts[HKK_KINDS]; /* activations of places; of F32 the numbers themselves */
    struct hke_routes routes;
    float *logits;             /* opt.logits x vocab */
    struct hke_worker *worker; /* one for each of the pool */

    void *low_arena;              /* LOW, and that of workers; NULL: there are no adapters */
    float *low[HKE_MAX_OPERANDS]; /* batch x max_rank: A x of adapters; or NULL */
    size_t max_rank;              /* of the adapters' products */

    atomic_size_t stop_before;     /* the step that the pass ends before, if the watch ends it */
    struct hke_batch last;         /* the batch that was run, for more of its logits */
    struct hke_group *group;       /* of each of its tokens */
    bool has_adapters;             /* some of its tokens */
    size_t logits_first, logits_n; /* the wanted tokens that LOGITS are of */
};

/* ---- a pass over a batch: every worker of the pool in step ---- */

struct hke_pass {
    struct hke_cpu *cpu;
    const struct hke_batch *batch;
    size_t n;                      /* tokens */
    size_t first, end;             /* steps */
    const float *residual;         /* what the first step starts from; NULL: nothing */
    size_t logits_first, logits_n; /* logits of these wanted tokens are computed for now */
};

static inline size_t hke_position(const struct hke_pass *p, size_t token)
{
    return p->batch->token[token].position;
}

/* Whether what is between products is done by every worker for itself. */
static inline bool hke_is_single_token(const struct hke_pass *p)
{
    return p->n == 1;
}

/* The first token that S is computed for. */
static inline size_t hke_first_token(const struct hke_pass *p, const struct hke_step *s)
{
    return s->wanted_only ? p->n - p->batch->wanted : 0;
}

/* steps.c: run P, whose room is reserved. Nothing is allocated, and only waiting calls the system.
 * False: the watch ended it. */
bool hke_run_pass(struct hke_pass *p);
/* DELTA, of a token, as S adds it to the residual: itself, or in OUT, which may be DELTA. */
const float *hke_finish_delta(const struct hke_pass *p, const struct hke_step *s,
                              const float *delta, float *out);
/* Compute other logits of the last pass, one of several tokens. */
void hke_run_logits(struct hke_pass *p);

/* ---- products (product.c) ---- */

/* What the matrices of a step are multiplied with: the numbers as they are, and rounded in each way
 * that is needed. */
struct hke_input {
    struct hkk_acts as[HKK_KINDS];
    unsigned kinds; /* bits of enum hkk_kind */
    const struct hke_step *step;
    size_t matrix;                /* of stacks: which is multiplied with */
    size_t first;                 /* token of the batch that is the first here */
    float *low[HKE_MAX_OPERANDS]; /* [n][max_rank], set by hke_project_adapters() */
};

/* There are kernels for rows of W where they lie. */
bool hke_has_kernels(const struct hke_weight *w);
/* X is [n][cols], of the tokens from FIRST on. Rounded in memory that all share, or OWN where a
 * pass has one token. */
void hke_set_input(const struct hke_pass *p, const struct hke_worker *own, const struct hke_step *s,
                   const float *x, size_t first, size_t n, struct hke_input *in);
/* Round token T of IN, whose numbers are complete. */
void hke_round_token(const struct hke_pass *p, const struct hke_input *in, size_t t);
/* The same for all tokens, shared among the workers, then a barrier; no barrier where nothing is to
 * be rounded or a pass has one token. */
void hke_round_input(const struct hke_pass *p, const struct hke_worker *own,
                     const struct hke_input *in);
/* What adapters make of IN, whose numbers are complete: shared among the workers, then a barrier;
 * neither where there are no adapters, no barrier where a pass has one token. */
void hke_project_adapters(const struct hke_pass *p, const struct hke_worker *own,
                          const struct hke_input *in);

/* Where the product with an operand goes, y[t * rows + row], and how many rows stay together. */
struct hke_output {
    float *y;
    size_t unit;
};

/* This worker's next share of the step's products: units [*BEGIN, *END), counted through all
 * operands. False where nothing is left; a barrier has to follow then. */
bool hke_multiply_share(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in, const struct hke_output *to, size_t *begin,
                        size_t *end);
/* All of this worker's share of a step with one operand. */
void hke_multiply(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                  float *y);
/* The step's activation of its one operand or two, likewise. */
void hke_multiply_activated(const struct hke_pass *p, struct hke_worker *own,
                            const struct hke_input *in, float *y);

/* Rows [BEGIN, END) of operand I to y[t * stride], y[t * stride + 1], ... */
void hke_multiply_rows(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                       size_t i, size_t begin, size_t end, float *y, size_t stride);
/* The activation of step S, of N numbers of its first operand and of its second, or NULL. */
void hke_activate(const struct hkk_table *k, const struct hke_step *s, float *y, const float *up,
                  size_t n);
/* y += the step's one operand, likewise. */
void hke_multiply_and_add(const struct hke_pass *p, struct hke_worker *own,
                          const struct hke_input *in, float *y);
/* What W is multiplied with. */
enum hkk_kind hke_activation_kind(const struct hke_cpu *c, const struct hke_weight *w);

/* ---- experts (experts.c) ---- */

/* Choose the experts of the tokens of ROUTE step S, whose scores are there. */
void hke_route_tokens(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s);
/* EXPERTS_UP, whose input IN is complete; then a barrier. */
void hke_expand_experts(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in);
/* EXPERTS_DOWN; then a barrier. */
void hke_sum_experts(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s);

/* ---- attention (attend.c) ---- */

/* The attended values of the step's tokens, whose keys and values are in the cache; then a
 * barrier. */
void hke_attend(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s);

/* ---- the KV cache (cache.c) ---- */

enum hk_status hke_cpu_add_block(struct hke_device *d, size_t cache, struct hk_error *err);
enum hk_status hke_cpu_add_positions(struct hke_device *d, size_t positions, struct hk_error *err);
void hke_cpu_copy_block(struct hke_device *d, size_t cache, size_t from, size_t to);
void hke_free_kv(struct hke_cpu *c);
void hke_free_spans(struct hke_cpu *c);
/* Cosine and sine pairs of the plan's rope table ROPE at POSITION. */
const float *hke_cos_sin_at(const struct hke_cpu *c, int rope, size_t position);
/* Keys, values of HEAD in the step's cache layer, in the BLOCK-th block of TOKEN's sequence. */
uint16_t *hke_keys_of(const struct hke_pass *p, const struct hke_step *s, size_t token, size_t head,
                      size_t block);
uint16_t *hke_values_of(const struct hke_pass *p, const struct hke_step *s, size_t token,
                        size_t head, size_t block);

#endif
