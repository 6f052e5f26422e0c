/* UTF-8, by the table of the Unicode standard: what may follow each first byte. */
#include "libhkfmt/base/utf8.h"

#include "libhkfmt/hkmodel.h"

struct utf8_lead {
    uint8_t first, last; /* first bytes of the row */
    uint8_t n;           /* length of the character */
    uint8_t low, high;   /* range of the second byte */
};

/* clang-format off */
static const struct utf8_lead leads[] = {
    {0xc2, 0xdf, 2, 0x80, 0xbf},
    {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f},
    {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf},
    {0xf1, 0xf3, 4, 0x80, 0xbf},
    {0xf4, 0xf4, 4, 0x80, 0x8f},
};
/* clang-format on */

static const struct utf8_lead *find_utf8_lead(uint8_t b)
{
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        if (b >= leads[i].first && b <= leads[i].last)
            return &leads[i];
    }
    return NULL;
}

/* How many of the N bytes at P agree with row L. */
static unsigned count_agreeing_bytes(const struct utf8_lead *l, const uint8_t *p, size_t n)
{
    unsigned k = 1;
    while (k < l->n && k < n) {
        uint8_t low = k == 1 ? l->low : 0x80, high = k == 1 ? l->high : 0xbf;
        if (p[k] < low || p[k] > high)
            break;
        k++;
    }
    return k;
}

unsigned hk_utf8_length(const uint8_t *p, const uint8_t *end)
{
    if (p[0] < 0x80)
        return 1;
    const struct utf8_lead *l = find_utf8_lead(p[0]);
    return l != NULL && count_agreeing_bytes(l, p, (size_t)(end - p)) == l->n ? l->n : 0;
}

uint32_t hk_utf8_code(const uint8_t *p, unsigned n)
{
    if (n <= 1)
        return p[0];
    uint32_t code = p[0] & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return code;
}

unsigned hk_utf8_unfinished(const uint8_t *p, size_t n)
{
    for (unsigned back = 1; back <= 3 && back <= n; back++) {
        const uint8_t *q = p + n - back;
        if ((*q & 0xc0) == 0x80)
            continue;
        const struct utf8_lead *l = find_utf8_lead(*q);
        return l != NULL && l->n > back && count_agreeing_bytes(l, q, back) == back ? back : 0;
    }
    return 0;
}

bool hk_utf8_valid(struct hk_bytes b)
{
    const uint8_t *p = b.p, *end = b.p + b.n;
    unsigned n = 1;
    for (; p < end && n > 0; p += n)
        n = hk_utf8_length(p, end);
    return n > 0;
}

size_t hk_utf8_put(uint8_t *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3f));
    to[0] = (uint8_t)(0xf00 >> n | code);
    return n;
}
