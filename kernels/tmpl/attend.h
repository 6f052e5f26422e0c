/* Attention of queries over one segment of the past.
 *
 * Scores: lane = position of a tile; acc = fma(q[d], key[d], acc) for d = 0, 1, ..., then times the
 * scale. The largest is found as in softmax, positions past the visible ones being -infinity; the
 * weights e^(score - most) are added in 16 lanes, zeros past the visible ones, and by v_sum's tree.
 * Values: sum[i] = fma(weight, value[i], sum[i]) over the positions in sequence, from 0. What lies
 * past a query's visible positions is read at most as part of the last tile, and never counts.
 *
 * Keys and values are widened once for ATTEND_QUERIES queries; a single query takes as many tiles,
 * or sixteens of dimensions, at once. */

enum { ATTEND_QUERIES = 4 };

/* Scores of NQ queries for NT tiles from position AT on. */
static inline __attribute__((always_inline)) void
FN(score_block)(const struct hkk_segment *s, const struct hkk_query *query, size_t at,
                float (*scores)[HKK_SEGMENT], int nq, int nt)
{
    const uint16_t *keys = s->keys + at * s->key_dim;
    const vec scale = v_set(s->scale);
    vec acc[ATTEND_QUERIES];
#pragma GCC unroll 4
    for (int i = 0; i < nq * nt; i++)
        acc[i] = v_set(0);
    for (size_t d = 0; d < s->key_dim; d++) {
#pragma GCC unroll 4
        for (int i = 0; i < nq * nt; i++) {
            size_t tile = (size_t)(nt > 1 ? i : 0), q = (size_t)(nt > 1 ? 0 : i);
            vec key = v_load_half(keys + (tile * s->key_dim + d) * HKK_TILE);
            acc[i] = v_fma(v_set(query[q].q[d]), key, acc[i]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < nq * nt; i++)
        v_store(scores[nt > 1 ? 0 : i] + at + (nt > 1 ? HKK_TILE * (size_t)i : 0),
                v_mul(acc[i], scale));
}

/* Scores to weights: most and weight of OUT. */
static inline void FN(weigh)(struct hkk_query *query, float *scores)
{
    const vec least = v_set(-INFINITY);
    vec most = least, sum = v_set(0);
    for (size_t at = 0; at < query->visible; at += HKK_TILE)
        most = v_max(v_first(v_load(scores + at), least, query->visible - at), most);
    query->out.most = v_top(most);
    most = v_set(query->out.most);
    for (size_t at = 0; at < query->visible; at += HKK_TILE) {
        vec e = v_first(v_exp(v_sub(v_load(scores + at), most)), v_set(0), query->visible - at);
        sum = v_add(sum, e);
        v_store(scores + at, e);
    }
    query->out.weight = v_sum(sum);
}

/* Sums of NQ queries over the positions [FROM, TO), ND sixteens of dimensions from I on. */
static inline __attribute__((always_inline)) void
FN(value_block)(const struct hkk_segment *s, struct hkk_query *query, size_t from, size_t to,
                size_t i, float (*weights)[HKK_SEGMENT], int nq, int nd)
{
    vec acc[ATTEND_QUERIES];
#pragma GCC unroll 4
    for (int j = 0; j < nq * nd; j++)
        acc[j] = v_load(query[nd > 1 ? 0 : j].out.sum + i + (nd > 1 ? 16 * (size_t)j : 0));
    for (size_t at = from; at < to; at++) {
        const uint16_t *value = s->values + at * s->value_dim + i;
#pragma GCC unroll 4
        for (int j = 0; j < nq * nd; j++)
            acc[j] = v_fma(v_set(weights[nd > 1 ? 0 : j][at]),
                           v_load_half(value + (nd > 1 ? 16 * (size_t)j : 0)), acc[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < nq * nd; j++)
        v_store(query[nd > 1 ? 0 : j].out.sum + i + (nd > 1 ? 16 * (size_t)j : 0), acc[j]);
}

/* The dimensions past the last sixteen. */
static inline void FN(value_tail)(const struct hkk_segment *s, struct hkk_query *query, size_t i,
                                  const float *weights)
{
    size_t n = s->value_dim - i;
    vec acc = v_set(0);
    for (size_t at = 0; at < query->visible; at++)
        acc =
            v_fma(v_set(weights[at]), v_load_half_some(s->values + at * s->value_dim + i, n), acc);
    v_store_some(query->out.sum + i, acc, n);
}

/* One query's sums over the positions from FROM on. */
static inline void FN(values_of_one)(const struct hkk_segment *s, struct hkk_query *query,
                                     size_t from, float (*weights)[HKK_SEGMENT])
{
    size_t i = 0, to = query->visible;
    for (; i + 16 * ATTEND_QUERIES <= s->value_dim && from < to; i += 16 * ATTEND_QUERIES)
        FN(value_block)(s, query, from, to, i, weights, 1, ATTEND_QUERIES);
    for (; i + 16 <= s->value_dim && from < to; i += 16)
        FN(value_block)(s, query, from, to, i, weights, 1, 1);
}

/* N queries, at most ATTEND_QUERIES. */
static void FN(attend_some)(const struct hkk_segment *s, struct hkk_query *query, size_t n,
                            float (*scores)[HKK_SEGMENT])
{
    size_t most = 0, least = HKK_SEGMENT, at = 0, whole = s->value_dim / 16 * 16;
    for (size_t i = 0; i < n; i++) {
        most = query[i].visible > most ? query[i].visible : most;
        least = query[i].visible < least ? query[i].visible : least;
        memset(query[i].out.sum, 0, s->value_dim * sizeof *query->out.sum);
    }
    bool together = n == ATTEND_QUERIES;
    for (; together && at < most; at += HKK_TILE)
        FN(score_block)(s, query, at, scores, ATTEND_QUERIES, 1);
    for (size_t i = 0; i < n && !together; i++) {
        at = 0;
        for (; at + HKK_TILE * ATTEND_QUERIES <= query[i].visible; at += HKK_TILE * ATTEND_QUERIES)
            FN(score_block)(s, query + i, at, scores + i, 1, ATTEND_QUERIES);
        for (; at < query[i].visible; at += HKK_TILE)
            FN(score_block)(s, query + i, at, scores + i, 1, 1);
    }
    for (size_t i = 0; i < n; i++)
        FN(weigh)(query + i, scores[i]);
    for (size_t i = 0; together && i < whole; i += 16)
        FN(value_block)(s, query, 0, least, i, scores, ATTEND_QUERIES, 1);
    for (size_t i = 0; i < n; i++) {
        FN(values_of_one)(s, query + i, together ? least : 0, scores + i);
        if (whole < s->value_dim)
            FN(value_tail)(s, query + i, whole, scores[i]);
    }
}

static void FN(attend)(const struct hkk_segment *s, struct hkk_query *query, size_t n,
                       void *scratch)
{
    for (size_t i = 0; i < n; i += ATTEND_QUERIES)
        FN(attend_some)(s, query + i, n - i < ATTEND_QUERIES ? n - i : ATTEND_QUERIES, scratch);
}
