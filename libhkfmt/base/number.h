/* Floating-point numbers as JSON text and back, and f32 as float64. Bits are kept, those of NaN
 * too, in any locale. */
#ifndef HK_NUMBER_H
#define HK_NUMBER_H

#include "libhkfmt/base/buf.h"

double hk_widen_float(float f);
/* Whether D is the widening of a float; sets *F if so. */
bool hk_narrow_double(double d, float *f);
/* Append D as JSON with DIGITS digits, a string where JSON has no such number. */
void hk_put_json_double(struct hk_buf *b, double d, int digits);
/* A JSON number or such a string, with the quotes. */
bool hk_parse_json_double(struct hk_bytes token, double *d);

#endif
