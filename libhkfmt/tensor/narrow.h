/* f32 to the narrower float types. */
#ifndef HK_NARROW_H
#define HK_NARROW_H

#include "libhkfmt/hkfmt.h"

/* N values as TYPE (f32, f16 or bf16) to OUT, little-endian, rounded to the nearest and among two
 * equally near to the even one; NaN stays NaN. Returns how many finite values became infinite. */
size_t hk_narrow(enum hk_type type, const float *v, size_t n, uint8_t *out);

#endif
