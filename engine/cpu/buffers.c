/* The memory that a context computes in: one allocation, cut twice, once to measure and once to
 * keep. Pages that a text never reaches are never touched. */
#include <stdlib.h>

#include "engine/model.h"

struct arena {
    char *base; /* NULL while it is measured */
    size_t used;
    bool too_big;
};

/* COUNT things of SIZE bytes, on lines of their own. */
static void *cut(struct arena *a, size_t count, size_t size)
{
    size_t bytes, at = a->used;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)HKK_ALIGN - 1, &bytes) ||
        __builtin_add_overflow(at, bytes / HKK_ALIGN * HKK_ALIGN, &a->used))
        a->too_big = true;
    return a->base != NULL ? a->base + at : NULL;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Columns of the widest matrix. */
static size_t widest(const struct hk_model_params *p)
{
    return larger(p->hidden, larger(p->ffn, (size_t)p->heads * p->value_dim));
}

/* gate is in use where q, k, v and att are not, and starts where they do. */
static void cut_heads(struct arena *a, struct hke_context *c)
{
    const struct hk_model_params *p = &c->model->params;
    struct arena heads = *a;
    c->q = cut(&heads, c->batch, (size_t)p->heads * p->key_dim * sizeof *c->q);
    c->k = cut(&heads, c->batch, (size_t)p->kv_heads * p->key_dim * sizeof *c->k);
    c->v = cut(&heads, c->batch, (size_t)p->kv_heads * p->value_dim * sizeof *c->v);
    c->att = cut(&heads, c->batch, (size_t)p->heads * p->value_dim * sizeof *c->att);
    c->gate = cut(a, c->batch, p->ffn * sizeof *c->gate);
    a->used = larger(a->used, heads.used);
    a->too_big |= heads.too_big;
}

/* Rounded activations of N tokens, where any are rounded. */
static void cut_acts(struct arena *a, const struct hke_context *c, size_t n, void *acts[HKK_KINDS])
{
    size_t cols = widest(&c->model->params);
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        acts[kind] = c->activations == HKE_ACTIVATIONS_F32
                         ? NULL
                         : cut(a, 1, hkk_acts_bytes((enum hkk_kind)kind, n, cols));
}

/* The same in tiles, where the kernels want them. */
static void cut_tiles(struct arena *a, struct hke_context *c)
{
    size_t cols = widest(&c->model->params);
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        c->tiles[kind] =
            c->activations == HKE_ACTIVATIONS_F32 || c->kernels->tiles_bytes == NULL
                ? NULL
                : cut(a, 1, c->kernels->tiles_bytes((enum hkk_kind)kind, c->batch, cols));
}

/* What adapters make of the input of N tokens, where there are any. */
static void cut_low(struct arena *a, const struct hke_context *c, size_t n,
                    float *low[HKE_TOGETHER])
{
    for (size_t i = 0; i < HKE_TOGETHER; i++)
        low[i] = c->model->most_rank > 0 ? cut(a, n, c->model->most_rank * sizeof **low) : NULL;
}

static void cut_worker(struct arena *a, const struct hke_context *c, struct hke_worker *w)
{
    const struct hk_model_params *p = &c->model->params;
    size_t queries = hke_query_tokens(p) * (p->heads / p->kv_heads);
    size_t scratch = hkk_attend_scratch_bytes(p->key_dim, p->value_dim);
    scratch = larger(scratch, c->kernels->scratch_bytes(widest(p), c->batch));
    *w = (struct hke_worker){
        .scratch = cut(a, 1, scratch),
        .row = c->activations == HKE_ACTIVATIONS_F32
                   ? cut(a, HKE_ROW_GROUP, widest(p) * sizeof(float))
                   : NULL,
        .up = cut(a, c->batch, HKE_FFN_ROWS * sizeof(float)),
        .query = cut(a, queries, sizeof(struct hkk_query)),
        .running = cut(a, queries, sizeof(struct hkk_attention)),
        .part = cut(a, queries, p->value_dim * sizeof(float)),
        .x = cut(a, p->hidden, sizeof(float)),
        .h = cut(a, p->hidden, sizeof(float)),
    };
    cut_acts(a, c, 1, w->acts);
    cut_low(a, c, 1, w->low);
}

static void cut_all(struct arena *a, struct hke_context *c)
{
    const struct hk_model_params *p = &c->model->params;
    c->x = cut(a, c->batch, p->hidden * sizeof *c->x);
    c->h = cut(a, c->batch, p->hidden * sizeof *c->h);
    cut_heads(a, c);
    cut_acts(a, c, c->batch, c->acts);
    cut_tiles(a, c);
    cut_low(a, c, c->batch, c->low);
    c->logits = cut(a, c->logit_rows, p->vocab * sizeof *c->logits);
    for (unsigned i = 0; i < hke_pool_workers(c->pool); i++)
        cut_worker(a, c, &c->worker[i]);
}

enum hk_status hke_buffers_new(struct hke_context *c, struct hk_error *err)
{
    struct arena a = {0};
    c->worker = calloc(hke_pool_workers(c->pool), sizeof *c->worker);
    if (c->worker == NULL)
        return hk_fail_nomem(err);
    cut_all(&a, c);
    if (!a.too_big)
        c->arena = hke_alloc(a.used, c->huge_pages);
    if (c->arena == NULL)
        return hk_fail_nomem(err);
    a = (struct arena){.base = c->arena};
    cut_all(&a, c);
    return HK_OK;
}

void hke_buffers_free(struct hke_context *c)
{
    free(c->arena);
    free(c->worker);
}
