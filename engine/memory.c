/* What this process holds, as the kernel counts it. */
#include <stdio.h>

#include "engine/engine.h"

struct hke_memory hke_memory_now(void)
{
    struct hke_memory m = {0};
    FILE *f = fopen("/proc/self/status", "re");
    if (f == NULL)
        return m;
    char line[256];
    unsigned long long kib;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "RssAnon: %llu", &kib) == 1)
            m.private = kib * 1024;
        else if (sscanf(line, "RssFile: %llu", &kib) == 1)
            m.mapped = kib * 1024;
    }
    fclose(f);
    return m;
}
