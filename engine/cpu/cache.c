/* The KV cache of a sequence, in blocks of HKE_BLOCK positions that are allocated as the text
 * grows: halves, laid out as the kernels want them. And what all sequences share by position. */
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/cpu.h"

struct hke_kv {
    struct {
        uint16_t **block; /* in a block layer by layer: all heads' keys, then all heads' values */
        size_t blocks;
    } cache[HKE_MAX_CACHES];
};

static size_t blocks_for(size_t positions)
{
    return (positions + HKE_BLOCK - 1) / HKE_BLOCK;
}

/* ---- by position: cosines and sines, parts of attention ---- */

const float *hke_cos_sin_at(const struct hke_cpu *c, int rope, size_t position)
{
    const float *row =
        c->span[position / HKE_BLOCK].cos_sin + position % HKE_BLOCK * c->cos_sin_elems;
    for (int i = 0; i < rope; i++)
        row += 2 * c->plan->rope[i].pairs;
    return row;
}

/* Cosine, sine, ... of every pair at POSITION. Computed in double, rounded once. */
static void compute_cos_sin(const struct hke_rope_table *r, size_t position, float *out)
{
    for (size_t i = 0; i < r->pairs; i++) {
        double angle = (double)position * r->frequency[i];
        out[2 * i] = (float)(cos(angle) * r->magnitude);
        out[2 * i + 1] = (float)(sin(angle) * r->magnitude);
    }
}

/* COUNT things of SIZE bytes more, aligned, in *TOTAL; false where they are too many. */
static bool add_bytes(size_t count, size_t size, size_t *bytes, size_t *total)
{
    return !__builtin_mul_overflow(count, size, bytes) &&
           !__builtin_add_overflow(*bytes, (size_t)HKK_ALIGN - 1, bytes) &&
           !__builtin_add_overflow(*total, *bytes -= *bytes % HKK_ALIGN, total);
}

static enum hk_status add_span(struct hke_cpu *c, struct hk_error *err)
{
    const size_t parts = HKE_SPLIT_TOKENS * c->max_heads;
    size_t cos_sin, part, accumulators, all = 0;
    char *base = NULL;
    if (add_bytes(HKE_BLOCK * sizeof(float), c->cos_sin_elems, &cos_sin, &all) &&
        add_bytes(parts, sizeof(struct hkk_attention), &part, &all) &&
        add_bytes(parts, c->max_value_dim * sizeof(float), &accumulators, &all))
        base = hke_alloc_pages(all, c->opt.huge_pages);
    if (base == NULL)
        return hk_fail_nomem(err);
    struct hke_span *s = &c->span[c->spans];
    s->cos_sin = (void *)base;
    s->part = (void *)(base + cos_sin);
    float *accumulator = (void *)(base + cos_sin + part);
    for (size_t i = 0; i < parts; i++)
        s->part[i] = (struct hkk_attention){.accumulator = accumulator + i * c->max_value_dim};
    float *out = s->cos_sin;
    for (size_t at = 0; at < HKE_BLOCK; at++)
        for (size_t i = 0; i < c->plan->ropes; out += 2 * c->plan->rope[i++].pairs)
            compute_cos_sin(&c->plan->rope[i], c->spans * HKE_BLOCK + at, out);
    c->spans++;
    return HK_OK;
}

void hke_free_spans(struct hke_cpu *c)
{
    for (size_t i = 0; i < c->spans; i++)
        free(c->span[i].cos_sin);
    free(c->span);
}

/* ---- keys and values ---- */

static size_t keys_of_head(const struct hke_cache_class *c)
{
    return (size_t)HKE_BLOCK * c->key_dim;
}

static size_t values_of_head(const struct hke_cache_class *c)
{
    return (size_t)HKE_BLOCK * c->value_dim;
}

/* Dimensions are at most 2^20 and 2^16 heads of them are far more than any file can hold, but
 * references to nothing have any shape; the product with the layers is checked where it is made. */
static size_t halves_of_layer(const struct hke_cache_class *c)
{
    return c->kv_heads * (keys_of_head(c) + values_of_head(c));
}

static enum hk_status add_kv_block(struct hke_cpu *c, struct hke_kv *kv, size_t i,
                                   struct hk_error *err)
{
    const struct hke_cache_class *class = &c->plan->cache[i];
    size_t bytes, all = 0;
    uint16_t *block = NULL;
    if (add_bytes(class->layers, halves_of_layer(class) * sizeof *block, &bytes, &all))
        block = hke_alloc_pages(all, c->opt.huge_pages);
    if (block == NULL)
        return hk_fail_nomem(err);
    kv->cache[i].block[kv->cache[i].blocks++] = block;
    return HK_OK;
}

static void free_kv(const struct hke_cpu *c, struct hke_kv *kv)
{
    for (size_t i = 0; kv != NULL && i < c->plan->caches; i++) {
        for (size_t k = 0; k < kv->cache[i].blocks; k++)
            free(kv->cache[i].block[k]);
        free(kv->cache[i].block);
    }
    free(kv);
}

static enum hk_status new_kv(const struct hke_cpu *c, struct hke_kv **out, struct hk_error *err)
{
    struct hke_kv *kv = calloc(1, sizeof *kv);
    bool good = kv != NULL;
    for (size_t i = 0; good && i < c->plan->caches; i++) {
        kv->cache[i].block = calloc(blocks_for(c->opt.positions), sizeof *kv->cache[i].block);
        good = kv->cache[i].block != NULL;
    }
    if (!good) {
        free_kv(c, kv);
        return hk_fail_nomem(err);
    }
    *out = kv;
    return HK_OK;
}

enum hk_status hke_cpu_reserve(struct hke_runner *r, struct hke_sequence *s, size_t positions,
                               struct hk_error *err)
{
    struct hke_cpu *c = (struct hke_cpu *)r;
    enum hk_status st = s->kv == NULL ? new_kv(c, &s->kv, err) : HK_OK;
    while (st == HK_OK && c->spans < blocks_for(positions))
        st = add_span(c, err);
    for (size_t i = 0; i < c->plan->caches; i++)
        while (st == HK_OK && s->kv->cache[i].blocks < blocks_for(positions))
            st = add_kv_block(c, s->kv, i, err);
    return st;
}

void hke_cpu_release(struct hke_runner *r, struct hke_sequence *s)
{
    free_kv((struct hke_cpu *)r, s->kv);
    s->kv = NULL;
    s->used = 0;
}

uint16_t *hke_keys_of(const struct hke_pass *p, const struct hke_step *s, size_t head, size_t block)
{
    const struct hke_cache_class *c = &p->cpu->plan->cache[s->cache];
    return p->sequence->kv->cache[s->cache].block[block] + s->cache_layer * halves_of_layer(c) +
           head * keys_of_head(c);
}

uint16_t *hke_values_of(const struct hke_pass *p, const struct hke_step *s, size_t head,
                        size_t block)
{
    const struct hke_cache_class *c = &p->cpu->plan->cache[s->cache];
    return p->sequence->kv->cache[s->cache].block[block] + s->cache_layer * halves_of_layer(c) +
           c->kv_heads * keys_of_head(c) + head * values_of_head(c);
}
