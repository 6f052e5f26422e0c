/* What the kernel says of processors, cores and quotas. Lists of processors have the form
 * "0-3,8". */
#include "engine/cpu/cores.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- files ---- */

/* The beginning of a small file as text; false where it cannot be read. */
__attribute__((format(printf, 3, 4))) static bool read_small_file(char *text, size_t size,
                                                                  const char *path, ...)
{
    char name[4096];
    va_list ap;
    va_start(ap, path);
    int length = vsnprintf(name, sizeof name, path, ap);
    va_end(ap);
    if (length < 0 || (size_t)length >= sizeof name)
        return false;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

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
    if (!read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/online", root) ||
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
        if (read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/cpu%u/topology/%s", root,
                            cpu, names[i]))
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
    return read_small_file(text, sizeof text, "%s/sys/devices/system/cpu/cpu%u/cpu_capacity", root,
                           cpu)
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
    if (read_small_file(text, sizeof text, "%s/sys/devices/cpu_core/cpus", root) &&
        parse_cpu_list(&fast, text))
        limit_cpus(cpus, &fast);
    else
        keep_capable(cpus, root);
}

/* ---- quotas ---- */

/* One hierarchy of control groups: where this process is in it, and where it is mounted. */
struct hierarchy {
    bool second;                     /* version 2 */
    char path[1024];                 /* of the group, from the hierarchy's root */
    char mount[1024], mounted[1024]; /* where, and which group is seen there */
};

/* Whether the comma separated LIST has the controller "cpu". */
static bool lists_cpu_controller(const char *list, size_t n)
{
    for (const char *end = list + n; list < end;) {
        size_t length = strcspn(list, ",: \n");
        if (length == 3 && memcmp(list, "cpu", 3) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

typedef bool match_line_fn(struct hierarchy *h, const char *line);

/* The first line of a file that FN takes. */
static bool find_matching_line(struct hierarchy *h, const char *root, const char *path,
                               match_line_fn *fn)
{
    char name[4096], *line = NULL;
    size_t room = 0;
    bool found = false;
    if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name)
        return false;
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (!found && getline(&line, &room, file) >= 0)
        found = fn(h, line);
    free(line);
    fclose(file);
    return found;
}

/* /proc/self/cgroup: "4:cpu,cpuacct:/path" or, for version 2, "0::/path". */
static bool match_group_path(struct hierarchy *h, const char *line)
{
    const char *list = strchr(line, ':');
    const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL)
        return false;
    size_t n = (size_t)(path - list - 1);
    if (h->second ? n > 0 : !lists_cpu_controller(list + 1, n))
        return false;
    return sscanf(path + 1, "%1023[^\n]", h->path) == 1;
}

/* /proc/self/mountinfo: "30 23 0:26 /mounted /mount rw,... shared:4 - cgroup2 source rw,..." */
static bool match_group_mount(struct hierarchy *h, const char *line)
{
    char type[32], options[1024];
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
        return false;
    if (strcmp(type, h->second ? "cgroup2" : "cgroup") != 0 ||
        (!h->second && !lists_cpu_controller(options, strlen(options))))
        return false;
    return sscanf(line, "%*s %*s %*s %1023s %1023s", h->mounted, h->mount) == 2;
}

/* Quota of the group in directory DIR; 0 where it has none. */
static double group_quota(const struct hierarchy *h, const char *root, const char *dir)
{
    char text[64], period_text[32];
    long long quota = 0, period = 0;
    if (h->second) {
        if (!read_small_file(text, sizeof text, "%s%s/cpu.max", root, dir) ||
            sscanf(text, "%lld %lld", &quota, &period) != 2)
            return 0;
    } else if (read_small_file(text, sizeof text, "%s%s/cpu.cfs_quota_us", root, dir) &&
               read_small_file(period_text, sizeof period_text, "%s%s/cpu.cfs_period_us", root,
                               dir)) {
        quota = strtoll(text, NULL, 10);
        period = strtoll(period_text, NULL, 10);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double smaller_quota(double a, double b)
{
    return b == 0 || (a > 0 && a < b) ? a : b;
}

/* A group is bound by those above it too. Those above the one that is mounted cannot be seen. */
static double hierarchy_quota(bool second, const char *root)
{
    struct hierarchy h = {.second = second};
    if (!find_matching_line(&h, root, "/proc/self/cgroup", match_group_path) ||
        !find_matching_line(&h, root, "/proc/self/mountinfo", match_group_mount))
        return 0;
    size_t above = strcmp(h.mounted, "/") == 0 ? 0 : strlen(h.mounted);
    bool inside =
        strncmp(h.path, h.mounted, above) == 0 && (h.path[above] == '/' || h.path[above] == '\0');
    char dir[2 * sizeof h.path];
    snprintf(dir, sizeof dir, "%s%s", h.mount, inside ? h.path + above : "");
    size_t top = strlen(h.mount);
    double quota = group_quota(&h, root, dir);
    while (strlen(dir) > top) {
        *strrchr(dir, '/') = '\0';
        quota = smaller_quota(quota, group_quota(&h, root, dir));
    }
    return quota;
}

static double find_quota(const char *root)
{
    return smaller_quota(hierarchy_quota(true, root), hierarchy_quota(false, root));
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
