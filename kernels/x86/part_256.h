/* Sixteen lanes of float weights, a register after the other: lanes never meet before the tree, so
 * that each half of them is multiplied by itself, and twice as many rows and tokens fit. */
#ifndef HKK_X86_PART_256_H
#define HKK_X86_PART_256_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few.h"
#include "kernels/x86/vec_avx2.h"

enum {
    PARTS = 2,
    PART = 16 / PARTS,
    /* Rows and tokens whose accumulators stay in registers. */
    PART_ROWS = 4,
    PART_TOKENS = 3,
    /* Rows that meet few tokens where they lie, and from how many tokens on there are panels. */
    STREAM_ROWS = 2,
    PANELS_FROM = 13,
    /* Sixteens of columns, of which some tokens stay in the first cache, and rows that meet them
     * there. */
    FLOAT_STEPS = 32,
    FLOAT_BLOCK = 6,
    FLOAT_PANEL = 32,
    FLOAT_BYTES = 384 << 10, /* of a panel, which stays in the second cache */
};

typedef __m256 part;

ALWAYS part part_zero(void)
{
    return _mm256_setzero_ps();
}

ALWAYS part part_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

ALWAYS void part_store(float *p, part x)
{
    _mm256_storeu_ps(p, x);
}

/* x * y + z, rounded once. */
ALWAYS part part_fma(part x, part y, part z)
{
    return _mm256_fmadd_ps(x, y, z);
}

/* The parts of V to P, P + APART, ... */
ALWAYS void part_store_rows(float *p, vec v, size_t apart)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + apart, v.b);
}

/* Lanes 8 and 4 apart of two rows. */
ALWAYS __m256 tree_of_16_256(const float *a, const float *b)
{
    __m256 x = _mm256_add_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(a + 8));
    __m256 y = _mm256_add_ps(_mm256_loadu_ps(b), _mm256_loadu_ps(b + 8));
    return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}

/* Of eight rows. */
ALWAYS __m256 trees_of_8(const float *acc, size_t apart)
{
    __m256 v[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        v[i] = tree_of_16_256(acc + 16 * i, acc + apart + 16 * i);
    __m256 x =
        _mm256_add_ps(_mm256_shuffle_ps(v[0], v[1], 0x44), _mm256_shuffle_ps(v[0], v[1], 0xee));
    __m256 y =
        _mm256_add_ps(_mm256_shuffle_ps(v[2], v[3], 0x44), _mm256_shuffle_ps(v[2], v[3], 0xee));
    return _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd));
}

/* The trees of 16 rows' lanes, [row][16], four rows each APART from the four before. */
ALWAYS vec part_trees(const float *acc, size_t apart)
{
    return (vec){trees_of_8(acc, apart), trees_of_8(acc + 2 * apart, apart)};
}

#endif
