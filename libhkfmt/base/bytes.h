/* Questions about bytes. */
#ifndef HK_BASE_BYTES_H
#define HK_BASE_BYTES_H

#include "libhkfmt/hkfmt.h"

bool hk_all_zero(const uint8_t *p, uint64_t n);

#endif
