/* What sums of sixteen lanes come down to, once lanes 8 apart have met. */
#ifndef HKK_X86_EIGHT_H
#define HKK_X86_EIGHT_H

#include <immintrin.h>
#include <stdint.h>

static inline float sum_of_8(__m256 eight)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float top_of_8(__m256 eight)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif
