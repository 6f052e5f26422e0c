/* What an adapter says of the model that it was made for: base_model_name_or_path in PEFT,
 * general.base_model.0.* in GGUF. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/hkmodel.h"

static const char hub[] = "https://huggingface.co/";

static bool is_hub_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* Whether NAME is ORGANISATION/MODEL, as the hub's are, and no path; *SLASH lies between. */
static bool is_hub_name(const char *name, const char **slash)
{
    *slash = strchr(name, '/');
    if (*slash == NULL || *slash == name || (*slash)[1] == '\0' || name[0] == '.' ||
        (*slash)[1] == '.')
        return false;
    for (const char *p = name; *p != '\0'; p++)
        if (p != *slash && !is_hub_character(*p))
            return false;
    return true;
}

void hk_lora_put_base_name(struct hk_kvlist *kvs, const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "base_model_name_or_path"));
    const char *slash;
    char url[400];
    if (name == NULL || name[0] == '\0')
        return;
    hk_kvlist_int(kvs, "general.base_model.count", 1);
    if (!is_hub_name(name, &slash) || strlen(name) + sizeof hub > sizeof url) {
        hk_kvlist_text(kvs, "general.base_model.0.name", name);
        return;
    }
    hk_kvlist_text(kvs, "general.base_model.0.name", slash + 1);
    hk_kvlist_string(kvs, "general.base_model.0.organization",
                     (struct hk_bytes){(const uint8_t *)name, (size_t)(slash - name)});
    snprintf(url, sizeof url, "%s%s", hub, name);
    hk_kvlist_text(kvs, "general.base_model.0.repo_url", url);
}

static bool get_text(const struct hk_file *f, const char *key, struct hk_bytes *out)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    return kv != NULL && hk_kv_string(kv, out, NULL) == HK_OK && out->n > 0 && hk_utf8_valid(*out);
}

json_t *hk_lora_base_name(const struct hk_file *f)
{
    const size_t skip = sizeof hub - 1;
    struct hk_bytes text;
    if (get_text(f, "general.base_model.0.repo_url", &text) && text.n > skip &&
        memcmp(text.p, hub, skip) == 0)
        text = (struct hk_bytes){text.p + skip, text.n - skip};
    else if (!get_text(f, "general.base_model.0.name", &text))
        return json_null();
    return json_stringn((const char *)text.p, text.n);
}
