/* The tensors of models: what each is, what GGUF (and .hk) and transformers call it, its shape. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/model/model.h"

enum { NO, QUERIES = HK_ROTATES_QUERIES, KEYS = HK_ROTATES_KEYS };

/* clang-format off */
#define ONCE(role, gguf, hf, needs, without, rows, cols, optional) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, NO, false, optional, false, false, HK_LAYERS_ALL, false}
#define LAYER(role, gguf, hf, needs, without, rows, cols, rotates) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, rotates, true, false, false, false, HK_LAYERS_ALL, false}
#define MAYBE(role, gguf, hf, needs, without, rows, cols, rotates) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, rotates, true, true, false, false, HK_LAYERS_ALL, false}
#define DENSE(role, gguf, hf, needs, without, rows, cols, rotates) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, rotates, true, false, false, false, HK_LAYERS_DENSE, false}
#define SPARSE_LAYER(role, gguf, hf, needs, without, rows, cols, rotates) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, rotates, true, false, false, false, HK_LAYERS_SPARSE, false}
#define ROUTER(role, gguf, hf, needs, without, rows) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_HIDDEN, NO, true, false, false, true, HK_LAYERS_SPARSE, false}
/* A matrix an expert; * in a name stands for the expert's number. */
#define EXPERTS(role, gguf, hf, needs, without, rows, cols) \
    {HK_ROLE_##role, gguf, hf, needs, without, HK_EXTENT_##rows, HK_EXTENT_##cols, NO, true, false, true, false, HK_LAYERS_SPARSE, false}
#define NUMBERS(role, gguf, hf, needs, rows, cols) \
    {HK_ROLE_##role, gguf, hf, needs, 0, HK_EXTENT_##rows, HK_EXTENT_##cols, NO, true, false, false, true, HK_LAYERS_SPARSE, true}

enum {
    BIAS = HK_HAS_QKV_BIAS,
    NORM = HK_HAS_QK_NORM,
    WIDE = HK_HAS_WIDE_QK_NORM,
    POST = HK_HAS_POST_NORMS,
    ALL_BIASES = HK_HAS_ALL_BIASES,
    NORM_BIASES = HK_HAS_NORM_BIASES,
    MAY_BIAS = HK_MAY_HAVE_QKV_BIAS,
    FC = HK_HAS_FULLY_CONNECTED,
    QKV = HK_HAS_FUSED_QKV,
    FUSED = HK_HAS_FUSED_GATE,
    AFTER = HK_HAS_LAYER_POST_NORMS,
    LONGROPE = HK_MAY_HAVE_LONGROPE,
    NO_PRE = HK_HAS_NO_PRE_NORMS,
    EXP = HK_HAS_EXPERTS,
    OTHER_GATE = HK_HAS_NO_GATE | HK_HAS_FUSED_GATE,
    OTHER_UP = HK_HAS_FULLY_CONNECTED | HK_HAS_FUSED_GATE,
    OTHER_DOWN = HK_HAS_FULLY_CONNECTED,
    SPARSE_NAMES = HK_HAS_SPARSE_MOE,
    SPARSE = HK_HAS_EXPERTS | HK_HAS_SPARSE_MOE,
    SHARED = HK_HAS_SHARED_EXPERT,
    SHARED_GATE = HK_HAS_SHARED_GATE,
    GATED = HK_HAS_SHARED_EXPERT | HK_HAS_SHARED_GATE,
    CHOICE = HK_HAS_CHOICE_BIAS,
    BY_POST = HK_HAS_FFN_NORM_BY_POST,
    SINKS = HK_HAS_SINKS,
    EXP_BIASES = HK_HAS_EXPERT_BIASES,
    OTHER_ROUTER = HK_HAS_SPARSE_MOE | HK_HAS_EXPERT_BIASES,
    OTHER_FFN_NORM = HK_HAS_POST_NORMS | HK_HAS_FFN_NORM_BY_POST,
};

static const struct hk_tensor_row tensor_rows[] = {
    /*    role              GGUF                          transformers                        needs       without  rows     cols    optional */
    ONCE(EMBEDDING,        "token_embd.weight",          "model.embed_tokens.weight",        0,          0,       VOCAB,   HIDDEN, false),
    ONCE(OUTPUT_NORM,      "output_norm.weight",         "model.norm.weight",                0,          0,       ONE,     HIDDEN, false),
    ONCE(OUTPUT_NORM_BIAS, "output_norm.bias",           "model.norm.bias",                  NORM_BIASES, 0,       ONE,     HIDDEN, false),
    ONCE(OUTPUT,           "output.weight",              "lm_head.weight",                   0,          0,       VOCAB,   HIDDEN, true),
    ONCE(ROPE_FACTORS,     "rope_freqs.weight",          NULL,                               0,          0,       ONE,     PAIRS,  true),
    ONCE(ROPE_SHORT,       "rope_factors_short.weight",  NULL,                               LONGROPE,   0,       ONE,     PAIRS,  true),
    ONCE(ROPE_LONG,        "rope_factors_long.weight",   NULL,                               LONGROPE,   0,       ONE,     PAIRS,  true),
    /*    role              GGUF                          transformers                        needs       without  rows     cols    rotates */
    LAYER(ATTN_NORM,       "attn_norm.weight",           "input_layernorm.weight",           0,          NO_PRE,  ONE,     HIDDEN, NO),
    LAYER(ATTN_NORM_BIAS,  "attn_norm.bias",             "input_layernorm.bias",             NORM_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(Q,               "attn_q.weight",              "self_attn.q_proj.weight",          0,          QKV,       QUERIES, HIDDEN, QUERIES),
    LAYER(K,               "attn_k.weight",              "self_attn.k_proj.weight",          0,          QKV,       KEYS,    HIDDEN, KEYS),
    LAYER(V,               "attn_v.weight",              "self_attn.v_proj.weight",          0,          QKV,       VALUES,  HIDDEN, NO),
    LAYER(QKV,             "attn_qkv.weight",            "self_attn.qkv_proj.weight",        QKV,        0,       QKV,     HIDDEN, NO),
    LAYER(ATTN_OUTPUT,     "attn_output.weight",         "self_attn.o_proj.weight",          0,          0,       HIDDEN,  MIXED,  NO),
    LAYER(Q_BIAS,          "attn_q.bias",                "self_attn.q_proj.bias",            BIAS,       0,       ONE,     QUERIES, QUERIES),
    LAYER(K_BIAS,          "attn_k.bias",                "self_attn.k_proj.bias",            BIAS,       0,       ONE,     KEYS,   KEYS),
    LAYER(V_BIAS,          "attn_v.bias",                "self_attn.v_proj.bias",            BIAS,       0,       ONE,     VALUES, NO),
    MAYBE(Q_BIAS,          "attn_q.bias",                "self_attn.q_proj.bias",            MAY_BIAS,   0,       ONE,     QUERIES, QUERIES),
    MAYBE(K_BIAS,          "attn_k.bias",                "self_attn.k_proj.bias",            MAY_BIAS,   0,       ONE,     KEYS,   KEYS),
    MAYBE(V_BIAS,          "attn_v.bias",                "self_attn.v_proj.bias",            MAY_BIAS,   0,       ONE,     VALUES, NO),
    LAYER(ATTN_OUTPUT_BIAS, "attn_output.bias",          "self_attn.o_proj.bias",            ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(ATTN_OUTPUT_BIAS, "attn_output.bias",          "self_attn.o_proj.bias",            EXP_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(SINKS,           "attn_sinks.weight",          "self_attn.sinks",                  SINKS,      0,       ONE,     HEADS,  NO),
    LAYER(Q_NORM,          "attn_q_norm.weight",         "self_attn.q_norm.weight",          NORM,       0,       ONE,     HEAD,   NO),
    LAYER(K_NORM,          "attn_k_norm.weight",         "self_attn.k_norm.weight",          NORM,       0,       ONE,     HEAD,   NO),
    MAYBE(Q_NORM,       "attn_q_norm.weight",         "self_attn.q_norm.weight",          HK_MAY_HAVE_QK_NORM, 0, ONE, HEAD, NO),
    MAYBE(K_NORM,       "attn_k_norm.weight",         "self_attn.k_norm.weight",          HK_MAY_HAVE_QK_NORM, 0, ONE, HEAD, NO),
    LAYER(Q_WIDE_NORM,     "attn_q_norm.weight",         "self_attn.q_norm.weight",          WIDE,       0,       ONE,     QUERIES, NO),
    LAYER(K_WIDE_NORM,     "attn_k_norm.weight",         "self_attn.k_norm.weight",          WIDE,       0,       ONE,     KEYS,   NO),
    LAYER(ATTN_POST_NORM,  "post_attention_norm.weight", "post_attention_layernorm.weight",  POST,       0,       ONE,     HIDDEN, NO),
    LAYER(ATTN_POST_NORM,  "post_attention_norm.weight", "post_self_attn_layernorm.weight",  AFTER,      0,       ONE,     HIDDEN, NO),
    LAYER(FFN_NORM,        "ffn_norm.weight",            "post_attention_layernorm.weight",  0,          OTHER_FFN_NORM, ONE, HIDDEN, NO),
    LAYER(FFN_NORM,        "post_attention_norm.weight", "post_attention_layernorm.weight",  BY_POST, 0,       ONE,     HIDDEN, NO),
    LAYER(FFN_NORM,        "ffn_norm.weight",            "pre_feedforward_layernorm.weight", POST,       NO_PRE,  ONE,     HIDDEN, NO),
    LAYER(FFN_NORM_BIAS,   "ffn_norm.bias",              "post_attention_layernorm.bias",    NORM_BIASES, 0,       ONE,     HIDDEN, NO),
    DENSE(FFN_GATE,        "ffn_gate.weight",            "mlp.gate_proj.weight",             0,          OTHER_GATE, FFN,     HIDDEN, NO),
    DENSE(FFN_UP,          "ffn_up.weight",              "mlp.up_proj.weight",               0,          OTHER_UP, FFN,     HIDDEN, NO),
    DENSE(FFN_UP,          "ffn_up.weight",              "mlp.c_fc.weight",                  FC,    0,       FFN,     HIDDEN, NO),
    DENSE(FFN_UP_BIAS,     "ffn_up.bias",                "mlp.c_fc.bias",                    ALL_BIASES, 0,       ONE,     FFN,    NO),
    DENSE(FFN_DOWN,        "ffn_down.weight",            "mlp.down_proj.weight",             0,          OTHER_DOWN, HIDDEN,  FFN,    NO),
    DENSE(FFN_DOWN,        "ffn_down.weight",            "mlp.c_proj.weight",                FC,    0,       HIDDEN,  FFN,    NO),
    DENSE(FFN_DOWN_BIAS,   "ffn_down.bias",              "mlp.c_proj.bias",                  ALL_BIASES, 0,       ONE,     HIDDEN, NO),
    LAYER(FFN_POST_NORM,   "post_ffw_norm.weight",       "post_feedforward_layernorm.weight", POST,      0,       ONE,     HIDDEN, NO),
    LAYER(FFN_POST_NORM,   "post_ffw_norm.weight",       "post_mlp_layernorm.weight",        AFTER,      0,       ONE,     HIDDEN, NO),
    DENSE(FFN_GATE_UP,     "ffn_up.weight",              "mlp.gate_up_proj.weight",          FUSED,      0,       TWO_FFN, HIDDEN, NO),
    ROUTER(ROUTER,         "ffn_gate_inp.weight",        "mlp.gate.weight",                  EXP,        OTHER_ROUTER, EXPERTS),
    ROUTER(ROUTER,         "ffn_gate_inp.weight",        "mlp.router.weight",                EXP_BIASES, 0,       EXPERTS),
    ROUTER(ROUTER,         "ffn_gate_inp.weight",        "block_sparse_moe.gate.weight",     SPARSE,     0,       EXPERTS),
    ROUTER(SHARED_GATE,    "ffn_gate_inp_shexp.weight",  "mlp.shared_expert_gate.weight",    GATED,      0,       SINGLE),
    SPARSE_LAYER(CHOICE_BIAS, "exp_probs_b.bias",        "mlp.gate.e_score_correction_bias", CHOICE,     0,       ONE,     EXPERTS, NO),
    EXPERTS(FFN_GATE_EXPERTS, "ffn_gate_exps.weight",    "mlp.experts.*.gate_proj.weight",   EXP,        OTHER_ROUTER, EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_UP_EXPERTS, "ffn_up_exps.weight",        "mlp.experts.*.up_proj.weight",     EXP,        OTHER_ROUTER, EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_DOWN_EXPERTS, "ffn_down_exps.weight",    "mlp.experts.*.down_proj.weight",   EXP,        OTHER_ROUTER, HIDDEN, EXPERT_FFN),
    EXPERTS(FFN_GATE_EXPERTS, "ffn_gate_exps.weight",    "block_sparse_moe.experts.*.w1.weight", SPARSE, 0,       EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_UP_EXPERTS, "ffn_up_exps.weight",        "block_sparse_moe.experts.*.w3.weight", SPARSE, 0,       EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_DOWN_EXPERTS, "ffn_down_exps.weight",    "block_sparse_moe.experts.*.w2.weight", SPARSE, 0,       HIDDEN, EXPERT_FFN),
    SPARSE_LAYER(FFN_GATE_SHARED, "ffn_gate_shexp.weight",      "mlp.shared_expert.gate_proj.weight", GATED,    0,       SHARED_FFN, HIDDEN, NO),
    SPARSE_LAYER(FFN_GATE_SHARED, "ffn_gate_shexp.weight",      "mlp.shared_experts.gate_proj.weight", SHARED, SHARED_GATE,       SHARED_FFN, HIDDEN, NO),
    SPARSE_LAYER(FFN_UP_SHARED,   "ffn_up_shexp.weight",        "mlp.shared_expert.up_proj.weight", GATED,      0,       SHARED_FFN, HIDDEN, NO),
    SPARSE_LAYER(FFN_UP_SHARED,   "ffn_up_shexp.weight",        "mlp.shared_experts.up_proj.weight", SHARED, SHARED_GATE,       SHARED_FFN, HIDDEN, NO),
    SPARSE_LAYER(FFN_DOWN_SHARED, "ffn_down_shexp.weight",      "mlp.shared_expert.down_proj.weight", GATED,    0,       HIDDEN, SHARED_FFN, NO),
    SPARSE_LAYER(FFN_DOWN_SHARED, "ffn_down_shexp.weight",      "mlp.shared_experts.down_proj.weight", SHARED, SHARED_GATE,       HIDDEN, SHARED_FFN, NO),
    EXPERTS(FFN_GATE_EXPERTS, "ffn_gate_exps.weight",    NULL,                               EXP_BIASES, 0,       EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_UP_EXPERTS, "ffn_up_exps.weight",        NULL,                               EXP_BIASES, 0,       EXPERT_FFN, HIDDEN),
    EXPERTS(FFN_DOWN_EXPERTS, "ffn_down_exps.weight",    NULL,                               EXP_BIASES, 0,       HIDDEN, EXPERT_FFN),
    SPARSE_LAYER(ROUTER_BIAS,     "ffn_gate_inp.bias",          "mlp.router.bias",                  EXP_BIASES, 0,       ONE,     EXPERTS, NO),
    NUMBERS(FFN_GATE_EXPERTS_BIAS, "ffn_gate_exps.bias", NULL,                               EXP_BIASES, EXPERTS, EXPERT_FFN),
    NUMBERS(FFN_UP_EXPERTS_BIAS, "ffn_up_exps.bias",     NULL,                               EXP_BIASES, EXPERTS, EXPERT_FFN),
    NUMBERS(FFN_DOWN_EXPERTS_BIAS, "ffn_down_exps.bias", "mlp.experts.down_proj_bias",       EXP_BIASES, EXPERTS, HIDDEN),
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

/* "PREFIX12.REST", whose prefix is the N bytes at PREFIX, becomes REST and 12. One spelling a
 * number: no zeros in front. */
static bool take_numbered(struct hk_bytes *name, const char *prefix, size_t n, uint32_t *number)
{
    size_t at = n;
    if (name->n <= at || memcmp(name->p, prefix, n) != 0)
        return false;
    uint32_t v = 0;
    for (; at < name->n && at - n < 9 && name->p[at] >= '0' && name->p[at] <= '9'; at++)
        v = v * 10 + (uint32_t)(name->p[at] - '0');
    if (at == n || at == name->n || name->p[at] != '.' || (name->p[n] == '0' && at > n + 1))
        return false;
    *number = v;
    *name = (struct hk_bytes){name->p + at + 1, name->n - at - 1};
    return true;
}

/* Whether NAME is what OWN says, which may have a * in the place of an expert's number. */
static bool is_named_as(struct hk_bytes name, const char *own, uint32_t *expert)
{
    const char *star = own != NULL ? strchr(own, '*') : NULL;
    if (star == NULL)
        return own != NULL && hk_bytes_are(name, own);
    return take_numbered(&name, own, (size_t)(star - own), expert) && hk_bytes_are(name, star + 2);
}

/* Where NAME belongs, layer and expert 0 where it is in none; false: no tensor of FAMILY (NULL: of
 * any) has that name. */
static bool find_tensor_place(const struct hk_family *family, struct hk_bytes name, bool gguf,
                              struct hk_tensor_place *out)
{
    const char *prefix = layer_prefix(gguf);
    struct hk_tensor_place place = {0};
    const bool inner = take_numbered(&name, prefix, strlen(prefix), &place.layer);
    for (size_t i = 0; i < TENSOR_ROWS; i++) {
        const char *own = gguf ? tensor_rows[i].gguf : tensor_rows[i].hf;
        if (tensor_rows[i].layer == inner && is_named_as(name, own, &place.expert) &&
            (family == NULL || hk_tensor_row_is_of(&tensor_rows[i], family))) {
            place.row = &tensor_rows[i];
            *out = place;
            return true;
        }
    }
    return false;
}

bool hk_tensor_row_by_expert(const struct hk_tensor_row *row)
{
    return row->hf != NULL && strchr(row->hf, '*') != NULL;
}

enum hk_status hk_tensor_place_find(const struct hk_family *family, uint32_t layers,
                                    struct hk_bytes name, bool gguf, struct hk_tensor_place *out,
                                    struct hk_error *err)
{
    struct hk_tensor_place place;
    if (!find_tensor_place(family, name, gguf, &place) || place.layer >= layers ||
        place.row->hf == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s has no place in a %s model of %u layers", HK_STR(name),
                       family->model_type, layers);
    *out = place;
    return HK_OK;
}

void hk_tensor_place_name(const struct hk_tensor_place *place, bool gguf, char *out)
{
    char name[HK_MAX_NAME + 1];
    hk_tensor_row_name(place->row, place->layer, gguf, name);
    const char *star = strchr(name, '*');
    if (star == NULL)
        snprintf(out, HK_MAX_NAME + 1, "%s", name);
    else
        snprintf(out, HK_MAX_NAME + 1, "%.*s%u%s", (int)(star - name), name, place->expert,
                 star + 1);
}

static enum hk_status translate_tensor_name(const struct hk_family *family, uint32_t layers,
                                            struct hk_bytes name, bool gguf, char *out,
                                            struct hk_error *err)
{
    struct hk_tensor_place place;
    enum hk_status st = hk_tensor_place_find(family, layers, name, gguf, &place, err);
    if (st == HK_OK && hk_tensor_row_by_expert(place.row))
        st = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                     "tensor %.*s: the matrix of one expert is not a tensor of its own",
                     HK_STR(name));
    if (st == HK_OK)
        hk_tensor_row_name(place.row, place.layer, !gguf, out);
    return st;
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
    struct hk_tensor_place place;
    const bool found = find_tensor_place(p->family, gguf, true, &place) ||
                       find_tensor_place(NULL, gguf, true, &place); /* what it has too much */
    if (!found || place.row->rotates == HK_ROTATES_NOT)
        return 0;
    return place.row->rotates == HK_ROTATES_KEYS ? p->kv_heads : p->heads;
}

bool hk_tensor_is_wide_in_gguf(struct hk_bytes gguf)
{
    struct hk_tensor_place place;
    return find_tensor_place(NULL, gguf, true, &place) && place.row->wide_in_gguf;
}

bool hk_is_of_next_layers(const struct hk_model_params *p, struct hk_bytes name)
{
    const char *prefix = layer_prefix(true);
    uint32_t layer = 0;
    return take_numbered(&name, prefix, strlen(prefix), &layer) && layer >= p->layers &&
           layer - p->layers < p->next_layers;
}

bool hk_is_of_next_layers_in_hf(uint32_t layers, uint32_t next, struct hk_bytes name)
{
    const char *prefix = layer_prefix(false);
    uint32_t layer = 0;
    return take_numbered(&name, prefix, strlen(prefix), &layer) && layer >= layers &&
           layer - layers < next;
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
    case HK_EXTENT_QKV:
        return (uint64_t)p->heads * p->key_dim +
               (uint64_t)p->kv_heads * (p->key_dim + p->value_dim);
    case HK_EXTENT_TWO_FFN:
        return 2 * (uint64_t)p->ffn;
    case HK_EXTENT_EXPERTS:
        return (uint64_t)p->experts;
    case HK_EXTENT_EXPERT_FFN:
        return p->expert_ffn;
    case HK_EXTENT_SHARED_FFN:
        return p->shared_ffn;
    case HK_EXTENT_HEADS:
        return p->heads;
    case HK_EXTENT_SINGLE:
        return 1;
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

static bool is_among(const struct hk_tensor_row *row, const struct hk_model_params *p,
                     uint32_t layer)
{
    return row->among == HK_LAYERS_ALL ||
           (row->among == HK_LAYERS_SPARSE) == hk_layer_has_experts(p, layer);
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
        if (!hk_tensor_row_is_of(row, p->family) || !is_among(row, p, (uint32_t)layer))
            continue;
        *out = (struct hk_model_tensor){.role = row->role,
                                        .layer = (uint32_t)layer,
                                        .in_layer = in_layer,
                                        .optional = row->optional,
                                        .numbers = row->numbers,
                                        .experts = row->experts ? (uint64_t)p->experts : 0,
                                        .rows = hk_extent_of(p, row->rows),
                                        .cols = hk_extent_of(p, row->cols)};
        hk_tensor_row_name(row, (uint32_t)layer, true, out->name);
        ++*at;
        return true;
    }
}

bool hk_has_shape_of(const struct hk_tensor *t, const struct hk_model_tensor *wanted)
{
    const uint64_t all[] = {wanted->experts, wanted->rows, wanted->cols};
    const unsigned first = wanted->rows == 0 ? 2 : wanted->experts == 0 ? 1 : 0;
    bool same = t->ndim == 3 - first;
    for (unsigned i = first; same && i < 3; i++)
        same = t->shape[i - first] == all[i];
    return same;
}

/* ---- one matrix for embedding and output ---- */

bool hk_tensors_are_equal(const struct hk_file *f, const struct hk_tensor *a,
                          const struct hk_tensor *b)
{
    return a->part != HK_NO_PART && b->part != HK_NO_PART && a->type == b->type &&
           a->layout == b->layout && a->sparsity == b->sparsity && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
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
