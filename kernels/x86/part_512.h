/* Sixteen lanes of float weights in one register: part_256.h says what the operations are. */
#ifndef HKK_X86_PART_512_H
#define HKK_X86_PART_512_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few.h"
#include "kernels/x86/vec_avx512.h"

enum {
    PARTS = 1,
    PART = 16 / PARTS,
    PART_ROWS = 4,
    PART_TOKENS = 6,
    STREAM_ROWS = 4,
    PANELS_FROM = 49,
    FLOAT_STEPS = 32,
    FLOAT_BLOCK = 12,
    FLOAT_PANEL = 128,
    FLOAT_BYTES = 1 << 20,
};

typedef __m512 part;

ALWAYS part part_zero(void)
{
    return _mm512_setzero_ps();
}

ALWAYS part part_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

ALWAYS void part_store(float *p, part x)
{
    _mm512_storeu_ps(p, x);
}

ALWAYS part part_fma(part x, part y, part z)
{
    return _mm512_fmadd_ps(x, y, z);
}

ALWAYS void part_store_rows(float *p, vec v, size_t apart)
{
    (void)apart;
    v_store(p, v);
}

/* Four sums of 4 each, from 4 lanes of as many rows each. */
ALWAYS __m512 tree_of_4(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 x = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    __m512 y = _mm512_add_ps(_mm512_shuffle_ps(c, d, 0x44), _mm512_shuffle_ps(c, d, 0xee));
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xdd));
}

/* Lanes 8 apart of two rows. */
ALWAYS __m512 tree_of_16_512(const float *a, const float *b)
{
    __m512 low =
        _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(a)), _mm256_loadu_ps(b), 1);
    __m512 high = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(a + 8)),
                                     _mm256_loadu_ps(b + 8), 1);
    return _mm512_add_ps(low, high);
}

ALWAYS vec part_trees(const float *acc, size_t apart)
{
    __m512 v[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        __m512 a = tree_of_16_512(acc + 16 * i, acc + apart + 16 * i);
        __m512 b = tree_of_16_512(acc + 2 * apart + 16 * i, acc + 3 * apart + 16 * i);
        v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    return tree_of_4(v[0], v[1], v[2], v[3]);
}

#endif
