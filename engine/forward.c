/* One pass over a batch of positions: all workers run it in step, with a barrier wherever what one
 * wrote is read by others. Within a step the tokens, heads or rows are shared among them; every
 * number is computed from its own token alone, so neither batches nor threads change it. */
#include "engine/model.h"

static const struct hke_params *params(const struct hke_pass *p)
{
    return &p->c->model->params;
}

/* The next tokens of TOTAL for this worker. */
static bool take(const struct hke_pass *p, size_t total, size_t *begin, size_t *end)
{
    return hke_pool_take(p->c->pool, total, hke_grain(p->c, total, total), begin, end);
}

/* ---- between the products ---- */

static void embed(const struct hke_pass *p, size_t t)
{
    size_t width = params(p)->width;
    hk_decoder_read(p->c->model->embedding.decoder, (uint64_t)p->id[t] * width, width,
                    p->c->x + t * width);
}

/* Complete the stream of the tokens from FROM on by what the layer before added (the embedding, if
 * there is none), then norm it for the product with IN, which is of these tokens. */
static void norm_all(const struct hke_pass *p, const float *norm, bool first, size_t from,
                     const struct hke_input *in)
{
    const struct hke_context *c = p->c;
    size_t width = params(p)->width, begin, end;
    while (take(p, p->n - from, &begin, &end))
        for (size_t t = begin; t < end; t++) {
            float *x = c->x + (from + t) * width, *h = c->h + (from + t) * width;
            if (first)
                embed(p, from + t);
            else
                c->kernels->add(x, h, width);
            c->kernels->rms_norm(h, x, norm, width, params(p)->epsilon);
            hke_input_round(p, in, t);
        }
    hke_pool_barrier(c->pool);
}

/* Bias, norm and turn the head HEAD at Y; bias and norm may be NULL. */
static void turn_head(const struct hke_pass *p, float *y, size_t head, size_t token,
                      const float *bias, const float *norm)
{
    const struct hke_params *m = params(p);
    const struct hkk_table *k = p->c->kernels;
    if (bias != NULL)
        k->add(y, bias + head * m->key_dim, m->key_dim);
    if (norm != NULL)
        k->rms_norm(y, y, norm, m->key_dim, m->epsilon);
    k->rope(y, hke_cache_turns(&p->c->cache, p->c->used + token), m->rope_dims / 2, m->neox);
}

/* The key and the value of HEAD into the cache. */
static void store_head(const struct hke_pass *p, const struct hke_layer *l, size_t layer,
                       size_t head, size_t token)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = params(p);
    size_t position = c->used + token, segment = position / HKK_SEGMENT,
           at = position % HKK_SEGMENT;
    float *key = c->k + (token * m->kv_heads + head) * m->key_dim;
    float *value = c->v + (token * m->kv_heads + head) * m->value_dim;
    turn_head(p, key, head, token, l->k_bias, l->k_norm);
    c->kernels->store_key(hke_cache_keys(&c->cache, layer, head, segment), at, key, m->key_dim);
    if (l->v_bias != NULL)
        c->kernels->add(value, l->v_bias + head * m->value_dim, m->value_dim);
    c->kernels->to_half(hke_cache_values(&c->cache, layer, head, segment) + at * m->value_dim,
                        value, m->value_dim);
}

static void place_heads(const struct hke_pass *p, size_t layer)
{
    const struct hke_params *m = params(p);
    const struct hke_layer *l = &p->c->model->layers[layer];
    size_t each = (size_t)m->heads + m->kv_heads, begin, end;
    while (take(p, p->n * each, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            size_t token = i / each, head = i % each;
            if (head < m->heads)
                turn_head(p, p->c->q + (token * m->heads + head) * m->key_dim, head, token,
                          l->q_bias, l->q_norm);
            else
                store_head(p, l, layer, head - m->heads, token);
        }
    hke_pool_barrier(p->c->pool);
}

/* ---- the layers ---- */

static void look_back(const struct hke_pass *p, struct hke_worker *own, size_t layer, size_t from)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = params(p);
    const struct hke_layer *l = &c->model->layers[layer];
    const struct hke_matrix *qkv[] = {&l->q, &l->k, &l->v}, *o[] = {&l->o};
    const struct hke_product to[] = {{&l->q, c->q}, {&l->k, c->k}, {&l->v, c->v}};
    size_t att = (size_t)m->heads * m->value_dim;
    struct hke_input in;
    hke_input_of(p, c->h, p->n, qkv, 3, &in);
    norm_all(p, l->attn_norm, layer == 0, 0, &in);
    hke_multiply(p, own, &in, to, 3);
    place_heads(p, layer);
    if (from == p->n)
        return;
    hke_attend(p, own, layer, from);
    hke_input_of(p, c->att + from * att, p->n - from, o, 1, &in);
    hke_input_round_all(p, &in);
    hke_multiply(p, own, &in, &(struct hke_product){&l->o, c->h + from * m->width}, 1);
}

static void feed_forward(const struct hke_pass *p, struct hke_worker *own, size_t layer,
                         size_t from)
{
    const struct hke_context *c = p->c;
    const struct hke_params *m = params(p);
    const struct hke_layer *l = &c->model->layers[layer];
    const struct hke_matrix *both[] = {&l->gate, &l->up}, *down[] = {&l->down};
    struct hke_input in;
    hke_input_of(p, c->h + from * m->width, p->n - from, both, 2, &in);
    norm_all(p, l->ffn_norm, false, from, &in);
    hke_multiply_gated(p, own, &in, &l->gate, &l->up, c->gate);
    hke_input_of(p, c->gate, p->n - from, down, 1, &in);
    hke_input_round_all(p, &in);
    hke_multiply(p, own, &in, &(struct hke_product){&l->down, c->h + from * m->width}, 1);
}

/* ---- logits ---- */

/* Of the rows of x that the pass wants; h is free. */
static void logits(const struct hke_pass *p, struct hke_worker *own)
{
    const struct hke_context *c = p->c;
    const struct hke_matrix *w = hke_output(c->model);
    size_t width = params(p)->width, begin, end;
    struct hke_input in;
    hke_input_of(p, c->h, p->rows, &w, 1, &in);
    while (take(p, p->rows, &begin, &end))
        for (size_t t = begin; t < end; t++) {
            c->kernels->rms_norm(c->h + t * width, c->x + (p->first + t) * width,
                                 c->model->output_norm, width, params(p)->epsilon);
            hke_input_round(p, &in, t);
        }
    hke_pool_barrier(c->pool);
    hke_multiply(p, own, &in, &(struct hke_product){w, c->logits}, 1);
}

static void complete_stream(const struct hke_pass *p)
{
    size_t width = params(p)->width, begin, end;
    while (take(p, p->n - p->first, &begin, &end))
        p->c->kernels->add(p->c->x + (p->first + begin) * width,
                           p->c->h + (p->first + begin) * width, (end - begin) * width);
    hke_pool_barrier(p->c->pool);
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
    complete_stream(p);
    logits(p, own);
}

static void forward_logits(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    const struct hke_pass *p = arg;
    logits(p, &p->c->worker[worker]);
}

void hke_forward(struct hke_pass *p)
{
    hke_pool_run(p->c->pool, forward, p);
}

void hke_forward_logits(struct hke_pass *p)
{
    hke_pool_run(p->c->pool, forward_logits, p);
}
