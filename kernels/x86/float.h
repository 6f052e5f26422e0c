/* Float weights: sixteen lanes along the row.
 *
 * Few tokens stream along rows where they lie. For many, a panel of rows is widened once, and in
 * each stretch of columns FLOAT_BLOCK tokens, which stay in the first cache, meet all its rows: a
 * tile of PART_ROWS rows by PART_TOKENS tokens has its accumulators in registers, which wait in
 * scratch from one stretch to the next. In the end there is one tree for each result, sixteen rows
 * at a time. All is laid out in the order in which it is read: rows of a power of two of bytes
 * would meet in few sets of the cache. */
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

/* ---- few tokens ---- */

/* NR rows of ROW_BYTES at W times NT tokens of X. The same columns of the next rows are fetched. */
ALWAYS void float_stream(const uint8_t *w, size_t row_bytes, const float *x, size_t cols, float *y,
                         size_t stride, size_t size, widen_fn *widen, int nr, int nt)
{
    vec acc[4][PART_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++)
            acc[r][t] = v_set(0);
    size_t k = 0, rest = cols % 16;
    for (; k + 16 <= cols; k += 16) {
        vec v[4];
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++) {
            const uint8_t *p = w + (size_t)r * row_bytes + k * size;
            if (nt == 1)
                __builtin_prefetch(p + (size_t)nr * row_bytes);
            else /* not where the tokens are: rows of a power of two of bytes share few sets */
                __builtin_prefetch(p + (size_t)nr * row_bytes, 0, 2);
            v[r] = widen(p);
        }
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

/* NR rows times all tokens of A: groups of equal size, or nearly so, of what registers hold. */
ALWAYS void float_few(const uint8_t *w, size_t row_bytes, const struct hkk_acts *a, float *y,
                      size_t stride, size_t size, widen_fn *widen, int nr)
{
    enum { MAX = PART_TOKENS };
    for (size_t t = 0, groups = (a->n + MAX - 1) / MAX, some; t < a->n; t += some, groups--) {
        const float *x = a->x + t * a->cols;
        float *to = y + t * stride;
        some = (a->n - t + groups - 1) / groups;
        if (some == 1)
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, 1);
        else if (some == 2)
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, 2);
        else if (some == 3)
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, 3);
        else if (some == 4)
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, MAX < 4 ? 1 : 4);
        else if (some == 5)
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, MAX < 5 ? 1 : 5);
        else
            float_stream(w, row_bytes, x, a->cols, to, stride, size, widen, nr, MAX < 6 ? 1 : 6);
    }
}

/* ---- many tokens ---- */

enum { ACC_ROW = FLOAT_BLOCK * 16 };

/* A panel, of which COUNT rows are used. */
struct panel {
    size_t rows, count, steps;
    /* [stretch][PART_ROWS rows][part][step][row][PART]; stretches of FLOAT_STEPS but for the last
     */
    float *w;
    float *x;   /* [PART_TOKENS tokens][part][step][token][PART] of a stretch */
    float *acc; /* [PART_ROWS rows][token][row][16] */
};

static inline size_t float_panel_rows(size_t cols)
{
    size_t rows = FLOAT_BYTES / (cols * sizeof(float)) / 16 * 16;
    return rows < 16 ? 16 : rows > FLOAT_PANEL ? FLOAT_PANEL : rows;
}

static inline struct panel float_panel(size_t cols, void *scratch)
{
    struct panel p = {.rows = float_panel_rows(cols), .steps = (cols + 15) / 16};
    p.acc = scratch;
    p.x = p.acc + p.rows * ACC_ROW;
    p.w = p.x + FLOAT_BLOCK * FLOAT_STEPS * 16;
    return p;
}

/* The panel's rows from R on, PART_ROWS of them, in the stretch from step S on, which has N. */
static inline float *float_rows(const struct panel *p, size_t r, size_t s, size_t n)
{
    return p->w + 16 * (s * p->rows + r * n);
}

/* Row R of the panel from W; zeros where it is not there. */
ALWAYS void widen_row(const struct panel *p, size_t r, const uint8_t *w, size_t cols, size_t size,
                      widen_fn *widen)
{
    for (size_t s = 0; s < p->steps; s += FLOAT_STEPS) {
        size_t n = smaller_size(FLOAT_STEPS, p->steps - s);
        float *to = float_rows(p, r / PART_ROWS * PART_ROWS, s, n) + r % PART_ROWS * PART;
        for (size_t i = 0; i < n; i++) {
            size_t k = (s + i) * 16;
            vec v = r >= p->count    ? v_set(0)
                    : k + 16 <= cols ? widen(w + k * size)
                                     : widen_some(w + k * size, cols - k, size, widen);
            part_store_rows(to + i * PART_ROWS * PART, v, n * PART_ROWS * PART);
        }
    }
}

/* N steps from S on of TOKENS tokens from X on. */
static inline void float_tokens(const struct panel *p, const float *x, size_t cols, size_t tokens,
                                size_t s, size_t n)
{
    for (size_t t = 0; t < tokens; t++) {
        float *to = p->x + t / PART_TOKENS * PART_TOKENS * n * 16 + t % PART_TOKENS * PART;
        for (size_t i = 0; i < n; i++) {
            size_t k = (s + i) * 16;
            const float *from = x + t * cols + k;
            part_store_rows(to + i * PART_TOKENS * PART,
                            k + 16 <= cols ? v_load(from) : v_load_some(from, cols - k),
                            n * PART_TOKENS * PART);
        }
    }
}

/* One part of PART_ROWS rows by NT tokens over STEPS steps. */
ALWAYS void float_part(const float *w, const float *x, size_t steps, float *to, bool first, int nt)
{
    part acc[PART_ROWS][PART_TOKENS];
#pragma GCC unroll 6
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 4
        for (int r = 0; r < PART_ROWS; r++)
            acc[r][t] = first ? part_zero() : part_load(to + 16 * (t * PART_ROWS + r));
#pragma GCC unroll 1
    for (; steps > 0; steps--, w += PART_ROWS * PART, x += PART_TOKENS * PART) {
        part v[PART_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < PART_ROWS; r++)
            v[r] = part_load(w + r * PART);
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++) {
            part u = part_load(x + t * PART);
#pragma GCC unroll 4
            for (int r = 0; r < PART_ROWS; r++)
                acc[r][t] = part_fma(v[r], u, acc[r][t]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 4
        for (int r = 0; r < PART_ROWS; r++)
            part_store(to + 16 * (t * PART_ROWS + r), acc[r][t]);
}

ALWAYS void float_parts(const float *w, const float *x, size_t steps, float *to, bool first, int nt)
{
    for (size_t i = 0; i < PARTS; i++)
        float_part(w + i * steps * PART_ROWS * PART, x + i * steps * PART_TOKENS * PART, steps,
                   to + i * PART, first, nt);
}

static __attribute__((noinline)) void FN(float_tile)(const float *w, const float *x, size_t steps,
                                                     float *to, bool first, size_t nt)
{
    enum { MAX = PART_TOKENS };
    if (nt == MAX)
        float_parts(w, x, steps, to, first, MAX);
    else if (nt == 1)
        float_parts(w, x, steps, to, first, 1);
    else if (nt == 2)
        float_parts(w, x, steps, to, first, 2);
    else if (nt == 3)
        float_parts(w, x, steps, to, first, 3);
    else if (nt == 4)
        float_parts(w, x, steps, to, first, MAX < 4 ? 1 : 4);
    else
        float_parts(w, x, steps, to, first, MAX < 5 ? 1 : 5);
}

/* Fetch what float_tokens() will read after the stretch from S on, while that is multiplied: the
 * next stretch, or the first one of the next tokens. Share R of the rows' shares. Fetching past the
 * end does no harm. */
static inline void float_fetch(const struct panel *p, const float *x, size_t cols, size_t s,
                               size_t r)
{
    size_t next = s + FLOAT_STEPS, at = next < p->steps ? next * 16 : FLOAT_BLOCK * cols;
    for (size_t t = r / PART_ROWS; t < FLOAT_BLOCK; t += p->rows / PART_ROWS)
        for (size_t i = 0; i < FLOAT_STEPS; i++)
            __builtin_prefetch((const char *)x + (at + t * cols + i * 16) * sizeof *x, 0, 2);
}

/* The panel times TOKENS tokens, at most FLOAT_BLOCK. */
static void FN(float_block)(const struct panel *p, const float *x, size_t cols, size_t tokens,
                            float *y, size_t stride)
{
    for (size_t s = 0; s < p->steps; s += FLOAT_STEPS) {
        size_t n = smaller_size(FLOAT_STEPS, p->steps - s);
        float_tokens(p, x, cols, tokens, s, n);
        for (size_t r = 0; r < p->count; r += PART_ROWS) {
            float_fetch(p, x, cols, s, r);
            for (size_t t = 0; t < tokens; t += PART_TOKENS)
                FN(float_tile)
            (float_rows(p, r, s, n), p->x + t * n * 16, n,
             p->acc + r * ACC_ROW + t * PART_ROWS * 16, s == 0,
             smaller_size(PART_TOKENS, tokens - t));
        }
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < p->count; r += 16) {
            vec v = part_trees(p->acc + r * ACC_ROW + t * PART_ROWS * 16, PART_ROWS * ACC_ROW);
            if (p->count - r >= 16)
                v_store(y + t * stride + r, v);
            else
                v_store_some(y + t * stride + r, v, p->count - r);
        }
}

ALWAYS void float_many(const uint8_t *w, size_t row_bytes, size_t rows, const struct hkk_acts *a,
                       float *y, size_t stride, size_t size, widen_fn *widen, struct panel *p)
{
    for (size_t r = 0; r < rows; r += p->rows) {
        p->count = smaller_size(p->rows, rows - r);
        for (size_t i = 0; i < (p->count + PART_ROWS - 1) / PART_ROWS * PART_ROWS; i++)
            widen_row(p, i, w + (r + i) * row_bytes, a->cols, size, widen);
        for (size_t t = 0; t < a->n; t += FLOAT_BLOCK)
            FN(float_block)
        (p, a->x + t * a->cols, a->cols, smaller_size(FLOAT_BLOCK, a->n - t), y + t * stride + r,
         stride);
    }
}

#define FLOAT(type, SYMBOL, size)                                                                  \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        size_t row_bytes = w->cols * (size), r = 0, each = a->n == 1 ? 4 : STREAM_ROWS;            \
        const uint8_t *p = w->data + row0 * row_bytes;                                             \
        struct panel panel;                                                                        \
        y += row0;                                                                                 \
        if (a->n >= PANELS_FROM) {                                                                 \
            panel = float_panel(w->cols, scratch);                                                 \
            float_many(p, row_bytes, rows, a, y, stride, size, widen_##type, &panel);              \
            return;                                                                                \
        }                                                                                          \
        for (; r + each <= rows; r += each)                                                        \
            if (a->n == 1)                                                                         \
                float_stream(p + r * row_bytes, row_bytes, a->x, a->cols, y + r, stride, size,     \
                             widen_##type, 4, 1);                                                  \
            else                                                                                   \
                float_few(p + r * row_bytes, row_bytes, a, y + r, stride, size, widen_##type,      \
                          STREAM_ROWS);                                                            \
        for (; r < rows; r++)                                                                      \
            float_few(p + r * row_bytes, row_bytes, a, y + r, stride, size, widen_##type, 1);      \
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

/* A tile and sums of 16 of all tokens' q, or a panel. */
static size_t FN(scratch_bytes)(size_t cols, size_t n)
{
    size_t rows = float_panel_rows(cols), steps = (cols + 15) / 16;
    size_t floats = rows * (ACC_ROW + steps * 16) + FLOAT_BLOCK * FLOAT_STEPS * 16;
    size_t bytes = floats * sizeof(float);
    size_t tile = sizeof(struct tile) + n * (cols / 16) * sizeof(int16_t);
    return ((bytes > tile ? bytes : tile) + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN;
}

#endif
