/* Rows of packed blocks in the lanes of one register, sixteen of them: turn_256.h says what the
 * operations are. */
#ifndef HKK_X86_TURN_512_H
#define HKK_X86_TURN_512_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few_512.h"

enum { LANES = 16 };

typedef __m512i lanes;
typedef __m512 reals;

ALWAYS void turn_16_bytes(const uint8_t *p, size_t stride, lanes v[4])
{
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        v[i] = load_four_rows(p + i * stride, stride);
    transpose_4(v);
}

ALWAYS lanes l_words(const uint8_t *p, size_t stride)
{
    return words_16(p, offsets_16(stride));
}

ALWAYS lanes l_bytes(int x)
{
    return bytes_512(x);
}

ALWAYS lanes l_dwords(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

ALWAYS lanes l_table(const void *p)
{
    return _mm512_broadcast_i32x4(load16(p));
}

ALWAYS lanes l_look_up(lanes table, lanes index)
{
    return _mm512_shuffle_epi8(table, index);
}

ALWAYS lanes l_and(lanes x, lanes y)
{
    return _mm512_and_si512(x, y);
}

ALWAYS lanes l_pick(lanes mask, lanes x, lanes y)
{
    return _mm512_ternarylogic_epi32(mask, x, y, 0xca);
}

ALWAYS lanes l_sixteen_where(lanes codes, lanes x, lanes bit)
{
    return _mm512_mask_add_epi8(codes, _mm512_test_epi8_mask(x, bit), codes, bytes_512(16));
}

ALWAYS lanes l_minus(lanes x, lanes y)
{
    return _mm512_sub_epi8(x, y);
}

/* Compilers take the numbers of bits with a sign or without. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

ALWAYS lanes l_left(lanes x, unsigned n)
{
    return _mm512_slli_epi16(x, n);
}

ALWAYS lanes l_right(lanes x, unsigned n)
{
    return _mm512_srli_epi16(x, n);
}

ALWAYS lanes l_right_signed(lanes x, unsigned n)
{
    return _mm512_srai_epi16(x, n);
}

ALWAYS lanes l_right_32(lanes x, unsigned n)
{
    return _mm512_srli_epi32(x, n);
}

ALWAYS lanes l_left_32(lanes x, unsigned n)
{
    return _mm512_slli_epi32(x, n);
}

ALWAYS lanes l_right_32_signed(lanes x, unsigned n)
{
    return _mm512_srai_epi32(x, n);
}

#pragma GCC diagnostic pop

ALWAYS lanes l_times(lanes x, lanes y)
{
    return _mm512_mullo_epi16(x, y);
}

ALWAYS lanes l_plus(lanes x, lanes y)
{
    return _mm512_add_epi8(x, y);
}

ALWAYS lanes l_above(lanes x, int n)
{
    return _mm512_min_epu8(_mm512_subs_epu8(x, l_bytes(n)), l_bytes(1));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

ALWAYS lanes l_gather(const uint8_t *p, lanes at)
{
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, at, p, 1);
}

#pragma GCC diagnostic pop

ALWAYS lanes l_plus_or_minus(lanes x, lanes y, lanes bits, lanes bit)
{
    return _mm512_mask_sub_epi8(_mm512_add_epi8(x, y), _mm512_test_epi8_mask(bits, bit), x, y);
}

ALWAYS void l_store(void *p, lanes x)
{
    _mm512_store_si512(p, x);
}

ALWAYS reals l_half(lanes x)
{
    return halves_16(x);
}

ALWAYS reals l_e8m0(lanes x)
{
    return e8m0_16(x);
}

ALWAYS reals l_e4m3(lanes x)
{
    return e4m3_16(x);
}

ALWAYS void r_store(float *p, reals x)
{
    _mm512_store_ps(p, x);
}

ALWAYS reals r_negative(reals x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

ALWAYS reals r_times(reals x, float y)
{
    return _mm512_mul_ps(x, _mm512_set1_ps(y));
}

#endif
