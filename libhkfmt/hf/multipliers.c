/* Numbers of config.json that scores, logits, the embedding or what layers give are multiplied with
 * or held below. Each is a key of its own; a class has some of them or none. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "libhkfmt/hf/export.h"

static const struct hk_hf_multiplier {
    const char *field;
    unsigned config; /* families whose class has it: enum of hk_family.config */
    enum hk_model_key key;
    size_t at;      /* of struct hk_model_params */
    double usual;   /* where the class has it and config.json does not */
    double neutral; /* does nothing */
    bool root;      /* the field is 1 / value^2 */
} multipliers[] = {
    {"attn_logit_softcapping", HK_CONFIG_SOFT_CAPS, HK_KEY_ATTENTION_CAP,
     offsetof(struct hk_model_params, attention_cap), 50, 0, false},
    {"final_logit_softcapping", HK_CONFIG_SOFT_CAPS, HK_KEY_LOGITS_CAP,
     offsetof(struct hk_model_params, logits_cap), 30, 0, false},
    {"query_pre_attn_scalar", HK_CONFIG_QUERY_SCALAR, HK_KEY_ATTENTION_SCALE,
     offsetof(struct hk_model_params, attention_scale), 256, NAN, true},
    {"attention_multiplier", HK_CONFIG_MULTIPLIERS, HK_KEY_ATTENTION_SCALE,
     offsetof(struct hk_model_params, attention_scale), 1, NAN, false},
    {"embedding_multiplier", HK_CONFIG_MULTIPLIERS, HK_KEY_EMBEDDING_SCALE,
     offsetof(struct hk_model_params, embedding_scale), 1, 1, false},
    {"residual_multiplier", HK_CONFIG_MULTIPLIERS, HK_KEY_RESIDUAL_SCALE,
     offsetof(struct hk_model_params, residual_scale), 1, 1, false},
    {"logits_scaling", HK_CONFIG_MULTIPLIERS, HK_KEY_LOGITS_DIVISOR,
     offsetof(struct hk_model_params, logits_divisor), 1, 1, false},
};

enum { MULTIPLIERS = sizeof multipliers / sizeof *multipliers };

static bool class_has_field(const struct hk_family *family, const struct hk_hf_multiplier *m)
{
    return (family->config & m->config) != 0;
}

/* Null is the number that does nothing; what is absent has the class's default. */
static void read_multiplier(struct hk_hf_in *in, const struct hk_hf_config *c,
                            const struct hk_hf_multiplier *m)
{
    double v = m->usual;
    if (json_is_null(json_object_get(c->json, m->field)) && !isnan(m->neutral))
        v = m->neutral;
    hk_hf_positive(in, c->json, m->field, &v);
    if (v != 0)
        hk_kvlist_float(in->out, hk_key_text(in->arch, m->key).s, m->root ? 1 / sqrt(v) : v);
}

void hk_hf_read_multipliers(struct hk_hf_in *in, const struct hk_hf_config *c)
{
    for (size_t i = 0; i < MULTIPLIERS; i++) {
        const json_t *v = hk_hf_field(c->json, multipliers[i].field);
        if (class_has_field(c->family, &multipliers[i]))
            read_multiplier(in, c, &multipliers[i]);
        else if (v != NULL && !json_is_false(v) &&
                 !(json_is_number(v) && json_number_value(v) == multipliers[i].neutral))
            hk_hf_refuse(in, HK_E_UNSUPPORTED, multipliers[i].field, v, "not supported");
    }
}

static double multiplier_of(const struct hk_model_params *p, const struct hk_hf_multiplier *m)
{
    double v;
    memcpy(&v, (const char *)p + m->at, sizeof v);
    return v;
}

/* What a model of P's family has where no key says it. */
static double usual_multiplier(const struct hk_model_params *p, const struct hk_hf_multiplier *m)
{
    if (m->key == HK_KEY_ATTENTION_SCALE)
        return 1 / sqrt(p->key_dim);
    return m->key == HK_KEY_EMBEDDING_SCALE && p->family->scales_embedding ? sqrt(p->hidden)
                                                                           : m->neutral;
}

bool hk_hf_next_multiplier(const struct hk_model_params *p, const struct hk_model_params *stored,
                           size_t *at, const char **field, json_t **value)
{
    for (; *at < MULTIPLIERS; ++*at) {
        const struct hk_hf_multiplier *m = &multipliers[*at];
        const double v = multiplier_of(p, m);
        if (!class_has_field(p->family, m) ||
            (stored != NULL && (float)multiplier_of(stored, m) == (float)v))
            continue;
        *field = m->field;
        *value = v == 0 ? json_null() : json_real(hk_hf_short(m->root ? 1 / (v * v) : v));
        ++*at;
        return true;
    }
    return false;
}

enum hk_status hk_hf_refuse_multipliers(const struct hk_model_params *p, struct hk_error *err)
{
    for (size_t i = 0; i < MULTIPLIERS; i++) {
        const struct hk_hf_multiplier *m = &multipliers[i];
        const double v = multiplier_of(p, m);
        bool said = (float)v == (float)usual_multiplier(p, m);
        for (size_t k = 0; k < MULTIPLIERS; k++)
            said = said ||
                   (multipliers[k].key == m->key && class_has_field(p->family, &multipliers[k]));
        if (!said)
            return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "key %s is %g: config.json has no field for it",
                           hk_key_text(p->architecture, m->key).s, v);
    }
    return HK_OK;
}
