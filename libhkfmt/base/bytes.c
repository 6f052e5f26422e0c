/* Bytes compared with each other and with C strings. */
#include "libhkfmt/base/bytes.h"

#include <string.h>

struct hk_bytes hk_bytes_of(const char *s)
{
    return (struct hk_bytes){.p = (const uint8_t *)s, .n = strlen(s)};
}

bool hk_bytes_equal(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool hk_bytes_are(struct hk_bytes b, const char *s)
{
    return hk_bytes_equal(b, hk_bytes_of(s));
}

int hk_bytes_compare(struct hk_bytes a, struct hk_bytes b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

bool hk_bytes_begin_with(struct hk_bytes b, const char *prefix)
{
    const size_t n = strlen(prefix);
    return b.n >= n && memcmp(b.p, prefix, n) == 0;
}

bool hk_bytes_end_with(struct hk_bytes b, const char *suffix)
{
    const size_t n = strlen(suffix);
    return b.n >= n && memcmp(b.p + (b.n - n), suffix, n) == 0;
}

bool hk_all_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}
