/* backend.h: what runs a plan. A backend is a table of functions; the CPU (engine/cpu/) is the
 * first. Sampler, tokenizer and adapters know none. */
#ifndef HKE_BACKEND_H
#define HKE_BACKEND_H

#include "engine/plan/adapters.h"

struct hke_backend;
struct hke_kv; /* a backend's own: keys and values of a sequence, by cache class */

/* The past of one text. */
struct hke_sequence {
    size_t used;                         /* positions evaluated */
    const struct hke_adapters *adapters; /* NULL: none. Constant while USED is not 0 */
    struct hke_kv *kv;                   /* NULL before the first reserve() */
};

struct hke_token {
    uint32_t id, position;
    struct hke_sequence *sequence;
};

/* Tokens that are computed together. What a token gives does not depend on the others of the batch,
 * but on those of its sequence that come before it, here or in earlier batches. */
struct hke_batch {
    const struct hke_token *token;
    size_t n;
    size_t wanted; /* logits are wanted of the last of them */
};

/* A backend with its threads, kernels and buffers: one for a plan, whatever the number of
 * sequences. It belongs to one thread. Each backend continues this structure with its own. */
struct hke_runner {
    const struct hke_backend *backend;
};

struct hke_runner_options {
    size_t batch;     /* most tokens of a batch */
    size_t logits;    /* logits of how many tokens are kept together; at least 1 */
    size_t positions; /* most of a sequence */
    size_t max_rank;  /* of the adapters' products; 0: there are none */
    enum hke_activations activations;
    const struct hkk_table *kernels; /* as hke_context_options has them, from here on */
    unsigned threads;
    bool huge_pages;
};

struct hke_backend {
    const char *name;

    /* P must outlive the runner. HK_E_UNSUPPORTED names what of P it does not run. */
    enum hk_status (*open)(struct hke_runner **out, const struct hke_plan *p,
                           const struct hke_runner_options *opt, struct hk_error *err);
    void (*close)(struct hke_runner *r);

    /* Have room for POSITIONS of S, at most options.positions. After open() only this
     * allocates. */
    enum hk_status (*reserve)(struct hke_runner *r, struct hke_sequence *s, size_t positions,
                              struct hk_error *err);
    /* Free what S has; its past is lost. */
    void (*release)(struct hke_runner *r, struct hke_sequence *s);

    /* Compute the steps FIRST .. END-1 for the tokens of B, for which room is reserved and which
     * stay where they are until the next run. RESIDUAL, n x hidden, is read unless FIRST is 0, and
     * written unless END is the plan's number of steps (of tokens that no step behind END is for it
     * is left alone); NULL if neither. A range begins, and the one before ends, at a step that
     * reads the residual. Keys and values that the steps store are visible to later batches.
     * HK_E_UNSUPPORTED: a batch that the backend does not run. */
    enum hk_status (*run)(struct hke_runner *r, const struct hke_batch *b, size_t first, size_t end,
                          float *residual, struct hk_error *err);
    /* Logits of wanted tokens of the last batch, whose last step was run: of token FIRST (of the
     * wanted ones) and those behind it, as many as are kept together, their number in *N. Valid
     * until the next call of any function here. */
    const float *(*logits)(struct hke_runner *r, size_t first, size_t *n);

    /* What it computes with. */
    unsigned (*threads)(const struct hke_runner *r);
    const char *(*kernels)(const struct hke_runner *r);
};

extern const struct hke_backend hke_cpu_backend;

#endif
