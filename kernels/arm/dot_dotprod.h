/* Products of bytes, four added up at a time. */
#ifndef HKK_ARM_DOT_DOTPROD_H
#define HKK_ARM_DOT_DOTPROD_H

#include "kernels/arm/dot_sdot.h"
#include "kernels/tmpl/level.h"

enum { MATRIX = 0 }; /* whether a unit may be of two tokens */

/* Eight columns of both rows in C, the next eight in D. */
static inline sums sums_step(sums s, int8x16_t c, int8x16_t d, struct sixteen_acts x, bool two)
{
    (void)two;
    return sdot_step(s, c, d, x);
}

#endif
