/* Super-blocks whose codes index grids, to signed bytes of a panel's row: entries by loads, eight
 * columns at a time, signs as masks. */
#ifndef HKK_ARM_CODES_GRID_H
#define HKK_ARM_CODES_GRID_H

#include "kernels/arm/codes_super.h"

/* Columns 8 * I..: x where the sign is clear, -x where it is set. */
ALWAYS void put_signed(int8_t *to, int i, uint8x8_t x, unsigned signs)
{
    static const uint8_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    int8x8_t mask = vreinterpret_s8_u8(vtst_u8(vdup_n_u8((uint8_t)signs), vld1_u8(bit)));
    put_8(to, i, vsub_s8(veor_s8(vreinterpret_s8_u8(x), mask), mask));
}

/* Two entries of four. */
ALWAYS uint8x8_t two_entries(const uint8_t *first, const uint8_t *second)
{
    uint32_t a, b;
    memcpy(&a, first, sizeof a);
    memcpy(&b, second, sizeof b);
    return vcreate_u8((uint64_t)b << 32 | a);
}

/* The scale (1/2 + s) is half of an odd number. */
ALWAYS int16_t odd_scale_neon(unsigned s)
{
    return (int16_t)(2 * s + 1);
}

/* Sixteen scales of four bits, low nibble first. */
ALWAYS void nibble_scales_neon(struct numbers *n, const uint8_t *scales)
{
    uint8x8_t x = vld1_u8(scales);
    uint8x16_t wide = vcombine_u8(x, x);
    uint8x16_t s = vzip1q_u8(low_nibbles(wide), vshrq_n_u8(wide, 4));
    put_numbers(n->scale, vaddq_u8(vaddq_u8(s, s), vdupq_n_u8(1)));
}

ALWAYS void values_iq2_xxs(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq2_xxs *b = (const void *)block;
    n->d = half_at(b->d) * 0.125f;
    for (int g = 0; g < 8; g++) {
        uint32_t w = load_le32(b->group[g].signs);
        n->scale[g] = odd_scale_neon(w >> 28);
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++)
            put_signed(to, 4 * g + l, vld1_u8(hk_iq2_xxs_grid[b->group[g].qs[l]]),
                       hk_ksigns[w >> 7 * l & 127]);
    }
}

ALWAYS void values_iq2_xs(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq2_xs *b = (const void *)block;
    n->d = half_at(b->d) * 0.125f;
    nibble_scales_neon(n, b->scales);
#pragma GCC unroll 4
    for (int k = 0; k < 32; k++) {
        unsigned code = load_le16(b->qs + 2 * k);
        put_signed(to, k, vld1_u8(hk_iq2_xs_grid[code & 511]), hk_ksigns[code >> 9]);
    }
}

ALWAYS void values_iq2_s(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq2_s *b = (const void *)block;
    n->d = half_at(b->d) * 0.125f;
    nibble_scales_neon(n, b->scales);
#pragma GCC unroll 4
    for (int k = 0; k < 32; k++) {
        unsigned index = b->qs[k] | ((unsigned)b->qh[k / 4] >> k % 4 * 2 & 3) << 8;
        put_signed(to, k, vld1_u8(hk_iq2_s_grid[index]), b->signs[k]);
    }
}

ALWAYS void values_iq3_xxs(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq3_xxs *b = (const void *)block;
    n->d = half_at(b->d) * 0.25f;
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 8 * g;
        uint32_t w = load_le32(b->signs + 4 * g);
        n->scale[g] = odd_scale_neon(w >> 28);
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++)
            put_signed(to, 4 * g + l,
                       two_entries(hk_iq3_xxs_grid[q[2 * l]], hk_iq3_xxs_grid[q[2 * l + 1]]),
                       hk_ksigns[w >> 7 * l & 127]);
    }
}

ALWAYS void values_iq3_s(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq3_s *b = (const void *)block;
    n->d = half_at(b->d);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 8 * g;
        unsigned high = (unsigned)b->qh[g] << 8;
        n->scale[g] = odd_scale_neon((unsigned)b->scales[g / 2] >> g % 2 * 4 & 15);
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++)
            put_signed(to, 4 * g + l,
                       two_entries(hk_iq3_s_grid[q[2 * l] | (high >> 2 * l & 256)],
                                   hk_iq3_s_grid[q[2 * l + 1] | (high >> (2 * l + 1) & 256)]),
                       b->signs[4 * g + l]);
    }
}

/* Eight ternary values, each moved by an eighth, in eighths. */
ALWAYS void put_eighths(int8_t *to, int i, unsigned index, bool negative)
{
    int8x8_t x = vshl_n_s8(vld1_s8(hk_iq1_grid[index]), 3);
    put_8(to, i, vadd_s8(x, vdup_n_s8(negative ? -1 : 1)));
}

ALWAYS void values_iq1_s(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq1_s *b = (const void *)block;
    n->d = half_at(b->d) * 0.125f;
    for (int g = 0; g < 8; g++) {
        unsigned h = load_le16(b->qh + 2 * g);
        n->scale[g] = odd_scale_neon(h >> 12 & 7);
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++)
            put_eighths(to, 4 * g + l, b->qs[4 * g + l] | (h >> 3 * l & 7) << 8, h >> 15 != 0);
    }
}

/* The half d lies in the top nibbles of the four scale words, lowest first; below them are four
 * 3-bit scales each. */
ALWAYS void values_iq1_m(const uint8_t *block, int8_t *to, struct numbers *n)
{
    const struct hk_iq1_m *b = (const void *)block;
    unsigned half = 0;
    for (int w = 0; w < 4; w++) {
        unsigned word = load_le16(b->scales + 2 * w);
        half |= word >> 12 << 4 * w;
        for (int g = 0; g < 4; g++)
            n->scale[4 * w + g] = odd_scale_neon(word >> 3 * g & 7);
    }
    n->d = half_f32(half) * 0.125f;
#pragma GCC unroll 4
    for (int k = 0; k < 32; k++) {
        unsigned h = (unsigned)b->qh[k / 2] >> k % 2 * 4 & 15;
        put_eighths(to, k, b->qs[k] | (h & 7) << 8, h >> 3 != 0);
    }
}

#endif
