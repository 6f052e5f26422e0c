/* Products for few tokens by AVX-512, straight from the packed blocks: sixteen rows at a time,
 * whose sums end up in the lanes of one register. Rows 16 bytes wide share a register by fours (4L
 * + i in its 128-bit lane L, for i = 0..3), such of 32 bytes by pairs; trees of sums then leave row
 * r in lane r. Meanwhile the next sixteen rows, which lie right behind, are fetched from memory. */
#ifndef HKK_X86_FEW_512_H
#define HKK_X86_FEW_512_H

#include "kernels/x86/few.h"

/* Sixteen rows of STRIDE bytes at P. */
struct rows_16 {
    const uint8_t *p;
    size_t stride;
    __m512i at; /* their offsets */
};

ALWAYS __m512i offsets_16(size_t stride)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)stride));
}

/* As keep_order(): keeps gcc from regrouping sums. */
ALWAYS __m512i keep_order_512(__m512i x)
{
    __asm__("" : "+v"(x));
    return x;
}

/* Sixteen bytes each of four rows. */
ALWAYS __m512i load_four_rows(const uint8_t *p, size_t stride)
{
    __m512i x = _mm512_castsi128_si512(load16(p));
    x = _mm512_mask_broadcast_i32x4(x, 0x00f0, load16(p + 4 * stride));
    x = _mm512_mask_broadcast_i32x4(x, 0x0f00, load16(p + 8 * stride));
    return _mm512_mask_broadcast_i32x4(x, 0xf000, load16(p + 12 * stride));
}

/* 32 bytes each of two rows. */
ALWAYS __m512i two_rows(const uint8_t *a, const uint8_t *b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(load32(a)), load32(b), 1);
}

ALWAYS __m512i bytes_512(int x)
{
    return _mm512_set1_epi8((char)x);
}

/* In each 128-bit lane: dword i of v[k] becomes dword k of v[i]. */
ALWAYS void transpose_4(__m512i v[4])
{
    __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
}

/* In each 128-bit lane: dword i is the sum of those of v[i]. */
ALWAYS __m512i sums_of_4(const __m512i v[4])
{
    __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Pair i of rows is first_of_pair(i) and that + 4. */
ALWAYS size_t first_of_pair(size_t i)
{
    return i < 4 ? i : i + 4;
}

/* Lane r is the sum of row r's half of its pair's register. */
ALWAYS __m512i sums_of_pairs(const __m512i v[8])
{
    __m512i a = sums_of_4(v), b = sums_of_4(v + 4);
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* gcc's gather is a macro at -O0, with a conversion of its own. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* Four bytes at P of each row; into zeros, so as not to wait for what was in the register. */
ALWAYS __m512i words_16(const uint8_t *p, __m512i at)
{
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, at, p, 1);
}

#pragma GCC diagnostic pop

/* The lower halves of lanes. */
ALWAYS __m512 halves_16(__m512i x)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
}

ALWAYS __m512 upper_halves_16(__m512i x)
{
    return halves_16(_mm512_srli_epi32(x, 16));
}

/* half_e8m0() of the lowest bytes. */
ALWAYS __m512 e8m0_16(__m512i x)
{
    const __m512i one = _mm512_set1_epi32(1);
    __m512i e = _mm512_and_si512(x, _mm512_set1_epi32(255));
    __m512i large = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(large, _mm512_cmple_epu32_mask(e, one), small));
}

/* half_e4m3() of the lowest bytes. */
ALWAYS __m512 e4m3_16(__m512i x)
{
    x = _mm512_and_si512(x, _mm512_set1_epi32(255));
    __m512i c = _mm512_and_si512(x, _mm512_set1_epi32(127));
    __m512i large = _mm512_add_epi32(_mm512_slli_epi32(c, 20), _mm512_set1_epi32(119 << 23));
    __m512 small = _mm512_mul_ps(_mm512_cvtepi32_ps(c), _mm512_set1_ps(0x1p-10f));
    __mmask16 tiny = _mm512_cmplt_epu32_mask(c, _mm512_set1_epi32(8));
    __mmask16 there = _mm512_cmpneq_epu32_mask(x, _mm512_set1_epi32(127));
    return _mm512_maskz_mov_ps(there, _mm512_mask_mov_ps(_mm512_castsi512_ps(large), tiny, small));
}

/* ---- blocks of 32 ---- */

/* Bits of the words of four rows as 16 where set: their first sixteen, or with UPPER the others. */
ALWAYS __m512i fifth_bits_512(__m512i codes, __m512i words, int i, int upper)
{
    const __m512i bit = _mm512_set1_epi64((long long)0x8040201008040201u);
    const int64_t first = 0x0101010101010101 * (4 * i + 2 * upper);
    const __m512i spread =
        _mm512_broadcast_i32x4(_mm_set_epi64x(first + 0x0101010101010101, first));
    __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(words, spread), bit);
    return _mm512_mask_add_epi8(codes, set, codes, bytes_512(16));
}

/* Products with blocks of sixteen bytes of nibbles at P. With table, they index codes; with BITS, a
 * fifth bit is in each row's word. */
ALWAYS void nibble_dots_16(const uint8_t *p, size_t stride, __m512i first, __m512i second,
                           const int8_t *table, const __m512i *bits, __m512i v[4])
{
    const __m512i low = bytes_512(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i x = load_four_rows(p + (size_t)i * stride, stride);
        __m512i a = _mm512_and_si512(x, low);
        __m512i b = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
        if (table != NULL) {
            const __m512i codes = _mm512_broadcast_i32x4(load16(table));
            a = _mm512_shuffle_epi8(codes, a);
            b = _mm512_shuffle_epi8(codes, b);
        }
        if (bits != NULL) {
            a = fifth_bits_512(a, *bits, i, 0);
            b = fifth_bits_512(b, *bits, i, 1);
        }
        v[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), a, first);
        v[i] = keep_order_512(_mm512_dpbusd_epi32(v[i], b, second));
    }
}

ALWAYS __m512i byte_dots_16(const uint8_t *p, size_t stride, const int8_t *q)
{
    const __m512i x = _mm512_broadcast_i64x4(load32(q));
    __m512i v[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *a = p + first_of_pair(i) * stride;
        __m512i c = _mm512_xor_si512(two_rows(a, a + 4 * stride), bytes_512(0x80));
        v[i] = keep_order_512(_mm512_dpbusd_epi32(_mm512_setzero_si512(), c, x));
    }
    return sums_of_pairs(v);
}

/* Sums of code * q of one block of 32; WORDS are the rows' first four bytes. */
ALWAYS __m512i small_dots_16(const struct rows_16 *r, const uint8_t *p, const int8_t *q,
                             unsigned type)
{
    if (type == HKK_Q8_0)
        return byte_dots_16(p + 2, r->stride, q);
    const __m512i first = _mm512_broadcast_i32x4(load16(q));
    const __m512i second = _mm512_broadcast_i32x4(load16(q + 16));
    const int8_t *table = type == HKK_IQ4_NL  ? (const int8_t *)iq4_nl_codes
                          : type == HKK_MXFP4 ? e2m1_codes
                                              : NULL;
    const bool fifth = type == HKK_Q5_0 || type == HKK_Q5_1;
    size_t head = type == HKK_MXFP4 ? 1 : type == HKK_Q4_1 || type == HKK_Q5_1 ? 4 : 2;
    __m512i v[4], bits;
    if (fifth)
        bits = words_16(p + head, r->at);
    nibble_dots_16(p + head + (fifth ? 4 : 0), r->stride, first, second, table,
                   fifth ? &bits : NULL, v);
    return sums_of_4(v);
}

ALWAYS int small_offset(unsigned type)
{
    return type == HKK_Q4_0                         ? 8
           : type == HKK_Q5_0                       ? 16
           : type == HKK_MXFP4                      ? 12
           : type == HKK_Q8_0 || type == HKK_IQ4_NL ? 128
                                                    : 0;
}

ALWAYS __m512 few_small_16(const struct rows_16 *r, const struct hkk_acts *a, size_t t,
                           unsigned type, size_t size)
{
    const uint8_t *p = r->p, *next = r->p + 16 * r->stride;
    const int8_t *q = a->q + t * a->cols;
    const float *dx = a->d + t * a->blocks;
    const int16_t *sum = a->sum + t * a->sums;
    const bool far = r->stride >= FAR_ROW;
    const int offset = small_offset(type);
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++, p += size, next += 16 * size, q += 32) {
        fetch(next, 16 * size, far);
        __m512i dot = small_dots_16(r, p, q, type), word = words_16(p, r->at);
        if (offset != 0)
            dot = _mm512_sub_epi32(dot, _mm512_set1_epi32(offset * sum[b]));
        __m512 x = _mm512_set1_ps(dx[b]);
        __m512 d = _mm512_mul_ps(type == HKK_MXFP4 ? e8m0_16(word) : halves_16(word), x);
        acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot), acc);
        if (type == HKK_Q4_1 || type == HKK_Q5_1) {
            __m512 m = _mm512_mul_ps(upper_halves_16(word), x);
            acc = _mm512_fmadd_ps(m, _mm512_set1_ps((float)sum[b]), acc);
        }
    }
    return acc;
}

/* Half a block of nvfp4, from its 16 bytes at P: sums of its groups of 16, from each of which eight
 * bytes have low and high nibbles. */
ALWAYS void nvfp4_dots_16(const uint8_t *p, size_t stride, const int8_t *q, __m512i dot[2])
{
    const __m128i a = load16(q), b = load16(q + 16);
    const __m512i first = _mm512_broadcast_i32x4(_mm_unpacklo_epi64(a, b));
    const __m512i second = _mm512_broadcast_i32x4(_mm_unpackhi_epi64(a, b));
    const __m512i zero = _mm512_setzero_si512(), twelve = bytes_512(12);
    __m512i v[4], more = _mm512_dpbusd_epi32(zero, twelve, first);
    more = _mm512_dpbusd_epi32(more, twelve, second);
    nibble_dots_16(p, stride, first, second, e2m1_codes, NULL, v);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_sub_epi32(v[i], more);
    transpose_4(v);
    dot[0] = _mm512_add_epi32(v[0], v[1]);
    dot[1] = _mm512_add_epi32(v[2], v[3]);
}

ALWAYS __m512 few_nvfp4_16(const struct rows_16 *r, const struct hkk_acts *a, size_t t)
{
    const size_t size = sizeof(struct hk_nvfp4);
    const uint8_t *p = r->p, *next = r->p + 16 * r->stride;
    const int8_t *q = a->q + t * a->cols;
    const float *dx = a->d + t * a->blocks;
    const bool far = r->stride >= FAR_ROW;
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < a->blocks; b += 2, p += size, next += 16 * size, q += 64) {
        fetch(next, 16 * size, far);
        __m512i word = words_16(p, r->at), dot[4];
        nvfp4_dots_16(p + 4, r->stride, q, dot);
        nvfp4_dots_16(p + 20, r->stride, q + 32, dot + 2);
#pragma GCC unroll 4
        for (size_t g = 0; g < 4; g++, word = _mm512_srli_epi32(word, 8)) {
            __m512 d = _mm512_mul_ps(e4m3_16(word), _mm512_set1_ps(dx[b + g / 2]));
            acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot[g]), acc);
        }
    }
    return acc;
}

#endif
