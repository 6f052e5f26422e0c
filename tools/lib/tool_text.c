/* tool_text.c: text from files made safe for a terminal. */
#include "tools/lib/tool.h"

size_t tool_utf8(const uint8_t *p, size_t n, uint32_t *code)
{
    /* least code of each length: anything below is an overlong form */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0)
        return 0;
    size_t length = p[0] < 0x80             ? 1
                    : (p[0] & 0xe0) == 0xc0 ? 2
                    : (p[0] & 0xf0) == 0xe0 ? 3
                    : (p[0] & 0xf8) == 0xf0 ? 4
                                            : 0;
    if (length == 0 || length > n)
        return 0;
    uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    bool surrogate = c >= 0xd800 && c < 0xe000;
    if (c < least[length] || c > 0x10ffff || surrogate)
        return 0;
    *code = c;
    return length;
}

bool tool_disturbs(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t tool_escape(FILE *file, struct hk_bytes b)
{
    size_t columns = 0;
    for (size_t i = 0; i < b.n;) {
        uint32_t code = 0;
        size_t n = tool_utf8(b.p + i, b.n - i, &code);
        if (n > 0 && !tool_disturbs(code)) {
            fwrite(b.p + i, 1, n, file);
            columns++;
        } else {
            n = n > 0 ? n : 1;
            for (size_t k = 0; k < n; k++)
                columns += (size_t)fprintf(file, "\\x%02x", b.p[i + k]);
        }
        i += n;
    }
    return columns;
}
