/* Float weights: sixteen lanes along the row, for tiles of rows and tokens. */
#ifndef HKK_ARM_FLOAT_H
#define HKK_ARM_FLOAT_H

#include "kernels/arm/panel.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/kernels.h"
#include "kernels/tmpl/level.h"

enum { FLOAT_ROWS = 2, FLOAT_TOKENS = 3, FLOAT_FEW_ROWS = 4 };

/* Four weights at P. */
typedef float32x4_t load_fn(const uint8_t *p);

static inline float32x4_t widen_4_f32(const uint8_t *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

static inline float32x4_t widen_4_f16(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

static inline float32x4_t widen_4_bf16(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* NR rows of ROW_BYTES at W, sixteen weights each, times NT tokens of X, which lie COLS apart. Sums
 * are [row][token][four lanes]. */
ALWAYS void float_sixteen(float32x4_t acc[][4], const uint8_t *w, size_t row_bytes, const float *x,
                          size_t cols, size_t size, load_fn *load, int nr, int nt)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        float32x4_t v[FLOAT_FEW_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++)
            v[r] = load(w + (size_t)r * row_bytes + 4 * i * size);
#pragma GCC unroll 3
        for (int t = 0; t < nt; t++) {
            float32x4_t u = vld1q_f32(x + (size_t)t * cols + 4 * i);
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++)
                acc[r * nt + t][i] = vfmaq_f32(acc[r * nt + t][i], v[r], u);
        }
    }
}

/* The last N weights and numbers, fewer than 16, with zeros after them. */
ALWAYS void float_tail(float32x4_t acc[][4], const uint8_t *w, size_t row_bytes, const float *x,
                       size_t cols, size_t n, size_t size, load_fn *load, int nr, int nt)
{
    uint8_t weights[FLOAT_FEW_ROWS][64] = {{0}};
    float numbers[FLOAT_TOKENS][16] = {{0}};
    for (int r = 0; r < nr; r++)
        memcpy(weights[r], w + (size_t)r * row_bytes, n * size);
    for (int t = 0; t < nt; t++)
        memcpy(numbers[t], x + (size_t)t * cols, n * sizeof *x);
    float_sixteen(acc, weights[0], sizeof *weights, numbers[0], 16, size, load, nr, nt);
}

/* NR rows times NT tokens. */
ALWAYS void float_block(const uint8_t *w, size_t row_bytes, const float *x, size_t cols, float *y,
                        size_t stride, size_t size, load_fn *load, int nr, int nt)
{
    float32x4_t acc[FLOAT_ROWS * FLOAT_TOKENS][4];
#pragma GCC unroll 24
    for (int i = 0; i < 4 * nr * nt; i++)
        acc[i / 4][i % 4] = vdupq_n_f32(0);
    size_t k = 0, rest = cols % 16;
    for (; k + 16 <= cols; k += 16)
        float_sixteen(acc, w + k * size, row_bytes, x + k, cols, size, load, nr, nt);
    if (rest > 0)
        float_tail(acc, w + k * size, row_bytes, x + k, cols, rest, size, load, nr, nt);
#pragma GCC unroll 6
    for (int i = 0; i < nr * nt; i++)
        y[(size_t)(i % nt) * stride + (size_t)(i / nt)] =
            v_sum((vec){acc[i][0], acc[i][1], acc[i][2], acc[i][3]});
}

/* NR rows by NT tokens, and by single ones in the end. */
ALWAYS void float_tokens_neon(const uint8_t *w, size_t row_bytes, const struct hkk_acts *a,
                              float *y, size_t stride, size_t size, load_fn *load, int nr, int nt)
{
    size_t t = 0;
    for (; t + (size_t)nt <= a->n; t += (size_t)nt)
        float_block(w, row_bytes, a->x + t * a->cols, a->cols, y + t * stride, stride, size, load,
                    nr, nt);
    for (; t < a->n; t++)
        float_block(w, row_bytes, a->x + t * a->cols, a->cols, y + t * stride, stride, size, load,
                    nr, 1);
}

/* NR rows as f32 into ROW, then as such. */
ALWAYS void float_widened(const uint8_t *w, size_t row_bytes, const struct hkk_acts *a, float *y,
                          size_t stride, size_t size, load_fn *load, int nr, float *row)
{
    const size_t cols = a->cols, whole = cols / 4 * 4;
    for (size_t r = 0; r < (size_t)nr; r++) {
        uint8_t last[16] = {0};
        for (size_t k = 0; k < whole; k += 4)
            vst1q_f32(row + r * (whole + 4) + k, load(w + r * row_bytes + k * size));
        memcpy(last, w + r * row_bytes + whole * size, (cols - whole) * size);
        vst1q_f32(row + r * (whole + 4) + whole, load(last));
    }
    float_tokens_neon((const uint8_t *)row, (whole + 4) * sizeof *row, a, y, stride, sizeof *row,
                      widen_4_f32, nr, FLOAT_TOKENS);
}

#define FLOAT(type, SYMBOL, size)                                                                  \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        size_t r = row0, row_bytes = w->cols * (size), end = row0 + rows;                          \
        const uint8_t *p = w->data + r * row_bytes;                                                \
        if (a->n < FLOAT_TOKENS)                                                                   \
            for (; r + FLOAT_FEW_ROWS <= end;                                                      \
                 r += FLOAT_FEW_ROWS, p += FLOAT_FEW_ROWS * row_bytes)                             \
                float_tokens_neon(p, row_bytes, a, y + r, stride, size, widen_4_##type,            \
                                  FLOAT_FEW_ROWS, 1);                                              \
        for (; r + FLOAT_ROWS <= end; r += FLOAT_ROWS, p += FLOAT_ROWS * row_bytes)                \
            float_widened(p, row_bytes, a, y + r, stride, size, widen_4_##type, FLOAT_ROWS,        \
                          scratch);                                                                \
        for (; r < end; r++, p += row_bytes)                                                       \
            float_widened(p, row_bytes, a, y + r, stride, size, widen_4_##type, 1, scratch);       \
    }

/* clang-format off */
/* X(name, SYMBOL, bytes) */
#define FLOAT_PRODUCTS(X) \
    X(f32, F32, 4)   \
    X(f16, F16, 2)   \
    X(bf16, BF16, 2)
/* clang-format on */

FLOAT_PRODUCTS(FLOAT)

#undef FLOAT

/* A panel, or rows in f32. */
static size_t FN(scratch_bytes)(size_t cols, size_t n)
{
    (void)n;
    size_t rows = FLOAT_ROWS * (cols + 4) * sizeof(float), panel = sizeof(struct panel);
    return ((rows > panel ? rows : panel) + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN;
}

#endif
