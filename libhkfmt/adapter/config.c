/* adapter_config.json: what the reader uses of it, and rank and scale of a module. */
#include <math.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/base/json_tree.h"

enum { MAX_RANK = 1 << 16 };

static enum hk_status parse(json_t **out, const struct hk_file *payload, struct hk_error *err)
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
static enum hk_status get_numbers(struct hk_adapter_config *c, struct hk_error *err)
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
static enum hk_status check_pattern(const struct hk_adapter_config *c, const char *key,
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
    enum hk_status st = hk_adapter_check_settings(json, err);
    if (st == HK_OK)
        st = get_numbers(c, err);
    if (st == HK_OK)
        st = check_pattern(c, "rank_pattern", false, err);
    if (st == HK_OK)
        st = check_pattern(c, "alpha_pattern", true, err);
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
    enum hk_status st = parse(&json, payload, err);
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
static bool names(const char *name, const char *module)
{
    const size_t n = strlen(name), m = strlen(module);
    return n <= m && strcmp(module + m - n, name) == 0 && (n == m || module[m - n - 1] == '.');
}

const json_t *hk_adapter_token_ids(const struct hk_adapter_config *c, const char *module)
{
    json_t *all = json_object_get(c->json, "trainable_token_indices"), *value;
    const char *key;
    if (json_is_array(all))
        return names("embed_tokens", module) ? all : NULL;
    json_object_foreach(all, key, value)
    {
        if (names(key, module))
            return value;
    }
    return NULL;
}
