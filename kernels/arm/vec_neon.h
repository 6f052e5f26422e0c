/* Sixteen f32 lanes as four registers: the operations of kernels/generic/vec.h, which says what
 * they do. */
#ifndef HKK_ARM_VEC_NEON_H
#define HKK_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <stddef.h>

#include "kernels/bits.h"
#include "kernels/tmpl/level.h"

typedef struct {
    float32x4_t a, b, c, d; /* lanes 0..3, 4..7, 8..11, 12..15 */
} vec;

static inline vec v_set(float x)
{
    return (vec){vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)};
}

static inline vec v_load(const float *p)
{
    return (vec){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

static inline void v_store(float *p, vec v)
{
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}

static inline vec v_load_some(const float *p, size_t n)
{
    float some[16] = {0};
    memcpy(some, p, n * sizeof *p);
    return v_load(some);
}

static inline void v_store_some(float *p, vec v, size_t n)
{
    float some[16];
    v_store(some, v);
    memcpy(p, some, n * sizeof *p);
}

static inline float32x4_t four_halves(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline vec v_load_half(const uint16_t *p)
{
    return (vec){four_halves(p), four_halves(p + 4), four_halves(p + 8), four_halves(p + 12)};
}

static inline vec v_load_half_some(const uint16_t *p, size_t n)
{
    uint16_t some[16] = {0};
    memcpy(some, p, n * sizeof *p);
    return v_load_half(some);
}

static inline void put_four_halves(uint16_t *p, float32x4_t v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

static inline void v_store_half(uint16_t *p, vec v)
{
    put_four_halves(p, v.a);
    put_four_halves(p + 4, v.b);
    put_four_halves(p + 8, v.c);
    put_four_halves(p + 12, v.d);
}

static inline vec v_even(vec v)
{
    return (vec){vtrn1q_f32(v.a, v.a), vtrn1q_f32(v.b, v.b), vtrn1q_f32(v.c, v.c),
                 vtrn1q_f32(v.d, v.d)};
}

static inline vec v_odd(vec v)
{
    return (vec){vtrn2q_f32(v.a, v.a), vtrn2q_f32(v.b, v.b), vtrn2q_f32(v.c, v.c),
                 vtrn2q_f32(v.d, v.d)};
}

/* Four lanes of it. */
static inline float32x4_t turn_four(float32x4_t a)
{
    const uint32x4_t sign = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(vrev64q_f32(a)), sign));
}

static inline vec v_turn(vec v)
{
    return (vec){turn_four(v.a), turn_four(v.b), turn_four(v.c), turn_four(v.d)};
}

static inline vec v_add(vec x, vec y)
{
    return (vec){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c),
                 vaddq_f32(x.d, y.d)};
}

static inline vec v_sub(vec x, vec y)
{
    return (vec){vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c),
                 vsubq_f32(x.d, y.d)};
}

static inline vec v_mul(vec x, vec y)
{
    return (vec){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c),
                 vmulq_f32(x.d, y.d)};
}

static inline vec v_div(vec x, vec y)
{
    return (vec){vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c),
                 vdivq_f32(x.d, y.d)};
}

/* The instruction for the larger one gives NaN where either is NaN. */
static inline float32x4_t larger_lanes(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}

static inline vec v_max(vec x, vec y)
{
    return (vec){larger_lanes(x.a, y.a), larger_lanes(x.b, y.b), larger_lanes(x.c, y.c),
                 larger_lanes(x.d, y.d)};
}

static inline vec v_fma(vec x, vec y, vec z)
{
    return (vec){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                 vfmaq_f32(z.d, x.d, y.d)};
}

static inline vec v_below(vec x, vec y, vec p, vec q)
{
    return (vec){vbslq_f32(vcltq_f32(x.a, y.a), p.a, q.a), vbslq_f32(vcltq_f32(x.b, y.b), p.b, q.b),
                 vbslq_f32(vcltq_f32(x.c, y.c), p.c, q.c),
                 vbslq_f32(vcltq_f32(x.d, y.d), p.d, q.d)};
}

static inline float32x4_t four_powers(float32x4_t biased)
{
    int32x4_t n = vaddq_s32(vreinterpretq_s32_f32(biased), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(n, 23));
}

static inline vec v_power(vec biased)
{
    return (vec){four_powers(biased.a), four_powers(biased.b), four_powers(biased.c),
                 four_powers(biased.d)};
}

/* Lanes FIRST.. of X below N, the others of Y. */
static inline float32x4_t four_first(float32x4_t x, float32x4_t y, int n, int first)
{
    static const int32_t index[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(index), vdupq_n_s32(n - first)), x, y);
}

static inline vec v_first(vec x, vec y, size_t n)
{
    if (n >= 16)
        return x;
    return (vec){four_first(x.a, y.a, (int)n, 0), four_first(x.b, y.b, (int)n, 4),
                 four_first(x.c, y.c, (int)n, 8), four_first(x.d, y.d, (int)n, 12)};
}

static inline float v_sum(vec v)
{
    float32x4_t four = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline float v_reduce_max(vec v)
{
    float32x4_t four = larger_lanes(larger_lanes(v.a, v.c), larger_lanes(v.b, v.d));
    float32x4_t two = larger_lanes(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(larger_lanes(two, vextq_f32(two, two, 1)), 0);
}

static inline uint32x4_t four_magnitudes(float32x4_t v)
{
    return vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x7fffffff));
}

static inline uint32_t v_magnitude(vec v, uint32_t top)
{
    uint32x4_t most = vmaxq_u32(vmaxq_u32(four_magnitudes(v.a), four_magnitudes(v.b)),
                                vmaxq_u32(four_magnitudes(v.c), four_magnitudes(v.d)));
    return vmaxvq_u32(vmaxq_u32(most, vdupq_n_u32(top)));
}

static inline int v_store_q(int8_t *q, vec v)
{
    int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(v.a)), vmovn_s32(vcvtnq_s32_f32(v.b)));
    int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(v.c)), vmovn_s32(vcvtnq_s32_f32(v.d)));
    int8x16_t bytes = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
    vst1q_s8(q, bytes);
    return vaddlvq_s8(bytes);
}

#endif
