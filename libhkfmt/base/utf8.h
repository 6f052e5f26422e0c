/* UTF-8. */
#ifndef HK_UTF8_H
#define HK_UTF8_H

#include "libhkfmt/hkfmt.h"

/* Whether B is UTF-8. Overlong forms, surrogates and values past U+10FFFF are not, as in RFC 3629.
 */
bool hk_utf8_valid(struct hk_bytes b);

#endif
