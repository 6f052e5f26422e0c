/* The cache of keys and values, in segments that are allocated as the text grows. */
#include <stdlib.h>

#include "engine/model.h"

/* Floats of a segment's parts. Dimensions are below 2^24 and shapes were checked against tensors,
 * but references to nothing have any shape: so the whole is checked once, in hke_cache_init(). */
static size_t turns_size(const struct hke_params *p)
{
    return (size_t)HKE_SEGMENT * p->rope_dims;
}

static size_t layer_size(const struct hke_params *p)
{
    return (size_t)HKE_SEGMENT * p->kv_heads * ((size_t)p->key_dim + p->value_dim);
}

static bool segment_size(const struct hke_params *p, size_t *floats)
{
    size_t n, bytes;
    if (__builtin_mul_overflow(layer_size(p), (size_t)p->layers, &n) ||
        __builtin_add_overflow(n, turns_size(p), &n) ||
        __builtin_mul_overflow(n, sizeof(float), &bytes))
        return false;
    *floats = n;
    return true;
}

enum hk_status hke_cache_init(struct hke_cache *c, const struct hke_model *m, size_t positions,
                              struct hk_error *err)
{
    size_t floats;
    c->model = m;
    c->segments = (positions + HKE_SEGMENT - 1) / HKE_SEGMENT;
    c->segment = calloc(c->segments, sizeof *c->segment);
    if (c->segment == NULL || !segment_size(&m->params, &floats))
        return hk_fail_nomem(err);
    return HK_OK;
}

void hke_cache_free(struct hke_cache *c)
{
    for (size_t i = 0; i < c->allocated; i++)
        free(c->segment[i]);
    free(c->segment);
}

enum hk_status hke_cache_reserve(struct hke_cache *c, size_t positions, struct hk_error *err)
{
    const struct hke_params *p = &c->model->params;
    while (c->allocated * HKE_SEGMENT < positions) {
        size_t floats = 0;
        segment_size(p, &floats);
        float *s = malloc(floats * sizeof *s);
        if (s == NULL)
            return hk_fail_nomem(err);
        for (size_t i = 0; i < HKE_SEGMENT; i++)
            hke_rope_turns(c->model, c->allocated * HKE_SEGMENT + i, s + i * p->rope_dims);
        c->segment[c->allocated++] = s;
    }
    return HK_OK;
}

const float *hke_cache_turns(const struct hke_cache *c, size_t position)
{
    return c->segment[position / HKE_SEGMENT] + position % HKE_SEGMENT * c->model->params.rope_dims;
}

/* In a layer all heads' keys come first, then all heads' values. */
static float *layer_of(const struct hke_cache *c, size_t layer, size_t position)
{
    const struct hke_params *p = &c->model->params;
    return c->segment[position / HKE_SEGMENT] + turns_size(p) + layer * layer_size(p);
}

float *hke_cache_key(const struct hke_cache *c, size_t layer, size_t head, size_t position)
{
    size_t dim = c->model->params.key_dim;
    return layer_of(c, layer, position) + (head * HKE_SEGMENT + position % HKE_SEGMENT) * dim;
}

float *hke_cache_value(const struct hke_cache *c, size_t layer, size_t head, size_t position)
{
    const struct hke_params *p = &c->model->params;
    size_t keys = (size_t)HKE_SEGMENT * p->kv_heads * p->key_dim;
    size_t row = head * HKE_SEGMENT + position % HKE_SEGMENT;
    return layer_of(c, layer, position) + keys + row * p->value_dim;
}
