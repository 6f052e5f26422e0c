/* tool.c: options of every program. They come from one table per program, which is also what --help
 * prints; what their values are is in tool_value.c. Nothing here depends on the environment (getopt
 * obeys POSIXLY_CORRECT). */
#include <errno.h>
#include <fcntl.h>
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
    tool_output_begin();
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
    if (argc > 1 && strcmp(argv[1], "--complete") == 0)
        tool_complete(tool, argv + 2, argc - 2);
}

void tool_begin(struct tool_args *args, const struct tool *tool, int argc, char **argv)
{
    tool_begin_group(args, tool, NULL, argc, argv);
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
    const size_t all = t->option_count + tool_group_count(t);
    for (size_t own = 0, shared = t->option_count; own < t->option_count || shared < all;) {
        const struct tool_option *a = own < t->option_count ? tool_option_at(t, own) : NULL;
        const struct tool_option *b = shared < all ? tool_option_at(t, shared) : NULL;
        const bool first = b == NULL || (a != NULL && strcmp(a->name, b->name) < 0);
        print_option_help(first ? a : b);
        own += first;
        shared += !first;
    }
    const struct tool_option *o;
    for (size_t i = all; (o = tool_option_at(t, i)) != NULL; i++)
        print_option_help(o);
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

/* ---- parsing ---- */

/* ": did you mean --NAME?" of what was typed as WORD, or nothing. */
static const char *option_hint(const struct tool *t, struct hk_bytes word, struct tool_nearest *s)
{
    const struct tool_option *o;
    tool_nearest_begin(s, word);
    for (size_t i = 0; (o = tool_option_at(t, i)) != NULL; i++) {
        if (word.n == 1 && o->letter == (char)word.p[0]) {
            s->best = word;
            s->distance = 0;
            return tool_nearest_hint(s, "-");
        }
        tool_nearest_try(s, hk_bytes_of(o->name));
    }
    return tool_nearest_hint(s, "--");
}

static int take_long_option(struct tool_args *a, const char *word, const char **value)
{
    const struct tool_option *o;
    struct tool_nearest nearest;
    size_t length = strcspn(word, "=");
    const char *given = word[length] == '=' ? word + length + 1 : NULL;
    for (size_t i = 0; (o = tool_option_at(a->tool, i)) != NULL; i++) {
        if (strlen(o->name) != length || memcmp(o->name, word, length) != 0)
            continue;
        if (o->argument == NULL && given != NULL)
            tool_usage("option --%s takes no argument", o->name);
        if (o->argument != NULL && given == NULL && a->at >= a->argc)
            tool_usage("option --%s needs an argument: %s", o->name, o->argument);
        *value = o->argument != NULL && given == NULL ? a->argv[a->at++] : given;
        tool_value_begin("--%s", o->name);
        return (int)i;
    }
    tool_usage("unknown option --%.*s%s", (int)length, word,
               option_hint(a->tool, (struct hk_bytes){(const uint8_t *)word, length}, &nearest));
}

/* WORD, letters with one dash, is no option, or its letter LETTER is none. */
_Noreturn static void refuse_letters(const struct tool_args *a, const char *word, char letter)
{
    struct tool_nearest s;
    const char *hint = option_hint(a->tool, hk_bytes_of(word + 1), &s);
    if (letter == word[1])
        tool_usage("unknown option %s%s", word, hint);
    tool_usage("unknown option -%c in %s%s", letter, word, hint);
}

/* A word with one dash that has two. "-force" would be -f, and -o with "rce" where there is one. */
static void check_dashes(const struct tool_args *a, const char *word)
{
    const struct tool_option *o;
    for (size_t i = 0; (o = tool_option_at(a->tool, i)) != NULL; i++)
        if (strcmp(o->name, word + 1) == 0)
            refuse_letters(a, word, word[1]);
}

/* The option that CLUSTER, what is left of WORD, begins with. */
static int take_short_option(struct tool_args *a, const char **value)
{
    const struct tool_option *o;
    char letter = *a->cluster++;
    const char *rest = *a->cluster != '\0' ? a->cluster : NULL;
    for (size_t i = 0; (o = tool_option_at(a->tool, i)) != NULL; i++) {
        if (o->letter != letter)
            continue;
        *value = NULL;
        tool_value_begin("-%c", letter);
        if (o->argument != NULL) {
            if (rest == NULL && a->at >= a->argc)
                tool_usage("option -%c needs an argument: %s", letter, o->argument);
            if (rest != NULL)
                tool_value_in_word(a->word, rest);
            *value = rest != NULL ? rest : a->argv[a->at++];
            rest = NULL;
        }
        a->cluster = rest;
        return (int)i;
    }
    refuse_letters(a, a->word, letter);
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

/* The number of the next option, as tool_option_at() counts. */
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
            check_dashes(a, word);
            a->word = word;
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
    const size_t own = t->option_count, all = own + tool_group_count(t);
    for (int number; (number = take_option(a, value)) >= 0;) {
        const size_t n = (size_t)number;
        if (n < own)
            return number;
        if (n < all)
            t->group->set(a->group_values, (int)(n - own), *value);
        else
            obey_common_option(t, tool_option_at(t, n));
    }
    tool_value_begin("operand");
    return -1;
}

/* ---- operands ---- */

/* The names as in "FILE and OUT", "one FILE". */
static void list_operand_names(const char *names, char *out, size_t size)
{
    const char *blank = strrchr(names, ' ');
    if (blank == NULL)
        snprintf(out, size, "one %s", names);
    else
        snprintf(out, size, "%.*s and %s", (int)(blank - names), names, blank + 1);
}

void tool_check_operands(const struct tool_args *args, const char *names)
{
    char all[64];
    const char *name = names;
    list_operand_names(names, all, sizeof all);
    for (int i = 0; *name != '\0'; i++) {
        const int length = (int)strcspn(name, " ");
        const bool last = name[length] == '\0';
        if (i == args->operand_count && i > 0)
            tool_usage("need %s: %.*s is missing", all, length, name);
        if (i == args->operand_count)
            tool_usage("need %s%s", last ? "a " : "", last ? name : all);
        if (i + 1 < args->operand_count && last)
            tool_usage("unexpected operand %s: takes %s", args->operands[i + 1], all);
        name += length + (name[length] == ' ');
    }
}
