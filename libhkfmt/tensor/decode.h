/* What a decoder knows of its tensor beside the values. */
#ifndef HK_DECODE_H
#define HK_DECODE_H

#include "libhkfmt/tensor/geometry.h"

/* The form that the payload turned out to have, which a label alone does not tell. */
enum hk_form hk_decoder_form(const struct hk_decoder *d);
/* Where the f32 values begin that a sparse or dense f32 tensor stores; they reach to the end of its
 * data. NULL for other forms. */
const uint8_t *hk_decoder_values(const struct hk_decoder *d);

#endif
