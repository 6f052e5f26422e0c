/* Tensors that adapter_config.json promises: modules trained whole and trained tokens. */
#include <string.h>

#include "libhkfmt/adapter/adapter.h"

/* Whether PART is one of the names between the dots of NAME. */
static bool has_part(const char *name, const char *part)
{
    const size_t n = strlen(part);
    for (const char *at = strstr(name, part); n > 0 && at != NULL; at = strstr(at + 1, part))
        if ((at == name || at[-1] == '.') && (at[n] == '\0' || at[n] == '.'))
            return true;
    return false;
}

/* Whether the payload has a tensor of PART in the module that the settings call NAME. */
static bool has_tensor(const struct hk_file *payload, const char *name, enum hk_adapter_part wanted)
{
    char module[256];
    enum hk_adapter_part part;
    for (size_t i = 0; i < hk_tensor_count(payload); i++)
        if (hk_adapter_name(hk_tensor_at(payload, i)->name, module, &part) && part == wanted &&
            has_part(module, name))
            return true;
    return false;
}

static enum hk_status need_tensor(const struct hk_adapter_reading *r, const char *key,
                                  const char *name, enum hk_adapter_part part, struct hk_error *err)
{
    return has_tensor(r->payload, name, part)
               ? HK_OK
               : hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                         "adapter_config.json: key %s names %.60s, of which the adapter has no "
                         "tensor",
                         key, name);
}

static enum hk_status check_modules(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum { MAX_MODULES = 64 }; /* each is looked for in all tensors */
    static const char key[] = "modules_to_save";
    const json_t *list = json_object_get(r->config.json, key);
    enum hk_status st = HK_OK;
    if (json_array_size(list) > MAX_MODULES)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key %s names more than %d modules", key, MAX_MODULES);
    for (size_t i = 0; st == HK_OK && i < json_array_size(list); i++)
        st = need_tensor(r, key, json_string_value(json_array_get(list, i)), HK_ADAPTER_WHOLE, err);
    return st;
}

/* A list of rows is of the embedding; else each module has its own. */
static enum hk_status check_tokens(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum { MAX_LISTS = 8 };
    static const char key[] = "trainable_token_indices";
    json_t *all = json_object_get(r->config.json, key), *list;
    const char *name;
    enum hk_status st = HK_OK;
    if (json_array_size(all) > 0)
        return need_tensor(r, key, "embed_tokens", HK_ADAPTER_TOKENS, err);
    if (json_object_size(all) > MAX_LISTS)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key %s names more than %d modules", key, MAX_LISTS);
    json_object_foreach(all, name, list)
    {
        if (st == HK_OK)
            st = need_tensor(r, key, name, HK_ADAPTER_TOKENS, err);
    }
    return st;
}

enum hk_status hk_adapter_check_promised(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum hk_status st = check_modules(r, err);
    return st == HK_OK ? check_tokens(r, err) : st;
}
