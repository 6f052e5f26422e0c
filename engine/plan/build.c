/* The plan of a model: the steps that its tensors make. */
#include "engine/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/bind.h"

/* ---- sizes ---- */

static void set_sizes(struct hke_plan *plan, const struct hk_model_params *p)
{
    const size_t elems[HKE_BUFFERS] = {
        [HKE_RESIDUAL] = p->hidden,
        [HKE_DELTA] = p->hidden,
        [HKE_QUERIES] = (size_t)p->heads * p->key_dim,
        [HKE_KEYS] = (size_t)p->kv_heads * p->key_dim,
        [HKE_VALUES] = (size_t)p->kv_heads * p->value_dim,
        [HKE_ATTENDED] = (size_t)p->heads * p->value_dim,
        [HKE_FFN] = p->shared_ffn > p->ffn ? p->shared_ffn : p->ffn,
        [HKE_SCORES] = (size_t)p->experts,
        [HKE_SHARED_GATE] = 1,
        [HKE_EXPERT_FFN] = (size_t)p->experts_used * p->expert_ffn,
        [HKE_EXPERT_OUT] = (size_t)p->experts_used * p->hidden,
    };
    memcpy(plan->elems, elems, sizeof elems);
    plan->hidden = p->hidden;
    plan->vocab = p->vocab;
    plan->layers = p->layers;
}

/* A class for the layers without a window, and one for those with, if there are any. */
static void add_caches(struct hke_builder *b)
{
    const struct hk_model_params *p = b->params;
    uint32_t layers[2] = {0};
    for (uint32_t i = 0; i < p->layers; i++)
        layers[hk_layer_has_window(p, i)]++;
    for (unsigned windowed = 0; windowed < 2; windowed++) {
        if (layers[windowed] == 0)
            continue;
        b->cache[windowed] = (uint32_t)b->plan->caches;
        b->plan->cache[b->plan->caches++] =
            (struct hke_cache_class){.layers = layers[windowed],
                                     .kv_heads = p->kv_heads,
                                     .key_dim = p->key_dim,
                                     .value_dim = p->value_dim,
                                     .window = windowed != 0 ? p->window : 0};
    }
}

static double *new_frequencies(struct hke_builder *b, const struct hk_rope *rope,
                               const float *factors)
{
    const uint32_t dims = b->params->rope_dims;
    double *frequency = calloc(dims / 2, sizeof *frequency);
    if (frequency != NULL)
        hk_rope_frequencies(rope, dims, factors, frequency);
    return frequency;
}

/* FAR: factors of long texts; NULL: those of all are FACTORS. */
static enum hk_status add_rope(struct hke_builder *b, const struct hk_rope *rope,
                               const float *factors, const float *far)
{
    struct hke_rope_table *r = &b->plan->rope[b->plan->ropes++];
    *r = (struct hke_rope_table){.frequency = new_frequencies(b, rope, factors),
                                 .far = far != NULL ? new_frequencies(b, rope, far) : NULL,
                                 .near = (size_t)rope->original,
                                 .pairs = b->params->rope_dims / 2,
                                 .magnitude = rope->magnitude,
                                 .halves = b->params->halves};
    return r->frequency != NULL && (far == NULL || r->far != NULL) ? HK_OK : hk_fail_nomem(b->err);
}

/* That of all layers, and where those with a window turn otherwise, theirs. */
static enum hk_status add_ropes(struct hke_builder *b)
{
    const struct hk_model_params *p = b->params;
    const struct hk_rope own = {.kind = HK_ROPE_NONE, .base = p->window_rope_base, .magnitude = 1};
    const float *near = b->vector[HK_ROLE_ROPE_SHORT], *far = b->vector[HK_ROLE_ROPE_LONG];
    const bool both = near != NULL && far != NULL;
    enum hk_status st =
        add_rope(b, &p->rope, both ? near : b->vector[HK_ROLE_ROPE_FACTORS], both ? far : NULL);
    if (st != HK_OK || p->window_rope_base == 0 || p->window == 0)
        return st;
    b->window_rope = (int)b->plan->ropes;
    return add_rope(b, &own, NULL, NULL);
}

static int rope_of_layer(const struct hke_builder *b, uint32_t layer)
{
    if (!hk_layer_has_rope(b->params, layer))
        return HKE_NO_ROPE;
    return hk_layer_has_window(b->params, layer) ? b->window_rope : 0;
}

/* ---- steps ---- */

static struct hke_step *add_step(struct hke_builder *b, enum hke_step_kind kind, uint32_t layer)
{
    struct hke_step *s = &b->plan->step[b->plan->steps++];
    s->kind = kind;
    s->layer = layer;
    return s;
}

static struct hke_operand *add_operand(const struct hke_builder *b, struct hke_step *s,
                                       enum hk_tensor_role role, enum hke_buffer to)
{
    struct hke_operand *o = &s->operand[s->operands++];
    *o = (struct hke_operand){.weight = b->matrix[role], .to = to, .rope = HKE_NO_ROPE};
    return o;
}

/* That of the weights ROLE, and of the biases BIAS; HK_TENSOR_ROLES: there are none. */
static struct hke_norm norm_of(const struct hke_builder *b, enum hk_tensor_role role,
                               enum hk_tensor_role bias)
{
    const bool layer = b->params->norm == HK_NORM_LAYER;
    if (b->vector[role] == NULL)
        return (struct hke_norm){.kind = HKE_NO_NORM};
    return (struct hke_norm){.kind = layer ? HKE_LAYER_NORM : HKE_RMS_NORM,
                             .weight = b->vector[role],
                             .bias = bias < HK_TENSOR_ROLES ? b->vector[bias] : NULL,
                             .epsilon = (float)b->params->epsilon};
}

/* A scale as a step has it, to which 1 is none. */
static float scale_unless_one(double scale)
{
    return scale != 1 ? (float)scale : 0;
}

/* Residual add, then norm; what EMBED gives is no delta. */
static void add_residual_norm(struct hke_builder *b, struct hke_step *s, bool first,
                              enum hk_tensor_role norm, enum hk_tensor_role bias)
{
    s->in = HKE_RESIDUAL;
    s->add = !first;
    s->delta_norm = b->pending;
    s->norm = norm_of(b, norm, bias);
}

/* The matrix ROLE, with biases, to what is added next, after the norm POST. */
static void add_delta(struct hke_builder *b, struct hke_step *s, enum hk_tensor_role role,
                      enum hk_tensor_role bias, enum hk_tensor_role post)
{
    struct hke_operand *o = add_operand(b, s, role, HKE_DELTA);
    o->bias = bias < HK_TENSOR_ROLES ? b->vector[bias] : NULL;
    o->scale = scale_unless_one(b->params->residual_scale);
    b->pending = norm_of(b, post, HK_TENSOR_ROLES);
}

static void add_heads(const struct hke_builder *b, struct hke_step *s)
{
    struct hke_operand *q = add_operand(b, s, HK_ROLE_Q, HKE_QUERIES);
    struct hke_operand *k = add_operand(b, s, HK_ROLE_K, HKE_KEYS);
    struct hke_operand *v = add_operand(b, s, HK_ROLE_V, HKE_VALUES);
    q->heads = b->params->heads;
    k->heads = v->heads = b->params->kv_heads;
    q->head_dim = k->head_dim = b->params->key_dim;
    v->head_dim = b->params->value_dim;
    q->bias = b->vector[HK_ROLE_Q_BIAS];
    k->bias = b->vector[HK_ROLE_K_BIAS];
    v->bias = b->vector[HK_ROLE_V_BIAS];
    q->row_norm = norm_of(b, HK_ROLE_Q_WIDE_NORM, HK_TENSOR_ROLES);
    k->row_norm = norm_of(b, HK_ROLE_K_WIDE_NORM, HK_TENSOR_ROLES);
    q->norm = norm_of(b, HK_ROLE_Q_NORM, HK_TENSOR_ROLES);
    k->norm = norm_of(b, HK_ROLE_K_NORM, HK_TENSOR_ROLES);
    q->rope = k->rope = rope_of_layer(b, s->layer);
    if (b->params->temperature > 0) {
        q->temperature = (float)b->params->temperature;
        q->period = (size_t)b->params->rope.original;
    }
    k->store = HKE_STORE_KEYS;
    v->store = HKE_STORE_VALUES;
}

static void add_attention(struct hke_builder *b, uint32_t layer)
{
    const bool windowed = hk_layer_has_window(b->params, layer);
    const uint32_t cache = b->cache[windowed], cache_layer = b->cache_layers[windowed]++;
    struct hke_step *heads = add_step(b, HKE_PRODUCT, layer);
    add_residual_norm(b, heads, layer == 0, HK_ROLE_ATTN_NORM, HK_ROLE_ATTN_NORM_BIAS);
    add_heads(b, heads);
    heads->cache = cache;
    heads->cache_layer = cache_layer;

    struct hke_step *attend = add_step(b, HKE_ATTEND, layer);
    attend->in = HKE_QUERIES;
    attend->heads = b->params->heads;
    attend->scale = (float)b->params->attention_scale;
    attend->soft_cap = (float)b->params->attention_cap;
    attend->sinks = b->vector[HK_ROLE_SINKS];
    attend->cache = cache;
    attend->cache_layer = cache_layer;

    struct hke_step *output = add_step(b, HKE_PRODUCT, layer);
    output->in = HKE_ATTENDED;
    add_delta(b, output, HK_ROLE_ATTN_OUTPUT, HK_ROLE_ATTN_OUTPUT_BIAS, HK_ROLE_ATTN_POST_NORM);
}

static enum hke_activation activation_of(const struct hk_model_params *p)
{
    static const enum hke_activation activations[] = {[HK_ACTIVATION_SILU] = HKE_SILU,
                                                      [HK_ACTIVATION_GELU] = HKE_GELU,
                                                      [HK_ACTIVATION_RELU_2] = HKE_RELU_2,
                                                      [HK_ACTIVATION_CLAMPED_SWIGLU] =
                                                          HKE_CLAMPED_SWIGLU};
    return activations[p->activation];
}

static void add_feed_forward(struct hke_builder *b, uint32_t layer)
{
    struct hke_step *gate = add_step(b, HKE_PRODUCT, layer);
    add_residual_norm(b, gate, false, HK_ROLE_FFN_NORM, HK_ROLE_FFN_NORM_BIAS);
    if (b->matrix[HK_ROLE_FFN_GATE] != NULL)
        add_operand(b, gate, HK_ROLE_FFN_GATE, HKE_FFN);
    add_operand(b, gate, HK_ROLE_FFN_UP, HKE_FFN)->bias = b->vector[HK_ROLE_FFN_UP_BIAS];
    gate->activation = activation_of(b->params);

    struct hke_step *down = add_step(b, HKE_PRODUCT, layer);
    down->in = HKE_FFN;
    add_delta(b, down, HK_ROLE_FFN_DOWN, HK_ROLE_FFN_DOWN_BIAS, HK_ROLE_FFN_POST_NORM);
}

static struct hke_router router_of(const struct hke_builder *b)
{
    const struct hk_model_params *p = b->params;
    return (struct hke_router){.experts = (size_t)p->experts,
                               .chosen = p->experts_used,
                               .sigmoid = p->sigmoid_scores,
                               .bias = b->vector[HK_ROLE_CHOICE_BIAS],
                               .normalise = p->experts_add_up,
                               .epsilon = p->sigmoid_scores ? 1e-20f : 0,
                               .scale = (float)p->experts_scale};
}

/* What is inside it is computed before the experts, whose sum takes the place of its input. */
static void add_shared_expert(struct hke_builder *b, uint32_t layer)
{
    struct hke_step *up = add_step(b, HKE_PRODUCT, layer);
    add_residual_norm(b, up, true, HK_ROLE_FFN_NORM, HK_ROLE_FFN_NORM_BIAS);
    add_operand(b, up, HK_ROLE_FFN_GATE_SHARED, HKE_FFN);
    add_operand(b, up, HK_ROLE_FFN_UP_SHARED, HKE_FFN);
    up->activation = activation_of(b->params);
}

static void add_shared_output(struct hke_builder *b, uint32_t layer)
{
    struct hke_step *down = add_step(b, HKE_PRODUCT, layer);
    down->in = HKE_FFN;
    add_delta(b, down, HK_ROLE_FFN_DOWN_SHARED, HK_TENSOR_ROLES, HK_ROLE_FFN_POST_NORM);
    down->operand[0].adds = true;
    down->operand[0].gated = b->matrix[HK_ROLE_SHARED_GATE] != NULL;
}

static void add_experts(struct hke_builder *b, uint32_t layer)
{
    const struct hke_router router = router_of(b);
    struct hke_step *route = add_step(b, HKE_ROUTE, layer);
    add_residual_norm(b, route, false, HK_ROLE_FFN_NORM, HK_ROLE_FFN_NORM_BIAS);
    add_operand(b, route, HK_ROLE_ROUTER, HKE_SCORES)->bias = b->vector[HK_ROLE_ROUTER_BIAS];
    if (b->matrix[HK_ROLE_SHARED_GATE] != NULL)
        add_operand(b, route, HK_ROLE_SHARED_GATE, HKE_SHARED_GATE);
    route->router = router;
    const bool shares = b->matrix[HK_ROLE_FFN_UP_SHARED] != NULL;
    if (shares)
        add_shared_expert(b, layer);

    struct hke_step *up = add_step(b, HKE_EXPERTS_UP, layer);
    add_residual_norm(b, up, true, HK_ROLE_FFN_NORM, HK_ROLE_FFN_NORM_BIAS);
    add_operand(b, up, HK_ROLE_FFN_GATE_EXPERTS, HKE_EXPERT_FFN)->bias =
        b->vector[HK_ROLE_FFN_GATE_EXPERTS_BIAS];
    add_operand(b, up, HK_ROLE_FFN_UP_EXPERTS, HKE_EXPERT_FFN)->bias =
        b->vector[HK_ROLE_FFN_UP_EXPERTS_BIAS];
    up->activation = activation_of(b->params);
    up->limit = up->activation == HKE_CLAMPED_SWIGLU ? 7 : 0;
    up->router = router;

    struct hke_step *down = add_step(b, HKE_EXPERTS_DOWN, layer);
    down->in = HKE_EXPERT_FFN;
    add_delta(b, down, HK_ROLE_FFN_DOWN_EXPERTS, HK_ROLE_FFN_DOWN_EXPERTS_BIAS,
              HK_ROLE_FFN_POST_NORM);
    down->router = router;
    if (shares)
        add_shared_output(b, layer);
}

static bool stores_to_cache(const struct hke_step *s)
{
    for (size_t i = 0; i < s->operands; i++)
        if (s->operand[i].store != HKE_STORE_NOTHING)
            return true;
    return false;
}

/* Behind the last step that stores keys and values no token needs another one. */
static void mark_wanted_only(struct hke_plan *p)
{
    for (size_t i = p->steps; i > 0 && !stores_to_cache(&p->step[i - 1]); i--)
        p->step[i - 1].wanted_only = true;
}

static void add_steps(struct hke_builder *b)
{
    struct hke_plan *p = b->plan;
    struct hke_step *embed = add_step(b, HKE_EMBED, 0);
    add_operand(b, embed, HK_ROLE_EMBEDDING, HKE_RESIDUAL)->scale =
        scale_unless_one(b->params->embedding_scale);
    for (uint32_t i = 0; i < p->layers && b->st == HK_OK; i++) {
        hke_bind_layer(b, i);
        add_attention(b, i);
        if (b->matrix[HK_ROLE_ROUTER] != NULL)
            add_experts(b, i);
        else
            add_feed_forward(b, i);
    }
    struct hke_step *logits = add_step(b, HKE_LOGITS, p->layers);
    add_residual_norm(b, logits, false, HK_ROLE_OUTPUT_NORM, HK_ROLE_OUTPUT_NORM_BIAS);
    const bool own = b->matrix[HK_ROLE_OUTPUT] != NULL;
    struct hke_operand *head =
        add_operand(b, logits, own ? HK_ROLE_OUTPUT : HK_ROLE_EMBEDDING, HKE_DELTA);
    head->scale = scale_unless_one(1 / b->params->logits_divisor);
    head->soft_cap = (float)b->params->logits_cap;
    mark_wanted_only(p);
}

/* ---- the whole ---- */

enum { MODEL_STEPS = 2, LAYER_STEPS = 8 }; /* as add_steps() makes them */

static enum hk_status build_plan(struct hke_builder *b)
{
    struct hke_plan *p = b->plan;
    set_sizes(p, b->params);
    add_caches(b);
    hke_bind_begin(b);
    if (b->st == HK_OK)
        p->step = calloc(MODEL_STEPS + (size_t)LAYER_STEPS * p->layers, sizeof *p->step);
    if (b->st == HK_OK && p->step == NULL)
        b->st = hk_fail_nomem(b->err);
    if (b->st == HK_OK)
        b->st = add_ropes(b);
    if (b->st == HK_OK)
        add_steps(b);
    hke_bind_end(b);
    return b->st;
}

enum hk_status hke_plan_new(struct hke_plan **out, const struct hk_file *f,
                            const struct hk_model_params *p, struct hk_error *err)
{
    struct hke_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return hk_fail_nomem(err);
    plan->file = f;
    struct hke_builder b = {.plan = plan, .params = p, .err = err};
    enum hk_status st = build_plan(&b);
    if (st != HK_OK)
        hke_plan_free(&plan);
    else
        *out = plan;
    return st;
}

void hke_plan_free(struct hke_plan **p)
{
    struct hke_plan *plan = *p;
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->weights; i++)
        hke_unbind_weight(&plan->weight[i]);
    for (size_t i = 0; i < plan->vectors; i++)
        free(plan->vector[i]);
    for (size_t i = 0; i < plan->ropes; i++) {
        free(plan->rope[i].frequency);
        free(plan->rope[i].far);
    }
    free(plan->weight);
    free(plan->vector);
    free(plan->step);
    free(plan);
    *p = NULL;
}
