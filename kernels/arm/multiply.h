/* A panel of weights times tokens. A unit is one token, or two where the level multiplies matrices;
 * its integer sums are in a register for each pair of rows, and come to have rows in lanes for the
 * float steps. Results in the making wait in the output. */
#ifndef HKK_ARM_MULTIPLY_H
#define HKK_ARM_MULTIPLY_H

#include "kernels/arm/panel.h"
#include "kernels/kernels.h"

enum { MAX_UNIT_TOKENS = UNITS * (MATRIX ? 2 : 1) };

struct form {
    int group;       /* elements with the same numbers: 16 or 32 */
    bool unit_scale; /* scales are 1 */
    bool minimums;
};

/* The output of a panel: COUNT rows of tokens' results; FIRST: nothing is there yet. */
struct place {
    float *y;
    size_t stride, count;
    bool first;
};

ALWAYS float32x4x2_t eight_floats(const float *p)
{
    return (float32x4x2_t){{vld1q_f32(p), vld1q_f32(p + 4)}};
}

ALWAYS float32x4x2_t load_results_neon(const struct place *o, size_t t)
{
    float some[PANEL_ROWS] = {0};
    if (!o->first && o->count == PANEL_ROWS)
        return eight_floats(o->y + t * o->stride);
    if (!o->first)
        memcpy(some, o->y + t * o->stride, o->count * sizeof *some);
    return eight_floats(some);
}

ALWAYS void store_results_neon(const struct place *o, size_t t, float32x4x2_t v)
{
    float some[PANEL_ROWS], *to = o->count == PANEL_ROWS ? o->y + t * o->stride : some;
    vst1q_f32(to, v.val[0]);
    vst1q_f32(to + 4, v.val[1]);
    if (to == some)
        memcpy(o->y + t * o->stride, some, o->count * sizeof *some);
}

/* Sums over the N sixteens of columns from the I-th on. */
ALWAYS void group_sums(const struct panel *p, const int8_t *const q[MAX_UNIT_TOKENS], size_t i,
                       size_t n, int units, bool two, int32x4_t out[UNITS][PANEL_PAIRS])
{
    sums s[UNITS][PANEL_PAIRS];
#pragma GCC unroll 2
    for (int u = 0; u < units; u++)
#pragma GCC unroll 4
        for (int r = 0; r < PANEL_PAIRS; r++)
            s[u][r] = sums_zero();
#pragma GCC unroll 2
    for (size_t j = i; j < i + n; j++) {
        struct sixteen_acts x[UNITS];
#pragma GCC unroll 2
        for (int u = 0; u < units; u++)
            x[u] = two ? acts_of_two(q[2 * u % MAX_UNIT_TOKENS] + 16 * j,
                                     q[(2 * u + 1) % MAX_UNIT_TOKENS] + 16 * j)
                       : acts_of_one(q[u] + 16 * j);
#pragma GCC unroll 4
        for (int r = 0; r < PANEL_PAIRS; r++) {
            int8x16_t c = vld1q_s8(p->code[r][2 * j]), d = vld1q_s8(p->code[r][2 * j + 1]);
#pragma GCC unroll 2
            for (int u = 0; u < units; u++)
                s[u][r] = sums_step(s[u][r], c, d, x[u], two);
        }
    }
#pragma GCC unroll 2
    for (int u = 0; u < units; u++)
#pragma GCC unroll 4
        for (int r = 0; r < PANEL_PAIRS; r++)
            out[u][r] = sums_total(s[u][r]);
}

/* Four rows' sums of the unit's token K, from those of two pairs. */
ALWAYS int32x4_t lanes_of_four_rows(int32x4_t first, int32x4_t second, bool two, int k)
{
    if (!two)
        return vpaddq_s32(first, second);
    return k == 0 ? vuzp1q_s32(first, second) : vuzp2q_s32(first, second);
}

/* acc = fma(d * x, (float)dot, acc) for the eight rows of D. */
ALWAYS float32x4x2_t float_step(float32x4x2_t acc, const float *d, float x, int32x4_t low,
                                int32x4_t high)
{
    acc.val[0] = vfmaq_f32(acc.val[0], vmulq_n_f32(vld1q_f32(d), x), vcvtq_f32_s32(low));
    acc.val[1] = vfmaq_f32(acc.val[1], vmulq_n_f32(vld1q_f32(d + 4), x), vcvtq_f32_s32(high));
    return acc;
}

/* GROUPS groups, from block B of 32 on, of UNITS units of tokens from T on. */
ALWAYS void panel_small(const struct panel *p, const struct hkk_acts *a, size_t b, size_t blocks,
                        size_t t, const struct place *o, struct form f, int units, bool two)
{
    const int tokens = two ? 2 * units : units;
    const size_t groups = blocks * 32 / (size_t)f.group, each = (size_t)f.group / 16;
    const int8_t *q[MAX_UNIT_TOKENS];
    float32x4x2_t v[MAX_UNIT_TOKENS];
#pragma GCC unroll 4
    for (int i = 0; i < tokens; i++) {
        q[i] = a->q + (t + (size_t)i) * a->cols + 32 * b;
        v[i] = load_results_neon(o, t + (size_t)i);
    }
#pragma GCC unroll 1
    for (size_t g = 0; g < groups; g++) {
        int32x4_t s[UNITS][PANEL_PAIRS];
        group_sums(p, q, g * each, each, units, two, s);
#pragma GCC unroll 4
        for (int i = 0; i < tokens; i++) {
            const int32x4_t *of = s[two ? i / 2 : i];
            size_t at = b + g * each / 2, token = t + (size_t)i;
            float dx = a->d[token * a->blocks + at];
            v[i] = float_step(v[i], p->d[g], dx, lanes_of_four_rows(of[0], of[1], two, i % 2),
                              lanes_of_four_rows(of[2], of[3], two, i % 2));
            if (f.minimums) {
                int32x4_t sum = vdupq_n_s32(a->sum[token * a->sums + at]);
                v[i] = float_step(v[i], p->m[g], dx, sum, sum);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < tokens; i++)
        store_results_neon(o, t + (size_t)i, v[i]);
}

/* The sum of min * sum of q over the groups, from the sums of each 16. */
ALWAYS void minimum_sums(const struct panel *p, const int16_t *sum, int group, int32x4_t out[2])
{
    out[0] = out[1] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int g = 0; g < 256 / group; g++) {
        int16x8_t min = vld1q_s16(p->min[g]);
        int16x4_t s = vdup_n_s16((int16_t)(group == 16 ? sum[g] : sum[2 * g] + sum[2 * g + 1]));
        out[0] = vmlal_s16(out[0], vget_low_s16(min), s);
        out[1] = vmlal_s16(out[1], vget_high_s16(min), s);
    }
}

/* One super-block of UNITS units of tokens from T on. */
ALWAYS void panel_super(const struct panel *p, const struct hkk_acts *a, size_t b, size_t blocks,
                        size_t t, const struct place *o, struct form f, int units, bool two)
{
    (void)blocks; /* one */
    const int tokens = two ? 2 * units : units;
    const size_t each = (size_t)f.group / 16;
    const int8_t *q[MAX_UNIT_TOKENS];
    int32x4_t acc[UNITS][PANEL_PAIRS];
#pragma GCC unroll 4
    for (int i = 0; i < tokens; i++)
        q[i] = a->q + (t + (size_t)i) * a->cols + 256 * b;
#pragma GCC unroll 8
    for (int i = 0; i < units * PANEL_PAIRS; i++)
        acc[i / PANEL_PAIRS][i % PANEL_PAIRS] = vdupq_n_s32(0);
#pragma GCC unroll 1
    for (size_t g = 0; g < 16 / each; g++) {
        int32x4_t s[UNITS][PANEL_PAIRS];
        group_sums(p, q, g * each, each, units, two, s);
#pragma GCC unroll 4
        for (int r = 0; r < PANEL_PAIRS; r++)
#pragma GCC unroll 2
            for (int u = 0; u < units; u++)
                acc[u][r] = f.unit_scale ? vaddq_s32(acc[u][r], s[u][r])
                                         : vmlaq_s32(acc[u][r], s[u][r], vld1q_s32(p->scale[g][r]));
    }
#pragma GCC unroll 4
    for (int i = 0; i < tokens; i++) {
        const int32x4_t *of = acc[two ? i / 2 : i];
        size_t token = t + (size_t)i;
        float dx = a->d[token * a->blocks + b];
        float32x4x2_t v = load_results_neon(o, token);
        v = float_step(v, p->d[0], dx, lanes_of_four_rows(of[0], of[1], two, i % 2),
                       lanes_of_four_rows(of[2], of[3], two, i % 2));
        if (f.minimums) {
            int32x4_t min[2];
            minimum_sums(p, a->sum + token * a->sums + 16 * b, f.group, min);
            v = float_step(v, p->m[0], dx, min[0], min[1]);
        }
        store_results_neon(o, token, v);
    }
}

/* ---- a function for each form, for all tokens ---- */

typedef void multiply_fn(const struct panel *p, const struct hkk_acts *a, size_t b, size_t blocks,
                         const struct place *o);

#define MULTIPLY(name, each, ...)                                                                  \
    static __attribute__((noinline)) void FN(name)(const struct panel *p,                          \
                                                   const struct hkk_acts *a, size_t b,             \
                                                   size_t blocks, const struct place *o)           \
    {                                                                                              \
        const struct form f = {__VA_ARGS__};                                                       \
        size_t t = 0;                                                                              \
        for (; t + MAX_UNIT_TOKENS <= a->n; t += MAX_UNIT_TOKENS)                                  \
            each(p, a, b, blocks, t, o, f, UNITS, MATRIX);                                         \
        for (; MATRIX && t + 2 <= a->n; t += 2)                                                    \
            each(p, a, b, blocks, t, o, f, 1, MATRIX);                                             \
        for (; t < a->n; t++)                                                                      \
            each(p, a, b, blocks, t, o, f, 1, false);                                              \
    }

MULTIPLY(small, panel_small, .group = 32)
MULTIPLY(small_min, panel_small, .group = 32, .minimums = true)
MULTIPLY(small_by_16, panel_small, .group = 16)

MULTIPLY(super_by_16, panel_super, .group = 16)
MULTIPLY(super_by_16_min, panel_super, .group = 16, .minimums = true)
MULTIPLY(super_by_32, panel_super, .group = 32)
MULTIPLY(super_by_32_min, panel_super, .group = 32, .minimums = true)
MULTIPLY(super_plain, panel_super, .group = 32, .unit_scale = true)

#undef MULTIPLY

#endif
