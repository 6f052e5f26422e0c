/* Hyperparameters from metadata, for whoever runs, writes or changes a model: what is absent has
 * the default of the file format, what is not run is refused, nothing is taken unchecked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/model/model.h"

/* No dimension of a model comes near it, and products of three fit 64 bits. */
enum { MAX_SIZE = 1 << 20, MAX_CONTEXT = 1 << 30 };

struct params_reading {
    const struct hk_key_source *s;
    const char *architecture;
    bool runs; /* HK_PARAMS_TO_RUN */
    struct hk_error *err;
    enum hk_status st; /* of the first failure: after it nothing is read */
};

static const struct hk_kv *find_param(const struct params_reading *r, enum hk_model_key key)
{
    return hk_key_find(r->s, r->architecture, key);
}

static void fail_missing_key(struct params_reading *r, enum hk_model_key key)
{
    r->st = hk_fail(r->err, HK_E_MISSING, HK_NO_OFFSET, "no key %s",
                    hk_key_text(r->architecture, key).s);
}

/* An integer of 1 to MAX_SIZE, or MAX_CONTEXT; where the key is absent FALLBACK, and 0 there means
 * that it must not be in a model that is run. */
static uint32_t read_size_param(struct params_reading *r, enum hk_model_key key, uint32_t fallback)
{
    const int64_t max = key == HK_KEY_CONTEXT_LENGTH ? MAX_CONTEXT : MAX_SIZE;
    const struct hk_kv *kv = find_param(r, key);
    int64_t v = fallback;
    if (r->st != HK_OK)
        return fallback;
    if (kv != NULL)
        r->st = hk_kv_int(kv, &v, r->err);
    else if (fallback == 0 && r->runs)
        fail_missing_key(r, key);
    if (r->st == HK_OK && kv != NULL && (v < 1 || v > max))
        r->st = hk_fail(r->err, HK_E_RANGE, kv->offset, "key %.*s is %lld, not 1 to %lld",
                        HK_STR(kv->key), (long long)v, (long long)max);
    return r->st == HK_OK ? (uint32_t)v : fallback;
}

/* A finite number above 0, or at least 0 where ZERO is allowed. */
static double read_number_param(struct params_reading *r, enum hk_model_key key, bool zero,
                                double fallback)
{
    const struct hk_kv *kv = find_param(r, key);
    double v = fallback;
    if (r->st != HK_OK || kv == NULL)
        return fallback;
    r->st = hk_kv_float(kv, &v, r->err);
    if (r->st == HK_OK && !((v > 0 || (zero && v == 0)) && isfinite(v)))
        r->st = hk_fail(r->err, HK_E_RANGE, kv->offset, "key %.*s is %g, not a number %s 0",
                        HK_STR(kv->key), v, zero ? "from" : "above");
    return r->st == HK_OK ? v : fallback;
}

static double read_positive_param(struct params_reading *r, enum hk_model_key key, double fallback)
{
    return read_number_param(r, key, false, fallback);
}

/* ---- features ---- */

static int64_t read_feature_count(struct params_reading *r, enum hk_model_key key, const char *what)
{
    const struct hk_kv *kv = find_param(r, key);
    int64_t v = 0;
    if (r->st != HK_OK || kv == NULL)
        return 0;
    r->st = hk_kv_int(kv, &v, r->err);
    if (r->st == HK_OK && v != 0 && r->runs)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset, "key %.*s is %lld: %s not supported",
                        HK_STR(kv->key), (long long)v, what);
    return v;
}

static bool read_causal(struct params_reading *r)
{
    const struct hk_kv *kv = find_param(r, HK_KEY_CAUSAL);
    bool causal = true;
    if (r->st != HK_OK || kv == NULL)
        return true;
    r->st = hk_kv_bool(kv, &causal, r->err);
    if (r->st == HK_OK && !causal && r->runs)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s is false: attention that is not causal is not supported",
                        HK_STR(kv->key));
    return causal;
}

/* It changes the magnitude, of families that have it. */
static double read_log_multiplier(struct params_reading *r, const struct hk_family *family)
{
    const struct hk_kv *kv = find_param(r, HK_KEY_YARN_LOG_MULTIPLIER);
    double v = 0;
    if (r->st != HK_OK || kv == NULL)
        return 0;
    r->st = hk_kv_float(kv, &v, r->err);
    if (r->st == HK_OK && (v < 0 || (v != 0 && !family->tempers)) && r->runs)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s is %g, which is not "
                        "supported",
                        HK_STR(kv->key), v);
    return v;
}

/* The text of KV, which may be NULL; false where there is none. */
static bool read_text_param(struct params_reading *r, const struct hk_kv *kv, struct hk_bytes *out)
{
    if (r->st == HK_OK && kv != NULL)
        r->st = hk_kv_string(kv, out, r->err);
    return r->st == HK_OK && kv != NULL;
}

/* What the file names; or linear where only a factor is there. */
static enum hk_rope_kind read_scaling_kind(struct params_reading *r)
{
    const struct hk_kv *kv = find_param(r, HK_KEY_SCALING_TYPE);
    const bool factor = find_param(r, HK_KEY_SCALING_FACTOR) != NULL ||
                        find_param(r, HK_KEY_ROPE_SCALE_LINEAR) != NULL;
    enum hk_rope_kind kind = factor ? HK_ROPE_LINEAR : HK_ROPE_NONE;
    struct hk_bytes name;
    if (read_text_param(r, kv, &name) && !hk_rope_kind_of(name, &kind))
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s: rope scaling '%.*s' is not supported", HK_STR(kv->key),
                        HK_STR(name));
    return kind;
}

static bool read_row_order(struct params_reading *r, bool fallback, bool only_pairs)
{
    const struct hk_kv *kv = find_param(r, HK_KEY_ROPE_STYLE);
    struct hk_bytes style;
    if (!read_text_param(r, kv, &style))
        return fallback;
    const bool halves = hk_bytes_are(style, hk_rope_style(true));
    if ((!halves && !hk_bytes_are(style, hk_rope_style(false))) || (halves && only_pairs))
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s: order of rows '%.*s' is not supported", HK_STR(kv->key),
                        HK_STR(style));
    return halves;
}

/* What is not run is never reported as broken: it comes first. */
static void read_features(struct params_reading *r, struct hk_model_params *p)
{
    p->causal = read_causal(r);
    p->rope.kind = read_scaling_kind(r);
    p->rope.log_multiplier = read_log_multiplier(r, p->family);
    p->halves = read_row_order(r, !p->family->pairs_in_gguf, p->family->pairs_in_hf);
}

/* ---- experts ---- */

static bool read_flag_param(struct params_reading *r, enum hk_model_key key, bool fallback)
{
    const struct hk_kv *kv = find_param(r, key);
    bool v = fallback;
    if (r->st == HK_OK && kv != NULL)
        r->st = hk_kv_bool(kv, &v, r->err);
    return v;
}

/* A number from 0 on. */
static uint32_t read_count_param(struct params_reading *r, enum hk_model_key key, uint32_t fallback)
{
    const struct hk_kv *kv = find_param(r, key);
    int64_t v = fallback;
    if (r->st != HK_OK || kv == NULL)
        return fallback;
    r->st = hk_kv_int(kv, &v, r->err);
    if (r->st == HK_OK && (v < 0 || v > MAX_CONTEXT))
        r->st = hk_fail(r->err, HK_E_RANGE, kv->offset, "key %.*s is %lld, not 0 to %d",
                        HK_STR(kv->key), (long long)v, (int)MAX_CONTEXT);
    return r->st == HK_OK ? (uint32_t)v : fallback;
}

/* As llama.cpp numbers what scores of experts go through. */
static bool read_gating(struct params_reading *r, bool fallback)
{
    enum { SOFTMAX = 1, SIGMOID = 2 };
    const struct hk_kv *kv = find_param(r, HK_KEY_EXPERT_GATING);
    int64_t v = fallback ? SIGMOID : SOFTMAX;
    if (r->st == HK_OK && kv != NULL)
        r->st = hk_kv_int(kv, &v, r->err);
    if (r->st == HK_OK && v != SOFTMAX && v != SIGMOID)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s is %lld: only 1 (softmax) and 2 (sigmoid) are supported",
                        HK_STR(kv->key), (long long)v);
    return v == SIGMOID;
}

static void read_routing(struct params_reading *r, struct hk_model_params *p)
{
    p->sigmoid_scores = read_gating(r, p->family->sigmoid_scores);
    p->experts_scale = read_positive_param(r, HK_KEY_EXPERT_WEIGHTS_SCALE, 1);
    p->expert_groups = read_count_param(r, HK_KEY_EXPERT_GROUPS, 0);
    p->expert_groups_used = read_count_param(r, HK_KEY_EXPERT_GROUPS_USED, 0);
    if (p->expert_groups <= 1)
        p->expert_groups = p->expert_groups_used = 0;
    if (r->st == HK_OK && p->expert_groups > 0)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                        "key %s is %u: experts in groups are not supported",
                        hk_key_text(r->architecture, HK_KEY_EXPERT_GROUPS).s, p->expert_groups);
    p->dense_layers = read_count_param(r, HK_KEY_LEADING_DENSE, 0);
}

/* That of the expert that all tokens have. */
static uint32_t read_shared_ffn(struct params_reading *r, const struct hk_model_params *p)
{
    const uint32_t count = read_count_param(r, HK_KEY_EXPERT_SHARED_COUNT, 0);
    const uint64_t all = (uint64_t)count * p->expert_ffn;
    if ((p->family->tensors & HK_HAS_SHARED_EXPERT) == 0)
        return 0;
    return read_size_param(r, HK_KEY_EXPERT_SHARED_FFN_LENGTH,
                           all > 0 && all <= MAX_SIZE ? (uint32_t)all : p->ffn);
}

static void read_experts(struct params_reading *r, struct hk_model_params *p)
{
    const bool has = (p->family->tensors & HK_HAS_EXPERTS) != 0;
    if (!has)
        p->experts = read_feature_count(r, HK_KEY_EXPERT_COUNT, "mixtures of experts are");
    if (!has)
        return;
    p->experts = read_size_param(r, HK_KEY_EXPERT_COUNT, 0);
    p->experts_used = read_size_param(r, HK_KEY_EXPERT_USED_COUNT, 0);
    p->expert_ffn = read_size_param(r, HK_KEY_EXPERT_FFN_LENGTH, p->ffn);
    p->shared_ffn = read_shared_ffn(r, p);
    read_routing(r, p);
    p->experts_add_up = read_flag_param(r, HK_KEY_EXPERT_WEIGHTS_NORM, p->family->experts_add_up);
    if (r->st == HK_OK && p->experts_used > p->experts)
        r->st = hk_fail(r->err, HK_E_RANGE, HK_NO_OFFSET,
                        "key %s is %u, above the %lld experts that there are",
                        hk_key_text(r->architecture, HK_KEY_EXPERT_USED_COUNT).s, p->experts_used,
                        (long long)p->experts);
}

/* ---- sizes ---- */

static void read_model_sizes(struct params_reading *r, struct hk_model_params *p)
{
    p->layers = read_size_param(r, HK_KEY_BLOCK_COUNT, 0);
    p->next_layers = read_count_param(r, HK_KEY_NEXT_TOKEN_LAYERS, 0);
    if (r->st == HK_OK && p->next_layers > 0 && p->next_layers >= p->layers)
        r->st = hk_fail(r->err, HK_E_RANGE, HK_NO_OFFSET, "key %s is %u, of %u layers",
                        hk_key_text(r->architecture, HK_KEY_NEXT_TOKEN_LAYERS).s, p->next_layers,
                        p->layers);
    else
        p->layers -= p->next_layers;
    p->hidden = read_size_param(r, HK_KEY_EMBEDDING_LENGTH, 0);
    p->ffn = read_size_param(r, HK_KEY_FEED_FORWARD_LENGTH, 0);
    p->heads = read_size_param(r, HK_KEY_HEAD_COUNT, 0);
    p->kv_heads = read_size_param(r, HK_KEY_HEAD_COUNT_KV, p->heads);
    p->context = read_size_param(r, HK_KEY_CONTEXT_LENGTH, 2048);
    if (r->st != HK_OK)
        return;
    if (p->kv_heads != 0 && p->heads % p->kv_heads != 0)
        r->st = hk_fail(r->err, HK_E_FORMAT, HK_NO_OFFSET,
                        "%u heads cannot share %u heads of keys and values", p->heads, p->kv_heads);
    else if (p->layers > r->s->max_layers)
        r->st = hk_fail(r->err, HK_E_RANGE, find_param(r, HK_KEY_BLOCK_COUNT)->offset,
                        "key %s is %u, but the file has %zu tensors",
                        hk_key_text(r->architecture, HK_KEY_BLOCK_COUNT).s, p->layers,
                        r->s->max_layers);
}

/* Sizes of a head: stated, or the hidden size shared out among the heads. */
static void read_head_sizes(struct params_reading *r, struct hk_model_params *p)
{
    const bool whole = r->st == HK_OK && p->heads != 0 && p->hidden % p->heads == 0;
    const uint32_t shared = whole ? p->hidden / p->heads : 0;
    p->key_dim = read_size_param(r, HK_KEY_KEY_LENGTH, shared);
    p->value_dim = read_size_param(r, HK_KEY_VALUE_LENGTH, shared);
    p->rope_dims = read_size_param(r, HK_KEY_ROPE_DIMENSION_COUNT, p->key_dim);
    if (r->st == HK_OK && p->key_dim != 0 && (p->rope_dims % 2 != 0 || p->rope_dims > p->key_dim))
        r->st = hk_fail(
            r->err, HK_E_FORMAT, HK_NO_OFFSET, "key %s is %u: not even, or above the head's %u",
            hk_key_text(r->architecture, HK_KEY_ROPE_DIMENSION_COUNT).s, p->rope_dims, p->key_dim);
}

/* ---- attention ---- */

/* A list says of each layer whether it has a window: those without one are the last of so many. */
static void read_window_list(struct params_reading *r, const struct hk_kv *kv,
                             struct hk_model_params *p)
{
    struct hk_array list;
    uint32_t whole = 0;
    r->st = hk_kv_array(kv, HK_ARRAY_I32, &list, r->err);
    if (r->st != HK_OK)
        return;
    while (whole < list.count && hk_array_i32(&list, whole) != 0)
        whole++;
    p->whole_every = whole < list.count ? whole + 1 : 0;
    bool good = list.count == p->layers;
    for (uint32_t i = 0; i < list.count; i++)
        good =
            good && (p->window == 0 || (hk_array_i32(&list, i) != 0) == hk_layer_has_window(p, i));
    hk_array_free(&list);
    if (!good)
        r->st = hk_fail(r->err, HK_E_UNSUPPORTED, kv->offset,
                        "key %.*s: layers without a window are not at equal distances",
                        HK_STR(kv->key));
}

static void read_windows(struct params_reading *r, struct hk_model_params *p)
{
    const struct hk_kv *pattern = find_param(r, HK_KEY_WINDOW_PATTERN);
    p->window = read_count_param(r, HK_KEY_SLIDING_WINDOW, 0);
    if (r->st == HK_OK && pattern != NULL && pattern->type == HK_META_BYTES)
        read_window_list(r, pattern, p);
    else
        p->whole_every = read_count_param(r, HK_KEY_WINDOW_PATTERN, p->family->whole_every);
    p->no_rope_every = p->family->no_rope_every;
    if (p->family->tempers)
        p->temperature = read_number_param(r, HK_KEY_TEMPERATURE_SCALE, true, 0);
    if (p->family->window_rope_base > 0)
        p->window_rope_base =
            read_positive_param(r, HK_KEY_ROPE_FREQ_BASE_SWA, p->family->window_rope_base);
}

/* Gemma in its largest sizes scales scores by what is a head's share of the hidden size, and GGUF
 * files of it do not say so. */
static double usual_attention_scale(const struct hk_model_params *p)
{
    const bool shared = p->layers == p->family->shared_scale_layers;
    const double dim = shared && p->heads > 0 ? (double)p->hidden / p->heads : p->key_dim;
    return dim > 0 ? 1 / sqrt(dim) : 1;
}

/* ---- numbers that others are multiplied with ---- */

static void read_scales(struct params_reading *r, struct hk_model_params *p)
{
    const double root = p->family->scales_embedding ? sqrt(p->hidden) : 1;
    p->attention_scale = read_positive_param(r, HK_KEY_ATTENTION_SCALE, usual_attention_scale(p));
    p->attention_cap = read_number_param(r, HK_KEY_ATTENTION_CAP, true, 0);
    p->logits_cap = read_number_param(r, HK_KEY_LOGITS_CAP, true, 0);
    p->embedding_scale = read_positive_param(r, HK_KEY_EMBEDDING_SCALE, root);
    p->residual_scale = read_positive_param(r, HK_KEY_RESIDUAL_SCALE, 1);
    p->logits_divisor = read_positive_param(r, HK_KEY_LOGITS_DIVISOR, 1);
}

/* ---- rope ---- */

/* Keys of llama.cpp where it has them, else of this format. What yarn adds to the magnitude is its
 * attention factor, 1 + 0.1 ln(factor); files may state a further one, of any scaling. */
static void read_yarn_params(struct params_reading *r, struct hk_rope *rope)
{
    rope->beta_fast = read_positive_param(r, HK_KEY_BETA_FAST, 32);
    rope->beta_slow = read_positive_param(r, HK_KEY_BETA_SLOW, 1);
    rope->beta_fast = read_positive_param(r, HK_KEY_YARN_BETA_FAST, rope->beta_fast);
    rope->beta_slow = read_positive_param(r, HK_KEY_YARN_BETA_SLOW, rope->beta_slow);
    rope->yarn_attn_factor = read_positive_param(r, HK_KEY_YARN_ATTN_FACTOR, 1);
    rope->ext_factor =
        read_number_param(r, HK_KEY_YARN_EXT_FACTOR, true, rope->kind == HK_ROPE_YARN ? 1 : 0);
    rope->attn_factor = read_positive_param(r, HK_KEY_SCALING_ATTN_FACTOR, 1);
}

static void settle_magnitude(struct params_reading *r, struct hk_rope *rope)
{
    const bool blends = rope->ext_factor != 0 && rope->kind != HK_ROPE_LLAMA3;
    if (blends && rope->kind == HK_ROPE_DYNAMIC)
        rope->factor = 1;
    rope->magnitude = rope->attn_factor;
    if (rope->ext_factor == 0)
        rope->magnitude *= rope->yarn_attn_factor;
    else if (blends)
        rope->magnitude *= hk_yarn_magnitude(rope->factor, 1) /
                           hk_yarn_magnitude(rope->factor, rope->log_multiplier);
    if (blends)
        rope->kind = HK_ROPE_YARN;
    if (rope->kind == HK_ROPE_YARN && rope->base <= 1)
        r->st = hk_fail(r->err, HK_E_RANGE, HK_NO_OFFSET, "key %s is %g: yarn needs one above 1",
                        hk_key_text(r->architecture, HK_KEY_ROPE_FREQ_BASE).s, rope->base);
}

static void read_rope_params(struct params_reading *r, struct hk_model_params *p)
{
    struct hk_rope *rope = &p->rope;
    rope->base = read_positive_param(r, HK_KEY_ROPE_FREQ_BASE, 10000);
    rope->factor = read_positive_param(r, HK_KEY_ROPE_SCALE_LINEAR, 1);
    rope->factor = read_positive_param(r, HK_KEY_SCALING_FACTOR, rope->factor);
    rope->original = read_positive_param(r, HK_KEY_SCALING_ORIGINAL, p->context);
    rope->between_pairs = p->family->between_pairs;
    rope->low_freq = read_positive_param(r, HK_KEY_LOW_FREQ_FACTOR, 1);
    rope->high_freq = read_positive_param(r, HK_KEY_HIGH_FREQ_FACTOR, 4);
    if (rope->kind == HK_ROPE_NONE)
        rope->factor = 1;
    if (r->st == HK_OK && rope->kind == HK_ROPE_LLAMA3 && rope->high_freq <= rope->low_freq)
        r->st = hk_fail(r->err, HK_E_RANGE, HK_NO_OFFSET, "key %s is %g, not above the low one, %g",
                        hk_key_text(r->architecture, HK_KEY_HIGH_FREQ_FACTOR).s, rope->high_freq,
                        rope->low_freq);
    read_yarn_params(r, rope);
    if (r->st == HK_OK)
        settle_magnitude(r, rope);
}

/* ---- all ---- */

/* Some architectures are two families. */
static bool has_experts(const struct hk_key_source *s, const char *architecture)
{
    const struct hk_kv *kv = hk_key_find(s, architecture, HK_KEY_EXPERT_COUNT);
    int64_t count = 0;
    return kv != NULL && hk_kv_int(kv, &count, NULL) == HK_OK && count > 0;
}

enum hk_status hk_family_read(const struct hk_key_source *s, const struct hk_family **family,
                              const char **architecture, struct hk_error *err)
{
    const struct hk_kv *kv = hk_key_find(s, "", HK_KEY_ARCHITECTURE);
    struct hk_bytes name;
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no key %s: not a model that can be run",
                       hk_key_text("", HK_KEY_ARCHITECTURE).s);
    enum hk_status st = hk_kv_string(kv, &name, err);
    if (st != HK_OK)
        return st;
    *family = hk_family_of_architecture(name, architecture);
    if (*family != NULL && has_experts(s, *architecture))
        *family = hk_family_with_experts(*family);
    return *family != NULL ? HK_OK
                           : hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                                     "architecture '%.*s' is not supported", HK_STR(name));
}

enum hk_model_key hk_epsilon_key(const struct hk_family *family)
{
    return family->norm == HK_NORM_LAYER ? HK_KEY_LAYER_NORM_EPSILON : HK_KEY_NORM_EPSILON;
}

enum hk_status hk_params_read(const struct hk_key_source *s, enum hk_params_use use,
                              struct hk_model_params *out, struct hk_error *err)
{
    struct hk_model_params p = {0};
    struct params_reading r = {.s = s, .runs = use == HK_PARAMS_TO_RUN, .err = err};
    r.st = hk_family_read(s, &p.family, &p.architecture, err);
    if (r.st != HK_OK)
        return r.st;
    r.architecture = p.architecture;
    p.norm = p.family->norm;
    p.activation = p.family->activation;
    read_features(&r, &p);
    read_model_sizes(&r, &p);
    read_experts(&r, &p);
    read_head_sizes(&r, &p);
    read_rope_params(&r, &p);
    read_windows(&r, &p);
    read_scales(&r, &p);
    p.epsilon = read_positive_param(&r, hk_epsilon_key(p.family), 1e-5);
    if (r.st == HK_OK)
        *out = p;
    return r.st;
}

enum hk_status hk_model_params_read(struct hk_model_params *out, const struct hk_file *f,
                                    struct hk_error *err)
{
    const struct hk_key_source s = hk_keys_of_file(f);
    return hk_params_read(&s, HK_PARAMS_TO_RUN, out, err);
}

enum hk_status hk_params_need(const struct hk_model_params *p, enum hk_model_key key,
                              uint32_t value, struct hk_error *err)
{
    if (value != 0)
        return HK_OK;
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no key %s",
                   hk_key_text(p->architecture, key).s);
}
