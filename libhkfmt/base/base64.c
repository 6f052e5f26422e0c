/* Base64 (RFC 4648 section 4). */
#include "libhkfmt/base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void hk_put_base64(struct hk_buf *b, struct hk_bytes bytes)
{
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t some = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t v = (uint32_t)bytes.p[i] << 16;
        if (some > 1)
            v |= (uint32_t)bytes.p[i + 1] << 8;
        if (some > 2)
            v |= bytes.p[i + 2];
        const char four[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63],
                              some > 1 ? alphabet[v >> 6 & 63] : '=',
                              some > 2 ? alphabet[v & 63] : '='};
        hk_buf_put(b, four, sizeof four);
    }
}

/* The six bits of C, or 64. */
static uint32_t base64_bits(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26u;
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool hk_decode_base64(struct hk_bytes text, uint8_t *to, size_t *n)
{
    *n = 0;
    if (text.n % 4 != 0)
        return false;
    for (size_t i = 0; i < text.n; i += 4) {
        const uint8_t *p = text.p + i;
        bool last = i + 4 == text.n;
        size_t pad = last && p[3] == '=' ? 1u + (p[2] == '=') : 0;
        uint32_t v = 0;
        for (size_t k = 0; k < 4 - pad; k++) {
            uint32_t bits = base64_bits(p[k]);
            if (bits == 64)
                return false;
            v |= bits << (18 - 6 * k);
        }
        if ((v & ((1u << 8 * pad) - 1)) != 0)
            return false;
        for (size_t k = 0; k < 3 - pad; k++)
            to[(*n)++] = (uint8_t)(v >> (16 - 8 * k));
    }
    return true;
}
