/* Products for two tokens and more: a tile of rows by 256 columns is unpacked to codes with rows in
 * lanes, four consecutive columns to a lane, and multiplied with all tokens while it is in cache.
 * Results in the making wait in the output. */
#ifndef HKK_X86_TILE_H
#define HKK_X86_TILE_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/turn_super.h"

enum { TILE_ROWS = 16 * REGS };

struct tile {
    struct some_rows copy;
    /* [group of 32][plane][four columns][register][row][column]; eight-bit codes have two planes of
     * four bits, the lower one first, where sums are of 16 bits. */
    uint8_t code[8 * 2 * 8][REGS][64];
    /* [group of 16, or group of 32 and plane][register][row]: as i_scaled() or i_dot_2() wants them
     */
    int16_t scale[16][REGS][32];
    int16_t offset[8][REGS][32]; /* -scale * offset of two groups of 16 */
    int16_t min[8][REGS][32];    /* minimums likewise */
    float d[16][TILE_ROWS], m[8][TILE_ROWS];
    const int16_t *sums_of_16; /* nvfp4: of all tokens' q */
};

/* Sums of WIDE_SUMS that fit 16 bits are scaled by a product of 16 bits. */
ALWAYS bool fits_16(struct form f)
{
    return WIDE_SUMS && f.adds == 8;
}

/* One of each lane's two numbers, as scales. */
ALWAYS lanes scale_of_two(lanes pair, bool upper, struct form f)
{
    lanes low = upper ? l_right_32(pair, 16) : l_and(pair, l_dwords(0xffff));
    if (fits_16(f))
        return low;
    if (WIDE_SUMS)
        return l_right_32_signed(l_left_32(low, 16), 16);
    if (f.is_signed && upper)
        low = l_left(low, 4);
    return l_pick(l_dwords(0xffff), low, l_left_32(low, 16));
}

/* The super-blocks of LANES rows at P as rows FIRST.. of the tile. */
ALWAYS void turn_super_rows(struct tile *tile, const uint8_t *p, size_t stride, size_t first,
                            unsigned type, struct form f)
{
    const bool planes = f.is_signed && !WIDE_SUMS;
    const size_t each = sizeof tile->code[0];
    const struct code_place o = {(uint8_t *)tile->code + 4 * first, each, (planes ? 16 : 8) * each,
                                 planes, 0};
    const lanes offset =
        l_dwords(0x00010001 * (uint32_t)(uint16_t)(f.is_signed ? -128 : -f.offset));
    struct turned s;
    turn_super(p, stride, type, &o, &s, tile->d[0] + first, tile->m[0] + first);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++) {
        l_store((int32_t *)tile->scale[2 * j] + first, scale_of_two(s.scale[j], false, f));
        l_store((int32_t *)tile->scale[2 * j + 1] + first, scale_of_two(s.scale[j], true, f));
        if (f.is_signed || f.offset != 0)
            l_store((int32_t *)tile->offset[j] + first, l_times(s.scale[j], offset));
        if (f.minimums)
            l_store((int32_t *)tile->min[j] + first, s.min[j]);
    }
}

ALWAYS ints four_columns(const void *q)
{
    int32_t x;
    memcpy(&x, q, sizeof x);
    return i_set(x);
}

/* Products of N times four columns added to S, where N steps' fit. */
ALWAYS void sum_steps(const uint8_t (*code)[REGS][64], const int8_t *const q[TOKENS], size_t col,
                      int n, int nt, ints s[TOKENS][REGS])
{
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        ints c[REGS];
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            c[r] = i_load(code[k][r]);
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
            ints x = four_columns(q[t] + col + 4 * (size_t)k);
#pragma GCC unroll 2
            for (int r = 0; r < REGS; r++)
                s[t][r] = i_step(s[t][r], c[r], x);
        }
    }
}

/* acc += scale * (sums of products of N times four columns), for all rows and tokens. */
ALWAYS void scaled_steps(const uint8_t (*code)[REGS][64], const int8_t *const q[TOKENS], size_t col,
                         int n, int nt, bool fits, ints scale[REGS], ints acc[TOKENS][REGS])
{
    ints s[TOKENS][REGS];
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            s[t][r] = i_set(0);
    sum_steps(code, q, col, n, nt, s);
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            acc[t][r] = fits ? i_dot_2(acc[t][r], s[t][r], scale[r])
                             : i_scaled(acc[t][r], s[t][r], scale[r]);
}

/* N times four columns, in as few steps as their products allow. */
ALWAYS void run_of_steps(const uint8_t (*code)[REGS][64], const int8_t *const q[TOKENS], size_t col,
                         int n, int nt, struct form f, const int16_t (*scale)[32],
                         ints acc[TOKENS][REGS])
{
    int each = f.adds < n && !WIDE_SUMS ? f.adds : n;
    ints by[REGS];
#pragma GCC unroll 2
    for (int r = 0; r < REGS; r++)
        by[r] = i_load(scale[r]);
#pragma GCC unroll 8
    for (int k = 0; k < n; k += each)
        scaled_steps(code + k, q, col + 4 * (size_t)k, each, nt, fits_16(f), by, acc);
}

/* Pairs of numbers of the rows times pairs of sums of q, added. */
ALWAYS void pair_products(const int16_t (*pair)[REGS][32], const int16_t *const sum[TOKENS], int nt,
                          ints acc[TOKENS][REGS])
{
#pragma GCC unroll 1
    for (size_t j = 0; j < 8; j++) {
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
            ints x = four_columns(sum[t] + 2 * j);
#pragma GCC unroll 2
            for (int r = 0; r < REGS; r++)
                acc[t][r] = i_dot_2(acc[t][r], i_load(pair[j][r]), x);
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

ALWAYS vec load_results(const struct place *o, size_t t, int r)
{
    const size_t row = 16 * (size_t)r;
    const float *from = o->y + t * o->stride + row;
    if (o->first || o->count <= row)
        return v_set(0);
    return o->count >= row + 16 ? v_load(from) : v_load_some(from, o->count - row);
}

ALWAYS void store_results(const struct place *o, const struct hkk_acts *a, size_t t, int r, vec v)
{
    const size_t row = 16 * (size_t)r;
    float *to = o->y + t * o->stride + row;
    if (t >= a->n || o->count <= row)
        return;
    if (o->count >= row + 16)
        v_store(to, v);
    else
        v_store_some(to, v, o->count - row);
}

/* The integers of one super-block, for eight groups of 32. */
ALWAYS void super_sums(const struct tile *tile, const int8_t *const q[TOKENS], int nt,
                       struct form f, ints acc[TOKENS][REGS])
{
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g++) {
        const int16_t(*scale)[REGS][32] = tile->scale + 2 * g;
        if (f.is_signed && !WIDE_SUMS) {
            const struct form plane = {.adds = 8};
            run_of_steps(tile->code + 16 * g, q, 32 * g, 8, nt, plane, scale[0], acc);
            run_of_steps(tile->code + 16 * g + 8, q, 32 * g, 8, nt, plane, scale[1], acc);
        } else if (f.by_16 || fits_16(f)) {
            run_of_steps(tile->code + 8 * g, q, 32 * g, 4, nt, f, scale[0], acc);
            run_of_steps(tile->code + 8 * g + 4, q, 32 * g + 16, 4, nt, f, scale[1], acc);
        } else {
            run_of_steps(tile->code + 8 * g, q, 32 * g, 8, nt, f, scale[0], acc);
        }
    }
}

/* One super-block of a tile times NT tokens from T on. */
ALWAYS void tile_super(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, int nt, const struct place *o, struct form f)
{
    (void)blocks; /* one */
    const int8_t *q[TOKENS];
    const int16_t *sum[TOKENS];
    ints acc[TOKENS][REGS], min[TOKENS][REGS];
#pragma GCC unroll 8
    for (int i = 0; i < nt; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 256 * b;
        sum[i] = a->sum + token(a, t, i) * a->sums + 16 * b;
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            acc[i][r] = min[i][r] = i_set(0);
    }
    super_sums(tile, q, nt, f, acc);
    if (f.is_signed || f.offset != 0)
        pair_products(tile->offset, sum, nt, acc);
    if (f.minimums)
        pair_products(tile->min, sum, nt, min);
#pragma GCC unroll 8
    for (int i = 0; i < nt; i++) {
        const vec dx = v_set(a->d[token(a, t, i) * a->blocks + b]);
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++) {
            vec v = load_results(o, token(a, t, i), r);
            v = v_fma(v_mul(v_load(tile->d[0] + 16 * r), dx), i_float(acc[i][r]), v);
            if (f.minimums)
                v = v_fma(v_mul(v_load(tile->m[0] + 16 * r), dx), i_float(min[i][r]), v);
            store_results(o, a, t + (size_t)i, r, v);
        }
    }
}

/* ACC[T] = COUNTs[T], in all lanes. */
ALWAYS void begin_with(const int32_t count[TOKENS], int nt, ints acc[TOKENS][REGS])
{
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            acc[t][r] = i_set(count[t]);
}

/* The integers of STEPS times four columns, added to ACC without a scale. */
ALWAYS void small_sums(const uint8_t (*code)[REGS][64], const int8_t *const q[TOKENS], size_t col,
                       int n, int nt, struct form f, ints acc[TOKENS][REGS])
{
    ints one[REGS], sixteen[REGS];
    if (WIDE_SUMS) {
        sum_steps(code, q, col, n, nt, acc);
        return;
    }
#pragma GCC unroll 2
    for (int r = 0; r < REGS; r++) {
        one[r] = i_set(1 << 16 | 1);
        sixteen[r] = i_set(16 << 16 | 16);
    }
    if (f.is_signed) {
        scaled_steps(code, q, col, n, nt, false, one, acc);
        scaled_steps(code + n, q, col, n, nt, false, sixteen, acc);
        return;
    }
    int each = f.adds < n ? f.adds : n;
#pragma GCC unroll 8
    for (int k = 0; k < n; k += each)
        scaled_steps(code + k, q, col + 4 * (size_t)k, each, nt, false, one, acc);
}

/* One block's step of the results: scales D and minimums M of the rows. */
ALWAYS void small_floats(const float *d, const float *m, const float dx[TOKENS],
                         const int32_t sum[TOKENS], int nt, struct form f, ints acc[TOKENS][REGS],
                         vec v[TOKENS][REGS])
{
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
        const vec x = v_set(dx[t]);
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++) {
            v[t][r] = v_fma(v_mul(v_load(d + 16 * r), x), i_float(acc[t][r]), v[t][r]);
            if (f.minimums)
                v[t][r] = v_fma(v_mul(v_load(m + 16 * r), x), v_set((float)sum[t]), v[t][r]);
        }
    }
}

/* BLOCKS blocks of 32 from block B on, of a tile, times NT tokens from T on. nvfp4 has a step
 * for each 16, whose sums of q are not among the activations. */
ALWAYS void tile_small(const struct tile *tile, const struct hkk_acts *a, size_t b, size_t blocks,
                       size_t t, int nt, const struct place *o, struct form f)
{
    const size_t halves = f.two_scales ? 2 : 1;
    const int offset = f.is_signed ? 128 : f.offset, n = f.two_scales ? 4 : 8;
    const int planes = f.is_signed && !WIDE_SUMS ? 2 : 1;
    const int8_t *q[TOKENS];
    vec v[TOKENS][REGS];
#pragma GCC unroll 8
    for (int i = 0; i < nt; i++) {
        q[i] = a->q + token(a, t, i) * a->cols + 32 * b;
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            v[i][r] = load_results(o, token(a, t, i), r);
    }
#pragma GCC unroll 1
    for (size_t k = 0; k < halves * blocks; k++) {
        ints acc[TOKENS][REGS];
        int32_t sum[TOKENS], less[TOKENS];
        float dx[TOKENS];
#pragma GCC unroll 8
        for (int i = 0; i < nt; i++) {
            size_t at = token(a, t, i);
            sum[i] = f.two_scales ? tile->sums_of_16[at * a->cols / 16 + 2 * b + k]
                                  : a->sum[at * a->sums + b + k];
            less[i] = -offset * sum[i];
            dx[i] = a->d[at * a->blocks + b + k / halves];
        }
        begin_with(less, nt, acc);
        small_sums(tile->code + (size_t)(n * planes) * k, q, 4 * (size_t)n * k, n, nt, f, acc);
        small_floats(tile->d[k], f.minimums ? tile->m[k] : NULL, dx, sum, nt, f, acc, v);
    }
#pragma GCC unroll 8
    for (int i = 0; i < nt; i++)
#pragma GCC unroll 2
        for (int r = 0; r < REGS; r++)
            store_results(o, a, t + (size_t)i, r, v[i][r]);
}

/* Sums of 16 of the tokens' q. */
static inline void sum_sixteens(const struct hkk_acts *a, int16_t *sums)
{
    const __m256i byte = _mm256_set1_epi8(1), word = _mm256_set1_epi16(1);
    for (size_t i = 0; i < a->n * a->cols / 16; i += 2) {
        __m256i x = _mm256_madd_epi16(_mm256_maddubs_epi16(byte, load32(a->q + 16 * i)), word);
        x = _mm256_hadd_epi32(x, x);
        x = _mm256_hadd_epi32(x, x);
        sums[i] = (int16_t)_mm256_extract_epi16(x, 0);
        sums[i + 1] = (int16_t)_mm256_extract_epi16(x, 8);
    }
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
        for (size_t t = 0, left = a->n; t < a->n; left = a->n - t) {                               \
            if (TOKENS > 4 && left > 4) {                                                          \
                each(tile, a, b, blocks, t, TOKENS, o, f);                                         \
                t += TOKENS;                                                                       \
            } else if (left > 2) {                                                                 \
                each(tile, a, b, blocks, t, 4, o, f);                                              \
                t += 4;                                                                            \
            } else {                                                                               \
                each(tile, a, b, blocks, t, 2, o, f);                                              \
                t += 2;                                                                            \
            }                                                                                      \
        }                                                                                          \
    }

TILE(tile_small_8, tile_small, .adds = 8)
TILE(tile_small_8_min, tile_small, .adds = 8, .minimums = true)
TILE(tile_small_4, tile_small, .adds = 4)
TILE(tile_small_4_min, tile_small, .adds = 4, .minimums = true)
TILE(tile_small_signed, tile_small, .is_signed = true)
TILE(tile_nvfp4, tile_small, .adds = 4, .two_scales = true)

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
