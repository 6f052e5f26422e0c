/* Sixteen 32-bit lanes as two registers of 256 bits: the rows of a tile. */
#ifndef HKK_X86_INTS_256_H
#define HKK_X86_INTS_256_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few.h"

/* Sixteens of rows of a tile and the tokens that they meet at once: what the registers hold. */
enum { REGS = 1, TOKENS = 4 };

typedef struct {
    __m256i a, b; /* lanes 0..7, 8..15 */
} ints;

ALWAYS ints i_set(int32_t x)
{
    return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}

ALWAYS ints i_load(const void *p)
{
    return (ints){load32(p), load32((const char *)p + 32)};
}

/* Two products of 16 bits added to each lane. */
ALWAYS ints i_dot_2(ints acc, ints x, ints y)
{
    return (ints){dot_2(acc.a, x.a, y.a), dot_2(acc.b, x.b, y.b)};
}

/* Products of codes C and activations Q added to SUM: two to each 16 bits, or with WIDE_SUMS four
 * to each lane. */
ALWAYS ints i_step(ints sum, ints c, ints q)
{
    if (WIDE_SUMS)
        return (ints){dot_4(sum.a, c.a, q.a), dot_4(sum.b, c.b, q.b)};
    return (ints){keep_order(_mm256_add_epi16(sum.a, _mm256_maddubs_epi16(c.a, q.a))),
                  keep_order(_mm256_add_epi16(sum.b, _mm256_maddubs_epi16(c.b, q.b)))};
}

/* ACC + SCALE * SUM, of steps; SCALE's halves are pairs of equal numbers, or lanes for WIDE_SUMS.
 */
ALWAYS ints i_scaled(ints acc, ints sum, ints scale)
{
    if (!WIDE_SUMS)
        return i_dot_2(acc, sum, scale);
    return (ints){_mm256_add_epi32(acc.a, _mm256_mullo_epi32(sum.a, scale.a)),
                  _mm256_add_epi32(acc.b, _mm256_mullo_epi32(sum.b, scale.b))};
}

ALWAYS vec i_float(ints x)
{
    return (vec){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

#endif
