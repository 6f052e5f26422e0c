/* Super-blocks whose codes index grids, in registers: entries by loads or gathers, signs as masks.
 */
#ifndef HKK_X86_CODES_GRID_H
#define HKK_X86_CODES_GRID_H

#include "kernels/x86/codes_super.h"

static inline long long entry(const void *p)
{
    long long e;
    memcpy(&e, p, sizeof e);
    return e;
}

/* x where the sign is clear, -x where it is set, plus OFFSET. */
static inline __m256i with_signs(__m256i x, uint32_t signs, int offset)
{
    __m256i mask = bit_masks(signs);
    x = _mm256_sub_epi8(_mm256_xor_si256(x, mask), mask);
    return _mm256_add_epi8(x, _mm256_set1_epi8((char)offset));
}

/* Four sign codes of seven bits. */
static inline uint32_t sign_bytes(uint32_t w)
{
    return hk_ksigns[w & 127] | (uint32_t)hk_ksigns[w >> 7 & 127] << 8 |
           (uint32_t)hk_ksigns[w >> 14 & 127] << 16 | (uint32_t)hk_ksigns[w >> 21 & 127] << 24;
}

/* 2s + 1 of sixteen bytes. */
static inline __m256i odd_scales(__m128i s)
{
    __m256i x = _mm256_cvtepu8_epi16(s);
    return _mm256_add_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(1));
}

/* The same of eight bytes, each for two groups. */
static inline __m256i odd_scales_of_32(uint64_t eight)
{
    __m256i x = scales_of_32(eight);
    return _mm256_add_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(1));
}

/* Offset 43. */
static inline void codes_iq2_xxs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq2_xxs *b = (const void *)block;
    uint64_t scales = 0;
    s->d = le_half(b->d) * 0.125f;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->group[g].qs;
        uint32_t w = le32(b->group[g].signs);
        __m256i x = _mm256_setr_epi64x(entry(hk_iq2_xxs_grid[q[0]]), entry(hk_iq2_xxs_grid[q[1]]),
                                       entry(hk_iq2_xxs_grid[q[2]]), entry(hk_iq2_xxs_grid[q[3]]));
        s->c[g] = with_signs(x, sign_bytes(w), 43);
        scales |= (uint64_t)(w >> 28) << 8 * g;
    }
    s->scale = odd_scales_of_32(scales);
}

/* Offset 43. */
static inline void codes_iq2_xs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq2_xs *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    s->scale = odd_scales(sixteen_nibbles(b->scales));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        unsigned k[4];
        for (int l = 0; l < 4; l++)
            k[l] = le16(b->qs + 8 * g + 2 * l);
        __m256i x = _mm256_setr_epi64x(
            entry(hk_iq2_xs_grid[k[0] & 511]), entry(hk_iq2_xs_grid[k[1] & 511]),
            entry(hk_iq2_xs_grid[k[2] & 511]), entry(hk_iq2_xs_grid[k[3] & 511]));
        uint32_t signs = hk_ksigns[k[0] >> 9] | (uint32_t)hk_ksigns[k[1] >> 9] << 8 |
                         (uint32_t)hk_ksigns[k[2] >> 9] << 16 |
                         (uint32_t)hk_ksigns[k[3] >> 9] << 24;
        s->c[g] = with_signs(x, signs, 43);
    }
}

/* Offset 43. */
static inline void codes_iq2_s(const uint8_t *block, struct codes *s)
{
    const struct hk_iq2_s *b = (const void *)block;
    s->d = le_half(b->d) * 0.125f;
    s->scale = odd_scales(sixteen_nibbles(b->scales));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        unsigned h = (unsigned)b->qh[g] << 8;
        __m256i x = _mm256_setr_epi64x(entry(hk_iq2_s_grid[q[0] | (h & 0x300)]),
                                       entry(hk_iq2_s_grid[q[1] | (h >> 2 & 0x300)]),
                                       entry(hk_iq2_s_grid[q[2] | (h >> 4 & 0x300)]),
                                       entry(hk_iq2_s_grid[q[3] | (h >> 6 & 0x300)]));
        s->c[g] = with_signs(x, le32(b->signs + 4 * g), 43);
    }
}

/* Offset 62. */
static inline void codes_iq3_xxs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq3_xxs *b = (const void *)block;
    uint64_t scales = 0;
    s->d = le_half(b->d) * 0.25f;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->qs + 8 * g)));
        __m256i x = _mm256_i32gather_epi32((const int *)(const void *)hk_iq3_xxs_grid, index, 4);
        uint32_t w = le32(b->signs + 4 * g);
        s->c[g] = with_signs(x, sign_bytes(w), 62);
        scales |= (uint64_t)(w >> 28) << 8 * g;
    }
    s->scale = odd_scales_of_32(scales);
}

/* Offset 15. */
static inline void codes_iq3_s(const uint8_t *block, struct codes *s)
{
    const struct hk_iq3_s *b = (const void *)block;
    const __m256i places = _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1);
    __m128i scales = _mm_cvtsi32_si128((int)le32(b->scales));
    s->d = le_half(b->d);
    scales = nibbles_in_turn(scales);
    s->scale = odd_scales_of_32((uint64_t)_mm_cvtsi128_si64(scales));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->qs + 8 * g)));
        __m256i high = _mm256_sllv_epi32(_mm256_set1_epi32(b->qh[g]), places);
        __m256i index = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(256)));
        __m256i x = _mm256_i32gather_epi32((const int *)(const void *)hk_iq3_s_grid, index, 4);
        s->c[g] = with_signs(x, le32(b->signs + 4 * g), 15);
    }
}

/* Eighths of four ternary entries plus DELTAS, of which a byte is 8 or 10: offset 9. */
static inline __m256i ternary_eighths(unsigned a, unsigned b, unsigned c, unsigned d,
                                      __m256i deltas)
{
    __m256i x = _mm256_setr_epi64x(entry(hk_iq1_grid[a]), entry(hk_iq1_grid[b]),
                                   entry(hk_iq1_grid[c]), entry(hk_iq1_grid[d]));
    x = _mm256_and_si256(_mm256_slli_epi16(x, 3), _mm256_set1_epi8((char)0xf8));
    return _mm256_add_epi8(x, deltas);
}

static inline void codes_iq1_s(const uint8_t *block, struct codes *s)
{
    const struct hk_iq1_s *b = (const void *)block;
    uint64_t scales = 0;
    s->d = le_half(b->d) * 0.125f;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        unsigned h = le16(b->qh + 2 * g);
        s->c[g] = ternary_eighths(q[0] | (h << 8 & 0x700), q[1] | (h << 5 & 0x700),
                                  q[2] | (h << 2 & 0x700), q[3] | (h >> 1 & 0x700),
                                  _mm256_set1_epi8(h >> 15 ? 8 : 10));
        scales |= (uint64_t)(h >> 12 & 7) << 8 * g;
    }
    s->scale = odd_scales_of_32(scales);
}

/* A nibble with its top bit set moves its eight down. */
static inline long long eight_deltas(unsigned nibble)
{
    return nibble & 8 ? 0x0808080808080808 : 0x0a0a0a0a0a0a0a0a;
}

static inline void codes_iq1_m(const uint8_t *block, struct codes *s)
{
    const struct hk_iq1_m *b = (const void *)block;
    unsigned w[4], half = 0;
    int16_t scale[16];
    for (int i = 0; i < 4; i++) {
        w[i] = le16(b->scales + 2 * i);
        half |= w[i] >> 12 << 4 * i;
    }
    for (int g = 0; g < 16; g++)
        scale[g] = (int16_t)(2 * (w[g / 4] >> g % 4 * 3 & 7) + 1);
    s->d = half_f32(half) * 0.125f;
    s->scale = load32(scale);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        unsigned h = le16(b->qh + 2 * g);
        __m256i deltas = _mm256_setr_epi64x(eight_deltas(h), eight_deltas(h >> 4),
                                            eight_deltas(h >> 8), eight_deltas(h >> 12));
        s->c[g] = ternary_eighths(q[0] | (h << 8 & 0x700), q[1] | (h << 4 & 0x700),
                                  q[2] | (h & 0x700), q[3] | (h >> 4 & 0x700), deltas);
    }
}

#endif
