/* engine.h: a model from a file, and what it makes of token ids.
 *
 * A model is immutable once loaded: any number of contexts may use it. A context belongs to one
 * thread. Results depend on the file, the ids and whether activations are rounded, and nothing
 * else: not on batches, threads or kernels. Nothing here prints, exits or reads the environment. */
#ifndef HKE_ENGINE_H
#define HKE_ENGINE_H

#include "engine/tokenizer/tokenizer.h"
#include "libhkfmt/hkmodel.h"

/* ---- a model ---- */

struct hke_model;

/* Check that F is a model of a known architecture, whole, with every shape right and every type
 * decodable, and prepare it; weights stay where F has them, so it must outlive the model.
 * HK_E_UNSUPPORTED names an architecture, a feature or a type that is not run here; HK_E_MISSING an
 * absent key or tensor; HK_E_FORMAT and HK_E_RANGE a wrong one. Cost: the metadata, the table and
 * the norms; weights are not touched. */
HK_MUST enum hk_status hke_model_new(struct hke_model **out, const struct hk_file *f,
                                     struct hk_error *err);
/* *M becomes NULL. NULL is allowed. */
void hke_model_free(struct hke_model **m);
const struct hk_model_params *hke_model_params(const struct hke_model *m);
/* Tokens that the file's vocabulary names; where it has none, rows of the embedding. */
uint32_t hke_model_tokens(const struct hke_model *m);
enum { HKE_BLOCK = 256 }; /* positions of a block of the KV cache, with every backend */
/* Bytes of the KV cache of a text of POSITIONS, of which whole blocks are allocated. */
uint64_t hke_model_kv_bytes(const struct hke_model *m, size_t positions);

/* ---- adapters: what a text may be computed with, beside the model ---- */

struct hke_adapters;

/* A list of adapters of M, empty yet. Any number of texts may have it. It may be freed after M. */
HK_MUST enum hk_status hke_adapters_new(struct hke_adapters **out, const struct hke_model *m,
                                        struct hk_error *err);
/* Add A, SCALE times, before any text has the list. A is copied. HK_E_UNSUPPORTED names a tensor
 * whose change cannot be applied while running: a norm or a bias; a DoRA or what was trained whole,
 * behind another adapter's change or SCALE times. After a failure ADAPTERS is only to be freed.
 * Cost of a DoRA: the weights that it changes are read. */
HK_MUST enum hk_status hke_adapters_add(struct hke_adapters *adapters, const struct hk_adapter *a,
                                        double scale, struct hk_error *err);
/* After the texts that have it. *A becomes NULL. NULL is allowed. */
void hke_adapters_free(struct hke_adapters **a);

/* ---- a context: the past of one text ---- */

struct hke_context;

struct hkk_table; /* kernels/kernels.h */

enum hke_activations {
    HKE_ACTIVATIONS_Q8,  /* int8 where weights are quantised; these need kernels of their own */
    HKE_ACTIVATIONS_F32, /* never rounded, weights widened to f32: what the other is measured by */
};

/* Called in the caller's thread before each batch of an evaluation and, while a batch of several
 * tokens is computed, some times in a layer. PART of the ids is evaluated, 0 to 1. False ends the
 * evaluation. */
typedef bool hke_watch_fn(void *arg, double part);

struct hke_context_options {
    size_t positions; /* maximum; 0: what the model was made for */
    size_t batch;     /* positions computed together; 0: 512. Only time and memory depend on it */
    const struct hke_adapters *adapters; /* of a context; NULL: none. Must outlive it */
    bool every_logit; /* hke_eval() gives the logits of all positions, not only of the last */
    const struct hkk_table *kernels; /* NULL: the best that run here. Only time depends on it */
    unsigned threads;                /* 0: as many as the machine is good for; likewise */
    enum hke_activations activations;
    bool huge_pages;         /* ask for large pages for buffers and cache: time and memory only */
    uint64_t weights_memory; /* bytes of weights that stay in memory, the rest is read in every
                                pass; 0: as many as there is memory for. Likewise */
    size_t cache_positions;  /* most of all sequences of a runner together, rounded up to whole
                                blocks; 0: no bound */
    hke_watch_fn *watch;     /* or NULL */
    void *watch_arg;
};

enum { HKE_MAX_POSITIONS = 1 << 24, HKE_MAX_BATCH = 4096 };

/* M must outlive it. HK_E_USE: options out of bounds. HK_E_UNSUPPORTED names a matrix and its type,
 * for which there are no kernels. Memory: the buffers of a batch; the cache grows with the
 * positions used. */
HK_MUST enum hk_status hke_context_new(struct hke_context **out, const struct hke_model *m,
                                       const struct hke_context_options *opt, struct hk_error *err);
/* *C becomes NULL. NULL is allowed. */
void hke_context_free(struct hke_context **c);
const struct hke_model *hke_context_model(const struct hke_context *c);
/* Forget the past; memory is kept. */
void hke_context_reset(struct hke_context *c);
/* Forget all but the first POSITIONS of it, as long as there are more; memory is kept. Gives how
 * many are left, as hke_sequence_rewind(). */
size_t hke_context_rewind(struct hke_context *c, size_t positions);
size_t hke_context_positions(const struct hke_context *c); /* maximum */
size_t hke_context_used(const struct hke_context *c);
/* What it computes with. */
unsigned hke_context_threads(const struct hke_context *c);
const char *hke_context_kernels(const struct hke_context *c);
/* As hke_runner_weights_kept(). */
uint64_t hke_context_weights_kept(const struct hke_context *c, uint64_t *total);

/* Given the VOCAB logits of POSITION (of the context, from 0), valid during the call; anything but
 * HK_OK ends hke_eval() with that status. */
typedef enum hk_status hke_logits_fn(void *arg, size_t position, const float *logits, size_t vocab,
                                     struct hk_error *err);

/* Whether the last hke_eval() ended because the context's watch said so. */
bool hke_context_stopped(const struct hke_context *c);

/* Continue the text by N ids (at least 1). FN (may be NULL) is called for each position in order,
 * or for the last only, as the context's options say. HK_E_RANGE: an id outside the embedding, or
 * more ids than positions are left; the context is then as before. HK_E_IO with sys EINTR: the
 * context's watch ended it. After another failure than the first only hke_context_reset() is of
 * use. */
HK_MUST enum hk_status hke_eval(struct hke_context *c, const uint32_t *id, size_t n,
                                hke_logits_fn *fn, void *arg, struct hk_error *err);
/* Logits of the last position evaluated. */
const float *hke_logits(const struct hke_context *c);

/* ---- choosing and generating ---- */

/* Index of the largest of N logits (at least 1), the lowest of equals. HK_E_FORMAT: one of them is
 * not a number, or infinite. */
HK_MUST enum hk_status hke_argmax(const float *logits, size_t n, uint32_t *out,
                                  struct hk_error *err);
/* -log of the probability that the N logits give to ID. HK_E_FORMAT as above. */
HK_MUST enum hk_status hke_nll(const float *logits, size_t n, uint32_t id, double *out,
                               struct hk_error *err);

/* Called for each id generated, end tokens excepted; false ends the generation. */
typedef bool hke_token_fn(void *arg, uint32_t id);

struct hke_generate_options {
    const uint32_t *prompt; /* at least one id */
    size_t prompt_count;
    size_t max_tokens;                     /* SIZE_MAX: until an end token or the context's end */
    const struct hke_tokenizer *tokenizer; /* for the end tokens; NULL: there are none */
    hke_token_fn *token;
    void *arg;
    struct hke_sampler *sampler; /* sampler.h; a new one. NULL: the largest logit each time */
};

enum hke_finish {
    HKE_FINISH_STOP,   /* an end token */
    HKE_FINISH_LENGTH, /* as many as asked for, or the context is full */
    HKE_FINISH_CALLER, /* the callback said so */
    HKE_FINISH_STOPPED /* the context's watch said so, maybe before the first id */
};

struct hke_generated {
    size_t count; /* ids generated, the end token not counted */
    enum hke_finish finish;
    double prompt_seconds, decode_seconds;
    size_t decoded; /* ids evaluated one by one in decode_seconds */
};

/* Evaluate the prompt and go on. The context must be empty. A context of P positions
 * gives P - prompt_count + 1 ids at most, since the last one is not evaluated. HK_E_RANGE: the
 * prompt is longer than the context. */
HK_MUST enum hk_status hke_generate(struct hke_context *c, const struct hke_generate_options *opt,
                                    struct hke_generated *out, struct hk_error *err);

/* ---- this process ---- */

struct hke_memory {   /* bytes resident; 0 where the system does not say */
    uint64_t private; /* anonymous */
    uint64_t mapped;  /* of files, the model's weights above all */
};
struct hke_memory hke_memory_now(void);

/* Read all weights of F, as far as they are not in memory yet, and keep them there until it is
 * closed. HK_E_IO: the system does not allow it; it names the limit. */
HK_MUST enum hk_status hke_lock_weights(const struct hk_file *f, struct hk_error *err);

#endif
