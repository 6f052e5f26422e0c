/* What a model's file leaves open, and what is taken in its place. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

struct telling {
    const struct hk_file *f;
    const char *architecture;
    void (*each)(void *arg, const char *text);
    void *arg;
};

static bool has_suffix(const struct telling *t, const char *suffix)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", t->architecture, suffix);
    return hk_kv_find(t->f, key) != NULL;
}

static void tell(const struct telling *t, const char *what, const char *taken)
{
    char text[160];
    snprintf(text, sizeof text, "no key %s: %s is taken", what, taken);
    t->each(t->arg, text);
}

static void tell_of_model(const struct telling *t, const char *suffix, const char *taken)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", t->architecture, suffix);
    tell(t, key, taken);
}

/* Whether config.json, whose import fills the key in, has a rope_theta: beside a rope's object, in
 * it, or in one of the objects in that. */
static bool config_has_base(const struct hk_file *f)
{
    static const char field[] = "rope_theta";
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    const struct hk_kv *kv = hk_kv_find(f, "hk.hf.config");
    struct hk_bytes text;
    json_t *json = NULL;
    if (kv == NULL || hk_kv_string(kv, &text, NULL) != HK_OK ||
        hk_hf_parse("", text, &json, NULL) != HK_OK)
        return true;
    bool found = hk_hf_field(json, field) != NULL;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        json_t *o = hk_hf_field(json, objects[i]);
        found = found || hk_hf_field(o, field) != NULL ||
                hk_hf_field(hk_hf_field(o, "full_attention"), field) != NULL;
    }
    json_decref(json);
    return found;
}

static void tell_rope(const struct telling *t)
{
    if (!has_suffix(t, "rope.freq_base"))
        tell_of_model(t, "rope.freq_base", "10000");
    else if (t->f->format == HK_FORMAT_HF && !config_has_base(t->f))
        t->each(t->arg, "no rope_theta in config.json: 10000 is taken");
    if (!has_suffix(t, "rope.scaling.type") &&
        (has_suffix(t, "rope.scaling.factor") || has_suffix(t, "rope.scale_linear")))
        tell_of_model(t, "rope.scaling.type", "linear, as there is a factor,");
}

static void tell_tokenizer(const struct telling *t)
{
    const struct hk_kv *model = hk_vocab_find(t->f, HK_VOCAB_MODEL);
    struct hk_bytes name;
    if (hk_vocab_find(t->f, HK_VOCAB_TOKENS) == NULL)
        return;
    if (hk_vocab_find(t->f, HK_VOCAB_TYPES) == NULL)
        tell(t, hk_vocab_key(HK_VOCAB_TYPES),
             "what the spelling and the special ids of the tokens tell");
    if (model != NULL && hk_kv_string(model, &name, NULL) == HK_OK &&
        hk_vocab_kind(name) == HK_VOCAB_BPE && hk_vocab_find(t->f, HK_VOCAB_PRE) == NULL &&
        hk_vocab_find(t->f, HK_VOCAB_SPLITS) == NULL)
        tell(t, hk_vocab_key(HK_VOCAB_PRE), "'default'");
}

void hk_defaults(const struct hk_file *f, void (*each)(void *arg, const char *text), void *arg)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    struct hk_bytes name;
    struct telling t = {.f = f, .each = each, .arg = arg};
    if (kv == NULL || hk_kv_string(kv, &name, NULL) != HK_OK)
        return;
    const struct hk_hf_family *family = hk_hf_family_of_architecture(name);
    if (family == NULL || hk_tensor_find(f, "token_embd.weight") == NULL)
        return;
    t.architecture = family->architecture;
    tell_rope(&t);
    tell_tokenizer(&t);
}
