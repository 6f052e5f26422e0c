/* The exponential, and the activation built on it. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* e^x = 2^n * e^r with n = x / ln 2 rounded to nearest even, |r| <= ln(2)/2, and e^r by its Taylor
 * polynomial of degree 7 in Horner's order: what it leaves out is below 0.3466^8 / 8! = 2^-27.
 * Adding 1.5 * 2^23 leaves n in the low bits of the sum; ln 2 is split so that n times its upper
 * part (9 bits) is exact. The bounds keep n in -126..127: no subnormal results, no overflow. NaN
 * goes through the polynomial. */
float hkk_exp(float x)
{
    if (x < -87.33f)
        return 0.0f;
    if (x > 88.37f)
        return INFINITY;
    const float shift = 12582912.0f;
    float biased = x * 1.44269504f + shift;
    float n = biased - shift;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * from_bits((to_bits(biased) - to_bits(shift) + 127) << 23);
}

/* As written in kernels.h, one rounding for each operation. */
void hkk_silu_mul_f32(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gate[i] = (gate[i] / (1.0f + hkk_exp(-gate[i]))) * up[i];
}
