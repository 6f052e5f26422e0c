/* tap.h: the few lines a C unit test needs to speak TAP. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Per program: how many checks ran and failed. */
struct tap {
    int run, failed;
};
static struct tap tap;

__attribute__((format(printf, 2, 3))) static inline bool tap_ok(bool good, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tap.run++;
    tap.failed += !good;
    printf("%sok %d - ", good ? "" : "not ", tap.run);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    return good;
}

#define ok(condition, ...) tap_ok((condition), __VA_ARGS__)

__attribute__((unused)) static inline void tap_skip(const char *name, const char *why)
{
    printf("ok %d - %s # SKIP %s\n", ++tap.run, name, why);
}

/* Ends the plan; main() returns it. */
static inline int tap_done(void)
{
    printf("1..%d\n", tap.run);
    return tap.failed > 0;
}

#endif
