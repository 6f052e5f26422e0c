/* Experts: which tokens chose which, products with those tokens alone, and the sum of what a
 * token's experts give. What a token gets does not depend on who else chose its experts.
 *
 * Of one token every worker routes and rounds for itself, in memory of its own. */
#include <string.h>

#include "engine/cpu/cpu.h"

static struct hke_routes *routes_of(const struct hke_pass *p, struct hke_worker *own)
{
    return hke_is_single_token(p) ? &own->routes : &p->cpu->routes;
}

/* ---- choosing ---- */

static struct hkk_router router_of_kernels(const struct hke_router *r)
{
    return (struct hkk_router){.experts = r->experts,
                               .chosen = r->chosen,
                               .sigmoid = r->sigmoid,
                               .bias = r->bias,
                               .groups = r->groups,
                               .kept_groups = r->kept_groups,
                               .group_best = r->group_best,
                               .normalise = r->normalise,
                               .epsilon = r->epsilon,
                               .scale = r->scale,
                               .expert_scale = r->expert_scale};
}

static void route_token(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s,
                        size_t t)
{
    const struct hkk_router router = router_of_kernels(&s->router), *r = &router;
    const struct hke_routes *to = routes_of(p, own);
    const size_t token = hke_first_token(p, s) + t;
    memcpy(own->scores, p->cpu->buffer[HKE_SCORES] + token * r->experts,
           r->experts * sizeof(float));
    p->cpu->kernels->route(r, own->scores, own->scores + r->experts, to->expert + t * r->chosen,
                           to->weight + t * r->chosen);
}

/* Number the places of N tokens. */
static void number_places(struct hke_routes *r, const struct hke_router *router, size_t n)
{
    const size_t k = router->chosen, places = n * k;
    memset(r->begin, 0, (router->experts + 1) * sizeof *r->begin);
    for (size_t i = 0; i < places; i++)
        r->begin[r->expert[i] + 1]++;
    r->actives = 0;
    for (uint32_t e = 0; e < router->experts; e++) {
        if (r->begin[e + 1] > 0)
            r->active[r->actives++] = e;
        r->begin[e + 1] += r->begin[e];
    }
    for (size_t i = 0; i < places; i++) { /* BEGIN moves to the end of each, and is moved back */
        r->place[i] = r->begin[r->expert[i]]++;
        r->token[r->place[i]] = (uint32_t)(i / k);
    }
    for (size_t e = router->experts; e > 0; e--)
        r->begin[e] = r->begin[e - 1];
    r->begin[0] = 0;
}

void hke_route_tokens(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    struct hke_pool *pool = p->cpu->pool;
    const size_t n = p->n - hke_first_token(p, s);
    struct hke_routes *r = routes_of(p, own);
    size_t begin, end;
    if (hke_is_single_token(p)) {
        route_token(p, own, s, 0);
        number_places(r, &s->router, 1);
        return;
    }
    while (hke_pool_take(pool, own->number, n, hke_pool_grain(pool, n, n), &begin, &end))
        for (size_t t = begin; t < end; t++)
            route_token(p, own, s, t);
    hke_pool_barrier(pool);
    if (own->number == 0)
        number_places(r, &s->router, n);
    hke_pool_barrier(pool);
}

/* ---- activations of places ---- */

/* N tokens of A from FIRST on. */
static struct hkk_acts acts_part(const struct hkk_acts *a, size_t first, size_t n)
{
    struct hkk_acts part = *a;
    part.n = n;
    part.x += first * a->cols;
    part.tiles = NULL;
    if (a->kind != HKK_KIND_F32) {
        part.q += first * a->cols;
        part.d += first * a->blocks;
        part.sum += first * a->sums;
    }
    return part;
}

/* Places [BEGIN, END) of TO, whose numbers are at X, become copies of the tokens that they have. */
static void copy_tokens(const struct hkk_acts *from, struct hkk_acts *to, float *x,
                        const uint32_t *token, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const struct hkk_acts source = acts_part(from, token[i], 1);
        const struct hkk_acts place = acts_part(to, i, 1);
        if (from->kind == HKK_KIND_F32) {
            memcpy(x + i * from->cols, source.x, from->cols * sizeof *x);
            continue;
        }
        memcpy(place.q, source.q, from->cols);
        memcpy(place.d, source.d, from->blocks * sizeof *place.d);
        memcpy(place.sum, source.sum, from->sums * sizeof *place.sum);
    }
}

/* The kinds that the operands of S are multiplied with, as bits. */
static unsigned kinds_of_operands(const struct hke_cpu *c, const struct hke_step *s)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < s->operands; i++)
        kinds |= 1u << hke_activation_kind(c, s->operand[i].weight);
    return kinds;
}

/* Of the tokens of IN, as places. */
static void gather_places(const struct hke_pass *p, struct hke_worker *own,
                          const struct hke_input *in, struct hke_input *out)
{
    struct hke_pool *pool = p->cpu->pool;
    const size_t cols = in->step->operand[0].weight->cols;
    const size_t n = in->as[HKK_KIND_F32].n * in->step->router.chosen;
    size_t begin, end;
    *out = (struct hke_input){.step = in->step, .kinds = kinds_of_operands(p->cpu, in->step)};
    for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
        if (out->kinds & 1u << kind)
            hkk_acts_place(&out->as[kind], (enum hkk_kind)kind, p->cpu->place_acts[HKK_KIND_F32], n,
                           cols, p->cpu->place_acts[kind]);
    while (hke_pool_take(pool, own->number, n, hke_pool_grain(pool, n, n), &begin, &end))
        for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
            if (out->kinds & 1u << kind)
                copy_tokens(&in->as[kind], &out->as[kind], p->cpu->place_acts[HKK_KIND_F32],
                            p->cpu->routes.token, begin, end);
    hke_pool_barrier(pool);
}

/* Of N places, whose numbers are in EXPERT_FFN. */
static void round_places(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s,
                         size_t n, struct hke_input *out)
{
    struct hke_pool *pool = p->cpu->pool;
    const bool single = hke_is_single_token(p);
    void *const *memory = single ? own->place_acts : p->cpu->place_acts;
    size_t begin = 0, end = n;
    *out = (struct hke_input){.step = s, .kinds = kinds_of_operands(p->cpu, s)};
    for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
        if (out->kinds & 1u << kind)
            hkk_acts_place(&out->as[kind], (enum hkk_kind)kind, p->cpu->buffer[HKE_EXPERT_FFN], n,
                           s->operand[0].weight->cols, memory[kind]);
    while (single ? begin < n
                  : hke_pool_take(pool, own->number, n, hke_pool_grain(pool, n, n), &begin, &end))
        for (; begin < end; begin++)
            hke_round_token(p, out, begin);
    if (!single)
        hke_pool_barrier(pool);
}

/* ---- products ---- */

/* What expert E multiplies: its places of ALL; or the only token. */
static struct hke_input input_of_expert(const struct hke_input *all, const struct hke_routes *r,
                                        size_t e, bool one_token)
{
    struct hke_input in = {.step = all->step, .kinds = all->kinds, .matrix = e};
    const size_t n = r->begin[e + 1] - r->begin[e];
    for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
        if (all->kinds & 1u << kind)
            in.as[kind] = acts_part(&all->as[kind], one_token ? 0 : r->begin[e], n);
    return in;
}

/* Rows [FROM, TO) of expert E's product, of N places from the one that Y is of; and the activation,
 * if there is one. */
static void multiply_expert(const struct hke_pass *p, struct hke_worker *own,
                            const struct hke_input *in, size_t from, size_t to, size_t n, float *y)
{
    const struct hke_step *s = in->step;
    const size_t rows = s->operand[0].weight->rows;
    const bool gated = s->operands > 1;
    hke_multiply_rows(p, own, in, 0, from, to, y + from, rows);
    if (gated)
        hke_multiply_rows(p, own, in, 1, from, to, own->up, HKE_FFN_ROWS);
    for (size_t t = 0; s->activation != HKE_NO_ACTIVATION && t < n; t++)
        hke_activate(p->cpu->kernels, s, y + t * rows + from,
                     gated ? own->up + t * HKE_FFN_ROWS : NULL, to - from);
}

/* The step's products with all experts that are chosen, Y a row for each place. Then a barrier. */
static void multiply_experts(const struct hke_pass *p, struct hke_worker *own,
                             const struct hke_input *all, bool one_token, float *y)
{
    struct hke_pool *pool = p->cpu->pool;
    const struct hke_routes *r = routes_of(p, own);
    const size_t rows = all->step->operand[0].weight->rows;
    const size_t units = (rows + HKE_ROW_GROUP - 1) / HKE_ROW_GROUP, total = units * r->actives;
    const size_t grain = hke_pool_grain(pool, total, HKE_FFN_ROWS / HKE_ROW_GROUP);
    size_t begin, end;
    while (hke_pool_take(pool, own->number, total, grain, &begin, &end))
        for (size_t stop; begin < end; begin = stop) {
            const size_t e = r->active[begin / units], first = begin % units;
            stop = hke_min_size(end, begin - first + units);
            const struct hke_input in = input_of_expert(all, r, e, one_token);
            multiply_expert(p, own, &in, first * HKE_ROW_GROUP,
                            hke_min_size((first + stop - begin) * HKE_ROW_GROUP, rows),
                            r->begin[e + 1] - r->begin[e], y + (size_t)r->begin[e] * rows);
        }
    hke_pool_barrier(pool);
}

void hke_expand_experts(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in)
{
    float *y = p->cpu->buffer[HKE_EXPERT_FFN];
    const struct hke_routes *r = routes_of(p, own);
    struct hke_input places;
    if (own->number == 0)
        hke_residency_experts(p->cpu->residency, in->step, r->active, r->actives);
    if (hke_is_single_token(p)) {
        multiply_experts(p, own, in, true, y);
        return;
    }
    gather_places(p, own, in, &places);
    multiply_experts(p, own, &places, false, y);
}

/* ---- the sum ---- */

/* N numbers from AT on of token T's sum, to OUT. */
static void sum_slots(const struct hke_pass *p, const struct hke_routes *r,
                      const struct hke_step *s, size_t t, size_t at, size_t n, float *out)
{
    const struct hkk_table *k = p->cpu->kernels;
    for (size_t i = t * s->router.chosen; i < (t + 1) * s->router.chosen; i++) {
        float *x = p->cpu->buffer[HKE_EXPERT_OUT] + r->place[i] * p->cpu->plan->hidden + at;
        k->scale(x, r->weight[i], n);
        if (i == t * s->router.chosen)
            memcpy(out, x, n * sizeof *out);
        else
            k->add(out, x, n);
    }
}

void hke_sum_experts(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    enum { NUMBERS = 256 }; /* of one token, that a worker takes at once */
    struct hke_pool *pool = p->cpu->pool;
    const struct hke_routes *r = routes_of(p, own);
    const size_t hidden = p->cpu->plan->hidden, from = hke_first_token(p, s), n = p->n - from;
    const size_t parts = (hidden + NUMBERS - 1) / NUMBERS;
    struct hke_input places;
    size_t begin, end;
    round_places(p, own, s, n * s->router.chosen, &places);
    multiply_experts(p, own, &places, false, p->cpu->buffer[HKE_EXPERT_OUT]);
    while (hke_pool_take(pool, own->number, n * parts, hke_pool_grain(pool, n * parts, n * parts),
                         &begin, &end))
        for (size_t i = begin; i < end; i++) {
            const size_t t = i / parts, at = i % parts * NUMBERS;
            sum_slots(p, r, s, t, at, hke_min_size(NUMBERS, hidden - at),
                      p->cpu->buffer[HKE_DELTA] + (from + t) * hidden + at);
        }
    hke_pool_barrier(pool);
}
