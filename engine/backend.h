/* backend.h: what runs a plan. A backend is a table of functions; the CPU (engine/cpu/) is the
 * first. Sampler, tokenizer and adapters know none. */
#ifndef HKE_BACKEND_H
#define HKE_BACKEND_H

#include "engine/plan/adapters.h"
#include "engine/sequences.h"

struct hke_backend;

/* Blocks of the KV cache that hold a sequence's positions of one cache class, in order, by their
 * numbers; those before FIRST are out of its window, and not there. Several sequences may have the
 * same block as long as none writes to it. */
struct hke_block_list {
    uint32_t *number;
    size_t first, n;
    size_t needed; /* how many the call in progress will have filled in the end */
};

/* The past of one text. Backends read it. */
struct hke_sequence {
    struct hke_runner *runner;
    const struct hke_adapters *adapters; /* NULL: none. Constant */
    size_t used;                         /* positions evaluated */
    bool in_call;                        /* hke_runner_eval() is continuing it */
    struct hke_block_list cache[HKE_MAX_CACHES];
};

struct hke_token {
    uint32_t id, position;
    const struct hke_sequence *sequence;
};

/* Tokens that are computed together. What a token gives does not depend on the others of the batch,
 * but on those of its sequence that come before it, here or in earlier batches. */
struct hke_batch {
    const struct hke_token *token;
    size_t n;
    size_t wanted; /* logits are wanted of the last of them */
};

/* A backend with its threads, kernels, buffers and blocks: one for a plan, whatever the number of
 * sequences. It belongs to one thread. Each backend continues this structure with its own. */
struct hke_device {
    const struct hke_backend *backend;
};

struct hke_device_options {
    size_t batch;     /* most tokens of a batch */
    size_t logits;    /* logits of how many tokens are kept together; at least 1 */
    size_t positions; /* most of a sequence */
    enum hke_activations activations;
    const struct hkk_table *kernels; /* as hke_context_options has them, from here on */
    unsigned threads;
    bool huge_pages;
    uint64_t weights_memory; /* as hke_context_options has it */
    /* Called in the thread of run(), now and then in a batch of several tokens: STEP is next. False
     * ends the run. NULL: nothing is to be called. */
    bool (*watch)(void *arg, size_t step);
    void *watch_arg;
};

struct hke_backend {
    const char *name;

    /* P must outlive the device. HK_E_UNSUPPORTED names what of P it does not run. */
    enum hk_status (*open)(struct hke_device **out, const struct hke_plan *p,
                           const struct hke_device_options *opt, struct hk_error *err);
    void (*close)(struct hke_device *d);

    /* After open() only these three allocate. One block more of cache class CACHE, whose blocks are
     * numbered from 0 in the order in which they are made. */
    enum hk_status (*add_block)(struct hke_device *d, size_t cache, struct hk_error *err);
    /* Be ready for POSITIONS of a sequence, at most options.positions. */
    enum hk_status (*add_positions)(struct hke_device *d, size_t positions, struct hk_error *err);
    /* Be ready for sequences that have ADAPTERS. */
    enum hk_status (*add_adapters)(struct hke_device *d, const struct hke_adapters *adapters,
                                   struct hk_error *err);
    /* What block FROM of CACHE holds, to block TO. */
    void (*copy_block)(struct hke_device *d, size_t cache, size_t from, size_t to);

    /* Compute the steps FIRST .. END-1 for the tokens of B, whose sequences have blocks for them,
     * which they share with no other, and which stay where they are until the next run. RESIDUAL,
     * n x hidden, is read unless FIRST is 0, and written unless END is the plan's number of steps
     * (of tokens that no step behind END is for it is left alone); NULL if neither. A range begins,
     * and the one before ends, at a step that reads the residual. Keys and values that the steps
     * store are visible to later batches. HK_E_IO with sys EINTR: the watch ended it. */
    enum hk_status (*run)(struct hke_device *d, const struct hke_batch *b, size_t first, size_t end,
                          float *residual, struct hk_error *err);
    /* Logits of wanted tokens of the last batch, whose last step was run: of token FIRST (of the
     * wanted ones) and those behind it, as many as are kept together, their number in *N. Valid
     * until the next call of any function here. */
    const float *(*logits)(struct hke_device *d, size_t first, size_t *n);

    /* What it computes with. */
    unsigned (*threads)(const struct hke_device *d);
    const char *(*kernels)(const struct hke_device *d);
    /* Bytes of weights that stay in memory, of how many that every pass needs. */
    uint64_t (*weights_kept)(const struct hke_device *d, uint64_t *total);
};

extern const struct hke_backend hke_cpu_backend;

#endif
