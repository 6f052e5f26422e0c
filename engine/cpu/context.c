/* A context: its options settled, and the walk of a text through it. */
#include <stdlib.h>

#include "engine/cpu/cores.h"
#include "engine/model.h"

enum {
    DEFAULT_BATCH = 512,
    LOGIT_FLOATS = 4 << 20, /* 16 MiB of logits at once, or one position */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum hk_status settle(struct hke_context *c, const struct hke_context_options *opt,
                             struct hk_error *err)
{
    const struct hk_model_params *p = &c->model->params;
    c->positions = opt->positions > 0 ? opt->positions : p->context;
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
    c->batch = smaller(c->batch, c->positions);
    c->every_logit = opt->every_logit;
    c->huge_pages = opt->huge_pages;
    c->cache.huge_pages = opt->huge_pages;
    c->logit_rows = 1;
    if (c->every_logit && p->vocab < LOGIT_FLOATS)
        c->logit_rows = smaller(LOGIT_FLOATS / p->vocab, c->batch);
    c->activations = opt->activations;
    return c->activations == HKE_ACTIVATIONS_F32 ? HK_OK : hke_check_kernels(c->model, err);
}

static enum hk_status start(struct hke_context *c, const struct hke_context_options *opt,
                            struct hk_error *err)
{
    unsigned threads = opt->threads;
    if (threads == 0) {
        struct hke_cores cores;
        hke_cores_find(&cores, "", NULL);
        threads = cores.threads;
    }
    const char *why_not = NULL;
    c->kernels = opt->kernels;
    if (c->kernels == NULL)
        why_not = hkk_select(NULL, &c->kernels);
    if (why_not != NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "no kernels: %s", why_not);
    return hke_pool_new(threads, &c->pool, err);
}

static enum hk_status set_up(struct hke_context *c, const struct hke_context_options *opt,
                             struct hk_error *err)
{
    enum hk_status st = settle(c, opt, err);
    if (st == HK_OK)
        st = start(c, opt, err);
    if (st == HK_OK)
        st = hke_buffers_new(c, err);
    return st == HK_OK ? hke_cache_init(&c->cache, c->model, c->positions, err) : st;
}

enum hk_status hke_context_new(struct hke_context **out, const struct hke_model *m,
                               const struct hke_context_options *opt, struct hk_error *err)
{
    struct hke_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return hk_fail_nomem(err);
    c->model = m;
    enum hk_status st = set_up(c, opt, err);
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
    hke_cache_free(&(*c)->cache);
    hke_buffers_free(*c);
    hke_pool_free(&(*c)->pool);
    free(*c);
    *c = NULL;
}

void hke_context_reset(struct hke_context *c)
{
    c->used = 0;
}

void hke_context_rewind(struct hke_context *c, size_t positions)
{
    c->used = smaller(c->used, positions);
}

size_t hke_context_positions(const struct hke_context *c)
{
    return c->positions;
}

size_t hke_context_used(const struct hke_context *c)
{
    return c->used;
}

unsigned hke_context_threads(const struct hke_context *c)
{
    return hke_pool_workers(c->pool);
}

const char *hke_context_kernels(const struct hke_context *c)
{
    return c->kernels->name;
}

const float *hke_logits(const struct hke_context *c)
{
    return c->last;
}

/* ---- evaluating ---- */

static enum hk_status check_ids(const struct hke_context *c, const uint32_t *id, size_t n,
                                struct hk_error *err)
{
    if (n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "no tokens to evaluate");
    if (n > c->positions - c->used)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "%zu tokens after %zu do not fit a context of %zu", n, c->used,
                       c->positions);
    for (size_t i = 0; i < n; i++)
        if (id[i] >= c->model->params.vocab)
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                           "token %zu is %u, but the embedding has %u rows", i, id[i],
                           c->model->params.vocab);
    return HK_OK;
}

/* Logits of the pass's tokens from FIRST on, as many at a time as there is room for; the first lot
 * was computed with the pass. */
static enum hk_status give_logits(struct hke_pass *p, hke_logits_fn *fn, void *arg,
                                  struct hk_error *err)
{
    struct hke_context *c = p->c;
    size_t vocab = c->model->params.vocab;
    enum hk_status st = HK_OK;
    while (p->rows > 0 && st == HK_OK) {
        for (size_t i = 0; fn != NULL && i < p->rows && st == HK_OK; i++)
            st = fn(arg, c->used + p->first + i, c->logits + i * vocab, vocab, err);
        c->last = c->logits + (p->rows - 1) * vocab;
        p->first += p->rows;
        p->rows = smaller(p->n - p->first, c->logit_rows);
        if (p->rows > 0 && st == HK_OK)
            hke_forward_logits(p);
    }
    return st;
}

/* The tokens whose logits are wanted: all of them, or the last of the whole text. */
static struct hke_pass pass_of(struct hke_context *c, const uint32_t *id, size_t n, bool last)
{
    size_t first = c->every_logit ? 0 : last ? n - 1 : n;
    return (struct hke_pass){c, id, n, first, smaller(n - first, c->logit_rows)};
}

enum hk_status hke_eval(struct hke_context *c, const uint32_t *id, size_t n, hke_logits_fn *fn,
                        void *arg, struct hk_error *err)
{
    enum hk_status st = check_ids(c, id, n, err);
    if (st == HK_OK)
        st = hke_cache_reserve(&c->cache, c->used + n, err);
    for (size_t done = 0; done < n && st == HK_OK;) {
        size_t batch = smaller(n - done, c->batch);
        struct hke_pass p = pass_of(c, id + done, batch, done + batch == n);
        hke_forward(&p);
        st = give_logits(&p, fn, arg, err);
        c->used += batch;
        done += batch;
    }
    return st;
}
