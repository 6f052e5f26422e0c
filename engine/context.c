/* A context: its options settled, and the walk of a text through a backend. */
#include <stdlib.h>

#include "engine/backend.h"
#include "engine/plan/model.h"

enum {
    DEFAULT_BATCH = 512,
    LOGIT_FLOATS = 4 << 20, /* 16 MiB of logits at once, or one position */
};

struct hke_context {
    const struct hke_model *model;
    struct hke_runner *runner;
    struct hke_sequence sequence;
    struct hke_token *token; /* of a batch */
    size_t positions, batch;
    bool every_logit;
    const float *last; /* logits of the last position evaluated */
};

static const struct hke_backend *backend_of(const struct hke_context *c)
{
    return c->runner->backend;
}

static enum hk_status settle_options(struct hke_context *c, const struct hke_context_options *opt,
                                     struct hke_runner_options *out, struct hk_error *err)
{
    const struct hk_model_params *p = &c->model->params;
    c->positions =
        opt->positions > 0 ? opt->positions : hke_min_size(p->context, HKE_MAX_POSITIONS);
    c->batch = opt->batch > 0 ? opt->batch : DEFAULT_BATCH;
    if (c->positions > HKE_MAX_POSITIONS || c->batch > HKE_MAX_BATCH)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "a context of %zu positions in batches of %zu: at most %d and %d",
                       c->positions, c->batch, (int)HKE_MAX_POSITIONS, (int)HKE_MAX_BATCH);
    if (p->rope.kind == HK_ROPE_DYNAMIC && c->positions > p->context)
        return hk_fail(
            err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "a context of %zu positions: beyond the %u of the model its rope would change "
            "with the length of the text",
            c->positions, p->context);
    c->batch = hke_min_size(c->batch, c->positions);
    c->every_logit = opt->every_logit;
    c->sequence.adapters = c->model->adapters;
    *out = (struct hke_runner_options){
        .batch = c->batch,
        .logits = 1,
        .positions = c->positions,
        .max_rank = c->model->adapters != NULL ? c->model->adapters->max_rank : 0,
        .activations = opt->activations,
        .kernels = opt->kernels,
        .threads = opt->threads,
        .huge_pages = opt->huge_pages,
    };
    if (c->every_logit && p->vocab < LOGIT_FLOATS)
        out->logits = hke_min_size(LOGIT_FLOATS / p->vocab, c->batch);
    return HK_OK;
}

static enum hk_status open_context(struct hke_context *c, const struct hke_context_options *opt,
                                   struct hk_error *err)
{
    struct hke_runner_options options;
    enum hk_status st = settle_options(c, opt, &options, err);
    if (st == HK_OK)
        st = hke_cpu_backend.open(&c->runner, c->model->plan, &options, err);
    if (st != HK_OK)
        return st;
    c->token = calloc(c->batch, sizeof *c->token);
    return c->token != NULL ? HK_OK : hk_fail_nomem(err);
}

enum hk_status hke_context_new(struct hke_context **out, const struct hke_model *m,
                               const struct hke_context_options *opt, struct hk_error *err)
{
    struct hke_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return hk_fail_nomem(err);
    c->model = m;
    enum hk_status st = open_context(c, opt, err);
    if (st != HK_OK)
        hke_context_free(&c);
    else
        *out = c;
    return st;
}

void hke_context_free(struct hke_context **c)
{
    if (*c == NULL)
        return;
    if ((*c)->runner != NULL) {
        backend_of(*c)->release((*c)->runner, &(*c)->sequence);
        backend_of(*c)->close((*c)->runner);
    }
    free((*c)->token);
    free(*c);
    *c = NULL;
}

const struct hke_model *hke_context_model(const struct hke_context *c)
{
    return c->model;
}

void hke_context_reset(struct hke_context *c)
{
    c->sequence.used = 0;
}

void hke_context_rewind(struct hke_context *c, size_t positions)
{
    c->sequence.used = hke_min_size(c->sequence.used, positions);
}

size_t hke_context_positions(const struct hke_context *c)
{
    return c->positions;
}

size_t hke_context_used(const struct hke_context *c)
{
    return c->sequence.used;
}

unsigned hke_context_threads(const struct hke_context *c)
{
    return backend_of(c)->threads(c->runner);
}

const char *hke_context_kernels(const struct hke_context *c)
{
    return backend_of(c)->kernels(c->runner);
}

const float *hke_logits(const struct hke_context *c)
{
    return c->last;
}

/* ---- evaluating ---- */

static enum hk_status check_evaluated_ids(const struct hke_context *c, const uint32_t *id, size_t n,
                                          struct hk_error *err)
{
    if (n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "no tokens to evaluate");
    if (n > c->positions - c->sequence.used)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "%zu tokens after %zu do not fit a context of %zu", n, c->sequence.used,
                       c->positions);
    for (size_t i = 0; i < n; i++)
        if (id[i] >= c->model->params.vocab)
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                           "token %zu is %u, but the embedding has %u rows", i, id[i],
                           c->model->params.vocab);
    return HK_OK;
}

/* Logits of the WANTED last tokens of a batch, the first of which is at POSITION. */
static enum hk_status give_logits(struct hke_context *c, size_t position, size_t wanted,
                                  hke_logits_fn *fn, void *arg, struct hk_error *err)
{
    const size_t vocab = c->model->params.vocab;
    enum hk_status st = HK_OK;
    for (size_t i = 0, n; i < wanted && st == HK_OK; i += n) {
        const float *logits = backend_of(c)->logits(c->runner, i, &n);
        for (size_t k = 0; fn != NULL && k < n && st == HK_OK; k++)
            st = fn(arg, position + i + k, logits + k * vocab, vocab, err);
        c->last = logits + (n - 1) * vocab;
    }
    return st;
}

/* N tokens more, the last of the whole text or not. */
static enum hk_status eval_batch(struct hke_context *c, const uint32_t *id, size_t n, bool last,
                                 hke_logits_fn *fn, void *arg, struct hk_error *err)
{
    const size_t used = c->sequence.used;
    struct hke_batch b = {c->token, n, c->every_logit ? n : last};
    for (size_t i = 0; i < n; i++)
        c->token[i] = (struct hke_token){id[i], (uint32_t)(used + i), &c->sequence};
    enum hk_status st = backend_of(c)->run(c->runner, &b, 0, c->model->plan->steps, NULL, err);
    if (st == HK_OK)
        st = give_logits(c, used + n - b.wanted, b.wanted, fn, arg, err);
    c->sequence.used += n;
    return st;
}

enum hk_status hke_eval(struct hke_context *c, const uint32_t *id, size_t n, hke_logits_fn *fn,
                        void *arg, struct hk_error *err)
{
    enum hk_status st = check_evaluated_ids(c, id, n, err);
    if (st == HK_OK)
        st = backend_of(c)->reserve(c->runner, &c->sequence, c->sequence.used + n, err);
    for (size_t done = 0; done < n && st == HK_OK;) {
        const size_t batch = hke_min_size(n - done, c->batch);
        st = eval_batch(c, id + done, batch, done + batch == n, fn, arg, err);
        done += batch;
    }
    return st;
}
