/* Products of bytes where there are only multiplications of eight by eight: two products to 16
 * bits, at most 2 * 128 * 127, and pairs of these to 32. */
#ifndef HKK_ARM_DOT_NEON_H
#define HKK_ARM_DOT_NEON_H

#include "kernels/arm/acts.h"
#include "kernels/tmpl/level.h"

enum {
    MATRIX = 0, /* whether a unit may be of two tokens */
    UNITS = 1,  /* that registers hold beside each other */
};

/* Parts of the sums of a pair of rows. */
typedef struct {
    int32x4_t even, odd;
} sums;

static inline sums sums_zero(void)
{
    return (sums){vdupq_n_s32(0), vdupq_n_s32(0)};
}

/* Eight columns of both rows in C, the next eight in D. */
static inline sums sums_step(sums s, int8x16_t c, int8x16_t d, struct sixteen_acts x, bool two)
{
    (void)two;
    int16x8_t even = vmull_s8(vget_low_s8(c), vget_low_s8(x.a));
    int16x8_t odd = vmull_high_s8(c, x.a);
    even = vmlal_s8(even, vget_low_s8(d), vget_low_s8(x.b));
    odd = vmlal_high_s8(odd, d, x.b);
    return (sums){vpadalq_s16(s.even, even), vpadalq_s16(s.odd, odd)};
}

/* Two parts of the first row, two of the second. */
static inline int32x4_t sums_total(sums s)
{
    return vpaddq_s32(s.even, s.odd);
}

#endif
