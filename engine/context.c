/* A context: the buffers of a batch, and the walk of a text through them. */
#include <stdlib.h>

#include "engine/model.h"

enum {
    DEFAULT_BATCH = 256,
    LOGIT_FLOATS = 4 << 20
}; /* 16 MiB of logits at once, or one position */

struct share { /* a buffer and its size in floats */
    float **to;
    size_t rows, cols;
};

/* One allocation, cut into the buffers. */
static enum hk_status allot(struct hke_context *c, const struct share *s, size_t count,
                            struct hk_error *err)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n;
        if (__builtin_mul_overflow(s[i].rows, s[i].cols, &n) ||
            __builtin_add_overflow(all, n, &all))
            return hk_fail_nomem(err);
    }
    c->arena = calloc(all, sizeof *c->arena);
    if (c->arena == NULL)
        return hk_fail_nomem(err);
    float *at = c->arena;
    for (size_t i = 0; i < count; i++) {
        *s[i].to = at;
        at += s[i].rows * s[i].cols;
    }
    return HK_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static enum hk_status make_buffers(struct hke_context *c, struct hk_error *err)
{
    const struct hke_params *p = &c->model->params;
    size_t n = c->batch, att = (size_t)p->heads * p->value_dim;
    size_t widest = larger(p->width, larger(p->ffn, att));
    const struct share s[] = {
        {&c->x, n, p->width},
        {&c->h, n, p->width},
        {&c->q, n, (size_t)p->heads * p->key_dim},
        {&c->k, n, (size_t)p->kv_heads * p->key_dim},
        {&c->v, n, (size_t)p->kv_heads * p->value_dim},
        {&c->att, n, att},
        {&c->gate, n, p->ffn},
        {&c->up, n, p->ffn},
        {&c->row, HKE_ROW_GROUP, widest},
        {&c->scores, HKE_SEGMENT, 1},
        {&c->part, p->value_dim, 1},
        {&c->logits, c->logit_rows, p->vocab},
    };
    return allot(c, s, sizeof s / sizeof *s, err);
}

static enum hk_status set_up(struct hke_context *c, const struct hke_context_options *opt,
                             struct hk_error *err)
{
    const struct hke_params *p = &c->model->params;
    c->positions = opt->positions > 0 ? opt->positions : p->context;
    c->batch = opt->batch > 0 ? opt->batch : DEFAULT_BATCH;
    if (c->positions > HKE_MAX_POSITIONS || c->batch > HKE_MAX_BATCH)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "a context of %zu positions in batches of %zu: at most %d and %d",
                       c->positions, c->batch, (int)HKE_MAX_POSITIONS, (int)HKE_MAX_BATCH);
    c->batch = c->batch < c->positions ? c->batch : c->positions;
    c->every_logit = opt->every_logit;
    c->logit_rows = 1;
    if (c->every_logit && p->vocab < LOGIT_FLOATS)
        c->logit_rows = LOGIT_FLOATS / p->vocab;
    c->logit_rows = c->logit_rows < c->batch ? c->logit_rows : c->batch;
    enum hk_status st = make_buffers(c, err);
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
    free((*c)->arena);
    free(*c);
    *c = NULL;
}

void hke_context_reset(struct hke_context *c)
{
    c->used = 0;
}

size_t hke_context_positions(const struct hke_context *c)
{
    return c->positions;
}

size_t hke_context_used(const struct hke_context *c)
{
    return c->used;
}

/* The path that computes in 32-bit floats has one thread and the portable kernels. */
unsigned hke_context_threads(const struct hke_context *c)
{
    (void)c;
    return 1;
}

const char *hke_context_kernels(const struct hke_context *c)
{
    (void)c;
    return "generic";
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

/* Logits of the batch of N that follows the used positions: of all of them, or of the last of the
 * whole text. */
static enum hk_status give_logits(struct hke_context *c, size_t n, bool last, hke_logits_fn *fn,
                                  void *arg, struct hk_error *err)
{
    size_t vocab = c->model->params.vocab;
    size_t first = c->every_logit ? 0 : last ? n - 1 : n;
    enum hk_status st = HK_OK;
    while (first < n && st == HK_OK) {
        size_t rows = n - first < c->logit_rows ? n - first : c->logit_rows;
        hke_forward_logits(c, first, rows);
        for (size_t i = 0; fn != NULL && i < rows && st == HK_OK; i++)
            st = fn(arg, c->used + first + i, c->logits + i * vocab, vocab, err);
        c->last = c->logits + (rows - 1) * vocab;
        first += rows;
    }
    return st;
}

enum hk_status hke_eval(struct hke_context *c, const uint32_t *id, size_t n, hke_logits_fn *fn,
                        void *arg, struct hk_error *err)
{
    enum hk_status st = check_ids(c, id, n, err);
    if (st == HK_OK)
        st = hke_cache_reserve(&c->cache, c->used + n, err);
    for (size_t done = 0; done < n && st == HK_OK;) {
        size_t batch = n - done < c->batch ? n - done : c->batch;
        hke_forward(c, id + done, batch);
        st = give_logits(c, batch, done + batch == n, fn, arg, err);
        c->used += batch;
        done += batch;
    }
    return st;
}
