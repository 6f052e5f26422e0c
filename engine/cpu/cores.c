/* What the kernel says of processors, cores and quotas. Lists of processors have the form
 * "0-3,8". */
#include "engine/cpu/cores.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/groups.h"
#include "engine/cpu/pool.h"
#include "engine/cpu/sys.h"

enum {
    MAX_CPUS = 8192, /* what the kernel can be configured for */
    WORD = 8 * sizeof(unsigned long),
};

struct cpus {
    unsigned long word[MAX_CPUS / WORD]; /* laid out as the kernel's and cpu_set_t */
};

static void add_cpu(struct cpus *c, unsigned cpu)
{
    c->word[cpu / WORD] |= 1UL << cpu % WORD;
}

static bool contains_cpu(const struct cpus *c, unsigned cpu)
{
    return c->word[cpu / WORD] >> cpu % WORD & 1;
}

static unsigned count_cpus(const struct cpus *c)
{
    unsigned n = 0;
    for (size_t i = 0; i < MAX_CPUS / WORD; i++)
        n += (unsigned)__builtin_popcountl(c->word[i]);
    return n;
}

/* C gets smaller, unless nothing would be left. */
static void limit_cpus(struct cpus *c, const struct cpus *to)
{
    struct cpus both;
    for (size_t i = 0; i < MAX_CPUS / WORD; i++)
        both.word[i] = c->word[i] & to->word[i];
    if (count_cpus(&both) > 0)
        *c = both;
}

/* ---- lists ---- */

/* A number below MAX_CPUS at *S. */
static bool parse_cpu_number(const char **s, unsigned *cpu)
{
    char *end;
    if (**s < '0' || **s > '9')
        return false;
    unsigned long v = strtoul(*s, &end, 10);
    *s = end;
    *cpu = (unsigned)v;
    return v < MAX_CPUS;
}

/* False where TEXT is not a list, or an empty one. */
static bool parse_cpu_list(struct cpus *out, const char *text)
{
    *out = (struct cpus){0};
    const char *s = text;
    for (;;) {
        unsigned first, last;
        if (!parse_cpu_number(&s, &first))
            return false;
        last = first;
        if (*s == '-' && (s++, !parse_cpu_number(&s, &last)))
            return false;
        for (unsigned cpu = first; cpu <= last; cpu++)
            add_cpu(out, cpu);
        if (*s != ',')
            return *s == '\n' || *s == '\0';
        s++;
    }
}

/* ---- processors ---- */

/* Affinity of this thread. */
static bool read_own_affinity(struct cpus *out)
{
    *out = (struct cpus){0};
    return hke_read_affinity(out->word, sizeof out->word) && count_cpus(out) > 0;
}

/* Without a list of those that run, they are taken to be those allowed; without either, one. */
static void find_processors(struct cpus *online, struct cpus *allowed, const char *root,
                            const char *list)
{
    char text[8192];
    bool known = list != NULL ? parse_cpu_list(allowed, list) : read_own_affinity(allowed);
    if (!hke_read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/online", root) ||
        !parse_cpu_list(online, text)) {
        if (!known)
            parse_cpu_list(allowed, "0");
        *online = *allowed;
        return;
    }
    if (!known)
        *allowed = *online;
    limit_cpus(allowed, online);
}

/* ---- cores ---- */

/* The processors of CPU's core, under the name of newer or that of older kernels. */
static bool read_core(struct cpus *core, unsigned cpu, const char *root)
{
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"};
    char text[8192];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hke_read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/cpu%u/topology/%s",
                                root, cpu, names[i]))
            return parse_cpu_list(core, text);
    return false;
}

/* Whether CPU is the first one of its core among CPUS. */
static bool leads_core(const struct cpus *cpus, unsigned cpu, const char *root)
{
    struct cpus core;
    if (!read_core(&core, cpu, root))
        return true;
    for (unsigned other = 0; other < cpu; other++)
        if (contains_cpu(&core, other) && contains_cpu(cpus, other))
            return false;
    return true;
}

/* Leave one processor of each core. */
static void keep_leaders(struct cpus *cpus, const char *root)
{
    struct cpus leaders = {0};
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (contains_cpu(cpus, cpu) && leads_core(cpus, cpu, root))
            add_cpu(&leaders, cpu);
    *cpus = leaders;
}

/* Relative speed of a processor, the fastest of a machine being 1024; 0 where it is not known. */
static unsigned long read_capacity(unsigned cpu, const char *root)
{
    char text[32];
    return hke_read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/cpu%u/cpu_capacity",
                               root, cpu)
               ? strtoul(text, NULL, 10)
               : 0;
}

/* Machines may have three kinds, two of them big: fast is what has at least half the capacity of
 * the fastest here. (Small cores have a quarter to two fifths.) */
static void keep_capable(struct cpus *cpus, const char *root)
{
    unsigned long max = 0;
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++) {
        unsigned long c = contains_cpu(cpus, cpu) ? read_capacity(cpu, root) : 0;
        max = c > max ? c : max;
    }
    if (max == 0)
        return;
    struct cpus fast = {0};
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (contains_cpu(cpus, cpu) && read_capacity(cpu, root) >= max - max / 2)
            add_cpu(&fast, cpu);
    *cpus = fast;
}

/* Hybrid x86 processors have a performance monitor for each kind of core, with a list of them. A
 * process that may use slow ones only uses those. */
static void keep_fast(struct cpus *cpus, const char *root)
{
    char text[8192];
    struct cpus fast;
    if (hke_read_small_file(text, sizeof text, "%s/sys/devices/cpu_core/cpus", root) &&
        parse_cpu_list(&fast, text))
        limit_cpus(cpus, &fast);
    else
        keep_capable(cpus, root);
}

/* ---- quotas ---- */

static double smaller_quota(double a, double b)
{
    return b == 0 || (a > 0 && a < b) ? a : b;
}

/* The quota of the group in DIR, 0 where it has none, into the double at ARG. */
static void limit_quota(void *arg, const char *dir, bool second)
{
    char text[64], period_text[32];
    long long quota = 0, period = 0;
    double *least = arg;
    if (second) {
        if (!hke_read_small_file(text, sizeof text, "%s/cpu.max", dir) ||
            sscanf(text, "%lld %lld", &quota, &period) != 2)
            return;
    } else if (hke_read_small_file(text, sizeof text, "%s/cpu.cfs_quota_us", dir) &&
               hke_read_small_file(period_text, sizeof period_text, "%s/cpu.cfs_period_us", dir)) {
        quota = strtoll(text, NULL, 10);
        period = strtoll(period_text, NULL, 10);
    }
    if (quota > 0 && period > 0)
        *least = smaller_quota(*least, (double)quota / (double)period);
}

static double find_quota(const char *root)
{
    double least = 0;
    hke_each_group(root, "cpu", limit_quota, &least);
    return least;
}

/* N, but not more than the quota has to do, rounded up. */
static unsigned within_quota(unsigned n, double quota)
{
    if (quota <= 0 || quota >= n)
        return n;
    unsigned whole = (unsigned)quota;
    return whole < quota ? whole + 1 : whole;
}

/* ---- all of it ---- */

void hke_cores_find(struct hke_cores *out, const char *root, const char *allowed)
{
    struct cpus online, cpus;
    find_processors(&online, &cpus, root, allowed);
    out->logical = count_cpus(&online);
    out->allowed = count_cpus(&cpus);
    keep_leaders(&cpus, root);
    out->physical = count_cpus(&cpus);
    keep_fast(&cpus, root);
    out->fast = count_cpus(&cpus);
    out->quota = find_quota(root);
    unsigned threads = within_quota(out->fast, out->quota);
    out->threads = threads < HKE_MAX_THREADS ? threads : HKE_MAX_THREADS;
}

unsigned hke_cores_usable(void)
{
    struct cpus allowed;
    return read_own_affinity(&allowed) ? within_quota(count_cpus(&allowed), find_quota("")) : 1;
}
