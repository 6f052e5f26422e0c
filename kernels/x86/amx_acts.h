/* Activations as tiles meet them: sixteen tokens by 64 columns in one piece, since rows that lie
 * far apart would share a few sets of the cache; scales of sixteen tokens side by side. Tokens and
 * columns that do not come out even are filled up with zeros. */
#ifndef HKK_X86_AMX_ACTS_H
#define HKK_X86_AMX_ACTS_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/x86/amx_tiles.h"

struct tokens {
    const struct hkk_acts *a;
    size_t tiles;    /* an even number */
    size_t pieces;   /* of 64 columns, padded */
    int8_t *q;       /* [tile][piece][token][column] */
    size_t blocks;   /* padded */
    float *d;        /* [tile][block][token] */
    float *sum;      /* likewise, sums of blocks of 32, or: */
    uint32_t *split; /* [tile][block of 256][token][group of 16]: sums as two bf16 */
};

ALWAYS size_t up_to(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The most bytes that tokens_place() takes. */
static inline size_t tokens_bytes(size_t cols, size_t n)
{
    size_t all = up_to(n, 32), whole = up_to(cols, 256);
    return whole / 256 * all * (256 + 64 + sizeof(float));
}

/* Tile T from COLUMN on, a multiple of 32; rows are 64 bytes apart. */
ALWAYS const int8_t *tile_tokens(const struct tokens *s, size_t t, size_t column)
{
    return s->q + (t * s->pieces + column / 64) * 1024 + column % 64;
}

static inline void place_numbers(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    if (a->n % 32 != 0)
        memset(s->q + (s->tiles - 2) * s->pieces * 1024, 0, 2 * s->pieces * 1024);
    for (size_t t = 0; t < a->n; t++) {
        const int8_t *from = a->q + t * a->cols;
        int8_t *to = s->q + t / 16 * s->pieces * 1024 + t % 16 * 64;
        for (size_t k = 0; k < s->pieces; k++) {
            size_t left = 64 * k < a->cols ? a->cols - 64 * k : 0;
            __mmask64 mask = left < 64 ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);
            _mm512_store_si512(to + 1024 * k, _mm512_maskz_loadu_epi8(mask, from + 64 * k));
        }
    }
}

/* Sixteen rows of numbers to columns, those that belong to no block left out: OUT[block][token]. */
ALWAYS void put_turned(const struct tokens *s, float *out, __m512i v[16], size_t t, size_t b)
{
    turn_16(v);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        if (b + i < s->blocks)
            _mm512_store_si512(out + (t * s->blocks + b + i) * 16, v[i]);
}

/* Which of sixteen blocks from B on exist. */
ALWAYS __mmask16 blocks_from(const struct tokens *s, size_t b)
{
    size_t left = s->a->blocks - b;
    return (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
}

/* Tokens that do not exist have zeros. */
static inline void place_scales(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    for (size_t t = 0; t < s->tiles; t++)
        for (size_t b = 0; b < a->blocks; b += 16) {
            __m512i v[16];
#pragma GCC unroll 16
            for (size_t i = 0; i < 16; i++)
                v[i] = 16 * t + i < a->n
                           ? _mm512_maskz_loadu_epi32(blocks_from(s, b),
                                                      a->d + (16 * t + i) * a->blocks + b)
                           : _mm512_setzero_si512();
            put_turned(s, s->d, v, t, b);
        }
}

/* Sums of 32 as numbers. */
static inline void place_sums(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    for (size_t t = 0; t < s->tiles; t++)
        for (size_t b = 0; b < a->blocks; b += 16) {
            __m512i v[16];
#pragma GCC unroll 16
            for (size_t i = 0; i < 16; i++) {
                __m256i x = _mm256_setzero_si256();
                if (16 * t + i < a->n)
                    x = _mm256_maskz_loadu_epi16(blocks_from(s, b),
                                                 a->sum + (16 * t + i) * a->sums + b);
                v[i] = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(x)));
            }
            put_turned(s, s->sum, v, t, b);
        }
}

/* Sums of 16 are below 2^11 in magnitude: a multiple of 64 and the rest, both exact in bf16, so
 * that their products with minimums of 6 bits, all below 2^24 together, are exact however they are
 * added.
 */
static inline void place_split(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    const __m512i half = _mm512_set1_epi32(32), top = _mm512_set1_epi32(~0xffff);
    memset(s->split, 0, s->tiles * s->blocks * 16 * 64);
    for (size_t t = 0; t < a->n; t++)
        for (size_t b = 0; b < a->blocks; b++) {
            uint32_t *out = s->split + ((t / 16 * s->blocks + b) * 16 + t % 16) * 16;
            const int16_t *sum = a->sum + t * a->sums + 16 * b;
            __m512i x = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)sum));
            __m512i high = _mm512_and_si512(_mm512_add_epi32(x, half), _mm512_set1_epi32(~63));
            __m512i low = _mm512_sub_epi32(x, high);
            high = _mm512_castps_si512(_mm512_cvtepi32_ps(high));
            low = _mm512_castps_si512(_mm512_cvtepi32_ps(low));
            high = _mm512_srli_epi32(high, 16);
            _mm512_store_si512(out, _mm512_or_si512(high, _mm512_and_si512(low, top)));
        }
}

/* Lay S out in MEMORY and fill it; gives the first byte behind. SPAN blocks and COLUMNS are a
 * chunk; SUMS and SPLIT say which are wanted. */
static inline char *tokens_place(struct tokens *s, const struct hkk_acts *a, size_t span,
                                 size_t columns, bool sums, bool split, char *memory)
{
    *s = (struct tokens){.a = a, .tiles = up_to(a->n, 32) / 16, .blocks = up_to(a->blocks, span)};
    size_t numbers = s->tiles * s->blocks * 16;
    s->d = (void *)memory;
    memory += numbers * sizeof *s->d;
    place_scales(s);
    if (sums) {
        s->sum = (void *)memory;
        memory += numbers * sizeof *s->sum;
        place_sums(s);
    }
    if (split) {
        s->split = (void *)memory;
        memory += numbers * 64;
        place_split(s);
    }
    s->pieces = up_to(a->cols, columns) / 64;
    s->q = (void *)memory;
    place_numbers(s);
    return memory + s->tiles * s->pieces * 1024;
}

#endif
