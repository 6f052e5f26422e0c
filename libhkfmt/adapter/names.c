/* How PEFT names the tensors of an adapter. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"

enum { MODULE_SIZE = 256 };

static const char prefix[] = "base_model.model.";

/* Behind the module's name; the adapter's own name, "default", may stand in it. */
static const struct {
    const char *suffix;
    enum hk_adapter_part part;
} suffixes[] = {
    {".lora_A.weight", HK_ADAPTER_A},
    {".lora_A.default.weight", HK_ADAPTER_A},
    {".lora_B.weight", HK_ADAPTER_B},
    {".lora_B.default.weight", HK_ADAPTER_B},
    {".lora_embedding_A", HK_ADAPTER_EMBEDDING_A},
    {".lora_embedding_A.default", HK_ADAPTER_EMBEDDING_A},
    {".lora_embedding_B", HK_ADAPTER_EMBEDDING_B},
    {".lora_embedding_B.default", HK_ADAPTER_EMBEDDING_B},
    {".lora_magnitude_vector", HK_ADAPTER_MAGNITUDE},
    {".lora_magnitude_vector.weight", HK_ADAPTER_MAGNITUDE},
    {".lora_magnitude_vector.default.weight", HK_ADAPTER_MAGNITUDE},
    {".token_adapter.trainable_tokens_delta", HK_ADAPTER_TOKENS},
    {".token_adapter.trainable_tokens_delta.default", HK_ADAPTER_TOKENS},
};

enum { SUFFIXES = sizeof suffixes / sizeof *suffixes };

static bool ends_in_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n > m && strcmp(s + n - m, suffix) == 0;
}

/* "lm_head.modules_to_save.default.weight" is lm_head.weight, trained; ".base_layer." stands in the
 * name of a copy. */
static enum hk_adapter_part drop_peft_wrapper(char *module)
{
    static const struct {
        const char *text;
        enum hk_adapter_part part;
    } wrappers[] = {
        {".modules_to_save.default.", HK_ADAPTER_WHOLE},
        {".modules_to_save.", HK_ADAPTER_WHOLE},
        {".token_adapter.base_layer.", HK_ADAPTER_COPY},
        {".base_layer.", HK_ADAPTER_COPY},
    };
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        char *at = strstr(module, wrappers[i].text);
        if (at == NULL)
            continue;
        const char *rest = at + strlen(wrappers[i].text);
        memmove(at + 1, rest, strlen(rest) + 1);
        return wrappers[i].part;
    }
    return HK_ADAPTER_WHOLE;
}

bool hk_adapter_name(struct hk_bytes name, char *module, enum hk_adapter_part *part)
{
    const size_t skip = sizeof prefix - 1;
    if (name.n <= skip || name.n - skip >= MODULE_SIZE || memcmp(name.p, prefix, skip) != 0 ||
        memchr(name.p, '\0', name.n) != NULL)
        return false;
    snprintf(module, MODULE_SIZE, "%.*s", (int)(name.n - skip), (const char *)name.p + skip);
    for (size_t i = 0; i < SUFFIXES; i++)
        if (ends_in_suffix(module, suffixes[i].suffix)) {
            module[strlen(module) - strlen(suffixes[i].suffix)] = '\0';
            *part = suffixes[i].part;
            return true;
        }
    if (strstr(module, ".lora_") != NULL || strstr(module, "trainable_tokens") != NULL)
        return false;
    *part = drop_peft_wrapper(module);
    return true;
}

enum hk_status hk_adapter_part_of(const struct hk_adapter_config *c, const struct hk_tensor *t,
                                  char *module, enum hk_adapter_part *part, struct hk_error *err)
{
    if (!hk_adapter_name(t->name, module, part))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s is none of an adapter that can be applied", HK_STR(t->name));
    if (*part == HK_ADAPTER_COPY && c->trains_biases && ends_in_suffix(module, ".bias"))
        *part = HK_ADAPTER_WHOLE;
    return HK_OK;
}

bool hk_adapter_part_name(const char *module, enum hk_adapter_part part, size_t i, char *out)
{
    for (size_t k = 0; k < SUFFIXES; k++)
        if (suffixes[k].part == part && i-- == 0) {
            snprintf(out, 512, "%s%s%s", prefix, module, suffixes[k].suffix);
            return true;
        }
    return false;
}
