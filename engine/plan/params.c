/* Hyperparameters from the metadata: what is not run is refused, what is absent has the default of
 * the file format, nothing is taken unchecked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/model.h"

/* No dimension of a model comes near it, and products of three fit 64 bits. */
enum { MOST = 1 << 20 };

struct source {
    const struct hk_file *f;
    const char *arch;
    struct hk_error *err;
    enum hk_status status; /* of the first failure */
};

static const struct hk_kv *find(const struct source *s, const char *suffix)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch, suffix);
    return hk_kv_find(s->f, key);
}

static void need_key(struct source *s, const char *suffix)
{
    s->status = hk_fail(s->err, HK_E_MISSING, HK_NO_OFFSET, "no key %s.%s", s->arch, suffix);
}

/* An integer of 1 to MOST into *OUT; where the key is absent, FALLBACK, and 0 there means that it
 * must be there. */
static void get_uint(struct source *s, const char *suffix, uint32_t fallback, uint32_t *out)
{
    if (s->status != HK_OK)
        return;
    const struct hk_kv *kv = find(s, suffix);
    *out = fallback;
    if (kv == NULL) {
        if (fallback == 0)
            need_key(s, suffix);
        return;
    }
    int64_t v;
    s->status = hk_kv_int(kv, &v, s->err);
    if (s->status != HK_OK)
        return;
    if (v < 1 || v > MOST)
        s->status = hk_fail(s->err, HK_E_RANGE, kv->offset, "%s.%s is %lld, not 1 to %d", s->arch,
                            suffix, (long long)v, (int)MOST);
    else
        *out = (uint32_t)v;
}

/* KV's finite number above 0, or at least 0 where ZERO is allowed; FALLBACK where KV is NULL. */
static void take_number(struct source *s, const struct hk_kv *kv, bool zero, double fallback,
                        double *out)
{
    if (s->status != HK_OK)
        return;
    *out = fallback;
    if (kv == NULL)
        return;
    double v;
    s->status = hk_kv_float(kv, &v, s->err);
    if (s->status != HK_OK)
        return;
    if ((v > 0 || (zero && v == 0)) && isfinite(v))
        *out = v;
    else
        s->status = hk_fail(s->err, HK_E_RANGE, kv->offset, "%.*s is %g, not a number %s 0",
                            HK_STR(kv->key), v, zero ? "from" : "above");
}

static void get_positive(struct source *s, const char *suffix, double fallback, double *out)
{
    take_number(s, find(s, suffix), false, fallback, out);
}

/* The same of a key that is not the architecture's. */
static void get_common(struct source *s, const char *key, double fallback, double *out)
{
    take_number(s, hk_kv_find(s->f, key), false, fallback, out);
}

/* ---- features ---- */

static enum hk_status refuse_count(struct source *s, const char *suffix, const char *what)
{
    const struct hk_kv *kv = find(s, suffix);
    int64_t v = 0;
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_int(kv, &v, s->err);
    if (st != HK_OK || v == 0)
        return st;
    return hk_fail(s->err, HK_E_UNSUPPORTED, kv->offset, "%s (%s.%s is %lld)", what, s->arch,
                   suffix, (long long)v);
}

static enum hk_status check_causal(struct source *s)
{
    const struct hk_kv *kv = find(s, "attention.causal");
    bool causal = true;
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_bool(kv, &causal, s->err);
    if (st != HK_OK || causal)
        return st;
    return hk_fail(s->err, HK_E_UNSUPPORTED, kv->offset,
                   "attention that is not causal is not supported");
}

/* What the file names; or linear where only a factor is there. */
static enum hk_status scaling_kind(struct source *s, enum hke_rope_scaling *out)
{
    static const struct {
        const char *name;
        enum hke_rope_scaling scaling;
    } known[] = {
        {"none", HKE_ROPE_PLAIN},    {"linear", HKE_ROPE_LINEAR}, {"dynamic", HKE_ROPE_DYNAMIC},
        {"llama3", HKE_ROPE_LLAMA3}, {"yarn", HKE_ROPE_YARN},
    };
    const struct hk_kv *kv = find(s, "rope.scaling.type");
    bool factor = find(s, "rope.scaling.factor") != NULL || find(s, "rope.scale_linear") != NULL;
    *out = factor ? HKE_ROPE_LINEAR : HKE_ROPE_PLAIN;
    if (kv == NULL)
        return HK_OK;
    struct hk_bytes type;
    enum hk_status st = hk_kv_string(kv, &type, s->err);
    if (st != HK_OK)
        return st;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hk_bytes_are(type, known[i].name)) {
            *out = known[i].scaling;
            return HK_OK;
        }
    return hk_fail(s->err, HK_E_UNSUPPORTED, kv->offset, "rope scaling '%.*s' is not supported",
                   HK_STR(type));
}

/* It would change the magnitude; no model of these architectures has it. */
static enum hk_status check_yarn(struct source *s)
{
    const struct hk_kv *kv = find(s, "rope.scaling.yarn_log_multiplier");
    double v = 0;
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_float(kv, &v, s->err);
    if (st != HK_OK || v == 0)
        return st;
    return hk_fail(s->err, HK_E_UNSUPPORTED, kv->offset,
                   "%s.rope.scaling.yarn_log_multiplier is not supported", s->arch);
}

static enum hk_status rope_style(const struct source *s, bool fallback, bool *neox)
{
    const struct hk_kv *kv = hk_kv_find(s->f, "hk.rope_style");
    *neox = fallback;
    if (kv == NULL)
        return HK_OK;
    struct hk_bytes style;
    enum hk_status st = hk_kv_string(kv, &style, s->err);
    if (st != HK_OK)
        return st;
    *neox = hk_bytes_are(style, "neox");
    if (*neox || hk_bytes_are(style, "norm"))
        return HK_OK;
    return hk_fail(s->err, HK_E_UNSUPPORTED, kv->offset, "hk.rope_style '%.*s' is not supported",
                   HK_STR(style));
}

enum hk_status hke_check_features(const struct hk_file *f, const struct hke_arch *arch,
                                  struct hk_error *err)
{
    struct source s = {f, arch->name, err, HK_OK};
    bool flag;
    enum hke_rope_scaling scaling;
    enum hk_status st = refuse_count(&s, "attention.sliding_window",
                                     "attention in a sliding window is not supported");
    if (st == HK_OK)
        st = refuse_count(&s, "expert_count", "mixtures of experts are not supported");
    if (st == HK_OK)
        st = check_causal(&s);
    if (st == HK_OK)
        st = scaling_kind(&s, &scaling);
    if (st == HK_OK)
        st = check_yarn(&s);
    if (st == HK_OK)
        st = rope_style(&s, false, &flag);
    return st;
}

/* ---- parameters ---- */

static void get_sizes(struct source *s, struct hke_params *p)
{
    get_uint(s, "block_count", 0, &p->layers);
    get_uint(s, "embedding_length", 0, &p->width);
    get_uint(s, "feed_forward_length", 0, &p->ffn);
    get_uint(s, "attention.head_count", 0, &p->heads);
    get_uint(s, "attention.head_count_kv", p->heads, &p->kv_heads);
    get_uint(s, "context_length", 2048, &p->context);
    if (s->status != HK_OK)
        return;
    if (p->heads % p->kv_heads != 0)
        s->status =
            hk_fail(s->err, HK_E_FORMAT, HK_NO_OFFSET,
                    "%u heads cannot share %u heads of keys and values", p->heads, p->kv_heads);
    else if (p->layers > hk_tensor_count(s->f))
        s->status = hk_fail(s->err, HK_E_RANGE, find(s, "block_count")->offset,
                            "%s.block_count is %u, but the file has %zu tensors", s->arch,
                            p->layers, hk_tensor_count(s->f));
}

/* Sizes of a head: stated, or the width shared out among the heads. */
static void get_head(struct source *s, struct hke_params *p)
{
    uint32_t shared = s->status == HK_OK && p->width % p->heads == 0 ? p->width / p->heads : 0;
    get_uint(s, "attention.key_length", shared, &p->key_dim);
    get_uint(s, "attention.value_length", shared, &p->value_dim);
    get_uint(s, "rope.dimension_count", p->key_dim, &p->rope_dims);
    if (s->status == HK_OK && (p->rope_dims % 2 != 0 || p->rope_dims > p->key_dim))
        s->status = hk_fail(s->err, HK_E_FORMAT, HK_NO_OFFSET,
                            "%s.rope.dimension_count is %u: not even, or above the head's %u",
                            s->arch, p->rope_dims, p->key_dim);
}

/* Keys of llama.cpp where it has them, else of this format. What yarn adds to the magnitude is its
 * attention factor, 1 + 0.1 ln(factor); files may state a further one, of any scaling. */
static void get_yarn(struct source *s, struct hke_rope *r)
{
    double other = 1;
    get_common(s, "hk.rope.beta_fast", 32, &r->beta_fast);
    get_common(s, "hk.rope.beta_slow", 1, &r->beta_slow);
    get_positive(s, "rope.scaling.yarn_beta_fast", r->beta_fast, &r->beta_fast);
    get_positive(s, "rope.scaling.yarn_beta_slow", r->beta_slow, &r->beta_slow);
    get_positive(s, "rope.scaling.yarn_attn_factor", 1, &other);
    take_number(s, find(s, "rope.scaling.yarn_ext_factor"), true,
                r->scaling == HKE_ROPE_YARN ? 1 : 0, &r->mix);
    get_positive(s, "rope.scaling.attn_factor", 1, &r->magnitude);
    if (s->status != HK_OK)
        return;
    if (r->mix == 0)
        r->magnitude *= other;
    else if (r->scaling != HKE_ROPE_LLAMA3)
        r->magnitude *= r->factor > 1 ? 1 + 0.1 * log(r->factor) : 1;
    if (r->mix != 0 && r->scaling != HKE_ROPE_LLAMA3)
        r->scaling = HKE_ROPE_YARN;
    if (r->scaling == HKE_ROPE_YARN && r->base <= 1)
        s->status = hk_fail(s->err, HK_E_RANGE, HK_NO_OFFSET,
                            "%s.rope.freq_base is %g: yarn needs one above 1", s->arch, r->base);
}

static void get_llama3(struct source *s, struct hke_rope *r)
{
    get_common(s, "hk.rope.low_freq_factor", 1, &r->low_freq);
    get_common(s, "hk.rope.high_freq_factor", 4, &r->high_freq);
    if (s->status == HK_OK && r->scaling == HKE_ROPE_LLAMA3 && r->high_freq <= r->low_freq)
        s->status = hk_fail(s->err, HK_E_RANGE, HK_NO_OFFSET,
                            "hk.rope.high_freq_factor is %g, not above the low one, %g",
                            r->high_freq, r->low_freq);
}

static void get_rope(struct source *s, const struct hke_arch *arch, struct hke_params *p)
{
    struct hke_rope *r = &p->rope;
    double factor = 1;
    get_positive(s, "rope.freq_base", 10000, &r->base);
    get_positive(s, "rope.scale_linear", 1, &factor);
    get_positive(s, "rope.scaling.factor", factor, &r->factor);
    get_positive(s, "rope.scaling.original_context_length", p->context, &r->original);
    if (s->status == HK_OK)
        s->status = scaling_kind(s, &r->scaling);
    if (r->scaling == HKE_ROPE_PLAIN || r->scaling == HKE_ROPE_DYNAMIC)
        r->factor = 1;
    get_llama3(s, r);
    get_yarn(s, r);
    if (s->status == HK_OK)
        s->status = rope_style(s, arch->neox, &p->neox);
}

enum hk_status hke_read_params(const struct hk_file *f, const struct hke_arch *arch,
                               struct hke_params *out, struct hk_error *err)
{
    struct source s = {f, arch->name, err, HK_OK};
    struct hke_params p = {.architecture = arch->name};
    double epsilon = 0;
    get_sizes(&s, &p);
    get_head(&s, &p);
    get_rope(&s, arch, &p);
    get_positive(&s, "attention.layer_norm_rms_epsilon", 1e-5, &epsilon);
    p.epsilon = (float)epsilon;
    if (s.status == HK_OK)
        *out = p;
    return s.status;
}
