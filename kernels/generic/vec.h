/* Sixteen f32 lanes in portable C: what the templates of kernels/tmpl are written in. Every level
 * has a header like this; these bodies are the definitions. */
#ifndef HKK_GENERIC_VEC_H
#define HKK_GENERIC_VEC_H

#include <math.h>
#include <stddef.h>

#include "kernels/bits.h"
#include "kernels/tmpl/level.h"

typedef struct {
    float l[16];
} vec;

static inline vec v_set(float x)
{
    vec v;
    for (int l = 0; l < 16; l++)
        v.l[l] = x;
    return v;
}

static inline vec v_load(const float *p)
{
    vec v;
    memcpy(v.l, p, sizeof v.l);
    return v;
}

static inline void v_store(float *p, vec v)
{
    memcpy(p, v.l, sizeof v.l);
}

/* The first N of 16; the other lanes are zero, and their memory is not touched. */
static inline vec v_load_some(const float *p, size_t n)
{
    vec v = v_set(0);
    memcpy(v.l, p, n * sizeof *p);
    return v;
}

static inline void v_store_some(float *p, vec v, size_t n)
{
    memcpy(p, v.l, n * sizeof *p);
}

/* Sixteen halves in the host's byte order. */
static inline vec v_load_half(const uint16_t *p)
{
    vec v;
    for (int l = 0; l < 16; l++)
        v.l[l] = half_f32(p[l]);
    return v;
}

static inline vec v_load_half_some(const uint16_t *p, size_t n)
{
    vec v = v_set(0);
    for (size_t l = 0; l < n; l++)
        v.l[l] = half_f32(p[l]);
    return v;
}

static inline void v_store_half(uint16_t *p, vec v)
{
    for (int l = 0; l < 16; l++)
        p[l] = f32_half(v.l[l]);
}

/* Of each pair of lanes the first in both; the second in both; (-second, first). */
static inline vec v_even(vec a)
{
    for (int l = 0; l < 16; l += 2)
        a.l[l + 1] = a.l[l];
    return a;
}

static inline vec v_odd(vec a)
{
    for (int l = 0; l < 16; l += 2)
        a.l[l] = a.l[l + 1];
    return a;
}

static inline vec v_turn(vec a)
{
    for (int l = 0; l < 16; l += 2) {
        const float first = a.l[l];
        a.l[l] = -a.l[l + 1];
        a.l[l + 1] = first;
    }
    return a;
}

#define V_EACH(name, expression)                                                                   \
    static inline vec name(vec a, vec b)                                                           \
    {                                                                                              \
        vec v;                                                                                     \
        for (int l = 0; l < 16; l++)                                                               \
            v.l[l] = (expression);                                                                 \
        return v;                                                                                  \
    }

V_EACH(v_add, a.l[l] + b.l[l])
V_EACH(v_sub, a.l[l] - b.l[l])
V_EACH(v_mul, a.l[l] * b.l[l])
V_EACH(v_div, a.l[l] / b.l[l])
/* A NaN in either gives B's lane. */
V_EACH(v_max, a.l[l] > b.l[l] ? a.l[l] : b.l[l])

#undef V_EACH

/* a * b + c, rounded once. */
static inline vec v_fma(vec a, vec b, vec c)
{
    vec v;
    for (int l = 0; l < 16; l++)
        v.l[l] = fmaf(a.l[l], b.l[l], c.l[l]);
    return v;
}

/* x < y ? a : b, lane by lane. */
static inline vec v_below(vec x, vec y, vec a, vec b)
{
    vec v;
    for (int l = 0; l < 16; l++)
        v.l[l] = x.l[l] < y.l[l] ? a.l[l] : b.l[l];
    return v;
}

/* 2^n for the integer n in the low bits of 1.5 * 2^23 + n, n in -126..127; other bits give some
 * number. */
static inline vec v_power(vec biased)
{
    vec v;
    for (int l = 0; l < 16; l++)
        v.l[l] = bits_f32((f32_bits(biased.l[l]) + 127) << 23);
    return v;
}

/* Lanes from N on become B's. */
static inline vec v_first(vec a, vec b, size_t n)
{
    for (size_t l = n; l < 16; l++)
        a.l[l] = b.l[l];
    return a;
}

/* The lanes' sum: 8 apart, 4, 2, 1. */
static inline float v_sum(vec v)
{
    for (int step = 8; step > 0; step /= 2)
        for (int l = 0; l < step; l++)
            v.l[l] = v.l[l] + v.l[l + step];
    return v.l[0];
}

/* The largest lane by the same tree; v_max's rule for NaN. */
static inline float v_reduce_max(vec v)
{
    for (int step = 8; step > 0; step /= 2)
        for (int l = 0; l < step; l++)
            v.l[l] = v.l[l] > v.l[l + step] ? v.l[l] : v.l[l + step];
    return v.l[0];
}

/* The largest of the bits without sign, of 16 lanes and TOP. */
static inline uint32_t v_magnitude(vec v, uint32_t top)
{
    for (int l = 0; l < 16; l++) {
        uint32_t bits = f32_bits(v.l[l]) & 0x7fffffff;
        top = bits > top ? bits : top;
    }
    return top;
}

/* Sixteen lanes to the nearest integers, even at ties, as int8; |v| <= 127.5. Gives their sum. */
static inline int v_store_q(int8_t *q, vec v)
{
    int sum = 0;
    for (int l = 0; l < 16; l++) {
        q[l] = (int8_t)((v.l[l] + 12582912.0f) - 12582912.0f);
        sum += q[l];
    }
    return sum;
}

#endif
