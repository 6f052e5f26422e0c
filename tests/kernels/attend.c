/* Attention over a segment, and merging: each level against generic, and generic against double. */
#include "tests/kernels/checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_QUERIES = 2 * HKK_QUERIES + 21 };

struct past {
    struct hkk_segment segment;
    struct hkk_query query[MOST_QUERIES];
    size_t n;
    struct buffer keys, values, q, sum, scratch;
};

/* Finite halves for N positions; NaN in the others when GARBAGE. */
static void random_past(struct run *r, struct past *p, size_t used, bool garbage)
{
    uint16_t *k = (uint16_t *)(void *)p->keys.p, *v = (uint16_t *)(void *)p->values.p;
    for (size_t i = 0; i < p->keys.bytes / 2; i++) {
        size_t position = i / (HKK_TILE * p->segment.key_dim) * HKK_TILE + i % HKK_TILE;
        bool real = position < used;
        k[i] = (uint16_t)(real || !garbage ? random_bits(&r->random) & 0xbfff : 0x7e00);
    }
    for (size_t i = 0; i < p->values.bytes / 2; i++)
        v[i] = (uint16_t)(i / p->segment.value_dim < used || !garbage
                              ? random_bits(&r->random) & 0xbfff
                              : 0x7e00);
}

/* NaN for keys and values of the positions below N. */
static void spoil_before(struct past *p, size_t n)
{
    uint16_t *k = (uint16_t *)(void *)p->keys.p, *v = (uint16_t *)(void *)p->values.p;
    for (size_t i = 0; i < p->keys.bytes / 2; i++)
        if (i / (HKK_TILE * p->segment.key_dim) * HKK_TILE + i % HKK_TILE < n)
            k[i] = 0x7e00;
    for (size_t i = 0; i < n * p->segment.value_dim; i++)
        v[i] = 0x7e00;
}

/* About QUERIES of them, where blocks begin and end, or any number. */
static size_t random_queries(struct run *r, unsigned queries, unsigned round)
{
    if (round % 4 == 0)
        return 1 + random_below(&r->random, 2);
    if (round % 4 == 1)
        return 1 + random_below(&r->random, MOST_QUERIES);
    return queries - 7 + random_below(&r->random, 15);
}

/* Of USED positions: mostly all, or, as in a batch of tokens, one fewer for each further query. */
static size_t random_visible(struct run *r, unsigned round, size_t used, size_t after)
{
    if (round % 3 == 1)
        return used > after / 2 ? used - after / 2 : 0;
    return random_below(&r->random, 3) == 0 ? random_below(&r->random, used + 1) : used;
}

/* Any dimensions, or such as models have. */
static size_t random_dim(struct run *r, unsigned round)
{
    size_t any = 1 + random_below(&r->random, round % 2 == 0 ? 50 : 140);
    if (round % 20 == 13)
        return 512 + random_below(&r->random, 2) * 64; /* of compressed keys and values */
    return round % 5 < 2 ? 16 * (1 + random_below(&r->random, 12)) : any;
}

/* A position that Q, which sees up to Q->end, sees first: mostly 0, or as with a window. */
static size_t random_first(struct run *r, unsigned round, const struct hkk_query *q, size_t window)
{
    if (round % 4 < 2)
        return 0;
    if (round % 4 == 2)
        return q->end > window ? q->end - window : 0;
    return random_below(&r->random, q->end + 1);
}

static void past_new(struct run *r, struct past *p, unsigned queries, unsigned round)
{
    size_t key_dim = random_dim(r, round), value_dim = random_dim(r, round);
    size_t used = round % 3 == 0 ? HKK_SEGMENT : random_below(&r->random, HKK_SEGMENT + 1);
    p->n = random_queries(r, queries, round);
    p->keys = buffer_new(HKK_SEGMENT * key_dim * 2, r->place, 2 * random_below(&r->random, 30));
    /* Values end where the past does: what lies behind may not be there. */
    p->values = buffer_new(used * value_dim * 2, r->place, 2 * random_below(&r->random, 30));
    p->q = buffer_new(p->n * key_dim * 4, r->place, 4 * random_below(&r->random, 15));
    p->sum = buffer_new(p->n * value_dim * 4, r->place, 4 * random_below(&r->random, 15));
    p->scratch = buffer_new(hkk_attend_scratch_bytes(key_dim, value_dim), AT_END, 0);
    p->segment = (struct hkk_segment){(uint16_t *)(void *)p->keys.p,
                                      (uint16_t *)(void *)p->values.p,
                                      key_dim,
                                      value_dim,
                                      random_float(&r->random),
                                      round % 7 > 4 ? 1 + 50 * fabsf(random_float(&r->random)) : 0};
    random_past(r, p, used, true);
    random_floats(&r->random, (float *)(void *)p->q.p, p->n * key_dim, round % 5 == 4 ? 5 : 0);
    const size_t window = 1 + random_below(&r->random, 100);
    for (size_t i = 0; i < p->n; i++) {
        p->query[i] =
            (struct hkk_query){.q = (float *)(void *)p->q.p + i * key_dim,
                               .end = random_visible(r, round, used, p->n - i),
                               .out.accumulator = (float *)(void *)p->sum.p + i * value_dim};
        p->query[i].first = random_first(r, round, &p->query[i], window);
    }
}

static void past_free(struct past *p)
{
    struct buffer *all[] = {&p->keys, &p->values, &p->q, &p->sum, &p->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buffer_free(all[i]);
}

/* max, denominator and accumulator of all queries, one after the other. */
static void gather(const struct past *p, float *out)
{
    size_t dim = p->segment.value_dim;
    for (size_t i = 0; i < p->n; i++) {
        float *at = out + i * (dim + 2);
        at[0] = p->query[i].out.max;
        at[1] = p->query[i].out.denominator;
        memcpy(at + 2, p->query[i].out.accumulator, dim * sizeof *at);
    }
}

bool check_attend(struct run *r, unsigned queries, unsigned round)
{
    struct past p;
    past_new(r, &p, queries, round);
    size_t count = p.n * (p.segment.value_dim + 2);
    float *expected = malloc(2 * count * sizeof *expected);
    if (expected == NULL)
        return differs(r, "no memory");
    r->reference->attend(&p.segment, p.query, p.n, p.scratch.p);
    gather(&p, expected);
    memset(p.sum.p, 0xff, p.sum.bytes);
    r->level->attend(&p.segment, p.query, p.n, p.scratch.p);
    gather(&p, expected + count);
    char note[80];
    snprintf(note, sizeof note, "%zu queries of %zu, values of %zu", p.n, p.segment.key_dim,
             p.segment.value_dim);
    bool good = same_floats(r, expected + count, expected, count, note);
    if (!buffer_intact(&p.sum) || !buffer_intact(&p.scratch))
        good = differs(r, "%s: wrote outside its memory", note);
    free(expected);
    past_free(&p);
    return good;
}

static double half_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static double score(const struct hkk_segment *s, const struct hkk_query *q, size_t position)
{
    const uint16_t *tile = s->keys + position / HKK_TILE * s->key_dim * HKK_TILE;
    double sum = 0;
    for (size_t d = 0; d < s->key_dim; d++)
        sum += (double)q->q[d] * half_value(tile[d * HKK_TILE + position % HKK_TILE]);
    sum *= (double)s->scale;
    return s->soft_cap > 0 ? (double)s->soft_cap * tanh(sum / (double)s->soft_cap) : sum;
}

/* Attention of Q in double, of its dimension 0. */
static double attended(const struct hkk_segment *s, const struct hkk_query *q)
{
    double top = -INFINITY, weight = 0, sum = 0;
    for (size_t i = q->first; i < q->end; i++)
        top = fmax(top, score(s, q, i));
    for (size_t i = q->first; i < q->end; i++) {
        double e = exp(score(s, q, i) - top);
        weight += e;
        sum += e * half_value(s->values[i * s->value_dim]);
    }
    return sum / weight;
}

bool define_attend(struct run *r, unsigned queries)
{
    bool good = true;
    for (unsigned round = 3; good && round < 123; round += 10) { /* none hostile */
        struct past p;
        past_new(r, &p, queries, round);
        for (size_t i = 0; i < p.segment.key_dim * p.n; i++)
            ((float *)(void *)p.q.p)[i] *= 0.25f;
        r->reference->attend(&p.segment, p.query, p.n, p.scratch.p);
        for (size_t i = 0; good && i < p.n; i++) {
            struct hkk_query *q = p.query + i;
            r->reference->finish(&q->out, p.segment.value_dim);
            double expected = q->first < q->end ? attended(&p.segment, q) : 0;
            if (q->first < q->end && !(fabs((double)q->out.accumulator[0] - expected) < 1e-4))
                good = differs(r, "positions %zu to %zu: %g, in double %g", q->first, q->end,
                               (double)q->out.accumulator[0], expected);
        }
        past_free(&p);
    }
    return good;
}

/* What lies before a window does not count, nor do the queries beside one. */
bool check_window(struct run *r, unsigned queries, unsigned round)
{
    struct past p;
    past_new(r, &p, queries, 2 + 4 * round);
    const size_t count = p.n * (p.segment.value_dim + 2);
    float *both = malloc(2 * count * sizeof *both);
    if (both == NULL)
        return differs(r, "no memory");
    r->level->attend(&p.segment, p.query, p.n, p.scratch.p);
    gather(&p, both);
    size_t before = HKK_SEGMENT;
    for (size_t i = 0; i < p.n; i++)
        before = p.query[i].first < before ? p.query[i].first : before;
    spoil_before(&p, before);
    for (size_t i = p.n; i-- > 0;)
        r->level->attend(&p.segment, p.query + i, 1, p.scratch.p);
    gather(&p, both + count);
    bool good = same_floats(r, both + count, both, count, "before the window");
    free(both);
    past_free(&p);
    return good;
}

bool check_store_key(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    size_t key_dim = 1 + round % 70, position = random_below(&r->random, HKK_SEGMENT);
    float key[70];
    random_floats(&r->random, key, key_dim, round % FLOAT_KINDS == 5 ? 0 : round % FLOAT_KINDS);
    struct buffer a = buffer_new(HKK_SEGMENT * key_dim * 2, r->place, 2 * (round % 8));
    struct buffer b = buffer_new(HKK_SEGMENT * key_dim * 2, r->place, 0);
    r->level->store_key((uint16_t *)(void *)a.p, position, key, key_dim);
    uint16_t half[70], *keys = (uint16_t *)(void *)b.p;
    r->reference->to_half(half, key, key_dim);
    for (size_t d = 0; d < key_dim; d++)
        keys[position / 16 * key_dim * 16 + d * 16 + position % 16] = half[d];
    bool good = same_bytes(r, a.p, b.p, a.bytes, "keys");
    if (!buffer_intact(&a))
        good = differs(r, "wrote outside its memory");
    buffer_free(&a);
    buffer_free(&b);
    return good;
}

/* A and NEXT with random sums of N; the sums of A end at a guard. */
static void random_pair(struct run *r, struct hkk_attention *a, struct hkk_attention *next,
                        size_t n, unsigned kind)
{
    random_floats(&r->random, a->accumulator, n, kind);
    random_floats(&r->random, next->accumulator, n, kind);
    float two[4];
    random_floats(&r->random, two, 4, kind == 5 ? 5 : 0);
    a->max = two[0] * 20;
    next->max = random_below(&r->random, 5) == 0 ? -INFINITY : two[1] * 20;
    a->denominator = fabsf(two[2]);
    next->denominator = fabsf(two[3]);
}

enum pair { MERGE, SINK, FINISH };

static void do_pair(const struct hkk_table *t, enum pair what, struct hkk_attention *a,
                    const struct hkk_attention *next, size_t n)
{
    if (what == MERGE)
        t->merge(a, next, n);
    else if (what == SINK)
        t->sink(a, next->max, n);
    else
        t->finish(a, n);
}

static bool check_pair(struct run *r, unsigned round, enum pair what)
{
    size_t n = round % 140;
    struct buffer sum = buffer_new(n * 4, r->place, 4 * (round % 8));
    float first[140], other[140];
    struct hkk_attention a = {.accumulator = first}, next = {.accumulator = other};
    random_pair(r, &a, &next, n, (unsigned)random_below(&r->random, FLOAT_KINDS));
    struct hkk_attention b = a;
    b.accumulator = (float *)(void *)sum.p;
    memcpy(sum.p, first, n * sizeof *first);
    do_pair(r->reference, what, &a, &next, n);
    do_pair(r->level, what, &b, &next, n);
    bool good = same_floats(r, b.accumulator, a.accumulator, n, "accumulator") &&
                same_floats(r, &b.denominator, &a.denominator, 1, "denominator") &&
                same_floats(r, &b.max, &a.max, 1, "max");
    if (!buffer_intact(&sum))
        good = differs(r, "wrote outside its memory");
    buffer_free(&sum);
    return good;
}

bool check_merge(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    return check_pair(r, round, MERGE);
}

bool check_finish(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    return check_pair(r, round, FINISH);
}

bool check_sink(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    return check_pair(r, round, SINK);
}

/* As a segment whose one value is zeros, merged. */
bool define_sink(struct run *r, unsigned type)
{
    (void)type;
    for (float score = -30; score < 30; score += 0.37f) {
        float sum[2] = {3, -5};
        struct hkk_attention a = {2, 4, sum};
        r->reference->sink(&a, score, 2);
        r->reference->finish(&a, 2);
        const double all = 4 + exp((double)score - 2);
        if (fabs((double)sum[0] - 3 / all) > 1e-6 || fabs((double)sum[1] + 5 / all) > 1e-6)
            return differs(r, "score %g: %g and %g", (double)score, (double)sum[0], (double)sum[1]);
    }
    return true;
}
