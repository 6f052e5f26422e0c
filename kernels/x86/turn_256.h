/* Rows of packed blocks in the lanes of one register, eight of them. */
#ifndef HKK_X86_TURN_256_H
#define HKK_X86_TURN_256_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few.h"

enum { LANES = 8 };

typedef __m256i lanes;
typedef __m256 reals;

ALWAYS __m256i load_rows_4_apart(const uint8_t *p, size_t stride)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p)), load16(p + 4 * stride), 1);
}

/* Sixteen bytes at P of all rows: lane r of v[k] has the k-th four of row r. */
ALWAYS void turn_16_bytes(const uint8_t *p, size_t stride, lanes v[4])
{
    const lanes x = load_rows_4_apart(p, stride), y = load_rows_4_apart(p + stride, stride);
    const lanes z = load_rows_4_apart(p + 2 * stride, stride),
                w = load_rows_4_apart(p + 3 * stride, stride);
    lanes a = _mm256_unpacklo_epi32(x, y), b = _mm256_unpackhi_epi32(x, y);
    lanes c = _mm256_unpacklo_epi32(z, w), d = _mm256_unpackhi_epi32(z, w);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
}

/* Four bytes at P of all rows. */
ALWAYS lanes l_words(const uint8_t *p, size_t stride)
{
    size_t at[LANES];
    row_offsets(at, LANES, stride);
    return words_of_8(p, at);
}

ALWAYS lanes l_bytes(int x)
{
    return _mm256_set1_epi8((char)x);
}

ALWAYS lanes l_dwords(uint32_t x)
{
    return _mm256_set1_epi32((int)x);
}

/* Sixteen bytes at P, for l_look_up() of bytes; an index above 127 gives 0. */
ALWAYS lanes l_table(const void *p)
{
    return _mm256_broadcastsi128_si256(load16(p));
}

/* Within sixteens of bytes. */
ALWAYS lanes l_look_up(lanes table, lanes index)
{
    return _mm256_shuffle_epi8(table, index);
}

ALWAYS lanes l_and(lanes x, lanes y)
{
    return _mm256_and_si256(x, y);
}

/* X's bits of MASK, Y's others. */
ALWAYS lanes l_pick(lanes mask, lanes x, lanes y)
{
    return _mm256_or_si256(_mm256_and_si256(mask, x), _mm256_andnot_si256(mask, y));
}

/* CODES + 16 in the bytes where X has BIT. */
ALWAYS lanes l_sixteen_where(lanes codes, lanes x, lanes bit)
{
    lanes is = _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
    return _mm256_or_si256(codes, _mm256_and_si256(is, _mm256_set1_epi8(16)));
}

/* Of bytes. */
ALWAYS lanes l_minus(lanes x, lanes y)
{
    return _mm256_sub_epi8(x, y);
}

/* Shifts of 16 bits. */
ALWAYS lanes l_left(lanes x, unsigned n)
{
    return _mm256_slli_epi16(x, (int)n);
}

ALWAYS lanes l_right(lanes x, unsigned n)
{
    return _mm256_srli_epi16(x, (int)n);
}

ALWAYS lanes l_right_signed(lanes x, unsigned n)
{
    return _mm256_srai_epi16(x, (int)n);
}

ALWAYS lanes l_right_32(lanes x, unsigned n)
{
    return _mm256_srli_epi32(x, (int)n);
}

ALWAYS lanes l_left_32(lanes x, unsigned n)
{
    return _mm256_slli_epi32(x, (int)n);
}

ALWAYS lanes l_right_32_signed(lanes x, unsigned n)
{
    return _mm256_srai_epi32(x, (int)n);
}

/* Of words. */
ALWAYS lanes l_times(lanes x, lanes y)
{
    return _mm256_mullo_epi16(x, y);
}

/* Of bytes. */
ALWAYS lanes l_plus(lanes x, lanes y)
{
    return _mm256_add_epi8(x, y);
}

/* 1 in the bytes above N, else 0. */
ALWAYS lanes l_above(lanes x, int n)
{
    return _mm256_min_epu8(_mm256_subs_epu8(x, l_bytes(n)), l_bytes(1));
}

/* Four bytes at P + AT of each lane, by loads, which take less time than a gather on Zen 3. */
ALWAYS lanes l_gather(const uint8_t *p, lanes at)
{
    uint32_t i[LANES];
    _mm256_storeu_si256((void *)i, at);
    return _mm256_setr_epi32((int)load_le32(p + i[0]), (int)load_le32(p + i[1]),
                             (int)load_le32(p + i[2]), (int)load_le32(p + i[3]),
                             (int)load_le32(p + i[4]), (int)load_le32(p + i[5]),
                             (int)load_le32(p + i[6]), (int)load_le32(p + i[7]));
}

/* Of bytes: X + Y, or X - Y where BITS have BIT. */
ALWAYS lanes l_plus_or_minus(lanes x, lanes y, lanes bits, lanes bit)
{
    lanes is = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
    return _mm256_add_epi8(x, _mm256_sub_epi8(_mm256_xor_si256(y, is), is));
}

ALWAYS void l_store(void *p, lanes x)
{
    _mm256_store_si256(p, x);
}

/* The halves in the lower words. */
ALWAYS reals l_half(lanes x)
{
    x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    x = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(x));
}

/* half_e8m0() of the lowest bytes. */
ALWAYS reals l_e8m0(lanes x)
{
    return e8m0_8(_mm256_and_si256(x, _mm256_set1_epi32(255)));
}

/* half_e4m3() of them. */
ALWAYS reals l_e4m3(lanes x)
{
    return e4m3_8(x);
}

ALWAYS void r_store(float *p, reals x)
{
    _mm256_store_ps(p, x);
}

ALWAYS reals r_negative(reals x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

ALWAYS reals r_times(reals x, float y)
{
    return _mm256_mul_ps(x, _mm256_set1_ps(y));
}

#endif
