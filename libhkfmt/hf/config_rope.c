/* The rope of config.json as keys. Its place and spelling moved between versions of the library:
 * rope_theta and partial_rotary_factor stood beside rope_scaling before they moved into it and it
 * became rope_parameters, whose kind was "type" before it was "rope_type". Where several are there
 * they have to agree.
 *
 * Kinds are those of transformers; its formulas are the meaning, the keys those of llama.cpp where
 * it has some. What would have to be left out or put otherwise is refused. */
#include <math.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"

struct rope {
    struct hk_hf_in *in;
    const struct hk_hf_config *c;
    const json_t *o; /* rope_scaling or rope_parameters; NULL: absent */
    double base, factor, original;
    uint32_t dims;
};

/* ---- where it stands ---- */

static const json_t *take_agreed(struct rope *r, const char *name, const json_t *a, const json_t *b)
{
    if (a != NULL && b != NULL && !json_equal(a, b) &&
        !(json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b)))
        hk_hf_refuse(r->in, HK_E_FORMAT, name, a, "another place says otherwise");
    return a != NULL ? a : b;
}

/* In version 5 a model whose layers differ has an object for each kind of layer in it. */
static const json_t *rope_of_layers(const struct rope *r, const json_t *o)
{
    const json_t *full = hk_hf_field(o, "full_attention");
    const bool both =
        r->c->family->window_rope_base > 0 && json_is_object(hk_hf_field(o, "sliding_attention"));
    return json_is_object(full) && json_object_size(o) == (both ? 2 : 1) ? full : o;
}

/* Layers with a window turn by a base of their own, where the family has one, unscaled. */
static void read_window_rope(struct rope *r)
{
    const json_t *json = r->c->json, *o = hk_hf_field(json, "rope_parameters");
    const json_t *own = hk_hf_field(o, "sliding_attention");
    struct hk_bytes kind = {(const uint8_t *)"default", 7};
    double base = r->c->family->window_rope_base;
    if (base == 0)
        return;
    hk_hf_text(r->in, own, "rope_type", &kind);
    if (r->in->st == HK_OK && !hk_bytes_are(kind, "default"))
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "sliding_attention", own,
                     "layers with a window are not scaled");
    hk_hf_positive(r->in, json, "rope_local_base_freq", &base);
    hk_hf_positive(r->in, own, "rope_theta", &base);
    if (r->in->st == HK_OK)
        hk_kvlist_float(r->in->out, hk_key_text(r->in->arch, HK_KEY_ROPE_FREQ_BASE_SWA).s, base);
}

static void find_rope_object(struct rope *r)
{
    const json_t *json = r->c->json;
    const json_t *o = take_agreed(r, "rope_scaling", hk_hf_field(json, "rope_scaling"),
                                  hk_hf_field(json, "rope_parameters"));
    if (o != NULL && !json_is_object(o))
        hk_hf_refuse(r->in, HK_E_FORMAT, "rope_scaling", o, "no object");
    r->o = rope_of_layers(r, o);
}

/* A number that may stand inside the object and beside it. */
static void read_outer_number(struct rope *r, const char *name, double *v)
{
    const json_t *json = r->c->json;
    take_agreed(r, name, hk_hf_field(json, name), hk_hf_field(r->o, name));
    hk_hf_positive(r->in, json, name, v);
    hk_hf_positive(r->in, r->o, name, v);
}

static void check_rope_names(struct rope *r)
{
    static const char *const known[] = {
        "rope_type",
        "type",
        "rope_theta",
        "partial_rotary_factor",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "low_freq_factor",
        "high_freq_factor",
        "finetuned",
        "llama_4_scaling_beta",
        "max_position_embeddings",
        "short_factor",
        "long_factor",
    };
    void *at;
    const size_t count = sizeof known / sizeof *known;
    for (at = json_object_iter((json_t *)(uintptr_t)r->o); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)r->o, at)) {
        size_t i = 0;
        while (i < count && strcmp(known[i], json_object_iter_key(at)) != 0)
            i++;
        if (i == count && !json_is_null(json_object_iter_value(at)))
            hk_hf_refuse(r->in, HK_E_UNSUPPORTED, json_object_iter_key(at),
                         json_object_iter_value(at), "not known of a rope");
    }
}

/* ---- kinds ---- */

static void need_rope_factor(struct rope *r)
{
    hk_hf_need(r->in, r->o, "factor");
    hk_hf_positive(r->in, r->o, "factor", &r->factor);
    if (r->in->st == HK_OK && r->factor < 1)
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "factor", hk_hf_field(r->o, "factor"), "below 1");
}

static void put_rope_float(struct rope *r, enum hk_model_key key, double v)
{
    hk_kvlist_float(r->in->out, hk_key_text(r->in->arch, key).s, v);
}

static void put_scaling_keys(struct rope *r, enum hk_rope_kind kind)
{
    hk_kvlist_text(r->in->out, hk_key_text(r->in->arch, HK_KEY_SCALING_TYPE).s, hk_rope_name(kind));
    put_rope_float(r, HK_KEY_SCALING_FACTOR, r->factor);
}

static void put_original_key(struct rope *r)
{
    hk_kvlist_int(r->in->out, hk_key_text(r->in->arch, HK_KEY_SCALING_ORIGINAL).s,
                  (int64_t)r->original);
}

static void read_original_context(struct rope *r)
{
    static const char name[] = "original_max_position_embeddings";
    uint32_t v = r->c->model.context;
    take_agreed(r, name, hk_hf_field(r->c->json, name), hk_hf_field(r->o, name));
    hk_hf_count(r->in, r->c->json, name, &v);
    hk_hf_count(r->in, r->o, name, &v);
    r->original = v;
}

static void read_default_rope(struct rope *r)
{
    if (hk_hf_field(r->o, "rope_type") == NULL && hk_hf_field(r->o, "type") == NULL &&
        hk_hf_field(r->o, "factor") != NULL)
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "factor", hk_hf_field(r->o, "factor"),
                     "of what kind of rope is not said");
}

static void read_linear_rope(struct rope *r)
{
    need_rope_factor(r);
    put_scaling_keys(r, HK_ROPE_LINEAR);
}

/* Up to max_position_embeddings it is plain, whatever the factor; beyond them every position would
 * change with the length of the text. */
static void read_dynamic_rope(struct rope *r)
{
    need_rope_factor(r);
    put_scaling_keys(r, HK_ROPE_DYNAMIC);
}

static void read_llama3_rope(struct rope *r)
{
    double low = 1, high = 4;
    static const char *const names[] = {"low_freq_factor", "high_freq_factor"};
    for (size_t i = 0; i < 2; i++)
        hk_hf_need(r->in, r->o, names[i]);
    if (hk_hf_field(r->c->json, "original_max_position_embeddings") == NULL)
        hk_hf_need(r->in, r->o, "original_max_position_embeddings");
    need_rope_factor(r);
    read_original_context(r);
    hk_hf_positive(r->in, r->o, names[0], &low);
    hk_hf_positive(r->in, r->o, names[1], &high);
    if (r->in->st == HK_OK && high <= low)
        hk_hf_refuse(r->in, HK_E_FORMAT, names[1], hk_hf_field(r->o, names[1]),
                     "not above low_freq_factor");
    put_scaling_keys(r, HK_ROPE_LLAMA3);
    put_original_key(r);
    put_rope_float(r, HK_KEY_LOW_FREQ_FACTOR, low);
    put_rope_float(r, HK_KEY_HIGH_FREQ_FACTOR, high);
}

/* ---- yarn ---- */

/* What cosine and sine are multiplied with. mscale counts only where mscale_all_dim is there too,
 * and neither of them where it is stated. */
static double read_yarn_magnitude(struct rope *r)
{
    double v = 0, scale = 0, all = 0;
    hk_hf_positive(r->in, r->o, "attention_factor", &v);
    hk_hf_number(r->in, r->o, "mscale", &scale);
    hk_hf_number(r->in, r->o, "mscale_all_dim", &all);
    if (v > 0)
        return v;
    if (scale == 0 || all == 0)
        return hk_yarn_magnitude(r->factor, 1);
    v = hk_yarn_magnitude(r->factor, scale) / hk_yarn_magnitude(r->factor, all);
    if (r->in->st == HK_OK && !((float)v > 0 && (float)v <= 1e6f))
        hk_hf_refuse(r->in, HK_E_RANGE, "mscale", hk_hf_field(r->o, "mscale"), "out of range");
    return v;
}

/* Where the pairs to be blended lie outside of those that there are, the library and llama.cpp take
 * different ways out; so short or long a context is a mistake. */
static void check_yarn_blend(struct rope *r, double fast, double slow)
{
    const struct hk_rope rope = {.base = r->base, .original = r->original};
    if (r->in->st != HK_OK)
        return;
    if (r->base <= 1)
        hk_hf_refuse(r->in, HK_E_RANGE, "rope_type", hk_hf_field(r->o, "rope_type"),
                     "needs a rope_theta above 1");
    else if (fast < slow)
        hk_hf_refuse(r->in, HK_E_FORMAT, "beta_fast", hk_hf_field(r->o, "beta_fast"),
                     "below beta_slow");
    else if (hk_rope_pair_of_turns(&rope, r->dims, slow) < 0 ||
             hk_rope_pair_of_turns(&rope, r->dims, fast) > r->dims - 1.0)
        r->in->st = hk_fail(r->in->err, HK_E_RANGE, HK_NO_OFFSET,
                            "%soriginal_max_position_embeddings is %.0f: out of yarn's range",
                            r->in->where, r->original);
}

static void put_yarn_beta(struct rope *r, const char *name, enum hk_model_key key, double v)
{
    if (hk_hf_field(r->o, name) != NULL)
        put_rope_float(r, key, v);
}

/* Whether the magnitude is that of mscale 1 by that of mscale_all_dim, in a family whose GGUF says
 * so. */
static bool divides_magnitude(const struct rope *r)
{
    return r->c->family->tempers && hk_hf_field(r->o, "attention_factor") == NULL &&
           json_number_value(hk_hf_field(r->o, "mscale")) == 1 &&
           json_number_value(hk_hf_field(r->o, "mscale_all_dim")) > 0;
}

static void read_yarn_rope(struct rope *r)
{
    double fast = 32, slow = 1;
    bool truncate = true;
    read_original_context(r);
    if (hk_hf_field(r->o, "factor") == NULL && r->original < r->c->model.context)
        r->factor = r->c->model.context / r->original; /* as the library has it */
    else
        need_rope_factor(r);
    hk_hf_positive(r->in, r->o, "beta_fast", &fast);
    hk_hf_positive(r->in, r->o, "beta_slow", &slow);
    hk_hf_flag(r->in, r->o, "truncate", &truncate);
    if (!truncate)
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "truncate", hk_hf_field(r->o, "truncate"),
                     "not supported");
    check_yarn_blend(r, fast, slow);
    const double m = read_yarn_magnitude(r);
    if (r->in->st != HK_OK)
        return;
    put_scaling_keys(r, HK_ROPE_YARN);
    put_original_key(r);
    /* llama.cpp has this as a factor to what follows from the other, or as what divides it. */
    if (divides_magnitude(r))
        put_rope_float(r, HK_KEY_YARN_LOG_MULTIPLIER,
                       json_number_value(hk_hf_field(r->o, "mscale_all_dim")));
    else if (m != hk_yarn_magnitude(r->factor, 1))
        put_rope_float(r, HK_KEY_SCALING_ATTN_FACTOR, m / hk_yarn_magnitude(r->factor, 1));
    put_yarn_beta(r, "beta_fast", HK_KEY_YARN_BETA_FAST, fast);
    put_yarn_beta(r, "beta_slow", HK_KEY_YARN_BETA_SLOW, slow);
}

/* ---- longrope ---- */

/* Which list of factors counts follows from the context that a runner is given. */
static void read_longrope(struct rope *r)
{
    if ((r->c->family->tensors & HK_MAY_HAVE_LONGROPE) == 0) {
        const json_t *type = hk_hf_field(r->o, "rope_type");
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "rope_type",
                     type != NULL ? type : hk_hf_field(r->o, "type"), "not of this family");
        return;
    }
    read_original_context(r);
    r->factor = r->c->model.context / r->original;
    hk_hf_positive(r->in, r->o, "factor", &r->factor);
    double m = r->factor > 1 && r->original > 1 ? sqrt(1 + log(r->factor) / log(r->original)) : 1;
    hk_hf_positive(r->in, r->o, "attention_factor", &m);
    hk_hf_check_longrope(r->in, r->o, r->dims / 2);
    if (r->in->st != HK_OK)
        return;
    put_original_key(r);
    if (m != 1)
        put_rope_float(r, HK_KEY_SCALING_ATTN_FACTOR, m);
}

/* ---- all ---- */

static const struct kind {
    const char *name;
    void (*read)(struct rope *r); /* NULL: refused for WHY */
    const char *why;
} kinds[] = {
    {"default", read_default_rope, NULL},
    {"linear", read_linear_rope, NULL},
    {"dynamic", read_dynamic_rope, NULL},
    {"yarn", read_yarn_rope, NULL},
    {"llama3", read_llama3_rope, NULL},
    {"longrope", read_longrope, NULL},
    {"su", read_longrope, NULL},
    {"mrope", NULL, "not supported, as its positions have several dimensions"},
    {"proportional", NULL, "not supported"},
};

static const struct kind *find_rope_kind(struct rope *r)
{
    const json_t *type =
        take_agreed(r, "rope_type", hk_hf_field(r->o, "rope_type"), hk_hf_field(r->o, "type"));
    if (type == NULL)
        return &kinds[0];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (json_is_string(type) && strcmp(json_string_value(type), kinds[i].name) == 0) {
            if (kinds[i].read == NULL)
                hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "rope_type", type, kinds[i].why);
            return &kinds[i];
        }
    hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "rope_type", type, "not supported");
    return NULL;
}

static void read_rope_dims(struct rope *r)
{
    double part = r->c->family->rope_part > 0 ? r->c->family->rope_part : 1;
    read_outer_number(r, "partial_rotary_factor", &part);
    if (r->in->st != HK_OK)
        return;
    r->dims = part <= 1 ? (uint32_t)(r->c->model.key_dim * part) : 0;
    if (r->dims < 2 || r->dims % 2 != 0)
        r->in->st = hk_fail(r->in->err, HK_E_FORMAT, HK_NO_OFFSET,
                            "%shead_dim %u with partial_rotary_factor %g: no even number of "
                            "rows up to head_dim to turn",
                            r->in->where, r->c->model.key_dim, part);
}

/* Queries that grow with the position. What is said of the context once more is not looked at. */
static void read_temperature(struct rope *r)
{
    const json_t *field = hk_hf_field(r->o, "llama_4_scaling_beta");
    double v = 0;
    if (field == NULL)
        return;
    if (!r->c->family->tempers)
        hk_hf_refuse(r->in, HK_E_UNSUPPORTED, "llama_4_scaling_beta", field, "not known of a rope");
    hk_hf_positive(r->in, r->o, "llama_4_scaling_beta", &v);
    if (r->in->st == HK_OK)
        put_rope_float(r, HK_KEY_TEMPERATURE_SCALE, v);
}

void hk_hf_read_rope(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    struct rope r = {.in = in, .c = c, .base = 10000, .factor = 1, .original = c->model.context};
    if (c->family->rope_base > 0)
        r.base = c->family->rope_base;
    find_rope_object(&r);
    if (in->st != HK_OK)
        return;
    check_rope_names(&r);
    read_outer_number(&r, "rope_theta", &r.base);
    read_rope_dims(&r);
    read_window_rope(&r);
    const struct kind *kind = find_rope_kind(&r);
    if (in->st != HK_OK)
        return;
    put_rope_float(&r, HK_KEY_ROPE_FREQ_BASE, r.base);
    hk_kvlist_int(in->out, hk_key_text(in->arch, HK_KEY_ROPE_DIMENSION_COUNT).s, r.dims);
    kind->read(&r);
    read_temperature(&r);
}
