/* Low-rank adapters at run time: y = W x + B (A x), with the scale in B; of the embedding x[token]
 * + B[token] A. Activations are not rounded for it. Of A x a dot product is the kernels' for f32;
 * of B the sum goes from the first rank to the last, in f32. */
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "libhkfmt/hkmodel.h"

struct hke_low_rank {
    size_t rank; /* of all adapters together */
    float *a;    /* [rank][cols], as in a file */
    float *b;    /* [rows][rank] */
};

void hke_low_rank_free(struct hke_low_rank **low)
{
    if (*low == NULL)
        return;
    free((*low)->a);
    free((*low)->b);
    free(*low);
    *low = NULL;
}

/* ---- adding an adapter ---- */

/* The matrix that P changes a product with, NULL if there is none. */
static struct hke_matrix *matrix_of(struct hke_model *m, const struct hk_low_rank *p)
{
    if (p->use == HK_USE_HEAD)
        return m->output.tensor != NULL ? &m->output : &m->embedding;
    for (uint32_t i = 0; p->use == HK_USE_MATRIX && i < m->params.layers; i++) {
        struct hke_layer *l = &m->layers[i];
        struct hke_matrix *all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (all[k]->tensor == p->base)
                return all[k];
    }
    return NULL;
}

/* *ALL, the adapters of a matrix of ROWS x COLS, and P in one. KERNELS multiply with A, which has
 * to be as in a file then. */
static enum hk_status stack(struct hke_low_rank **all, size_t rows, size_t cols,
                            const struct hk_low_rank *p, double scale, bool kernels,
                            struct hk_error *err)
{
    const size_t had = *all != NULL ? (*all)->rank : 0, rank = had + p->rank;
    struct hke_low_rank *low = calloc(1, sizeof *low);
    if (low != NULL) {
        low->rank = rank;
        low->a = calloc(rank * cols, sizeof *low->a);
        low->b = calloc(rows * rank, sizeof *low->b);
    }
    if (low == NULL || low->a == NULL || low->b == NULL) {
        hke_low_rank_free(&low);
        return hk_fail_nomem(err);
    }
    memcpy(low->a + had * cols, p->a, (size_t)p->rank * cols * sizeof *low->a);
    if (kernels)
        hke_make_little(low->a + had * cols, (size_t)p->rank * cols);
    if (had > 0)
        memcpy(low->a, (*all)->a, had * cols * sizeof *low->a);
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < had; k++)
            low->b[r * rank + k] = (*all)->b[r * had + k];
        for (size_t k = 0; k < p->rank; k++)
            low->b[r * rank + had + k] = (float)((double)p->b[r * p->rank + k] * p->scale * scale);
    }
    hke_low_rank_free(all);
    *all = low;
    return HK_OK;
}

static enum hk_status add_pair(struct hke_model *m, const struct hk_low_rank *p, double scale,
                               struct hk_error *err)
{
    struct hke_matrix *w = matrix_of(m, p);
    const bool embedding = p->use == HK_USE_EMBEDDING;
    if ((w == NULL && !embedding) || p->magnitude != NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s: %s is not applied while running; hk-merge folds it in",
                       HK_STR(p->base->name),
                       p->magnitude == NULL ? "an adapter of it" : "a DoRA's magnitude");
    if (embedding)
        return stack(&m->embedding_low, m->embedding.rows, m->embedding.cols, p, scale, false, err);
    enum hk_status st = stack(&w->low, w->rows, w->cols, p, scale, true, err);
    if (st == HK_OK && w->low->rank > m->most_rank)
        m->most_rank = w->low->rank;
    return st;
}

enum hk_status hke_model_adapt(struct hke_model *m, const struct hk_adapter *a, double scale,
                               struct hk_error *err)
{
    if (hk_adapter_replacements(a) > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s: %s is not applied while running; hk-merge folds it in",
                       HK_STR(hk_adapter_replacement(a, 0)->base->name),
                       hk_adapter_replacement(a, 0)->rows != NULL
                           ? "trained tokens"
                           : "a tensor that was trained whole");
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < hk_adapter_count(a); i++)
        st = add_pair(m, hk_adapter_at(a, i), scale, err);
    return st;
}

/* ---- in a pass ---- */

void hke_embed(const struct hke_model *m, uint32_t token, float *x)
{
    const struct hke_low_rank *low = m->embedding_low;
    const size_t cols = m->embedding.cols;
    hk_decoder_read(m->embedding.decoder, (uint64_t)token * cols, cols, x);
    if (low == NULL)
        return;
    for (size_t k = 0; k < low->rank; k++) {
        const float b = low->b[token * low->rank + k], *a = low->a + k * cols;
        for (size_t c = 0; c < cols; c++)
            x[c] += b * a[c];
    }
}

static bool any(const struct hke_input *in)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->w[i]->low != NULL)
            return true;
    return false;
}

/* A x of the tokens [BEGIN, END). */
static void lower(const struct hke_pass *p, const struct hke_worker *own,
                  const struct hke_input *in, size_t begin, size_t end)
{
    const struct hkk_acts *all = &in->as[HKK_KIND_F32];
    struct hkk_acts some;
    hkk_acts_place(&some, HKK_KIND_F32, all->x + begin * all->cols, end - begin, all->cols, NULL);
    for (size_t i = 0; i < in->count; i++) {
        const struct hke_low_rank *low = in->w[i]->low;
        if (low == NULL)
            continue;
        const struct hkk_matrix a = {(const uint8_t *)low->a, all->cols};
        p->c->kernels->matmul[HKK_F32](&a, 0, low->rank, &some, in->low[i] + begin * low->rank,
                                       low->rank, own->scratch);
    }
}

void hke_lower(const struct hke_pass *p, const struct hke_worker *own, const struct hke_input *in)
{
    const size_t n = in->as[HKK_KIND_F32].n;
    size_t begin, end;
    if (!any(in))
        return;
    if (hke_pass_alone(p)) {
        lower(p, own, in, 0, n);
        return;
    }
    while (hke_pool_take(p->c->pool, n, hke_grain(p->c, n, n), &begin, &end))
        lower(p, own, in, begin, end);
    hke_pool_barrier(p->c->pool);
}

static float dot(const float *b, const float *x, size_t n)
{
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += b[k] * x[k];
    return sum;
}

void hke_raise(const struct hke_input *in, const struct hke_matrix *w, size_t begin, size_t end,
               float *y, size_t stride)
{
    const struct hke_low_rank *low = w->low;
    size_t i = 0;
    if (low == NULL)
        return;
    while (in->w[i] != w)
        i++;
    for (size_t t = 0; t < in->as[HKK_KIND_F32].n; t++)
        for (size_t r = begin; r < end; r++)
            y[t * stride + r - begin] +=
                dot(low->b + r * low->rank, in->low[i] + t * low->rank, low->rank);
}
