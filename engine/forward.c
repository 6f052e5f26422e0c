/* One forward pass over a batch of positions, weights decoded to f32 row by row: each row once a
 * batch, whatever its type. This is the arithmetic that faster paths are measured against. Nothing
 * is allocated here, and every token's numbers are its own: batches do not change them. */
#include <math.h>
#include <string.h>

#include "engine/model.h"
#include "kernels/kernels.h"

/* ---- matrix times batch ---- */

struct product { /* y[t][r] = dot(w[r], x[t]) for N tokens, row lengths those of W */
    const struct hke_matrix *w;
    const float *x;
    float *y;
    size_t n;
};

/* y[0..COUNT) of COUNT rows, which lie one after the other. */
static void product_group(const float *row, size_t count, const float *x, size_t cols, float *y)
{
    size_t g = 0;
    for (; g + 2 <= count; g += 2)
        hkk_dot2_f32(row + g * cols, x, cols, y + g);
    if (g < count)
        y[g] = hkk_dot_f32(row + g * cols, x, cols);
}

/* Rows BEGIN to END; ROW is room for HKE_ROW_GROUP of them. Rows are apart from each other, so any
 * split of them gives the same numbers. */
static void product_rows(const struct product *p, size_t begin, size_t end, float *row)
{
    size_t cols = p->w->cols, rows = p->w->rows;
    for (size_t r = begin; r < end; r += HKE_ROW_GROUP) {
        size_t count = end - r < HKE_ROW_GROUP ? end - r : HKE_ROW_GROUP;
        hk_decoder_read(p->w->decoder, (uint64_t)r * cols, count * cols, row);
        for (size_t t = 0; t < p->n; t++)
            product_group(row, count, p->x + t * cols, cols, p->y + t * rows + r);
    }
}

static void multiply(const struct hke_context *c, const struct hke_matrix *w, const float *x,
                     float *y, size_t n)
{
    const struct product p = {w, x, y, n};
    product_rows(&p, 0, w->rows, c->row);
}

/* ---- steps over a batch ---- */

static void norm_all(const struct hke_context *c, const float *x, const float *w, size_t n)
{
    const struct hke_params *p = &c->model->params;
    for (size_t t = 0; t < n; t++)
        hkk_rms_norm_f32(c->h + t * p->width, x + t * p->width, w, p->width, p->epsilon);
}

static void add_bias(float *y, const float *bias, size_t n, size_t width)
{
    for (size_t t = 0; bias != NULL && t < n; t++)
        hkk_add_f32(y + t * width, bias, width);
}

/* Norm (may be NULL) and turn each of HEADS heads of N tokens. */
static void turn_heads(const struct hke_context *c, float *y, size_t heads, const float *norm,
                       size_t n)
{
    const struct hke_params *p = &c->model->params;
    for (size_t i = 0; i < n * heads; i++) {
        float *head = y + i * p->key_dim;
        if (norm != NULL)
            hkk_rms_norm_f32(head, head, norm, p->key_dim, p->epsilon);
        hkk_rope_f32(head, hke_cache_turns(&c->cache, c->used + i / heads), p->rope_dims / 2,
                     p->neox);
    }
}

static void store(const struct hke_context *c, size_t layer, size_t n)
{
    const struct hke_params *p = &c->model->params;
    for (size_t i = 0; i < n * p->kv_heads; i++) {
        size_t head = i % p->kv_heads, position = c->used + i / p->kv_heads;
        memcpy(hke_cache_key(&c->cache, layer, head, position), c->k + i * p->key_dim,
               p->key_dim * sizeof *c->k);
        memcpy(hke_cache_value(&c->cache, layer, head, position), c->v + i * p->value_dim,
               p->value_dim * sizeof *c->v);
    }
}

/* HEAD's value of a query at POSITION, from all positions up to it, into OUT. */
static void attend(const struct hke_context *c, size_t layer, size_t head, size_t position,
                   const float *q, float *out)
{
    const struct hke_params *p = &c->model->params;
    size_t kv = head / (p->heads / p->kv_heads);
    float scale = 1.0f / sqrtf((float)p->key_dim);
    struct hkk_attention all = {.sum = out};
    for (size_t at = 0; at <= position; at += HKE_SEGMENT) {
        size_t n = position + 1 - at < HKE_SEGMENT ? position + 1 - at : HKE_SEGMENT;
        struct hkk_attention part = {.sum = at == 0 ? out : c->part};
        hkk_attend_f32(&part, q, hke_cache_key(&c->cache, layer, kv, at),
                       hke_cache_value(&c->cache, layer, kv, at), n, p->key_dim, p->value_dim,
                       scale, c->scores);
        if (at == 0)
            all = part;
        else
            hkk_attention_merge_f32(&all, &part, p->value_dim);
    }
    hkk_attention_finish_f32(&all, p->value_dim);
}

/* ---- the layers ---- */

static void attention(const struct hke_context *c, size_t layer, size_t n)
{
    const struct hke_params *p = &c->model->params;
    const struct hke_layer *l = &c->model->layers[layer];
    norm_all(c, c->x, l->attn_norm, n);
    multiply(c, &l->q, c->h, c->q, n);
    multiply(c, &l->k, c->h, c->k, n);
    multiply(c, &l->v, c->h, c->v, n);
    add_bias(c->q, l->q_bias, n, l->q.rows);
    add_bias(c->k, l->k_bias, n, l->k.rows);
    add_bias(c->v, l->v_bias, n, l->v.rows);
    turn_heads(c, c->q, p->heads, l->q_norm, n);
    turn_heads(c, c->k, p->kv_heads, l->k_norm, n);
    store(c, layer, n);
    for (size_t i = 0; i < n * p->heads; i++)
        attend(c, layer, i % p->heads, c->used + i / p->heads, c->q + i * p->key_dim,
               c->att + i * p->value_dim);
    multiply(c, &l->o, c->att, c->h, n);
    hkk_add_f32(c->x, c->h, n * p->width);
}

static void feed_forward(const struct hke_context *c, size_t layer, size_t n)
{
    const struct hke_params *p = &c->model->params;
    const struct hke_layer *l = &c->model->layers[layer];
    norm_all(c, c->x, l->ffn_norm, n);
    multiply(c, &l->gate, c->h, c->gate, n);
    multiply(c, &l->up, c->h, c->up, n);
    hkk_silu_mul_f32(c->gate, c->up, n * p->ffn);
    multiply(c, &l->down, c->gate, c->h, n);
    hkk_add_f32(c->x, c->h, n * p->width);
}

void hke_forward(struct hke_context *c, const uint32_t *id, size_t n)
{
    const struct hke_params *p = &c->model->params;
    for (size_t t = 0; t < n; t++)
        hk_decoder_read(c->model->embedding.decoder, (uint64_t)id[t] * p->width, p->width,
                        c->x + t * p->width);
    for (size_t layer = 0; layer < p->layers; layer++) {
        attention(c, layer, n);
        feed_forward(c, layer, n);
    }
}

void hke_forward_logits(struct hke_context *c, size_t first, size_t n)
{
    const struct hke_model *m = c->model;
    norm_all(c, c->x + first * m->params.width, m->output_norm, n);
    multiply(c, m->output.decoder != NULL ? &m->output : &m->embedding, c->h, c->logits, n);
}
