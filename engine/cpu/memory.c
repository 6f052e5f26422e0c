/* Memory as the kernel counts and pages it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/cpu/cpu.h"

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

/* ---- large pages ---- */

enum { HUGE = 2 << 20 }; /* of most processors; a wrong guess costs alignment only */

void *hke_alloc(size_t size, bool huge_pages)
{
    bool huge = huge_pages && size >= HUGE && size <= SIZE_MAX - HUGE;
    if (!huge)
        return aligned_alloc(HKK_ALIGN, size);
    size_t whole = (size + HUGE - 1) / HUGE * HUGE;
    void *p = aligned_alloc(HUGE, whole);
    if (p != NULL)
        madvise(p, whole, MADV_HUGEPAGE); /* where there are none it works as well */
    return p;
}
