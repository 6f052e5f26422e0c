/* hk-hardware-profile: what this machine has, and what of it the engine uses. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/cpu/cores.h"
#include "tools/lib/engine_options.h"

enum option { OPT_TABLE };

static const struct tool_option options[] = {
    [OPT_TABLE] = TOOL_OPTION_TABLE,
};

static const struct tool tool = {
    .name = "hk-hardware-profile",
    .operands = "",
    .about = "Show the processor, the kernels and cores in use, and memory, as JSON.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

/* Features that kernels use, or could; the names are Linux's. */
static const char *const features[] = {
    "avx",      "f16c",     "fma",      "avx2",        "avx_vnni",    "avx512f",
    "avx512dq", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "asimd",       "asimdhp",     "asimddp",
    "i8mm",     "bf16",     "sve",      "sve2",        "sme",
};
enum { FEATURES = sizeof features / sizeof *features };

struct memory { /* bytes; 0 where the system does not say */
    uint64_t total, available, page;
    uint64_t huge_size, huge_total, huge_free; /* reserved pages: their size and numbers */
    char transparent[16];                      /* "always", "madvise" or "never"; or empty */
};

struct profile {
    struct utsname system;
    char *vendor, *model, *flags; /* NULL where the system does not say */
    bool has[FEATURES];
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t levels;
    const char *in_use;
    struct hke_cores cores;
    struct memory memory;
};

static bool parse_profile_options(int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    bool table = false;
    tool_begin(&args, &tool, argc, argv);
    while (tool_next(&args, &value) == OPT_TABLE)
        table = true;
    if (args.operand_count > 0)
        tool_usage("unexpected operand %s: takes none", args.operands[0]);
    return table;
}

/* ---- what the kernel says ---- */

/* The next "KEY : VALUE" of FILE, without blanks around either. False at its end. A line without a
 * colon gives an empty value. */
static bool read_pair_line(FILE *file, char **line, size_t *room, char **value)
{
    if (getline(line, room, file) < 0)
        return false;
    (*line)[strcspn(*line, "\n")] = '\0';
    *value = *line + strcspn(*line, ":");
    char *end = *value;
    if (*end == ':')
        *value += 1 + strspn(*value + 1, " \t");
    while (end > *line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    return true;
}

static char *copy_string(const char *text)
{
    char *s = strdup(text);
    if (s == NULL)
        tool_nomem();
    return s;
}

/* Companies by the number that Arm gave them, as /proc/cpuinfo spells it. */
static const char *implementer_name(const char *number)
{
    static const char *const known[][2] = {
        {"0x41", "Arm"},       {"0x42", "Broadcom"},  {"0x43", "Cavium"},   {"0x46", "Fujitsu"},
        {"0x48", "HiSilicon"}, {"0x4e", "NVIDIA"},    {"0x51", "Qualcomm"}, {"0x53", "Samsung"},
        {"0x61", "Apple"},     {"0x6d", "Microsoft"}, {"0xc0", "Ampere"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(number, known[i][0]) == 0)
            return known[i][1];
    return number;
}

/* Processors of one machine differ little in this; the first one speaks for all. */
static void read_cpuinfo(struct profile *p)
{
    char *line = NULL, *value;
    size_t room = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && read_pair_line(file, &line, &room, &value)) {
        if (*line == '\0' && p->flags != NULL)
            break;
        if (p->vendor == NULL && strcmp(line, "vendor_id") == 0)
            p->vendor = copy_string(value);
        else if (p->vendor == NULL && strcmp(line, "CPU implementer") == 0)
            p->vendor = copy_string(implementer_name(value));
        else if (p->model == NULL &&
                 (strcmp(line, "model name") == 0 || strcmp(line, "CPU part") == 0))
            p->model = copy_string(value);
        else if (p->flags == NULL && (strcmp(line, "flags") == 0 || strcmp(line, "Features") == 0))
            p->flags = copy_string(value);
    }
    free(line);
    if (file != NULL)
        fclose(file);
}

static void find_cpu_features(struct profile *p)
{
    for (const char *s = p->flags != NULL ? p->flags : ""; *s != '\0';) {
        size_t n = strcspn(s, " ");
        for (size_t i = 0; i < FEATURES; i++)
            if (strlen(features[i]) == n && memcmp(features[i], s, n) == 0)
                p->has[i] = true;
        s += n + strspn(s + n, " ");
    }
}

static void read_meminfo(struct memory *m)
{
    const struct {
        const char *key;
        uint64_t *number, unit;
    } wanted[] = {
        {"MemTotal", &m->total, 1024},         {"MemAvailable", &m->available, 1024},
        {"Hugepagesize", &m->huge_size, 1024}, {"HugePages_Total", &m->huge_total, 1},
        {"HugePages_Free", &m->huge_free, 1},
    };
    char *line = NULL, *value;
    size_t room = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && read_pair_line(file, &line, &room, &value))
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strcmp(line, wanted[i].key) == 0)
                *wanted[i].number = strtoull(value, NULL, 10) * wanted[i].unit;
    free(line);
    if (file != NULL)
        fclose(file);
}

/* "always [madvise] never": the one in brackets. */
static void read_transparent_pages(struct memory *m)
{
    char text[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file == NULL)
        return;
    const char *chosen = fgets(text, sizeof text, file) != NULL ? strchr(text, '[') : NULL;
    if (chosen == NULL || sscanf(chosen, "[%15[a-z]]", m->transparent) != 1)
        m->transparent[0] = '\0';
    fclose(file);
}

static void find_profile(struct profile *p)
{
    p->in_use = engine_options_kernels()->name;
    p->levels = hkk_levels(p->level);
    hke_cores_find(&p->cores, "", NULL);
    p->cores.threads = tool_threads();
    uname(&p->system);
    read_cpuinfo(p);
    find_cpu_features(p);
    read_meminfo(&p->memory);
    read_transparent_pages(&p->memory);
    p->memory.page = (uint64_t)sysconf(_SC_PAGESIZE);
}

/* NULL if the level runs. */
static const char *why_level_cannot_run(const struct hkk_level *l)
{
    if (l->why_not != NULL)
        return l->why_not;
    return l->table == NULL ? "this build does not contain it" : NULL;
}

/* ---- JSON ---- */

static json_t *cpu_json(const struct profile *p)
{
    json_t *o = json_object(), *list = json_array();
    for (size_t i = 0; i < FEATURES; i++)
        if (p->has[i])
            tool_json_push(list, tool_json_text(features[i]));
    tool_json_set(o, "vendor", tool_json_text(p->vendor));
    tool_json_set(o, "model", tool_json_text(p->model));
    tool_json_set(o, "architecture", tool_json_text(p->system.machine));
    tool_json_set(o, "features", list);
    return o;
}

static json_t *kernels_json(const struct profile *p)
{
    json_t *o = json_object(), *contained = json_array(), *runnable = json_array();
    json_t *unavailable = json_object();
    for (size_t i = 0; i < p->levels; i++) {
        const struct hkk_level *l = &p->level[i];
        if (l->table != NULL)
            tool_json_push(contained, tool_json_text(l->name));
        if (why_level_cannot_run(l) == NULL)
            tool_json_push(runnable, tool_json_text(l->name));
        else
            tool_json_set(unavailable, l->name, tool_json_text(why_level_cannot_run(l)));
    }
    tool_json_set(o, "contained", contained);
    tool_json_set(o, "runnable", runnable);
    tool_json_set(o, "in_use", tool_json_text(p->in_use));
    tool_json_set(o, "unavailable", unavailable);
    return o;
}

static json_t *cores_json(const struct hke_cores *c)
{
    json_t *o = json_object();
    tool_json_set(o, "logical", tool_json_uint(c->logical));
    tool_json_set(o, "allowed", tool_json_uint(c->allowed));
    tool_json_set(o, "physical", tool_json_uint(c->physical));
    tool_json_set(o, "fast", tool_json_uint(c->fast));
    tool_json_set(o, "quota", c->quota > 0 ? tool_json_double(c->quota) : json_null());
    tool_json_set(o, "threads", tool_json_uint(c->threads));
    return o;
}

static json_t *machine_memory_json(const struct memory *m)
{
    json_t *o = json_object(), *huge = json_object();
    tool_json_set(huge, "size", tool_json_known(m->huge_size));
    tool_json_set(huge, "total", tool_json_uint(m->huge_total));
    tool_json_set(huge, "free", tool_json_uint(m->huge_free));
    tool_json_set(huge, "transparent",
                  tool_json_text(m->transparent[0] != '\0' ? m->transparent : NULL));
    tool_json_set(o, "total", tool_json_known(m->total));
    tool_json_set(o, "available", tool_json_known(m->available));
    tool_json_set(o, "page_size", tool_json_uint(m->page));
    tool_json_set(o, "huge_pages", huge);
    return o;
}

static void print_profile_json(const struct profile *p)
{
    json_t *o = json_object();
    tool_json_set(o, "cpu", cpu_json(p));
    tool_json_set(o, "kernels", kernels_json(p));
    tool_json_set(o, "cores", cores_json(&p->cores));
    tool_json_set(o, "memory", machine_memory_json(&p->memory));
    tool_json_set(o, "gpu", json_array());
    tool_json_print(o, stdout);
}

/* ---- table ---- */

static void text_row(struct tool_table *t, const char *name, const char *text)
{
    if (text == NULL)
        text = "unknown";
    tool_cell(t, "%s", name);
    tool_cell_bytes(t, hk_bytes_of(text), 0);
}

static void uint_row(struct tool_table *t, const char *name, unsigned n)
{
    tool_cell(t, "%s", name);
    tool_cell(t, "%u", n);
}

static void cpu_rows(struct tool_table *t, const struct profile *p)
{
    char list[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < FEATURES && n < sizeof list; i++)
        if (p->has[i])
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? " " : "", features[i]);
    text_row(t, "vendor", p->vendor);
    text_row(t, "model", p->model);
    text_row(t, "architecture", p->system.machine);
    text_row(t, "features", n > 0 ? list : "none");
}

static void kernel_rows(struct tool_table *t, const struct profile *p)
{
    for (size_t i = 0; i < p->levels; i++) {
        const struct hkk_level *l = &p->level[i];
        const char *state = strcmp(l->name, p->in_use) == 0 ? "in use" : "can run";
        tool_cell(t, "kernels %s", l->name);
        tool_cell(t, "%s", why_level_cannot_run(l) != NULL ? why_level_cannot_run(l) : state);
    }
}

static void core_rows(struct tool_table *t, const struct hke_cores *c)
{
    uint_row(t, "processors", c->logical);
    uint_row(t, "allowed processors", c->allowed);
    uint_row(t, "allowed cores", c->physical);
    uint_row(t, "fast cores", c->fast);
    tool_cell(t, "quota");
    if (c->quota > 0)
        tool_cell(t, "%.2f processors", c->quota);
    else
        tool_cell(t, "none");
    uint_row(t, "threads", c->threads);
}

static void memory_rows(struct tool_table *t, const struct memory *m)
{
    tool_row_size(t, "memory", m->total);
    tool_row_size(t, "available memory", m->available);
    tool_row_size(t, "page size", m->page);
    tool_row_size(t, "huge page size", m->huge_size);
    tool_cell(t, "huge pages");
    tool_cell(t, "%llu reserved, %llu of them free", (unsigned long long)m->huge_total,
              (unsigned long long)m->huge_free);
    text_row(t, "transparent huge pages", m->transparent[0] != '\0' ? m->transparent : NULL);
}

static void print_profile_table(const struct profile *p)
{
    struct tool_table t = {.columns = 2, .right = "ll"};
    cpu_rows(&t, p);
    kernel_rows(&t, p);
    core_rows(&t, &p->cores);
    memory_rows(&t, &p->memory);
    text_row(&t, "gpu", "none");
    tool_table_print(&t, stdout);
}

int main(int argc, char **argv)
{
    struct profile p = {.in_use = NULL};
    bool table = parse_profile_options(argc, argv);
    find_profile(&p);
    if (table)
        print_profile_table(&p);
    else
        print_profile_json(&p);
    free(p.vendor);
    free(p.model);
    free(p.flags);
    return tool_end(TOOL_OK);
}
