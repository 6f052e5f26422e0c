/* checkkern: tests and measures every kernel of every level. TAP, or with --bench a table.
 *
 *   checkkern [--level NAME] [--kernel PATTERN] [--seed N] [--repeat N] [--list]
 *             [--bench] [--tokens N] [--threads N] [--json]
 *
 * generic is compared with double arithmetic, other levels with generic, bit for bit. */
#include "tests/kernels/checkkern.h"

#include <fnmatch.h>
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sigjmp_buf back;

static void on_signal(int number)
{
    siglongjmp(back, number);
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

static bool check_rounds(struct run *r, const struct kernel *k, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        r->place = (enum place)(round % PLACES);
        if (!k->check(r, k->type, round / PLACES))
            return false;
    }
    return true;
}

/* One line of TAP: K on LEVEL. */
static bool test(const struct options *o, const struct hkk_table *level, const struct kernel *k,
                 int number)
{
    struct run r = {.level = level, .random = {o->seed}};
    hkk_select("generic", &r.reference);
    volatile bool good = false;
    int fault = sigsetjmp(back, 1);
    if (fault != 0) {
        good = differs(&r, "signal %d", fault);
    } else if (level == r.reference) {
        good = k->define == NULL || k->define(&r, k->type);
        good = good && check_rounds(&r, k, PLACES * 3); /* with itself: what it touches */
    } else {
        good = check_rounds(&r, k, PLACES * k->rounds * o->repeat);
    }
    printf("%sok %d - %s %s\n", good ? "" : "not ", number, level->name, k->name);
    if (!good)
        printf("# %s\n", r.what);
    fflush(stdout);
    return good;
}

static bool wanted(const char *pattern, const char *name)
{
    return pattern == NULL || fnmatch(pattern, name, 0) == 0 || strcmp(pattern, name) == 0;
}

static int test_all(const struct options *o)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t levels = hkk_levels(level), count;
    const struct kernel *k = kernels_all(&count);
    int number = 0, failed = 0;
    printf("# seed %llu\n", (unsigned long long)o->seed);
    catch_signals();
    for (size_t l = 0; l < levels; l++) {
        if (!wanted(o->level, level[l].name) || level[l].table == NULL)
            continue;
        if (level[l].why_not != NULL) {
            printf("ok %d - %s # SKIP %s\n", ++number, level[l].name, level[l].why_not);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            if (wanted(o->kernel, k[i].name))
                failed += !test(o, level[l].table, k + i, ++number);
    }
    printf("1..%d\n", number);
    return failed > 0;
}

static int list(void)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t levels = hkk_levels(level), count;
    const struct kernel *k = kernels_all(&count);
    for (size_t l = 0; l < levels; l++)
        printf("level %s: %s\n", level[l].name,
               level[l].table == NULL     ? "not in this build"
               : level[l].why_not != NULL ? level[l].why_not
                                          : "runs");
    for (size_t i = 0; i < count; i++)
        printf("kernel %s\n", k[i].name);
    return 0;
}

/* Digits of ARGUMENT, at least LEAST; ends the program otherwise. */
static unsigned long long number_of(const char *argument, unsigned long long least)
{
    char *end;
    unsigned long long n = strtoull(argument, &end, 10);
    if (*argument < '0' || *argument > '9' || *end != '\0' || n < least) {
        fprintf(stderr, "checkkern: %s: not a number that makes sense\n", argument);
        exit(2);
    }
    return n;
}

static void parse(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"level", 1, NULL, 'l'},  {"kernel", 1, NULL, 'k'},
        {"seed", 1, NULL, 's'},   {"repeat", 1, NULL, 'r'},
        {"list", 0, NULL, 'L'},   {"bench", 0, NULL, 'b'},
        {"json", 0, NULL, 'j'},   {"threads", 1, NULL, 't'},
        {"tokens", 1, NULL, 'n'}, {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'l':
            o->level = optarg;
            break;
        case 'k':
            o->kernel = optarg;
            break;
        case 's':
            o->seed = number_of(optarg, 0);
            break;
        case 'r':
            o->repeat = (unsigned)number_of(optarg, 1);
            break;
        case 't':
            o->threads = (unsigned)number_of(optarg, 1);
            break;
        case 'n':
            o->tokens = (unsigned)number_of(optarg, 1);
            break;
        case 'L':
            o->list = true;
            break;
        case 'b':
            o->bench = true;
            break;
        case 'j':
            o->json = true;
            break;
        default:
            exit(2);
        }
    }
}

/* A level that was asked for by name and cannot run is an error. */
static void check_level(const struct options *o)
{
    const struct hkk_table *table;
    const char *why = o->level != NULL ? hkk_select(o->level, &table) : NULL;
    if (why != NULL) {
        fprintf(stderr, "checkkern: %s: %s\n", o->level, why);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = {.seed = 1, .repeat = 1, .threads = 1};
    parse(&o, argc, argv);
    check_level(&o);
    if (o.list)
        return list();
    return o.bench ? bench(&o) : test_all(&o);
}
