/* The tensors of models: what each is, what GGUF (and .hk) and transformers call it, its shape. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/model/model.h"

enum { NO, QUERIES = HK_ROTATES_QUERIES, KEYS = HK_ROTATES_KEYS };

/* clang-format off */
#define ONCE(role, gguf, hf, needs, without, rows, cols, optional) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, NO, false, optional}
#define LAYER(role, gguf, hf, needs, without, rows, cols, rotates) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, rotates, true, false}

enum {
    BIAS = HK_HAS_QKV_BIAS,
    NORM = HK_HAS_QK_NORM,
    WIDE = HK_HAS_WIDE_QK_NORM,
    POST = HK_HAS_POST_NORMS,
    ALL_BIASES = HK_HAS_ALL_BIASES,
    NO_PRE = HK_HAS_NO_PRE_NORMS,
    NO_GATE = HK_HAS_NO_GATE,
};

static const struct hk_tensor_row tensor_rows[] = {
    /*    role              GGUF                          transformers                        needs       without  rows     cols    optional */
    ONCE(EMBEDDING,        "token_embd.weight",          "model.embed_tokens.weight",        0,          0,       VOCAB,   HIDDEN, false),
    ONCE(OUTPUT_NORM,      "output_norm.weight",         "model.norm.weight",                0,          0,       ONE,     HIDDEN, false),
    ONCE(OUTPUT_NORM_BIAS, "output_norm.bias",           "model.norm.bias",                  ALL_BIASES, 0,       ONE,     HIDDEN, false),
    ONCE(OUTPUT,           "output.weight",              "lm_head.weight",                   0,          0,       VOCAB,   HIDDEN, true),
    ONCE(ROPE_FACTORS,     "rope_freqs.weight",          NULL,                               0,          0,       ONE,     PAIRS,  true),
    /*    role              GGUF                          transformers                        needs       without  rows     cols    rotates */
    LAYER(ATTN_NORM,       "attn_norm.weight",           "input_layernorm.weight",           0,          NO_PRE,  ONE,     HIDDEN, NO),
    LAYER(ATTN_NORM_BIAS,  "attn_norm.bias",             "input_layernorm.bias",             ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(Q,               "attn_q.weight",              "self_attn.q_proj.weight",          0,          0,       QUERIES, HIDDEN, QUERIES),
    LAYER(K,               "attn_k.weight",              "self_attn.k_proj.weight",          0,          0,       KEYS,    HIDDEN, KEYS),
    LAYER(V,               "attn_v.weight",              "self_attn.v_proj.weight",          0,          0,       VALUES,  HIDDEN, NO),
    LAYER(ATTN_OUTPUT,     "attn_output.weight",         "self_attn.o_proj.weight",          0,          0,       HIDDEN,  MIXED,  NO),
    LAYER(Q_BIAS,          "attn_q.bias",                "self_attn.q_proj.bias",            BIAS,       0,       ONE,     QUERIES, QUERIES),
    LAYER(K_BIAS,          "attn_k.bias",                "self_attn.k_proj.bias",            BIAS,       0,       ONE,     KEYS,   KEYS),
    LAYER(V_BIAS,          "attn_v.bias",                "self_attn.v_proj.bias",            BIAS,       0,       ONE,     VALUES, NO),
    LAYER(ATTN_OUTPUT_BIAS, "attn_output.bias",          "self_attn.o_proj.bias",            ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(Q_NORM,          "attn_q_norm.weight",         "self_attn.q_norm.weight",          NORM,       0,       ONE,     HEAD,   NO),
    LAYER(K_NORM,          "attn_k_norm.weight",         "self_attn.k_norm.weight",          NORM,       0,       ONE,     HEAD,   NO),
    LAYER(Q_WIDE_NORM,     "attn_q_norm.weight",         "self_attn.q_norm.weight",          WIDE,       0,       ONE,     QUERIES, NO),
    LAYER(K_WIDE_NORM,     "attn_k_norm.weight",         "self_attn.k_norm.weight",          WIDE,       0,       ONE,     KEYS,   NO),
    LAYER(ATTN_POST_NORM,  "post_attention_norm.weight", "post_attention_layernorm.weight",  POST,       0,       ONE,     HIDDEN, NO),
    LAYER(FFN_NORM,        "ffn_norm.weight",            "post_attention_layernorm.weight",  0,          POST,    ONE,     HIDDEN, NO),
    LAYER(FFN_NORM,        "ffn_norm.weight",            "pre_feedforward_layernorm.weight", POST,       NO_PRE,  ONE,     HIDDEN, NO),
    LAYER(FFN_NORM_BIAS,   "ffn_norm.bias",              "post_attention_layernorm.bias",    ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(FFN_GATE,        "ffn_gate.weight",            "mlp.gate_proj.weight",             0,          NO_GATE, FFN,     HIDDEN, NO),
    LAYER(FFN_UP,          "ffn_up.weight",              "mlp.up_proj.weight",               0,          NO_GATE, FFN,     HIDDEN, NO),
    LAYER(FFN_UP,          "ffn_up.weight",              "mlp.c_fc.weight",                  NO_GATE,    0,       FFN,     HIDDEN, NO),
    LAYER(FFN_UP_BIAS,     "ffn_up.bias",                "mlp.c_fc.bias",                    ALL_BIASES, 0,       ONE,     FFN,    NO),
    LAYER(FFN_DOWN,        "ffn_down.weight",            "mlp.down_proj.weight",             0,          NO_GATE, HIDDEN,  FFN,    NO),
    LAYER(FFN_DOWN,        "ffn_down.weight",            "mlp.c_proj.weight",                NO_GATE,    0,       HIDDEN,  FFN,    NO),
    LAYER(FFN_DOWN_BIAS,   "ffn_down.bias",              "mlp.c_proj.bias",                  ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(FFN_POST_NORM,   "post_ffw_norm.weight",       "post_feedforward_layernorm.weight", POST,      0,       ONE,     HIDDEN, NO),
};
/* clang-format on */

enum { TENSOR_ROWS = sizeof tensor_rows / sizeof *tensor_rows };

const struct hk_tensor_row *hk_tensor_row(size_t i)
{
    return i < TENSOR_ROWS ? &tensor_rows[i] : NULL;
}

bool hk_tensor_row_is_of(const struct hk_tensor_row *row, const struct hk_family *family)
{
    return (row->needs & ~family->tensors) == 0 && (row->without & family->tensors) == 0;
}

/* ---- names ---- */

static const char *layer_prefix(bool gguf)
{
    return gguf ? "blk." : "model.layers.";
}

void hk_tensor_row_name(const struct hk_tensor_row *row, uint32_t layer, bool gguf, char *out)
{
    const char *name = gguf ? row->gguf : row->hf;
    if (row->layer)
        snprintf(out, HK_MAX_NAME + 1, "%s%u.%s", layer_prefix(gguf), layer, name);
    else
        snprintf(out, HK_MAX_NAME + 1, "%s", name);
}

static const struct hk_tensor_row *row_of_role(enum hk_tensor_role role)
{
    size_t i = 0;
    while (tensor_rows[i].role != role)
        i++;
    return &tensor_rows[i];
}

const char *hk_tensor_role_name(enum hk_tensor_role role)
{
    return row_of_role(role)->gguf;
}

const char *hk_tensor_role_name_in_hf(enum hk_tensor_role role)
{
    return row_of_role(role)->hf;
}

/* "PREFIX12.REST" becomes REST and 12. One spelling a number: no zeros in front. */
static bool take_layer(struct hk_bytes *name, const char *prefix, uint32_t *layer)
{
    size_t at = strlen(prefix);
    if (name->n <= at || memcmp(name->p, prefix, at) != 0)
        return false;
    const size_t first = at;
    uint32_t n = 0;
    for (; at < name->n && at - first < 9 && name->p[at] >= '0' && name->p[at] <= '9'; at++)
        n = n * 10 + (uint32_t)(name->p[at] - '0');
    if (at == first || at == name->n || name->p[at] != '.' ||
        (name->p[first] == '0' && at > first + 1))
        return false;
    *layer = n;
    *name = (struct hk_bytes){name->p + at + 1, name->n - at - 1};
    return true;
}

/* The row of NAME and its layer, 0 where it is in none; NULL: no tensor of FAMILY (NULL: of
 * any) has that name. */
static const struct hk_tensor_row *find_tensor_row(const struct hk_family *family,
                                                   struct hk_bytes name, bool gguf, uint32_t *layer)
{
    *layer = 0;
    const bool inner = take_layer(&name, layer_prefix(gguf), layer);
    for (size_t i = 0; i < TENSOR_ROWS; i++) {
        const char *own = gguf ? tensor_rows[i].gguf : tensor_rows[i].hf;
        if (tensor_rows[i].layer == inner && own != NULL && hk_bytes_are(name, own) &&
            (family == NULL || hk_tensor_row_is_of(&tensor_rows[i], family)))
            return &tensor_rows[i];
    }
    return NULL;
}

static enum hk_status translate_tensor_name(const struct hk_family *family, uint32_t layers,
                                            struct hk_bytes name, bool gguf, char *out,
                                            struct hk_error *err)
{
    uint32_t layer;
    const struct hk_tensor_row *row = find_tensor_row(family, name, gguf, &layer);
    if (row == NULL || layer >= layers || row->hf == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s has no place in a %s model of %u layers", HK_STR(name),
                       family->model_type, layers);
    hk_tensor_row_name(row, layer, !gguf, out);
    return HK_OK;
}

enum hk_status hk_name_from_hf(const struct hk_family *family, uint32_t layers, struct hk_bytes hf,
                               char *out, struct hk_error *err)
{
    return translate_tensor_name(family, layers, hf, false, out, err);
}

enum hk_status hk_name_to_hf(const struct hk_family *family, uint32_t layers, struct hk_bytes gguf,
                             char *out, struct hk_error *err)
{
    return translate_tensor_name(family, layers, gguf, true, out, err);
}

uint32_t hk_rotating_heads(const struct hk_model_params *p, struct hk_bytes gguf)
{
    uint32_t layer;
    const struct hk_tensor_row *row = find_tensor_row(p->family, gguf, true, &layer);
    if (row == NULL || row->rotates == HK_ROTATES_NOT)
        return 0;
    return row->rotates == HK_ROTATES_KEYS ? p->kv_heads : p->heads;
}

/* ---- shapes ---- */

uint64_t hk_extent_of(const struct hk_model_params *p, enum hk_extent extent)
{
    switch (extent) {
    case HK_EXTENT_HIDDEN:
        return p->hidden;
    case HK_EXTENT_FFN:
        return p->ffn;
    case HK_EXTENT_VOCAB:
        return p->vocab;
    case HK_EXTENT_QUERIES:
        return (uint64_t)p->heads * p->key_dim;
    case HK_EXTENT_KEYS:
        return (uint64_t)p->kv_heads * p->key_dim;
    case HK_EXTENT_VALUES:
        return (uint64_t)p->kv_heads * p->value_dim;
    case HK_EXTENT_MIXED:
        return (uint64_t)p->heads * p->value_dim;
    case HK_EXTENT_HEAD:
        return p->key_dim;
    case HK_EXTENT_PAIRS:
        return p->rope_dims / 2;
    case HK_EXTENT_ONE:
        break;
    }
    return 0;
}

static size_t count_rows_outside(void)
{
    size_t n = 0;
    while (n < TENSOR_ROWS && !tensor_rows[n].layer)
        n++;
    return n;
}

bool hk_model_tensor_next(const struct hk_model_params *p, size_t *at, struct hk_model_tensor *out)
{
    const size_t outside = count_rows_outside(), inside = TENSOR_ROWS - outside;
    for (;; ++*at) {
        const bool in_layer = *at >= outside;
        const size_t row_at = in_layer ? outside + (*at - outside) % inside : *at;
        const size_t layer = in_layer ? (*at - outside) / inside : 0;
        const struct hk_tensor_row *row = &tensor_rows[row_at];
        if (in_layer && layer >= p->layers)
            return false;
        if (!hk_tensor_row_is_of(row, p->family))
            continue;
        *out = (struct hk_model_tensor){.role = row->role,
                                        .layer = (uint32_t)layer,
                                        .in_layer = in_layer,
                                        .optional = row->optional,
                                        .rows = hk_extent_of(p, row->rows),
                                        .cols = hk_extent_of(p, row->cols)};
        hk_tensor_row_name(row, (uint32_t)layer, true, out->name);
        ++*at;
        return true;
    }
}

bool hk_has_shape_of(const struct hk_tensor *t, const struct hk_model_tensor *wanted)
{
    return wanted->rows == 0
               ? t->ndim == 1 && t->shape[0] == wanted->cols
               : t->ndim == 2 && t->shape[0] == wanted->rows && t->shape[1] == wanted->cols;
}

/* ---- one matrix for embedding and output ---- */

bool hk_tensors_are_equal(const struct hk_file *f, const struct hk_tensor *a,
                          const struct hk_tensor *b)
{
    return a->type == b->type && a->layout == b->layout && a->sparsity == b->sparsity &&
           a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           hk_bytes_equal(hk_tensor_data(f, a), hk_tensor_data(f, b)) &&
           hk_bytes_equal(hk_tensor_scales(f, a), hk_tensor_scales(f, b)) &&
           hk_bytes_equal(hk_tensor_residual(f, a), hk_tensor_residual(f, b));
}

enum hk_status hk_output_is_tied(const struct hk_file *f, bool also_equal, bool *tied,
                                 struct hk_error *err)
{
    const struct hk_tensor *output = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_OUTPUT));
    const struct hk_tensor *embedding = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_EMBEDDING));
    enum hk_status st = HK_OK;
    if (output == NULL || embedding == NULL) {
        *tied = output == NULL;
        return HK_OK;
    }
    st = hk_tensor_resolve(f, output, &output, err);
    if (st == HK_OK)
        st = hk_tensor_resolve(f, embedding, &embedding, err);
    if (st == HK_OK)
        *tied = output == embedding || (also_equal && hk_tensors_are_equal(f, output, embedding));
    return st;
}
