/* HK_KERNELS: read here, once, and passed down. */
#include "tools/lib/machine.h"

#include <stdlib.h>
#include <string.h>

#include "tools/lib/tool.h"

static const char *environment_value(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

const struct hkk_table *tool_kernels(void)
{
    const struct hkk_table *table = NULL;
    const char *name = environment_value("HK_KERNELS");
    const char *why_not = hkk_select(name, &table);
    if (why_not == NULL)
        return table;
    tool_warn(NULL, "HK_KERNELS: %s: %s", name != NULL ? name : "no level", why_not);
    exit(TOOL_TROUBLE);
}

enum hke_activations tool_activations(const char *value)
{
    if (strcmp(value, "q8") == 0)
        return HKE_ACTIVATIONS_Q8;
    if (strcmp(value, "f32") == 0)
        return HKE_ACTIVATIONS_F32;
    tool_usage("--activations: neither q8 nor f32: %s", value);
}
