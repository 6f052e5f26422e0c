/* The super-blocks whose codes index a grid of small vectors, as int8 values. Powers of two that
 * their scales have in common go into d, exactly. Portable. */
#ifndef HKK_UNPACK_GRID_H
#define HKK_UNPACK_GRID_H

#include "kernels/tmpl/unpack_super.h"

/* N grid values, negated where SIGNS has a bit. */
static inline void unpack_signed_grid(int8_t *v, const uint8_t *grid, int n, uint32_t signs)
{
    for (int j = 0; j < n; j++)
        v[j] = (int8_t)(signs >> j & 1 ? -grid[j] : grid[j]);
}

/* The scale (1/2 + s) is half of an odd number. */
static inline int16_t odd_scale(unsigned s)
{
    return (int16_t)(2 * s + 1);
}

static inline void unpack_iq2_xxs(const uint8_t *block, struct super *s)
{
    const struct hk_iq2_xxs *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    for (int g = 0; g < 8; g++) {
        uint32_t w = load_le32(b->group[g].signs);
        s->scale[2 * g] = s->scale[2 * g + 1] = odd_scale(w >> 28);
        for (int l = 0; l < 4; l++)
            unpack_signed_grid(s->v + 32 * g + 8 * l, hk_iq2_xxs_grid[b->group[g].qs[l]], 8,
                               hk_ksigns[w >> 7 * l & 127]);
    }
}

/* Sixteen scales of four bits, low nibble first. */
static inline void nibble_scales(struct super *s, const uint8_t *scales)
{
    for (int g = 0; g < 16; g++)
        s->scale[g] = odd_scale((unsigned)scales[g / 2] >> g % 2 * 4 & 15);
}

static inline void unpack_iq2_xs(const uint8_t *block, struct super *s)
{
    const struct hk_iq2_xs *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    nibble_scales(s, b->scales);
    for (int k = 0; k < 32; k++) {
        unsigned code = load_le16(b->qs + 2 * k);
        unpack_signed_grid(s->v + 8 * k, hk_iq2_xs_grid[code & 511], 8, hk_ksigns[code >> 9]);
    }
}

static inline void unpack_iq2_s(const uint8_t *block, struct super *s)
{
    const struct hk_iq2_s *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    nibble_scales(s, b->scales);
    for (int k = 0; k < 32; k++) {
        unsigned index = b->qs[k] | ((unsigned)b->qh[k / 4] >> k % 4 * 2 & 3) << 8;
        unpack_signed_grid(s->v + 8 * k, hk_iq2_s_grid[index], 8, b->signs[k]);
    }
}

static inline void unpack_iq3_xxs(const uint8_t *block, struct super *s)
{
    const struct hk_iq3_xxs *b = (const void *)block;
    s->d = le_half(b->d) * 0.25f;
    for (int g = 0; g < 8; g++) {
        uint32_t w = load_le32(b->signs + 4 * g);
        s->scale[2 * g] = s->scale[2 * g + 1] = odd_scale(w >> 28);
        for (int k = 0; k < 8; k++)
            unpack_signed_grid(s->v + 32 * g + 4 * k, hk_iq3_xxs_grid[b->qs[8 * g + k]], 4,
                               (uint32_t)hk_ksigns[w >> 7 * (k / 2) & 127] >> k % 2 * 4);
    }
}

static inline void unpack_iq3_s(const uint8_t *block, struct super *s)
{
    const struct hk_iq3_s *b = (const void *)block;
    s->d = le_half(b->d);
    for (int g = 0; g < 16; g++)
        s->scale[g] = odd_scale((unsigned)b->scales[g / 4] >> g / 2 % 2 * 4 & 15);
    for (int k = 0; k < 64; k++) {
        unsigned index = b->qs[k] | ((unsigned)b->qh[k / 8] >> k % 8 & 1) << 8;
        unpack_signed_grid(s->v + 4 * k, hk_iq3_s_grid[index], 4,
                           (uint32_t)b->signs[k / 2] >> k % 2 * 4);
    }
}

/* Eight ternary values, each moved by an eighth, in eighths. */
static inline void grid_eighths(int8_t *v, unsigned index, unsigned negative)
{
    for (int j = 0; j < 8; j++)
        v[j] = (int8_t)(hk_iq1_grid[index][j] * 8 + (negative ? -1 : 1));
}

static inline void unpack_iq1_s(const uint8_t *block, struct super *s)
{
    const struct hk_iq1_s *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    for (int k = 0; k < 32; k++) {
        unsigned h = load_le16(b->qh + k / 4 * 2);
        s->scale[k / 2] = odd_scale(h >> 12 & 7);
        grid_eighths(s->v + 8 * k, b->qs[k] | (h >> k % 4 * 3 & 7) << 8, h >> 15);
    }
}

/* The half d lies in the top nibbles of the four scale words, lowest first; below them are four
 * 3-bit scales each. */
static inline void unpack_iq1_m(const uint8_t *block, struct super *s)
{
    const struct hk_iq1_m *b = (const void *)block;
    unsigned half = 0;
    for (int w = 0; w < 4; w++)
        half |= load_le16(b->scales + 2 * w) >> 12 << 4 * w;
    s->d = half_f32(half) * 0.125f;
    for (int g = 0; g < 16; g++)
        s->scale[g] = odd_scale(load_le16(b->scales + g / 4 * 2) >> g % 4 * 3 & 7);
    for (int k = 0; k < 32; k++) {
        unsigned h = (unsigned)b->qh[k / 2] >> k % 2 * 4 & 15;
        grid_eighths(s->v + 8 * k, b->qs[k] | (h & 7) << 8, h >> 3);
    }
}

#endif
