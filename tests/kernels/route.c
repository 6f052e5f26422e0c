/* Choosing experts: each level against generic, and generic against a choice made one by one. */
#include "tests/kernels/checkkern.h"

#include <math.h>
#include <string.h>

enum { MOST_EXPERTS = 300, MOST_CHOSEN = 12 };

struct choice {
    struct hkk_router router;
    float score[MOST_EXPERTS], bias[MOST_EXPERTS], scale[MOST_EXPERTS];
};

/* With ties, and hostile numbers in some. */
static void random_choice(struct run *r, struct choice *c, unsigned round)
{
    const size_t each = 2 + random_below(&r->random, 9);
    const size_t groups = 1 + random_below(&r->random, 24), kept = 1 + round % groups;
    const size_t most = kept * each < MOST_CHOSEN ? kept * each : MOST_CHOSEN;
    memset(c, 0, sizeof *c);
    c->router = (struct hkk_router){.experts = groups * each,
                                    .chosen = 1 + random_below(&r->random, most),
                                    .sigmoid = round % 2 == 0,
                                    .bias = round % 3 == 0 ? c->bias : NULL,
                                    .groups = round % 5 < 2 ? groups : 0,
                                    .kept_groups = kept,
                                    .group_best = 1 + round % 2,
                                    .normalise = round % 7 < 4,
                                    .epsilon = round % 7 < 2 ? 1e-20f : 0,
                                    .scale = 1 + random_float(&r->random),
                                    .expert_scale = round % 11 == 0 ? c->scale : NULL};
    random_floats(&r->random, c->score, MOST_EXPERTS, round % 6 == 5 ? 5 : 0);
    random_floats(&r->random, c->bias, MOST_EXPERTS, round % 9 == 8 ? 5 : 0);
    random_floats(&r->random, c->scale, MOST_EXPERTS, 0);
    for (size_t i = 0; i < MOST_EXPERTS && round % 4 == 0; i++) {
        c->score[i] = (float)random_below(&r->random, 3);
        c->bias[i] = 0.25f * (float)random_below(&r->random, 2);
    }
}

struct routed {
    uint32_t expert[MOST_CHOSEN];
    float weight[MOST_CHOSEN], score[MOST_EXPERTS];
};

static void route(const struct hkk_table *t, const struct choice *c, struct routed *out)
{
    float choice[MOST_EXPERTS];
    memset(out, 0, sizeof *out);
    memcpy(out->score, c->score, sizeof c->score);
    t->route(&c->router, out->score, choice, out->expert, out->weight);
}

bool check_route(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    struct choice c;
    struct routed got, expected;
    random_choice(r, &c, round);
    route(r->level, &c, &got);
    route(r->reference, &c, &expected);
    return same_bytes(r, got.expert, expected.expert, sizeof got.expert, "experts") &&
           same_floats(r, got.weight, expected.weight, MOST_CHOSEN, "weights");
}

/* The best of the experts for which OPEN, by number among equal ones. */
static size_t best_of(const double *x, const bool *open, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (open[i] && (best == n || x[i] > x[best]))
            best = i;
    return best;
}

/* Leaves OPEN the experts of the groups that are kept. X has no NaN. */
static void close_groups(const struct hkk_router *o, const double *x, bool *open)
{
    const size_t each = o->experts / o->groups;
    double score[HKK_MAX_GROUPS];
    bool closed[HKK_MAX_GROUPS];
    for (size_t g = 0; g < o->groups; g++) {
        bool in[MOST_EXPERTS];
        memset(in, true, sizeof in);
        const size_t first = best_of(x + g * each, in, each);
        in[first] = false;
        score[g] = x[g * each + first];
        if (o->group_best == 2) /* as f32, in which groups tie */
            score[g] = (double)(float)(score[g] + x[g * each + best_of(x + g * each, in, each)]);
        closed[g] = true;
    }
    for (size_t i = 0; i < o->kept_groups; i++)
        closed[best_of(score, closed, o->groups)] = false;
    for (size_t i = 0; i < o->experts; i++)
        open[i] = !closed[i / each];
}

/* By the probabilities that route() leaves; those are softmax's or sigmoid's, tested elsewhere. */
static bool is_chosen_right(struct run *r, const struct choice *c, const struct routed *got)
{
    const struct hkk_router *o = &c->router;
    double by[MOST_EXPERTS], sum = 0;
    bool open[MOST_EXPERTS];
    for (size_t i = 0; i < o->experts; i++) {
        by[i] = (double)(got->score[i] + (o->bias != NULL ? o->bias[i] : 0));
        open[i] = true;
    }
    if (o->groups > 0)
        close_groups(o, by, open);
    for (size_t i = 0; i < o->chosen; i++)
        sum += (double)got->score[got->expert[i]];
    for (size_t i = 0; i < o->chosen; i++) {
        const size_t best = best_of(by, open, o->experts);
        if (got->expert[i] != best)
            return differs(r, "slot %zu has expert %u, not %zu", i, got->expert[i], best);
        open[best] = false;
        double weight = (double)got->score[best] * (double)o->scale;
        weight /= o->normalise ? sum + (double)o->epsilon : 1;
        weight *= o->expert_scale != NULL ? (double)o->expert_scale[best] : 1;
        if (fabs((double)got->weight[i] - weight) > 1e-6 * fabs(weight))
            return differs(r, "slot %zu has weight %g, not %g", i, (double)got->weight[i], weight);
    }
    return true;
}

bool define_route(struct run *r, unsigned type)
{
    (void)type;
    for (unsigned round = 0; round < 400; round++) {
        struct choice c;
        struct routed got;
        if (round % 6 == 5 || round % 9 == 8) /* hostile numbers */
            continue;
        random_choice(r, &c, round);
        route(r->reference, &c, &got);
        if (!is_chosen_right(r, &c, &got))
            return false;
    }
    return true;
}
