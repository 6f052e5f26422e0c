/* Attention over the blocks of the KV cache. A block gives the same to a query whoever computes it,
 * and blocks are merged in order: so ranges of queries, or one query's blocks, can be shared among
 * the workers in any way. */
#include <string.h>

#include "engine/cpu/cpu.h"

/* Queries: the heads that share KV, of the tokens FIRST .. END-1, which follow each other in one
 * sequence. */
struct query_range {
    const struct hke_step *step;
    size_t kv, first, end;
};

static const struct hke_cache_class *cache_of(const struct hke_pass *p, const struct hke_step *s)
{
    return &p->cpu->plan->cache[s->cache];
}

/* Heads of queries that share a head of keys and values. */
static size_t group_size(const struct hke_pass *p, const struct hke_step *s)
{
    return s->heads / cache_of(p, s)->kv_heads;
}

/* Tokens whose queries of a head of keys are attended together: about HKK_QUERIES. */
static size_t tokens_together(const struct hke_pass *p, const struct hke_step *s)
{
    const size_t group = group_size(p, s);
    return group < HKK_QUERIES ? HKK_QUERIES / group : 1;
}

/* The blocks of a sequence from FIRST to before END. */
struct block_range {
    size_t first, end;
};

/* Those that TOKEN sees. */
static struct block_range visible_blocks(const struct hke_pass *p, const struct hke_step *s,
                                         size_t token)
{
    const size_t position = hke_position(p, token);
    return (struct block_range){hke_first_visible(cache_of(p, s), position) / HKE_BLOCK,
                                position / HKE_BLOCK + 1};
}

/* Those that any of the tokens from FROM on sees. */
static struct block_range all_blocks(const struct hke_pass *p, const struct hke_step *s,
                                     size_t from)
{
    struct block_range all = visible_blocks(p, s, from);
    for (size_t t = from + 1; t < p->n; t++) {
        const struct block_range own = visible_blocks(p, s, t);
        all.first = hke_min_size(own.first, all.first);
        all.end = own.end > all.end ? own.end : all.end;
    }
    return all;
}

static float *attended_at(const struct hke_pass *p, const struct hke_step *s, size_t token,
                          size_t head)
{
    return p->cpu->buffer[HKE_ATTENDED] + (token * s->heads + head) * cache_of(p, s)->value_dim;
}

/* ---- one block ---- */

/* Set up the queries of R to what they see of BLOCK; those whose position is before it, or whose
 * window is behind it, see none and are left out. Gives the first token that is in. */
static size_t set_queries(const struct hke_pass *p, struct hke_worker *own,
                          const struct query_range *r, size_t block, size_t *count)
{
    const struct hke_step *s = r->step;
    const float *queries = p->cpu->buffer[HKE_QUERIES];
    const size_t start = block * HKE_BLOCK, group = group_size(p, s);
    const size_t position = hke_position(p, r->first);
    const size_t first = start > position ? r->first + (start - position) : r->first;
    size_t n = 0;
    for (size_t t = first; t < r->end && visible_blocks(p, s, t).first <= block; t++) {
        const size_t at = hke_position(p, t), sees = hke_first_visible(cache_of(p, s), at);
        for (size_t head = r->kv * group; head < (r->kv + 1) * group; head++) {
            struct hkk_query *q = &own->query[n++];
            q->q = queries + (t * s->heads + head) * cache_of(p, s)->key_dim;
            q->first = sees > start ? sees - start : 0;
            q->end = hke_min_size(at + 1 - start, HKE_BLOCK);
        }
    }
    *count = n;
    return first;
}

static void attend_block(const struct hke_pass *p, struct hke_worker *own,
                         const struct query_range *r, size_t block, size_t count)
{
    const struct hkk_segment s = {
        .keys = hke_keys_of(p, r->step, r->first, r->kv, block),
        .values = hke_values_of(p, r->step, r->first, r->kv, block),
        .key_dim = cache_of(p, r->step)->key_dim,
        .value_dim = cache_of(p, r->step)->value_dim,
        .scale = r->step->scale,
        .soft_cap = r->step->soft_cap,
    };
    p->cpu->kernels->attend(&s, own->query, count, own->scratch);
}

/* All that HEAD sees is in A: its attended value. */
static void finish_attention(const struct hke_pass *p, const struct hke_step *s, size_t head,
                             struct hkk_attention *a)
{
    const size_t dim = cache_of(p, s)->value_dim;
    if (s->sinks != NULL)
        p->cpu->kernels->sink(a, s->sinks[head], dim);
    p->cpu->kernels->finish(a, dim);
}

/* ---- many queries: each worker takes some through all their blocks ---- */

/* What BLOCK gives to the queries of R; it is the first that some of them see. */
static void attend_next_block(const struct hke_pass *p, struct hke_worker *own,
                              const struct query_range *r, size_t block)
{
    const size_t dim = cache_of(p, r->step)->value_dim, group = group_size(p, r->step);
    size_t count;
    const size_t in = set_queries(p, own, r, block, &count);
    for (size_t i = 0; i < count; i++) {
        const size_t t = in + i / group;
        own->query[i].out.accumulator = visible_blocks(p, r->step, t).first == block
                                            ? attended_at(p, r->step, t, r->kv * group + i % group)
                                            : own->part + i * dim;
    }
    attend_block(p, own, r, block, count);
    for (size_t i = 0; i < count; i++) {
        struct hkk_attention *running = &own->running[(in - r->first) * group + i];
        if (visible_blocks(p, r->step, in + i / group).first == block)
            *running = own->query[i].out;
        else
            p->cpu->kernels->merge(running, &own->query[i].out, dim);
    }
}

static void attend_range(const struct hke_pass *p, struct hke_worker *own,
                         const struct query_range *r)
{
    const size_t group = group_size(p, r->step), queries = (r->end - r->first) * group;
    const size_t end = visible_blocks(p, r->step, r->end - 1).end;
    for (size_t b = visible_blocks(p, r->step, r->first).first; b < end; b++)
        attend_next_block(p, own, r, b);
    for (size_t i = 0; i < queries; i++)
        finish_attention(p, r->step, r->kv * group + i % group, &own->running[i]);
}

/* End of the tokens before END that are in the sequence of T and follow it. */
static size_t text_end(const struct hke_pass *p, size_t t, size_t end)
{
    return hke_min_size(p->cpu->group[t].text_end, end);
}

/* The last tokens of a text have the most to do, so they come first. */
static void attend_ranges(const struct hke_pass *p, struct hke_worker *own,
                          const struct hke_step *s, size_t from)
{
    struct hke_pool *pool = p->cpu->pool;
    const size_t kv_heads = cache_of(p, s)->kv_heads;
    const size_t each = hke_pool_grain(pool, (p->n - from) * kv_heads, tokens_together(p, s));
    const size_t ranges = (p->n - from + each - 1) / each;
    size_t begin, end;
    while (hke_pool_take(pool, own->number, ranges * kv_heads, 1, &begin, &end)) {
        const size_t first = from + (ranges - 1 - begin / kv_heads) * each;
        const size_t stop = hke_min_size(first + each, p->n);
        for (size_t t = first; t < stop; t = text_end(p, t, stop)) {
            const struct query_range r = {s, begin % kv_heads, t, text_end(p, t, stop)};
            attend_range(p, own, &r);
        }
    }
    hke_pool_barrier(pool);
}

/* ---- few tokens with a long past: each worker takes some of the blocks ---- */

/* What BLOCK alone gives to HEAD of the T-th token. */
static struct hkk_attention *part_at(const struct hke_pass *p, const struct hke_step *s,
                                     size_t block, size_t t, size_t head)
{
    return &p->cpu->span[block].part[t * s->heads + head];
}

static void attend_part(const struct hke_pass *p, struct hke_worker *own,
                        const struct query_range *r, size_t block, size_t from)
{
    const struct hke_step *s = r->step;
    size_t group = group_size(p, s), count, t = set_queries(p, own, r, block, &count);
    struct hkk_query *q = own->query;
    for (size_t i = 0; i < count; i++)
        q[i].out = *part_at(p, s, block, t - from + i / group, r->kv * group + i % group);
    attend_block(p, own, r, block, count);
    for (size_t i = 0; i < count; i++)
        *part_at(p, s, block, t - from + i / group, r->kv * group + i % group) = q[i].out;
}

static void merge_parts(const struct hke_pass *p, const struct hke_step *s, size_t from, size_t t,
                        size_t head)
{
    const size_t dim = cache_of(p, s)->value_dim;
    const struct block_range blocks = visible_blocks(p, s, from + t);
    struct hkk_attention all = *part_at(p, s, blocks.first, t, head);
    memcpy(attended_at(p, s, from + t, head), all.accumulator, dim * sizeof *all.accumulator);
    all.accumulator = attended_at(p, s, from + t, head);
    for (size_t b = blocks.first + 1; b < blocks.end; b++)
        p->cpu->kernels->merge(&all, part_at(p, s, b, t, head), dim);
    finish_attention(p, s, head, &all);
}

static void attend_parts(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s,
                         size_t from)
{
    struct hke_pool *pool = p->cpu->pool;
    const size_t kv_heads = cache_of(p, s)->kv_heads, each = tokens_together(p, s);
    const size_t ranges = (p->n - from + each - 1) / each;
    const struct block_range all = all_blocks(p, s, from);
    const size_t blocks = all.end - all.first, heads = (p->n - from) * s->heads;
    size_t begin, end;
    while (hke_pool_take(pool, own->number, ranges * kv_heads * blocks, 1, &begin, &end)) {
        const size_t range = begin / blocks, first = from + range / kv_heads * each;
        const size_t block = all.first + begin % blocks;
        const size_t stop = hke_min_size(first + each, p->n);
        for (size_t t = first; t < stop; t = text_end(p, t, stop)) {
            const struct query_range r = {s, range % kv_heads, t, text_end(p, t, stop)};
            if (block >= visible_blocks(p, s, r.first).first &&
                block < visible_blocks(p, s, r.end - 1).end)
                attend_part(p, own, &r, block, from);
        }
    }
    hke_pool_barrier(pool);
    while (
        hke_pool_take(pool, own->number, heads, hke_pool_grain(pool, heads, heads), &begin, &end))
        for (size_t i = begin; i < end; i++)
            merge_parts(p, s, from, i / s->heads, i % s->heads);
    hke_pool_barrier(pool);
}

void hke_attend(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    const size_t from = hke_first_token(p, s);
    const struct block_range all = all_blocks(p, s, from);
    if (p->n - from <= HKE_SPLIT_TOKENS && all.end - all.first > 1)
        attend_parts(p, own, s, from);
    else
        attend_ranges(p, own, s, from);
}
