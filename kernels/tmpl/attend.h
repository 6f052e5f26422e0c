/* Attention of queries over one segment of the past.
 *
 * Scores: lane = position of a tile; acc = fma(q[d], key[d], acc) for d = 0, 1, ..., then times the
 * scale, then the soft-cap where there is one. The largest is found as in softmax, positions that
 * are not visible being -infinity; the weights e^(score - max) are added in 16 lanes, zeros where
 * nothing is visible, and by v_sum's tree. Values: sum[i] = fma(weight, value[i], sum[i]) over the
 * visible positions in sequence, from 0. What lies before or past them is read at most as part of
 * a tile of keys, and never counts.
 *
 * A block is some queries by some tiles, or by some sixteens of a value's dimensions. Few queries
 * read the halves where they lie. For many, keys and values are widened into scratch, as much as
 * stays in the first cache, and every group of six queries meets that. */

/* Sixteens that a block of six queries is wide; its accumulators are to stay in registers. */
#ifndef ATTEND_WIDE
#define ATTEND_WIDE 1
#endif

enum {
    GROUP = 6, /* queries of a block where there are many */
    MAX_GROUPS = HKK_QUERIES / GROUP,
    MAX_FEW = 8,                 /* queries that are few */
    FEW_BLOCK = 4 * ATTEND_WIDE, /* queries times sixteens of such a block */
    MAX_SIXTEENS = 8,
    TILES_AHEAD = 8, /* how far few queries fetch ahead */
    VALUES_AHEAD = 16,
    WIDE_FLOATS = 2048 * (ATTEND_WIDE > 2 ? 4 : 2), /* of values, widened at once */
};

_Static_assert(HKK_QUERIES % GROUP == 0, "scores have a row for each query of the last group");

/* Queries that are met together; a row of scores, later weights, for each. */
struct group {
    const float *q[GROUP];
    float *scores[GROUP], *accumulator[GROUP];
    size_t first, end;         /* of positions that any sees */
    size_t common, common_end; /* of those that all see; 0 and 0: there are none */
};

/* The parts of scratch. */
struct room {
    float *scores; /* [HKK_QUERIES][HKK_SEGMENT] */
    float *sum;    /* of queries that are not there */
    float *wide;
};

#define BLOCK static inline __attribute__((always_inline))

BLOCK size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

BLOCK size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows of sixteens of numbers: halves, or f32 if they are wide. */
struct sixteens {
    const void *p;
    size_t row, next; /* numbers from a row to the next, from a sixteen to the next */
    bool wide;
    const uint16_t *ahead; /* of halves: where what will be wanted soon lies likewise */
};

BLOCK vec sixteen(const struct sixteens *m, size_t at)
{
    return m->wide ? v_load((const float *)m->p + at) : v_load_half((const uint16_t *)m->p + at);
}

/* ACC[i][j] = fma(X[i][k], row k's sixteen j, ACC[i][j]) for the rows k below N in sequence; NX of
 * X and NJ sixteens. */
BLOCK void add_sixteens(vec *acc, const float *const *x, const struct sixteens *m, size_t n, int nx,
                        int nj)
{
    for (size_t k = 0; k < n; k++) {
        vec row[MAX_SIXTEENS];
#pragma GCC unroll 8
        for (int j = 0; j < nj; j++) {
            row[j] = sixteen(m, k * m->row + (size_t)j * m->next);
            if (!m->wide)
                __builtin_prefetch(m->ahead + k * m->row + (size_t)j * m->next, 0, 2);
        }
#pragma GCC unroll 6
        for (int i = 0; i < nx; i++) {
            vec y = v_set(x[i][k]);
#pragma GCC unroll 8
            for (int j = 0; j < nj; j++)
                acc[i * nj + j] = v_fma(y, row[j], acc[i * nj + j]);
        }
    }
}

/* Scores of NQ queries for the NT tiles KEYS, which are those from position AT on. */
BLOCK void score_block(const struct hkk_segment *s, const struct group *g, struct sixteens keys,
                       size_t at, int nq, int nt)
{
    vec acc[GROUP * MAX_SIXTEENS];
    const float *q[GROUP];
#pragma GCC unroll 48
    for (int i = 0; i < nq * nt; i++)
        acc[i] = v_set(0);
#pragma GCC unroll 6
    for (int i = 0; i < nq; i++)
        q[i] = g->q[i];
    add_sixteens(acc, q, &keys, s->key_dim, nq, nt);
#pragma GCC unroll 6
    for (int i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nt; j++)
            v_store(g->scores[i] + at + HKK_TILE * (size_t)j,
                    v_mul(acc[i * nt + j], v_set(s->scale)));
}

/* Sums of NQ queries over the positions [FROM, TO), whose VALUES are ND sixteens of dimensions from
 * DIM on. */
BLOCK void value_block(const struct group *g, struct sixteens values, size_t from, size_t to,
                       size_t dim, int nq, int nd)
{
    vec acc[GROUP * MAX_SIXTEENS];
    const float *weights[GROUP];
#pragma GCC unroll 6
    for (int i = 0; i < nq; i++) {
        weights[i] = g->scores[i] + from;
#pragma GCC unroll 8
        for (int j = 0; j < nd; j++)
            acc[i * nd + j] = v_load(g->accumulator[i] + dim + 16 * (size_t)j);
    }
    add_sixteens(acc, weights, &values, to - from, nq, nd);
#pragma GCC unroll 6
    for (int i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nd; j++)
            v_store(g->accumulator[i] + dim + 16 * (size_t)j, acc[i * nd + j]);
}

BLOCK size_t tile_start(size_t position)
{
    return position / HKK_TILE * HKK_TILE;
}

static void FN(cap_scores)(const struct hkk_query *query, float *scores, float cap)
{
    for (size_t at = tile_start(query->first); at < query->end; at += HKK_TILE)
        v_store(scores + at, v_soft_cap(v_load(scores + at), v_set(cap)));
}

/* Scores to weights: max and denominator of OUT. */
static inline void FN(weigh)(const struct hkk_segment *s, struct hkk_query *query, float *scores)
{
    const vec least = v_set(-INFINITY);
    const size_t first = tile_start(query->first), end = query->first < query->end ? query->end : 0;
    vec max = least, sum = v_set(0);
    if (s->soft_cap > 0)
        FN(cap_scores)(query, scores, s->soft_cap);
    for (size_t at = first; at < query->first; at++)
        scores[at] = -INFINITY;
    for (size_t at = first; at < end; at += HKK_TILE)
        max = v_max(v_first(v_load(scores + at), least, end - at), max);
    query->out.max = v_reduce_max(max);
    max = v_set(query->out.max);
    for (size_t at = first; at < end; at += HKK_TILE) {
        vec e = v_first(v_exp_low(v_sub(v_load(scores + at), max)), v_set(0), end - at);
        sum = v_add(sum, e);
        v_store(scores + at, e);
    }
    query->out.denominator = v_sum(sum);
}

/* ---- few queries ---- */

/* The tiles from position AT on. After the last tiles the values will be wanted. */
BLOCK struct sixteens tiles_at(const struct hkk_segment *s, size_t at)
{
    size_t next = at + TILES_AHEAD * HKK_TILE, dim = s->key_dim;
    return (struct sixteens){s->keys + at * dim, HKK_TILE, HKK_TILE * dim, false,
                             next < HKK_SEGMENT ? s->keys + next * dim
                                                : s->values + (next - HKK_SEGMENT) * dim};
}

/* The values from position AT and dimension DIM on. */
BLOCK struct sixteens values_at(const struct hkk_segment *s, size_t at, size_t dim)
{
    const uint16_t *p = s->values + at * s->value_dim + dim;
    return (struct sixteens){p, s->value_dim, 16, false, p + VALUES_AHEAD * s->value_dim};
}

BLOCK void few_scores(const struct hkk_segment *s, const struct group *g, int nq)
{
    const int nt = FEW_BLOCK / nq < MAX_SIXTEENS ? FEW_BLOCK / nq : MAX_SIXTEENS;
    size_t at = tile_start(g->first), max = (g->end + HKK_TILE - 1) / HKK_TILE * HKK_TILE;
    for (; at + HKK_TILE * (size_t)nt <= max; at += HKK_TILE * (size_t)nt)
        score_block(s, g, tiles_at(s, at), at, nq, nt);
    for (; at < max; at += HKK_TILE)
        score_block(s, g, tiles_at(s, at), at, nq, 1);
}

/* Over the positions [FROM, TO); those dimensions that make sixteens. */
BLOCK void few_values(const struct hkk_segment *s, const struct group *g, size_t from, size_t to,
                      int nq)
{
    const int nd = FEW_BLOCK / nq < MAX_SIXTEENS ? FEW_BLOCK / nq : MAX_SIXTEENS;
    const size_t dims = from < to ? s->value_dim : 0, each = 16 * (size_t)nd;
    size_t i = 0;
    for (; i + each <= dims; i += each)
        value_block(g, values_at(s, from, i), from, to, i, nq, nd);
    for (; nd > 2 && i + each / 2 <= dims; i += each / 2)
        value_block(g, values_at(s, from, i), from, to, i, nq, nd / 2);
    for (; i + 16 <= dims; i += 16)
        value_block(g, values_at(s, from, i), from, to, i, nq, 1);
}

/* The dimensions past the last sixteen. */
static inline void FN(value_tail)(const struct hkk_segment *s, struct hkk_query *query,
                                  const float *weights)
{
    size_t n = s->value_dim % 16, i = s->value_dim - n;
    vec acc = v_set(0);
    for (size_t at = query->first; at < query->end; at++)
        acc =
            v_fma(v_set(weights[at]), v_load_half_some(s->values + at * s->value_dim + i, n), acc);
    v_store_some(query->out.accumulator + i, acc, n);
}

/* What the queries of G do not have in common and is before what they have. */
static void FN(attend_before)(const struct hkk_segment *s, const struct group *g,
                              const struct hkk_query *query, size_t n)
{
    for (size_t i = 0; i < n && g->common > g->first; i++) {
        const struct group one = {.scores = {g->scores[i]}, .accumulator = {g->accumulator[i]}};
        few_values(s, &one, query[i].first, g->common, 1);
    }
}

/* What is behind that, and the tail. */
static void FN(attend_rest)(const struct hkk_segment *s, const struct group *g,
                            struct hkk_query *query, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct group one = {.scores = {g->scores[i]}, .accumulator = {g->accumulator[i]}};
        few_values(s, &one, greater(g->common_end, query[i].first), query[i].end, 1);
        if (s->value_dim % 16 > 0)
            FN(value_tail)(s, query + i, g->scores[i]);
    }
}

/* N queries, at most GROUP, as a group; those that are not there see what the last one sees. */
static void FN(gather)(struct group *g, const struct hkk_segment *s, struct hkk_query *query,
                       size_t n, const struct room *room, float *scores)
{
    g->first = g->common_end = HKK_SEGMENT;
    g->end = g->common = 0;
    for (size_t i = 0; i < GROUP; i++) {
        const struct hkk_query *q = query + fewer(i, n - 1);
        g->first = fewer(q->first, g->first);
        g->end = greater(q->end, g->end);
        g->common = greater(q->first, g->common);
        g->common_end = fewer(q->end, g->common_end);
        g->q[i] = q->q;
        g->scores[i] = scores + i * HKK_SEGMENT;
        g->accumulator[i] = i < n ? q->out.accumulator : room->sum;
        memset(g->accumulator[i], 0, s->value_dim * sizeof *g->accumulator[i]);
    }
    if (g->common >= g->common_end)
        g->common = g->common_end = 0;
}

#define FEW_OF(nq)                                                                                 \
    static void FN(attend_##nq)(const struct hkk_segment *s, struct hkk_query *query,              \
                                const struct room *room)                                           \
    {                                                                                              \
        struct group g;                                                                            \
        FN(gather)(&g, s, query, nq, room, room->scores);                                          \
        few_scores(s, &g, nq);                                                                     \
        for (int i = 0; i < nq; i++)                                                               \
            FN(weigh)(s, query + i, g.scores[i]);                                                  \
        FN(attend_before)(s, &g, query, nq);                                                       \
        few_values(s, &g, g.common, g.common_end, nq);                                             \
        FN(attend_rest)(s, &g, query, nq);                                                         \
    }

FEW_OF(1)
FEW_OF(2)
FEW_OF(4)

#undef FEW_OF

/* ---- many queries ---- */

/* Rows of ROW numbers at P, which are wide. */
BLOCK struct sixteens rows_at(const float *p, size_t row)
{
    return (struct sixteens){p, row, 16, true, NULL};
}

/* Widen ROWS rows of N sixteens into WIDE, one after the other. */
BLOCK struct sixteens widened(float *wide, struct sixteens m, size_t rows, size_t n)
{
    for (size_t k = 0; k < rows; k++)
        for (size_t j = 0; j < n; j++)
            v_store(wide + (k * n + j) * 16, sixteen(&m, k * m.row + j * m.next));
    return rows_at(wide, 16 * n);
}

static void FN(many_scores)(const struct hkk_segment *s, const struct group *g, size_t groups,
                            float *wide)
{
    const size_t each = HKK_TILE * ATTEND_WIDE;
    size_t first = HKK_SEGMENT, max = 0;
    for (size_t i = 0; i < groups; i++) {
        first = fewer(g[i].first, first);
        max = greater(g[i].end, max);
    }
    for (size_t at = first / each * each; at < max; at += each) {
        size_t n = fewer(ATTEND_WIDE, (max - at + HKK_TILE - 1) / HKK_TILE);
        widened(wide, tiles_at(s, at), s->key_dim, n);
        for (size_t i = 0; i < groups; i++) {
            size_t left = g[i].end > at ? g[i].end - at : 0;
            if (g[i].first >= at + each)
                continue;
            if (left > each - HKK_TILE)
                score_block(s, g + i, rows_at(wide, each), at, GROUP, ATTEND_WIDE);
            else
                for (size_t j = 0; j < left; j += HKK_TILE)
                    score_block(s, g + i, rows_at(wide + j, 16 * n), at + j, GROUP, 1);
        }
    }
}

/* The positions that all of a group see; ND sixteens of dimensions from DIM on. */
BLOCK void many_values(const struct hkk_segment *s, const struct group *g, size_t groups,
                       float *wide, size_t dim, int nd)
{
    const size_t each = WIDE_FLOATS / (16 * (size_t)nd);
    size_t first = HKK_SEGMENT, max = 0;
    for (size_t i = 0; i < groups; i++) {
        first = g[i].common_end > 0 ? fewer(g[i].common, first) : first;
        max = greater(g[i].common_end, max);
    }
    for (size_t from = first; from < max; from += each) {
        size_t to = fewer(from + each, max);
        struct sixteens values = widened(wide, values_at(s, from, dim), to - from, (size_t)nd);
        for (size_t i = 0; i < groups; i++) {
            const size_t begin = greater(from, g[i].common), end = fewer(to, g[i].common_end);
            if (begin < end)
                value_block(g + i, rows_at(wide + (begin - from) * values.row, values.row), begin,
                            end, dim, GROUP, nd);
        }
    }
}

/* N queries, at most HKK_QUERIES. */
static void FN(attend_many)(const struct hkk_segment *s, struct hkk_query *query, size_t n,
                            const struct room *room)
{
    struct group g[MAX_GROUPS];
    size_t groups = (n + GROUP - 1) / GROUP, dim = 0;
    for (size_t i = 0; i < groups; i++)
        FN(gather)
    (g + i, s, query + i * GROUP, fewer(GROUP, n - i * GROUP), room,
     room->scores + i * GROUP * HKK_SEGMENT);
    FN(many_scores)(s, g, groups, room->wide);
    for (size_t i = 0; i < n; i++)
        FN(weigh)(s, query + i, g[i / GROUP].scores[i % GROUP]);
    for (size_t i = 0; i < groups; i++)
        FN(attend_before)(s, g + i, query + i * GROUP, fewer(GROUP, n - i * GROUP));
    for (; dim + 16 * ATTEND_WIDE <= s->value_dim; dim += 16 * ATTEND_WIDE)
        many_values(s, g, groups, room->wide, dim, ATTEND_WIDE);
    for (; dim + 16 <= s->value_dim; dim += 16)
        many_values(s, g, groups, room->wide, dim, 1);
    for (size_t i = 0; i < groups; i++)
        FN(attend_rest)(s, g + i, query + i * GROUP, fewer(GROUP, n - i * GROUP));
}

static void FN(attend)(const struct hkk_segment *s, struct hkk_query *query, size_t n,
                       void *scratch)
{
    const size_t dims = (s->value_dim + 15) / 16 * 16;
    float *wide = scratch;
    const struct room room = {wide, wide + HKK_QUERIES * HKK_SEGMENT,
                              wide + HKK_QUERIES * HKK_SEGMENT + dims};
    for (; n > MAX_FEW; query += fewer(n, HKK_QUERIES), n -= fewer(n, HKK_QUERIES))
        FN(attend_many)(s, query, fewer(n, HKK_QUERIES), &room);
    for (; n >= 4; query += 4, n -= 4)
        FN(attend_4)(s, query, &room);
    for (; n >= 2; query += 2, n -= 2)
        FN(attend_2)(s, query, &room);
    if (n > 0)
        FN(attend_1)(s, query, &room);
}

#undef BLOCK
