/* Small floats as f32: halves, E4M3 and E8M0. */
#ifndef HK_FLOATS_H
#define HK_FLOATS_H

#include "libhkfmt/base/le.h"

/* f32 of the half with bits H. Exponents are rebased in integer arithmetic; a subnormal's leading
 * one is found by subtracting 2^-14 from 2^-14 plus its mantissa, which is exact. Selections are
 * masks, so a loop over this becomes vector code. */
static inline float hk_f16(uint32_t h)
{
    uint32_t magnitude = (h & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
    uint32_t normal = magnitude + ((exponent == 0x0f800000 ? 224u : 112u) << 23);
    uint32_t subnormal = hk_f32_bits(hk_bits_f32(magnitude + (113u << 23)) - 0x1p-14f);
    uint32_t pick = 0u - (uint32_t)(exponent == 0);
    return hk_bits_f32((subnormal & pick) | (normal & ~pick) | (h & 0x8000) << 16);
}

/* The same for an E4M3 byte without infinities: 0x7f and 0xff are NaN. */
static inline float hk_e4m3(uint32_t b)
{
    uint32_t magnitude = (b & 0x7f) << 20;
    uint32_t normal = magnitude + (120u << 23);
    uint32_t subnormal = hk_f32_bits(hk_bits_f32(magnitude + (121u << 23)) - 0x1p-6f);
    uint32_t pick = 0u - (uint32_t)(magnitude < 1u << 23);
    uint32_t nan = (b & 0x7f) == 0x7f ? 0x7fc00000u : 0;
    return hk_bits_f32((subnormal & pick) | (normal & ~pick) | nan | (b & 0x80) << 24);
}

/* Half of the E8M0 scale 2^(e-127), to go with the doubled E2M1 values. E = 255 is 2^127 like the
 * rest, not NaN: what ggml reads. */
static inline float hk_half_e8m0(uint32_t e)
{
    return hk_bits_f32(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

#endif
