/* Adapters, put together by the weights that they change. */
#include "engine/plan/adapters.h"

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

static void free_low_rank(struct hke_low_rank *low)
{
    free(low->a);
    free(low->b);
}

void hke_adapters_free(struct hke_adapters **a)
{
    if (*a == NULL)
        return;
    for (size_t i = 0; i < (*a)->products; i++)
        free_low_rank(&(*a)->product[i]);
    free_low_rank(&(*a)->embedding);
    free((*a)->product);
    free(*a);
    *a = NULL;
}

const struct hke_low_rank *hke_low_rank_of(const struct hke_adapters *adapters,
                                           const struct hke_weight *w)
{
    if (adapters == NULL)
        return NULL;
    const struct hke_low_rank *low = &adapters->product[w - adapters->plan->weight];
    return low->rank > 0 ? low : NULL;
}

/* ---- adding one ---- */

/* LOW, which is of W, and PAIR, SCALE times, become one of the rank of both. */
static enum hk_status stack_ranks(struct hke_low_rank *low, const struct hke_weight *w,
                                  const struct hk_low_rank *pair, double scale,
                                  struct hk_error *err)
{
    const size_t had = low->rank, rank = had + pair->rank;
    struct hke_low_rank both = {.rank = rank,
                                .a = calloc(rank * w->cols, sizeof *both.a),
                                .b = calloc(w->rows * rank, sizeof *both.b)};
    if (both.a == NULL || both.b == NULL) {
        free_low_rank(&both);
        return hk_fail_nomem(err);
    }
    if (had > 0)
        memcpy(both.a, low->a, had * w->cols * sizeof *both.a);
    memcpy(both.a + had * w->cols, pair->a, (size_t)pair->rank * w->cols * sizeof *both.a);
    for (size_t r = 0; r < w->rows; r++) {
        const float *b = pair->b + (w->row_begin + r) * pair->rank;
        for (size_t k = 0; k < had; k++)
            both.b[r * rank + k] = low->b[r * had + k];
        for (size_t k = 0; k < pair->rank; k++)
            both.b[r * rank + had + k] = (float)((double)b[k] * pair->scale * scale);
    }
    free_low_rank(low);
    *low = both;
    return HK_OK;
}

static enum hk_status add_to_product(struct hke_adapters *adapters, const struct hke_weight *w,
                                     const struct hk_low_rank *pair, double scale,
                                     struct hk_error *err)
{
    struct hke_low_rank *low = &adapters->product[w - adapters->plan->weight];
    enum hk_status st = stack_ranks(low, w, pair, scale, err);
    if (st != HK_OK)
        return st;
    hke_to_file_order(low->a + (low->rank - pair->rank) * w->cols, (size_t)pair->rank * w->cols);
    if (low->rank > adapters->max_rank)
        adapters->max_rank = low->rank;
    return HK_OK;
}

static enum hk_status refuse_change(const struct hk_tensor *t, const char *what,
                                    struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tensor %.*s: %s is not applied while running; hk-merge folds it in",
                   HK_STR(t->name), what);
}

/* Whether PAIR changes the product with W in STEP. A matrix may be the embedding and the head. */
static bool changes_product(const struct hk_low_rank *pair, const struct hke_step *s,
                            const struct hke_weight *w)
{
    if (s->kind == HKE_LOGITS)
        return pair->use == HK_USE_HEAD;
    return s->kind == HKE_PRODUCT && pair->use == HK_USE_MATRIX && w->tensor == pair->base;
}

static enum hk_status add_low_rank_pair(struct hke_adapters *adapters,
                                        const struct hk_low_rank *pair, double scale,
                                        struct hk_error *err)
{
    const struct hke_plan *p = adapters->plan;
    enum hk_status st = HK_OK;
    bool found = false;
    if (pair->magnitude != NULL)
        return refuse_change(pair->base, "a DoRA's magnitude", err);
    if (pair->use == HK_USE_EMBEDDING)
        return stack_ranks(&adapters->embedding, p->step[0].operand[0].weight, pair, scale, err);
    for (size_t i = 0; i < p->steps; i++)
        for (size_t k = 0; k < p->step[i].operands && st == HK_OK; k++) {
            const struct hke_weight *w = p->step[i].operand[k].weight;
            if (!changes_product(pair, &p->step[i], w))
                continue;
            found = true;
            st = add_to_product(adapters, w, pair, scale, err);
        }
    return found ? st : refuse_change(pair->base, "an adapter of it", err);
}

enum hk_status hke_adapters_add(struct hke_adapters *adapters, const struct hk_adapter *a,
                                double scale, struct hk_error *err)
{
    if (hk_adapter_replacements(a) > 0) {
        const struct hk_replacement *r = hk_adapter_replacement(a, 0);
        return refuse_change(
            r->base, r->rows != NULL ? "trained tokens" : "a tensor that was trained whole", err);
    }
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < hk_adapter_count(a); i++)
        st = add_low_rank_pair(adapters, hk_adapter_at(a, i), scale, err);
    return st;
}
