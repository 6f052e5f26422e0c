/* Attention over the cache's segments. A segment gives the same to a query whoever computes it, and
 * segments are merged in order: so batches of queries, or one query's segments, can be shared among
 * the workers in any way. */
#include <math.h>
#include <string.h>

#include "engine/model.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t group_of(const struct hke_params *p)
{
    return p->heads / p->kv_heads;
}

size_t hke_query_tokens(const struct hke_params *p)
{
    return group_of(p) < HKE_QUERIES ? HKE_QUERIES / group_of(p) : 1;
}

/* ---- the parts of one segment ---- */

struct range { /* queries: the heads that share KV, of the tokens FIRST .. END-1 */
    size_t layer, kv, first, end;
};

/* Set up the queries of R to what they see of SEGMENT; those whose position is before it see none,
 * and are left out. Gives the first token that is in. */
static size_t ask(const struct hke_pass *p, struct hke_worker *own, const struct range *r,
                  size_t segment, size_t *count)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = &c->model->params;
    size_t start = segment * HKK_SEGMENT, group = group_of(m), n = 0;
    size_t first = start > c->used + r->first ? start - c->used : r->first;
    for (size_t t = first; t < r->end; t++)
        for (size_t head = r->kv * group; head < (r->kv + 1) * group; head++) {
            struct hkk_query *q = &own->query[n++];
            q->q = c->q + (t * m->heads + head) * m->key_dim;
            q->visible = smaller(c->used + t + 1 - start, HKK_SEGMENT);
        }
    *count = n;
    return first;
}

static void answer(const struct hke_pass *p, struct hke_worker *own, const struct range *r,
                   size_t segment, size_t count)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = &c->model->params;
    const struct hkk_segment s = {
        .keys = hke_cache_keys(&c->cache, r->layer, r->kv, segment),
        .values = hke_cache_values(&c->cache, r->layer, r->kv, segment),
        .key_dim = m->key_dim,
        .value_dim = m->value_dim,
        .scale = 1.0f / sqrtf((float)m->key_dim),
    };
    c->kernels->attend(&s, own->query, count, own->scratch);
}

/* ---- many queries: each worker takes some through all their segments ---- */

static float *attended(const struct hke_pass *p, size_t token, size_t head)
{
    const struct hke_params *m = &p->c->model->params;
    return p->c->att + (token * m->heads + head) * m->value_dim;
}

static void first_segment(const struct hke_pass *p, struct hke_worker *own, const struct range *r)
{
    size_t group = group_of(&p->c->model->params), count;
    ask(p, own, r, 0, &count);
    for (size_t i = 0; i < count; i++)
        own->query[i].out.sum = attended(p, r->first + i / group, r->kv * group + i % group);
    answer(p, own, r, 0, count);
    for (size_t i = 0; i < count; i++)
        own->running[i] = own->query[i].out;
}

static void next_segment(const struct hke_pass *p, struct hke_worker *own, const struct range *r,
                         size_t segment)
{
    const struct hke_params *m = &p->c->model->params;
    size_t count, skipped = (ask(p, own, r, segment, &count) - r->first) * group_of(m);
    for (size_t i = 0; i < count; i++)
        own->query[i].out.sum = own->part + i * m->value_dim;
    answer(p, own, r, segment, count);
    for (size_t i = 0; i < count; i++)
        p->c->kernels->merge(&own->running[skipped + i], &own->query[i].out, m->value_dim);
}

static void attend_range(const struct hke_pass *p, struct hke_worker *own, const struct range *r)
{
    const struct hke_params *m = &p->c->model->params;
    size_t segments = (p->c->used + r->end - 1) / HKK_SEGMENT + 1;
    first_segment(p, own, r);
    for (size_t s = 1; s < segments; s++)
        next_segment(p, own, r, s);
    for (size_t i = 0; i < (r->end - r->first) * group_of(m); i++)
        p->c->kernels->finish(&own->running[i], m->value_dim);
}

/* The last tokens have the most to do, so they come first. */
static void attend_ranges(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                          size_t from)
{
    const struct hke_params *m = &p->c->model->params;
    size_t each = hke_query_tokens(m), blocks = (p->n - from + each - 1) / each, begin, end;
    while (hke_pool_take(p->c->pool, blocks * m->kv_heads, 1, &begin, &end)) {
        size_t block = blocks - 1 - begin / m->kv_heads, first = from + block * each;
        const struct range r = {layer, begin % m->kv_heads, first, smaller(first + each, p->n)};
        attend_range(p, own, &r);
    }
    hke_pool_barrier(p->c->pool);
}

/* ---- one token with a long past: each worker takes some of the segments ---- */

static void merge_head(const struct hke_pass *p, size_t token, size_t head, size_t segments)
{
    const struct hke_context *c = p->c;
    size_t dim = c->model->params.value_dim;
    struct hkk_attention all = c->cache.segment[0].part[head];
    memcpy(attended(p, token, head), all.sum, dim * sizeof *all.sum);
    all.sum = attended(p, token, head);
    for (size_t s = 1; s < segments; s++)
        c->kernels->merge(&all, &c->cache.segment[s].part[head], dim);
    c->kernels->finish(&all, dim);
}

static void attend_split(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                         size_t token, size_t segments)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = &c->model->params;
    size_t group = group_of(m), begin, end, count;
    while (hke_pool_take(c->pool, segments * m->kv_heads, 1, &begin, &end)) {
        const struct range r = {layer, begin / segments, token, token + 1};
        struct hkk_attention *part = &c->cache.segment[begin % segments].part[r.kv * group];
        ask(p, own, &r, begin % segments, &count);
        for (size_t i = 0; i < count; i++)
            own->query[i].out = part[i];
        answer(p, own, &r, begin % segments, count);
        for (size_t i = 0; i < count; i++)
            part[i] = own->query[i].out;
    }
    hke_pool_barrier(c->pool);
    while (hke_pool_take(c->pool, m->heads, hke_grain(c, m->heads, m->heads), &begin, &end))
        for (size_t head = begin; head < end; head++)
            merge_head(p, token, head, segments);
    hke_pool_barrier(c->pool);
}

void hke_attend(const struct hke_pass *p, struct hke_worker *own, size_t layer, size_t from)
{
    size_t segments = (p->c->used + p->n - 1) / HKK_SEGMENT + 1;
    if (p->n - from == 1 && segments > 1)
        attend_split(p, own, layer, from, segments);
    else
        attend_ranges(p, own, layer, from);
}
