/* Base64 with padding and nothing else. */
#ifndef HK_BASE64_H
#define HK_BASE64_H

#include "libhkfmt/base/buf.h"

void hk_put_base64(struct hk_buf *b, struct hk_bytes bytes);
/* TEXT's bytes to TO, which has room for 3 bytes for each 4 of it; false: it is no base64, or has
 * stray bits at its end. */
bool hk_decode_base64(struct hk_bytes text, uint8_t *to, size_t *n);

#endif
