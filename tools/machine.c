/* HK_KERNELS and HK_THREADS: read here, once, and passed down. */
#include "tools/machine.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cores.h"
#include "engine/pool.h"
#include "tools/tool.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

const struct hkk_table *tool_kernels(void)
{
    const struct hkk_table *table = NULL;
    const char *name = variable("HK_KERNELS");
    const char *why_not = hkk_select(name, &table);
    if (why_not == NULL)
        return table;
    tool_warn(NULL, "HK_KERNELS: %s: %s", name != NULL ? name : "no level", why_not);
    exit(TOOL_TROUBLE);
}

unsigned tool_threads(void)
{
    const char *value = variable("HK_THREADS");
    if (value == NULL) {
        struct hke_cores cores;
        hke_cores_find(&cores, "", NULL);
        return cores.threads;
    }
    bool digits = value[strspn(value, "0123456789")] == '\0';
    unsigned long n = digits ? strtoul(value, NULL, 10) : 0;
    if (n >= 1 && n <= HKE_MAX_THREADS)
        return (unsigned)n;
    tool_warn(NULL, "HK_THREADS: %s: not a number of threads from 1 to %d", value, HKE_MAX_THREADS);
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
