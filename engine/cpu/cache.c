/* Memory of the KV cache, in blocks of HKE_BLOCK positions that sequences have by their numbers;
 * and what all sequences share by position. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "libhkfmt/base/grow.h"

/* ---- by position: cosines and sines, parts of attention ---- */

const float *hke_cos_sin_at(const struct hke_cpu *c, int rope, size_t position)
{
    const float *row =
        c->span[position / HKE_BLOCK].cos_sin + position % HKE_BLOCK * c->cos_sin_elems;
    for (int i = 0; i < rope; i++)
        row += 2 * c->plan->rope[i].pairs;
    return row;
}

/* Cosine and sine of every pair at POSITION, in the order that hkk_table.rope wants. Computed in
 * double, rounded once. */
static void compute_cos_sin(const struct hke_rope_table *r, size_t most, size_t position,
                            float *out)
{
    const double *frequency = r->far != NULL && most > r->near ? r->far : r->frequency;
    for (size_t i = 0; i < r->pairs; i++) {
        double angle = (double)position * frequency[i];
        float *cosine = r->halves ? out + i : out + 2 * i;
        cosine[0] = (float)(cos(angle) * r->magnitude);
        cosine[r->halves ? r->pairs : 1] = (float)(sin(angle) * r->magnitude);
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
            compute_cos_sin(&c->plan->rope[i], c->opt.positions, c->spans * HKE_BLOCK + at, out);
    c->spans++;
    return HK_OK;
}

enum hk_status hke_cpu_add_positions(struct hke_device *d, size_t positions, struct hk_error *err)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    enum hk_status st = HK_OK;
    while (st == HK_OK && c->spans * HKE_BLOCK < positions)
        st = add_span(c, err);
    return st;
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

/* Bytes of a block of CLASS; false where they are too many. */
static bool size_block(const struct hke_cache_class *class, size_t *bytes)
{
    size_t all = 0;
    return add_bytes(class->layers, halves_of_layer(class) * sizeof(uint16_t), bytes, &all);
}

enum hk_status hke_cpu_add_block(struct hke_device *d, size_t cache, struct hk_error *err)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    struct hke_kv *kv = &c->kv[cache];
    size_t bytes;
    uint16_t *block = NULL;
    if (hk_grow(&kv->block, &kv->room, kv->n + 1, sizeof(uint16_t *)) &&
        size_block(&c->plan->cache[cache], &bytes))
        block = hke_alloc_pages(bytes, c->opt.huge_pages);
    if (block == NULL)
        return hk_fail_nomem(err);
    kv->block[kv->n++] = block;
    return HK_OK;
}

void hke_cpu_copy_block(struct hke_device *d, size_t cache, size_t from, size_t to)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    size_t bytes;
    if (size_block(&c->plan->cache[cache], &bytes))
        memcpy(c->kv[cache].block[to], c->kv[cache].block[from], bytes);
}

void hke_free_kv(struct hke_cpu *c)
{
    for (size_t i = 0; i < HKE_MAX_CACHES; i++) {
        for (size_t k = 0; k < c->kv[i].n; k++)
            free(c->kv[i].block[k]);
        free(c->kv[i].block);
    }
}

/* What the step's cache layer has in the BLOCK-th block of TOKEN's sequence. */
static uint16_t *layer_of(const struct hke_pass *p, const struct hke_step *s, size_t token,
                          size_t block)
{
    const uint32_t number = p->batch->token[token].sequence->cache[s->cache].number[block];
    return p->cpu->kv[s->cache].block[number] +
           s->cache_layer * halves_of_layer(&p->cpu->plan->cache[s->cache]);
}

uint16_t *hke_keys_of(const struct hke_pass *p, const struct hke_step *s, size_t token, size_t head,
                      size_t block)
{
    return layer_of(p, s, token, block) + head * keys_of_head(&p->cpu->plan->cache[s->cache]);
}

uint16_t *hke_values_of(const struct hke_pass *p, const struct hke_step *s, size_t token,
                        size_t head, size_t block)
{
    const struct hke_cache_class *c = &p->cpu->plan->cache[s->cache];
    return layer_of(p, s, token, block) + c->kv_heads * keys_of_head(c) + head * values_of_head(c);
}
