/* What writers of files ask of an output beyond hkfmt.h. */
#ifndef HK_OUT_H
#define HK_OUT_H

#include "libhkfmt/hkfmt.h"

/* N more bytes to O, before the first of them is written: hk_check_output() of its limit. */
enum hk_status hk_out_expect(const struct hk_out *o, uint64_t n, struct hk_error *err);

/* What O is written to. */
int hk_out_descriptor(const struct hk_out *o);

#endif
