/* The cache of keys and values, in segments that are allocated as the text grows: halves, laid out
 * as the kernels want them. */
#include <stdlib.h>

#include "engine/model.h"

/* Bytes of a segment's parts. Dimensions are at most 2^20 and 2^16 heads of them are far more than
 * any file can hold, but references to nothing have any shape: so all is checked once. */
struct layout {
    size_t turns, parts, sums, halves;
    size_t all;
};

static size_t key_halves(const struct hk_model_params *p)
{
    return (size_t)HKK_SEGMENT * p->key_dim;
}

static size_t value_halves(const struct hk_model_params *p)
{
    return (size_t)HKK_SEGMENT * p->value_dim;
}

static size_t layer_halves(const struct hk_model_params *p)
{
    return p->kv_heads * (key_halves(p) + value_halves(p));
}

static size_t parts(const struct hk_model_params *p)
{
    return (size_t)HKE_SPLIT_TOKENS * p->heads;
}

static bool add_part(struct layout *l, size_t bytes, size_t *part)
{
    *part = bytes;
    return !__builtin_add_overflow(bytes, (size_t)HKK_ALIGN - 1, part) &&
           !__builtin_add_overflow(l->all, *part -= *part % HKK_ALIGN, &l->all);
}

static bool lay_out(const struct hk_model_params *p, struct layout *l)
{
    size_t halves;
    *l = (struct layout){0};
    return !__builtin_mul_overflow(layer_halves(p) * sizeof(uint16_t), (size_t)p->layers,
                                   &halves) &&
           add_part(l, (size_t)HKK_SEGMENT * p->rope_dims * sizeof(float), &l->turns) &&
           add_part(l, parts(p) * sizeof(struct hkk_attention), &l->parts) &&
           add_part(l, parts(p) * p->value_dim * sizeof(float), &l->sums) &&
           add_part(l, halves, &l->halves);
}

enum hk_status hke_cache_init(struct hke_cache *c, const struct hke_model *m, size_t positions,
                              struct hk_error *err)
{
    struct layout l;
    c->model = m;
    c->segments = (positions + HKK_SEGMENT - 1) / HKK_SEGMENT;
    c->segment = calloc(c->segments, sizeof *c->segment);
    return c->segment != NULL && lay_out(&m->params, &l) ? HK_OK : hk_fail_nomem(err);
}

void hke_cache_free(struct hke_cache *c)
{
    for (size_t i = 0; i < c->allocated; i++)
        free(c->segment[i].turns);
    free(c->segment);
}

/* Segment I, with the turns of its positions. */
static enum hk_status add_segment(struct hke_cache *c, size_t i, struct hk_error *err)
{
    const struct hk_model_params *p = &c->model->params;
    struct layout l;
    lay_out(p, &l);
    char *base = hke_alloc(l.all, c->huge_pages);
    if (base == NULL)
        return hk_fail_nomem(err);
    struct hke_segment *s = &c->segment[i];
    s->turns = (void *)base;
    s->part = (void *)(base + l.turns);
    s->halves = (void *)(base + l.turns + l.parts + l.sums);
    float *sums = (void *)(base + l.turns + l.parts);
    for (size_t part = 0; part < parts(p); part++)
        s->part[part] = (struct hkk_attention){.sum = sums + part * p->value_dim};
    for (size_t at = 0; at < HKK_SEGMENT; at++)
        hke_rope_turns(c->model, i * HKK_SEGMENT + at, s->turns + at * p->rope_dims);
    return HK_OK;
}

enum hk_status hke_cache_reserve(struct hke_cache *c, size_t positions, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    while (st == HK_OK && c->allocated * HKK_SEGMENT < positions) {
        st = add_segment(c, c->allocated, err);
        c->allocated += st == HK_OK;
    }
    return st;
}

const float *hke_cache_turns(const struct hke_cache *c, size_t position)
{
    return c->segment[position / HKK_SEGMENT].turns +
           position % HKK_SEGMENT * c->model->params.rope_dims;
}

/* In a layer all heads' keys come first, then all heads' values. */
uint16_t *hke_cache_keys(const struct hke_cache *c, size_t layer, size_t head, size_t segment)
{
    const struct hk_model_params *p = &c->model->params;
    return c->segment[segment].halves + layer * layer_halves(p) + head * key_halves(p);
}

uint16_t *hke_cache_values(const struct hke_cache *c, size_t layer, size_t head, size_t segment)
{
    const struct hk_model_params *p = &c->model->params;
    return c->segment[segment].halves + layer * layer_halves(p) + p->kv_heads * key_halves(p) +
           head * value_halves(p);
}
