/* A runnable model's sizes, from its keys: what transformers would not compute alike is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/write.h"

/* No dimension of a model comes near it, and products of three fit 64 bits. */
enum { MOST = 1 << 20 };

const struct hk_kv *hk_hf_meta(const struct hk_hf_keys *k, const char *suffix)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", k->architecture, suffix);
    return hk_kv_find(k->f, key);
}

double hk_hf_meta_number(struct hk_hf_keys *k, const struct hk_kv *kv, bool zero, double fallback)
{
    double v = fallback;
    if (k->status == HK_OK && kv != NULL)
        k->status = hk_kv_float(kv, &v, k->err);
    if (k->status == HK_OK && !((v > 0 || (zero && v == 0)) && isfinite(v)))
        k->status = hk_fail(k->err, HK_E_RANGE, kv != NULL ? kv->offset : HK_NO_OFFSET,
                            "key %.*s is %g, not a number %s 0",
                            HK_STR(kv != NULL ? kv->key : (struct hk_bytes){0}), v,
                            zero ? "from" : "above");
    return k->status == HK_OK ? v : fallback;
}

/* 1 to MOST; FALLBACK where the key is absent, and 0 there means that it must not be. */
static uint32_t get_count(struct hk_hf_keys *k, const char *suffix, uint32_t fallback)
{
    const struct hk_kv *kv = hk_hf_meta(k, suffix);
    int64_t v = fallback;
    if (k->status != HK_OK || (kv == NULL && fallback > 0))
        return fallback;
    if (kv == NULL)
        k->status =
            hk_fail(k->err, HK_E_MISSING, HK_NO_OFFSET, "no key %s.%s", k->architecture, suffix);
    else
        k->status = hk_kv_int(kv, &v, k->err);
    if (k->status == HK_OK && (v < 1 || v > MOST))
        k->status = hk_fail(k->err, HK_E_RANGE, kv->offset, "key %s.%s is %lld, not 1 to %d",
                            k->architecture, suffix, (long long)v, (int)MOST);
    return k->status == HK_OK ? (uint32_t)v : fallback;
}

/* ---- what must not be there ---- */

static void refuse_features(struct hk_hf_keys *k)
{
    const struct hk_kv *causal = hk_hf_meta(k, "attention.causal");
    const struct hk_kv *experts = hk_hf_meta(k, "expert_count");
    bool looks_back = true;
    int64_t count = 0;
    if (k->status == HK_OK && causal != NULL)
        k->status = hk_kv_bool(causal, &looks_back, k->err);
    if (k->status == HK_OK && experts != NULL)
        k->status = hk_kv_int(experts, &count, k->err);
    if (k->status == HK_OK && (count != 0 || !looks_back))
        k->status =
            hk_fail(k->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "key %s.%s: %s has no such models",
                    k->architecture, count != 0 ? "expert_count" : "attention.causal",
                    "the class of transformers");
}

/* 0 where there is none. */
static int64_t read_window(struct hk_hf_keys *k)
{
    const struct hk_kv *kv = hk_hf_meta(k, "attention.sliding_window");
    int64_t v = 0;
    if (k->status == HK_OK && kv != NULL)
        k->status = hk_kv_int(kv, &v, k->err);
    return v;
}

/* ---- sizes ---- */

static void read_sizes(struct hk_hf_keys *k, struct hk_hf_model *m)
{
    m->layers = get_count(k, "block_count", 0);
    m->context = get_count(k, "context_length", 0);
    m->width = get_count(k, "embedding_length", 0);
    m->ffn = get_count(k, "feed_forward_length", 0);
    m->heads = get_count(k, "attention.head_count", 0);
    m->kv_heads = get_count(k, "attention.head_count_kv", m->heads);
    if (k->status == HK_OK && m->heads % m->kv_heads != 0)
        k->status =
            hk_fail(k->err, HK_E_FORMAT, HK_NO_OFFSET,
                    "%u heads cannot share %u heads of keys and values", m->heads, m->kv_heads);
}

/* transformers has one size for heads of queries, keys and values. */
static void read_head(struct hk_hf_keys *k, struct hk_hf_model *m)
{
    const uint32_t shared =
        k->status == HK_OK && m->width % m->heads == 0 ? m->width / m->heads : 0;
    m->head_dim = get_count(k, "attention.key_length", shared);
    const uint32_t value_dim = get_count(k, "attention.value_length", shared);
    m->rope_dims = get_count(k, "rope.dimension_count", m->head_dim);
    if (k->status == HK_OK && value_dim != m->head_dim)
        k->status = hk_fail(k->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                            "keys have %u values a head and values %u: config.json has one "
                            "head_dim",
                            m->head_dim, value_dim);
    if (k->status == HK_OK && (m->rope_dims > m->head_dim || m->rope_dims % 2 != 0))
        k->status = hk_fail(k->err, HK_E_FORMAT, HK_NO_OFFSET,
                            "key %s.rope.dimension_count is %u: not even, or above the head's %u",
                            k->architecture, m->rope_dims, m->head_dim);
}

static void read_style(struct hk_hf_keys *k, bool fallback, bool *pairs)
{
    const struct hk_kv *kv = hk_kv_find(k->f, "hk.rope_style");
    struct hk_bytes style = {0};
    *pairs = fallback;
    if (kv == NULL || k->status != HK_OK)
        return;
    k->status = hk_kv_string(kv, &style, k->err);
    if (k->status != HK_OK)
        return;
    *pairs = hk_bytes_are(style, "norm");
    if (!*pairs && !hk_bytes_are(style, "neox"))
        k->status = hk_fail(k->err, HK_E_UNSUPPORTED, kv->offset,
                            "key hk.rope_style: order of rows '%.*s' is not known", HK_STR(style));
}

static double read_epsilon(struct hk_hf_keys *k)
{
    static const char suffix[] = "attention.layer_norm_rms_epsilon";
    const struct hk_kv *kv = hk_hf_meta(k, suffix);
    if (kv == NULL && k->status == HK_OK)
        k->status =
            hk_fail(k->err, HK_E_MISSING, HK_NO_OFFSET, "no key %s.%s", k->architecture, suffix);
    return hk_hf_meta_number(k, kv, false, 1);
}

enum hk_status hk_hf_read_model(const struct hk_file *f, const struct hk_hf_family *family,
                                struct hk_hf_model *out, struct hk_error *err)
{
    struct hk_hf_keys k = {f, family->architecture, err, HK_OK};
    struct hk_hf_model m = {0};
    refuse_features(&k);
    read_sizes(&k, &m);
    read_head(&k, &m);
    m.epsilon = read_epsilon(&k);
    m.window = read_window(&k);
    read_style(&k, family->pairs_in_gguf, &m.pairs);
    hk_hf_model_rope(&k, m.context, &m.rope);
    if (k.status == HK_OK)
        k.status = hk_hf_model_factors(f, m.rope_dims, &m.rope, err);
    if (k.status == HK_OK)
        *out = m;
    return k.status;
}

/* What follows "ARCHITECTURE." in KEY; n 0: it does not begin so. */
static struct hk_bytes suffix_of(const struct hk_hf_family *family, struct hk_bytes key)
{
    const size_t n = strlen(family->architecture);
    if (key.n <= n || memcmp(key.p, family->architecture, n) != 0 || key.p[n] != '.')
        return (struct hk_bytes){0};
    return (struct hk_bytes){key.p + n + 1, key.n - n - 1};
}

bool hk_hf_model_tells(const struct hk_hf_family *family, struct hk_bytes key)
{
    static const char *const suffixes[] = {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "vocab_size",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    };
    const struct hk_bytes suffix = suffix_of(family, key);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (hk_bytes_are(suffix, suffixes[i]))
            return true;
    return false;
}

bool hk_hf_model_lacks(const struct hk_hf_family *family, struct hk_bytes key)
{
    static const char *const neutral[] = {
        "attention.causal",
        "attention.sliding_window",
        "expert_count",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_log_multiplier",
    };
    const struct hk_bytes suffix = suffix_of(family, key);
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (hk_bytes_are(suffix, neutral[i]))
            return false;
    return suffix.n > 0 && !hk_hf_model_tells(family, key);
}
