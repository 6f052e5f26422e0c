/* Products of bytes and of 16 bits by VNNI, which adds them up in 32 bits: its forms of AVX-VNNI
 * and of AVX-512 differ in their encoding alone. */
#ifndef HKK_X86_DOT_VNNI_H
#define HKK_X86_DOT_VNNI_H

#include <immintrin.h>

#include "kernels/tmpl/level.h"

enum { WIDE_SUMS = 1 };

#ifdef __AVXVNNI__
#define VNNI(name) _mm256_##name##_avx_epi32
#else
#define VNNI(name) _mm256_##name##_epi32
#endif

static inline __m256i dot_4(__m256i acc, __m256i c, __m256i q)
{
    return VNNI(dpbusd)(acc, c, q);
}

static inline __m256i dot_2(__m256i acc, __m256i a, __m256i b)
{
    return VNNI(dpwssd)(acc, a, b);
}

#undef VNNI

#endif
