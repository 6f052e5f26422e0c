/* Questions about bytes. */
#include "libhkfmt/base/bytes.h"

bool hk_all_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}
