/* Products of bytes that are added up in 16 bits, where they have to fit. */
#ifndef HKK_X86_DOT_AVX2_H
#define HKK_X86_DOT_AVX2_H

#include <immintrin.h>

#include "kernels/tmpl/level.h"

/* Sums of four products are made of sums of two in 16 bits. */
enum { WIDE_SUMS = 0 };

/* Four products of unsigned C and signed Q added to each lane of ACC. */
static inline __m256i dot_4(__m256i acc, __m256i c, __m256i q)
{
    __m256i two = _mm256_maddubs_epi16(c, q);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
}

/* Two products of 16 bits. */
static inline __m256i dot_2(__m256i acc, __m256i a, __m256i b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}

#endif
