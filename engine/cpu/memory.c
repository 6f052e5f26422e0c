/* Memory as the kernel counts it. */
#include "engine/cpu/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/groups.h"

/* The number behind NAME at the start of a line of TEXT; 0 where there is none. */
static uint64_t number_named(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == ':'))
            return strtoull(line + n + 1, NULL, 10);
    }
    return 0;
}

static bool read_number(uint64_t *out, const char *dir, const char *name)
{
    char text[64], *end;
    if (!hke_read_small_file(text, sizeof text, "%s/%s", dir, name))
        return false;
    *out = strtoull(text, &end, 10);
    return end != text;
}

/* What the group in DIR leaves, into the number at ARG. What it has of files can be forgotten, but
 * for those that are memory themselves. */
static void limit_memory(void *arg, const char *dir, bool second)
{
    uint64_t *least = arg, limit, used;
    char stat[8192];
    if (!read_number(&limit, dir, second ? "memory.max" : "memory.limit_in_bytes") ||
        !read_number(&used, dir, second ? "memory.current" : "memory.usage_in_bytes"))
        return;
    if (hke_read_small_file(stat, sizeof stat, "%s/memory.stat", dir)) {
        const uint64_t files = number_named(stat, second ? "file" : "total_cache");
        const uint64_t shared = number_named(stat, second ? "shmem" : "total_shmem");
        const uint64_t forgettable = files > shared ? files - shared : 0;
        used = used > forgettable ? used - forgettable : 0;
    }
    const uint64_t left = limit > used ? limit - used : 0;
    *least = left < *least ? left : *least;
}

uint64_t hke_memory_available(const char *root)
{
    uint64_t least = UINT64_MAX;
    char text[4096];
    if (hke_read_small_file(text, sizeof text, "%s/proc/meminfo", root) &&
        number_named(text, "MemAvailable") > 0)
        least = number_named(text, "MemAvailable") * 1024;
    hke_each_group(root, "memory", limit_memory, &least);
    return least;
}
