/* tool_number.c: the shortest decimal that reads back as the same number. No program sets a locale,
 * so printf and strtod use the point. */
#include "tools/lib/tool.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1 is an integer, 1.0 a number that happens to be whole. */
static void mark_as_real(char *buffer)
{
    if (strpbrk(buffer, ".e") == NULL)
        strcat(buffer, ".0");
}

/* A normal number whose shortest decimal has at most DIG digits is found by printing DIG of them,
 * as %g drops zeros; below the normal range precision is lost and every length is tried. */
static void print_float_by_trial(float v, char *buffer)
{
    for (int digits = fabsf(v) < FLT_MIN ? 1 : FLT_DIG; digits <= FLT_DECIMAL_DIG; digits++) {
        snprintf(buffer, 32, "%.*g", digits, (double)v);
        if (strtof(buffer, NULL) == v)
            break;
    }
    mark_as_real(buffer);
}

void tool_double_text(double v, char *buffer)
{
    if (v == 0) { /* metrics that nobody gave */
        strcpy(buffer, signbit(v) ? "-0.0" : "0.0");
        return;
    }
    for (int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(buffer, 32, "%.*g", digits, v);
        if (strtod(buffer, NULL) == v)
            break;
    }
    mark_as_real(buffer);
}

/* ---- floats of usual size: thousands of times a line, so without printf ---- */

enum { MOST_DECIMALS = FLT_DECIMAL_DIG + 3 };
static const double power[MOST_DECIMALS + 1] = {1,   1e1, 1e2, 1e3,  1e4,  1e5, 1e6,
                                                1e7, 1e8, 1e9, 1e10, 1e11, 1e12};

/* Whether the decimal that C is the nearest double of reads back as V: it lies within half a unit
 * of C's last place, and all doubles from a whole unit below to one above become V. */
static bool surely_reads_back(double c, float v)
{
    return (float)(c * (1 - DBL_EPSILON)) == v && (float)(c * (1 + DBL_EPSILON)) == v;
}

/* Write N / 10^DECIMALS without zeros at the end, but with one digit after the point. */
static void print_decimal(char *out, uint64_t n, int decimals)
{
    char digits[32];
    int count = 0, drop = 0;
    while (drop < decimals - 1 && n % 10 == 0) {
        n /= 10;
        drop++;
    }
    decimals -= drop;
    for (; n > 0 || count <= decimals; n /= 10)
        digits[count++] = (char)('0' + n % 10);
    while (count > 0) {
        if (count == decimals)
            *out++ = '.';
        *out++ = digits[--count];
    }
    *out = '\0';
}

/* For 1e-4 <= |V| < 1e6, where %g writes no exponent either: the decimal of six to nine digits
 * nearest to V. False where rounding in double cannot prove that it reads back. */
static bool print_float_by_scaling(float v, char *buffer)
{
    double a = fabs((double)v);
    if (!(a >= 1e-4 && a < 1e6))
        return false;
    int before = -3; /* digits before the point; below 0, zeros after it */
    while (before < FLT_DIG && a >= (before < 0 ? 1 / power[-before] : power[before]))
        before++;
    for (int digits = FLT_DIG; digits <= FLT_DECIMAL_DIG; digits++) {
        int decimals = digits - before;
        uint64_t n = (uint64_t)(a * power[decimals] + 0.5);
        if (!surely_reads_back((double)n / power[decimals], (float)a))
            continue;
        if (v < 0)
            *buffer++ = '-';
        print_decimal(buffer, decimals > 0 ? n : n * 10, decimals > 0 ? decimals : 1);
        return true;
    }
    return false;
}

bool tool_float_text(float v, char *buffer)
{
    if (!isfinite(v)) {
        strcpy(buffer, "null");
        return false;
    }
    if (v == 0)
        strcpy(buffer, signbit(v) ? "-0.0" : "0.0");
    else if (!print_float_by_scaling(v, buffer))
        print_float_by_trial(v, buffer);
    return true;
}
