/* Products of tiles: chunks of rows and columns are unpacked, then multiplied with all tokens. */
#ifndef HKK_X86_AMX_MATMUL_H
#define HKK_X86_AMX_MATMUL_H

#include "kernels/x86/amx_small.h"
#include "kernels/x86/amx_super.h"
#include "kernels/x86/crossovers.h"

enum {
    MAX_TOKENS = 512, /* at once: a multiple of 32 */
    GROUPS = 4,       /* of 16 rows, unpacked together; fewer where they have two planes */
    SUPER_GROUPS = 2,
};

typedef void pack_fn(const struct tile_product *p, const uint8_t *row, size_t row_bytes,
                     size_t count, size_t block, struct rows *out);
typedef void chunk_fn(const struct tile_product *p, size_t block, size_t column);

struct shape {
    const struct tile_config *config;
    size_t columns, span; /* of a chunk: columns, blocks of activations */
    size_t groups;        /* of rows, unpacked together */
    chunk_fn *multiply;
};

static const struct shape small = {&tiles_of_64, 256, 8, GROUPS, FN(small_chunk)},
                          small_min = {&tiles_of_64, 256, 8, GROUPS, FN(small_chunk_min)},
                          nvfp4 = {&tiles_of_32, 128, 4, GROUPS, FN(nvfp4_chunk)},
                          super = {&tiles_of_64, 256, 1, SUPER_GROUPS, FN(super_chunk)},
                          super_min = {&tiles_of_64, 256, 1, SUPER_GROUPS, FN(super_chunk_min)},
                          super_high = {&tiles_of_64, 256, 1, SUPER_GROUPS, FN(super_chunk_high)},
                          super_high_min = {&tiles_of_64, 256, 1, SUPER_GROUPS,
                                            FN(super_chunk_high_min)};

/* Scratch of a product with N tokens, beside the tokens. */
static inline size_t work_bytes(size_t n)
{
    size_t max = up_to(n < MAX_TOKENS ? n : MAX_TOKENS, 32);
    return GROUPS * (sizeof(struct rows) + max * 16 * sizeof(float)) + sizeof(struct some_rows);
}

/* GROUPS groups of rows from ROW on, of which COUNT rows exist. */
static inline void chunk_of_rows(struct tile_product *p, const struct hkk_matrix *w, size_t row,
                                 size_t row_bytes, const struct shape *shape, pack_fn *pack)
{
    size_t count = p->out.count, blocks = p->a->blocks;
    p->groups = (count + 15) / 16;
    for (size_t b = 0; b < blocks; b += shape->span) {
        for (size_t g = 0; g < p->groups; g++) {
            size_t some = count - 16 * g < 16 ? count - 16 * g : 16;
            if (some < 16 || blocks - b < shape->span)
                memset(p->rows + g, 0, sizeof *p->rows);
            pack(p, w->data + (row + 16 * g) * row_bytes, row_bytes, some, b, p->rows + g);
        }
        p->out.first = b == 0;
        p->out.last = b + shape->span >= blocks;
        stored();
        shape->multiply(p, b, b / shape->span * shape->columns);
    }
}

/* Rows [ROW0, ROW0 + ROWS) times the tokens of P, whose scratch is behind SCRATCH. */
static __attribute__((noinline)) void FN(tiles)(struct tile_product *p, const struct hkk_matrix *w,
                                                size_t row0, size_t rows, size_t row_bytes,
                                                float *y, char *scratch, const struct shape *shape,
                                                pack_fn *pack)
{
    p->rows = (void *)scratch;
    p->copy = (void *)(p->rows + GROUPS);
    p->out.making = (void *)(p->copy + 1);
    p->out.tiles = p->s.tiles;
    memset(p->rows, 0, GROUPS * sizeof *p->rows);
    stored();
    _tile_loadconfig(shape->config);
    for (size_t r = row0, max = 16 * shape->groups; r < row0 + rows; r += max) {
        size_t left = row0 + rows - r;
        p->out.count = left < max ? left : max;
        p->out.y = y + r;
        chunk_of_rows(p, w, r, row_bytes, shape, pack);
    }
    _tile_release();
}

/* The tokens of A in tiles; at SCRATCH, unless quantize() has left them elsewhere. */
static inline struct tokens tokens_of(const struct hkk_acts *a, void *scratch)
{
    struct tokens s = tokens_in(a, a->tiles != NULL ? a->tiles : scratch);
    if (a->tiles == NULL)
        tokens_to_tiles(&s, a, 0, a->n);
    return s;
}

/* Products with few tokens are those of AVX-512. */
static inline void product(unsigned type, const struct hkk_matrix *w, size_t row0, size_t rows,
                           const struct hkk_acts *a, float *y, size_t stride, char *scratch,
                           const struct shape *shape, pack_fn *pack)
{
    const size_t row_bytes = hkk_row_bytes(type, w->cols);
    if (a->n < crossovers[type].amx || row_bytes > MOST_APART) {
        hkk_avx512.matmul[type](w, row0, rows, a, y, stride, scratch);
        return;
    }
    const struct tokens all = tokens_of(a, scratch + work_bytes(a->n));
    for (size_t t = 0; t < a->n; t += MAX_TOKENS) {
        size_t n = a->n - t < MAX_TOKENS ? a->n - t : MAX_TOKENS;
        struct tile_product p = {.a = a, .s = tokens_from(&all, t / 16, n)};
        p.out.n = n;
        p.out.stride = stride;
        FN(tiles)
        (&p, w, row0, rows, row_bytes, y + t * stride, scratch, shape, pack);
    }
}

#define MATMUL(type, SYMBOL, shape)                                                                \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        product(HKK_##SYMBOL, w, row0, rows, a, y, stride, scratch, &(shape), FN(pack_##type));    \
    }

#define SMALL(type, SYMBOL, shape, ...)                                                            \
    static void FN(pack_##type)(const struct tile_product *p, const uint8_t *row,                  \
                                size_t row_bytes, size_t count, size_t b, struct rows *out)        \
    {                                                                                              \
        const struct plan f = {__VA_ARGS__};                                                       \
        size_t blocks = p->a->blocks - b < 8 ? p->a->blocks - b : 8;                               \
        pack_small(p->copy, out, row + b * sizeof(struct hk_##type), row_bytes, count, blocks,     \
                   HKK_##SYMBOL, sizeof(struct hk_##type), f);                                     \
    }                                                                                              \
    MATMUL(type, SYMBOL, shape)

/* clang-format off */
/* X(name, SYMBOL, shape, form...) */
#define SMALL_PRODUCTS(X)                       \
    X(q4_0, Q4_0, small, .offset = 8)           \
    X(q5_0, Q5_0, small, .offset = 16)          \
    X(q8_0, Q8_0, small, .is_signed = true)     \
    X(iq4_nl, IQ4_NL, small, .is_signed = true) \
    X(mxfp4, MXFP4, small, .offset = 12)        \
    X(q4_1, Q4_1, small_min, .minimums = true)  \
    X(q5_1, Q5_1, small_min, .minimums = true)
/* clang-format on */

SMALL_PRODUCTS(SMALL)

#undef SMALL

static void FN(pack_nvfp4)(const struct tile_product *p, const uint8_t *row, size_t row_bytes,
                           size_t count, size_t b, struct rows *out)
{
    size_t blocks = p->a->blocks - b < 4 ? p->a->blocks - b : 4;
    pack_nvfp4(p->copy, out, row + b / 2 * sizeof(struct hk_nvfp4), row_bytes, count, blocks);
}

MATMUL(nvfp4, NVFP4, nvfp4)

#define SUPER(type, SYMBOL, shape, ...)                                                            \
    static void FN(pack_##type)(const struct tile_product *p, const uint8_t *row,                  \
                                size_t row_bytes, size_t count, size_t b, struct rows *out)        \
    {                                                                                              \
        const struct plan f = {__VA_ARGS__};                                                       \
        const size_t size = sizeof(struct hk_##type);                                              \
        struct turned s;                                                                           \
        row += b * size;                                                                           \
        pack_super(p->copy, out, row, row_bytes, count, HKK_##SYMBOL, size, &s);                   \
        scale_super(out, &s, f);                                                                   \
    }                                                                                              \
    MATMUL(type, SYMBOL, shape)

/* clang-format off */
/* X(name, SYMBOL, shape, form...) */
#define SUPER_PRODUCTS(X)                                          \
    X(q2_k, Q2_K, super_min, .minimums = true)                     \
    X(q3_k, Q3_K, super_high, .offset = 4, .high = true)           \
    X(q4_k, Q4_K, super_high_min, .minimums = true, .high = true)  \
    X(q5_k, Q5_K, super_high_min, .minimums = true, .high = true)  \
    X(q6_k, Q6_K, super_high, .offset = 32, .high = true)          \
    X(iq1_s, IQ1_S, super_high, .offset = 9, .high = true)         \
    X(iq1_m, IQ1_M, super_high, .offset = 9, .high = true)         \
    X(iq2_xxs, IQ2_XXS, super_high, .offset = 43, .high = true)    \
    X(iq2_xs, IQ2_XS, super_high, .offset = 43, .high = true)      \
    X(iq2_s, IQ2_S, super_high, .offset = 43, .high = true)        \
    X(iq3_xxs, IQ3_XXS, super_high, .offset = 62, .high = true)    \
    X(iq3_s, IQ3_S, super_high, .offset = 15, .high = true)        \
    X(iq4_xs, IQ4_XS, super_high, .is_signed = true, .high = true) \
    X(tq1_0, TQ1_0, super, .offset = 1)                            \
    X(tq2_0, TQ2_0, super, .offset = 1)
/* clang-format on */

SUPER_PRODUCTS(SUPER)

#undef SUPER
#undef MATMUL

/* ---- types that have no tiles, float weights among them: AVX-512's products ---- */

#define EACH(SYMBOL, name)                                                                         \
    static void FN(other_##name)(const struct hkk_matrix *w, size_t row0, size_t rows,             \
                                 const struct hkk_acts *a, float *y, size_t stride, void *scratch) \
    {                                                                                              \
        hkk_avx512.matmul[HKK_##SYMBOL](w, row0, rows, a, y, stride, scratch);                     \
    }
HKK_EACH_TYPE
#undef EACH

#define HKK_OTHER(name) FN(other_##name)
#define HKK_PRODUCTS(X) SMALL_PRODUCTS(X) SUPER_PRODUCTS(X) X(nvfp4, NVFP4, nvfp4)

static size_t FN(scratch_bytes)(size_t cols, size_t n)
{
    size_t small_ones = FN(tiles_bytes)(HKK_KIND_Q8_32, n, cols);
    size_t supers = FN(tiles_bytes)(HKK_KIND_Q8_256, n, cols);
    size_t mine = work_bytes(n) + (small_ones > supers ? small_ones : supers);
    size_t others = hkk_avx512.scratch_bytes(cols, n);
    return up_to(mine > others ? mine : others, HKK_ALIGN);
}

#endif
