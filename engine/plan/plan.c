/* The plan of a model: its tensors bound to steps. Matrices stay where they are in the file; norms
 * and biases are decoded here. */
#include "engine/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one tensor ---- */

enum hk_status hke_bind_weight(struct hke_weight *out, const struct hk_file *f,
                               const struct hk_tensor *t, size_t row_begin, size_t rows,
                               struct hk_error *err)
{
    const uint64_t *dim = t->shape + t->ndim - 2;
    struct hke_weight w = {.tensor = t,
                           .stack = t->ndim > 2 ? (size_t)t->shape[0] : 1,
                           .rows = rows,
                           .cols = (size_t)dim[1],
                           .row_begin = row_begin,
                           .tensor_rows = (size_t)dim[0]};
    enum hk_status st = hk_decoder_new(&w.decoder, f, t, err);
    if (st != HK_OK)
        return st;
    w.data = hk_decoder_rows(w.decoder, &w.type);
    *out = w;
    return HK_OK;
}

void hke_unbind_weight(struct hke_weight *w)
{
    hk_decoder_free(&w->decoder);
}

void hke_to_file_order(float *x, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(x + i, &bits, sizeof bits);
    }
}

/* ---- all tensors ---- */

enum { SHAPE_TEXT = 96 };

struct builder {
    struct hke_plan *plan;
    const struct hk_model_params *params;
    struct hk_model_tensor next; /* of the family's tensors, if there is MORE */
    size_t at;
    bool more;
    const struct hk_tensor **bound; /* tensors that have a place: COUNT of them */
    size_t count;
    uint64_t budget;                    /* elements that matrices may still have */
    int window_rope;                    /* table of the layers with a window */
    struct hke_norm pending;            /* of what the step before leaves in DELTA */
    uint32_t cache[2], cache_layers[2]; /* classes of layers without and with a window; of each so
                                           many layers are built */
    /* Of the model, and of the layer that is being built. */
    struct hke_weight *matrix[HK_TENSOR_ROLES];
    const float *vector[HK_TENSOR_ROLES];
    struct hk_error *err;
    enum hk_status st; /* of the first failure: after it nothing is bound */
};

/* References to nothing and sparse blocks give a small file matrices of any size, and with them
 * buffers and work without bound. No format stores as little as this a weight. */
enum { WEIGHTS_A_BYTE = 64, WEIGHTS_FREE = 1 << 20 };

static enum hk_status spend_weights(struct builder *b, const struct hk_tensor *t,
                                    const struct hk_model_tensor *as)
{
    const uint64_t matrix = as->rows * as->cols; /* both are below 2^31 */
    const uint64_t stack = as->experts > 0 ? as->experts : 1;
    if (matrix > b->budget || stack > b->budget / (matrix > 0 ? matrix : 1))
        return hk_fail(b->err, HK_E_RANGE, t->entry_offset,
                       "tensor %.*s is %" PRIu64 " x %" PRIu64
                       ": more weights than a file of %" PRIu64 " bytes can mean",
                       HK_STR(t->name), as->rows, as->cols, hk_file_size(b->plan->file));
    b->budget -= stack * matrix;
    return HK_OK;
}

static bool is_matrix(const struct hk_model_tensor *t)
{
    return t->rows > 0 && !t->numbers;
}

static enum hk_status bind_matrix(struct builder *b, const struct hk_tensor *t,
                                  const struct hk_model_tensor *as)
{
    struct hke_weight *w = &b->plan->weight[b->plan->weights];
    enum hk_status st = spend_weights(b, t, as);
    if (st == HK_OK)
        st = hke_bind_weight(w, b->plan->file, t, 0, as->rows, b->err);
    if (st != HK_OK)
        return st;
    b->plan->weights++;
    b->matrix[as->role] = w;
    return HK_OK;
}

/* Norms and biases are used as f32, which other types are not meant to become. */
static enum hk_status check_vector_type(const struct builder *b, const struct hk_tensor *t)
{
    const struct hk_tensor *target;
    enum hk_status st = hk_tensor_resolve(b->plan->file, t, &target, b->err);
    if (st != HK_OK || target->type == HK_TYPE_F32 || target->type == HK_TYPE_F16 ||
        target->type == HK_TYPE_BF16)
        return st;
    return hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s is %s: a norm or a bias has to be f32, f16 or bf16",
                   HK_STR(t->name), hk_type_info(target->type)->name);
}

static enum hk_status decode_vector(struct builder *b, const struct hk_tensor *t,
                                    const struct hk_model_tensor *as)
{
    const size_t n = (as->rows > 0 ? as->rows : 1) * as->cols;
    struct hk_decoder *d;
    enum hk_status st = check_vector_type(b, t);
    if (st == HK_OK)
        st = spend_weights(b, t, as);
    if (st == HK_OK)
        st = hk_decoder_new(&d, b->plan->file, t, b->err);
    if (st != HK_OK)
        return st;
    float *v = calloc(n, sizeof *v);
    if (v != NULL)
        hk_decoder_read(d, 0, n, v);
    hk_decoder_free(&d);
    if (v == NULL)
        return hk_fail_nomem(b->err);
    b->plan->vector[b->plan->vectors++] = v;
    b->vector[as->role] = v;
    return HK_OK;
}

/* "16 x 8", or "8" of a vector, into TEXT. */
static void print_shape(char text[SHAPE_TEXT], const uint64_t *dim, unsigned ndim)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < ndim && at < SHAPE_TEXT; i++)
        at +=
            (size_t)snprintf(text + at, SHAPE_TEXT - at, "%s%" PRIu64, i > 0 ? " x " : "", dim[i]);
}

static enum hk_status check_tensor_shape(const struct builder *b, const struct hk_tensor *t,
                                         const struct hk_model_tensor *as)
{
    const uint64_t dims[] = {as->experts, as->rows, as->cols};
    const unsigned first = as->rows == 0 ? 2 : as->experts == 0 ? 1 : 0;
    if (t->ndim == 3 - first && memcmp(t->shape, dims + first, t->ndim * sizeof *dims) == 0)
        return HK_OK;
    char is[SHAPE_TEXT], want[SHAPE_TEXT];
    print_shape(is, t->shape, t->ndim);
    print_shape(want, dims + first, 3 - first);
    return hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                   "tensor %.*s is %s, but the model has it %s", HK_STR(t->name), is, want);
}

/* Optional ones may not be there. */
static enum hk_status bind_tensor(struct builder *b, const struct hk_model_tensor *as)
{
    const struct hk_tensor *t = hk_tensor_find(b->plan->file, as->name);
    if (t == NULL)
        return HK_OK;
    enum hk_status st = check_tensor_shape(b, t, as);
    if (st != HK_OK)
        return st;
    b->bound[b->count++] = t;
    return is_matrix(as) ? bind_matrix(b, t, as) : decode_vector(b, t, as);
}

/* The tensors that come next: of LAYER, or those outside of the layers, which come first. */
static void bind_tensors(struct builder *b, bool in_layer, uint32_t layer)
{
    while (b->st == HK_OK && b->more && b->next.in_layer == in_layer && b->next.layer == layer) {
        b->st = bind_tensor(b, &b->next);
        b->more = hk_model_tensor_next(b->params, &b->at, &b->next);
    }
}

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
static void add_caches(struct builder *b)
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

static enum hk_status add_rope(struct builder *b, const struct hk_rope *rope, const float *factors)
{
    const struct hk_model_params *p = b->params;
    struct hke_rope_table *r = &b->plan->rope[b->plan->ropes];
    double *frequency = calloc(p->rope_dims / 2, sizeof *frequency);
    if (frequency == NULL)
        return hk_fail_nomem(b->err);
    hk_rope_frequencies(rope, p->rope_dims, factors, frequency);
    *r = (struct hke_rope_table){frequency, p->rope_dims / 2, rope->magnitude, p->halves};
    b->plan->ropes++;
    return HK_OK;
}

/* That of all layers, and where those with a window turn otherwise, theirs. */
static enum hk_status add_ropes(struct builder *b)
{
    const struct hk_model_params *p = b->params;
    const struct hk_rope own = {.kind = HK_ROPE_NONE, .base = p->window_rope_base, .magnitude = 1};
    enum hk_status st = add_rope(b, &p->rope, b->vector[HK_ROLE_ROPE_FACTORS]);
    if (st != HK_OK || p->window_rope_base == 0 || p->window == 0)
        return st;
    b->window_rope = (int)b->plan->ropes;
    return add_rope(b, &own, NULL);
}

static int rope_of_layer(const struct builder *b, uint32_t layer)
{
    if (!hk_layer_has_rope(b->params, layer))
        return HKE_NO_ROPE;
    return hk_layer_has_window(b->params, layer) ? b->window_rope : 0;
}

/* ---- steps ---- */

static struct hke_step *add_step(struct builder *b, enum hke_step_kind kind, uint32_t layer)
{
    struct hke_step *s = &b->plan->step[b->plan->steps++];
    s->kind = kind;
    s->layer = layer;
    return s;
}

static struct hke_operand *add_operand(const struct builder *b, struct hke_step *s,
                                       enum hk_tensor_role role, enum hke_buffer to)
{
    struct hke_operand *o = &s->operand[s->operands++];
    *o = (struct hke_operand){.weight = b->matrix[role], .to = to, .rope = HKE_NO_ROPE};
    return o;
}

/* That of the weights ROLE, and of the biases BIAS; HK_TENSOR_ROLES: there are none. */
static struct hke_norm norm_of(const struct builder *b, enum hk_tensor_role role,
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
static void add_residual_norm(struct builder *b, struct hke_step *s, bool first,
                              enum hk_tensor_role norm, enum hk_tensor_role bias)
{
    s->in = HKE_RESIDUAL;
    s->add = !first;
    s->delta_norm = b->pending;
    s->norm = norm_of(b, norm, bias);
}

/* The matrix ROLE, with biases, to what is added next, after the norm POST. */
static void add_delta(struct builder *b, struct hke_step *s, enum hk_tensor_role role,
                      enum hk_tensor_role bias, enum hk_tensor_role post)
{
    struct hke_operand *o = add_operand(b, s, role, HKE_DELTA);
    o->bias = bias < HK_TENSOR_ROLES ? b->vector[bias] : NULL;
    o->scale = scale_unless_one(b->params->residual_scale);
    b->pending = norm_of(b, post, HK_TENSOR_ROLES);
}

static void add_heads(const struct builder *b, struct hke_step *s)
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
    k->store = HKE_STORE_KEYS;
    v->store = HKE_STORE_VALUES;
}

static void add_attention(struct builder *b, uint32_t layer)
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
                                                      [HK_ACTIVATION_CLAMPED_SWIGLU] =
                                                          HKE_CLAMPED_SWIGLU};
    return activations[p->activation];
}

static void add_feed_forward(struct builder *b, uint32_t layer)
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

static struct hke_router router_of(const struct hk_model_params *p)
{
    return (struct hke_router){.experts = (size_t)p->experts,
                               .chosen = p->experts_used,
                               .normalise = p->experts_add_up,
                               .scale = 1};
}

/* What is inside it is computed before the experts, whose sum takes the place of its input. */
static void add_shared_expert(struct builder *b, uint32_t layer)
{
    struct hke_step *up = add_step(b, HKE_PRODUCT, layer);
    add_residual_norm(b, up, true, HK_ROLE_FFN_NORM, HK_ROLE_FFN_NORM_BIAS);
    add_operand(b, up, HK_ROLE_FFN_GATE_SHARED, HKE_FFN);
    add_operand(b, up, HK_ROLE_FFN_UP_SHARED, HKE_FFN);
    up->activation = activation_of(b->params);
}

static void add_shared_output(struct builder *b, uint32_t layer)
{
    struct hke_step *down = add_step(b, HKE_PRODUCT, layer);
    down->in = HKE_FFN;
    add_delta(b, down, HK_ROLE_FFN_DOWN_SHARED, HK_TENSOR_ROLES, HK_ROLE_FFN_POST_NORM);
    down->operand[0].adds = true;
    down->operand[0].gated = b->matrix[HK_ROLE_SHARED_GATE] != NULL;
}

static void add_experts(struct builder *b, uint32_t layer)
{
    const struct hke_router router = router_of(b->params);
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

/* Not every layer has all that another one has. */
static void forget_layer(struct builder *b)
{
    for (unsigned role = HK_ROLE_ATTN_NORM; role < HK_TENSOR_ROLES; role++) {
        b->matrix[role] = NULL;
        b->vector[role] = NULL;
    }
}

static void add_steps(struct builder *b)
{
    struct hke_plan *p = b->plan;
    struct hke_step *embed = add_step(b, HKE_EMBED, 0);
    add_operand(b, embed, HK_ROLE_EMBEDDING, HKE_RESIDUAL)->scale =
        scale_unless_one(b->params->embedding_scale);
    for (uint32_t i = 0; i < p->layers && b->st == HK_OK; i++) {
        forget_layer(b);
        bind_tensors(b, true, i);
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

/* ---- what has no place ---- */

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const struct hk_tensor *const *)a;
    uintptr_t y = (uintptr_t) * (const struct hk_tensor *const *)b;
    return (x > y) - (x < y);
}

/* A tensor without a place is a bias or a norm that the architecture does not have, or a part of
 * something else. */
static enum hk_status refuse_unbound(struct builder *b)
{
    const struct hk_file *f = b->plan->file;
    qsort(b->bound, b->count, sizeof(struct hk_tensor *), compare_addresses);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (bsearch(&t, b->bound, b->count, sizeof(struct hk_tensor *), compare_addresses) == NULL)
            return hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s has no place in a %s model", HK_STR(t->name),
                           b->params->architecture);
    }
    return HK_OK;
}

/* ---- the whole ---- */

enum { MODEL_STEPS = 2, LAYER_STEPS = 8 }; /* as add_steps() makes them */

/* Every tensor that has to be there is: so the plan is not much larger than the file's table. */
static enum hk_status count_tensors(const struct builder *b, size_t *matrices, size_t *vectors)
{
    struct hk_model_tensor t;
    *matrices = *vectors = 0;
    for (size_t at = 0; hk_model_tensor_next(b->params, &at, &t);) {
        if (!t.optional && hk_tensor_find(b->plan->file, t.name) == NULL)
            return hk_fail(b->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", t.name);
        *(is_matrix(&t) ? matrices : vectors) += 1;
    }
    return HK_OK;
}

static enum hk_status allocate_plan(struct builder *b)
{
    struct hke_plan *p = b->plan;
    size_t matrices, vectors;
    enum hk_status st = count_tensors(b, &matrices, &vectors);
    if (st != HK_OK)
        return st;
    p->step = calloc(MODEL_STEPS + (size_t)LAYER_STEPS * p->layers, sizeof *p->step);
    p->weight = calloc(matrices, sizeof *p->weight);
    p->vector = calloc(vectors, sizeof *p->vector);
    b->bound = calloc(matrices + vectors, sizeof(struct hk_tensor *));
    return p->step != NULL && p->weight != NULL && p->vector != NULL && b->bound != NULL
               ? HK_OK
               : hk_fail_nomem(b->err);
}

static enum hk_status build_plan(struct builder *b)
{
    b->budget = hk_file_size(b->plan->file) * WEIGHTS_A_BYTE + WEIGHTS_FREE;
    set_sizes(b->plan, b->params);
    add_caches(b);
    b->st = allocate_plan(b);
    b->more = hk_model_tensor_next(b->params, &b->at, &b->next);
    bind_tensors(b, false, 0);
    if (b->st == HK_OK)
        b->st = add_ropes(b);
    if (b->st == HK_OK)
        add_steps(b);
    if (b->st == HK_OK)
        b->st = refuse_unbound(b);
    free(b->bound);
    return b->st;
}

enum hk_status hke_plan_new(struct hke_plan **out, const struct hk_file *f,
                            const struct hk_model_params *p, struct hk_error *err)
{
    struct hke_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return hk_fail_nomem(err);
    plan->file = f;
    struct builder b = {.plan = plan, .params = p, .err = err};
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
    for (size_t i = 0; i < plan->ropes; i++)
        free(plan->rope[i].frequency);
    free(plan->weight);
    free(plan->vector);
    free(plan->step);
    free(plan);
    *p = NULL;
}
