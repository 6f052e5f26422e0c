/* Option structs, which begin with their size, as callers of any version give them. */
#ifndef HK_OPTIONS_H
#define HK_OPTIONS_H

#include "libhkfmt/hkfmt.h"

/* Copy the option struct GIVEN (NULL: all defaults) to OWN of OWN_SIZE bytes; what GIVEN is too
 * short for is zero. HK_E_USE: it has no size, or sets a field that OWN does not have. */
enum hk_status hk_read_options(void *own, size_t own_size, const void *given, struct hk_error *err);

#endif
