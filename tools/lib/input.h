/* input.h: what a program takes from standard input as a whole. */
#ifndef HK_INPUT_H
#define HK_INPUT_H

#include "libhkfmt/hkfmt.h"

/* All bytes of standard input, none changed: *N of them in *OUT, which is the caller's to free.
 * HK_E_RANGE: more than MOST. */
HK_MUST enum hk_status tool_read_all(uint8_t **out, size_t *n, size_t most, struct hk_error *err);

#endif
