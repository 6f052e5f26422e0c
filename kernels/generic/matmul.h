/* Weights times activations, the definitions: a row is unpacked once and used for all tokens. */
#ifndef HKK_GENERIC_MATMUL_H
#define HKK_GENERIC_MATMUL_H

#include "kernels/generic/vec.h"
#include "kernels/levels.h"
#include "kernels/tmpl/unpack_grid.h"
#include "kernels/tmpl/unpack_small.h"
#include "kernels/tmpl/unpack_super.h"

/* ---- float weights ---- */

/* acc[k mod 16] = fma(w[k], x[k], acc[k mod 16]) for k = 0, 1, 2, ...; a tail is padded with zeros,
 * which are multiplied and added like the rest; then v_sum's tree. */
static float dot_float(const float *w, const float *x, size_t n)
{
    vec acc = v_set(0);
    size_t k = 0, rest = n % 16;
    for (; k + 16 <= n; k += 16)
        acc = v_fma(v_load(w + k), v_load(x + k), acc);
    if (rest > 0)
        acc = v_fma(v_load_some(w + k, rest), v_load_some(x + k, rest), acc);
    return v_sum(acc);
}

static inline float element_f32(const uint8_t *p)
{
    return bits_f32(load_le32(p));
}

static inline float element_f16(const uint8_t *p)
{
    return le_half(p);
}

static inline float element_bf16(const uint8_t *p)
{
    return bits_f32((uint32_t)load_le16(p) << 16);
}

#define FLOAT(type, size)                                                                          \
    void hkk_matmul_##type##_generic(const struct hkk_matrix *w, size_t row0, size_t rows,         \
                                     const struct hkk_acts *a, float *y, size_t stride,            \
                                     void *scratch)                                                \
    {                                                                                              \
        float *row = scratch;                                                                      \
        for (size_t r = row0; r < row0 + rows; r++) {                                              \
            for (size_t k = 0; k < w->cols; k++)                                                   \
                row[k] = element_##type(w->data + (r * w->cols + k) * (size));                     \
            for (size_t t = 0; t < a->n; t++)                                                      \
                y[t * stride + r] = dot_float(row, a->x + t * a->cols, a->cols);                   \
        }                                                                                          \
    }

/* ---- blocks of 32 ---- */

static inline int dot_bytes(const int8_t *v, const int8_t *q, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += v[i] * q[i];
    return sum;
}

enum small_form { ONE_SCALE, WITH_MINIMUM, TWO_SCALES };

/* acc = fma(d_w * d_x, (float)I, acc) block after block from 0, I the integer dot product (below
 * 2^20, so the conversion is exact). With a minimum then acc = fma(m_w * d_x, (float)S, acc), S the
 * sum of q. With two scales (nvfp4) one step for each 16, in order. */
static inline float dot_small(const struct small *s, const struct hkk_acts *a, size_t t,
                              enum small_form form)
{
    float acc = 0;
    const int8_t *q = a->q + t * a->cols;
    for (size_t b = 0; b < a->blocks; b++, q += 32) {
        float dx = a->d[t * a->blocks + b];
        if (form == TWO_SCALES) {
            acc = fmaf(s[b].d * dx, (float)dot_bytes(s[b].v, q, 16), acc);
            acc = fmaf(s[b].m * dx, (float)dot_bytes(s[b].v + 16, q + 16, 16), acc);
            continue;
        }
        acc = fmaf(s[b].d * dx, (float)dot_bytes(s[b].v, q, 32), acc);
        if (form == WITH_MINIMUM)
            acc = fmaf(s[b].m * dx, (float)a->sum[t * a->sums + b], acc);
    }
    return acc;
}

/* ELEMS elements to a block of the file. */
#define SMALL(type, form, elems)                                                                   \
    void hkk_matmul_##type##_generic(const struct hkk_matrix *w, size_t row0, size_t rows,         \
                                     const struct hkk_acts *a, float *y, size_t stride,            \
                                     void *scratch)                                                \
    {                                                                                              \
        struct small *row = scratch;                                                               \
        size_t blocks = w->cols / (elems), size = sizeof(struct hk_##type);                        \
        for (size_t r = row0; r < row0 + rows; r++) {                                              \
            for (size_t b = 0; b < blocks; b++)                                                    \
                unpack_##type(w->data + (r * blocks + b) * size, row + b * ((elems) / 32));        \
            for (size_t t = 0; t < a->n; t++)                                                      \
                y[t * stride + r] = dot_small(row, a, t, form);                                    \
        }                                                                                          \
    }

/* ---- super-blocks ---- */

/* I = sum of scale_g * I_g over the 16 groups, S = sum of min_g * S_g, in int32 (unpack_super.h has
 * the bounds). acc = fma(d * d_x, (float)I, acc), (float) to nearest even, block after block from
 * 0; with minimums then acc = fma(-dmin * d_x, (float)S, acc). */
static inline float dot_super(const struct super *s, const struct hkk_acts *a, size_t t,
                              bool minimums)
{
    float acc = 0;
    const int8_t *q = a->q + t * a->cols;
    const int16_t *sum = a->sum + t * a->sums;
    for (size_t b = 0; b < a->blocks; b++, q += 256, sum += 16) {
        float dx = a->d[t * a->blocks + b];
        int32_t dot = 0, min = 0;
        for (int g = 0; g < 16; g++) {
            dot += s[b].scale[g] * dot_bytes(s[b].v + 16 * g, q + 16 * g, 16);
            if (minimums)
                min += s[b].min[g] * sum[g];
        }
        acc = fmaf(s[b].d * dx, (float)dot, acc);
        if (minimums)
            acc = fmaf(-s[b].dmin * dx, (float)min, acc);
    }
    return acc;
}

#define SUPER(type, minimums)                                                                      \
    void hkk_matmul_##type##_generic(const struct hkk_matrix *w, size_t row0, size_t rows,         \
                                     const struct hkk_acts *a, float *y, size_t stride,            \
                                     void *scratch)                                                \
    {                                                                                              \
        struct super *row = scratch;                                                               \
        size_t blocks = w->cols / 256, size = sizeof(struct hk_##type);                            \
        for (size_t r = row0; r < row0 + rows; r++) {                                              \
            for (size_t b = 0; b < blocks; b++)                                                    \
                unpack_##type(w->data + (r * blocks + b) * size, row + b);                         \
            for (size_t t = 0; t < a->n; t++)                                                      \
                y[t * stride + r] = dot_super(row, a, t, minimums);                                \
        }                                                                                          \
    }

/* ---- a function for each type of type_list.h that has a kernel ---- */

#define MATMUL_NONE(...)
#define MATMUL_FLOAT(name, bytes) FLOAT(name, bytes)
#define MATMUL_SMALL(name, elems) SMALL(name, ONE_SCALE, elems)
#define MATMUL_SMALL_MIN(name, elems) SMALL(name, WITH_MINIMUM, elems)
#define MATMUL_SMALL_16(name, elems) SMALL(name, TWO_SCALES, elems)
#define MATMUL_SUPER(name, elems) SUPER(name, false)
#define MATMUL_SUPER_MIN(name, elems) SUPER(name, true)

#define DENSE(SYMBOL, name, code, gguf, dtype, bytes, KERNEL) MATMUL_##KERNEL(name, bytes)
#define BLOCK(SYMBOL, name, code, gguf, elems, KERNEL, ...) MATMUL_##KERNEL(name, elems)

HK_DENSE_TYPES(DENSE)
HK_BLOCK_TYPES(BLOCK)

#undef DENSE
#undef BLOCK

/* A row in f32 is the largest: struct small has 1.25 bytes a number, struct super 1.32. No level's
 * scratch is less, as it may take products of this one. */
static size_t scratch_bytes_generic(size_t cols, size_t n)
{
    (void)n;
    return (cols * sizeof(float) + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN;
}

#endif
