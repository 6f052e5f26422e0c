/* adapter_config.json: its keys, each of which is known, of its type, and followed or without
 * effect; patterns that modules have to match; rank and scale of a module. */
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/base/json_tree.h"

/* ---- keys of rank_pattern and alpha_pattern: Python patterns that the end of a module's name has
 * to match ---- */

struct hk_adapter_pattern {
    const char *key; /* the object's */
    json_t *value;
    bool compiled; /* else KEY is a name, in which only the dot stands for other characters */
    regex_t regex;
};

/* Most keys are names: a dot matches a dot too. */
static bool is_plain_pattern(const char *key)
{
    return key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] ==
           '\0';
}

/* Whether NAME is KEY, or ends in a dot and KEY, with any character for each dot of KEY. */
static bool matches_name_end(const char *name, const char *key)
{
    const size_t n = strlen(name), k = strlen(key);
    if (n < k || (n > k && name[n - k - 1] != '.'))
        return false;
    for (size_t i = 0; i < k; i++)
        if (key[i] != '.' && key[i] != name[n - k + i])
            return false;
    return true;
}

/* regcomp() calls itself for each group and doubles a group that a plus stands behind. */
static bool is_pattern_bounded(const char *key)
{
    enum { MAX_LENGTH = 256, MAX_GROUPS = 32, MAX_REPEATED_GROUPS = 2 };
    size_t n = 0, groups = 0, repeated = 0;
    for (; n <= MAX_LENGTH && key[n] != '\0'; n++) {
        groups += key[n] == '(';
        repeated += key[n] == '+' && n > 0 && (key[n - 1] == ')' || key[n - 1] == '+');
    }
    return n <= MAX_LENGTH && groups <= MAX_GROUPS && repeated <= MAX_REPEATED_GROUPS;
}

/* What POSIX reads otherwise than Python is refused, and what would take it without bounds. */
static enum hk_status compile_config_pattern(struct hk_adapter_pattern *p, size_t *total,
                                             struct hk_error *err)
{
    enum { MAX_TOTAL = 4096 }; /* characters of all together */
    char *text;
    if (is_plain_pattern(p->key))
        return HK_OK;
    if (strpbrk(p->key, "\\[{") != NULL || strstr(p->key, "(?") != NULL ||
        !is_pattern_bounded(p->key))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config.json: pattern '%.60s' is not supported", p->key);
    *total += strlen(p->key);
    if (*total > MAX_TOTAL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config.json: the patterns have more than %d characters", MAX_TOTAL);
    if (asprintf(&text, "^(.*\\.)?(%s)$", p->key) < 0)
        return hk_fail_nomem(err);
    const int result = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
    free(text);
    p->compiled = result == 0;
    if (result == REG_ESPACE)
        return hk_fail_nomem(err);
    return p->compiled ? HK_OK
                       : hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                                 "adapter_config.json: '%.60s' is no pattern", p->key);
}

enum hk_status hk_adapter_patterns_compile(struct hk_adapter_patterns *p, json_t *object,
                                           struct hk_error *err)
{
    enum { MAX_KEYS = 4096 }; /* each module is compared with all of them */
    const char *key;
    json_t *value;
    size_t total = 0;
    enum hk_status st = HK_OK;
    *p = (struct hk_adapter_patterns){
        .list = calloc(json_object_size(object) + 1, sizeof *p->list),
        .object = json_incref(object),
    };
    if (p->list == NULL)
        return hk_fail_nomem(err);
    if (json_object_size(object) > MAX_KEYS)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "the adapter has more than %d ranks or alphas of their own", MAX_KEYS);
    json_object_foreach(object, key, value)
    {
        struct hk_adapter_pattern *one = &p->list[p->count++];
        *one = (struct hk_adapter_pattern){.key = key, .value = value};
        st = compile_config_pattern(one, &total, err);
        if (st != HK_OK)
            break;
    }
    return st;
}

void hk_adapter_patterns_free(struct hk_adapter_patterns *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].compiled)
            regfree(&p->list[i].regex);
    free(p->list);
    json_decref(p->object);
    *p = (struct hk_adapter_patterns){0};
}

json_t *hk_adapter_patterns_find(const struct hk_adapter_patterns *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct hk_adapter_pattern *one = &p->list[i];
        if (one->compiled ? regexec(&one->regex, name, 0, NULL, 0) == 0
                          : matches_name_end(name, one->key))
            return one->value;
    }
    return NULL;
}

/* ---- the keys: each is known, of its type, and followed or without effect ---- */

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

static bool is_neutral_value(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static bool is_list_of_type(const json_t *v, json_type type)
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

static bool has_setting_type(const json_t *v, unsigned may_be)
{
    if (json_is_null(v))
        return (may_be & NEEDED) == 0;
    return (may_be & ANY) != 0 || ((may_be & BOOL) != 0 && json_is_boolean(v)) ||
           ((may_be & (INTEGER | NUMBER)) != 0 && json_is_integer(v)) ||
           ((may_be & NUMBER) != 0 && json_is_real(v)) ||
           ((may_be & TEXT) != 0 && json_is_string(v)) ||
           ((may_be & TEXTS) != 0 && is_list_of_type(v, JSON_STRING)) ||
           ((may_be & NUMBERS) != 0 && is_list_of_type(v, JSON_INTEGER)) ||
           ((may_be & OBJECT) != 0 && json_is_object(v));
}

static enum hk_status refuse_setting(const char *key, const char *value, const char *why,
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
        return is_neutral_value(v)
                   ? HK_OK
                   : refuse_setting(key, NULL, " is not known, so it may change the result", err);
    if (!has_setting_type(v, s->may_be))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "adapter_config.json: key %s has a value of the wrong JSON type", key);
    if ((s->may_be & NEUTRAL) != 0 && !is_neutral_value(v))
        return refuse_setting(key, NULL, " is not supported", err);
    return HK_OK;
}

/* Ways of beginning that take something off the base's weights, so that the adapter is none of the
 * base as it is. The others only choose the first A and B. */
static enum hk_status check_initial_weights(const json_t *c, struct hk_error *err)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal", "true", "false"};
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *start = json_string_value(json_object_get(c, "init_lora_weights"));
    bool known = start == NULL;
    for (size_t i = 0; !known && i < sizeof harmless / sizeof *harmless; i++)
        known = strcmp(start, harmless[i]) == 0;
    for (size_t i = 0; !known && i < sizeof changing / sizeof *changing; i++)
        if (strncmp(start, changing[i], strlen(changing[i])) == 0)
            return refuse_setting("init_lora_weights", start, ", which changes the base too", err);
    return known ? HK_OK : refuse_setting("init_lora_weights", start, ", which is not known", err);
}

static enum hk_status check_peft_type(const json_t *c, struct hk_error *err)
{
    const char *type = json_string_value(json_object_get(c, "peft_type"));
    return type != NULL && strcmp(type, "LORA") == 0
               ? HK_OK
               : refuse_setting("peft_type", type != NULL ? type : "no text", ", not LORA", err);
}

static enum hk_status check_bias_setting(const json_t *c, struct hk_error *err)
{
    const char *bias = json_string_value(json_object_get(c, "bias"));
    return bias == NULL || strcmp(bias, "none") == 0 || strcmp(bias, "all") == 0 ||
                   strcmp(bias, "lora_only") == 0
               ? HK_OK
               : refuse_setting("bias", bias, ", which is not known", err);
}

static enum hk_status check_settings(json_t *c, struct hk_error *err)
{
    const char *key;
    json_t *value;
    enum hk_status st = check_peft_type(c, err);
    json_object_foreach(c, key, value)
    {
        if (st == HK_OK)
            st = check_setting(key, value, err);
    }
    if (st == HK_OK)
        st = check_bias_setting(c, err);
    return st == HK_OK ? check_initial_weights(c, err) : st;
}

/* ---- what is used of them ---- */

enum { MAX_RANK = 1 << 16 };

static enum hk_status parse_adapter_config(json_t **out, const struct hk_file *payload,
                                           struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(payload, "adapter_config");
    struct hk_bytes text;
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "the adapter's metadata has no key adapter_config, so its scale is unknown");
    enum hk_status st = hk_kv_string(kv, &text, err);
    if (st != HK_OK)
        return st;
    *out = hk_json_load(text, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(*out))
        return HK_OK;
    json_decref(*out);
    *out = NULL;
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "adapter_config is no JSON object");
}

/* As PEFT has them where they are absent: 8 and 8. */
static enum hk_status get_rank_and_alpha(struct hk_adapter_config *c, struct hk_error *err)
{
    const json_t *rank = json_object_get(c->json, "r"),
                 *alpha = json_object_get(c->json, "lora_alpha");
    c->rank = rank == NULL ? 8 : json_integer_value(rank);
    c->alpha = alpha == NULL ? 8 : json_number_value(alpha);
    if (c->rank < 1 || c->rank > MAX_RANK)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key r is no rank from 1 to %d", MAX_RANK);
    c->rank_stabilised = json_is_true(json_object_get(c->json, "use_rslora"));
    c->dora = json_is_true(json_object_get(c->json, "use_dora"));
    c->ties = json_is_true(json_object_get(c->json, "ensure_weight_tying"));
    const char *bias = json_string_value(json_object_get(c->json, "bias"));
    c->trains_biases = bias != NULL && strcmp(bias, "none") != 0;
    return HK_OK;
}

/* Every value of pattern KEY is a rank, or with NUMBERS an alpha. */
static enum hk_status check_pattern_values(const struct hk_adapter_config *c, const char *key,
                                           bool numbers, struct hk_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(c->json, key), name, value)
    {
        const int64_t rank = json_integer_value(value);
        if (numbers ? !json_is_number(value) : !json_is_integer(value))
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                           "adapter_config.json: key %s has a value of the wrong JSON type at "
                           "'%.60s'",
                           key, name);
        if (!numbers && (rank < 1 || rank > MAX_RANK))
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                           "adapter_config.json: key %s has no rank from 1 to %d at '%.60s'", key,
                           MAX_RANK, name);
    }
    return HK_OK;
}

enum hk_status hk_adapter_config_of(struct hk_adapter_config *c, json_t *json, struct hk_error *err)
{
    *c = (struct hk_adapter_config){.json = json};
    enum hk_status st = check_settings(json, err);
    if (st == HK_OK)
        st = get_rank_and_alpha(c, err);
    if (st == HK_OK)
        st = check_pattern_values(c, "rank_pattern", false, err);
    if (st == HK_OK)
        st = check_pattern_values(c, "alpha_pattern", true, err);
    if (st == HK_OK)
        st = hk_adapter_patterns_compile(&c->ranks, json_object_get(json, "rank_pattern"), err);
    if (st == HK_OK)
        st = hk_adapter_patterns_compile(&c->alphas, json_object_get(json, "alpha_pattern"), err);
    return st;
}

enum hk_status hk_adapter_config_read(struct hk_adapter_config *c, const struct hk_file *payload,
                                      struct hk_error *err)
{
    json_t *json;
    enum hk_status st = parse_adapter_config(&json, payload, err);
    return st == HK_OK ? hk_adapter_config_of(c, json, err) : st;
}

void hk_adapter_config_free(struct hk_adapter_config *c)
{
    hk_adapter_patterns_free(&c->ranks);
    hk_adapter_patterns_free(&c->alphas);
    json_decref(c->json);
    c->json = NULL;
}

enum hk_status hk_adapter_module(const struct hk_adapter_config *c, const char *name,
                                 uint32_t *rank, double *scale, struct hk_error *err)
{
    const json_t *own_rank = hk_adapter_patterns_find(&c->ranks, name),
                 *own_alpha = hk_adapter_patterns_find(&c->alphas, name);
    const int64_t r = own_rank != NULL ? json_integer_value(own_rank) : c->rank;
    const double alpha = own_alpha != NULL ? json_number_value(own_alpha) : c->alpha;
    *rank = (uint32_t)r;
    *scale = alpha / (c->rank_stabilised ? sqrt((double)r) : (double)r);
    return isfinite(*scale) ? HK_OK
                            : hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                                      "adapter_config.json: module %s has no scale", name);
}

/* Whether NAME is MODULE or the end of it, behind a dot. */
static bool is_end_of_module(const char *name, const char *module)
{
    const size_t n = strlen(name), m = strlen(module);
    return n <= m && strcmp(module + m - n, name) == 0 && (n == m || module[m - n - 1] == '.');
}

const json_t *hk_adapter_token_ids(const struct hk_adapter_config *c, const char *module)
{
    json_t *all = json_object_get(c->json, "trainable_token_indices"), *value;
    const char *key;
    if (json_is_array(all))
        return is_end_of_module("embed_tokens", module) ? all : NULL;
    json_object_foreach(all, key, value)
    {
        if (is_end_of_module(key, module))
            return value;
    }
    return NULL;
}
