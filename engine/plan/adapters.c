/* Adapters, put together by the weights that they change. */
#include "engine/plan/adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/model.h"

enum hk_status hke_adapters_new(struct hke_adapters **out, const struct hke_model *m,
                                struct hk_error *err)
{
    const struct hke_plan *p = m->plan;
    struct hke_adapters *a = calloc(1, sizeof *a);
    if (a != NULL)
        a->product = calloc(p->weights, sizeof *a->product);
    if (a == NULL || a->product == NULL) {
        free(a);
        return hk_fail_nomem(err);
    }
    a->plan = p;
    a->products = p->weights;
    *out = a;
    return HK_OK;
}

static void free_change(struct hke_change *c)
{
    free(c->replaced);
    free(c->row);
    free(c->row_scale);
    free(c->a);
    free(c->b);
}

void hke_adapters_free(struct hke_adapters **a)
{
    if (*a == NULL)
        return;
    for (size_t i = 0; i < (*a)->products; i++)
        free_change(&(*a)->product[i]);
    free_change(&(*a)->embedding);
    free((*a)->product);
    free(*a);
    *a = NULL;
}

const struct hke_change *hke_change_of(const struct hke_adapters *adapters,
                                       const struct hke_weight *w)
{
    if (adapters == NULL)
        return NULL;
    const struct hke_change *c = &adapters->product[w - adapters->plan->weight];
    return c->first > 0 ? c : NULL;
}

static int compare_changed_rows(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

const float *hke_replaced_row(const struct hke_change *c, size_t row, size_t cols)
{
    const uint32_t key = (uint32_t)row;
    if (c->replaced_count == 0 || row > UINT32_MAX)
        return NULL;
    if (c->row == NULL)
        return c->replaced + row * cols;
    const uint32_t *at = bsearch(&key, c->row, c->replaced_count, sizeof key, compare_changed_rows);
    return at != NULL ? c->replaced + (size_t)(at - c->row) * cols : NULL;
}

/* ---- one change ---- */

/* What an adapter does to a weight: one of both. */
struct part {
    const struct hk_low_rank *pair;
    const struct hk_replacement *whole;
    double scale;
};

static const struct hk_tensor *base_of(const struct part *p)
{
    return p->pair != NULL ? p->pair->base : p->whole->base;
}

static enum hk_status refuse_change(const struct hk_tensor *t, const char *what,
                                    struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tensor %.*s: %s is not applied while running; hk-merge folds it in",
                   HK_STR(t->name), what);
}

/* A tensor trained whole, and the lengths of DoRA, are of the base as it was trained on: another
 * adapter's change before them would be lost, or be scaled too. */
static enum hk_status check_order(const struct hke_adapters *adapters, const struct hke_change *c,
                                  const struct part *p, struct hk_error *err)
{
    const bool first = p->whole != NULL || p->pair->magnitude != NULL;
    if (!first || c->first == 0 || c->first == adapters->count)
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tensor %.*s: %s has to be applied before what else changes it; name the "
                   "adapters in that order",
                   HK_STR(base_of(p)->name),
                   p->whole != NULL ? "what was trained whole" : "a DoRA");
}

/* C, which is of W, and PAIR, SCALE times, become one of the rank of both. */
static enum hk_status stack_ranks(struct hke_change *c, const struct hke_weight *w,
                                  const struct hk_low_rank *pair, double scale,
                                  struct hk_error *err)
{
    const size_t had = c->rank, rank = had + pair->rank;
    float *a = calloc(rank * w->cols, sizeof *a), *b = calloc(rank * w->rows, sizeof *b);
    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return hk_fail_nomem(err);
    }
    if (had > 0) {
        memcpy(a, c->a, had * w->cols * sizeof *a);
        memcpy(b, c->b, had * w->rows * sizeof *b);
    }
    memcpy(a + had * w->cols, pair->a, (size_t)pair->rank * w->cols * sizeof *a);
    for (size_t r = 0; r < w->rows; r++) {
        const float *from = pair->b + (w->row_begin + r) * pair->rank;
        for (size_t k = 0; k < pair->rank; k++)
            b[(had + k) * w->rows + r] = (float)((double)from[k] * pair->scale * scale);
    }
    free(c->a);
    free(c->b);
    c->a = a;
    c->b = b;
    c->rank = rank;
    return HK_OK;
}

/* The row ROW of W, with C's change, in V. */
static void read_changed_row(const struct hke_change *c, const struct hke_weight *w, size_t row,
                             float *v)
{
    const float *replaced = hke_replaced_row(c, row, w->cols);
    if (replaced != NULL)
        memcpy(v, replaced, w->cols * sizeof *v);
    else
        hk_decoder_read(w->decoder, (uint64_t)hke_weight_row(w, 0, row) * w->cols, w->cols, v);
    for (size_t k = 0; k < c->rank; k++) {
        const float b = c->b[k * w->rows + row], *a = c->a + k * w->cols;
        for (size_t i = 0; i < w->cols; i++)
            v[i] += b * a[i];
    }
}

/* Scale the rows of W as C has it, which has this pair alone, to the lengths that PAIR says. */
static enum hk_status scale_rows(struct hke_change *c, const struct hke_weight *w,
                                 const struct hk_low_rank *pair, struct hk_error *err)
{
    float *v = calloc(w->cols, sizeof *v);
    c->row_scale = calloc(w->rows, sizeof *c->row_scale);
    if (v == NULL || c->row_scale == NULL) {
        free(v);
        return hk_fail_nomem(err);
    }
    for (size_t r = 0; r < w->rows; r++) {
        double norm = 0;
        read_changed_row(c, w, r, v);
        for (size_t i = 0; i < w->cols; i++)
            norm += (double)v[i] * (double)v[i];
        const double length = (double)pair->magnitude[w->row_begin + r];
        c->row_scale[r] = norm > 0 ? (float)(length / sqrt(norm)) : 0;
        for (size_t k = 0; k < c->rank; k++)
            c->b[k * w->rows + r] *= c->row_scale[r];
    }
    free(v);
    return HK_OK;
}

/* The rows of WHOLE that are W's. */
static enum hk_status replace_rows(struct hke_change *c, const struct hke_weight *w,
                                   const struct hk_replacement *whole, struct hk_error *err)
{
    size_t from = w->row_begin, n = w->rows;
    if (whole->rows != NULL) {
        for (from = 0; from < whole->row_count && whole->rows[from] < w->row_begin;)
            from++;
        for (n = 0; from + n < whole->row_count && whole->rows[from + n] < w->row_begin + w->rows;)
            n++;
    }
    if (n == 0)
        return HK_OK;
    c->replaced = calloc(n * w->cols, sizeof *c->replaced);
    c->row = whole->rows != NULL ? calloc(n, sizeof *c->row) : NULL;
    if (c->replaced == NULL || (whole->rows != NULL && c->row == NULL))
        return hk_fail_nomem(err);
    memcpy(c->replaced, whole->values + from * w->cols, n * w->cols * sizeof *c->replaced);
    for (size_t i = 0; c->row != NULL && i < n; i++)
        c->row[i] = whole->rows[from + i] - (uint32_t)w->row_begin;
    c->replaced_count = n;
    return HK_OK;
}

static enum hk_status change_weight(const struct hke_adapters *adapters, struct hke_change *c,
                                    const struct hke_weight *w, const struct part *p,
                                    struct hk_error *err)
{
    enum hk_status st = check_order(adapters, c, p, err);
    if (st != HK_OK)
        return st;
    if (c->first == 0)
        c->first = adapters->count;
    if (p->whole != NULL)
        return replace_rows(c, w, p->whole, err);
    st = stack_ranks(c, w, p->pair, p->scale, err);
    return st == HK_OK && p->pair->magnitude != NULL ? scale_rows(c, w, p->pair, err) : st;
}

/* Between the host's order and the one in which products have floats. */
static void turn_order(struct hke_change *c, const struct hke_weight *w)
{
    hke_to_file_order(c->a, c->rank * w->cols);
    hke_to_file_order(c->replaced, c->replaced_count * w->cols);
}

static enum hk_status change_product(struct hke_adapters *adapters, const struct hke_weight *w,
                                     const struct part *p, struct hk_error *err)
{
    struct hke_change *c = &adapters->product[w - adapters->plan->weight];
    turn_order(c, w);
    enum hk_status st = change_weight(adapters, c, w, p, err);
    turn_order(c, w);
    if (c->rank > adapters->max_rank)
        adapters->max_rank = c->rank;
    return st;
}

/* ---- what an adapter changes ---- */

/* Whether P, which is for USE, changes the product with W in STEP. A matrix may be the embedding
 * and the head. */
static bool changes_product(const struct part *p, enum hk_weight_use use, const struct hke_step *s,
                            const struct hke_weight *w)
{
    if (s->kind == HKE_LOGITS)
        return use == HK_USE_HEAD || use == HK_USE_BOTH;
    return s->kind == HKE_PRODUCT && use == HK_USE_MATRIX && w->tensor == base_of(p);
}

static enum hk_status change_products(struct hke_adapters *adapters, const struct part *p,
                                      enum hk_weight_use use, struct hk_error *err)
{
    const struct hke_plan *plan = adapters->plan;
    enum hk_status st = HK_OK;
    bool found = false;
    for (size_t i = 0; i < plan->steps; i++)
        for (size_t k = 0; k < plan->step[i].operands && st == HK_OK; k++) {
            const struct hke_weight *w = plan->step[i].operand[k].weight;
            if (!changes_product(p, use, &plan->step[i], w))
                continue;
            found = true;
            st = change_product(adapters, w, p, err);
        }
    return found ? st : refuse_change(base_of(p), "an adapter of it", err);
}

static enum hk_status add_part(struct hke_adapters *adapters, const struct part *p,
                               struct hk_error *err)
{
    const enum hk_weight_use use = p->pair != NULL ? p->pair->use : p->whole->use;
    enum hk_status st = HK_OK;
    if (use == HK_USE_EMBEDDING || use == HK_USE_BOTH)
        st = change_weight(adapters, &adapters->embedding,
                           adapters->plan->step[0].operand[0].weight, p, err);
    if (st == HK_OK && use != HK_USE_EMBEDDING)
        st = change_products(adapters, p, use, err);
    return st;
}

static enum hk_status check_whole(const struct hk_replacement *whole, double scale,
                                  struct hk_error *err)
{
    if (whole->base->ndim != 2)
        return refuse_change(whole->base, "a norm or a bias that was trained", err);
    if (scale < 1 || scale > 1)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s: one that was trained whole is taken once, not %g times",
                       HK_STR(whole->base->name), scale);
    return HK_OK;
}

enum hk_status hke_adapters_add(struct hke_adapters *adapters, const struct hk_adapter *a,
                                double scale, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    adapters->count++;
    for (size_t i = 0; st == HK_OK && i < hk_adapter_replacements(a); i++) {
        const struct part p = {.whole = hk_adapter_replacement(a, i)};
        st = check_whole(p.whole, scale, err);
        if (st == HK_OK)
            st = add_part(adapters, &p, err);
    }
    for (size_t i = 0; st == HK_OK && i < hk_adapter_count(a); i++) {
        const struct part p = {.pair = hk_adapter_at(a, i), .scale = scale};
        st = add_part(adapters, &p, err);
    }
    return st;
}
