/* What the rows of type_list.h say beyond struct hk_type_info. */
#ifndef HK_TYPES_H
#define HK_TYPES_H

#include "libhkfmt/hkfmt.h"
#include "libhkfmt/tensor/type_list.h"

/* Where a block of a type keeps its f16 scales and its codes. */
struct hk_block_scales {
    uint16_t type;
    uint8_t halves; /* 1: at SCALE; 2: also at MINIMUM; 0: the scale is not one half */
    uint16_t scale, minimum;
    uint16_t codes, code_bytes;
};

/* NULL for a type that has no blocks. */
const struct hk_block_scales *hk_block_scales_of(unsigned type);

/* The dtypes of safetensors. */
struct hk_dtype {
    const char *dtype; /* NULL: safetensors has none for it */
    uint16_t type;
};

/* COUNT dtypes. */
const struct hk_dtype *hk_dtypes(size_t *count);

#endif
