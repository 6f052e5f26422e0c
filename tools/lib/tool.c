/* tool.c: options of every program. They come from one table per program, which is also what --help
 * prints; nothing here depends on the environment (getopt obeys POSIXLY_CORRECT). */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

/* A program started with one of its three streams closed must not get a file of its own in that
 * place. The stand-in cannot be used in the stream's direction, so using it is still an error. */
static void hold_streams(void)
{
    static const int wrong_way[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", wrong_way[fd]) != fd)
            exit(TOOL_TROUBLE);
}

void tool_begin_group(struct tool_args *args, const struct tool *tool, void *values, int argc,
                      char **argv)
{
    hold_streams();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    tool_message_begin(tool->name);
    tool_catch_truncation(tool->name);
    *args = (struct tool_args){.tool = tool,
                               .group_values = values,
                               .argc = argc,
                               .argv = argv,
                               .operands = argv + (argc > 0),
                               .at = 1};
}

void tool_begin(struct tool_args *args, const struct tool *tool, int argc, char **argv)
{
    tool_begin_group(args, tool, NULL, argc, argv);
}

/* What every program has. -v is for those with statistics. */
static const struct tool_option common[] = {
    {"help", 'h', NULL, "print this help and exit"},
    {"quiet", 'q', NULL, "print only errors: no warnings, statistics or progress"},
    {"version", 0, NULL, "print the version and exit"},
    {"verbose", 'v', NULL, "print statistics even if standard error is no terminal"},
};

static size_t group_count(const struct tool *t)
{
    return t->group != NULL ? t->group->count : 0;
}

static size_t common_count(const struct tool *t)
{
    return sizeof common / sizeof *common - !t->statistics;
}

/* Option NUMBER of T: first come its own, then those of its group, then the common ones. NULL past
 * the last. */
static const struct tool_option *option_at(const struct tool *t, size_t number)
{
    if (number < t->option_count)
        return &t->options[number];
    number -= t->option_count;
    if (number < group_count(t))
        return &t->group->options[number];
    number -= group_count(t);
    return number < common_count(t) ? &common[number] : NULL;
}

/* ---- help ---- */

static void print_option_help(const struct tool_option *o)
{
    char left[80];
    int n = o->letter != 0 ? snprintf(left, sizeof left, "-%c, ", o->letter)
                           : snprintf(left, sizeof left, "    ");
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, o->argument != NULL ? " " : "",
             o->argument != NULL ? o->argument : "");
    printf("  %-28s %s\n", left, o->help);
}

/* Those of the program and of its group in the order of their names. */
static void print_options_help(const struct tool *t)
{
    const size_t all = t->option_count + group_count(t);
    for (size_t own = 0, shared = t->option_count; own < t->option_count || shared < all;) {
        const struct tool_option *a = own < t->option_count ? option_at(t, own) : NULL;
        const struct tool_option *b = shared < all ? option_at(t, shared) : NULL;
        const bool first = b == NULL || (a != NULL && strcmp(a->name, b->name) < 0);
        print_option_help(first ? a : b);
        own += first;
        shared += !first;
    }
    for (size_t i = 0; i < common_count(t); i++)
        print_option_help(&common[i]);
}

int tool_help(const struct tool *t)
{
    printf("usage: %s [OPTION]... %s\n%s\n\n", t->name, t->operands, t->about);
    print_options_help(t);
    if (t->more_help != NULL)
        t->more_help();
    printf("\nThe manual is %s(1)%s.\n", t->name,
           strcmp(t->name, "hk") != 0 ? "; hk(1) has what all programs share" : "");
    return tool_end(TOOL_OK);
}

/* The tables for shell completion: the operands, then a line for each option. */
static void print_options_table(const struct tool *t)
{
    const struct tool_option *o;
    puts(t->operands);
    for (size_t i = 0; (o = option_at(t, i)) != NULL; i++)
        printf("%s\t%.1s\t%s\t%s\n", o->name, &o->letter, o->argument != NULL ? o->argument : "",
               o->help);
}

/* ---- parsing ---- */

static int take_long_option(struct tool_args *a, const char *word, const char **value)
{
    const struct tool_option *o;
    size_t length = strcspn(word, "=");
    const char *given = word[length] == '=' ? word + length + 1 : NULL;
    for (size_t i = 0; (o = option_at(a->tool, i)) != NULL; i++) {
        if (strlen(o->name) != length || memcmp(o->name, word, length) != 0)
            continue;
        if (o->argument == NULL && given != NULL)
            tool_usage("option --%s takes no argument", o->name);
        if (o->argument != NULL && given == NULL && a->at >= a->argc)
            tool_usage("option --%s needs an argument: %s", o->name, o->argument);
        *value = o->argument != NULL && given == NULL ? a->argv[a->at++] : given;
        return (int)i;
    }
    if (strcmp(word, "complete-options") == 0) {
        print_options_table(a->tool);
        exit(tool_end(TOOL_OK));
    }
    tool_usage("unknown option --%.*s", (int)length, word);
}

static int take_short_option(struct tool_args *a, const char **value)
{
    const struct tool_option *o;
    char letter = *a->cluster++;
    const char *rest = *a->cluster != '\0' ? a->cluster : NULL;
    for (size_t i = 0; (o = option_at(a->tool, i)) != NULL; i++) {
        if (o->letter != letter)
            continue;
        *value = NULL;
        if (o->argument != NULL) {
            if (rest == NULL && a->at >= a->argc)
                tool_usage("option -%c needs an argument: %s", letter, o->argument);
            *value = rest != NULL ? rest : a->argv[a->at++];
            rest = NULL;
        }
        a->cluster = rest;
        return (int)i;
    }
    tool_usage("unknown option -%c", letter);
}

/* Operands move to the front of argv, into places whose words were used. */
static void take_operand(struct tool_args *a, char *word)
{
    a->operands[a->operand_count++] = word;
}

/* All words that are left. */
static void take_operands(struct tool_args *a)
{
    while (a->at < a->argc)
        take_operand(a, a->argv[a->at++]);
}

/* The number of the next option, as option_at() counts. */
static int take_option(struct tool_args *a, const char **value)
{
    if (a->cluster != NULL)
        return take_short_option(a, value);
    while (a->at < a->argc) {
        char *word = a->argv[a->at++];
        if (strcmp(word, "--") == 0) {
            take_operands(a);
        } else if (word[0] == '-' && word[1] == '-') {
            return take_long_option(a, word + 2, value);
        } else if (word[0] == '-' && word[1] != '\0') {
            a->cluster = word + 1;
            return take_short_option(a, value);
        } else {
            take_operand(a, word);
            if (a->tool->operand_ends_options)
                take_operands(a);
        }
    }
    return -1;
}

static void obey_common_option(const struct tool *t, const struct tool_option *o)
{
    switch (o->letter) {
    case 'h':
        exit(tool_help(t));
    case 'q':
        tool_be_quiet();
        break;
    case 'v':
        tool_be_verbose();
        break;
    default:
        printf("%s %s\n", t->name, hk_version());
        exit(tool_end(TOOL_OK));
    }
}

int tool_next(struct tool_args *a, const char **value)
{
    const struct tool *t = a->tool;
    const size_t own = t->option_count, all = own + group_count(t);
    for (int number; (number = take_option(a, value)) >= 0;) {
        const size_t n = (size_t)number;
        if (n < own)
            return number;
        if (n < all)
            t->group->set(a->group_values, (int)(n - own), *value);
        else
            obey_common_option(t, option_at(t, n));
    }
    return -1;
}

/* ---- numbers of options ---- */

/* Digits from *S on; false where there is none or the number does not fit. */
static bool read_digits(const char **s, uint64_t *v)
{
    const char *p = *s;
    uint64_t sum = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
            return false;
    bool any = p != *s;
    *s = p;
    *v = sum;
    return any;
}

static uint64_t check_option_range(const char *name, const char *value, uint64_t v, uint64_t least,
                                   uint64_t most)
{
    if (v < least || v > most)
        tool_usage("--%s: %s is not in %llu..%llu", name, value, (unsigned long long)least,
                   (unsigned long long)most);
    return v;
}

uint64_t tool_uint(const char *name, const char *value, uint64_t least, uint64_t most)
{
    const char *s = value;
    uint64_t v;
    if (!read_digits(&s, &v) || *s != '\0')
        tool_usage("--%s: not a whole number: %s", name, value);
    return check_option_range(name, value, v, least, most);
}

uint64_t tool_size(const char *name, const char *value, uint64_t least, uint64_t most)
{
    static const char suffixes[] = "kMG";
    const char *s = value;
    uint64_t v;
    bool good = read_digits(&s, &v);
    const char *suffix = *s != '\0' ? strchr(suffixes, *s) : NULL;
    if (suffix != NULL) {
        uint64_t unit = UINT64_C(1) << (10 * (suffix - suffixes + 1));
        good = good && !__builtin_mul_overflow(v, unit, &v);
        s++;
    }
    if (!good || *s != '\0')
        tool_usage("--%s: not a size (a whole number, perhaps with k, M or G): %s", name, value);
    return check_option_range(name, value, v, least, most);
}

uint64_t tool_max_output(const char *value)
{
    return tool_size("max-output", value, 1, INT64_MAX);
}

uint32_t tool_align(const char *value)
{
    uint64_t n = tool_uint("align", value, 1, HK_MAX_ALIGNMENT);
    if ((n & (n - 1)) != 0)
        tool_usage("--align takes a power of two, not %llu", (unsigned long long)n);
    return (uint32_t)n;
}

enum hk_type tool_dense_type(const char *value)
{
    const struct hk_type_info *info = hk_type_by_name(value);
    if (info == NULL || info->type > HK_TYPE_BF16)
        tool_usage("--type takes f32, f16 or bf16, not '%s'", value);
    return (enum hk_type)info->type;
}

double tool_double(const char *name, const char *value, double least, double most)
{
    char *end;
    bool plain = value[strspn(value, "0123456789.eE+-")] == '\0' && value[0] != '\0';
    double v = plain ? strtod(value, &end) : 0;
    if (!plain || *end != '\0' || !isfinite(v))
        tool_usage("--%s: not a number: %s", name, value);
    if (v < least || v > most)
        tool_usage("--%s: %s is not in %g..%g", name, value, least, most);
    return v;
}
