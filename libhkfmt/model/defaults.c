/* What a model's file leaves open, and what is taken in its place. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/model/model.h"

struct telling {
    const struct hk_file *f;
    struct hk_key_source keys;
    const char *architecture;
    void (*each)(void *arg, const char *text);
    void *arg;
};

static bool has_model_key(const struct telling *t, enum hk_model_key key)
{
    return hk_key_find(&t->keys, t->architecture, key) != NULL;
}

static void report_default(const struct telling *t, const char *what, const char *taken)
{
    char text[160];
    snprintf(text, sizeof text, "no key %s: %s is taken", what, taken);
    t->each(t->arg, text);
}

static void report_model_default(const struct telling *t, enum hk_model_key key, const char *taken)
{
    report_default(t, hk_key_text(t->architecture, key).s, taken);
}

/* Whether config.json, whose import fills the key in, has a rope_theta: beside a rope's object, in
 * it, or in one of the objects in that. */
static bool config_has_base(const struct hk_file *f)
{
    static const char field[] = "rope_theta";
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    const struct hk_kv *kv = hk_kv_find(f, hk_key_text("", HK_KEY_CONFIG).s);
    struct hk_bytes text;
    json_t *json;
    if (kv == NULL || hk_kv_string(kv, &text, NULL) != HK_OK ||
        (json = hk_json_load(text, JSON_ALLOW_NUL, NULL)) == NULL)
        return true;
    bool found = json_is_number(json_object_get(json, field));
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const json_t *o = json_object_get(json, objects[i]);
        found = found || json_is_number(json_object_get(o, field)) ||
                json_is_number(json_object_get(json_object_get(o, "full_attention"), field));
    }
    json_decref(json);
    return found;
}

static void report_rope_defaults(const struct telling *t)
{
    if (!has_model_key(t, HK_KEY_ROPE_FREQ_BASE))
        report_model_default(t, HK_KEY_ROPE_FREQ_BASE, "10000");
    else if (t->f->format == HK_FORMAT_HF && !config_has_base(t->f))
        t->each(t->arg, "no rope_theta in config.json: 10000 is taken");
    if (!has_model_key(t, HK_KEY_SCALING_TYPE) &&
        (has_model_key(t, HK_KEY_SCALING_FACTOR) || has_model_key(t, HK_KEY_ROPE_SCALE_LINEAR)))
        report_model_default(t, HK_KEY_SCALING_TYPE, "linear, as there is a factor,");
}

static void report_tokenizer_defaults(const struct telling *t)
{
    const struct hk_kv *model = hk_vocab_find(t->f, HK_VOCAB_MODEL);
    struct hk_bytes name;
    if (hk_vocab_find(t->f, HK_VOCAB_TOKENS) == NULL)
        return;
    if (hk_vocab_find(t->f, HK_VOCAB_TYPES) == NULL)
        report_default(t, hk_vocab_key(HK_VOCAB_TYPES),
                       "what the spelling and the special ids of the tokens tell");
    if (model != NULL && hk_kv_string(model, &name, NULL) == HK_OK &&
        hk_vocab_kind(name) == HK_VOCAB_BPE && hk_vocab_find(t->f, HK_VOCAB_PRE) == NULL &&
        hk_vocab_find(t->f, HK_VOCAB_SPLITS) == NULL)
        report_default(t, hk_vocab_key(HK_VOCAB_PRE), "'default'");
}

void hk_defaults(const struct hk_file *f, void (*each)(void *arg, const char *text), void *arg)
{
    const struct hk_family *family;
    struct telling t = {.f = f, .keys = hk_keys_of_file(f), .each = each, .arg = arg};
    if (hk_family_read(&t.keys, &family, &t.architecture, NULL) != HK_OK ||
        hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_EMBEDDING)) == NULL)
        return;
    report_rope_defaults(&t);
    report_tokenizer_defaults(&t);
}
