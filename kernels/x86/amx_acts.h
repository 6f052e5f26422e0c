/* Activations as tiles meet them: sixteen tokens by 64 columns in one piece, since rows that lie
 * far apart would share a few sets of the cache; scales and sums of sixteen tokens side by side.
 * Tokens up to a multiple of 32 and columns up to one of 256 are zeros. */
#ifndef HKK_X86_AMX_ACTS_H
#define HKK_X86_AMX_ACTS_H

#include <string.h>

#include "kernels/levels.h"
#include "kernels/tmpl/level.h"
#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/crossovers.h"

struct tokens {
    size_t tiles;    /* of sixteen tokens; an even number */
    size_t pieces;   /* of 64 columns */
    size_t blocks;   /* of 32 or 256 columns */
    int8_t *q;       /* [tile][piece][token][column] */
    float *d;        /* [tile][block][token] */
    float *sum;      /* likewise, sums of blocks of 32; or: */
    uint32_t *split; /* [tile][block][token][group of 16]: sums as two bf16 */
};

ALWAYS size_t up_to(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The counts of N tokens of COLS columns, and no arrays. */
static inline struct tokens tokens_shape(enum hkk_kind kind, size_t n, size_t cols)
{
    size_t whole = up_to(cols, 256);
    return (struct tokens){
        .tiles = up_to(n, 32) / 16,
        .pieces = whole / 64,
        .blocks = whole / (kind == HKK_KIND_Q8_32 ? 32 : 256),
    };
}

static size_t FN(tiles_bytes)(enum hkk_kind kind, size_t n, size_t cols)
{
    if (kind != HKK_KIND_Q8_32 && kind != HKK_KIND_Q8_256)
        return 0;
    struct tokens s = tokens_shape(kind, n, cols);
    size_t number = sizeof(float) + (kind == HKK_KIND_Q8_32 ? sizeof(float) : 64);
    return s.tiles * (s.pieces * 1024 + s.blocks * 16 * number);
}

/* Those of A that lie in MEMORY. */
static inline struct tokens tokens_in(const struct hkk_acts *a, void *memory)
{
    struct tokens s = tokens_shape(a->kind, a->n, a->cols);
    s.q = memory;
    s.d = (void *)(s.q + s.tiles * s.pieces * 1024);
    s.sum = s.d + s.tiles * s.blocks * 16;
    s.split = (void *)s.sum;
    return s;
}

/* The tiles from FIRST on. */
static inline struct tokens tokens_from(const struct tokens *all, size_t first, size_t n)
{
    struct tokens s = *all;
    s.tiles = up_to(n, 32) / 16;
    s.q += first * s.pieces * 1024;
    s.d += first * s.blocks * 16;
    s.sum += first * s.blocks * 16;
    s.split += first * s.blocks * 256;
    return s;
}

/* Tile T from COLUMN on, a multiple of 32; rows are 64 bytes apart. */
ALWAYS const int8_t *tile_tokens(const struct tokens *s, size_t t, size_t column)
{
    return s->q + (t * s->pieces + column / 64) * 1024 + column % 64;
}

/* Sixteen sums of 16, below 2^11 in magnitude: a multiple of 64 and the rest, both exact in bf16,
 * so that their products with minimums of 6 bits, all below 2^24 together, are exact however they
 * are added. */
ALWAYS __m512i split_sums(const int16_t *sum)
{
    const __m512i half = _mm512_set1_epi32(32), top = _mm512_set1_epi32(~0xffff);
    __m512i x = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)sum));
    __m512i high = _mm512_and_si512(_mm512_add_epi32(x, half), _mm512_set1_epi32(~63));
    __m512i low = _mm512_sub_epi32(x, high);
    high = _mm512_castps_si512(_mm512_cvtepi32_ps(high));
    low = _mm512_castps_si512(_mm512_cvtepi32_ps(low));
    return _mm512_or_si512(_mm512_srli_epi32(high, 16), _mm512_and_si512(low, top));
}

/* Token T, or zeros past the last one. */
static inline void put_token(const struct tokens *s, const struct hkk_acts *a, size_t t)
{
    bool there = t < a->n;
    const int8_t *from = a->q + (there ? t * a->cols : 0);
    int8_t *to = s->q + t / 16 * s->pieces * 1024 + t % 16 * 64;
    for (size_t k = 0; k < s->pieces; k++) {
        size_t left = there && 64 * k < a->cols ? a->cols - 64 * k : 0;
        __mmask64 mask = left < 64 ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);
        _mm512_store_si512(to + 1024 * k, _mm512_maskz_loadu_epi8(mask, from + 64 * k));
    }
    for (size_t b = 0; b < s->blocks; b++) {
        size_t at = (t / 16 * s->blocks + b) * 16 + t % 16;
        bool block = there && b < a->blocks;
        s->d[at] = block ? a->d[t * a->blocks + b] : 0;
        if (a->kind == HKK_KIND_Q8_32)
            s->sum[at] = block ? (float)a->sum[t * a->sums + b] : 0;
        else
            _mm512_store_si512(s->split + 16 * at, block ? split_sums(a->sum + t * a->sums + 16 * b)
                                                         : _mm512_setzero_si512());
    }
}

/* Tokens [FIRST, FIRST + N), and with the last one the zeros behind. */
static inline void tokens_to_tiles(const struct tokens *s, const struct hkk_acts *a, size_t first,
                                   size_t n)
{
    size_t end = first + n == a->n ? 16 * s->tiles : first + n;
    for (size_t t = first; t < end; t++)
        put_token(s, a, t);
}

static void FN(quantize)(const struct hkk_acts *a, size_t first, size_t n)
{
    hkk_avx512.quantize(a, first, n);
    if (a->tiles == NULL || a->n < AMX_TILES_FROM)
        return;
    struct tokens s = tokens_in(a, a->tiles);
    tokens_to_tiles(&s, a, first, n);
}

#endif
