/* I-quants: codes that index a grid of small vectors, a sign for each element, and a scale for each
 * 16 or 32; iq4_nl and iq4_xs, whose codes index a set of 16 values. */
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/floats.h"
#include "libhkfmt/tensor/tables.h"

/* SCALE times N grid values, negated where SIGNS has a bit: flipping the sign bit is exact, zeros
 * included. */
static inline void decode_signed_grid(const uint8_t *restrict grid, int n, uint32_t signs,
                                      float scale, float *restrict y)
{
    for (int j = 0; j < n; j++)
        y[j] = hk_bits_f32(hk_f32_bits(scale * (float)grid[j]) ^ (signs >> j & 1) << 31);
}

/* The scale of codes S in the two-bit formats. */
static inline float iq2_scale(float d, unsigned s)
{
    return d * (0.5f + (float)s) * 0.25f;
}

void hk_decode_iq2_xxs(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq2_xxs *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int g = 0; g < 8; g++) {
        uint32_t w = le32(b->group[g].signs);
        float scale = iq2_scale(d, w >> 28);
        for (int l = 0; l < 4; l++, y += 8)
            decode_signed_grid(hk_iq2_xxs_grid[b->group[g].qs[l]], 8, hk_ksigns[w >> 7 * l & 127],
                               scale, y);
    }
}

void hk_decode_iq2_xs(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq2_xs *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int k = 0; k < 32; k++, y += 8) {
        unsigned code = le16(b->qs + 2 * k);
        unsigned s = (unsigned)b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        decode_signed_grid(hk_iq2_xs_grid[code & 511], 8, hk_ksigns[code >> 9], iq2_scale(d, s), y);
    }
}

void hk_decode_iq2_s(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq2_s *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int k = 0; k < 32; k++, y += 8) {
        unsigned index = b->qs[k] | ((unsigned)b->qh[k / 4] >> k % 4 * 2 & 3) << 8;
        unsigned s = (unsigned)b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        decode_signed_grid(hk_iq2_s_grid[index], 8, b->signs[k], iq2_scale(d, s), y);
    }
}

void hk_decode_iq3_xxs(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq3_xxs *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int g = 0; g < 8; g++) {
        uint32_t w = le32(b->signs + 4 * g);
        float scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
        for (int l = 0; l < 4; l++, y += 8) {
            uint32_t signs = hk_ksigns[w >> 7 * l & 127];
            const uint8_t *q = b->qs + 8 * g + 2 * l;
            decode_signed_grid(hk_iq3_xxs_grid[q[0]], 4, signs, scale, y);
            decode_signed_grid(hk_iq3_xxs_grid[q[1]], 4, signs >> 4, scale, y + 4);
        }
    }
}

void hk_decode_iq3_s(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq3_s *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int k = 0; k < 64; k++, y += 4) {
        unsigned index = b->qs[k] | ((unsigned)b->qh[k / 8] >> k % 8 & 1) << 8;
        unsigned s = (unsigned)b->scales[k / 16] >> k / 8 % 2 * 4 & 15;
        decode_signed_grid(hk_iq3_s_grid[index], 4, (uint32_t)b->signs[k / 2] >> k % 2 * 4,
                           d * (float)(1 + 2 * s), y);
    }
}

/* SCALE times eight entries of the ternary grid, each moved by an eighth. */
static inline void iq1_eight(unsigned index, bool negative, float scale, float *restrict y)
{
    const int8_t *grid = hk_iq1_grid[index];
    float delta = negative ? -0.125f : 0.125f;
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)grid[j] + delta);
}

void hk_decode_iq1_s(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq1_s *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int k = 0; k < 32; k++, y += 8) {
        unsigned h = le16(b->qh + k / 4 * 2);
        unsigned index = b->qs[k] | (h >> k % 4 * 3 & 7) << 8;
        iq1_eight(index, h >> 15, d * (float)(2 * (h >> 12 & 7) + 1), y);
    }
}

/* The half is spread over the top nibbles of the four scale words, lowest first; below them are
 * four 3-bit scales for 16 elements each. */
void hk_decode_iq1_m(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq1_m *b = (const void *)block;
    unsigned half = 0;
    for (int w = 0; w < 4; w++)
        half |= (unsigned)le16(b->scales + 2 * w) >> 12 << 4 * w;
    float d = hk_f16(half);
    for (int k = 0; k < 32; k++, y += 8) {
        unsigned h = (unsigned)b->qh[k / 2] >> k % 2 * 4 & 15;
        unsigned s = (unsigned)le16(b->scales + k / 8 * 2) >> k / 2 % 4 * 3 & 7;
        iq1_eight(b->qs[k] | (h & 7) << 8, h >> 3, d * (float)(2 * s + 1), y);
    }
}

static inline void sixteen_values(const uint8_t *restrict qs, float scale, float *restrict y)
{
    for (int j = 0; j < 16; j++) {
        y[j] = scale * (float)hk_iq4_nl_values[qs[j] & 15];
        y[j + 16] = scale * (float)hk_iq4_nl_values[qs[j] >> 4];
    }
}

void hk_decode_iq4_nl(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq4_nl *b = (const void *)block;
    sixteen_values(b->qs, hk_f16(le16(b->d)), y);
}

void hk_decode_iq4_xs(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_iq4_xs *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    unsigned high = le16(b->scales_h);
    for (int g = 0; g < 8; g++, y += 32) {
        unsigned low = (unsigned)b->scales_l[g / 2] >> g % 2 * 4 & 15;
        int scale = (int)(low | (high >> 2 * g & 3) << 4) - 32;
        sixteen_values(b->qs + 16 * g, d * (float)scale, y);
    }
}
