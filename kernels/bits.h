/* Little-endian loads and the numbers behind bit patterns, on any host. Every level compiles its
 * own copies: static inline only. */
#ifndef HKK_BITS_H
#define HKK_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline unsigned load_le16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static inline uint32_t load_le32(const uint8_t *p)
{
    return load_le16(p) | (uint32_t)load_le16(p + 2) << 16;
}

static inline float bits_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The half with bits H. Exponents are rebased in integers; a subnormal is its mantissa times 2^-24,
 * which is exact. */
static inline float half_f32(unsigned h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 13;
    if (magnitude < 1u << 23)
        return bits_f32(f32_bits((float)(h & 0x3ff) * 0x1p-24f) | sign);
    return bits_f32((magnitude + ((h & 0x7c00) == 0x7c00 ? 224u << 23 : 112u << 23)) | sign);
}

static inline float le_half(const uint8_t *p)
{
    return half_f32(load_le16(p));
}

/* To the nearest half, ties to even. Adding a number whose last place is that of the result makes
 * the adder round subnormals; other numbers round in integers, where a carry into the exponent is
 * right, up to infinity. */
static inline uint16_t f32_half(float f)
{
    uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* 2^-14 */
        return (uint16_t)(sign | (f32_bits(bits_f32(magnitude) + 0.5f) - 0x3f000000));
    uint32_t rounded = magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
}

/* Half of the E8M0 scale 2^(e-127), to go with doubled E2M1 values; e = 255 is no NaN here. */
static inline float half_e8m0(unsigned e)
{
    return bits_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of nvfp4's scale: E4M3 without a sign, whose bit is ignored. 0x7f is 0, but 0xff is 480. */
static inline float half_e4m3(unsigned c)
{
    if (c == 0x7f)
        return 0.0f;
    unsigned exponent = c >> 3 & 15, mantissa = c & 7;
    if (exponent == 0)
        return (float)mantissa * 0x1p-10f;
    return bits_f32((exponent + 119) << 23 | mantissa << 20);
}

static inline __attribute__((always_inline)) size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
