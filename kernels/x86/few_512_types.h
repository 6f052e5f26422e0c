/* Products for few tokens, sixteen rows at a time, for each type. */
#ifndef HKK_X86_FEW_512_TYPES_H
#define HKK_X86_FEW_512_TYPES_H

#include "kernels/x86/crossovers.h"
#include "kernels/x86/few_512_grid.h"
#include "kernels/x86/few_512_super.h"

/* Gives whether there are enough rows for them; the last sixteen may be some that have been done.
 */
#define FEW_ROWS(type, ...) few_512_##type(__VA_ARGS__)

#define FEW_TOKENS(symbol) crossover_or(crossovers[HKK_##symbol].avx512, MANY)

/* The first N tokens' results of sixteen rows. */
ALWAYS void store_group(float *y, size_t stride, const __m512 *acc, size_t n)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < SHARED; i++)
        if (i < n)
            _mm512_storeu_ps(y + i * stride, acc[i]);
}

/* MULTIPLY writes sixteen rows from ROW on of all tokens to Y. */
#define ROWS(type, elems, multiply)                                                                \
    static __attribute__((noinline)) bool few_512_##type(const struct hkk_matrix *w, size_t row0,  \
                                                         size_t rows, const struct hkk_acts *a,    \
                                                         float *y, size_t stride)                  \
    {                                                                                              \
        const size_t size = sizeof(struct hk_##type), bytes = w->cols / (elems)*size;              \
        if (rows < 16 || bytes > INT32_MAX / 16)                                                   \
            return false;                                                                          \
        struct rows_16 r = {.stride = bytes, .at = offsets_16(bytes)};                             \
        for (size_t done = 0; done < rows; done += 16) {                                           \
            size_t row = row0 + (done + 16 <= rows ? done : rows - 16);                            \
            r.p = w->data + row * bytes;                                                           \
            multiply                                                                               \
        }                                                                                          \
        return true;                                                                               \
    }

#define EACH_TOKEN(product)                                                                        \
    for (size_t t = 0; t < a->n; t++)                                                              \
        _mm512_storeu_ps(y + t * stride + row, product);

/* PRODUCT is called with four tokens, or two, or one; three are four of which one is there twice.
 */
#define GROUPS_OF_TOKENS(product)                                                                  \
    for (size_t t = 0; t < a->n; t += SHARED) {                                                    \
        const size_t left = a->n - t;                                                              \
        __m512 acc[SHARED];                                                                        \
        if (left == 1)                                                                             \
            product(1);                                                                            \
        else if (left == 2)                                                                        \
            product(2);                                                                            \
        else                                                                                       \
            product(4);                                                                            \
        store_group(y + t * stride + row, stride, acc, left);                                      \
    }

#define SMALL_GROUP(n) few_small_16(&r, a, t, n, acc, number, size)
#define SMALL(type, symbol) ROWS(type, 32, enum {number = symbol}; GROUPS_OF_TOKENS(SMALL_GROUP))

/* Of super-blocks each is a function of its own: in one, gcc has them share registers, which one
 * token pays for. */
#define SUPER_GROUP(type, n, form)                                                                 \
    static __attribute__((noinline)) void few_512_##type##_##n(                                    \
        const struct rows_16 *r, const struct hkk_acts *a, size_t t, __m512 *acc)                  \
    {                                                                                              \
        few_super_16(r, a, t, n, acc, sizeof(struct hk_##type), form, pair_##type);                \
    }
#define SUPER(type, ...)                                                                           \
    SUPER_GROUP(type, 1, ((struct form_16){__VA_ARGS__}))                                          \
    SUPER_GROUP(type, 2, ((struct form_16){__VA_ARGS__}))                                          \
    SUPER_GROUP(type, 4, ((struct form_16){__VA_ARGS__}))                                          \
    ROWS(type, 256, {                                                                              \
        for (size_t t = 0; t < a->n; t += SHARED) {                                                \
            const size_t left = a->n - t;                                                          \
            __m512 acc[SHARED];                                                                    \
            (left == 1   ? few_512_##type##_1                                                      \
             : left == 2 ? few_512_##type##_2                                                      \
                         : few_512_##type##_4)(&r, a, t, acc);                                     \
            store_group(y + t * stride + row, stride, acc, left);                                  \
        }                                                                                          \
    })

SMALL(q4_0, HKK_Q4_0)
SMALL(q4_1, HKK_Q4_1)
SMALL(q5_0, HKK_Q5_0)
SMALL(q5_1, HKK_Q5_1)
SMALL(q8_0, HKK_Q8_0)
SMALL(iq4_nl, HKK_IQ4_NL)
SMALL(mxfp4, HKK_MXFP4)
ROWS(nvfp4, 64, EACH_TOKEN(few_nvfp4_16(&r, a, t)))

SUPER(q2_k, .by = BY_BYTES, .heads = heads_q2_k)
SUPER(q3_k, .by = BY_WORDS, .offset = 4, .d = 108)
SUPER(q4_k, .by = BY_32, .heads = heads_by_32)
SUPER(q5_k, .by = BY_32, .heads = heads_by_32)
SUPER(q6_k, .by = BY_WORDS, .offset = 32, .d = 208)
SUPER(iq4_xs, .by = BY_DWORDS, .offset = 128)
SUPER(tq1_0, .offset = 1, .d = 52)
SUPER(tq2_0, .offset = 1, .d = 64)

#define GRID(type, number) ROWS(type, 256, EACH_TOKEN(few_grid_16(&r, a, t, number, size)))

GRID(iq1_s, HKK_IQ1_S)
GRID(iq1_m, HKK_IQ1_M)
GRID(iq2_xxs, HKK_IQ2_XXS)
GRID(iq2_xs, HKK_IQ2_XS)
GRID(iq2_s, HKK_IQ2_S)
GRID(iq3_xxs, HKK_IQ3_XXS)
GRID(iq3_s, HKK_IQ3_S)

#undef ROWS
#undef EACH_TOKEN
#undef GROUPS_OF_TOKENS
#undef SMALL_GROUP
#undef SUPER_GROUP
#undef SMALL
#undef SUPER
#undef GRID

#endif
