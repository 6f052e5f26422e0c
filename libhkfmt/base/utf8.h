/* UTF-8 being written; hkmodel.h declares how it is read. */
#ifndef HK_UTF8_H
#define HK_UTF8_H

#include "libhkfmt/hkmodel.h"

/* Write code point CODE to TO, which has room for 4 bytes; returns how many it takes. */
size_t hk_utf8_put(uint8_t *to, uint32_t code);

#endif
