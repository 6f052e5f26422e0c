/* How PEFT names the tensors of an adapter. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter.h"

enum { MODULE_SIZE = 256 };

static const struct {
    const char *suffix;
    enum hk_adapter_part part;
} suffixes[] = {
    {".lora_A.weight", HK_ADAPTER_A},
    {".lora_B.weight", HK_ADAPTER_B},
    {".lora_A.default.weight", HK_ADAPTER_A},
    {".lora_B.default.weight", HK_ADAPTER_B},
    {".lora_magnitude_vector", HK_ADAPTER_MAGNITUDE},
    {".lora_magnitude_vector.weight", HK_ADAPTER_MAGNITUDE},
    {".lora_magnitude_vector.default.weight", HK_ADAPTER_MAGNITUDE},
};

static bool ends_in(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n > m && strcmp(s + n - m, suffix) == 0;
}

/* "lm_head.modules_to_save.default.weight" is lm_head.weight. */
static void drop_wrapper(char *module)
{
    static const char *const wrappers[] = {".modules_to_save.default.", ".modules_to_save."};
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        char *at = strstr(module, wrappers[i]);
        if (at == NULL)
            continue;
        const char *rest = at + strlen(wrappers[i]);
        memmove(at + 1, rest, strlen(rest) + 1);
        return;
    }
}

bool hk_adapter_name(struct hk_bytes name, char *module, enum hk_adapter_part *part)
{
    static const char prefix[] = "base_model.model.";
    const size_t skip = sizeof prefix - 1;
    if (name.n <= skip || name.n - skip >= MODULE_SIZE || memcmp(name.p, prefix, skip) != 0 ||
        memchr(name.p, '\0', name.n) != NULL)
        return false;
    snprintf(module, MODULE_SIZE, "%.*s", (int)(name.n - skip), (const char *)name.p + skip);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_in(module, suffixes[i].suffix)) {
            module[strlen(module) - strlen(suffixes[i].suffix)] = '\0';
            *part = suffixes[i].part;
            return true;
        }
    if (strstr(module, ".lora_") != NULL)
        return false;
    drop_wrapper(module);
    *part = HK_ADAPTER_WHOLE;
    return true;
}
