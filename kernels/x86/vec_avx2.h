/* Sixteen f32 lanes as two AVX registers: the operations of kernels/generic/vec.h, which says what
 * they do. */
#ifndef HKK_X86_VEC_AVX2_H
#define HKK_X86_VEC_AVX2_H

#include <math.h>
#include <stddef.h>

#include "kernels/bits.h"
#include "kernels/tmpl/level.h"
#include "kernels/x86/eight.h"

typedef struct {
    __m256 a, b; /* lanes 0..7, 8..15 */
} vec;

static inline vec v_set(float x)
{
    return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline vec v_load(const float *p)
{
    return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void v_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}

/* Ones in the lanes below N, of the eight from FIRST on. */
static inline __m256i lanes_below_256(size_t n, int first)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - first), index);
}

static inline vec v_load_some(const float *p, size_t n)
{
    if (n == 0)
        return v_set(0);
    return (vec){_mm256_maskload_ps(p, lanes_below_256(n, 0)),
                 _mm256_maskload_ps(p + (n > 8 ? 8 : 0), lanes_below_256(n, 8))};
}

static inline void v_store_some(float *p, vec v, size_t n)
{
    if (n == 0)
        return;
    _mm256_maskstore_ps(p, lanes_below_256(n, 0), v.a);
    if (n > 8)
        _mm256_maskstore_ps(p + 8, lanes_below_256(n, 8), v.b);
}

static inline __m256 eight_halves(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline vec v_load_half(const uint16_t *p)
{
    return (vec){eight_halves(p), eight_halves(p + 8)};
}

static inline vec v_load_half_some(const uint16_t *p, size_t n)
{
    if (n == 16)
        return v_load_half(p);
    uint16_t some[16] = {0};
    memcpy(some, p, n * sizeof *p);
    return v_load_half(some);
}

static inline __m256 eight_bf16(const uint8_t *p)
{
    __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

/* Sixteen bf16 in the file's byte order, which is the host's. */
static inline vec v_load_bf16(const uint8_t *p)
{
    return (vec){eight_bf16(p), eight_bf16(p + 16)};
}

static inline void v_store_half(uint16_t *p, vec v)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}

static inline vec v_even(vec v)
{
    return (vec){_mm256_moveldup_ps(v.a), _mm256_moveldup_ps(v.b)};
}

static inline vec v_odd(vec v)
{
    return (vec){_mm256_movehdup_ps(v.a), _mm256_movehdup_ps(v.b)};
}

static inline vec v_turn(vec v)
{
    const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000));
    return (vec){_mm256_xor_ps(_mm256_permute_ps(v.a, 0xb1), sign),
                 _mm256_xor_ps(_mm256_permute_ps(v.b, 0xb1), sign)};
}

static inline vec v_add(vec x, vec y)
{
    return (vec){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

static inline vec v_sub(vec x, vec y)
{
    return (vec){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline vec v_mul(vec x, vec y)
{
    return (vec){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline vec v_div(vec x, vec y)
{
    return (vec){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

/* The instruction gives its second operand where one is NaN, or both are zeros. */
static inline vec v_max(vec x, vec y)
{
    return (vec){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

static inline vec v_fma(vec x, vec y, vec z)
{
    return (vec){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

static inline vec v_below(vec x, vec y, vec p, vec q)
{
    return (vec){_mm256_blendv_ps(q.a, p.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                 _mm256_blendv_ps(q.b, p.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}

static inline __m256 eight_powers(__m256 biased)
{
    __m256i n = _mm256_add_epi32(_mm256_castps_si256(biased), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}

static inline vec v_power(vec biased)
{
    return (vec){eight_powers(biased.a), eight_powers(biased.b)};
}

static inline vec v_first(vec x, vec y, size_t n)
{
    if (n >= 16)
        return x;
    return (vec){_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(lanes_below_256(n, 0))),
                 _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(lanes_below_256(n, 8)))};
}

static inline float v_sum(vec v)
{
    return sum_of_8(_mm256_add_ps(v.a, v.b));
}

static inline float v_reduce_max(vec v)
{
    return top_of_8(_mm256_max_ps(v.a, v.b));
}

static inline uint32_t v_magnitude(vec v, uint32_t top)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i a = _mm256_and_si256(_mm256_castps_si256(v.a), magnitude);
    __m256i b = _mm256_and_si256(_mm256_castps_si256(v.b), magnitude);
    __m256i eight = _mm256_max_epu32(a, b);
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    uint32_t most = (uint32_t)_mm_cvtsi128_si32(four);
    return most > top ? most : top;
}

static inline int v_store_q(int8_t *q, vec v)
{
    __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    pairs = _mm256_permute4x64_epi64(pairs, 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128((void *)q, bytes);
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtsi128_si32(four);
}

#endif
