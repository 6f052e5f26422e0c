/* Products of bytes, four added up at a time. */
#ifndef HKK_ARM_DOT_DOTPROD_H
#define HKK_ARM_DOT_DOTPROD_H

#include "kernels/arm/acts.h"

enum {
    MATRIX = 0, /* whether a unit may be of two tokens */
    UNITS = 2,  /* that registers hold beside each other */
};

/* Parts of the sums of a pair of rows: two of the first, two of the second. */
typedef int32x4_t sums;

static inline sums sums_zero(void)
{
    return vdupq_n_s32(0);
}

/* Eight columns of both rows in C, the next eight in D. */
static inline sums sums_step(sums s, int8x16_t c, int8x16_t d, struct sixteen_acts x, bool two)
{
    (void)two;
    return vdotq_s32(vdotq_s32(s, c, x.a), d, x.b);
}

static inline int32x4_t sums_total(sums s)
{
    return s;
}

#endif
