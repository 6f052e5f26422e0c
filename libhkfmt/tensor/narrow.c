/* f32 to the narrower float types, in integers: the host's rounding mode plays no part. */
#include "libhkfmt/tensor/narrow.h"

#include "libhkfmt/base/le.h"

enum { MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000 };

/* The exponent is rebased by 112; below it the leading one becomes explicit and is shifted out to
 * where 2^-24, the unit of f16's subnormals, is the last bit. */
static uint16_t half_of(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000, m = bits & MAGNITUDE, exponent = m >> 23;
    if (m > INFINITE)
        return (uint16_t)(sign | 0x7e00 | (m >> 13 & 0x3ff));
    if (m >= 0x477ff000) /* 65520: half way to 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (m >= 0x38800000) /* 2^-14 */
        return (uint16_t)(sign | ((m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13));
    if (exponent < 102) /* below 2^-25 */
        return (uint16_t)sign;
    const uint32_t mantissa = (m & 0x7fffff) | 0x800000, shift = 126 - exponent;
    const uint32_t odd = mantissa >> shift & 1, almost_half = (1u << (shift - 1)) - 1;
    return (uint16_t)(sign | (mantissa + almost_half + odd) >> shift);
}

static uint16_t bfloat_of(uint32_t bits)
{
    if ((bits & MAGNITUDE) > INFINITE)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static bool overflows(uint32_t bits, uint16_t code, uint16_t infinity)
{
    return (bits & MAGNITUDE) < INFINITE && (code & 0x7fff) == infinity;
}

size_t hk_narrow(enum hk_type type, const float *v, size_t n, uint8_t *out)
{
    size_t lost = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = hk_f32_bits(v[i]);
        if (type == HK_TYPE_F32) {
            put32(out + 4 * i, bits);
            continue;
        }
        const bool half = type == HK_TYPE_F16;
        const uint16_t code = half ? half_of(bits) : bfloat_of(bits);
        put16(out + 2 * i, code);
        lost += overflows(bits, code, half ? 0x7c00 : 0x7f80);
    }
    return lost;
}
