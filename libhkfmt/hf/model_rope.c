/* Rope of a model: its keys, and the tensor of factors that llama.cpp has in their place. */
#include <math.h>
#include <stdlib.h>

#include "libhkfmt/hf/write.h"

static const double turn = 6.283185307179586476925286766559;

static const struct {
    const char *name;
    unsigned kind;
} kinds[] = {
    {"none", 0},          {"linear", HK_HF_LINEAR},   {"llama3", HK_HF_LLAMA3},
    {"yarn", HK_HF_YARN}, {"dynamic", HK_HF_DYNAMIC},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

const char *hk_hf_rope_name(unsigned kind)
{
    for (size_t i = 1; i < KINDS; i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return NULL;
}

/* ---- keys ---- */

/* rope.scaling.NAME of the architecture; or where a GGUF has no such key and hides it. */
static const struct hk_kv *scaling(const struct hk_hf_keys *k, const char *own, const char *hidden)
{
    const struct hk_kv *kv = hk_hf_meta(k, own);
    return kv != NULL ? kv : hk_kv_find(k->f, hidden);
}

static const struct hk_kv *factor_key(const struct hk_hf_keys *k)
{
    const struct hk_kv *kv = scaling(k, "rope.scaling.factor", "hk.rope.scaling.factor");
    return kv != NULL ? kv : hk_hf_meta(k, "rope.scale_linear");
}

/* A factor without a type means linear. */
static void read_kind(struct hk_hf_keys *k, unsigned *kind)
{
    const struct hk_kv *kv = scaling(k, "rope.scaling.type", "hk.rope.scaling.type");
    struct hk_bytes type = {0};
    *kind = factor_key(k) != NULL ? HK_HF_LINEAR : 0;
    if (k->status == HK_OK && kv != NULL)
        k->status = hk_kv_string(kv, &type, k->err);
    if (k->status != HK_OK || kv == NULL)
        return;
    for (size_t i = 0; i < KINDS; i++)
        if (hk_bytes_are(type, kinds[i].name)) {
            *kind = kinds[i].kind;
            return;
        }
    k->status = hk_fail(k->err, HK_E_UNSUPPORTED, kv->offset, "rope scaling '%.*s' is not exported",
                        HK_STR(type));
}

/* The key must be absent or have a value that changes nothing. */
static void refuse_unless(struct hk_hf_keys *k, const char *suffix, double neutral)
{
    const struct hk_kv *kv = hk_hf_meta(k, suffix);
    const double v = hk_hf_meta_number(k, kv, true, neutral);
    if (k->status == HK_OK && v != neutral)
        k->status =
            hk_fail(k->err, HK_E_UNSUPPORTED, kv->offset,
                    "key %s.%s is %g: config.json has no field for it", k->architecture, suffix, v);
}

static void read_yarn(struct hk_hf_keys *k, struct hk_hf_rope *r)
{
    const bool yarn = r->kind == HK_HF_YARN;
    r->beta_fast = hk_hf_meta_number(k, hk_kv_find(k->f, "hk.rope.beta_fast"), false, 32);
    r->beta_slow = hk_hf_meta_number(k, hk_kv_find(k->f, "hk.rope.beta_slow"), false, 1);
    r->beta_fast =
        hk_hf_meta_number(k, hk_hf_meta(k, "rope.scaling.yarn_beta_fast"), false, r->beta_fast);
    r->beta_slow =
        hk_hf_meta_number(k, hk_hf_meta(k, "rope.scaling.yarn_beta_slow"), false, r->beta_slow);
    r->magnitude = hk_hf_meta_number(k, hk_hf_meta(k, "rope.scaling.attn_factor"), false, 1);
    refuse_unless(k, "rope.scaling.yarn_ext_factor", yarn ? 1 : 0);
    refuse_unless(k, "rope.scaling.yarn_attn_factor", 1);
    refuse_unless(k, "rope.scaling.yarn_log_multiplier", 0);
    if (!yarn)
        refuse_unless(k, "rope.scaling.attn_factor", 1);
}

void hk_hf_model_rope(struct hk_hf_keys *k, uint32_t context, struct hk_hf_rope *r)
{
    const struct hk_kv *original = scaling(k, "rope.scaling.original_context_length",
                                           "hk.rope.scaling.original_context_length");
    read_kind(k, &r->kind);
    r->base = hk_hf_meta_number(k, hk_hf_meta(k, "rope.freq_base"), false, 10000);
    r->factor = hk_hf_meta_number(k, factor_key(k), false, 1);
    r->original = hk_hf_meta_number(k, original, false, context);
    r->low = hk_hf_meta_number(k, hk_kv_find(k->f, "hk.rope.low_freq_factor"), false, 1);
    r->high = hk_hf_meta_number(k, hk_kv_find(k->f, "hk.rope.high_freq_factor"), false, 4);
    if (k->status == HK_OK && r->kind == HK_HF_LLAMA3 && r->high <= r->low)
        k->status = hk_fail(k->err, HK_E_RANGE, HK_NO_OFFSET,
                            "key hk.rope.high_freq_factor is %g, not above the low one, %g",
                            r->high, r->low);
    read_yarn(k, r);
}

/* ---- the tensor ---- */

/* What the frequency of pair I is divided by: pairs of few turns in the original context by the
 * factor, those of many by 1, those between by a blend. */
static double llama3_factor(const struct hk_hf_rope *r, uint32_t dims, uint32_t i)
{
    const double turns = r->original * pow(r->base, -2.0 * i / dims) / turn;
    if (turns < r->low)
        return r->factor;
    if (turns > r->high)
        return 1;
    const double smooth = (turns - r->low) / (r->high - r->low);
    return 1 / ((1 - smooth) / r->factor + smooth);
}

/* Converters compute them in f32. The power has a relative error of some 16 roundings (its
 * exponent times ln(base)), which the blend multiplies by less than 32. */
static const double rounding = 512 * 0x1p-24;

static bool gives(const struct hk_hf_rope *r, const float *factors, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        const double expected = llama3_factor(r, 2 * pairs, i);
        if (!(fabs((double)factors[i] - expected) <= expected * rounding))
            return false;
    }
    return true;
}

/* Of files without the parameters: those of the models that were published. */
static bool recover(struct hk_hf_rope *r, const float *factors, uint32_t pairs)
{
    static const double published[] = {8, 32}; /* Llama 3.1 and 3.2 */
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct hk_hf_rope guess = *r;
        guess.kind = HK_HF_LLAMA3;
        guess.factor = published[i];
        guess.low = 1;
        guess.high = 4;
        guess.original = 8192;
        if (gives(&guess, factors, pairs)) {
            *r = guess;
            return true;
        }
    }
    return false;
}

static enum hk_status settle(struct hk_hf_rope *r, const float *factors, uint32_t pairs,
                             const struct hk_tensor *t, struct hk_error *err)
{
    if (r->kind == HK_HF_LLAMA3 && gives(r, factors, pairs))
        return HK_OK;
    if (r->kind == 0 && recover(r, factors, pairs))
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s holds other factors than %s: config.json cannot tell them",
                   HK_STR(t->name),
                   r->kind == HK_HF_LLAMA3 ? "the keys of llama3 scaling give"
                   : r->kind != 0          ? "the scaling that the keys name"
                                           : "a published llama3 scaling");
}

enum hk_status hk_hf_model_factors(const struct hk_file *f, uint32_t dims, struct hk_hf_rope *r,
                                   struct hk_error *err)
{
    const struct hk_tensor *t = hk_tensor_find(f, "rope_freqs.weight");
    const uint32_t pairs = dims / 2;
    struct hk_decoder *d = NULL;
    if (t == NULL)
        return HK_OK;
    if (hk_tensor_elems(t) != pairs)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %llu factors for %u pairs", HK_STR(t->name),
                       (unsigned long long)hk_tensor_elems(t), pairs);
    enum hk_status status = hk_decoder_new(&d, f, t, err);
    if (status != HK_OK)
        return status;
    float *factors = calloc(pairs, sizeof *factors);
    if (factors == NULL)
        status = hk_fail_nomem(err);
    else {
        hk_decoder_read(d, 0, pairs, factors);
        status = settle(r, factors, pairs, t, err);
    }
    free(factors);
    hk_decoder_free(&d);
    return status;
}
