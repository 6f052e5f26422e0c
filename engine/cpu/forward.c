/* One pass over a batch of positions: all workers run it in step, with a barrier wherever what one
 * wrote is read by others. Within a step the tokens, heads or rows are shared among them; every
 * number is computed from its own token alone, so neither batches nor threads change it.
 *
 * Of one token the small steps between the products are not worth a barrier: every worker does them
 * for itself, in memory of its own. A layer then has five barriers, or six where its past is long.
 */
#include "engine/model.h"

static const struct hk_model_params *params(const struct hke_pass *p)
{
    return &p->c->model->params;
}

/* The next tokens of TOTAL for this worker. */
static bool take(const struct hke_pass *p, size_t total, size_t *begin, size_t *end)
{
    return hke_pool_take(p->c->pool, total, hke_grain(p->c, total, total), begin, end);
}

static void barrier(const struct hke_pass *p)
{
    hke_pool_barrier(p->c->pool);
}

/* ---- between the products ---- */

/* The normed stream of the tokens from FROM on, for this worker. */
static float *normed(const struct hke_pass *p, const struct hke_worker *own, size_t from)
{
    return hke_pass_alone(p) ? own->h : p->c->h + from * params(p)->hidden;
}

/* Complete the stream X of token T by what the layer before added (the embedding, if there is
 * none), then norm it. OUT may be ADDED. */
static void norm_token(const struct hke_pass *p, float *x, const float *added, const float *norm,
                       size_t t, float *out)
{
    const struct hke_context *c = p->c;
    size_t width = params(p)->hidden;
    if (added == NULL)
        hke_embed(c->model, p->id[t], x);
    else
        c->kernels->add(x, added, width);
    c->kernels->rms_norm(out, x, norm, width, (float)params(p)->epsilon);
}

/* Likewise all tokens from FROM on, for the product with IN, which is of these. */
static void norm_all(const struct hke_pass *p, const struct hke_worker *own, const float *norm,
                     bool first, size_t from, const struct hke_input *in)
{
    const struct hke_context *c = p->c;
    size_t width = params(p)->hidden, begin, end;
    if (hke_pass_alone(p)) {
        norm_token(p, own->x, first ? NULL : c->h, norm, 0, own->h);
        hke_input_round(p, in, 0);
        return;
    }
    while (take(p, p->n - from, &begin, &end))
        for (size_t t = begin; t < end; t++) {
            float *h = c->h + (from + t) * width;
            norm_token(p, c->x + (from + t) * width, first ? NULL : h, norm, from + t, h);
            hke_input_round(p, in, t);
        }
    barrier(p);
}

/* Bias, norm and turn the head HEAD at Y; bias and norm may be NULL. */
static void turn_head(const struct hke_pass *p, float *y, size_t head, size_t token,
                      const float *bias, const float *norm)
{
    const struct hk_model_params *m = params(p);
    const struct hkk_table *k = p->c->kernels;
    if (bias != NULL)
        k->add(y, bias + head * m->key_dim, m->key_dim);
    if (norm != NULL)
        k->rms_norm(y, y, norm, m->key_dim, (float)m->epsilon);
    k->rope(y, hke_cache_turns(&p->c->cache, p->c->used + token), m->rope_dims / 2, m->halves);
}

/* The key of HEAD into the cache. */
static void store_key(const struct hke_pass *p, const struct hke_layer *l, size_t layer,
                      size_t head, size_t token)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = params(p);
    size_t position = c->used + token;
    float *key = c->k + (token * m->kv_heads + head) * m->key_dim;
    turn_head(p, key, head, token, l->k_bias, l->k_norm);
    c->kernels->store_key(hke_cache_keys(&c->cache, layer, head, position / HKK_SEGMENT),
                          position % HKK_SEGMENT, key, m->key_dim);
}

static void store_value(const struct hke_pass *p, const struct hke_layer *l, size_t layer,
                        size_t head, size_t token)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = params(p);
    size_t position = c->used + token;
    float *value = c->v + (token * m->kv_heads + head) * m->value_dim;
    uint16_t *values = hke_cache_values(&c->cache, layer, head, position / HKK_SEGMENT);
    if (l->v_bias != NULL)
        c->kernels->add(value, l->v_bias + head * m->value_dim, m->value_dim);
    c->kernels->to_half(values + position % HKK_SEGMENT * m->value_dim, value, m->value_dim);
}

/* Finish the HEAD of queries, keys and values, counted through in this order, of TOKEN. */
static void place_head(const struct hke_pass *p, size_t layer, size_t head, size_t token)
{
    const struct hk_model_params *m = params(p);
    const struct hke_layer *l = &p->c->model->layers[layer];
    if (head < m->heads)
        turn_head(p, p->c->q + (token * m->heads + head) * m->key_dim, head, token, l->q_bias,
                  l->q_norm);
    else if (head - m->heads < m->kv_heads)
        store_key(p, l, layer, head - m->heads, token);
    else
        store_value(p, l, layer, head - m->heads - m->kv_heads, token);
}

static void place_heads(const struct hke_pass *p, size_t layer)
{
    size_t each = params(p)->heads + (size_t)2 * params(p)->kv_heads, begin, end;
    while (take(p, p->n * each, &begin, &end))
        for (size_t i = begin; i < end; i++)
            place_head(p, layer, i % each, i / each);
    barrier(p);
}

/* Queries, keys and values. A worker that has all rows of a head finishes it; where there are too
 * few heads to be shared evenly, rows are, and heads in a step of their own. */
static void project(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                    const struct hke_input *in)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = params(p);
    const struct hke_layer *l = &c->model->layers[layer];
    size_t heads = m->heads + (size_t)2 * m->kv_heads, begin, end;
    bool whole = heads >= (size_t)hke_pool_workers(c->pool) * 4;
    const struct hke_product to[] = {{&l->q, c->q, whole ? m->key_dim : HKE_ROW_GROUP},
                                     {&l->k, c->k, whole ? m->key_dim : HKE_ROW_GROUP},
                                     {&l->v, c->v, whole ? m->value_dim : HKE_ROW_GROUP}};
    while (hke_multiply_some(p, own, in, to, 3, &begin, &end))
        for (size_t t = 0; whole && t < p->n; t++)
            for (size_t head = begin; head < end; head++)
                place_head(p, layer, head, t);
    barrier(p);
    if (!whole)
        place_heads(p, layer);
}

/* ---- the layers ---- */

static void look_back(const struct hke_pass *p, struct hke_worker *own, size_t layer, size_t from)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = params(p);
    const struct hke_layer *l = &c->model->layers[layer];
    const struct hke_matrix *qkv[] = {&l->q, &l->k, &l->v}, *o[] = {&l->o};
    size_t att = (size_t)m->heads * m->value_dim;
    struct hke_input in;
    hke_input_of(p, own, normed(p, own, 0), p->n, qkv, 3, &in);
    norm_all(p, own, l->attn_norm, layer == 0, 0, &in);
    hke_lower(p, own, &in);
    project(p, own, layer, &in);
    if (from == p->n)
        return;
    hke_attend(p, own, layer, from);
    hke_input_of(p, own, c->att + from * att, p->n - from, o, 1, &in);
    hke_input_round_all(p, &in);
    hke_lower(p, own, &in);
    hke_multiply(p, own, &in, &l->o, c->h + from * m->hidden);
    barrier(p);
}

static void feed_forward(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                         size_t from)
{
    const struct hke_context *c = p->c;
    const struct hk_model_params *m = params(p);
    const struct hke_layer *l = &c->model->layers[layer];
    const struct hke_matrix *both[] = {&l->gate, &l->up}, *down[] = {&l->down};
    struct hke_input in;
    hke_input_of(p, own, normed(p, own, from), p->n - from, both, 2, &in);
    norm_all(p, own, l->ffn_norm, false, from, &in);
    hke_lower(p, own, &in);
    hke_multiply_gated(p, own, &in, &l->gate, &l->up, c->gate);
    barrier(p);
    hke_input_of(p, own, c->gate, p->n - from, down, 1, &in);
    hke_input_round_all(p, &in);
    hke_lower(p, own, &in);
    hke_multiply(p, own, &in, &l->down, c->h + from * m->hidden);
    barrier(p);
}

/* ---- logits ---- */

/* Add to the stream what the last layer gave. Of several tokens it is kept, since logits of others
 * of them may be asked for later. */
static void complete_stream(const struct hke_pass *p, const struct hke_worker *own)
{
    size_t width = params(p)->hidden, begin, end;
    if (hke_pass_alone(p)) {
        p->c->kernels->add(own->x, p->c->h, width);
        return;
    }
    while (take(p, p->n - p->first, &begin, &end))
        p->c->kernels->add(p->c->x + (p->first + begin) * width,
                           p->c->h + (p->first + begin) * width, (end - begin) * width);
    barrier(p);
}

/* Norm the rows that the pass wants; h is free. */
static void norm_rows(const struct hke_pass *p, const struct hke_worker *own,
                      const struct hke_input *in)
{
    const struct hke_context *c = p->c;
    const float *norm = c->model->output_norm;
    size_t width = params(p)->hidden, begin, end;
    if (hke_pass_alone(p)) {
        c->kernels->rms_norm(own->h, own->x, norm, width, (float)params(p)->epsilon);
        hke_input_round(p, in, 0);
        return;
    }
    while (take(p, p->rows, &begin, &end))
        for (size_t t = begin; t < end; t++) {
            c->kernels->rms_norm(c->h + t * width, c->x + (p->first + t) * width, norm, width,
                                 (float)params(p)->epsilon);
            hke_input_round(p, in, t);
        }
    barrier(p);
}

/* The end of the run is the last barrier. */
static void logits(const struct hke_pass *p, struct hke_worker *own)
{
    const struct hke_matrix *w = hke_output(p->c->model);
    struct hke_input in;
    hke_input_of(p, own, normed(p, own, 0), p->rows, &w, 1, &in);
    norm_rows(p, own, &in);
    hke_lower(p, own, &in);
    hke_multiply(p, own, &in, w, p->c->logits);
}

/* ---- the workers ---- */

/* Of the last layer only the keys and values of tokens without logits are of use. */
static void forward(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    const struct hke_pass *p = arg;
    struct hke_worker *own = &p->c->worker[worker];
    size_t layers = params(p)->layers;
    for (size_t layer = 0; layer < layers; layer++) {
        size_t from = layer + 1 < layers ? 0 : p->first;
        look_back(p, own, layer, from);
        if (from == p->n)
            return;
        feed_forward(p, own, layer, from);
    }
    complete_stream(p, own);
    logits(p, own);
}

static void forward_logits(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    const struct hke_pass *p = arg;
    logits(p, &p->c->worker[worker]);
}

/* Multiply-adds of a layer that several workers do no sooner than one, with five barriers. */
enum { LITTLE = 1 << 16 };

static size_t layer_weights(const struct hk_model_params *m)
{
    size_t heads = m->heads + (size_t)m->kv_heads;
    return m->hidden * (heads * m->key_dim + heads * m->value_dim + (size_t)3 * m->ffn);
}

static void run(struct hke_pass *p, hke_pool_fn *fn)
{
    if (p->n * layer_weights(params(p)) < LITTLE || hke_pool_hindered(p->c->pool))
        hke_pool_run_alone(p->c->pool, fn, p);
    else
        hke_pool_run(p->c->pool, fn, p);
}

void hke_forward(struct hke_pass *p)
{
    run(p, forward);
}

void hke_forward_logits(struct hke_pass *p)
{
    run(p, forward_logits);
}
