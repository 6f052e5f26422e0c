/* tool.c: options and messages of every program. Options come from one table per program, which is
 * also what --help prints; nothing here depends on the environment (getopt obeys POSIXLY_CORRECT).
 */
#include "tools/lib/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program = "hk";
static bool bar_shown;

/* A program started with one of its three streams closed must not get a file of its own in that
 * place. The stand-in cannot be used in the stream's direction, so using it is still an error. */
static void hold_streams(void)
{
    static const int wrong_way[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", wrong_way[fd]) != fd)
            exit(TOOL_TROUBLE);
}

void tool_begin(struct tool_args *args, const struct tool *tool, int argc, char **argv)
{
    hold_streams();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    program = tool->name;
    tool_catch_truncation(program);
    *args = (struct tool_args){
        .tool = tool, .argc = argc, .argv = argv, .operands = argv + (argc > 0), .at = 1};
}

/* ---- messages ---- */

static void clear_bar(void)
{
    if (bar_shown)
        fputs("\r\033[K", stderr);
    bar_shown = false;
}

static struct hk_bytes bytes_of(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

/* One write for a whole line, so that lines of programs in a pipeline do not mix. */
__attribute__((format(printf, 3, 0))) static void write_message(const char *file, const char *end,
                                                                const char *fmt, va_list ap)
{
    char *text = NULL, *line = NULL;
    size_t size;
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL) {
        fprintf(stderr, "%s: out of memory\n", program);
        free(text);
        return;
    }
    fprintf(out, "%s: ", program);
    if (file != NULL) {
        tool_escape(out, bytes_of(strcmp(file, "-") == 0 ? "standard input" : file));
        fputs(": ", out);
    }
    tool_escape(out, bytes_of(text != NULL ? text : fmt));
    fprintf(out, "%s\n", end);
    clear_bar();
    if (fclose(out) == 0)
        fwrite(line, 1, size, stderr);
    free(line);
    free(text);
}

void tool_warn(const char *file, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_message(file, "", fmt, ap);
    va_end(ap);
}

void tool_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_message(NULL, " (try --help)", fmt, ap);
    va_end(ap);
    exit(TOOL_TROUBLE);
}

void tool_nomem(void)
{
    tool_warn(NULL, "out of memory");
    exit(TOOL_TROUBLE);
}

int tool_error(const char *file, const struct hk_error *err)
{
    if (err->status == HK_E_IO && err->sys == EPIPE)
        return TOOL_OK;
    if (err->offset != HK_NO_OFFSET)
        tool_warn(file, "%s, at 0x%llx", err->text, (unsigned long long)err->offset);
    else
        tool_warn(file, "%s", err->text);
    switch (err->status) {
    case HK_E_IO:
    case HK_E_NOMEM:
    case HK_E_USE:
        return TOOL_TROUBLE;
    default:
        return TOOL_CONTENT;
    }
}

int tool_worse(int a, int b)
{
    return a > b ? a : b;
}

static long long milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The first call only starts the clock: short work shows nothing. */
void tool_progress(const char *label, uint64_t done, uint64_t all)
{
    enum { WIDTH = 40, INTERVAL = 100 };
    static long long shown = -1;
    if (!isatty(STDERR_FILENO))
        return;
    long long now = milliseconds_now();
    if (done >= all) {
        clear_bar();
        shown = -1;
        return;
    }
    if (shown >= 0 && now - shown < INTERVAL)
        return;
    bool first = shown < 0;
    shown = now;
    if (first)
        return;
    double part = (double)done / (double)all;
    int filled = (int)(part * WIDTH);
    fprintf(stderr, "\r%s [%.*s%*s] %3d%%", label, filled,
            "########################################", WIDTH - filled, "", (int)(part * 100));
    bar_shown = true;
}

/* ---- help ---- */

static void print_option_help(char letter, const char *name, const char *argument, const char *help)
{
    char left[80];
    int n = letter != 0 ? snprintf(left, sizeof left, "-%c, ", letter)
                        : snprintf(left, sizeof left, "    ");
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", name, argument != NULL ? " " : "",
             argument != NULL ? argument : "");
    printf("  %-24s %s\n", left, help);
}

static void print_help(const struct tool *t)
{
    printf("usage: %s [OPTION]... %s\n%s\n\n", t->name, t->operands, t->about);
    for (size_t i = 0; i < t->option_count; i++) {
        const struct tool_option *o = &t->options[i];
        print_option_help(o->letter, o->name, o->argument, o->help);
    }
    print_option_help(0, "help", NULL, "print this and end");
    print_option_help(0, "version", NULL, "print the version and end");
    printf("\nThe manual is %s(1); hk(1) has what all programs share.\n", t->name);
}

/* ---- parsing ---- */

static int take_long_option(struct tool_args *a, const char *word, const char **value)
{
    size_t length = strcspn(word, "=");
    const char *given = word[length] == '=' ? word + length + 1 : NULL;
    for (size_t i = 0; i < a->tool->option_count; i++) {
        const struct tool_option *o = &a->tool->options[i];
        if (strlen(o->name) != length || memcmp(o->name, word, length) != 0)
            continue;
        if (o->argument == NULL && given != NULL)
            tool_usage("option --%s takes no argument", o->name);
        if (o->argument != NULL && given == NULL && a->at >= a->argc)
            tool_usage("option --%s needs an argument: %s", o->name, o->argument);
        *value = o->argument != NULL && given == NULL ? a->argv[a->at++] : given;
        return (int)i;
    }
    if (strcmp(word, "help") == 0) {
        print_help(a->tool);
        exit(tool_end(TOOL_OK));
    }
    if (strcmp(word, "version") == 0) {
        printf("%s %s\n", a->tool->name, hk_version());
        exit(tool_end(TOOL_OK));
    }
    tool_usage("unknown option --%.*s", (int)length, word);
}

static int take_short_option(struct tool_args *a, const char **value)
{
    char letter = *a->cluster++;
    const char *rest = *a->cluster != '\0' ? a->cluster : NULL;
    for (size_t i = 0; i < a->tool->option_count; i++) {
        const struct tool_option *o = &a->tool->options[i];
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

int tool_next(struct tool_args *a, const char **value)
{
    if (a->cluster != NULL)
        return take_short_option(a, value);
    while (a->at < a->argc) {
        char *word = a->argv[a->at++];
        if (strcmp(word, "--") == 0) {
            while (a->at < a->argc)
                take_operand(a, a->argv[a->at++]);
        } else if (word[0] == '-' && word[1] == '-') {
            return take_long_option(a, word + 2, value);
        } else if (word[0] == '-' && word[1] != '\0') {
            a->cluster = word + 1;
            return take_short_option(a, value);
        } else {
            take_operand(a, word);
        }
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
