/* Super-blocks whose codes index grids, sixteen rows at a time. A register has 64 magnitudes of one
 * row, of entries gathered from the grid; signs are masks, and turn the activations. Indices and
 * masks are made in registers, and go through memory to where they are used. */
#ifndef HKK_X86_FEW_512_GRID_H
#define HKK_X86_FEW_512_GRID_H

#include "kernels/x86/few_512.h"

/* A row: places of its entries in the grid, the elements with a sign, and scales as words of which
 * every other one is zero: of sixteen groups, or of eight. */
struct grid_row {
    _Alignas(64) uint16_t index[64];
    _Alignas(64) uint64_t signs[4];
    __m512i scale;
};

/* Made in registers, used from memory: gcc prefers to take the parts out of registers, which costs
 * two steps each instead of a load. */
ALWAYS void table_in_memory(struct grid_row *r)
{
    __asm__("" : "+m"(r->index), "+m"(r->signs));
}

/* Activations of a super-block: 64 each; for iq1, less the sums of each four, which make values of
 * codes, and sums of what has a delta in common. */
struct grid_q {
    __m512i q[4], start[4], sums;
};

/* ---- entries ---- */

ALWAYS long long entry_8(const void *p)
{
    long long e;
    memcpy(&e, p, sizeof e);
    return e;
}

/* gcc's gathers are macros at -O0, with conversions of their own. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* Of eight bytes, at GRID, and of four. A gather is a quarter to a third faster than loads one by
 * one into parts of a register; it begins with zeros, or it would wait for what the register held.
 */
ALWAYS __m512i eight_entries(const uint8_t *grid, const uint16_t *index)
{
    __m256i at = _mm256_cvtepu16_epi32(load16(index));
    return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), 0xff, at, grid, 8);
}

ALWAYS __m512i sixteen_entries(const uint8_t *grid, const uint16_t *index)
{
    __m512i at = _mm512_cvtepu16_epi32(load32(index));
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, at, grid, 4);
}

#pragma GCC diagnostic pop

/* ---- signs, scales and indices of a row ---- */

/* An eighth sign goes with seven, so that their number is even: of bytes below 128. */
ALWAYS __m512i eighth_signs(__m512i x)
{
    const __m512i odd = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m512i low = bytes_512(15);
    __m512i a = _mm512_shuffle_epi8(odd, _mm512_and_si512(x, low));
    __m512i b = _mm512_shuffle_epi8(odd, _mm512_and_si512(_mm512_srli_epi16(x, 4), low));
    return _mm512_ternarylogic_epi32(x, a, b, 0x96);
}

/* Signs and scales of words of four times seven signs and a scale: eight for a row, then eight for
 * the other. */
ALWAYS void signs_and_scales(__m512i w, struct grid_row *a, struct grid_row *b)
{
    __m512i x = _mm512_and_si512(w, _mm512_set1_epi32(0x7f));
    x = _mm512_ternarylogic_epi32(x, _mm512_slli_epi32(w, 1), _mm512_set1_epi32(0x7f00), 0xf8);
    x = _mm512_ternarylogic_epi32(x, _mm512_slli_epi32(w, 2), _mm512_set1_epi32(0x7f0000), 0xf8);
    x = _mm512_ternarylogic_epi32(x, _mm512_slli_epi32(w, 3), _mm512_set1_epi32(0x7f000000), 0xf8);
    x = eighth_signs(x);
    _mm256_store_si256((void *)a->signs, _mm512_castsi512_si256(x));
    _mm256_store_si256((void *)b->signs, _mm512_extracti64x4_epi64(x, 1));
    x = _mm512_ternarylogic_epi32(_mm512_srli_epi32(w, 27), _mm512_set1_epi32(0x1e),
                                  _mm512_set1_epi32(1), 0xea);
    a->scale = x;
    b->scale = _mm512_shuffle_i32x4(x, x, 0xee);
}

/* 2s + 1 of the nibbles that TURNS to the right bring to bits 1.. */
ALWAYS __m512i odd_scales_512(__m512i x, __m512i turns)
{
    return _mm512_ternarylogic_epi32(_mm512_rorv_epi32(x, turns), _mm512_set1_epi32(0x1e),
                                     _mm512_set1_epi32(1), 0xea);
}

/* Of sixteen nibbles. */
ALWAYS __m512i sixteen_odd_scales(const uint8_t *p)
{
    const __m512i at = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i turns = _mm512_set1_epi64((long long)3 << 32 | 31);
    __m512i x = _mm512_set1_epi64(entry_8(p));
    x = _mm512_shuffle_epi8(x, _mm512_or_si512(at, _mm512_set1_epi32((int)0x80808000)));
    return odd_scales_512(x, turns);
}

/* Of eight. */
ALWAYS __m512i eight_odd_scales(const uint8_t *p)
{
    const __m512i turns =
        _mm512_setr_epi32(31, 3, 7, 11, 15, 19, 23, 27, 31, 3, 7, 11, 15, 19, 23, 27);
    return odd_scales_512(_mm512_set1_epi32((int)load_le32(p)), turns);
}

ALWAYS void put_index_bytes(uint16_t *index, const uint8_t *p)
{
    _mm512_store_si512(index, _mm512_cvtepu8_epi16(load32(p)));
}

/* X's bits of MASK or Y. */
ALWAYS __m512i or_bits(__m512i x, __m512i y, int mask)
{
    return _mm512_ternarylogic_epi32(y, x, _mm512_set1_epi16((short)mask), 0xf8);
}

ALWAYS void row_iq2_xs(const uint8_t *block, struct grid_row *r)
{
    const struct hk_iq2_xs *b = (const void *)block;
    __m512i w = _mm512_loadu_si512(b->qs);
    _mm512_store_si512(r->index, _mm512_and_si512(w, _mm512_set1_epi16(511)));
    __m512i signs = eighth_signs(_mm512_srli_epi16(w, 9));
    _mm256_store_si256((void *)r->signs, _mm512_cvtepi16_epi8(signs));
    r->scale = sixteen_odd_scales(b->scales);
}

ALWAYS void row_iq2_s(const uint8_t *block, struct grid_row *r)
{
    const struct hk_iq2_s *b = (const void *)block;
    const __m512i at =
        _mm512_setr_epi64((long long)0x8000800080008000u, (long long)0x8001800180018001u,
                          (long long)0x8002800280028002u, (long long)0x8003800380038003u,
                          (long long)0x8004800480048004u, (long long)0x8005800580058005u,
                          (long long)0x8006800680068006u, (long long)0x8007800780078007u);
    const __m512i places = _mm512_set1_epi64(0x0002000400060008);
    __m512i high = _mm512_shuffle_epi8(_mm512_set1_epi64(entry_8(b->qh)), at);
    high = _mm512_sllv_epi16(high, places);
    _mm512_store_si512(r->index, or_bits(high, _mm512_cvtepu8_epi16(load32(b->qs)), 0x300));
    memcpy(r->signs, b->signs, sizeof r->signs);
    r->scale = sixteen_odd_scales(b->scales);
}

ALWAYS void row_iq3_s(const uint8_t *block, struct grid_row *r)
{
    const struct hk_iq3_s *b = (const void *)block;
    const __m512i high = _mm512_set1_epi16(256);
#pragma GCC unroll 2
    for (size_t h = 0; h < 2; h++) {
        __m512i x = _mm512_cvtepu8_epi16(load32(b->qs + 32 * h));
        x = _mm512_mask_add_epi16(x, load_le32(b->qh + 4 * h), x, high);
        _mm512_store_si512(r->index + 32 * h, x);
    }
    memcpy(r->signs, b->signs, sizeof r->signs);
    r->scale = eight_odd_scales(b->scales);
}

ALWAYS void rows_iq2_xxs(const uint8_t *a, const uint8_t *b, struct grid_row r[2])
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512i x = _mm512_loadu_si512(a + 2), y = _mm512_loadu_si512(b + 2);
    __m512i at = _mm512_permutex2var_epi32(x, even, y);
    _mm512_store_si512(r[0].index, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(at)));
    _mm512_store_si512(r[1].index, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(at, 1)));
    signs_and_scales(_mm512_permutex2var_epi32(x, odd, y), r, r + 1);
}

ALWAYS void rows_iq3_xxs(const uint8_t *a, const uint8_t *b, struct grid_row r[2])
{
    const struct hk_iq3_xxs *x = (const void *)a, *y = (const void *)b;
    put_index_bytes(r[0].index, x->qs);
    put_index_bytes(r[0].index + 32, x->qs + 32);
    put_index_bytes(r[1].index, y->qs);
    put_index_bytes(r[1].index + 32, y->qs + 32);
    signs_and_scales(
        _mm512_inserti64x4(_mm512_castsi256_si512(load32(x->signs)), load32(y->signs), 1), r,
        r + 1);
}

/* ---- iq1: ternary entries with a delta of an eighth ---- */

/* Gives the sum of scale * delta * q, in parts. */
ALWAYS __m512i row_iq1_s(const uint8_t *block, struct grid_row *r, __m512i sums)
{
    const struct hk_iq1_s *b = (const void *)block;
    const __m512i at = _mm512_setr_epi64(0x0100010001000100, 0x0302030203020302, 0x0504050405040504,
                                         0x0706070607060706, 0x0908090809080908, 0x0b0a0b0a0b0a0b0a,
                                         0x0d0c0d0c0d0c0d0c, 0x0f0e0f0e0f0e0f0e);
    const __m512i places = _mm512_set1_epi64(0x0009000600030000);
    __m128i words = load16(b->qh);
    __m512i h = _mm512_broadcast_i32x4(words);
    __m512i high = _mm512_srlv_epi16(_mm512_shuffle_epi8(h, at), places);
    high = _mm512_slli_epi16(high, 8);
    _mm512_store_si512(r->index, or_bits(high, _mm512_cvtepu8_epi16(load32(b->qs)), 0x700));
    __m512i s = _mm512_cvtepu16_epi32(_mm256_castsi128_si256(words));
    __mmask16 below = _mm512_test_epi32_mask(s, _mm512_set1_epi32(0x8000));
    s = _mm512_ternarylogic_epi32(_mm512_srli_epi32(s, 11), _mm512_set1_epi32(14),
                                  _mm512_set1_epi32(1), 0xea);
    r->scale = s;
    const __m512i zero = _mm512_setzero_si512();
    return _mm512_dpwssd_epi32(zero, _mm512_mask_sub_epi32(s, below, zero, s), sums);
}

ALWAYS __m512i row_iq1_m(const uint8_t *block, struct grid_row *r, __m512i sums)
{
    const struct hk_iq1_m *b = (const void *)block;
    const __m512i at = _mm512_setr_epi64(0x0100010001000100, 0x0100010001000100, 0x0302030203020302,
                                         0x0302030203020302, 0x0504050405040504, 0x0504050405040504,
                                         0x0706070607060706, 0x0706070607060706);
    const __m512i places = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 0, 3, 3, 6, 6, 9, 9));
    __m512i h = _mm512_cvtepu8_epi32(load16(b->qh));
    h = _mm512_or_si512(h, _mm512_slli_epi32(h, 12)); /* nibbles at the bottom of words */
    __mmask32 below = _mm512_test_epi16_mask(h, _mm512_set1_epi16(8));
    h = or_bits(_mm512_slli_epi16(h, 8), _mm512_cvtepu8_epi16(load32(b->qs)), 0x700);
    _mm512_store_si512(r->index, h);
    __m512i s = _mm512_shuffle_epi8(_mm512_set1_epi64(entry_8(b->scales)), at);
    s = _mm512_srlv_epi16(_mm512_slli_epi16(s, 1), places);
    s = _mm512_ternarylogic_epi32(s, _mm512_set1_epi16(14), _mm512_set1_epi16(1), 0xea);
    r->scale = _mm512_srli_epi32(s, 16);
    const __m512i zero = _mm512_setzero_si512();
    return _mm512_dpwssd_epi32(zero, _mm512_mask_sub_epi16(s, below, zero, s), sums);
}

/* ---- products ---- */

/* The scales of register k's lanes. */
ALWAYS __m512i grid_scale(__m512i scale, int k, bool by_16)
{
    const __m512i by = by_16 ? _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)
                             : _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i at = _mm512_add_epi32(by, _mm512_set1_epi32(by_16 ? 4 * k : 2 * k));
    return _mm512_permutexvar_epi32(at, scale);
}

/* Four products are below 2^15, as 4 * 127 * 62 is. */
ALWAYS __m512i grid_dot(struct grid_row *r, const struct grid_q *x, const uint8_t *grid,
                        bool shorter, bool by_16)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i acc = zero;
    table_in_memory(r);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i c = shorter ? sixteen_entries(grid, r->index + 16 * k)
                            : eight_entries(grid, r->index + 8 * k);
        __m512i q = _mm512_mask_sub_epi8(x->q[k], r->signs[k], zero, x->q[k]);
        __m512i sum = _mm512_dpbusd_epi32(zero, c, q);
        acc = keep_order_512(_mm512_dpwssd_epi32(acc, sum, grid_scale(r->scale, k, by_16)));
    }
    return acc;
}

/* In eighths; DELTAS is that part. */
ALWAYS __m512i iq1_dot(struct grid_row *r, const struct grid_q *x, __m512i deltas, bool by_16)
{
    __m512i acc = _mm512_setzero_si512();
    table_in_memory(r);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i c = eight_entries((const uint8_t *)hk_iq1_grid, r->index + 8 * k);
        __m512i sum = _mm512_dpbusd_epi32(x->start[k], _mm512_add_epi8(c, bytes_512(1)), x->q[k]);
        acc = keep_order_512(_mm512_dpwssd_epi32(acc, sum, grid_scale(r->scale, k, by_16)));
    }
    return _mm512_add_epi32(_mm512_slli_epi32(acc, 3), deltas);
}

ALWAYS void iq1_dots(const uint8_t *a, const uint8_t *b, const struct grid_q *x, bool m,
                     __m512i dot[2])
{
    struct grid_row r[2];
    dot[0] = m ? row_iq1_m(a, r, x->sums) : row_iq1_s(a, r, x->sums);
    dot[1] = m ? row_iq1_m(b, r + 1, x->sums) : row_iq1_s(b, r + 1, x->sums);
    dot[0] = iq1_dot(r, x, dot[0], m);
    dot[1] = iq1_dot(r + 1, x, dot[1], m);
}

/* Two rows; gives the grid. */
ALWAYS const uint8_t *grid_rows(const uint8_t *a, const uint8_t *b, unsigned type,
                                struct grid_row r[2])
{
    switch (type) {
    case HKK_IQ2_XXS:
        rows_iq2_xxs(a, b, r);
        return hk_iq2_xxs_grid[0];
    case HKK_IQ2_XS:
        row_iq2_xs(a, r);
        row_iq2_xs(b, r + 1);
        return hk_iq2_xs_grid[0];
    case HKK_IQ2_S:
        row_iq2_s(a, r);
        row_iq2_s(b, r + 1);
        return hk_iq2_s_grid[0];
    case HKK_IQ3_XXS:
        rows_iq3_xxs(a, b, r);
        return hk_iq3_xxs_grid[0];
    default:
        row_iq3_s(a, r);
        row_iq3_s(b, r + 1);
        return hk_iq3_s_grid[0];
    }
}

ALWAYS void grid_dots(const uint8_t *a, const uint8_t *b, const struct grid_q *x, unsigned type,
                      __m512i dot[2])
{
    if (type == HKK_IQ1_S || type == HKK_IQ1_M) {
        iq1_dots(a, b, x, type == HKK_IQ1_M, dot);
        return;
    }
    const bool shorter = type == HKK_IQ3_XXS || type == HKK_IQ3_S;
    const bool by_16 = type == HKK_IQ2_XS || type == HKK_IQ2_S;
    struct grid_row r[2];
    const uint8_t *grid = grid_rows(a, b, type, r);
    dot[0] = grid_dot(r, x, grid, shorter, by_16);
    dot[1] = grid_dot(r + 1, x, grid, shorter, by_16);
}

/* ---- sixteen rows ---- */

/* Lane 4g + i is the sum of v[g]'s lanes i, i + 4, i + 8 and i + 12. */
ALWAYS __m512i sums_across(const __m512i v[4])
{
    __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x44),
                                 _mm512_shuffle_i32x4(v[0], v[1], 0xee));
    __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2], v[3], 0x44),
                                 _mm512_shuffle_i32x4(v[2], v[3], 0xee));
    a = keep_order_512(a);
    b = keep_order_512(b);
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Sums of eight, as 32 words. */
ALWAYS __m512i sums_of_8_q(const __m512i start[4])
{
    _Alignas(64) int16_t sums[32];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i s = _mm512_add_epi32(start[k], _mm512_srli_epi64(start[k], 32));
        s = _mm512_sub_epi32(_mm512_setzero_si512(), s);
        _mm_store_si128((void *)(sums + 8 * k), _mm512_cvtepi64_epi16(s));
    }
    return _mm512_load_si512(sums);
}

ALWAYS void grid_load_q(struct grid_q *x, const int8_t *q, const int16_t *sum, unsigned type)
{
    const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        x->q[k] = _mm512_loadu_si512(q + 64 * k);
    if (type != HKK_IQ1_S && type != HKK_IQ1_M)
        return;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        x->start[k] = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, bytes_512(1), x->q[k]));
    if (type == HKK_IQ1_M) {
        x->sums = sums_of_8_q(x->start);
        return;
    }
    __m256i s = _mm256_madd_epi16(load32(sum), _mm256_set1_epi16(1));
    x->sums = _mm512_zextsi256_si512(_mm256_and_si256(s, _mm256_set1_epi32(0xffff)));
}

/* The bits of iq1_m's d are the upper nibbles of four words. */
ALWAYS __m512i d_of_iq1_m(const uint8_t *p, __m512i at)
{
    __m512i a = words_16(p + 48, at), b = words_16(p + 52, at);
    __m512i x = _mm512_and_si512(_mm512_srli_epi32(a, 12), _mm512_set1_epi32(0x000f));
    x = _mm512_ternarylogic_epi32(x, _mm512_srli_epi32(a, 24), _mm512_set1_epi32(0x00f0), 0xf8);
    x = _mm512_ternarylogic_epi32(x, _mm512_srli_epi32(b, 4), _mm512_set1_epi32(0x0f00), 0xf8);
    return _mm512_ternarylogic_epi32(x, _mm512_srli_epi32(b, 16), _mm512_set1_epi32(0xf000), 0xf8);
}

ALWAYS __m512 few_grid_16(const struct rows_16 *r, const struct hkk_acts *a, size_t t,
                          unsigned type, size_t size)
{
    const uint8_t *p = r->p, *next = r->p + 16 * r->stride;
    const bool far = r->stride >= FAR_ROW;
    const float part = type == HKK_IQ3_S ? 1.0f : type == HKK_IQ3_XXS ? 0.25f : 0.125f;
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++, p += size) {
        struct grid_q x;
        __m512i v[4];
        grid_load_q(&x, a->q + t * a->cols + 256 * b, a->sum + t * a->sums + 16 * b, type);
#pragma GCC unroll 1
        for (size_t g = 0; g < 4; g++, next += 4 * size) {
            const uint8_t *row = p + 4 * g * r->stride;
            __m512i dot[4];
            fetch(next, 4 * size, far);
            grid_dots(row, row + r->stride, &x, type, dot);
            grid_dots(row + 2 * r->stride, row + 3 * r->stride, &x, type, dot + 2);
            v[g] = sums_of_4(dot);
        }
        __m512 d = halves_16(type == HKK_IQ1_M ? d_of_iq1_m(p, r->at) : words_16(p, r->at));
        d = _mm512_mul_ps(_mm512_mul_ps(d, _mm512_set1_ps(part)),
                          _mm512_set1_ps(a->d[t * a->blocks + b]));
        acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(sums_across(v)), acc);
    }
    return acc;
}

#endif
