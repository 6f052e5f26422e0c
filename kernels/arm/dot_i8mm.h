/* Products of bytes, two rows times two tokens at a time; for a single token as in dot_dotprod.h.
 */
#ifndef HKK_ARM_DOT_I8MM_H
#define HKK_ARM_DOT_I8MM_H

#include "kernels/arm/dot_sdot.h"
#include "kernels/tmpl/level.h"

enum { MATRIX = 1 }; /* whether a unit may be of two tokens */

/* Eight columns of both rows in C, the next eight in D. */
static inline sums sums_step(sums s, int8x16_t c, int8x16_t d, struct sixteen_acts x, bool two)
{
    if (two)
        return vmmlaq_s32(vmmlaq_s32(s, c, x.a), d, x.b);
    return sdot_step(s, c, d, x);
}

#endif
