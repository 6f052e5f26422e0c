/* Products for many tokens: a tile of 16 rows by 256 columns is unpacked to codes with rows in
 * lanes, four consecutive columns to a lane, and multiplied with all tokens while it is in cache.
 * Results in the making wait in the output. */
#ifndef HKK_X86_TILE_AVX2_H
#define HKK_X86_TILE_AVX2_H

#include "kernels/x86/few_avx2.h"

enum { TILE_ROWS = 16, TILE_COLS = 256, TOKENS = 4 };

struct tile {
    uint8_t row[TILE_ROWS][TILE_COLS]; /* before they are turned */
    /* [group of 32][plane][four columns][half of the rows][row][column]; eight-bit codes have two
     * planes of four bits, the lower one first. */
    uint8_t code[8 * 2 * 8][2][32];
    int16_t scale[16][2][16]; /* group of 16, or group of 32 and plane; each twice */
    int16_t offset[8][2][16]; /* scale * offset of two groups of 16 */
    int16_t min[8][2][16];    /* minimums likewise */
    float d[16][TILE_ROWS], m[8][TILE_ROWS];
};

/* Eight rows of 32 bytes to eight registers of four columns. */
ALWAYS void turn_8(const uint8_t *row, __m256i out[8])
{
    __m256i v[8], w[8];
    for (int r = 0; r < 8; r++)
        v[r] = load32(row + (size_t)r * TILE_COLS);
    for (int r = 0; r < 8; r += 2) {
        w[r] = _mm256_unpacklo_epi32(v[r], v[r + 1]);
        w[r + 1] = _mm256_unpackhi_epi32(v[r], v[r + 1]);
    }
    for (int r = 0; r < 8; r += 4) {
        v[r] = _mm256_unpacklo_epi64(w[r], w[r + 2]);
        v[r + 1] = _mm256_unpackhi_epi64(w[r], w[r + 2]);
        v[r + 2] = _mm256_unpacklo_epi64(w[r + 1], w[r + 3]);
        v[r + 3] = _mm256_unpackhi_epi64(w[r + 1], w[r + 3]);
    }
    for (int r = 0; r < 4; r++) {
        out[r] = _mm256_permute2x128_si256(v[r], v[r + 4], 0x20);
        out[r + 4] = _mm256_permute2x128_si256(v[r], v[r + 4], 0x31);
    }
}

/* Turn GROUPS groups of 32 columns; SPLIT: into two planes, after adding 128. */
ALWAYS void tile_turn(struct tile *tile, size_t groups, bool split)
{
    const __m256i low = _mm256_set1_epi8(15), top = _mm256_set1_epi8((char)0x80);
    for (size_t g = 0; g < groups; g++)
        for (size_t h = 0; h < 2; h++) {
            __m256i v[8];
            turn_8(tile->row[8 * h] + 32 * g, v);
            for (size_t k = 0; k < 8; k++) {
                if (!split) {
                    _mm256_store_si256((void *)tile->code[8 * g + k][h], v[k]);
                    continue;
                }
                __m256i u = _mm256_xor_si256(v[k], top);
                _mm256_store_si256((void *)tile->code[16 * g + k][h], _mm256_and_si256(u, low));
                _mm256_store_si256((void *)tile->code[16 * g + 8 + k][h],
                                   _mm256_and_si256(_mm256_srli_epi16(u, 4), low));
            }
        }
}

/* Two numbers for the lane of row R. */
ALWAYS void put_pair(int16_t lanes[2][16], size_t r, int first, int second)
{
    lanes[r / 8][r % 8 * 2] = (int16_t)first;
    lanes[r / 8][r % 8 * 2 + 1] = (int16_t)second;
}

/* The codes, scales and minimums of one super-block as row R. */
ALWAYS void tile_super_row(struct tile *tile, size_t r, const struct codes *s, struct form f)
{
    int16_t scale[16], min[16];
    int offset = f.is_signed ? 128 : f.offset;
    for (int j = 0; j < 8; j++)
        _mm256_store_si256((void *)(tile->row[r] + 32 * j), s->c[j]);
    _mm256_storeu_si256((void *)scale, s->scale);
    if (f.minimums)
        _mm256_storeu_si256((void *)min, s->min);
    for (int g = 0; g < 16; g++) {
        int x = f.is_signed && g % 2 != 0 ? 16 * scale[g] : scale[g];
        put_pair(tile->scale[g], r, x, x);
    }
    for (int j = 0; j < 8; j++) {
        if (offset != 0)
            put_pair(tile->offset[j], r, offset * scale[2 * j], offset * scale[2 * j + 1]);
        if (f.minimums)
            put_pair(tile->min[j], r, min[2 * j], min[2 * j + 1]);
    }
    tile->d[0][r] = s->d;
    if (f.minimums)
        tile->m[0][r] = -s->dmin;
}

ALWAYS __m256i four_columns(const void *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return _mm256_set1_epi32(x);
}

/* acc += scale * (sums of products of N times four columns), for both halves of the rows and all
 * tokens. The products of N steps fit 16 bits. */
ALWAYS void steps(const uint8_t (*code)[2][32], const int8_t *const q[TOKENS], size_t col, int n,
                  const __m256i scale[2], __m256i acc[2][TOKENS])
{
    __m256i s[2][TOKENS];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        __m256i c0 = _mm256_load_si256((const void *)code[k][0]);
        __m256i c1 = _mm256_load_si256((const void *)code[k][1]);
#pragma GCC unroll 4
        for (int t = 0; t < TOKENS; t++) {
            __m256i x = four_columns(q[t] + col + 4 * (size_t)k);
            __m256i p0 = _mm256_maddubs_epi16(c0, x), p1 = _mm256_maddubs_epi16(c1, x);
            s[0][t] = k == 0 ? p0 : now(_mm256_add_epi16(s[0][t], p0));
            s[1][t] = k == 0 ? p1 : now(_mm256_add_epi16(s[1][t], p1));
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < TOKENS; t++) {
        acc[0][t] = _mm256_add_epi32(acc[0][t], _mm256_madd_epi16(s[0][t], scale[0]));
        acc[1][t] = _mm256_add_epi32(acc[1][t], _mm256_madd_epi16(s[1][t], scale[1]));
    }
}

/* N times four columns, in as few steps as their products allow. */
ALWAYS void run_of_steps(const uint8_t (*code)[2][32], const int8_t *const q[TOKENS], size_t col,
                         int n, int adds, const __m256i scale[2], __m256i acc[2][TOKENS])
{
    int each = adds < n ? adds : n;
#pragma GCC unroll 8
    for (int k = 0; k < n; k += each)
        steps(code + k, q, col + 4 * (size_t)k, each, scale, acc);
}

/* Pairs of numbers of the rows times pairs of sums of q: acc = acc - or + them. */
ALWAYS void pair_products(const int16_t (*pair)[2][16], const int16_t *const sum[TOKENS], bool less,
                          __m256i acc[2][TOKENS])
{
    for (size_t j = 0; j < 8; j++) {
        __m256i a = load32(pair[j][0]), b = load32(pair[j][1]);
#pragma GCC unroll 4
        for (int t = 0; t < TOKENS; t++) {
            __m256i x = four_columns(sum[t] + 2 * j);
            __m256i p = _mm256_madd_epi16(a, x), q = _mm256_madd_epi16(b, x);
            acc[0][t] = less ? _mm256_sub_epi32(acc[0][t], p) : _mm256_add_epi32(acc[0][t], p);
            acc[1][t] = less ? _mm256_sub_epi32(acc[1][t], q) : _mm256_add_epi32(acc[1][t], q);
        }
    }
}

/* The output of a tile: COUNT rows of tokens' results; FIRST: nothing is there yet. */
struct place {
    float *y;
    size_t stride, count;
    bool first;
};

/* Token T + I, or the last one for those that are not there. */
ALWAYS size_t token(const struct hkk_acts *a, size_t t, int i)
{
    return t + (size_t)i < a->n ? t + (size_t)i : a->n - 1;
}

ALWAYS void load_results(const struct place *o, size_t t, __m256 v[2])
{
    float some[TILE_ROWS] = {0};
    const float *from = some;
    if (!o->first && o->count == TILE_ROWS)
        from = o->y + t * o->stride;
    else if (!o->first)
        memcpy(some, o->y + t * o->stride, o->count * sizeof *some);
    v[0] = _mm256_loadu_ps(from);
    v[1] = _mm256_loadu_ps(from + 8);
}

ALWAYS void store_results(const struct place *o, const struct hkk_acts *a, size_t t,
                          const __m256 v[2])
{
    if (t >= a->n)
        return;
    store_rows(o->y + t * o->stride, v[0], o->count);
    if (o->count > 8)
        store_rows(o->y + t * o->stride + 8, v[1], o->count - 8);
}

/* One super-block of a tile times four tokens from T on. */
ALWAYS void tile_super(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, const struct place *o, struct form f)
{
    (void)blocks; /* one */
    const int8_t *q[TOKENS];
    const int16_t *sum[TOKENS];
    __m256i acc[2][TOKENS];
    int planes = f.is_signed ? 2 : 1;
#pragma GCC unroll 4
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 256 * b;
        sum[i] = a->sum + token(a, t, i) * a->sums + 16 * b;
        acc[0][i] = acc[1][i] = _mm256_setzero_si256();
    }
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g++) {
#pragma GCC unroll 2
        for (size_t p = 0; p < 2; p++) {
            const uint8_t(*code)[2][32] = tile->code + 8 * (planes == 2 ? 2 * g + p : g);
            const int16_t(*sc)[16] = tile->scale[2 * g + p];
            const __m256i scale[2] = {load32(sc[0]), load32(sc[1])};
            if (planes == 2)
                run_of_steps(code, q, 32 * g, 8, 8, scale, acc);
            else if (f.by_16)
                run_of_steps(code + 4 * p, q, 32 * g + 16 * p, 4, f.adds, scale, acc);
            else if (p == 0)
                run_of_steps(code, q, 32 * g, 8, f.adds, scale, acc);
        }
    }
    if (f.is_signed || f.offset != 0)
        pair_products(tile->offset, sum, true, acc);
    __m256i min[2][TOKENS];
    for (int i = 0; i < TOKENS; i++)
        min[0][i] = min[1][i] = _mm256_setzero_si256();
    if (f.minimums)
        pair_products(tile->min, sum, false, min);
#pragma GCC unroll 4
    for (int i = 0; i < TOKENS; i++) {
        __m256 v[2], dx = _mm256_set1_ps(a->d[token(a, t, i) * a->blocks + b]);
        load_results(o, token(a, t, i), v);
        for (int h = 0; h < 2; h++) {
            __m256 d = _mm256_mul_ps(_mm256_loadu_ps(tile->d[0] + 8 * h), dx);
            v[h] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(acc[h][i]), v[h]);
            if (f.minimums) {
                __m256 m = _mm256_mul_ps(_mm256_loadu_ps(tile->m[0] + 8 * h), dx);
                v[h] = _mm256_fmadd_ps(m, _mm256_cvtepi32_ps(min[h][i]), v[h]);
            }
        }
        store_results(o, a, t + (size_t)i, v);
    }
}

/* BLOCKS blocks of 32 from block B on, of a tile, times four tokens from T on. */
ALWAYS void tile_small(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, const struct place *o, struct form f)
{
    const __m256i one[2] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
    const __m256i sixteen[2] = {_mm256_set1_epi16(16), _mm256_set1_epi16(16)};
    const int8_t *q[TOKENS];
    __m256 v[TOKENS][2];
    int offset = f.is_signed ? 128 : f.offset;
#pragma GCC unroll 4
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 32 * b;
        load_results(o, token(a, t, i), v[i]);
    }
#pragma GCC unroll 1
    for (size_t k = 0; k < blocks; k++) {
        __m256i acc[2][TOKENS];
#pragma GCC unroll 4
        for (int i = 0; i < TOKENS; i++) {
            int sum = a->sum[token(a, t, i) * a->sums + b + k];
            acc[0][i] = acc[1][i] = _mm256_set1_epi32(-offset * sum);
        }
        if (f.is_signed) {
            steps(tile->code + 16 * k, q, 32 * k, 8, one, acc);
            steps(tile->code + 16 * k + 8, q, 32 * k, 8, sixteen, acc);
        } else {
            run_of_steps(tile->code + 8 * k, q, 32 * k, 8, f.adds, one, acc);
        }
#pragma GCC unroll 4
        for (int i = 0; i < TOKENS; i++) {
            __m256 dx = _mm256_set1_ps(a->d[token(a, t, i) * a->blocks + b + k]);
            __m256 sum = _mm256_set1_ps((float)a->sum[token(a, t, i) * a->sums + b + k]);
            for (int h = 0; h < 2; h++) {
                __m256 d = _mm256_mul_ps(_mm256_loadu_ps(tile->d[k] + 8 * h), dx);
                v[i][h] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(acc[h][i]), v[i][h]);
                if (f.minimums) {
                    __m256 m = _mm256_mul_ps(_mm256_loadu_ps(tile->m[k] + 8 * h), dx);
                    v[i][h] = _mm256_fmadd_ps(m, sum, v[i][h]);
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < TOKENS; i++)
        store_results(o, a, t + (size_t)i, v[i]);
}

/* Sixteen q added up. */
ALWAYS int sum_of_16(const int8_t *q)
{
    __m256i x = _mm256_madd_epi16(_mm256_cvtepi8_epi16(load16(q)), _mm256_set1_epi16(1));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* The same for nvfp4: a step for each 16, whose sums of q are not among the activations. */
ALWAYS void tile_nvfp4(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, const struct place *o, struct form f)
{
    const __m256i one[2] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
    const int8_t *q[TOKENS];
    __m256 v[TOKENS][2];
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 32 * b;
        load_results(o, token(a, t, i), v[i]);
    }
#pragma GCC unroll 1
    for (size_t k = 0; k < 2 * blocks; k++) {
        __m256i acc[2][TOKENS];
        for (int i = 0; i < TOKENS; i++)
            acc[0][i] = acc[1][i] = _mm256_set1_epi32(-f.offset * sum_of_16(q[i] + 16 * k));
        steps(tile->code + 4 * k, q, 16 * k, 4, one, acc);
        for (int i = 0; i < TOKENS; i++) {
            __m256 dx = _mm256_set1_ps(a->d[token(a, t, i) * a->blocks + b + k / 2]);
            for (int h = 0; h < 2; h++) {
                __m256 d = _mm256_mul_ps(_mm256_loadu_ps(tile->d[k] + 8 * h), dx);
                v[i][h] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(acc[h][i]), v[i][h]);
            }
        }
    }
    for (int i = 0; i < TOKENS; i++)
        store_results(o, a, t + (size_t)i, v[i]);
}

/* ---- a function for each way of codes, for all tokens ---- */

typedef void tile_fn(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                     int offset, const struct place *o);

#define TILE(name, each, ...)                                                                      \
    static __attribute__((noinline)) void name(const struct tile *tile, const struct hkk_acts *a,  \
                                               size_t b, size_t blocks, int offset,                \
                                               const struct place *o)                              \
    {                                                                                              \
        const struct form f = {.offset = offset, __VA_ARGS__};                                     \
        for (size_t t = 0; t < a->n; t += TOKENS)                                                  \
            each(tile, a, b, blocks, t, o, f);                                                     \
    }

TILE(tile_small_8_avx2, tile_small, .adds = 8)
TILE(tile_small_8_min_avx2, tile_small, .adds = 8, .minimums = true)
TILE(tile_small_4_avx2, tile_small, .adds = 4)
TILE(tile_small_4_min_avx2, tile_small, .adds = 4, .minimums = true)
TILE(tile_small_signed_avx2, tile_small, .is_signed = true)
TILE(tile_nvfp4_avx2, tile_nvfp4, .adds = 4)

TILE(tile_8_avx2, tile_super, .adds = 8)
TILE(tile_8_min_avx2, tile_super, .adds = 8, .minimums = true)
TILE(tile_8_by_16_avx2, tile_super, .adds = 8, .by_16 = true)
TILE(tile_8_by_16_min_avx2, tile_super, .adds = 8, .by_16 = true, .minimums = true)
TILE(tile_4_avx2, tile_super, .adds = 4)
TILE(tile_4_min_avx2, tile_super, .adds = 4, .minimums = true)
TILE(tile_4_by_16_avx2, tile_super, .adds = 4, .by_16 = true)
TILE(tile_2_by_16_avx2, tile_super, .adds = 2, .by_16 = true)
TILE(tile_1_avx2, tile_super, .adds = 1)
TILE(tile_1_by_16_avx2, tile_super, .adds = 1, .by_16 = true)
TILE(tile_signed_avx2, tile_super, .is_signed = true)

#undef TILE

#endif
