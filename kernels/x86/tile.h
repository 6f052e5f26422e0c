/* Products for many tokens: a tile of 16 rows by 256 columns is unpacked to codes with rows in
 * lanes, four consecutive columns to a lane, and multiplied with all tokens while it is in cache.
 * Results in the making wait in the output. */
#ifndef HKK_X86_TILE_H
#define HKK_X86_TILE_H

#include "kernels/tmpl/level.h"

enum { TILE_ROWS = 16, TILE_COLS = 256 };

struct tile {
    uint8_t row[TILE_ROWS][TILE_COLS]; /* before they are turned */
    /* [group of 32][plane][four columns][row][column]; eight-bit codes have two planes of four
     * bits, the lower one first, where sums are of 16 bits. */
    uint8_t code[8 * 2 * 8][64];
    int16_t scale[16][32]; /* group of 16, or group of 32 and plane; as i_scaled() wants them */
    int16_t offset[8][32]; /* -scale * offset of two groups of 16 */
    int16_t min[8][32];    /* minimums likewise */
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

/* Turn GROUPS groups of 32 columns; of signed codes, after adding 128, two planes where sums are of
 * 16 bits. */
ALWAYS void tile_turn(struct tile *tile, size_t groups, bool is_signed)
{
    const __m256i low = _mm256_set1_epi8(15), top = _mm256_set1_epi8((char)0x80);
    for (size_t g = 0; g < groups; g++)
        for (size_t h = 0; h < 2; h++) {
            __m256i v[8];
            turn_8(tile->row[8 * h] + 32 * g, v);
            for (size_t k = 0; k < 8; k++) {
                __m256i u = is_signed ? _mm256_xor_si256(v[k], top) : v[k];
                if (!is_signed || WIDE_SUMS) {
                    _mm256_store_si256((void *)(tile->code[8 * g + k] + 32 * h), u);
                    continue;
                }
                _mm256_store_si256((void *)(tile->code[16 * g + k] + 32 * h),
                                   _mm256_and_si256(u, low));
                _mm256_store_si256((void *)(tile->code[16 * g + 8 + k] + 32 * h),
                                   _mm256_and_si256(_mm256_srli_epi16(u, 4), low));
            }
        }
}

/* Two numbers for the lane of row R. */
ALWAYS void put_pair(int16_t lanes[32], size_t r, int first, int second)
{
    lanes[2 * r] = (int16_t)first;
    lanes[2 * r + 1] = (int16_t)second;
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
        int x = f.is_signed && !WIDE_SUMS && g % 2 != 0 ? 16 * scale[g] : scale[g];
        put_pair(tile->scale[g], r, x, WIDE_SUMS ? (x < 0 ? -1 : 0) : x);
    }
    for (int j = 0; j < 8; j++) {
        if (offset != 0)
            put_pair(tile->offset[j], r, -offset * scale[2 * j], -offset * scale[2 * j + 1]);
        if (f.minimums)
            put_pair(tile->min[j], r, min[2 * j], min[2 * j + 1]);
    }
    tile->d[0][r] = s->d;
    if (f.minimums)
        tile->m[0][r] = -s->dmin;
}

ALWAYS ints four_columns(const void *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return i_set(x);
}

/* acc += scale * (sums of products of N times four columns), for all rows and tokens. The products
 * of N steps fit where they are added up. */
ALWAYS void steps(const uint8_t (*code)[64], const int8_t *const q[TOKENS], size_t col, int n,
                  ints scale, ints acc[TOKENS])
{
    ints s[TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < TOKENS; t++)
        s[t] = i_set(0);
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        ints c = i_load(code[k]);
#pragma GCC unroll 8
        for (int t = 0; t < TOKENS; t++)
            s[t] = i_step(s[t], c, four_columns(q[t] + col + 4 * (size_t)k));
    }
#pragma GCC unroll 8
    for (int t = 0; t < TOKENS; t++)
        acc[t] = i_scaled(acc[t], s[t], scale);
}

/* N times four columns, in as few steps as their products allow. */
ALWAYS void run_of_steps(const uint8_t (*code)[64], const int8_t *const q[TOKENS], size_t col,
                         int n, int adds, ints scale, ints acc[TOKENS])
{
    int each = adds < n && !WIDE_SUMS ? adds : n;
#pragma GCC unroll 8
    for (int k = 0; k < n; k += each)
        steps(code + k, q, col + 4 * (size_t)k, each, scale, acc);
}

/* Pairs of numbers of the rows times pairs of sums of q, added. */
ALWAYS void pair_products(const int16_t (*pair)[32], const int16_t *const sum[TOKENS],
                          ints acc[TOKENS])
{
    for (size_t j = 0; j < 8; j++) {
        ints x = i_load(pair[j]);
#pragma GCC unroll 8
        for (int t = 0; t < TOKENS; t++)
            acc[t] = i_dot_2(acc[t], x, four_columns(sum[t] + 2 * j));
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

ALWAYS vec load_results(const struct place *o, size_t t)
{
    const float *from = o->y + t * o->stride;
    if (o->first)
        return v_set(0);
    return o->count == TILE_ROWS ? v_load(from) : v_load_some(from, o->count);
}

ALWAYS void store_results(const struct place *o, const struct hkk_acts *a, size_t t, vec v)
{
    if (t >= a->n)
        return;
    if (o->count == TILE_ROWS)
        v_store(o->y + t * o->stride, v);
    else
        v_store_some(o->y + t * o->stride, v, o->count);
}

/* One super-block of a tile times TOKENS tokens from T on. */
ALWAYS void tile_super(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, const struct place *o, struct form f)
{
    (void)blocks; /* one */
    const int8_t *q[TOKENS];
    const int16_t *sum[TOKENS];
    ints acc[TOKENS], min[TOKENS];
    int planes = f.is_signed && !WIDE_SUMS ? 2 : 1;
#pragma GCC unroll 8
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 256 * b;
        sum[i] = a->sum + token(a, t, i) * a->sums + 16 * b;
        acc[i] = min[i] = i_set(0);
    }
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g++) {
#pragma GCC unroll 2
        for (size_t p = 0; p < 2; p++) {
            const uint8_t(*code)[64] = tile->code + 8 * (planes == 2 ? 2 * g + p : g);
            const ints scale = i_load(tile->scale[2 * g + p]);
            if (planes == 2)
                run_of_steps(code, q, 32 * g, 8, 8, scale, acc);
            else if (f.by_16)
                run_of_steps(code + 4 * p, q, 32 * g + 16 * p, 4, f.adds, scale, acc);
            else if (p == 0)
                run_of_steps(code, q, 32 * g, 8, f.adds, scale, acc);
        }
    }
    if (f.is_signed || f.offset != 0)
        pair_products(tile->offset, sum, acc);
    if (f.minimums)
        pair_products(tile->min, sum, min);
    const vec d = v_load(tile->d[0]), m = v_load(tile->m[0]);
#pragma GCC unroll 8
    for (int i = 0; i < TOKENS; i++) {
        vec dx = v_set(a->d[token(a, t, i) * a->blocks + b]);
        vec v = load_results(o, token(a, t, i));
        v = v_fma(v_mul(d, dx), i_float(acc[i]), v);
        if (f.minimums)
            v = v_fma(v_mul(m, dx), i_float(min[i]), v);
        store_results(o, a, t + (size_t)i, v);
    }
}

/* BLOCKS blocks of 32 from block B on, of a tile, times TOKENS tokens from T on. */
ALWAYS void tile_small(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, const struct place *o, struct form f)
{
    const ints one = i_set(WIDE_SUMS ? 1 : 1 << 16 | 1), sixteen = i_set(16 << 16 | 16);
    const int8_t *q[TOKENS];
    vec v[TOKENS];
    int offset = f.is_signed ? 128 : f.offset;
#pragma GCC unroll 8
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 32 * b;
        v[i] = load_results(o, token(a, t, i));
    }
#pragma GCC unroll 1
    for (size_t k = 0; k < blocks; k++) {
        ints acc[TOKENS];
#pragma GCC unroll 8
        for (int i = 0; i < TOKENS; i++)
            acc[i] = i_set(-offset * a->sum[token(a, t, i) * a->sums + b + k]);
        if (f.is_signed && !WIDE_SUMS) {
            steps(tile->code + 16 * k, q, 32 * k, 8, one, acc);
            steps(tile->code + 16 * k + 8, q, 32 * k, 8, sixteen, acc);
        } else {
            run_of_steps(tile->code + 8 * k, q, 32 * k, 8, f.adds, one, acc);
        }
        const vec d = v_load(tile->d[k]), m = v_load(tile->m[k]);
#pragma GCC unroll 8
        for (int i = 0; i < TOKENS; i++) {
            vec dx = v_set(a->d[token(a, t, i) * a->blocks + b + k]);
            v[i] = v_fma(v_mul(d, dx), i_float(acc[i]), v[i]);
            if (f.minimums) {
                float sum = (float)a->sum[token(a, t, i) * a->sums + b + k];
                v[i] = v_fma(v_mul(m, dx), v_set(sum), v[i]);
            }
        }
    }
#pragma GCC unroll 8
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
    const ints one = i_set(WIDE_SUMS ? 1 : 1 << 16 | 1);
    const int8_t *q[TOKENS];
    vec v[TOKENS];
#pragma GCC unroll 8
    for (int i = 0; i < TOKENS; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 32 * b;
        v[i] = load_results(o, token(a, t, i));
    }
#pragma GCC unroll 1
    for (size_t k = 0; k < 2 * blocks; k++) {
        ints acc[TOKENS];
#pragma GCC unroll 8
        for (int i = 0; i < TOKENS; i++)
            acc[i] = i_set(-f.offset * sum_of_16(q[i] + 16 * k));
        steps(tile->code + 4 * k, q, 16 * k, 4, one, acc);
        const vec d = v_load(tile->d[k]);
#pragma GCC unroll 8
        for (int i = 0; i < TOKENS; i++) {
            vec dx = v_set(a->d[token(a, t, i) * a->blocks + b + k / 2]);
            v[i] = v_fma(v_mul(d, dx), i_float(acc[i]), v[i]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TOKENS; i++)
        store_results(o, a, t + (size_t)i, v[i]);
}

/* ---- a function for each way of codes, for all tokens ---- */

typedef void tile_fn(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                     int offset, const struct place *o);

#define TILE(name, each, ...)                                                                      \
    static __attribute__((noinline)) void FN(name)(                                                \
        const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks, int offset,    \
        const struct place *o)                                                                     \
    {                                                                                              \
        const struct form f = {.offset = offset, __VA_ARGS__};                                     \
        for (size_t t = 0; t < a->n; t += TOKENS)                                                  \
            each(tile, a, b, blocks, t, o, f);                                                     \
    }

TILE(tile_small_8, tile_small, .adds = 8)
TILE(tile_small_8_min, tile_small, .adds = 8, .minimums = true)
TILE(tile_small_4, tile_small, .adds = 4)
TILE(tile_small_4_min, tile_small, .adds = 4, .minimums = true)
TILE(tile_small_signed, tile_small, .is_signed = true)
TILE(tile_nvfp4, tile_nvfp4, .adds = 4)

TILE(tile_8, tile_super, .adds = 8)
TILE(tile_8_min, tile_super, .adds = 8, .minimums = true)
TILE(tile_8_by_16, tile_super, .adds = 8, .by_16 = true)
TILE(tile_8_by_16_min, tile_super, .adds = 8, .by_16 = true, .minimums = true)
TILE(tile_4, tile_super, .adds = 4)
TILE(tile_4_min, tile_super, .adds = 4, .minimums = true)
TILE(tile_4_by_16, tile_super, .adds = 4, .by_16 = true)
TILE(tile_2_by_16, tile_super, .adds = 2, .by_16 = true)
TILE(tile_1, tile_super, .adds = 1)
TILE(tile_1_by_16, tile_super, .adds = 1, .by_16 = true)
TILE(tile_signed, tile_super, .is_signed = true)

#undef TILE

#endif
