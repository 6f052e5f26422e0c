/* Quantised weights times activations: the rows' loops, and a function for each type. */
#ifndef HKK_X86_MATMUL_H
#define HKK_X86_MATMUL_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/crossovers.h"
#include "kernels/x86/tile.h"

#define TILES_FROM(SYMBOL) crossovers[HKK_##SYMBOL].HKK_LEVEL

/* A level may have products of its own for few tokens, which say whether they can do it. */
#ifndef FEW_ROWS
#define FEW_ROWS(type, ...) false
#endif

struct product {
    const struct hkk_matrix *w;
    const struct hkk_acts *a;
    float *y;
    size_t stride, row_bytes;
};

/* ---- blocks of 32; nvfp4's of 64 ---- */

ALWAYS void small_rows(const struct product *p, size_t row, size_t count, unsigned type,
                       size_t size, struct form f, small_fn *codes)
{
    size_t at[8];
    row_offsets(at, count, p->row_bytes);
    const uint8_t *w = p->w->data + row * p->row_bytes;
    for (size_t t = 0; t < p->a->n; t++) {
        __m256 v = f.two_scales
                       ? few_nvfp4(w, at, w + 8 * p->row_bytes, p->a, t)
                       : few_small(w, at, w + 8 * p->row_bytes, p->a, t, type, size, f, codes);
        store_rows(p->y + t * p->stride + row, v, count);
    }
}

/* BLOCKS blocks of 32 of LANES rows at W as rows FIRST.. of the tile; as many bytes at NEXT are
 * fetched meanwhile. */
ALWAYS void turn_small_rows(struct tile *tile, const uint8_t *w, size_t stride, const uint8_t *next,
                            size_t first, size_t blocks, unsigned type, size_t bytes, struct form f)
{
    const bool planes = f.is_signed && !WIDE_SUMS;
    const size_t each = sizeof tile->code[0], fours = planes ? 16 : f.two_scales ? 4 : 8;
    const struct code_place o = {(uint8_t *)tile->code + 4 * first, each, fours * each, planes, 0};
#pragma GCC unroll 1
    for (size_t k = 0; k < blocks; k++, next += LANES * bytes) {
        fetch(next, LANES * bytes, true);
        if (f.two_scales)
            turn_nvfp4(w + k / 2 * 2 * bytes, stride, k % 2, &o, 2 * k, tile->d[2 * k] + first,
                       tile->d[2 * k + 1] + first);
        else
            turn_small(w + k * bytes, stride, type, &o, k, tile->d[k] + first, tile->m[k] + first);
    }
}

ALWAYS void small_tile(const struct product *p, size_t row, size_t count, struct tile *tile,
                       unsigned type, size_t size, struct form f, tile_fn *multiply)
{
    const size_t bytes = f.two_scales ? size / 2 : size; /* of 32 columns */
    struct place o = {p->y + row, p->stride, count, true};
    const uint8_t *next = p->w->data + (row + TILE_ROWS) * p->row_bytes;
    for (size_t b = 0; b < p->a->blocks; b += 8) {
        size_t blocks = smaller_size(8, p->a->blocks - b);
        for (size_t r = 0; r < count; r += LANES, next += LANES * blocks * bytes) {
            size_t apart = p->row_bytes;
            const uint8_t *w = all_lanes(&tile->copy, p->w->data + (row + r) * apart + b * bytes,
                                         &apart, blocks * bytes, count - r);
            turn_small_rows(tile, w, apart, next, r, blocks, type, bytes, f);
        }
        multiply(tile, p->a, b, blocks, f.offset, &o);
        o.first = false;
    }
}

/* Rows that are not there are zeros. */
ALWAYS void tile_clear(struct tile *tile, size_t count)
{
    if (count < TILE_ROWS)
        memset(tile, 0, offsetof(struct tile, sums_of_16));
}

/* Before the first tile. */
ALWAYS void tile_begin(struct tile *tile, const struct hkk_acts *a, struct form f)
{
    if (!f.two_scales)
        return;
    int16_t *sums = (void *)((char *)tile + sizeof *tile);
    sum_sixteens(a, sums);
    tile->sums_of_16 = sums;
}

#define SMALL(type, SYMBOL, multiply, ...)                                                         \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        const struct form f = {__VA_ARGS__};                                                       \
        const size_t size = sizeof(struct hk_##type), elems = HKK_##SYMBOL == HKK_NVFP4 ? 64 : 32; \
        const struct product p = {w, a, y, stride, w->cols / elems * size};                        \
        const bool tiles = a->n >= TILES_FROM(SYMBOL) && p.row_bytes <= MOST_APART;                \
        if (!tiles && FEW_ROWS(type, w, row0, rows, a, y, stride))                                 \
            return;                                                                                \
        const size_t each = tiles ? TILE_ROWS : 8;                                                 \
        if (tiles)                                                                                 \
            tile_begin(scratch, a, f);                                                             \
        for (size_t r = row0; r < row0 + rows; r += each) {                                        \
            size_t count = smaller_size(each, row0 + rows - r);                                    \
            if (!tiles) {                                                                          \
                small_rows(&p, r, count, HKK_##SYMBOL, size, f, codes_##type);                     \
                continue;                                                                          \
            }                                                                                      \
            tile_clear(scratch, count);                                                            \
            small_tile(&p, r, count, scratch, HKK_##SYMBOL, size, f, FN(multiply));                \
        }                                                                                          \
    }

/* clang-format off */
/* X(name, SYMBOL, multiply, form...) */
#define SMALL_PRODUCTS(X)                                                                            \
    X(q4_0, Q4_0, tile_small_8, .offset = 8, .adds = 8, .nibbles = 2)                                \
    X(q4_1, Q4_1, tile_small_8_min, .adds = 8, .minimums = true, .nibbles = 4)                       \
    X(q5_0, Q5_0, tile_small_4, .offset = 16, .adds = 4)                                             \
    X(q5_1, Q5_1, tile_small_4_min, .adds = 4, .minimums = true)                                     \
    X(q8_0, Q8_0, tile_small_signed, .is_signed = true)                                              \
    X(iq4_nl, IQ4_NL, tile_small_signed, .is_signed = true, .nibbles = 2, .table = hk_iq4_nl_values) \
    X(mxfp4, MXFP4, tile_small_4, .offset = 12, .adds = 4, .nibbles = 1, .table = e2m1_codes)        \
    X(nvfp4, NVFP4, tile_nvfp4, .offset = 12, .adds = 4, .two_scales = true)
/* clang-format on */

SMALL_PRODUCTS(SMALL)

#undef SMALL

/* ---- super-blocks ---- */

ALWAYS void super_rows(const struct product *p, size_t row, size_t count, size_t size,
                       struct form f, super_fn *codes)
{
    size_t at[8];
    row_offsets(at, count, p->row_bytes);
    const uint8_t *w = p->w->data + row * p->row_bytes;
    for (size_t t = 0; t < p->a->n; t++)
        store_rows(p->y + t * p->stride + row,
                   few_super(w, at, w + 8 * p->row_bytes, p->a, t, size, f, codes), count);
}

ALWAYS void super_tile(const struct product *p, size_t row, size_t count, struct tile *tile,
                       unsigned type, size_t size, struct form f, tile_fn *multiply)
{
    struct place o = {p->y + row, p->stride, count, true};
    const uint8_t *next = p->w->data + (row + TILE_ROWS) * p->row_bytes;
    for (size_t b = 0; b < p->a->blocks; b++) {
        for (size_t r = 0; r < count; r += LANES, next += LANES * size) {
            size_t apart = p->row_bytes;
            const uint8_t *w = all_lanes(&tile->copy, p->w->data + (row + r) * apart + b * size,
                                         &apart, size, count - r);
            fetch(next, LANES * size, true);
            turn_super_rows(tile, w, apart, r, type, f);
        }
        multiply(tile, p->a, b, 1, f.offset, &o);
        o.first = false;
    }
}

#define SUPER(type, SYMBOL, multiply, ...)                                                         \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        const struct form f = {__VA_ARGS__};                                                       \
        const size_t size = sizeof(struct hk_##type);                                              \
        const struct product p = {w, a, y, stride, w->cols / 256 * size};                          \
        const bool tiles = a->n >= TILES_FROM(SYMBOL) && p.row_bytes <= MOST_APART;                \
        if (!tiles && FEW_ROWS(type, w, row0, rows, a, y, stride))                                 \
            return;                                                                                \
        const size_t each = tiles ? TILE_ROWS : 8;                                                 \
        for (size_t r = row0; r < row0 + rows; r += each) {                                        \
            size_t count = smaller_size(each, row0 + rows - r);                                    \
            if (!tiles) {                                                                          \
                super_rows(&p, r, count, size, f, codes_##type);                                   \
                continue;                                                                          \
            }                                                                                      \
            tile_clear(scratch, count);                                                            \
            super_tile(&p, r, count, scratch, HKK_##SYMBOL, size, f, FN(multiply));                \
        }                                                                                          \
    }

/* clang-format off */
/* X(name, SYMBOL, multiply, form...) */
#define SUPER_PRODUCTS(X)                                                       \
    X(q2_k, Q2_K, tile_8_by_16_min, .adds = 8, .by_16 = true, .minimums = true) \
    X(q3_k, Q3_K, tile_8_by_16, .offset = 4, .adds = 8, .by_16 = true)          \
    X(q4_k, Q4_K, tile_8_min, .adds = 8, .minimums = true)                      \
    X(q5_k, Q5_K, tile_4_min, .adds = 4, .minimums = true)                      \
    X(q6_k, Q6_K, tile_2_by_16, .offset = 32, .adds = 2, .by_16 = true)         \
    X(iq1_s, IQ1_S, tile_4, .offset = 9, .adds = 4)                             \
    X(iq1_m, IQ1_M, tile_4_by_16, .offset = 9, .adds = 4, .by_16 = true)        \
    X(iq2_xxs, IQ2_XXS, tile_1, .offset = 43, .adds = 1)                        \
    X(iq2_xs, IQ2_XS, tile_1_by_16, .offset = 43, .adds = 1, .by_16 = true)     \
    X(iq2_s, IQ2_S, tile_1_by_16, .offset = 43, .adds = 1, .by_16 = true)       \
    X(iq3_xxs, IQ3_XXS, tile_1, .offset = 62, .adds = 1)                        \
    X(iq3_s, IQ3_S, tile_4, .offset = 15, .adds = 4)                            \
    X(iq4_xs, IQ4_XS, tile_signed, .is_signed = true)                           \
    X(tq1_0, TQ1_0, tile_8, .offset = 1, .adds = 8)                             \
    X(tq2_0, TQ2_0, tile_8, .offset = 1, .adds = 8)
/* clang-format on */

SUPER_PRODUCTS(SUPER)

#undef SUPER

#endif
