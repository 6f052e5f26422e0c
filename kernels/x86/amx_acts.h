/* Activations as tiles meet them: sixteen tokens at a time, whose scales lie side by side. The last
 * sixteen are copied and filled up with zeros where the tokens or columns do not come out even. */
#ifndef HKK_X86_AMX_ACTS_H
#define HKK_X86_AMX_ACTS_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/x86/amx_tiles.h"

struct tokens {
    const struct hkk_acts *a;
    size_t tiles;
    int8_t *last; /* the last tile, [16][stride]; NULL: it lies in A like the others */
    size_t last_stride;
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
    size_t all = up_to(n, 16), whole = up_to(cols, 256);
    return whole / 256 * all * (64 + sizeof(float)) + 16 * (whole + 64);
}

/* Where tile T begins, and how far its rows are apart. */
ALWAYS const int8_t *tile_tokens(const struct tokens *s, size_t t, size_t *stride)
{
    bool copied = s->last != NULL && t + 1 == s->tiles;
    *stride = copied ? s->last_stride : s->a->cols;
    return copied ? s->last : s->a->q + 16 * t * s->a->cols;
}

/* The numbers of sixteen blocks from B on, or of as many as there are, of tile T to
 * OUT[block][token]. Those of tokens that do not exist are zeros. */
static inline void turn_numbers(const struct tokens *s, float *out, const float *from, size_t t,
                                size_t b)
{
    const struct hkk_acts *a = s->a;
    size_t blocks = a->blocks - b < 16 ? a->blocks - b : 16;
    __mmask16 mask = (__mmask16)((1u << blocks) - 1);
    __m512i v[16];
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        v[i] = 16 * t + i < a->n
                   ? _mm512_maskz_loadu_epi32(mask, from + (16 * t + i) * a->blocks + b)
                   : _mm512_setzero_si512();
    turn_16(v);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        if (b + i < s->blocks)
            _mm512_store_si512(out + (t * s->blocks + b + i) * 16, v[i]);
}

static inline void place_scales(const struct tokens *s)
{
    for (size_t t = 0; t < s->tiles; t++)
        for (size_t b = 0; b < s->a->blocks; b += 16)
            turn_numbers(s, s->d, s->a->d, t, b);
}

/* Sums of 32 as numbers. */
static inline void place_sums(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    memset(s->sum, 0, s->tiles * s->blocks * 16 * sizeof *s->sum);
    for (size_t t = 0; t < a->n; t++)
        for (size_t b = 0; b < a->blocks; b++)
            s->sum[(t / 16 * s->blocks + b) * 16 + t % 16] = (float)a->sum[t * a->sums + b];
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

static inline void copy_last(const struct tokens *s)
{
    const struct hkk_acts *a = s->a;
    for (size_t i = 0, t = 16 * (s->tiles - 1); i < 16; i++, t++) {
        int8_t *row = s->last + i * s->last_stride;
        memset(row, 0, s->last_stride);
        if (t < a->n)
            memcpy(row, a->q + t * a->cols, a->cols);
    }
}

/* Lay S out in MEMORY and fill it; gives the first byte behind. SPAN and COLUMNS are those of a
 * chunk; SUMS and SPLIT say which are wanted. */
static inline char *tokens_place(struct tokens *s, const struct hkk_acts *a, size_t span,
                                 size_t columns, bool sums, bool split, char *memory)
{
    *s = (struct tokens){.a = a, .tiles = up_to(a->n, 16) / 16, .blocks = up_to(a->blocks, span)};
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
    if (a->n % 16 != 0 || a->cols % columns != 0) {
        s->last = (void *)memory;
        s->last_stride = up_to(a->cols, columns) + 64; /* rows in different sets of the cache */
        memory += 16 * s->last_stride;
        copy_last(s);
    }
    return memory;
}

#endif
