/* Products for few tokens, sixteen rows at a time, for each type. */
#ifndef HKK_X86_FEW_512_TYPES_H
#define HKK_X86_FEW_512_TYPES_H

#include "kernels/x86/few_512_grid.h"
#include "kernels/x86/few_512_super.h"

/* Gives whether there are enough rows for them; the last sixteen may be some that have been done.
 */
#define FEW_ROWS(type, ...) few_512_##type(__VA_ARGS__)

#define ROWS(type, elems, product)                                                                 \
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
            for (size_t t = 0; t < a->n; t++)                                                      \
                _mm512_storeu_ps(y + t * stride + row, product);                                   \
        }                                                                                          \
        return true;                                                                               \
    }

#define SMALL(type, number) ROWS(type, 32, few_small_16(&r, a, t, number, size))
#define SUPER(type, ...)                                                                           \
    ROWS(type, 256, few_super_16(&r, a, t, size, (struct form_16){__VA_ARGS__}, pair_##type))

SMALL(q4_0, HKK_Q4_0)
SMALL(q4_1, HKK_Q4_1)
SMALL(q5_0, HKK_Q5_0)
SMALL(q5_1, HKK_Q5_1)
SMALL(q8_0, HKK_Q8_0)
SMALL(iq4_nl, HKK_IQ4_NL)
SMALL(mxfp4, HKK_MXFP4)
ROWS(nvfp4, 64, few_nvfp4_16(&r, a, t))

SUPER(q2_k, .by = BY_BYTES, .heads = heads_q2_k)
SUPER(q3_k, .by = BY_WORDS, .offset = 4, .d = 108)
SUPER(q4_k, .by = BY_32, .heads = heads_by_32)
SUPER(q5_k, .by = BY_32, .heads = heads_by_32)
SUPER(q6_k, .by = BY_WORDS, .offset = 32, .d = 208)
SUPER(iq4_xs, .by = BY_DWORDS, .offset = 128)
SUPER(tq1_0, .offset = 1, .d = 52)
SUPER(tq2_0, .offset = 1, .d = 64)

#define GRID(type, number) ROWS(type, 256, few_grid_16(&r, a, t, number, size))

GRID(iq1_s, HKK_IQ1_S)
GRID(iq1_m, HKK_IQ1_M)
GRID(iq2_xxs, HKK_IQ2_XXS)
GRID(iq2_xs, HKK_IQ2_XS)
GRID(iq2_s, HKK_IQ2_S)
GRID(iq3_xxs, HKK_IQ3_XXS)
GRID(iq3_s, HKK_IQ3_S)

#undef ROWS
#undef SMALL
#undef SUPER
#undef GRID

#endif
