/* Attention of queries over one segment of the past, and the merging of segments.
 *
 * Scores: lane = position of a tile; acc = fma(q[d], key[d], acc) for d = 0, 1, ..., then times the
 * scale. The largest is found as in softmax, positions past the visible ones being -infinity; the
 * weights e^(score - most) are added in 16 lanes, zeros past the visible ones, and by v_sum's tree.
 * Values: sum[i] = fma(weight, value[i], sum[i]) over the positions in sequence, from 0. What lies
 * past a query's visible positions is read at most as part of its last tile, and never counts. */

/* The weights of one query into SCORES, 16 for each tile; most and weight of OUT. */
static inline void FN(score)(const struct hkk_segment *s, struct hkk_query *query, float *scores)
{
    const vec least = v_set(-INFINITY), scale = v_set(s->scale);
    vec most = least, sum = v_set(0);
    for (size_t at = 0; at < query->visible; at += HKK_TILE) {
        const uint16_t *keys = s->keys + at * s->key_dim;
        vec acc = v_set(0);
        for (size_t d = 0; d < s->key_dim; d++)
            acc = v_fma(v_set(query->q[d]), v_load_half(keys + d * HKK_TILE), acc);
        size_t n = query->visible - at;
        acc = v_mul(acc, scale);
        most = v_max(v_first(acc, least, n), most);
        v_store(scores + at, acc);
    }
    query->out.most = v_top(most);
    most = v_set(query->out.most);
    for (size_t at = 0; at < query->visible; at += HKK_TILE) {
        vec e = v_first(v_exp(v_sub(v_load(scores + at), most)), v_set(0), query->visible - at);
        sum = v_add(sum, e);
        v_store(scores + at, e);
    }
    query->out.weight = v_sum(sum);
}

static inline void FN(values)(const struct hkk_segment *s, struct hkk_query *query,
                              const float *weights)
{
    for (size_t i = 0; i < s->value_dim; i += 16) {
        size_t n = s->value_dim - i < 16 ? s->value_dim - i : 16;
        vec acc = v_set(0);
        for (size_t at = 0; at < query->visible; at++)
            acc = v_fma(v_set(weights[at]), v_load_half_some(s->values + at * s->value_dim + i, n),
                        acc);
        v_store_some(query->out.sum + i, acc, n);
    }
}

static void FN(attend)(const struct hkk_segment *s, struct hkk_query *query, size_t n,
                       void *scratch)
{
    for (size_t i = 0; i < n; i++) {
        FN(score)(s, query + i, scratch);
        FN(values)(s, query + i, scratch);
    }
}
