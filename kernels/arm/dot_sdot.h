/* Sums in one register, and products of bytes for one token, four added up at a time. */
#ifndef HKK_ARM_DOT_SDOT_H
#define HKK_ARM_DOT_SDOT_H

#include "kernels/arm/acts.h"
#include "kernels/tmpl/level.h"

enum { UNITS = 2 }; /* that registers hold beside each other */

/* Of a pair of rows: two parts of the first, two of the second. Of two tokens (dot_i8mm.h): both of
 * the first row, both of the second. */
typedef int32x4_t sums;

static inline sums sums_zero(void)
{
    return vdupq_n_s32(0);
}

static inline sums sdot_step(sums s, int8x16_t c, int8x16_t d, struct sixteen_acts x)
{
    return vdotq_s32(vdotq_s32(s, c, x.a), d, x.b);
}

static inline int32x4_t sums_total(sums s)
{
    return s;
}

#endif
