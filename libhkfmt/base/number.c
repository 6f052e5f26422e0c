/* Floating-point numbers: f32 as float64 and back, and both as JSON text. */
#include "libhkfmt/base/number.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A conversion by the processor would make a signalling NaN quiet, so NaN goes by its bits. */
double hk_widen_float(float f)
{
    if (!isnan(f))
        return (double)f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint64_t wide =
        (uint64_t)(bits >> 31) << 63 | UINT64_C(0x7ff) << 52 | (uint64_t)(bits & 0x7fffff) << 29;
    double d;
    memcpy(&d, &wide, sizeof d);
    return d;
}

bool hk_narrow_double(double d, float *f)
{
    uint64_t wide;
    memcpy(&wide, &d, sizeof wide);
    if (isnan(d)) {
        uint32_t bits =
            (uint32_t)(wide >> 63) << 31 | UINT32_C(0xff) << 23 | (uint32_t)(wide >> 29 & 0x7fffff);
        if ((wide & 0x1fffffff) != 0)
            return false;
        memcpy(f, &bits, sizeof bits);
        return true;
    }
    if (!isinf(d) && fabs(d) > 0x1.fffffep127)
        return false;
    float narrow = (float)d;
    if ((double)narrow != d)
        return false;
    *f = narrow;
    return true;
}

/* The text of D up to its length in TEXT, with a point for whatever the locale puts there. */
static void put_decimal_point(char *text)
{
    char *to = text;
    bool point = false;
    for (const char *s = text; *s != '\0'; s++) {
        bool number = (*s >= '0' && *s <= '9') || *s == '-' || *s == '+' || *s == 'e';
        if (number)
            *to++ = *s;
        else if (!point)
            *to++ = '.';
        point = point || !number;
    }
    *to = '\0';
}

void hk_put_json_double(struct hk_buf *b, double d, int digits)
{
    char text[64];
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    if (isnan(d) && bits == UINT64_C(0x7ff8000000000000))
        snprintf(text, sizeof text, "\"nan\"");
    else if (isnan(d))
        snprintf(text, sizeof text, "\"nan:%016" PRIx64 "\"", bits);
    else if (isinf(d))
        snprintf(text, sizeof text, d < 0 ? "\"-inf\"" : "\"inf\"");
    else {
        snprintf(text, sizeof text, "%.*g", digits, d);
        put_decimal_point(text);
    }
    hk_buf_text(b, text);
}

static bool parse_no_number(const char *text, double *d)
{
    uint64_t bits = 0;
    int end = 0;
    if (strcmp(text, "\"inf\"") == 0)
        bits = UINT64_C(0x7ff) << 52;
    else if (strcmp(text, "\"-inf\"") == 0)
        bits = UINT64_C(0xfff) << 52;
    else if (strcmp(text, "\"nan\"") == 0)
        bits = UINT64_C(0x7ff8) << 48;
    else if (sscanf(text, "\"nan:%16" SCNx64 "\"%n", &bits, &end) != 1 || text[end] != '\0' ||
             end == 0)
        return false;
    memcpy(d, &bits, sizeof bits);
    return true;
}

bool hk_parse_json_double(struct hk_bytes token, double *d)
{
    char text[64];
    if (token.n == 0 || token.n >= sizeof text)
        return false;
    memcpy(text, token.p, token.n);
    text[token.n] = '\0';
    if (text[0] == '"')
        return parse_no_number(text, d);
    /* jansson reads numbers alike in every locale. */
    json_t *number = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    bool good = json_is_real(number);
    if (good)
        *d = json_real_value(number);
    json_decref(number);
    return good;
}
