/* Characters beside a place in a text: white space, and whether a word goes on there. */
#include "engine/tokenizer/characters.h"

#include <utf8proc.h>

#include "libhkfmt/hkmodel.h"

/* The White_Space property. */
static bool is_white_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* What \w is in Unicode's regular expressions: alphabetic characters, marks, decimal digits,
 * connecting punctuation and the two joiners. */
static bool is_word_char(uint32_t c)
{
    if (c == 0x200c || c == 0x200d)
        return true;
    /* Alphabetic though symbols: letters in circles and squares. */
    if ((c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
        (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189))
        return true;
    switch (utf8proc_category((int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

/* Length of the character at P, and its code; 0 where there is none. */
static unsigned char_behind(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    unsigned n = p < end ? hk_utf8_length(p, end) : 0;
    *code = n > 0 ? hk_utf8_code(p, n) : 0;
    return n;
}

unsigned hke_char_before(const uint8_t *begin, const uint8_t *p, uint32_t *code)
{
    for (unsigned n = 1; n <= 4 && n <= (size_t)(p - begin); n++) {
        if (hk_utf8_length(p - n, p) == n) {
            *code = hk_utf8_code(p - n, n);
            return n;
        }
    }
    return 0;
}

bool hke_is_inside_word(struct hk_bytes text, size_t from, size_t to)
{
    const uint8_t *begin = text.p, *end = begin + text.n;
    uint32_t c;
    return (hke_char_before(begin, begin + from, &c) > 0 && is_word_char(c)) ||
           (char_behind(begin + to, end, &c) > 0 && is_word_char(c));
}

size_t hke_skip_spaces_back(struct hk_bytes text, size_t min, size_t at)
{
    uint32_t c;
    for (unsigned n; (n = hke_char_before(text.p + min, text.p + at, &c)) > 0 && is_white_space(c);)
        at -= n;
    return at;
}

size_t hke_skip_spaces(struct hk_bytes text, size_t at)
{
    uint32_t c;
    for (unsigned n; (n = char_behind(text.p + at, text.p + text.n, &c)) > 0 && is_white_space(c);)
        at += n;
    return at;
}
