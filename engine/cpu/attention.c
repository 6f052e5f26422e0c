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

static size_t group_of(const struct hk_model_params *p)
{
    return p->heads / p->kv_heads;
}

size_t hke_query_tokens(const struct hk_model_params *p)
{
    return group_of(p) < HKK_QUERIES ? HKK_QUERIES / group_of(p) : 1;
}

/* Segments that the token TOKEN sees. */
static size_t segments_of(const struct hke_pass *p, size_t token)
{
    return (p->c->used + token) / HKK_SEGMENT + 1;
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
    const struct hk_model_params *m = &c->model->params;
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
    const struct hk_model_params *m = &c->model->params;
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
    const struct hk_model_params *m = &p->c->model->params;
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
    const struct hk_model_params *m = &p->c->model->params;
    size_t count, skipped = (ask(p, own, r, segment, &count) - r->first) * group_of(m);
    for (size_t i = 0; i < count; i++)
        own->query[i].out.sum = own->part + i * m->value_dim;
    answer(p, own, r, segment, count);
    for (size_t i = 0; i < count; i++)
        p->c->kernels->merge(&own->running[skipped + i], &own->query[i].out, m->value_dim);
}

static void attend_range(const struct hke_pass *p, struct hke_worker *own, const struct range *r)
{
    const struct hk_model_params *m = &p->c->model->params;
    size_t segments = segments_of(p, r->end - 1);
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
    const struct hk_model_params *m = &p->c->model->params;
    size_t each = hke_grain(p->c, (p->n - from) * m->kv_heads, hke_query_tokens(m));
    size_t blocks = (p->n - from + each - 1) / each, begin, end;
    while (hke_pool_take(p->c->pool, blocks * m->kv_heads, 1, &begin, &end)) {
        size_t block = blocks - 1 - begin / m->kv_heads, first = from + block * each;
        const struct range r = {layer, begin % m->kv_heads, first, smaller(first + each, p->n)};
        attend_range(p, own, &r);
    }
    hke_pool_barrier(p->c->pool);
}

/* ---- few tokens with a long past: each worker takes some of the segments ---- */

/* What SEGMENT alone gives to HEAD of the token FROM + T. */
static struct hkk_attention *part_of(const struct hke_pass *p, size_t segment, size_t t,
                                     size_t head)
{
    return &p->c->cache.segment[segment].part[t * p->c->model->params.heads + head];
}

static void attend_part(const struct hke_pass *p, struct hke_worker *own, const struct range *r,
                        size_t segment, size_t from)
{
    size_t group = group_of(&p->c->model->params), count, t = ask(p, own, r, segment, &count);
    struct hkk_query *q = own->query;
    for (size_t i = 0; i < count; i++)
        q[i].out = *part_of(p, segment, t - from + i / group, r->kv * group + i % group);
    if (count > 0)
        answer(p, own, r, segment, count);
    for (size_t i = 0; i < count; i++)
        *part_of(p, segment, t - from + i / group, r->kv * group + i % group) = q[i].out;
}

static void merge_head(const struct hke_pass *p, size_t from, size_t t, size_t head)
{
    const struct hke_context *c = p->c;
    size_t dim = c->model->params.value_dim, segments = segments_of(p, from + t);
    struct hkk_attention all = *part_of(p, 0, t, head);
    memcpy(attended(p, from + t, head), all.sum, dim * sizeof *all.sum);
    all.sum = attended(p, from + t, head);
    for (size_t s = 1; s < segments; s++)
        c->kernels->merge(&all, part_of(p, s, t, head), dim);
    c->kernels->finish(&all, dim);
}

static void attend_split(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                         size_t from)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = &c->model->params;
    size_t each = hke_query_tokens(m), blocks = (p->n - from + each - 1) / each, begin, end;
    size_t segments = segments_of(p, p->n - 1), heads = (p->n - from) * m->heads;
    while (hke_pool_take(c->pool, blocks * m->kv_heads * segments, 1, &begin, &end)) {
        size_t range = begin / segments, first = from + range / m->kv_heads * each;
        const struct range r = {layer, range % m->kv_heads, first, smaller(first + each, p->n)};
        attend_part(p, own, &r, begin % segments, from);
    }
    hke_pool_barrier(c->pool);
    while (hke_pool_take(c->pool, heads, hke_grain(c, heads, heads), &begin, &end))
        for (size_t i = begin; i < end; i++)
            merge_head(p, from, i / m->heads, i % m->heads);
    hke_pool_barrier(c->pool);
}

void hke_attend(const struct hke_pass *p, struct hke_worker *own, size_t layer, size_t from)
{
    if (p->n - from <= HKE_SPLIT_TOKENS && segments_of(p, p->n - 1) > 1)
        attend_split(p, own, layer, from);
    else
        attend_ranges(p, own, layer, from);
}
