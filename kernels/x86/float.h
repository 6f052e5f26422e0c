/* Float weights: sixteen lanes along the row, for tiles of rows and tokens. */
#ifndef HKK_X86_FLOAT_H
#define HKK_X86_FLOAT_H

#include "kernels/x86/matmul.h"

/* Sixteen weights at P. */
typedef vec widen_fn(const uint8_t *p);

static inline vec widen_f32(const uint8_t *p)
{
    return v_load((const float *)(const void *)p);
}

static inline vec widen_f16(const uint8_t *p)
{
    return v_load_half((const uint16_t *)(const void *)p);
}

static inline vec widen_bf16(const uint8_t *p)
{
    return v_load_bf16(p);
}

/* The last N weights at P, fewer than 16. */
ALWAYS vec widen_some(const uint8_t *p, size_t n, size_t size, widen_fn *widen)
{
    uint8_t some[64] = {0};
    memcpy(some, p, n * size);
    return widen(some);
}

/* NR rows of ROW_BYTES at W times NT tokens of X. */
ALWAYS void float_block(const uint8_t *w, size_t row_bytes, const float *x, size_t cols, float *y,
                        size_t stride, size_t size, widen_fn *widen, int nr, int nt)
{
    vec acc[4][FLOAT_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++)
            acc[r][t] = v_set(0);
    size_t k = 0, rest = cols % 16;
    for (; k + 16 <= cols; k += 16) {
        vec v[4];
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++)
            v[r] = widen(w + (size_t)r * row_bytes + k * size);
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++) {
            vec u = v_load(x + (size_t)t * cols + k);
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++)
                acc[r][t] = v_fma(v[r], u, acc[r][t]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++) {
            if (rest > 0)
                acc[r][t] =
                    v_fma(widen_some(w + (size_t)r * row_bytes + k * size, rest, size, widen),
                          v_load_some(x + (size_t)t * cols + k, rest), acc[r][t]);
            y[(size_t)t * stride + (size_t)r] = v_sum(acc[r][t]);
        }
}

/* NR rows by NT tokens, and by single ones in the end. */
ALWAYS void float_tokens(const uint8_t *w, size_t row_bytes, const struct hkk_acts *a, float *y,
                         size_t stride, size_t size, widen_fn *widen, int nr, size_t nt)
{
    size_t t = 0;
    for (; nt > 1 && t + nt <= a->n; t += nt)
        float_block(w, row_bytes, a->x + t * a->cols, a->cols, y + t * stride, stride, size, widen,
                    nr, (int)nt);
    for (; t < a->n; t++)
        float_block(w, row_bytes, a->x + t * a->cols, a->cols, y + t * stride, stride, size, widen,
                    nr, 1);
}

/* Rows as f32 into SCRATCH, then as such. */
ALWAYS void float_widened(const uint8_t *w, size_t row_bytes, const struct hkk_acts *a, float *y,
                          size_t stride, size_t size, widen_fn *widen, int nr, float *row)
{
    size_t whole = a->cols / 16 * 16, rest = a->cols % 16, length = whole + 16;
    for (size_t r = 0; r < (size_t)nr; r++) {
        for (size_t k = 0; k < whole; k += 16)
            v_store(row + r * length + k, widen(w + r * row_bytes + k * size));
        v_store(row + r * length + whole,
                widen_some(w + r * row_bytes + whole * size, rest, size, widen));
    }
    float_tokens((const uint8_t *)row, length * sizeof *row, a, y, stride, sizeof *row, widen_f32,
                 nr, FLOAT_TOKENS);
}

#define FLOAT(type, size)                                                                          \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        size_t r = row0, row_bytes = w->cols * (size);                                             \
        const uint8_t *p = w->data + r * row_bytes;                                                \
        if (a->n < 3)                                                                              \
            for (; r + 4 <= row0 + rows; r += 4, p += 4 * row_bytes)                               \
                float_tokens(p, row_bytes, a, y + r, stride, size, widen_##type, 4, 1);            \
        for (; r + FLOAT_ROWS <= row0 + rows; r += FLOAT_ROWS, p += FLOAT_ROWS * row_bytes)        \
            float_widened(p, row_bytes, a, y + r, stride, size, widen_##type, FLOAT_ROWS,          \
                          scratch);                                                                \
        for (; r < row0 + rows; r++, p += row_bytes)                                               \
            float_widened(p, row_bytes, a, y + r, stride, size, widen_##type, 1, scratch);         \
    }

FLOAT(f32, 4)
FLOAT(f16, 2)
FLOAT(bf16, 2)

#undef FLOAT

/* A tile and sums of 16 of all tokens' q, or rows in f32. */
static size_t FN(scratch_bytes)(size_t cols, size_t n)
{
    size_t rows = FLOAT_ROWS * (cols + 16) * sizeof(float);
    size_t tile = sizeof(struct tile) + n * (cols / 16) * sizeof(int16_t);
    return ((rows > tile ? rows : tile) + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN;
}

#endif
