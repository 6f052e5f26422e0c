/* A model's hyperparameters as far as config.json can say them: what transformers would not compute
 * alike is refused, and the tensor of rope factors that llama.cpp has becomes parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/export.h"

/* ---- what config.json has no field for ---- */

static enum hk_status refuse_key_value(const struct hk_model_params *p, enum hk_model_key key,
                                       double v, struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "key %s is %g: config.json has no field for it",
                   hk_key_text(p->architecture, key).s, v);
}

static enum hk_status refuse_params(const struct hk_model_params *p, struct hk_error *err)
{
    const struct hk_rope *r = &p->rope;
    const bool yarn = r->kind == HK_ROPE_YARN;
    if (p->value_dim != p->key_dim)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "keys have %u values a head and values %u: config.json has one head_dim",
                       p->key_dim, p->value_dim);
    if (r->ext_factor != (yarn ? 1 : 0))
        return refuse_key_value(p, HK_KEY_YARN_EXT_FACTOR, r->ext_factor, err);
    if (r->yarn_attn_factor != 1)
        return refuse_key_value(p, HK_KEY_YARN_ATTN_FACTOR, r->yarn_attn_factor, err);
    if (!yarn && r->attn_factor != 1)
        return refuse_key_value(p, HK_KEY_SCALING_ATTN_FACTOR, r->attn_factor, err);
    return HK_OK;
}

/* ---- the tensor of factors ---- */

/* Converters compute them in f32. The power has a relative error of some 16 roundings (its
 * exponent times ln(base)), which the blend multiplies by less than 32. */
static const double rounding = 512 * 0x1p-24;

static bool rope_gives_factors(const struct hk_rope *r, const float *factors, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        const double expected = (double)hk_rope_factor(r, 2 * pairs, i);
        if (!(fabs((double)factors[i] - expected) <= expected * rounding))
            return false;
    }
    return true;
}

/* Of files without the parameters: those of the models that were published. */
static bool recover_llama3(struct hk_rope *r, const float *factors, uint32_t pairs)
{
    static const double published[] = {8, 32}; /* Llama 3.1 and 3.2 */
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct hk_rope guess = *r;
        guess.kind = HK_ROPE_LLAMA3;
        guess.factor = published[i];
        guess.low_freq = 1;
        guess.high_freq = 4;
        guess.original = 8192;
        if (rope_gives_factors(&guess, factors, pairs)) {
            *r = guess;
            return true;
        }
    }
    return false;
}

static enum hk_status explain_factors(struct hk_rope *r, const float *factors, uint32_t pairs,
                                      const struct hk_tensor *t, struct hk_error *err)
{
    if (r->kind == HK_ROPE_LLAMA3 && rope_gives_factors(r, factors, pairs))
        return HK_OK;
    if (r->kind == HK_ROPE_NONE && recover_llama3(r, factors, pairs))
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s holds other factors than %s: config.json cannot say them",
                   HK_STR(t->name),
                   r->kind == HK_ROPE_LLAMA3 ? "the keys of llama3 scaling give"
                   : r->kind != HK_ROPE_NONE ? "the scaling that the keys name"
                                             : "a published llama3 scaling");
}

/* What the tensor, where F has it, says of R. */
static enum hk_status read_rope_factors(const struct hk_file *f, uint32_t dims, struct hk_rope *r,
                                        struct hk_error *err)
{
    const struct hk_tensor *t = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_ROPE_FACTORS));
    const uint32_t pairs = dims / 2;
    struct hk_decoder *d = NULL;
    if (t == NULL)
        return HK_OK;
    if (hk_tensor_elems(t) != pairs)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %llu factors for %u pairs", HK_STR(t->name),
                       (unsigned long long)hk_tensor_elems(t), pairs);
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    float *factors = calloc(pairs, sizeof *factors);
    if (factors == NULL)
        st = hk_fail_nomem(err);
    else {
        hk_decoder_read(d, 0, pairs, factors);
        st = explain_factors(r, factors, pairs, t, err);
    }
    free(factors);
    hk_decoder_free(&d);
    return st;
}

/* ---- all ---- */

enum hk_status hk_hf_export_params(const struct hk_file *f, const struct hk_hf_stored *stored,
                                   struct hk_model_params *out, struct hk_error *err)
{
    struct hk_model_params p;
    enum hk_status st = hk_model_params_read(&p, f, err);
    if (st == HK_OK)
        st = refuse_params(&p, err);
    if (st == HK_OK)
        st = read_rope_factors(f, p.rope_dims, &p.rope, err);
    if (st != HK_OK)
        return st;
    if (stored->json != NULL && strcmp(stored->config.model.architecture, p.architecture) == 0)
        p.family = stored->config.family;
    *out = p;
    return HK_OK;
}

/* ---- keys ---- */

bool hk_hf_config_covers(const char *architecture, struct hk_bytes key)
{
    const enum hk_model_key k = hk_key_of_text(architecture, key);
    return k != HK_MODEL_KEYS && (hk_key_flags(k) & HK_KEY_IN_CONFIG) != 0;
}

bool hk_hf_config_lacks(const char *architecture, struct hk_bytes key)
{
    const size_t n = strlen(architecture);
    return key.n > n + 1 && memcmp(key.p, architecture, n) == 0 && key.p[n] == '.' &&
           hk_key_of_text(architecture, key) == HK_MODEL_KEYS;
}
