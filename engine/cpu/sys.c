/* What is not POSIX: affinity, futexes, large pages, memory as the kernel counts it. */
#include "engine/cpu/sys.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/engine.h"

bool hke_read_affinity(unsigned long *word, size_t size)
{
    return sched_getaffinity(0, size, (cpu_set_t *)(void *)word) == 0;
}

void hke_futex_wait(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void hke_futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

enum {
    LINE_SIZE = 64,
    HUGE_PAGE = 2 << 20, /* of most processors; a wrong guess costs alignment only */
};

void *hke_alloc_pages(size_t size, bool huge_pages)
{
    bool huge = huge_pages && size >= HUGE_PAGE && size <= SIZE_MAX - HUGE_PAGE;
    if (!huge)
        return aligned_alloc(LINE_SIZE, size);
    size_t whole = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, whole);
    if (p != NULL)
        madvise(p, whole, MADV_HUGEPAGE); /* where there are none it works as well */
    return p;
}

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
