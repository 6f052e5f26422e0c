/* Choosing experts. Scores become softmax (e^(x - max) / sum) or 1 / (1 + e^-x); with the bias they
 * are what is chosen by. Of two the greater is better, any number than NaN, of equal ones the lower
 * number. Weights are the scores without bias; where they are normalised each is divided by their
 * sum, best first, plus epsilon. */

/* Whether A, which has the higher number, is better than B. */
static inline bool FN(is_better)(float a, float b)
{
    return a > b || (isnan(b) && !isnan(a));
}

/* Put I, scored X[I] and higher than all that are in it, into the best list BEST of *N, at most
 * MOST. */
static inline void FN(enter)(uint32_t *best, size_t *n, size_t most, const float *x, uint32_t i)
{
    size_t at = *n;
    while (at > 0 && FN(is_better)(x[i], x[best[at - 1]]))
        at--;
    if (at == most)
        return;
    *n += *n < most;
    for (size_t k = *n - 1; k > at; k--)
        best[k] = best[k - 1];
    best[at] = i;
}

/* The sum of the R->group_best best of the N numbers X, better first. */
static inline float FN(group_score)(const float *x, size_t n, size_t best)
{
    uint32_t two[2];
    size_t in = 0;
    for (uint32_t i = 0; i < n; i++)
        FN(enter)(two, &in, 2, x, i);
    return best == 2 && in == 2 ? x[two[0]] + x[two[1]] : x[two[0]];
}

/* Which groups experts are taken from: KEPT[g]. */
static void FN(keep_groups)(const struct hkk_router *r, const float *choice, bool *kept)
{
    float score[HKK_MAX_GROUPS];
    uint32_t best[HKK_MAX_GROUPS];
    const size_t each = r->experts / r->groups;
    size_t in = 0;
    for (uint32_t g = 0; g < r->groups; g++) {
        score[g] = FN(group_score)(choice + g * each, each, r->group_best);
        FN(enter)(best, &in, r->kept_groups, score, g);
        kept[g] = false;
    }
    for (size_t i = 0; i < in; i++)
        kept[best[i]] = true;
}

static void FN(choose)(const struct hkk_router *r, const float *choice, uint32_t *expert)
{
    bool kept[HKK_MAX_GROUPS] = {true};
    const size_t each = r->groups > 0 ? r->experts / r->groups : r->experts;
    size_t in = 0;
    if (r->groups > 0)
        FN(keep_groups)(r, choice, kept);
    for (uint32_t i = 0; i < r->experts; i++)
        if (kept[i / each])
            FN(enter)(expert, &in, r->chosen, choice, i);
}

static void FN(route)(const struct hkk_router *r, float *score, float *choice, uint32_t *expert,
                      float *weight)
{
    if (r->sigmoid) {
        FN(sigmoid)(score, r->experts);
    } else {
        const float sum = FN(softmax)(score, r->experts);
        for (size_t i = 0; i < r->experts; i++)
            score[i] /= sum;
    }
    for (size_t i = 0; i < r->experts; i++)
        choice[i] = r->bias != NULL ? score[i] + r->bias[i] : score[i];
    FN(choose)(r, choice, expert);
    float sum = 0;
    for (size_t i = 0; i < r->chosen; i++)
        sum += weight[i] = score[expert[i]];
    for (size_t i = 0; i < r->chosen; i++) {
        if (r->normalise)
            weight[i] /= sum + r->epsilon;
        weight[i] *= r->scale;
        if (r->expert_scale != NULL)
            weight[i] *= r->expert_scale[expert[i]];
    }
}
