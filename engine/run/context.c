/* A context: a runner with one sequence. */
#include <stdlib.h>

#include "engine/run/runner.h"

struct hke_context {
    struct hke_runner *runner;
    struct hke_sequence *sequence;
    bool every_logit;
    const float *last; /* logits of the last position evaluated */
};

/* A batch of one text is never larger than the text. */
static size_t batch_of_one_text(const struct hke_model *m, const struct hke_context_options *opt)
{
    const size_t batch = opt->batch > 0 ? opt->batch : HKE_DEFAULT_BATCH;
    return hke_min_size(batch, opt->positions > 0 ? opt->positions : m->params.context);
}

enum hk_status hke_context_new(struct hke_context **out, const struct hke_model *m,
                               const struct hke_context_options *opt, struct hk_error *err)
{
    struct hke_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return hk_fail_nomem(err);
    struct hke_context_options options = *opt;
    options.batch = batch_of_one_text(m, opt);
    c->every_logit = opt->every_logit;
    enum hk_status st = hke_runner_new(&c->runner, m, &options, err);
    if (st == HK_OK)
        st = hke_sequence_new(&c->sequence, c->runner, opt->adapters, err);
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
    hke_sequence_free(&(*c)->sequence);
    hke_runner_free(&(*c)->runner);
    free(*c);
    *c = NULL;
}

const struct hke_model *hke_context_model(const struct hke_context *c)
{
    return c->runner->model;
}

void hke_context_reset(struct hke_context *c)
{
    hke_sequence_rewind(c->sequence, 0);
}

size_t hke_context_rewind(struct hke_context *c, size_t positions)
{
    return hke_sequence_rewind(c->sequence, positions);
}

size_t hke_context_positions(const struct hke_context *c)
{
    return hke_runner_positions(c->runner);
}

size_t hke_context_used(const struct hke_context *c)
{
    return hke_sequence_used(c->sequence);
}

unsigned hke_context_threads(const struct hke_context *c)
{
    return hke_runner_threads(c->runner);
}

const char *hke_context_kernels(const struct hke_context *c)
{
    return hke_runner_kernels(c->runner);
}

uint64_t hke_context_weights_kept(const struct hke_context *c, uint64_t *total)
{
    return hke_runner_weights_kept(c->runner, total);
}

bool hke_context_stopped(const struct hke_context *c)
{
    return c->runner->watched.stopped;
}

const float *hke_logits(const struct hke_context *c)
{
    return c->last;
}

/* ---- evaluating ---- */

struct listener { /* to the logits of a context */
    struct hke_context *context;
    size_t start; /* position of the first id */
    hke_logits_fn *fn;
    void *arg;
};

static enum hk_status pass_logits_on(void *arg, size_t part, size_t index, const float *logits,
                                     size_t vocab, struct hk_error *err)
{
    (void)part;
    const struct listener *l = arg;
    l->context->last = logits;
    return l->fn != NULL ? l->fn(l->arg, l->start + index, logits, vocab, err) : HK_OK;
}

enum hk_status hke_eval(struct hke_context *c, const uint32_t *id, size_t n, hke_logits_fn *fn,
                        void *arg, struct hk_error *err)
{
    struct listener l = {c, hke_context_used(c), fn, arg};
    const struct hke_part part = {c->sequence, id, n, c->every_logit ? n : n > 0};
    return hke_runner_eval(c->runner, &part, 1, pass_logits_on, &l, err);
}
