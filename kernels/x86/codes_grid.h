/* Super-blocks whose codes index grids, in registers: entries by loads, signs as masks. */
#ifndef HKK_X86_CODES_GRID_H
#define HKK_X86_CODES_GRID_H

#include "kernels/x86/codes_super.h"

/* Four entries of eight bytes, from memory to register without a detour. */
static inline __m256i four_longs(const void *a, const void *b, const void *c, const void *d)
{
    __m128 low = _mm_castsi128_ps(_mm_loadl_epi64(a)), high = _mm_castsi128_ps(_mm_loadl_epi64(c));
    low = _mm_loadh_pi(low, b);
    high = _mm_loadh_pi(high, d);
    return _mm256_castps_si256(_mm256_set_m128(high, low));
}

static inline __m128i four_words(const uint8_t (*grid)[4], const uint32_t *index)
{
    __m128i x = _mm_cvtsi32_si128((int)load_le32(grid[index[0]]));
    x = _mm_insert_epi32(x, (int)load_le32(grid[index[1]]), 1);
    x = _mm_insert_epi32(x, (int)load_le32(grid[index[2]]), 2);
    return _mm_insert_epi32(x, (int)load_le32(grid[index[3]]), 3);
}

/* Eight entries of four bytes, by loads, which take less time than a gather. */
static inline __m256i eight_words(const uint8_t (*grid)[4], __m256i index)
{
    uint32_t i[8];
    _mm256_storeu_si256((void *)i, index);
    return _mm256_set_m128i(four_words(grid, i + 4), four_words(grid, i));
}

/* x where the sign is clear, -x where it is set, plus OFFSET. */
static inline __m256i with_signs(__m256i x, uint32_t signs, int offset)
{
    __m256i mask = bit_masks(signs);
    x = _mm256_sub_epi8(_mm256_xor_si256(x, mask), mask);
    return _mm256_add_epi8(x, _mm256_set1_epi8((char)offset));
}

/* Codes of seven bits in bytes to signs of eight: the last one makes their number even. */
static inline __m256i even_signs(__m256i codes)
{
    const __m128i odd =
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0);
    const __m256i low = _mm256_set1_epi8(15);
    __m256i a = look_up(odd, _mm256_and_si256(codes, low));
    __m256i b = look_up(odd, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
    return _mm256_or_si256(codes, _mm256_xor_si256(a, b));
}

/* Of eight groups' words with four sign codes of seven bits and a scale above them: the signs, and
 * 2s + 1. */
static inline __m256i seven_bit_signs(__m256i w, uint32_t signs[8])
{
    const __m256i seven = _mm256_set1_epi32(127);
    __m256i x = _mm256_and_si256(w, seven);
    x = _mm256_or_si256(x, _mm256_and_si256(_mm256_slli_epi32(w, 1), _mm256_slli_epi32(seven, 8)));
    x = _mm256_or_si256(x, _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_slli_epi32(seven, 16)));
    x = _mm256_or_si256(x, _mm256_and_si256(_mm256_slli_epi32(w, 3), _mm256_slli_epi32(seven, 24)));
    _mm256_storeu_si256((void *)signs, even_signs(x));
    __m256i s = _mm256_srli_epi32(w, 28);
    s = _mm256_or_si256(s, _mm256_slli_epi32(s, 16));
    return _mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1));
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
    uint32_t signs[8];
    __m256 x = _mm256_castsi256_ps(load32(b->group)), y = _mm256_castsi256_ps(load32(b->group + 4));
    __m256i w = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd));
    s->scale = seven_bit_signs(_mm256_permute4x64_epi64(w, 0xd8), signs);
    s->d = le_half(b->d) * 0.125f;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->group[g].qs;
        __m256i c = four_longs(hk_iq2_xxs_grid[q[0]], hk_iq2_xxs_grid[q[1]], hk_iq2_xxs_grid[q[2]],
                               hk_iq2_xxs_grid[q[3]]);
        s->c[g] = with_signs(c, signs[g], 43);
    }
}

/* Offset 43. */
static inline void codes_iq2_xs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq2_xs *b = (const void *)block;
    uint32_t signs[8];
    __m256i top = _mm256_packus_epi16(_mm256_srli_epi16(load32(b->qs), 9),
                                      _mm256_srli_epi16(load32(b->qs + 32), 9));
    _mm256_storeu_si256((void *)signs, even_signs(_mm256_permute4x64_epi64(top, 0xd8)));
    s->d = le_half(b->d) * 0.125f;
    s->scale = odd_scales(sixteen_nibbles(b->scales));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 8 * g;
        __m256i c = four_longs(
            hk_iq2_xs_grid[load_le16(q) & 511], hk_iq2_xs_grid[load_le16(q + 2) & 511],
            hk_iq2_xs_grid[load_le16(q + 4) & 511], hk_iq2_xs_grid[load_le16(q + 6) & 511]);
        s->c[g] = with_signs(c, signs[g], 43);
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
        __m256i x = four_longs(
            hk_iq2_s_grid[q[0] | (h & 0x300)], hk_iq2_s_grid[q[1] | (h >> 2 & 0x300)],
            hk_iq2_s_grid[q[2] | (h >> 4 & 0x300)], hk_iq2_s_grid[q[3] | (h >> 6 & 0x300)]);
        s->c[g] = with_signs(x, load_le32(b->signs + 4 * g), 43);
    }
}

/* Offset 62. */
static inline void codes_iq3_xxs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq3_xxs *b = (const void *)block;
    uint32_t signs[8];
    s->scale = seven_bit_signs(load32(b->signs), signs);
    s->d = le_half(b->d) * 0.25f;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->qs + 8 * g)));
        __m256i x = eight_words(hk_iq3_xxs_grid, index);
        s->c[g] = with_signs(x, signs[g], 62);
    }
}

/* Offset 15. */
static inline void codes_iq3_s(const uint8_t *block, struct codes *s)
{
    const struct hk_iq3_s *b = (const void *)block;
    const __m256i places = _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1);
    __m128i scales = _mm_cvtsi32_si128((int)load_le32(b->scales));
    s->d = le_half(b->d);
    scales = nibbles_in_turn(scales);
    s->scale = odd_scales_of_32((uint64_t)_mm_cvtsi128_si64(scales));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->qs + 8 * g)));
        __m256i high = _mm256_sllv_epi32(_mm256_set1_epi32(b->qh[g]), places);
        __m256i index = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(256)));
        __m256i x = eight_words(hk_iq3_s_grid, index);
        s->c[g] = with_signs(x, load_le32(b->signs + 4 * g), 15);
    }
}

/* Eighths of four ternary entries plus DELTAS, of which a byte is 8 or 10: offset 9. */
static inline __m256i ternary_eighths(unsigned a, unsigned b, unsigned c, unsigned d,
                                      __m256i deltas)
{
    __m256i x = four_longs(hk_iq1_grid[a], hk_iq1_grid[b], hk_iq1_grid[c], hk_iq1_grid[d]);
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
        unsigned h = load_le16(b->qh + 2 * g);
        s->c[g] = ternary_eighths(q[0] | (h << 8 & 0x700), q[1] | (h << 5 & 0x700),
                                  q[2] | (h << 2 & 0x700), q[3] | (h >> 1 & 0x700),
                                  _mm256_set1_epi8((char)(10 - (h >> 15) * 2)));
        scales |= (uint64_t)(h >> 12 & 7) << 8 * g;
    }
    s->scale = odd_scales_of_32(scales);
}

/* A nibble with its top bit set moves its eight down. */
static inline __m256i four_deltas(unsigned nibbles)
{
    const __m256i top = _mm256_setr_epi64x(8, 0x80, 0x800, 0x8000);
    __m256i is_set = _mm256_and_si256(_mm256_set1_epi64x(nibbles), top);
    is_set = _mm256_cmpeq_epi64(is_set, top);
    return _mm256_add_epi8(_mm256_set1_epi8(10), _mm256_and_si256(is_set, _mm256_set1_epi8(-2)));
}

static inline void codes_iq1_m(const uint8_t *block, struct codes *s)
{
    const struct hk_iq1_m *b = (const void *)block;
    unsigned w[4], half = 0;
    int16_t scale[16];
    for (int i = 0; i < 4; i++) {
        w[i] = load_le16(b->scales + 2 * i);
        half |= w[i] >> 12 << 4 * i;
    }
    for (int g = 0; g < 16; g++)
        scale[g] = (int16_t)(2 * (w[g / 4] >> g % 4 * 3 & 7) + 1);
    s->d = half_f32(half) * 0.125f;
    s->scale = load32(scale);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        unsigned h = load_le16(b->qh + 2 * g);
        s->c[g] = ternary_eighths(q[0] | (h << 8 & 0x700), q[1] | (h << 4 & 0x700),
                                  q[2] | (h & 0x700), q[3] | (h >> 4 & 0x700), four_deltas(h));
    }
}

#endif
