/* Bytes compared, beyond what hkfmt.h has. */
#ifndef HK_BASE_BYTES_H
#define HK_BASE_BYTES_H

#include "libhkfmt/hkfmt.h"

bool hk_bytes_begin_with(struct hk_bytes b, const char *prefix);
bool hk_bytes_end_with(struct hk_bytes b, const char *suffix);
bool hk_all_zero(const uint8_t *p, uint64_t n);

#endif
