/* tool_value.c: values of options, operands and variables: numbers, sizes, choices. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/tool.h"

/* What the value belongs to, as it was typed. */
static struct {
    char name[64];
    const char *word; /* the whole word, where the value may be no value */
} owner;

void tool_value_begin(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(owner.name, sizeof owner.name, fmt, ap);
    va_end(ap);
    owner.word = NULL;
}

/* "-n5" is how a number is given, "-ngl" may be an option of another program. */
void tool_value_in_word(const char *word, const char *value)
{
    owner.word = isalpha((unsigned char)*value) ? word : NULL;
}

void tool_refuse_value(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (owner.word != NULL)
        tool_usage("unknown option %s; %s: %s", owner.word, owner.name, text);
    tool_usage("%s: %s", owner.name, text);
}

/* ---- numbers ---- */

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

static uint64_t check_value_range(const char *value, uint64_t v, uint64_t least, uint64_t most)
{
    if (v < least || v > most)
        tool_refuse_value("%s is not in %llu..%llu", value, (unsigned long long)least,
                          (unsigned long long)most);
    return v;
}

uint64_t tool_uint(const char *value, uint64_t least, uint64_t most)
{
    const char *s = value;
    uint64_t v;
    if (!read_digits(&s, &v) || *s != '\0')
        tool_refuse_value("not a whole number: %s", value);
    return check_value_range(value, v, least, most);
}

double tool_double(const char *value, double least, double most)
{
    char *end;
    bool plain = value[strspn(value, "0123456789.eE+-")] == '\0' && value[0] != '\0';
    double v = plain ? strtod(value, &end) : 0;
    if (!plain || *end != '\0' || !isfinite(v))
        tool_refuse_value("not a number: %s", value);
    if (v < least || v > most)
        tool_refuse_value("%s is not in %g..%g", value, least, most);
    return v;
}

/* ---- sizes ---- */

/* Bytes of a unit: "", k, K, KiB 1024, kB 1000, and so on; 0 where there is no such unit. */
static uint64_t bytes_of_unit(const char *unit)
{
    static const char letters[] = "KMGTPE";
    if (*unit == '\0' || strcmp(unit, "B") == 0)
        return 1;
    const char *letter = strchr(letters, toupper((unsigned char)*unit));
    const bool decimal = strcmp(unit + 1, "B") == 0;
    if (letter == NULL || (!decimal && unit[1] != '\0' && strcmp(unit + 1, "iB") != 0))
        return 0;
    uint64_t bytes = 1;
    for (const char *p = letters; p <= letter; p++)
        bytes *= decimal ? 1000 : 1024;
    return bytes;
}

/* The FRACTION / 10^DIGITS part of UNIT in *OUT; false where that is not whole. */
static bool part_of_unit(uint64_t fraction, size_t digits, uint64_t unit, uint64_t *out)
{
    uint64_t parts = 1;
    for (size_t i = 0; i < digits; i++) {
        if (fraction % 10 == 0)
            fraction /= 10;
        else
            parts *= 10;
    }
    for (unsigned prime = 2; prime <= 5; prime += 3)
        while (parts % prime == 0 && fraction % prime == 0) {
            parts /= prime;
            fraction /= prime;
        }
    *out = unit / parts * fraction;
    return unit % parts == 0;
}

/* The size that VALUE is; NULL, or what is wrong with it. */
static const char *parse_size(const char *value, uint64_t *out)
{
    enum { MAX_DIGITS = 18 }; /* of a fraction: they fit */
    static const char none[] = "not a size (such as 4096, 64k, 1.5G, 10MB)";
    uint64_t whole, fraction = 0, part;
    const char *s = value;
    if (!read_digits(&s, &whole))
        return none;
    const char *point = s;
    if (*s == '.' && (s++, !read_digits(&s, &fraction)))
        return none;
    const size_t digits = s > point ? (size_t)(s - point - 1) : 0;
    const uint64_t unit = bytes_of_unit(s);
    if (unit == 0)
        return none;
    if (digits > MAX_DIGITS || !part_of_unit(fraction, digits, unit, &part))
        return "not a whole number of bytes";
    if (__builtin_mul_overflow(whole, unit, out) || __builtin_add_overflow(*out, part, out))
        return "too large";
    return NULL;
}

uint64_t tool_size(const char *value, uint64_t least, uint64_t most)
{
    uint64_t v = 0;
    const char *wrong = parse_size(value, &v);
    if (wrong != NULL)
        tool_refuse_value("%s: %s", wrong, value);
    return check_value_range(value, v, least, most);
}

/* ---- choices ---- */

/* "a, b or c" in OUT. */
static void list_choices(char *out, size_t size, const char *const *names, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s",
                              i == 0           ? ""
                              : i + 1 == count ? " or "
                                               : ", ",
                              names[i]);
}

size_t tool_choice(const char *value, const char *const *names, size_t count)
{
    struct tool_nearest s;
    char all[256];
    tool_nearest_begin(&s, hk_bytes_of(value));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], value) == 0)
            return i;
        tool_nearest_try(&s, hk_bytes_of(names[i]));
    }
    list_choices(all, sizeof all, names, count);
    tool_refuse_value("takes %s, not %s%s", all, value, tool_nearest_hint(&s, ""));
}

/* ---- of options that several programs take ---- */

uint64_t tool_max_output(const char *value)
{
    return tool_size(value, 1, INT64_MAX);
}

uint32_t tool_align(const char *value)
{
    uint64_t n = tool_uint(value, 1, HK_MAX_ALIGNMENT);
    if ((n & (n - 1)) != 0)
        tool_refuse_value("takes a power of two, not %llu", (unsigned long long)n);
    return (uint32_t)n;
}

enum hk_type tool_dense_type(const char *value)
{
    static const char *const names[] = {"f32", "f16", "bf16"};
    static const enum hk_type types[] = {HK_TYPE_F32, HK_TYPE_F16, HK_TYPE_BF16};
    return types[tool_choice(value, names, sizeof names / sizeof *names)];
}
