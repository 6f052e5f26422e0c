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

static bool is_new(const struct putting *p)
{
    return p->stored.json == NULL;
}

/* Takes V over, which is NULL when out of memory. */
static void set_in(struct putting *p, json_t *object, const char *field, json_t *v)
{
    if (json_object_set_new(object, field, v) != 0)
        p->no_memory = true;
}

static void set(struct putting *p, const char *field, json_t *v)
{
    set_in(p, p->json, field, v);
    p->changed = true;
}

/* ---- sizes ---- */

static void put_counts(struct putting *p)
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
        if (is_new(p) || v != before)
            set(p, fields[i].field, json_integer(v));
    }
    if (is_new(p) || p->model.vocab != p->stored.config.model.vocab)
        set(p, "vocab_size", json_integer(p->model.vocab));
    if (is_new(p) || p->tied != p->stored.config.tied)
        set(p, "tie_word_embeddings", json_boolean(p->tied));
}

static bool differ(double a, double b)
{
    return (float)a != (float)b;
}

static json_t *number(double v)
{
    return json_real(hk_hf_short(v));
}

/* A class where it is not what the stored config names, and what all models of ours are alike in.
 */
static void put_class(struct putting *p)
{
    if (is_new(p) || p->model.family != p->stored.config.family) {
        set(p, "architectures", json_pack("[s]", p->model.family->class_name));
        set(p, "model_type", json_string(p->model.family->model_type));
    }
    if (!is_new(p))
        return;
    set(p, "hidden_act", json_string("silu"));
    set(p, "mlp_bias", json_false());
    /* Of classes that have these biases always it is no field. */
    if ((p->model.family->tensors & HK_HAS_QKV_BIAS) == 0)
        set(p, "attention_bias", json_false());
    set(p, "sliding_window", json_null());
    set(p, "use_sliding_window", json_false());
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

static double value_of(const struct hk_rope *r, const struct parameter *parameter)
{
    double v;
    memcpy(&v, (const char *)r + parameter->at, sizeof v);
    return v;
}

static bool has_parameter(const struct hk_rope *r, const struct parameter *parameter)
{
    return (parameter->kinds & 1U << r->kind) != 0;
}

static bool ropes_differ(const struct hk_rope *a, const struct hk_rope *b)
{
    bool differs = a->kind != b->kind || differ(a->base, b->base) ||
                   (a->kind == HK_ROPE_YARN && differ(a->attn_factor, b->attn_factor));
    for (size_t i = 0; i < PARAMETERS; i++)
        if (has_parameter(a, &parameters[i]))
            differs = differs || differ(value_of(a, &parameters[i]), value_of(b, &parameters[i]));
    return differs;
}

/* What O, which may be NULL, has beside a kind and its parameters; in version 5 these may be those
 * of the only kind of layers. */
static json_t *others_of(const json_t *o)
{
    static const char *const gone[] = {"rope_type", "type", "attention_factor", "mscale",
                                       "mscale_all_dim"};
    const json_t *layers = json_object_get(o, "full_attention");
    json_t *rest = json_is_object(o) ? json_deep_copy(layers != NULL ? layers : o) : json_object();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        json_object_del(rest, gone[i]);
    for (size_t i = 0; i < PARAMETERS; i++)
        json_object_del(rest, parameters[i].field);
    return rest;
}

/* The model's kind and parameters as fields of O. */
static void put_scaling(struct putting *p, json_t *o)
{
    const struct hk_rope *r = &p->model.rope;
    set_in(p, o, "rope_type",
           json_string(r->kind != HK_ROPE_NONE ? hk_rope_name(r->kind) : "default"));
    for (size_t i = 0; i < PARAMETERS; i++) {
        const double v = value_of(r, &parameters[i]);
        const bool whole = parameters[i].whole && v < 0x1p53 && v == (double)(int64_t)v;
        if (has_parameter(r, &parameters[i]))
            set_in(p, o, parameters[i].field, whole ? json_integer((json_int_t)v) : number(v));
    }
    if (r->kind == HK_ROPE_YARN && differ(r->attn_factor, 1))
        set_in(p, o, "attention_factor", number((float)r->magnitude));
}

static void put_flat_rope(struct putting *p)
{
    json_t *scaling = json_null();
    if (p->model.rope.kind != HK_ROPE_NONE) {
        scaling = others_of(json_object_get(p->json, "rope_scaling"));
        put_scaling(p, scaling);
    }
    set(p, "rope_scaling", scaling);
}

/* In the form, or the two, that the stored config has. */
static void put_rope(struct putting *p)
{
    const struct hk_rope *r = &p->model.rope;
    const bool nested = json_is_object(json_object_get(p->json, "rope_parameters"));
    if (!is_new(p) && !ropes_differ(r, &p->stored.config.model.rope))
        return;
    json_object_del(p->json, "original_max_position_embeddings"); /* of old versions */
    if (nested) {
        json_t *o = others_of(json_object_get(p->json, "rope_parameters"));
        set_in(p, o, "rope_theta", number(r->base));
        put_scaling(p, o);
        set(p, "rope_parameters", o);
    }
    if (!nested || json_object_get(p->json, "rope_theta") != NULL)
        set(p, "rope_theta", number(r->base));
    if (!nested || json_object_get(p->json, "rope_scaling") != NULL)
        put_flat_rope(p);
}

/* ---- special tokens ---- */

static enum hk_status get_id(const struct putting *p, enum hk_vocab_key key, int64_t *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    *out = -1;
    return kv == NULL ? HK_OK : hk_kv_int(kv, out, p->err);
}

/* The id in V, which may be a list: its first. */
static int64_t first_id(const json_t *v)
{
    const json_t *id = json_is_array(v) ? json_array_get(v, 0) : v;
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static bool has_id(const json_t *list, int64_t id)
{
    bool found = json_is_integer(list) && json_integer_value(list) == id;
    for (size_t i = 0; i < json_array_size(list); i++)
        found = found || json_integer_value(json_array_get(list, i)) == id;
    return found;
}

/* Whether the tokenizer's files, as they are stored, name token NAME: then its id is theirs to
 * tell, and config.json may have another. */
static enum hk_status is_named(const struct putting *p, const char *name, bool *out)
{
    static const enum hk_vocab_key keys[] = {HK_VOCAB_STORED_SETTINGS, HK_VOCAB_STORED_SPECIAL};
    enum hk_status status = HK_OK;
    *out = false;
    for (size_t i = 0; status == HK_OK && i < sizeof keys / sizeof *keys; i++) {
        struct hk_bytes text = {0};
        json_t *json = NULL;
        status = hk_hf_stored_json(p->f, hk_vocab_key(keys[i]), &text, &json, p->err);
        *out = *out || hk_hf_field(json, name) != NULL;
        json_decref(json);
    }
    return status;
}

/* Where the stored config has no such field, it is the tokenizer's files that say it. */
static enum hk_status put_id(struct putting *p, enum hk_vocab_key key, const char *name)
{
    char field[32];
    bool named = false;
    int64_t id;
    snprintf(field, sizeof field, "%s_id", name);
    enum hk_status status = get_id(p, key, &id);
    const int64_t before = first_id(json_object_get(p->json, field));
    if (status == HK_OK && !is_new(p))
        status = is_named(p, name, &named);
    if (status != HK_OK || id == before || named || (!is_new(p) && before < 0))
        return status;
    set(p, field, id >= 0 ? json_integer(id) : json_null());
    return HK_OK;
}

static void add_end(struct putting *p, int64_t id)
{
    if (id >= 0 && !has_id(p->ends, id) && json_array_append_new(p->ends, json_integer(id)) != 0)
        p->no_memory = true;
}

enum { MOST_ENDS = 4096 };

static enum hk_status list_ends(struct putting *p)
{
    static const enum hk_vocab_key keys[] = {HK_VOCAB_EOS, HK_VOCAB_EOT, HK_VOCAB_EOM};
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_END_IDS);
    struct hk_array a = {0};
    enum hk_status status = HK_OK;
    p->ends = json_array();
    p->no_memory = p->no_memory || p->ends == NULL;
    for (size_t i = 0; status == HK_OK && i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        status = get_id(p, keys[i], &id);
        add_end(p, id);
    }
    if (status == HK_OK && kv != NULL)
        status = hk_kv_array(kv, HK_ARRAY_I32, &a, p->err);
    if (status == HK_OK && a.count > MOST_ENDS)
        status = hk_fail(p->err, HK_E_RANGE, kv->offset, "key %s lists %u tokens, more than %d",
                         hk_vocab_key(HK_VOCAB_END_IDS), a.count, (int)MOST_ENDS);
    for (uint32_t i = 0; status == HK_OK && i < a.count; i++)
        add_end(p, hk_array_i32(&a, i));
    hk_array_free(&a);
    return status;
}

/* -1 stands for no token there. */
static bool still_ends_one(const struct putting *p, const json_t *id)
{
    return json_is_integer(id) &&
           (json_integer_value(id) < 0 || has_id(p->ends, json_integer_value(id)));
}

/* Every id of the stored LIST, which may be one alone, ends texts by the keys, too. */
static bool still_ends(const struct putting *p, const json_t *list)
{
    bool all =
        json_array_size(list) <= MOST_ENDS && (!json_is_integer(list) || still_ends_one(p, list));
    for (size_t i = 0; all && i < json_array_size(list); i++)
        all = still_ends_one(p, json_array_get(list, i));
    return all;
}

/* Whether the two stored lists together are what the keys say. */
static bool ends_are_stored(const struct putting *p)
{
    const json_t *here = json_object_get(p->json, "eos_token_id");
    const json_t *there = json_object_get(p->stored.generation, "eos_token_id");
    int64_t id;
    if (is_new(p) || get_id(p, HK_VOCAB_EOS, &id) != HK_OK)
        return false;
    bool same = still_ends(p, here) && still_ends(p, there);
    for (size_t i = 0; i < json_array_size(p->ends); i++) {
        const int64_t end = json_integer_value(json_array_get(p->ends, i));
        same = same && (end == id || has_id(here, end) || has_id(there, end));
    }
    return same;
}

static enum hk_status put_ends(struct putting *p)
{
    enum hk_status status = list_ends(p);
    const size_t count = json_array_size(p->ends);
    if (status != HK_OK || ends_are_stored(p))
        return status;
    json_t *ends = count == 0   ? json_null()
                   : count == 1 ? json_incref(json_array_get(p->ends, 0))
                                : json_copy(p->ends);
    set(p, "eos_token_id", json_incref(ends));
    if (p->generation == NULL && count > 1) {
        json_t *bos = json_object_get(p->json, "bos_token_id");
        p->generation = json_object();
        if (json_is_integer(bos))
            set_in(p, p->generation, "bos_token_id", json_incref(bos));
    }
    if (p->generation != NULL) {
        set_in(p, p->generation, "eos_token_id", json_incref(ends));
        p->generation_changed = true;
    }
    json_decref(ends);
    return HK_OK;
}

static enum hk_status put_tokens(struct putting *p)
{
    enum hk_status status = put_id(p, HK_VOCAB_BOS, "bos_token");
    if (status == HK_OK)
        status = put_ends(p);
    if (status == HK_OK)
        status = put_id(p, HK_VOCAB_PAD, "pad_token");
    return status;
}

/* ---- the files ---- */

static void put_dtype(struct putting *p, enum hk_type dense)
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
            (is_new(p) || (before != NULL && strcmp(before, names[i].name) != 0)))
            set(p, field, json_string(names[i].name));
}

/* The classes rotate heads whole, unless the stored config says how much of them. */
static enum hk_status refuse_partial_rope(const struct putting *p)
{
    const struct hk_model_params *m = &p->model;
    if (m->rope_dims == m->key_dim ||
        (!is_new(p) && m->halves && m->rope_dims == p->stored.config.model.rope_dims))
        return HK_OK;
    return hk_fail(p->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "key %s is %u of %u: heads that are rotated in part are not exported",
                   hk_key_text(m->architecture, HK_KEY_ROPE_DIMENSION_COUNT).s, m->rope_dims,
                   m->key_dim);
}

static enum hk_status read_all(struct putting *p, const struct hk_model_params *model)
{
    enum hk_status status = hk_hf_stored_read(p->f, &p->stored, p->err);
    p->model = *model;
    if (status == HK_OK)
        status = hk_output_is_tied(p->f, p->stored.config.tied, &p->tied, p->err);
    if (status != HK_OK)
        return status;
    p->json = is_new(p) ? json_object() : json_deep_copy(p->stored.json);
    p->generation = json_deep_copy(p->stored.generation);
    p->no_memory = p->json == NULL || (p->generation == NULL && p->stored.generation != NULL);
    return refuse_partial_rope(p);
}

static enum hk_status add_file(const struct putting *p, const char *name, json_t *json,
                               bool changed, struct hk_bytes stored, struct hk_side_files *out)
{
    struct hk_buf text = {0};
    if (json == NULL)
        return HK_OK;
    if (changed)
        return hk_side_files_json(out, name, json, p->err);
    hk_buf_put(&text, stored.p, stored.n);
    return hk_side_files_add(out, name, &text, p->err);
}

static enum hk_status put_all(struct putting *p, enum hk_type dense, struct hk_side_files *out)
{
    put_class(p);
    put_counts(p);
    if (is_new(p) || differ(p->model.epsilon, p->stored.config.model.epsilon))
        set(p, "rms_norm_eps", number(p->model.epsilon));
    put_rope(p);
    put_dtype(p, dense);
    enum hk_status status = put_tokens(p);
    if (status == HK_OK && p->no_memory)
        status = hk_fail_nomem(p->err);
    if (status == HK_OK)
        status = add_file(p, "config.json", p->json, p->changed, p->stored.text, out);
    if (status == HK_OK)
        status = add_file(p, "generation_config.json", p->generation, p->generation_changed,
                          p->stored.generation_text, out);
    return status;
}

enum hk_status hk_hf_put_config(const struct hk_file *f, const struct hk_model_params *model,
                                enum hk_type dense, struct hk_side_files *out, struct hk_error *err)
{
    struct putting p = {.f = f, .err = err};
    enum hk_status status = read_all(&p, model);
    if (status == HK_OK)
        status = put_all(&p, dense, out);
    json_decref(p.json);
    json_decref(p.generation);
    json_decref(p.ends);
    hk_hf_stored_free(&p.stored);
    return status;
}
