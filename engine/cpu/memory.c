/* Memory as the kernel counts, keeps and pages it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/model.h"

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

/* ---- weights that stay ---- */

static enum hk_status cannot_lock(uint64_t size, int sys, struct hk_error *err)
{
    struct rlimit limit;
    if (sys == EAGAIN || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return hk_fail_sys(err, sys, "cannot lock the weights in memory");
    return hk_fail_sys(err, sys,
                       "cannot lock the weights in memory, %llu KiB: the limit RLIMIT_MEMLOCK is "
                       "%llu KiB",
                       (unsigned long long)(size >> 10), (unsigned long long)limit.rlim_cur >> 10);
}

static int lock(struct hk_bytes b)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)b.p / page * page;
    return b.n > 0 ? mlock((const void *)at, b.n + ((uintptr_t)b.p - at)) : 0;
}

enum hk_status hke_lock_weights(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (lock(hk_tensor_data(f, t)) != 0 || lock(hk_tensor_scales(f, t)) != 0 ||
            lock(hk_tensor_residual(f, t)) != 0)
            return cannot_lock(hk_file_size(f), errno, err);
    }
    return HK_OK;
}
