/* Quantised weights times activations: the rows' loops, and a function for each type. */
#ifndef HKK_ARM_MATMUL_H
#define HKK_ARM_MATMUL_H

#include "kernels/arm/codes_grid.h"
#include "kernels/arm/multiply.h"
#include "kernels/tmpl/level.h"

struct product {
    const struct hkk_matrix *w;
    const struct hkk_acts *a;
    float *y;
    size_t stride;
};

/* Rows that are not there are zeros. */
ALWAYS void panel_clear(struct panel *panel, size_t count)
{
    if (count < PANEL_ROWS)
        memset(panel, 0, sizeof *panel);
}

/* ---- blocks of 32; nvfp4's of 64 ---- */

typedef void small_fn(const uint8_t *block, int8_t *to);

/* Block B of 32 of ROW as the K-th of row R. */
ALWAYS void panel_small_block(struct panel *panel, size_t r, const uint8_t *row, size_t b, size_t k,
                              unsigned type, size_t size, bool minimums, small_fn *codes)
{
    int8_t *to = panel_row(panel, r) + 64 * k;
    if (type == HKK_NVFP4) {
        const uint8_t *block = row + b / 2 * size;
        codes(block + b % 2 * 16, to);
        panel->d[2 * k][r] = half_e4m3(block[b % 2 * 2]);
        panel->d[2 * k + 1][r] = half_e4m3(block[b % 2 * 2 + 1]);
        return;
    }
    const uint8_t *block = row + b * size;
    codes(block, to);
    panel->d[k][r] = type == HKK_MXFP4 ? half_e8m0(block[0]) : half_at(block);
    if (minimums)
        panel->m[k][r] = half_at(block + 2);
}

ALWAYS void panel_small_rows(const struct product *p, size_t row, size_t count, struct panel *panel,
                             unsigned type, size_t size, bool minimums, small_fn *codes,
                             multiply_fn *multiply)
{
    const size_t elems = type == HKK_NVFP4 ? 64 : 32, row_bytes = p->w->cols / elems * size;
    struct place o = {p->y + row, p->stride, count, true};
    for (size_t b = 0; b < p->a->blocks; b += 8) {
        size_t blocks = smaller_size(8, p->a->blocks - b);
        for (size_t r = 0; r < count; r++)
            for (size_t k = 0; k < blocks; k++)
                panel_small_block(panel, r, p->w->data + (row + r) * row_bytes, b + k, k, type,
                                  size, minimums, codes);
        multiply(panel, p->a, b, blocks, &o);
        o.first = false;
    }
}

#define SMALL(type, SYMBOL, multiply, minimums)                                                    \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        const struct product p = {w, a, y, stride};                                                \
        for (size_t r = 0; r < rows; r += PANEL_ROWS) {                                            \
            size_t count = smaller_size(PANEL_ROWS, rows - r);                                     \
            panel_clear(scratch, count);                                                           \
            panel_small_rows(&p, row0 + r, count, scratch, HKK_##SYMBOL, sizeof(struct hk_##type), \
                             minimums, values_##type, FN(multiply));                               \
        }                                                                                          \
    }

/* clang-format off */
/* X(name, SYMBOL, multiply, minimums) */
#define SMALL_PRODUCTS(X)               \
    X(q4_0, Q4_0, small, false)         \
    X(q4_1, Q4_1, small_min, true)      \
    X(q5_0, Q5_0, small, false)         \
    X(q5_1, Q5_1, small_min, true)      \
    X(q8_0, Q8_0, small, false)         \
    X(iq4_nl, IQ4_NL, small, false)     \
    X(mxfp4, MXFP4, small, false)       \
    X(nvfp4, NVFP4, small_by_16, false)
/* clang-format on */

SMALL_PRODUCTS(SMALL)

#undef SMALL

/* ---- super-blocks ---- */

typedef void super_fn(const uint8_t *block, int8_t *to, struct numbers *n);

ALWAYS void panel_super_block(struct panel *panel, size_t r, const uint8_t *block, struct form f,
                              super_fn *codes)
{
    struct numbers n;
    codes(block, panel_row(panel, r), &n);
#pragma GCC unroll 16
    for (int g = 0; g < 256 / f.group; g++) {
        if (!f.unit_scale)
            vst1_s32(panel->scale[g][r / 2] + 2 * (r % 2), vdup_n_s32(n.scale[g]));
        if (f.minimums)
            panel->min[g][r] = n.min[g];
    }
    panel->d[0][r] = n.d;
    if (f.minimums)
        panel->m[0][r] = -n.dmin;
}

ALWAYS void panel_super_rows(const struct product *p, size_t row, size_t count, struct panel *panel,
                             size_t size, struct form f, super_fn *codes, multiply_fn *multiply)
{
    const size_t row_bytes = p->w->cols / 256 * size;
    struct place o = {p->y + row, p->stride, count, true};
    for (size_t b = 0; b < p->a->blocks; b++) {
        const uint8_t *block = p->w->data + row * row_bytes + b * size;
        for (size_t r = 0; r < count; r++)
            panel_super_block(panel, r, block + r * row_bytes, f, codes);
        multiply(panel, p->a, b, 1, &o);
        o.first = false;
    }
}

#define SUPER(type, SYMBOL, multiply, ...)                                                         \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        const struct form f = {__VA_ARGS__};                                                       \
        const struct product p = {w, a, y, stride};                                                \
        for (size_t r = 0; r < rows; r += PANEL_ROWS) {                                            \
            size_t count = smaller_size(PANEL_ROWS, rows - r);                                     \
            panel_clear(scratch, count);                                                           \
            panel_super_rows(&p, row0 + r, count, scratch, sizeof(struct hk_##type), f,            \
                             values_##type, FN(multiply));                                         \
        }                                                                                          \
    }

/* clang-format off */
/* X(name, SYMBOL, multiply, form...) */
#define SUPER_PRODUCTS(X)                                         \
    X(q2_k, Q2_K, super_by_16_min, .group = 16, .minimums = true) \
    X(q3_k, Q3_K, super_by_16, .group = 16)                       \
    X(q4_k, Q4_K, super_by_32_min, .group = 32, .minimums = true) \
    X(q5_k, Q5_K, super_by_32_min, .group = 32, .minimums = true) \
    X(q6_k, Q6_K, super_by_16, .group = 16)                       \
    X(iq1_s, IQ1_S, super_by_32, .group = 32)                     \
    X(iq1_m, IQ1_M, super_by_16, .group = 16)                     \
    X(iq2_xxs, IQ2_XXS, super_by_32, .group = 32)                 \
    X(iq2_xs, IQ2_XS, super_by_16, .group = 16)                   \
    X(iq2_s, IQ2_S, super_by_16, .group = 16)                     \
    X(iq3_xxs, IQ3_XXS, super_by_32, .group = 32)                 \
    X(iq3_s, IQ3_S, super_by_32, .group = 32)                     \
    X(iq4_xs, IQ4_XS, super_by_32, .group = 32)                   \
    X(tq1_0, TQ1_0, super_plain, .group = 32, .unit_scale = true) \
    X(tq2_0, TQ2_0, super_plain, .group = 32, .unit_scale = true)
/* clang-format on */

SUPER_PRODUCTS(SUPER)

#undef SUPER

#endif
