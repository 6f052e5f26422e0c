/* config.json and generation_config.json. What is stored of them comes back as it was, save for
 * fields that say something else than the keys by now; where nothing is stored, all that the
 * classes of transformers need is written, in the form that every version of it reads. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/export.h"

struct putting {
    const struct hk_file *f;
    struct hk_hf_stored stored;
    struct hk_model_params model;
    bool tied;
    json_t *json, *generation; /* being made */
    bool changed, generation_changed;
    json_t *ends; /* ids of the tokens that end a text */
    bool no_memory;
    struct hk_error *err;
};

static bool lacks_stored_config(const struct putting *p)
{
    return p->stored.json == NULL;
}

/* Takes V over, which is NULL when out of memory. */
static void set_field_in(struct putting *p, json_t *object, const char *field, json_t *v)
{
    if (json_object_set_new(object, field, v) != 0)
        p->no_memory = true;
}

static void set_config_field(struct putting *p, const char *field, json_t *v)
{
    set_field_in(p, p->json, field, v);
    p->changed = true;
}

/* ---- sizes ---- */

static void put_size_fields(struct putting *p)
{
    static const struct {
        const char *field;
        size_t at;
    } fields[] = {
        {"hidden_size", offsetof(struct hk_model_params, hidden)},
        {"intermediate_size", offsetof(struct hk_model_params, ffn)},
        {"num_hidden_layers", offsetof(struct hk_model_params, layers)},
        {"num_attention_heads", offsetof(struct hk_model_params, heads)},
        {"num_key_value_heads", offsetof(struct hk_model_params, kv_heads)},
        {"head_dim", offsetof(struct hk_model_params, key_dim)},
        {"max_position_embeddings", offsetof(struct hk_model_params, context)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint32_t v, before;
        memcpy(&v, (const char *)&p->model + fields[i].at, sizeof v);
        memcpy(&before, (const char *)&p->stored.config.model + fields[i].at, sizeof before);
        if (lacks_stored_config(p) || v != before)
            set_config_field(p, fields[i].field, json_integer(v));
    }
    if (lacks_stored_config(p) || p->model.vocab != p->stored.config.model.vocab)
        set_config_field(p, "vocab_size", json_integer(p->model.vocab));
    if (lacks_stored_config(p) || p->tied != p->stored.config.tied)
        set_config_field(p, "tie_word_embeddings", json_boolean(p->tied));
}

static void put_count_field(struct putting *p, const char *field, uint64_t v, uint64_t before)
{
    if (lacks_stored_config(p) || v != before)
        set_config_field(p, field, json_integer((json_int_t)v));
}

/* What families with a choice bias have. */
static void put_routing_fields(struct putting *p)
{
    const struct hk_model_params *m = &p->model, *before = &p->stored.config.model;
    const uint32_t ffn = before->expert_ffn > 0 ? before->expert_ffn : 1;
    put_count_field(p, "n_shared_experts", m->shared_ffn / m->expert_ffn, before->shared_ffn / ffn);
    put_count_field(p, "first_k_dense_replace", m->dense_layers, before->dense_layers);
    if (lacks_stored_config(p) || (float)m->experts_scale != (float)before->experts_scale)
        set_config_field(p, "routed_scaling_factor", json_real(hk_hf_short(m->experts_scale)));
}

static void put_expert_fields(struct putting *p)
{
    const struct hk_model_params *m = &p->model, *before = &p->stored.config.model;
    const unsigned has = m->family->tensors;
    const bool all = lacks_stored_config(p), sparse = (has & HK_HAS_SPARSE_MOE) != 0;
    const bool routed = (has & HK_HAS_CHOICE_BIAS) != 0;
    if ((has & HK_HAS_EXPERTS) == 0)
        return;
    put_count_field(p,
                    sparse   ? "num_local_experts"
                    : routed ? "n_routed_experts"
                             : "num_experts",
                    (uint64_t)m->experts, (uint64_t)before->experts);
    put_count_field(p, "num_experts_per_tok", m->experts_used, before->experts_used);
    if (sparse)
        return;
    put_count_field(p, "moe_intermediate_size", m->expert_ffn, before->expert_ffn);
    if (all || m->experts_add_up != before->experts_add_up)
        set_config_field(p, "norm_topk_prob", json_boolean(m->experts_add_up));
    if (routed)
        put_routing_fields(p);
    else if (m->shared_ffn > 0)
        put_count_field(p, "shared_expert_intermediate_size", m->shared_ffn, before->shared_ffn);
    if (!all || routed)
        return;
    set_config_field(p, "decoder_sparse_step", json_integer(1));
    set_config_field(p, "mlp_only_layers", json_array());
}

static bool differ_as_f32(double a, double b)
{
    return (float)a != (float)b;
}

static json_t *shortest_real(double v)
{
    return json_real(hk_hf_short(v));
}

/* A class where it is not what the stored config names, and what all models of ours are alike in.
 */
static void put_class_fields(struct putting *p)
{
    if (lacks_stored_config(p) || p->model.family != p->stored.config.family) {
        set_config_field(p, "architectures", json_pack("[s]", p->model.family->class_name));
        set_config_field(p, "model_type", json_string(p->model.family->model_type));
    }
    if (!lacks_stored_config(p))
        return;
    if ((p->model.family->tensors & HK_HAS_ALL_BIASES) != 0)
        set_config_field(p, "use_bias", json_true());
    set_config_field(p, "hidden_act",
                     json_string(hk_hf_activation_name(p->model.family->activation)));
    set_config_field(p, "mlp_bias", json_false());
    /* Of classes that have these biases always it is no field. */
    if ((p->model.family->tensors & HK_HAS_QKV_BIAS) == 0)
        set_config_field(p, "attention_bias", json_false());
    if (!p->model.family->slides)
        set_config_field(p, "use_sliding_window", json_false());
}

static json_t *layer_types_of(struct putting *p)
{
    json_t *types = json_array();
    for (uint32_t i = 0; i < p->model.layers; i++) {
        const bool window = hk_layer_has_window(&p->model, i);
        if (json_array_append_new(
                types, json_string(window ? "sliding_attention" : "full_attention")) != 0)
            p->no_memory = true;
    }
    return types;
}

/* Windows and what else is a number of some classes. */
static void put_attention_fields(struct putting *p)
{
    const struct hk_model_params *stored = lacks_stored_config(p) ? NULL : &p->stored.config.model;
    const char *field;
    json_t *value;
    if (stored == NULL || p->model.window != stored->window)
        set_config_field(p, "sliding_window",
                         p->model.window > 0 ? json_integer(p->model.window) : json_null());
    if (p->model.window > 0 &&
        (stored != NULL ? p->model.whole_every != stored->whole_every
                        : p->model.whole_every != p->model.family->whole_every))
        set_config_field(p, "layer_types", layer_types_of(p));
    for (size_t at = 0; hk_hf_next_multiplier(&p->model, stored, &at, &field, &value);)
        set_config_field(p, field, value);
}

/* ---- rope ---- */

enum {
    LINEAR = 1 << HK_ROPE_LINEAR,
    DYNAMIC = 1 << HK_ROPE_DYNAMIC,
    LLAMA3 = 1 << HK_ROPE_LLAMA3,
    YARN = 1 << HK_ROPE_YARN
};

static const struct parameter {
    const char *field;
    size_t at;
    unsigned kinds; /* that have it */
    bool whole;
} parameters[] = {
    {"factor", offsetof(struct hk_rope, factor), LINEAR | DYNAMIC | LLAMA3 | YARN, false},
    {"original_max_position_embeddings", offsetof(struct hk_rope, original), LLAMA3 | YARN, true},
    {"low_freq_factor", offsetof(struct hk_rope, low_freq), LLAMA3, false},
    {"high_freq_factor", offsetof(struct hk_rope, high_freq), LLAMA3, false},
    {"beta_fast", offsetof(struct hk_rope, beta_fast), YARN, false},
    {"beta_slow", offsetof(struct hk_rope, beta_slow), YARN, false},
};

enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static double rope_parameter_value(const struct hk_rope *r, const struct parameter *parameter)
{
    double v;
    memcpy(&v, (const char *)r + parameter->at, sizeof v);
    return v;
}

static bool has_rope_parameter(const struct hk_rope *r, const struct parameter *parameter)
{
    return (parameter->kinds & 1U << r->kind) != 0;
}

/* Whether the models' ropes say otherwise of what is no part of a rope. */
static bool tempers_differ(const struct hk_model_params *a, const struct hk_model_params *b)
{
    return differ_as_f32(a->temperature, b->temperature) ||
           differ_as_f32(a->rope.log_multiplier, b->rope.log_multiplier);
}

static bool ropes_differ(const struct hk_rope *a, const struct hk_rope *b)
{
    bool differs = a->kind != b->kind || differ_as_f32(a->base, b->base) ||
                   differ_as_f32(a->attn_factor, b->attn_factor);
    for (size_t i = 0; i < PARAMETERS; i++)
        if (has_rope_parameter(a, &parameters[i]))
            differs = differs || differ_as_f32(rope_parameter_value(a, &parameters[i]),
                                               rope_parameter_value(b, &parameters[i]));
    return differs;
}

/* What O, which may be NULL, has beside a kind and its parameters; in version 5 these may be those
 * of the only kind of layers. */
static json_t *other_rope_fields(const json_t *o)
{
    static const char *const gone[] = {"rope_type", "type",           "attention_factor",
                                       "mscale",    "mscale_all_dim", "llama_4_scaling_beta"};
    const json_t *layers = json_object_get(o, "full_attention");
    json_t *rest = json_is_object(o) ? json_deep_copy(layers != NULL ? layers : o) : json_object();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        json_object_del(rest, gone[i]);
    for (size_t i = 0; i < PARAMETERS; i++)
        json_object_del(rest, parameters[i].field);
    return rest;
}

/* The model's kind and parameters as fields of O. */
static void put_rope_scaling_fields(struct putting *p, json_t *o)
{
    const struct hk_rope *r = &p->model.rope;
    const bool lists = json_object_get(o, "long_factor") != NULL;
    set_field_in(p, o, "rope_type",
                 json_string(r->kind != HK_ROPE_NONE ? hk_rope_name(r->kind)
                             : lists                 ? "longrope"
                                                     : "default"));
    if (lists)
        set_field_in(p, o, "attention_factor", shortest_real(r->attn_factor));
    for (size_t i = 0; i < PARAMETERS; i++) {
        const double v = rope_parameter_value(r, &parameters[i]);
        const bool whole = parameters[i].whole && v < 0x1p53 && v == (double)(int64_t)v;
        if (has_rope_parameter(r, &parameters[i]))
            set_field_in(p, o, parameters[i].field,
                         whole ? json_integer((json_int_t)v) : shortest_real(v));
    }
    if (r->log_multiplier != 0) {
        set_field_in(p, o, "mscale", shortest_real(1));
        set_field_in(p, o, "mscale_all_dim", shortest_real(r->log_multiplier));
    }
    if (p->model.temperature != 0)
        set_field_in(p, o, "llama_4_scaling_beta", shortest_real(p->model.temperature));
    if (r->kind == HK_ROPE_YARN && differ_as_f32(r->attn_factor, 1))
        set_field_in(p, o, "attention_factor", shortest_real((float)r->magnitude));
}

static void put_flat_rope_field(struct putting *p)
{
    json_t *scaling = json_null();
    if (p->model.rope.kind != HK_ROPE_NONE) {
        scaling = other_rope_fields(json_object_get(p->json, "rope_scaling"));
        put_rope_scaling_fields(p, scaling);
    }
    set_config_field(p, "rope_scaling", scaling);
}

/* In version 5 a model whose layers turn in two ways has an object for each; O is that of the
 * others.
 */
static json_t *rope_object_of_layers(struct putting *p, json_t *o)
{
    json_t *both = json_object(), *own = json_object();
    set_field_in(p, own, "rope_theta", shortest_real(p->model.window_rope_base));
    set_field_in(p, own, "rope_type", json_string("default"));
    set_field_in(p, both, "full_attention", o);
    set_field_in(p, both, "sliding_attention", own);
    return both;
}

/* In the form, or the two, that the stored config has. */
static void put_rope_fields(struct putting *p)
{
    const struct hk_rope *r = &p->model.rope;
    const bool nested = json_is_object(json_object_get(p->json, "rope_parameters"));
    const bool windows = p->model.family->window_rope_base > 0;
    if (!lacks_stored_config(p) && !ropes_differ(r, &p->stored.config.model.rope) &&
        !tempers_differ(&p->model, &p->stored.config.model) &&
        !differ_as_f32(p->model.window_rope_base, p->stored.config.model.window_rope_base))
        return;
    json_object_del(p->json, "original_max_position_embeddings"); /* of old versions */
    if (nested) {
        json_t *o = other_rope_fields(json_object_get(p->json, "rope_parameters"));
        set_field_in(p, o, "rope_theta", shortest_real(r->base));
        put_rope_scaling_fields(p, o);
        set_config_field(p, "rope_parameters", windows ? rope_object_of_layers(p, o) : o);
    }
    if (!nested || json_object_get(p->json, "rope_theta") != NULL)
        set_config_field(p, "rope_theta", shortest_real(r->base));
    if (!nested || json_object_get(p->json, "rope_scaling") != NULL)
        put_flat_rope_field(p);
    if (windows && (!nested || json_object_get(p->json, "rope_local_base_freq") != NULL))
        set_config_field(p, "rope_local_base_freq", shortest_real(p->model.window_rope_base));
}

/* ---- special tokens ---- */

static enum hk_status read_token_id(const struct putting *p, enum hk_vocab_key key, int64_t *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    *out = -1;
    return kv == NULL ? HK_OK : hk_kv_int(kv, out, p->err);
}

/* The id in V, which may be a list: its first. */
static int64_t first_stored_id(const json_t *v)
{
    const json_t *id = json_is_array(v) ? json_array_get(v, 0) : v;
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static bool list_has_id(const json_t *list, int64_t id)
{
    bool found = json_is_integer(list) && json_integer_value(list) == id;
    for (size_t i = 0; i < json_array_size(list); i++)
        found = found || json_integer_value(json_array_get(list, i)) == id;
    return found;
}

/* Whether the tokenizer's files, as they are stored, name token NAME: then its id is theirs to
 * tell, and config.json may have another. */
static enum hk_status token_is_named(const struct putting *p, const char *name, bool *out)
{
    static const enum hk_vocab_key keys[] = {HK_VOCAB_STORED_SETTINGS, HK_VOCAB_STORED_SPECIAL};
    enum hk_status st = HK_OK;
    *out = false;
    for (size_t i = 0; st == HK_OK && i < sizeof keys / sizeof *keys; i++) {
        struct hk_bytes text = {0};
        json_t *json = NULL;
        st = hk_hf_stored_json(p->f, hk_vocab_key(keys[i]), &text, &json, p->err);
        *out = *out || hk_hf_field(json, name) != NULL;
        json_decref(json);
    }
    return st;
}

/* Where the stored config has no such field, it is the tokenizer's files that say it. */
static enum hk_status put_token_id_field(struct putting *p, enum hk_vocab_key key, const char *name)
{
    char field[32];
    bool named = false;
    int64_t id;
    snprintf(field, sizeof field, "%s_id", name);
    enum hk_status st = read_token_id(p, key, &id);
    const int64_t before = first_stored_id(json_object_get(p->json, field));
    if (st == HK_OK && !lacks_stored_config(p))
        st = token_is_named(p, name, &named);
    if (st != HK_OK || id == before || named || (!lacks_stored_config(p) && before < 0))
        return st;
    set_config_field(p, field, id >= 0 ? json_integer(id) : json_null());
    return HK_OK;
}

static void add_end_token(struct putting *p, int64_t id)
{
    if (id >= 0 && !list_has_id(p->ends, id) &&
        json_array_append_new(p->ends, json_integer(id)) != 0)
        p->no_memory = true;
}

enum { MOST_ENDS = 4096 };

static enum hk_status list_end_tokens(struct putting *p)
{
    static const enum hk_vocab_key keys[] = {HK_VOCAB_EOS, HK_VOCAB_EOT, HK_VOCAB_EOM};
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_END_IDS);
    struct hk_array a = {0};
    enum hk_status st = HK_OK;
    p->ends = json_array();
    p->no_memory = p->no_memory || p->ends == NULL;
    for (size_t i = 0; st == HK_OK && i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        st = read_token_id(p, keys[i], &id);
        add_end_token(p, id);
    }
    if (st == HK_OK && kv != NULL)
        st = hk_kv_array(kv, HK_ARRAY_I32, &a, p->err);
    if (st == HK_OK && a.count > MOST_ENDS)
        st = hk_fail(p->err, HK_E_RANGE, kv->offset, "key %s lists %u tokens, more than %d",
                     hk_vocab_key(HK_VOCAB_END_IDS), a.count, (int)MOST_ENDS);
    for (uint32_t i = 0; st == HK_OK && i < a.count; i++)
        add_end_token(p, hk_array_i32(&a, i));
    hk_array_free(&a);
    return st;
}

/* -1 stands for no token there. */
static bool id_still_ends(const struct putting *p, const json_t *id)
{
    return json_is_integer(id) &&
           (json_integer_value(id) < 0 || list_has_id(p->ends, json_integer_value(id)));
}

/* Every id of the stored LIST, which may be one alone, ends texts by the keys, too. */
static bool ids_still_end(const struct putting *p, const json_t *list)
{
    bool all =
        json_array_size(list) <= MOST_ENDS && (!json_is_integer(list) || id_still_ends(p, list));
    for (size_t i = 0; all && i < json_array_size(list); i++)
        all = id_still_ends(p, json_array_get(list, i));
    return all;
}

/* Whether the two stored lists together are what the keys say. */
static bool end_tokens_are_stored(const struct putting *p)
{
    const json_t *here = json_object_get(p->json, "eos_token_id");
    const json_t *there = json_object_get(p->stored.generation, "eos_token_id");
    int64_t id;
    if (lacks_stored_config(p) || read_token_id(p, HK_VOCAB_EOS, &id) != HK_OK)
        return false;
    bool same = ids_still_end(p, here) && ids_still_end(p, there);
    for (size_t i = 0; i < json_array_size(p->ends); i++) {
        const int64_t end = json_integer_value(json_array_get(p->ends, i));
        same = same && (end == id || list_has_id(here, end) || list_has_id(there, end));
    }
    return same;
}

static enum hk_status put_end_tokens(struct putting *p)
{
    enum hk_status st = list_end_tokens(p);
    const size_t count = json_array_size(p->ends);
    if (st != HK_OK || end_tokens_are_stored(p))
        return st;
    json_t *ends = count == 0   ? json_null()
                   : count == 1 ? json_incref(json_array_get(p->ends, 0))
                                : json_copy(p->ends);
    set_config_field(p, "eos_token_id", json_incref(ends));
    if (p->generation == NULL && count > 1) {
        json_t *bos = json_object_get(p->json, "bos_token_id");
        p->generation = json_object();
        if (json_is_integer(bos))
            set_field_in(p, p->generation, "bos_token_id", json_incref(bos));
    }
    if (p->generation != NULL) {
        set_field_in(p, p->generation, "eos_token_id", json_incref(ends));
        p->generation_changed = true;
    }
    json_decref(ends);
    return HK_OK;
}

static enum hk_status put_token_fields(struct putting *p)
{
    enum hk_status st = put_token_id_field(p, HK_VOCAB_BOS, "bos_token");
    if (st == HK_OK)
        st = put_end_tokens(p);
    if (st == HK_OK)
        st = put_token_id_field(p, HK_VOCAB_PAD, "pad_token");
    return st;
}

/* ---- the files ---- */

static void put_dtype_field(struct putting *p, enum hk_type dense)
{
    static const struct {
        enum hk_type type;
        const char *name;
    } names[] = {{HK_TYPE_F32, "float32"},
                 {HK_TYPE_F16, "float16"},
                 {HK_TYPE_BF16, "bfloat16"},
                 {HK_TYPE_F64, "float64"}};
    const char *field = json_object_get(p->json, "dtype") != NULL ? "dtype" : "torch_dtype";
    const char *before = json_string_value(json_object_get(p->json, field));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == dense &&
            (lacks_stored_config(p) || (before != NULL && strcmp(before, names[i].name) != 0)))
            set_config_field(p, field, json_string(names[i].name));
}

/* The classes rotate heads whole, unless the stored config says how much of them. */
static enum hk_status refuse_partial_rope(const struct putting *p)
{
    const struct hk_model_params *m = &p->model;
    if (m->rope_dims == m->key_dim || (!lacks_stored_config(p) && hk_turns_as_in_hf(m) &&
                                       m->rope_dims == p->stored.config.model.rope_dims))
        return HK_OK;
    return hk_fail(p->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "key %s is %u of %u: heads that are rotated in part are not exported",
                   hk_key_text(m->architecture, HK_KEY_ROPE_DIMENSION_COUNT).s, m->rope_dims,
                   m->key_dim);
}

static enum hk_status load_stored_config(struct putting *p, const struct hk_model_params *model)
{
    enum hk_status st = hk_hf_stored_read(p->f, &p->stored, p->err);
    p->model = *model;
    if (st == HK_OK)
        st = hk_output_is_tied(p->f, p->stored.config.tied, &p->tied, p->err);
    if (st != HK_OK)
        return st;
    p->json = lacks_stored_config(p) ? json_object() : json_deep_copy(p->stored.json);
    p->generation = json_deep_copy(p->stored.generation);
    p->no_memory = p->json == NULL || (p->generation == NULL && p->stored.generation != NULL);
    return refuse_partial_rope(p);
}

static enum hk_status add_config_file(const struct putting *p, const char *name, json_t *json,
                                      bool changed, struct hk_bytes stored,
                                      struct hk_side_files *out)
{
    struct hk_buf text = {0};
    if (json == NULL)
        return HK_OK;
    if (changed)
        return hk_side_files_json(out, name, json, p->err);
    hk_buf_put(&text, stored.p, stored.n);
    return hk_side_files_add(out, name, &text, p->err);
}

static enum hk_status put_config_files(struct putting *p, enum hk_type dense,
                                       struct hk_side_files *out)
{
    put_class_fields(p);
    put_size_fields(p);
    put_expert_fields(p);
    put_attention_fields(p);
    const char *epsilon = p->model.family->epsilon_field;
    if (lacks_stored_config(p) || differ_as_f32(p->model.epsilon, p->stored.config.model.epsilon))
        set_config_field(p, epsilon != NULL ? epsilon : "rms_norm_eps",
                         shortest_real(p->model.epsilon));
    put_rope_fields(p);
    put_dtype_field(p, dense);
    enum hk_status st = put_token_fields(p);
    if (st == HK_OK && p->no_memory)
        st = hk_fail_nomem(p->err);
    if (st == HK_OK)
        st = add_config_file(p, "config.json", p->json, p->changed, p->stored.text, out);
    if (st == HK_OK)
        st = add_config_file(p, "generation_config.json", p->generation, p->generation_changed,
                             p->stored.generation_text, out);
    return st;
}

enum hk_status hk_hf_export_config(const struct hk_file *f, const struct hk_model_params *model,
                                   enum hk_type dense, struct hk_side_files *out,
                                   struct hk_error *err)
{
    struct putting p = {.f = f, .err = err};
    enum hk_status st = load_stored_config(&p, model);
    if (st == HK_OK)
        st = put_config_files(&p, dense, out);
    json_decref(p.json);
    json_decref(p.generation);
    json_decref(p.ends);
    hk_hf_stored_free(&p.stored);
    return st;
}
