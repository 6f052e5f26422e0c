/* config.json: what it must say, what it may leave out, and what is refused because it would make
 * other numbers.
 *
 * Required: model_type, architectures, hidden_size, intermediate_size, num_hidden_layers,
 * num_attention_heads, max_position_embeddings, vocab_size. Where the others are absent or null,
 * what holds is the default of the model's class (model/families.c), which is that of all the
 * library's versions, and else rope_theta 10000, biases false, no sliding window.
 * num_key_value_heads and head_dim then follow from num_attention_heads or are the class's, which
 * the tensors' shapes confirm or refute. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"

/* ---- family ---- */

static void check_class(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    hk_hf_need(in, c->json, "architectures");
    const json_t *classes = hk_hf_field(c->json, "architectures");
    const json_t *name = json_array_get(classes, 0);
    if (in->st != HK_OK)
        return;
    if (json_array_size(classes) == 1 && json_is_string(name) &&
        strcmp(json_string_value(name), c->family->class_name) == 0)
        return;
    char why[80];
    snprintf(why, sizeof why, "not the [\"%s\"] that model_type has", c->family->class_name);
    hk_hf_refuse(in, HK_E_UNSUPPORTED, "architectures", classes, why);
}

static void read_config_family(struct hk_hf_in *in, struct hk_hf_config *c)
{
    struct hk_bytes type = {0};
    hk_hf_need(in, c->json, "model_type");
    hk_hf_text(in, c->json, "model_type", &type);
    if (in->st != HK_OK)
        return;
    c->family = hk_family_of_type(type);
    if (c->family == NULL) {
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "model_type", hk_hf_field(c->json, "model_type"),
                     "not supported");
        return;
    }
    if (c->family->only_gguf)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "model_type", hk_hf_field(c->json, "model_type"),
                     "read from GGUF files only");
    in->arch = c->family->architecture;
    check_class(in, c);
}

/* ---- sizes ---- */

static void read_head_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    struct hk_model_params *m = &c->model;
    m->kv_heads = m->heads;
    hk_hf_count(in, c->json, "num_key_value_heads", &m->kv_heads);
    /* Null is not the same as absent here: the class's default is for what is absent. */
    bool absent = json_object_get(c->json, "head_dim") == NULL;
    m->key_dim = absent ? c->family->head_dim : 0;
    hk_hf_count(in, c->json, "head_dim", &m->key_dim);
    if (in->st != HK_OK)
        return;
    if (m->heads % m->kv_heads != 0)
        in->st = hk_fail(in->err, HK_E_FORMAT, HK_NO_OFFSET,
                         "%s%u num_attention_heads cannot share %u num_key_value_heads", in->where,
                         m->heads, m->kv_heads);
    else if (m->key_dim == 0 && m->hidden % m->heads != 0)
        in->st = hk_fail(in->err, HK_E_FORMAT, HK_NO_OFFSET,
                         "%shidden_size %u is no multiple of num_attention_heads %u, and "
                         "head_dim is missing",
                         in->where, m->hidden, m->heads);
    else if (m->key_dim == 0)
        m->key_dim = m->hidden / m->heads;
    m->value_dim = m->key_dim;
}

/* Layers with experts among layers without: all have them here. */
static void check_expert_layers(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    const json_t *dense = hk_hf_field(c->json, "mlp_only_layers"),
                 *step = hk_hf_field(c->json, "decoder_sparse_step");
    if (json_array_size(dense) > 0)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "mlp_only_layers", dense, "not supported");
    if (step != NULL && json_integer_value(step) != 1)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "decoder_sparse_step", step, "not supported");
}

/* Fields that only families with a choice bias have: scores by sigmoid, a scale, layers without
 * experts in front, layers behind that guess at later tokens. */
static void read_routing_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    double first = 0, groups = 1, shared = 0, next = 0;
    c->model.experts_scale = 1;
    hk_hf_number(in, c->json, "n_group", &groups);
    hk_hf_number(in, c->json, "first_k_dense_replace", &first);
    hk_hf_number(in, c->json, "n_shared_experts", &shared);
    hk_hf_number(in, c->json, "num_nextn_predict_layers", &next);
    hk_hf_positive(in, c->json, "routed_scaling_factor", &c->model.experts_scale);
    if (in->st == HK_OK && groups > 1)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "n_group", hk_hf_field(c->json, "n_group"),
                     "experts in groups are not supported");
    if (in->st != HK_OK)
        return;
    c->model.dense_layers = first > 0 && first <= c->model.layers ? (uint32_t)first : 0;
    c->next_layers = next > 0 && next <= 64 ? (uint32_t)next : 0;
    if (shared >= 1 && shared <= 64)
        c->model.shared_ffn = (uint32_t)shared * c->model.expert_ffn;
}

static void read_shared_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    if ((c->family->tensors & HK_HAS_SHARED_GATE) != 0) {
        hk_hf_need(in, c->json, "shared_expert_intermediate_size");
        hk_hf_count(in, c->json, "shared_expert_intermediate_size", &c->model.shared_ffn);
    } else if ((c->family->tensors & HK_HAS_CHOICE_BIAS) != 0) {
        read_routing_fields(in, c);
    }
}

/* Their number has had several names. */
static void read_expert_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    static const char *const names[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    uint32_t count = 0;
    if ((c->family->tensors & HK_HAS_EXPERTS) == 0)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        hk_hf_count(in, c->json, names[i], &count);
    if (count == 0)
        hk_hf_need(in, c->json, names[0]);
    c->model.experts = count;
    hk_hf_need(in, c->json, "num_experts_per_tok");
    hk_hf_count(in, c->json, "num_experts_per_tok", &c->model.experts_used);
    c->model.experts_add_up = /* the others' classes leave them as they are */
        (c->family->tensors & (HK_HAS_SPARSE_MOE | HK_HAS_CHOICE_BIAS)) != 0;
    if ((c->family->tensors & HK_HAS_SPARSE_MOE) != 0) {
        c->model.expert_ffn = c->model.ffn;
        return;
    }
    hk_hf_need(in, c->json, "moe_intermediate_size");
    hk_hf_count(in, c->json, "moe_intermediate_size", &c->model.expert_ffn);
    hk_hf_flag(in, c->json, "norm_topk_prob", &c->model.experts_add_up);
    read_shared_fields(in, c);
    check_expert_layers(in, c);
}

static void read_size_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    const struct {
        const char *name;
        uint32_t *to;
    } sizes[] = {
        {"hidden_size", &c->model.hidden},
        {"intermediate_size", &c->model.ffn},
        {"num_hidden_layers", &c->model.layers},
        {"num_attention_heads", &c->model.heads},
        {"max_position_embeddings", &c->model.context},
        {"vocab_size", &c->model.vocab},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hk_hf_need(in, c->json, sizes[i].name);
        hk_hf_count(in, c->json, sizes[i].name, sizes[i].to);
    }
    if (in->st == HK_OK)
        read_head_fields(in, c);
    read_expert_fields(in, c);
    c->tied = c->family->ties;
    hk_hf_flag(in, c->json, "tie_word_embeddings", &c->tied);
}

/* ---- attention ---- */

/* What layer_types says of layer I, 1 for a window, 0 for none. */
static int read_layer_type(struct hk_hf_in *in, const json_t *types, size_t i)
{
    const json_t *type = json_array_get(types, i);
    const char *text = json_string_value(type);
    if (text != NULL && strcmp(text, "sliding_attention") == 0)
        return 1;
    if (text == NULL || strcmp(text, "full_attention") != 0)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "layer_types has an entry that", type,
                     "only \"full_attention\" and \"sliding_attention\" are supported");
    return 0;
}

/* Layers have windows but for the last of so many: the pattern that MODEL's layers have by
 * layer_types, which has to be one. */
static void read_layer_types(struct hk_hf_in *in, const json_t *types, struct hk_model_params *m)
{
    if (!json_is_array(types) || json_array_size(types) != m->layers) {
        hk_hf_refuse(in, HK_E_FORMAT, "layer_types", types, "not one string for each layer");
        return;
    }
    uint32_t whole = 0;
    while (whole < m->layers && read_layer_type(in, types, whole) == 1)
        whole++;
    m->whole_every = whole < m->layers ? whole + 1 : 0;
    if (whole == 0)
        m->window = 0;
    for (uint32_t i = 0; i < m->layers && in->st == HK_OK; i++)
        if ((read_layer_type(in, types, i) == 1) != hk_layer_has_window(m, i) && in->st == HK_OK)
            hk_hf_refuse(in, HK_E_UNSUPPORTED, "layer_types", types,
                         "layers without a window are not at equal distances");
}

/* Families with use_sliding_window have a window only where it is set, and in the layers from
 * max_window_layers on; of these only all or none are supported. */
static bool has_window_switched_on(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    bool on = false;
    double first = 28;
    hk_hf_flag(in, c->json, "use_sliding_window", &on);
    hk_hf_number(in, c->json, "max_window_layers", &first);
    if (in->st == HK_OK && on && first > 0 && first < c->model.layers)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "max_window_layers",
                     hk_hf_field(c->json, "max_window_layers"), "windows in some layers only");
    return on && first <= 0;
}

/* A window that no text leaves is none. */
static void read_window_fields(struct hk_hf_in *in, struct hk_hf_config *c)
{
    struct hk_model_params *m = &c->model;
    const bool absent = json_object_get(c->json, "sliding_window") == NULL;
    const json_t *types = hk_hf_field(c->json, "layer_types");
    m->window = absent ? c->family->window : 0;
    m->whole_every = c->family->whole_every;
    const json_t *field = hk_hf_field(c->json, "sliding_window");
    if (json_is_integer(field) && json_integer_value(field) == 0)
        m->window = 0; /* as null */
    else
        hk_hf_count(in, c->json, "sliding_window", &m->window);
    hk_hf_count(in, c->json, "sliding_window_pattern", &m->whole_every);
    if (types == NULL && !c->family->slides && !has_window_switched_on(in, c))
        m->window = 0;
    if (in->st == HK_OK && types != NULL)
        read_layer_types(in, types, m);
    if (m->window >= m->context)
        m->window = 0;
}

/* ---- fields of other models ---- */

/* Some model computes with each of these. They are refused unless absent, null, false, empty or
 * NEUTRAL (NAN: no number is). */
static const struct {
    const char *name;
    double neutral;
} others[] = {
    {"mlp_bias", 0},
    {"logit_scale", 1},
    {"scale_emb", 1},
    {"scale_depth", NAN},
    {"clip_qkv", NAN},
    {"qk_layernorm", 0},
    {"alibi", 0},
    {"use_parallel_residual", 0},
    {"parallel_attn", 0},
    {"rope_interleave", 0},
    {"rope_interleaved", 0},
    {"rotary_pct", 1},
    {"rotary_dim", NAN},
    {"attention_chunk_size", NAN},
    {"attn_temperature_tuning", 0},
    {"use_bidirectional_attention", 0},
    {"cross_attention_layers", NAN},
    {"add_cross_attention", 0},
    {"is_encoder_decoder", 0},
    {"q_lora_rank", NAN},
    {"kv_lora_rank", NAN},
    {"text_config", NAN},
    {"vision_config", NAN},
    {"audio_config", NAN},
    {"compression_config", NAN},
    {"quantization_config", NAN},
};

static bool is_inert_field(const json_t *v, double neutral)
{
    if (v == NULL || json_is_false(v))
        return true;
    if (json_is_number(v))
        return json_number_value(v) == neutral;
    return (json_is_array(v) || json_is_object(v)) && json_array_size(v) + json_object_size(v) == 0;
}

static void refuse_unless_inert(struct hk_hf_in *in, const struct hk_hf_config *c, const char *name,
                                double neutral)
{
    const json_t *v = hk_hf_field(c->json, name);
    if (!is_inert_field(v, neutral))
        hk_hf_refuse(in, HK_E_UNSUPPORTED, name, v, "not supported");
}

/* 1 for each layer that has a rope. */
static void check_rope_layers(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    const json_t *list = hk_hf_field(c->json, "no_rope_layers");
    const struct hk_model_params p = {.no_rope_every = c->family->no_rope_every};
    uint32_t every = p.no_rope_every;
    if (list == NULL)
        hk_hf_count(in, c->json, "no_rope_layer_interval", &every);
    if (every != p.no_rope_every)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "no_rope_layer_interval",
                     hk_hf_field(c->json, "no_rope_layer_interval"), "not supported");
    for (uint32_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) != hk_layer_has_rope(&p, i)) {
            hk_hf_refuse(in, HK_E_UNSUPPORTED, "no_rope_layers", list, "not supported");
            return;
        }
    if (list != NULL && !json_is_array(list))
        hk_hf_refuse(in, HK_E_FORMAT, "no_rope_layers", list, "no list");
}

static void check_other_fields(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    static const char *const of_experts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                             "moe_intermediate_size"};
    const bool experts = (c->family->tensors & HK_HAS_EXPERTS) != 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        refuse_unless_inert(in, c, others[i].name, others[i].neutral);
    for (size_t i = 0; !experts && i < sizeof of_experts / sizeof *of_experts; i++)
        refuse_unless_inert(in, c, of_experts[i], 0);
    if ((c->family->tensors & HK_HAS_CHOICE_BIAS) == 0)
        refuse_unless_inert(in, c, "n_shared_experts", 0);
    if ((c->family->tensors & HK_MAY_HAVE_QK_NORM) == 0)
        refuse_unless_inert(in, c, "use_qk_norm", 0);
    check_rope_layers(in, c);
    const json_t *bias = hk_hf_field(c->json, "attention_bias");
    if ((c->family->tensors & (HK_HAS_QKV_BIAS | HK_MAY_HAVE_QKV_BIAS)) == 0 &&
        !is_inert_field(bias, 0))
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "attention_bias", bias, "not supported");
    const json_t *all = hk_hf_field(c->json, "use_bias");
    const bool has_all = (c->family->tensors & HK_HAS_ALL_BIASES) != 0;
    if (has_all ? all != NULL && !json_is_true(all) : !is_inert_field(all, 0))
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "use_bias", all, "not supported");
    const json_t *causal = hk_hf_field(c->json, "is_causal");
    if (causal != NULL && !json_is_true(causal))
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "is_causal", causal, "not supported");
    const json_t *code = json_object_get(hk_hf_field(c->json, "auto_map"), "AutoModelForCausalLM");
    if (code != NULL)
        hk_hf_refuse(in, HK_E_UNSUPPORTED, "auto_map", code,
                     "a model with code of its own is not supported");
}

static const struct {
    const char *names[3]; /* the first is what is written */
    const char *refusal;
} activations[] = {
    [HK_ACTIVATION_SILU] = {{"silu", "swish"}, "only silu is supported"},
    [HK_ACTIVATION_GELU] = {{"gelu_pytorch_tanh", "gelu_new", "gelu_fast"},
                            "only the tanh form of gelu is supported"},
    [HK_ACTIVATION_RELU_2] = {{"relu2"}, "only relu2 is supported"},
};

const char *hk_hf_activation_name(enum hk_activation activation)
{
    return activations[activation].names[0];
}

/* Gemma's class takes "gelu", which its first files have, for the tanh form. */
static bool is_activation_name(const struct hk_family *family, struct hk_bytes name)
{
    for (size_t i = 0; i < 3 && activations[family->activation].names[i] != NULL; i++)
        if (hk_bytes_are(name, activations[family->activation].names[i]))
            return true;
    return family->activation == HK_ACTIVATION_GELU && family->scales_embedding &&
           hk_bytes_are(name, "gelu");
}

static void check_activation(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    static const char *const names[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hk_bytes act = {0};
        hk_hf_text(in, c->json, names[i], &act);
        if (in->st == HK_OK && act.p != NULL && !is_activation_name(c->family, act))
            hk_hf_refuse(in, HK_E_UNSUPPORTED, names[i], hk_hf_field(c->json, names[i]),
                         activations[c->family->activation].refusal);
    }
}

/* ---- keys ---- */

static void put_size_key(struct hk_hf_in *in, enum hk_model_key key, uint32_t v)
{
    hk_kvlist_int(in->out, hk_key_text(in->arch, key).s, v);
}

static void put_routing_keys(struct hk_hf_in *in, const struct hk_model_params *m)
{
    enum { SIGMOID = 2 }; /* as llama.cpp numbers them */
    put_size_key(in, HK_KEY_EXPERT_GATING, SIGMOID);
    put_size_key(in, HK_KEY_LEADING_DENSE, m->dense_layers);
    put_size_key(in, HK_KEY_EXPERT_SHARED_COUNT, m->shared_ffn / m->expert_ffn);
    hk_kvlist_float(in->out, hk_key_text(in->arch, HK_KEY_EXPERT_WEIGHTS_SCALE).s,
                    m->experts_scale);
}

static void put_expert_keys(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    const struct hk_model_params *m = &c->model;
    if ((c->family->tensors & HK_HAS_EXPERTS) == 0)
        return;
    put_size_key(in, HK_KEY_EXPERT_COUNT, (uint32_t)m->experts);
    put_size_key(in, HK_KEY_EXPERT_USED_COUNT, m->experts_used);
    if (m->expert_ffn != m->ffn)
        put_size_key(in, HK_KEY_EXPERT_FFN_LENGTH, m->expert_ffn);
    if (m->shared_ffn > 0 && (c->family->tensors & HK_HAS_CHOICE_BIAS) == 0)
        put_size_key(in, HK_KEY_EXPERT_SHARED_FFN_LENGTH, m->shared_ffn);
    if ((c->family->tensors & HK_HAS_CHOICE_BIAS) != 0)
        put_routing_keys(in, m);
    if (m->experts_add_up != c->family->experts_add_up ||
        (c->family->tensors & HK_HAS_CHOICE_BIAS) != 0)
        hk_kvlist_bool(in->out, hk_key_text(in->arch, HK_KEY_EXPERT_WEIGHTS_NORM).s,
                       m->experts_add_up);
}

static void put_config_keys(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    const struct hk_model_params *m = &c->model;
    double epsilon = c->family->config_epsilon;
    const char *field = c->family->epsilon_field;
    hk_hf_positive(in, c->json, field != NULL ? field : "rms_norm_eps", &epsilon);
    if (in->st != HK_OK)
        return;
    hk_kvlist_text(in->out, hk_key_text("", HK_KEY_ARCHITECTURE).s, in->arch);
    put_size_key(in, HK_KEY_BLOCK_COUNT, m->layers);
    put_size_key(in, HK_KEY_CONTEXT_LENGTH, m->context);
    put_size_key(in, HK_KEY_EMBEDDING_LENGTH, m->hidden);
    put_size_key(in, HK_KEY_FEED_FORWARD_LENGTH, m->ffn);
    put_size_key(in, HK_KEY_HEAD_COUNT, m->heads);
    put_size_key(in, HK_KEY_HEAD_COUNT_KV, m->kv_heads);
    hk_kvlist_float(in->out, hk_key_text(in->arch, hk_epsilon_key(c->family)).s, epsilon);
    hk_hf_read_multipliers(in, c);
    if (m->window > 0)
        put_size_key(in, HK_KEY_SLIDING_WINDOW, m->window);
    if (m->window > 0 && m->whole_every != c->family->whole_every)
        put_size_key(in, HK_KEY_WINDOW_PATTERN, m->whole_every);
    if ((uint64_t)m->key_dim * m->heads != m->hidden) {
        put_size_key(in, HK_KEY_KEY_LENGTH, m->key_dim);
        put_size_key(in, HK_KEY_VALUE_LENGTH, m->value_dim);
    }
    put_size_key(in, HK_KEY_VOCAB_SIZE, m->vocab);
    put_expert_keys(in, c);
    hk_kvlist_text(in->out, hk_key_text("", HK_KEY_ROPE_STYLE).s,
                   hk_rope_style(!c->family->pairs_in_hf));
}

/* The keys as whoever runs the model reads them. */
static enum hk_status read_keys_again(struct hk_hf_config *c, const struct hk_kvlist *keys,
                                      struct hk_error *err)
{
    const struct hk_key_source s = hk_keys_of_list(keys);
    const uint32_t vocab = c->model.vocab;
    enum hk_status st = hk_params_read(&s, HK_PARAMS_TO_RUN, &c->model, err);
    c->model.vocab = vocab;
    if (st != HK_OK && err != NULL)
        err->offset = HK_NO_OFFSET; /* the keys are in no file */
    return st == HK_OK ? HK_OK : hk_hf_about("config.json", st, err);
}

enum hk_status hk_hf_read_config(struct hk_hf_config *c, struct hk_kvlist *out,
                                 struct hk_error *err)
{
    struct hk_hf_in in = {.where = "config.json: ", .out = out, .err = err};
    read_config_family(&in, c);
    if (in.st != HK_OK)
        return in.st;
    check_other_fields(&in, c);
    check_activation(&in, c);
    read_size_fields(&in, c);
    if (in.st == HK_OK)
        read_window_fields(&in, c);
    put_config_keys(&in, c);
    if (in.st == HK_OK)
        hk_hf_read_rope(&in, c);
    if (in.st == HK_OK && out->status == HK_OK)
        in.st = read_keys_again(c, out, err);
    hk_kvlist_json(out, hk_key_text("", HK_KEY_CONFIG).s, c->text);
    if (c->generation_text.p != NULL)
        hk_kvlist_json(out, hk_key_text("", HK_KEY_GENERATION_CONFIG).s, c->generation_text);
    return in.st;
}
