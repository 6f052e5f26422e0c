/* The keys of adapter_config.json: each is known, of its type, and followed or without effect. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"

enum { /* what a value may be; null is always well, as is leaving the key out */
       BOOL = 1 << 0,
       INTEGER = 1 << 1,
       NUMBER = 1 << 2,
       TEXT = 1 << 3,
       TEXTS = 1 << 4, /* a list of strings */
       OBJECT = 1 << 5,
       NUMBERS = 1 << 6, /* a list of integers */
       ANY = 1 << 7,     /* nothing of it is looked at */
       NEUTRAL = 1 << 8, /* only what leaves the feature out: false, empty */
       NEEDED = 1 << 9,  /* null is none of its values */
};

/* Of LoRA in PEFT 0.4 to 0.21. What stands without a remark changes training only, or says which
 * modules have tensors, which their names do too. */
/* clang-format off */
static const struct setting {
    const char *name;
    unsigned may_be;
} settings[] = {
    {"peft_type", TEXT | NEEDED}, /* LORA */
    {"r", INTEGER | NEEDED},
    {"lora_alpha", NUMBER | NEEDED},
    {"use_rslora", BOOL},
    {"use_dora", BOOL},
    {"rank_pattern", OBJECT},
    {"alpha_pattern", OBJECT},
    {"bias", TEXT},
    {"trainable_token_indices", NUMBERS | OBJECT},
    {"ensure_weight_tying", BOOL},
    {"init_lora_weights", BOOL | TEXT},
    {"target_modules", TEXT | TEXTS},
    {"exclude_modules", TEXT | TEXTS},
    {"modules_to_save", TEXTS},
    {"layers_to_transform", INTEGER | NUMBERS},
    {"layers_pattern", TEXT | TEXTS},
    {"lora_dropout", NUMBER},
    {"inference_mode", BOOL},
    {"task_type", TEXT},
    {"base_model_name_or_path", TEXT},
    {"revision", TEXT},
    {"peft_version", TEXT},
    {"auto_mapping", OBJECT},
    {"megatron_config", OBJECT},
    {"megatron_core", TEXT},
    {"loftq_config", OBJECT}, /* with init_lora_weights "loftq", which is refused */
    {"eva_config", OBJECT},
    {"corda_config", OBJECT},
    {"lora_ga_config", OBJECT},
    {"qalora_group_size", INTEGER}, /* with use_qalora */
    {"runtime_config", OBJECT},
    {"merge_weights", BOOL},
    /* these change what is computed */
    {"fan_in_fan_out", BOOL | NEUTRAL},
    {"lora_bias", BOOL | NEUTRAL},
    {"alora_invocation_tokens", NUMBERS | NEUTRAL},
    {"layer_replication", ANY | NEUTRAL},
    {"use_qalora", BOOL | NEUTRAL},
    {"target_parameters", TEXTS | NEUTRAL},
    {"use_bdlora", ANY | NEUTRAL},
    {"arrow_config", ANY | NEUTRAL},
    {"kasa_config", ANY | NEUTRAL},
    {"velora_config", ANY | NEUTRAL},
    {"monteclora_config", ANY | NEUTRAL},
    {"enable_lora", ANY | NEUTRAL},
};
/* clang-format on */

static bool is_neutral(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static bool is_list_of(const json_t *v, json_type type)
{
    size_t i;
    json_t *item;
    if (!json_is_array(v))
        return false;
    json_array_foreach(v, i, item)
    {
        if (json_typeof(item) != type)
            return false;
    }
    return true;
}

static bool has_type(const json_t *v, unsigned may_be)
{
    if (json_is_null(v))
        return (may_be & NEEDED) == 0;
    return (may_be & ANY) != 0 || ((may_be & BOOL) != 0 && json_is_boolean(v)) ||
           ((may_be & (INTEGER | NUMBER)) != 0 && json_is_integer(v)) ||
           ((may_be & NUMBER) != 0 && json_is_real(v)) ||
           ((may_be & TEXT) != 0 && json_is_string(v)) ||
           ((may_be & TEXTS) != 0 && is_list_of(v, JSON_STRING)) ||
           ((may_be & NUMBERS) != 0 && is_list_of(v, JSON_INTEGER)) ||
           ((may_be & OBJECT) != 0 && json_is_object(v));
}

static enum hk_status unsupported(const char *key, const char *value, const char *why,
                                  struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "adapter_config.json: key %.100s%s%.100s%s",
                   key, value != NULL ? " is " : "", value != NULL ? value : "", why);
}

static enum hk_status check_setting(const char *key, const json_t *v, struct hk_error *err)
{
    const struct setting *s = NULL;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && s == NULL; i++)
        if (strcmp(settings[i].name, key) == 0)
            s = &settings[i];
    if (s == NULL)
        return is_neutral(v)
                   ? HK_OK
                   : unsupported(key, NULL, " is not known, so it may change the result", err);
    if (!has_type(v, s->may_be))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "adapter_config.json: key %s has a value of the wrong JSON type", key);
    if ((s->may_be & NEUTRAL) != 0 && !is_neutral(v))
        return unsupported(key, NULL, " is not supported", err);
    return HK_OK;
}

/* Ways of beginning that take something off the base's weights, so that the adapter is none of the
 * base as it is. The others only choose the first A and B. */
static enum hk_status check_start(const json_t *c, struct hk_error *err)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal", "true", "false"};
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *start = json_string_value(json_object_get(c, "init_lora_weights"));
    bool known = start == NULL;
    for (size_t i = 0; !known && i < sizeof harmless / sizeof *harmless; i++)
        known = strcmp(start, harmless[i]) == 0;
    for (size_t i = 0; !known && i < sizeof changing / sizeof *changing; i++)
        if (strncmp(start, changing[i], strlen(changing[i])) == 0)
            return unsupported("init_lora_weights", start, ", which changes the base too", err);
    return known ? HK_OK : unsupported("init_lora_weights", start, ", which is not known", err);
}

static enum hk_status check_kind(const json_t *c, struct hk_error *err)
{
    const char *type = json_string_value(json_object_get(c, "peft_type"));
    return type != NULL && strcmp(type, "LORA") == 0
               ? HK_OK
               : unsupported("peft_type", type != NULL ? type : "no text", ", not LORA", err);
}

static enum hk_status check_bias(const json_t *c, struct hk_error *err)
{
    const char *bias = json_string_value(json_object_get(c, "bias"));
    return bias == NULL || strcmp(bias, "none") == 0 || strcmp(bias, "all") == 0 ||
                   strcmp(bias, "lora_only") == 0
               ? HK_OK
               : unsupported("bias", bias, ", which is not known", err);
}

enum hk_status hk_adapter_check_settings(json_t *c, struct hk_error *err)
{
    const char *key;
    json_t *value;
    enum hk_status st = check_kind(c, err);
    json_object_foreach(c, key, value)
    {
        if (st == HK_OK)
            st = check_setting(key, value, err);
    }
    if (st == HK_OK)
        st = check_bias(c, err);
    return st == HK_OK ? check_start(c, err) : st;
}
