/* What adapters add to a product: y += B x, B of few columns, which lie one behind the other, so
 * that rows are lanes. sum = 0, then sum = sum + b[k] * x[k] for k in sequence, the product rounded
 * for itself; y = y + sum. */

enum { LOW_TOKENS = 4, LOW_ROWS = 32 };

/* NT tokens and NR sixteens of rows, from ROW on. */
static inline __attribute__((always_inline)) void
FN(low_rank_block)(const struct hkk_low_rank *b, size_t row, const float *x, size_t x_stride,
                   float *y, size_t y_stride, int nt, int nr)
{
    vec sum[LOW_TOKENS * LOW_ROWS / 16];
#pragma GCC unroll 8
    for (int i = 0; i < nt * nr; i++)
        sum[i] = v_set(0);
    for (size_t k = 0; k < b->rank; k++) {
        const float *from = b->b + k * b->stride + row;
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
            for (int r = 0; r < nr; r++)
                sum[t * nr + r] = v_add(sum[t * nr + r], v_mul(v_load(from + 16 * r),
                                                               v_set(x[(size_t)t * x_stride + k])));
    }
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
        for (int r = 0; r < nr; r++) {
            float *to = y + (size_t)t * y_stride + 16 * r;
            v_store(to, v_add(v_load(to), sum[t * nr + r]));
        }
}

/* The last ROWS rows, fewer than 16. */
static inline void FN(low_rank_tail)(const struct hkk_low_rank *b, size_t row, size_t rows,
                                     const float *x, float *y)
{
    vec sum = v_set(0);
    for (size_t k = 0; k < b->rank; k++)
        sum = v_add(sum, v_mul(v_load_some(b->b + k * b->stride + row, rows), v_set(x[k])));
    v_store_some(y, v_add(v_load_some(y, rows), sum), rows);
}

static void FN(add_low_rank)(const struct hkk_low_rank *b, size_t row0, size_t rows, const float *x,
                             size_t x_stride, size_t n, float *y, size_t y_stride)
{
    size_t r = 0;
    for (; r + LOW_ROWS <= rows; r += LOW_ROWS) {
        size_t t = 0;
        for (; t + LOW_TOKENS <= n; t += LOW_TOKENS)
            FN(low_rank_block)
        (b, row0 + r, x + t * x_stride, x_stride, y + t * y_stride + r, y_stride, LOW_TOKENS,
         LOW_ROWS / 16);
        for (; t < n; t++)
            FN(low_rank_block)
        (b, row0 + r, x + t * x_stride, x_stride, y + t * y_stride + r, y_stride, 1, LOW_ROWS / 16);
    }
    for (; r < rows; r += 16)
        for (size_t t = 0; t < n; t++) {
            const float *from = x + t * x_stride;
            float *to = y + t * y_stride + r;
            if (rows - r < 16)
                FN(low_rank_tail)(b, row0 + r, rows - r, from, to);
            else
                FN(low_rank_block)(b, row0 + r, from, x_stride, to, y_stride, 1, 1);
        }
}
