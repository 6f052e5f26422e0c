/* Option structs, which begin with their size, as callers of any version give them. */
#include "libhkfmt/base/options.h"

#include <string.h>

#include "libhkfmt/base/bytes.h"

enum { MAX_OPTIONS = 4096 }; /* a size above is no size */

enum hk_status hk_read_options(void *own, size_t own_size, const void *given, struct hk_error *err)
{
    size_t size = sizeof size;
    if (given != NULL)
        memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MAX_OPTIONS)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "options do not begin with their size");
    const size_t known = size < own_size ? size : own_size;
    if (size > own_size && !hk_all_zero((const uint8_t *)given + own_size, size - own_size))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "options of a later version than the library's, %s", hk_version());
    memset(own, 0, own_size);
    if (given != NULL)
        memcpy(own, given, known);
    memcpy(own, &own_size, sizeof own_size);
    return HK_OK;
}
