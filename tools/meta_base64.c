/* meta_base64.c: bytes in JSON. */
#include <stdlib.h>
#include <string.h>

#include "tools/meta.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *meta_base64(struct hk_bytes b)
{
    if (b.n > SIZE_MAX / 2)
        return NULL;
    size_t n = (b.n + 2) / 3 * 4;
    char *text = malloc(n + 1), *out = text;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < b.n; i += 3) {
        size_t left = b.n - i;
        uint32_t v = (uint32_t)b.p[i] << 16 | (left > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) |
                     (left > 2 ? b.p[i + 2] : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[v & 63] : '=';
    }
    json_t *v = json_stringn_nocheck(text, n);
    free(text);
    return v;
}

/* Four digits at S, of which PADDING are "=", as 24 bits; false where they are none, or bits that
 * the padding leaves out are set. */
static bool decode(const char *s, size_t padding, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4 - padding; i++) {
        const char *digit = s[i] != '\0' ? strchr(digits, s[i]) : NULL;
        if (digit == NULL)
            return false;
        v |= (uint32_t)(digit - digits) << (18 - 6 * i);
    }
    *out = v;
    return (v & ((1u << 8 * padding) - 1)) == 0;
}

uint8_t *meta_from_base64(const char *s, size_t length, size_t *n)
{
    uint8_t *bytes = malloc(length / 4 * 3 + 1);
    bool good = bytes != NULL && length % 4 == 0;
    size_t at = 0;
    for (size_t i = 0; good && i < length; i += 4) {
        bool last = i + 4 == length;
        size_t padding = last && s[i + 3] == '=' ? (s[i + 2] == '=' ? 2 : 1) : 0;
        uint32_t v = 0;
        good = decode(s + i, padding, &v);
        for (size_t k = 0; k < 3 - padding; k++)
            bytes[at++] = (uint8_t)(v >> (16 - 8 * k));
    }
    if (!good) {
        free(bytes);
        return NULL;
    }
    *n = at;
    return bytes;
}
