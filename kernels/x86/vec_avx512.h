/* Sixteen f32 lanes as one AVX-512 register: the operations of kernels/generic/vec.h, which says
 * what they do. */
#ifndef HKK_X86_VEC_AVX512_H
#define HKK_X86_VEC_AVX512_H

#include <math.h>
#include <stddef.h>

#include "kernels/bits.h"
#include "kernels/tmpl/level.h"
#include "kernels/x86/eight.h"

typedef __m512 vec;

#define ATTEND_WIDE 4

static inline vec v_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

/* The lanes below N, which is at most 16. */
static inline __mmask16 lanes_below_512(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vec v_load_some(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(lanes_below_512(n), p);
}

static inline void v_store_some(float *p, vec v, size_t n)
{
    _mm512_mask_storeu_ps(p, lanes_below_512(n), v);
}

static inline vec v_load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline vec v_load_half_some(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below_512(n), p));
}

/* Sixteen bf16 in the file's byte order, which is the host's. */
static inline vec v_load_bf16(const uint8_t *p)
{
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

static inline void v_store_half(uint16_t *p, vec v)
{
    _mm256_storeu_si256((void *)p, _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vec v_even(vec a)
{
    return _mm512_moveldup_ps(a);
}

static inline vec v_odd(vec a)
{
    return _mm512_movehdup_ps(a);
}

static inline vec v_turn(vec a)
{
    const __m512i sign = _mm512_set1_epi64(0x80000000);
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(_mm512_permute_ps(a, 0xb1)), sign));
}

static inline vec v_add(vec x, vec y)
{
    return _mm512_add_ps(x, y);
}

static inline vec v_sub(vec x, vec y)
{
    return _mm512_sub_ps(x, y);
}

static inline vec v_mul(vec x, vec y)
{
    return _mm512_mul_ps(x, y);
}

static inline vec v_div(vec x, vec y)
{
    return _mm512_div_ps(x, y);
}

/* The instruction gives its second operand where one is NaN, or both are zeros. */
static inline vec v_max(vec x, vec y)
{
    return _mm512_max_ps(x, y);
}

static inline vec v_fma(vec x, vec y, vec z)
{
    return _mm512_fmadd_ps(x, y, z);
}

static inline vec v_below(vec x, vec y, vec p, vec q)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), q, p);
}

static inline vec v_power(vec biased)
{
    __m512i n = _mm512_add_epi32(_mm512_castps_si512(biased), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
}

static inline vec v_first(vec x, vec y, size_t n)
{
    return n >= 16 ? x : _mm512_mask_blend_ps(lanes_below_512(n), y, x);
}

static inline float v_sum(vec v)
{
    return sum_of_8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

static inline float v_reduce_max(vec v)
{
    return top_of_8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

static inline uint32_t v_magnitude(vec v, uint32_t top)
{
    __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
    uint32_t most = _mm512_reduce_max_epu32(magnitude);
    return most > top ? most : top;
}

static inline int v_store_q(int8_t *q, vec v)
{
    __m512i x = _mm512_cvtps_epi32(v);
    _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(x));
    return _mm512_reduce_add_epi32(x);
}

#endif
