/* tool_text.c: texts that are arguments, and text from files made safe for a terminal. */
#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

#include <stdlib.h>
#include <string.h>

size_t tool_utf8(const uint8_t *p, size_t n, uint32_t *code)
{
    const unsigned length = n > 0 ? hk_utf8_length(p, p + n) : 0;
    if (length > 0)
        *code = hk_utf8_code(p, length);
    return length;
}

int tool_count_words(char **words, int count)
{
    return count == 1 && strcmp(words[0], "-") == 0 ? 0 : count;
}

enum hk_status tool_join_words(char **words, int count, struct hk_bytes *out, struct hk_error *err)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    char *text = malloc(size + 1), *at = text;
    if (text == NULL)
        return hk_fail_nomem(err);
    for (int i = 0; i < count; i++) {
        at = stpcpy(at, words[i]);
        *at++ = ' ';
    }
    *out = (struct hk_bytes){(const uint8_t *)text, size > 0 ? size - 1 : 0};
    return HK_OK;
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
