/* Super-blocks to signed bytes of a panel's row, and the numbers of their groups: of 32 elements
 * where a type's neighbouring groups of 16 agree, else of 16. */
#ifndef HKK_ARM_CODES_SUPER_H
#define HKK_ARM_CODES_SUPER_H

#include "kernels/arm/codes_small.h"

struct numbers {
    int16_t scale[16], min[16];
    float d, dmin;
};

/* Two bits each of 32 bytes, that many above the lowest. */
ALWAYS void next_planes(uint8x16_t x[2])
{
    x[0] = vshrq_n_u8(x[0], 2);
    x[1] = vshrq_n_u8(x[1], 2);
}

ALWAYS uint8x16_t two_bits(uint8x16_t x)
{
    return vandq_u8(x, vdupq_n_u8(3));
}

/* 256 codes of two bits. */
ALWAYS void put_planes(int8_t *to, const uint8_t *qs, int offset)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        uint8x16_t x[2] = {vld1q_u8(qs + 32 * half), vld1q_u8(qs + 32 * half + 16)};
#pragma GCC unroll 4
        for (int i = 8 * half; i < 8 * half + 8; i += 2, next_planes(x)) {
            put_16(to, i, less_offset(two_bits(x[0]), offset));
            put_16(to, i + 1, less_offset(two_bits(x[1]), offset));
        }
    }
}

ALWAYS void put_signed_numbers(int16_t out[16], int8x16_t x)
{
    vst1q_s16(out, vmovl_s8(vget_low_s8(x)));
    vst1q_s16(out + 8, vmovl_high_s8(x));
}

ALWAYS void put_numbers(int16_t out[16], uint8x16_t x)
{
    put_signed_numbers(out, vreinterpretq_s8_u8(x));
}

ALWAYS void values_q2_k(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_q2_k *b = (const void *)block;
    uint8x16_t x = vld1q_u8(b->scales);
    n->d = half_at(b->d);
    n->dmin = half_at(b->dmin);
    put_numbers(n->scale, low_nibbles(x));
    put_numbers(n->min, vshrq_n_u8(x, 4));
    put_planes(to, b->qs, 0);
}

/* Sixteen 6-bit scales, offset by 32: nibbles, then two bits each. */
ALWAYS int8x16_t q3_k_scales_neon(const uint8_t *p)
{
    static const int8_t down[16] = {0, 0, 0, 0, -2, -2, -2, -2, -4, -4, -4, -4, -6, -6, -6, -6};
    uint8x8_t x = vld1_u8(p);
    uint8x16_t nibbles = low_nibbles(vcombine_u8(x, vshr_n_u8(x, 4)));
    uint8x16_t top = vshlq_u8(vreinterpretq_u8_u32(vdupq_n_u32(load_le32(p + 8))), vld1q_s8(down));
    return less_offset(vorrq_u8(nibbles, vshlq_n_u8(two_bits(top), 4)), 32);
}

/* The lowest bit as the one that is worth 2^PLACE. */
ALWAYS uint8x16_t lowest(uint8x16_t h, int place)
{
    return vshlq_u8(vandq_u8(h, vdupq_n_u8(1)), vdupq_n_s8((int8_t)place));
}

ALWAYS void values_q3_k(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_q3_k *b = (const void *)block;
    uint8x16_t h[2] = {vld1q_u8(b->qh), vld1q_u8(b->qh + 16)};
    n->d = half_at(b->d);
    put_signed_numbers(n->scale, q3_k_scales_neon(b->scales));
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        uint8x16_t x[2] = {vld1q_u8(b->qs + 32 * half), vld1q_u8(b->qs + 32 * half + 16)};
#pragma GCC unroll 4
        for (int i = 8 * half; i < 8 * half + 8; i += 2, next_planes(x)) {
            put_16(to, i, less_offset(vorrq_u8(two_bits(x[0]), lowest(h[0], 2)), 4));
            put_16(to, i + 1, less_offset(vorrq_u8(two_bits(x[1]), lowest(h[1], 2)), 4));
            h[0] = vshrq_n_u8(h[0], 1);
            h[1] = vshrq_n_u8(h[1], 1);
        }
    }
}

/* q4_k's and q5_k's twelve bytes: three words of four. */
ALWAYS void k_scales_neon(const uint8_t *p, struct numbers *n)
{
    uint32_t a = load_le32(p), b = load_le32(p + 4), c = load_le32(p + 8);
    uint32_t scale = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    uint32_t min = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    uint64_t scales = (uint64_t)scale << 32 | (a & 0x3f3f3f3f);
    uint64_t mins = (uint64_t)min << 32 | (b & 0x3f3f3f3f);
    vst1q_s16(n->scale, vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(scales))));
    vst1q_s16(n->min, vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(mins))));
}

ALWAYS void values_q4_k(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_q4_k *b = (const void *)block;
    n->d = half_at(b->d);
    n->dmin = half_at(b->dmin);
    k_scales_neon(b->scales, n);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { /* low nibbles of 32 bytes, then their high ones */
        uint8x16_t x = vld1q_u8(b->qs + 16 * i);
        int at = i / 2 * 4 + i % 2;
        put_16(to, at, less_offset(low_nibbles(x), 0));
        put_16(to, at + 2, less_offset(vshrq_n_u8(x, 4), 0));
    }
}

ALWAYS void values_q5_k(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_q5_k *b = (const void *)block;
    uint8x16_t h[2] = {vld1q_u8(b->qh), vld1q_u8(b->qh + 16)};
    n->d = half_at(b->d);
    n->dmin = half_at(b->dmin);
    k_scales_neon(b->scales, n);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        uint8x16_t x = vld1q_u8(b->qs + 16 * i), *bits = h + i % 2;
        int at = i / 2 * 4 + i % 2;
        put_16(to, at, less_offset(vorrq_u8(low_nibbles(x), lowest(*bits, 4)), 0));
        put_16(to, at + 2,
               less_offset(vorrq_u8(vshrq_n_u8(x, 4), lowest(vshrq_n_u8(*bits, 1), 4)), 0));
        *bits = vshrq_n_u8(*bits, 2);
    }
}

/* Sixteen columns 16 * I.., and those 64 further; H has their upper bits, lowest first in each. */
ALWAYS void put_six_bits(int8_t *to, int i, uint8x16_t x, uint8x16_t h)
{
    uint8x16_t low = vshlq_n_u8(two_bits(h), 4);
    uint8x16_t high = vandq_u8(h, vdupq_n_u8(0x30));
    put_16(to, i, less_offset(vorrq_u8(low_nibbles(x), low), 32));
    put_16(to, i + 4, less_offset(vorrq_u8(vshrq_n_u8(x, 4), high), 32));
}

ALWAYS void values_q6_k(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_q6_k *b = (const void *)block;
    n->d = half_at(b->d);
    put_signed_numbers(n->scale, vld1q_s8(b->scales));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int half = i / 2, part = i % 2;
        const uint8_t *ql = b->ql + 64 * half + 16 * part;
        uint8x16_t h = vld1q_u8(b->qh + 32 * half + 16 * part);
        put_six_bits(to, 8 * half + part, vld1q_u8(ql), h);
        put_six_bits(to, 8 * half + part + 2, vld1q_u8(ql + 32), vshrq_n_u8(h, 2));
    }
}

ALWAYS void values_iq4_xs(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq4_xs *b = (const void *)block;
    unsigned high = load_le16(b->scales_h);
    n->d = half_at(b->d);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        unsigned low = (unsigned)b->scales_l[g / 2] >> g % 2 * 4 & 15;
        n->scale[g] = (int16_t)((int)(low | (high >> 2 * g & 3) << 4) - 32);
        put_table_values(to + 64 * g, b->qs + 16 * g, hk_iq4_nl_values);
    }
}

ALWAYS void values_tq2_0(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_tq2_0 *b = (const void *)block;
    n->d = half_at(b->d);
    put_planes(to, b->qs, 1);
}

/* The first base-3 digit of each byte, a fraction of 256, less one: how often three times it
 * carries. */
ALWAYS int8x16_t first_digits_neon(uint8x16_t x)
{
    int8x16_t a = vreinterpretq_s8_u8(vcgeq_u8(x, vdupq_n_u8(86)));
    int8x16_t b = vreinterpretq_s8_u8(vcgeq_u8(x, vdupq_n_u8(171)));
    return vsubq_s8(vsubq_s8(vdupq_n_s8(-1), a), b);
}

ALWAYS void values_tq1_0(const uint8_t *block, int8_t *to, struct numbers *n)
{
    static const uint8_t power[16] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    const struct hk_tq1_0 *b = (const void *)block;
    const uint8x16_t three = vdupq_n_u8(3);
    uint8x16_t x[3] = {vld1q_u8(b->qs), vld1q_u8(b->qs + 16), vld1q_u8(b->qs + 32)};
    n->d = half_at(b->d);
#pragma GCC unroll 5
    for (int k = 0; k < 5; k++) {
        put_16(to, 2 * k, first_digits_neon(x[0]));
        put_16(to, 2 * k + 1, first_digits_neon(x[1]));
        put_16(to, 10 + k, first_digits_neon(x[2]));
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++)
            x[i] = vmulq_u8(x[i], three);
    }
    /* Four bytes, four digits. */
    uint8x16_t last = vreinterpretq_u8_u32(vdupq_n_u32(load_le32(b->qh)));
    put_16(to, 15, first_digits_neon(vmulq_u8(last, vld1q_u8(power))));
}

#endif
