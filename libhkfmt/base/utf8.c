/* UTF-8 as RFC 3629 has it. */
#include "libhkfmt/base/utf8.h"

bool hk_utf8_valid(struct hk_bytes b)
{
    const uint8_t *p = b.p, *end = b.p + b.n;
    while (p < end) {
        if (*p < 0x80) {
            p++;
            continue;
        }
        int n = *p >= 0xc2 && *p < 0xe0   ? 2
                : (*p & 0xf0) == 0xe0     ? 3
                : *p >= 0xf0 && *p < 0xf5 ? 4
                                          : 0;
        if (n == 0 || end - p < n)
            return false;
        for (int i = 1; i < n; i++)
            if ((p[i] & 0xc0) != 0x80)
                return false;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ||
            (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
            return false;
        p += n;
    }
    return true;
}
