/* adapter_config.json: which settings are known, and rank and scale of a module. */
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter.h"

enum { MAX_RANK = 1 << 16 };

/* What a setting has to be: absent or null is always well. */
static bool is_neutral(const json_t *v)
{
    return v == NULL || json_is_null(v) || json_is_false(v) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

/* Ways of beginning that take something off the base's weights, so that the adapter is none of the
 * base as it is. The others only choose the first A and B. */
static enum hk_status check_start(const json_t *c, struct hk_error *err)
{
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *start = json_string_value(json_object_get(c, "init_lora_weights"));
    for (size_t i = 0; start != NULL && i < sizeof changing / sizeof *changing; i++)
        if (strncmp(start, changing[i], strlen(changing[i])) == 0)
            return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "adapter_config: init_lora_weights '%s' changes the base too", start);
    return HK_OK;
}

/* Settings that change what is computed, and that nothing here computes. */
static enum hk_status check_settings(const json_t *c, struct hk_error *err)
{
    static const char *const unknown[] = {
        "fan_in_fan_out", "lora_bias",         "alora_invocation_tokens", "layer_replication",
        "use_qalora",     "target_parameters", "trainable_token_indices", "use_bdlora",
        "arrow_config",   "kasa_config",       "velora_config",           "monteclora_config",
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (!is_neutral(json_object_get(c, unknown[i])))
            return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "adapter_config: '%s' is not supported", unknown[i]);
    const char *type = json_string_value(json_object_get(c, "peft_type"));
    if (type == NULL || strcmp(type, "LORA") != 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config: peft_type is '%s', not LORA", type != NULL ? type : "");
    const char *bias = json_string_value(json_object_get(c, "bias"));
    if (bias != NULL && strcmp(bias, "none") != 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config: bias '%s' is not supported", bias);
    return check_start(c, err);
}

static enum hk_status parse(json_t **out, const struct hk_file *payload, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(payload, "adapter_config");
    struct hk_bytes text;
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "the adapter's metadata has no 'adapter_config', so its scale is unknown");
    enum hk_status status = hk_kv_string(kv, &text, err);
    if (status != HK_OK)
        return status;
    *out = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(*out))
        return HK_OK;
    json_decref(*out);
    *out = NULL;
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "adapter_config is no JSON object");
}

/* As PEFT has them where they are absent: 8 and 8. */
static enum hk_status get_numbers(struct hk_adapter_config *c, struct hk_error *err)
{
    const json_t *rank = json_object_get(c->json, "r"),
                 *alpha = json_object_get(c->json, "lora_alpha");
    c->rank = rank == NULL ? 8 : json_integer_value(rank);
    c->alpha = alpha == NULL ? 8 : json_number_value(alpha);
    if (c->rank < 1 || c->rank > MAX_RANK)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "adapter_config: r is no rank from 1 to %d",
                       MAX_RANK);
    if ((alpha != NULL && !json_is_number(alpha)) || !isfinite(c->alpha))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "adapter_config: lora_alpha is no number");
    c->rank_stabilised = json_is_true(json_object_get(c->json, "use_rslora"));
    c->dora = json_is_true(json_object_get(c->json, "use_dora"));
    return HK_OK;
}

enum hk_status hk_adapter_config_read(struct hk_adapter_config *c, const struct hk_file *payload,
                                      struct hk_error *err)
{
    *c = (struct hk_adapter_config){0};
    enum hk_status status = parse(&c->json, payload, err);
    if (status == HK_OK)
        status = check_settings(c->json, err);
    return status == HK_OK ? get_numbers(c, err) : status;
}

void hk_adapter_config_free(struct hk_adapter_config *c)
{
    json_decref(c->json);
    c->json = NULL;
}

/* Most keys are names: a dot matches a dot too. */
static bool is_name(const char *key)
{
    return key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] ==
           '\0';
}

/* Whether NAME is KEY, or ends in a dot and KEY, with any character for each dot of KEY. */
static bool ends_as(const char *name, const char *key)
{
    const size_t n = strlen(name), k = strlen(key);
    if (n < k || (n > k && name[n - k - 1] != '.'))
        return false;
    for (size_t i = 0; i < k; i++)
        if (key[i] != '.' && key[i] != name[n - k + i])
            return false;
    return true;
}

/* regcomp() calls itself for each group and doubles what a plus stands behind. */
static bool is_short(const char *key)
{
    enum { MOST = 256, MOST_GROUPS = 32, MOST_PLUS = 8 };
    size_t n = 0, groups = 0, plus = 0;
    for (; key[n] != '\0'; n++) {
        groups += key[n] == '(';
        plus += key[n] == '+';
    }
    return n <= MOST && groups <= MOST_GROUPS && plus <= MOST_PLUS;
}

/* PEFT takes a key for a Python pattern that the end of the name has to match. What POSIX reads
 * otherwise is refused, and what would take it without bounds. */
static enum hk_status matches(const char *key, const char *name, bool *match, struct hk_error *err)
{
    regex_t pattern;
    char *text;
    if (is_name(key)) {
        *match = ends_as(name, key);
        return HK_OK;
    }
    if (strpbrk(key, "\\[{") != NULL || strstr(key, "(?") != NULL || !is_short(key))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config: pattern '%.200s' is not supported", key);
    if (asprintf(&text, "^(.*\\.)?(%s)$", key) < 0)
        return hk_fail_nomem(err);
    const int result = regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB);
    free(text);
    if (result != 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "adapter_config: '%s' is no pattern", key);
    *match = regexec(&pattern, name, 0, NULL, 0) == 0;
    regfree(&pattern);
    return HK_OK;
}

/* The value of the first key of PATTERNS that matches NAME, NULL if none does. */
static enum hk_status find(json_t *patterns, const char *name, json_t **out, struct hk_error *err)
{
    const char *key;
    json_t *value;
    *out = NULL;
    json_object_foreach(patterns, key, value)
    {
        bool match = false;
        enum hk_status status = matches(key, name, &match, err);
        if (status != HK_OK)
            return status;
        if (match) {
            *out = value;
            return HK_OK;
        }
    }
    return HK_OK;
}

enum hk_status hk_adapter_module(const struct hk_adapter_config *c, const char *name,
                                 uint32_t *rank, double *scale, struct hk_error *err)
{
    json_t *own_rank, *own_alpha = NULL;
    enum hk_status status = find(json_object_get(c->json, "rank_pattern"), name, &own_rank, err);
    if (status == HK_OK)
        status = find(json_object_get(c->json, "alpha_pattern"), name, &own_alpha, err);
    if (status != HK_OK)
        return status;
    const int64_t r = own_rank != NULL ? json_integer_value(own_rank) : c->rank;
    const double alpha = own_alpha != NULL ? json_number_value(own_alpha) : c->alpha;
    if (r < 1 || r > MAX_RANK || !isfinite(alpha) ||
        (own_alpha != NULL && !json_is_number(own_alpha)))
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config: no rank or alpha for module '%s'", name);
    *rank = (uint32_t)r;
    *scale = alpha / (c->rank_stabilised ? sqrt((double)r) : (double)r);
    return HK_OK;
}
