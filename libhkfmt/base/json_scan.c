/* A strict reader of JSON text. */
#include "libhkfmt/base/json_scan.h"

#include "libhkfmt/base/buf.h"
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/utf8.h"

/* What may come next. */
enum { VALUE, FIRST_ELEMENT, FIRST_KEY, AFTER };

static enum hk_json_token fail_json(struct hk_json *j, size_t at, const char *why)
{
    j->at = at;
    j->why = why;
    return HK_JSON_ERROR;
}

/* The byte at AT, -1 behind the end. */
static int byte_at(const struct hk_json *j, size_t at)
{
    return at < j->text.n ? j->text.p[at] : -1;
}

static void skip_json_blanks(struct hk_json *j)
{
    for (int c = byte_at(j, j->at); c == ' ' || c == '\t' || c == '\n' || c == '\r';)
        c = byte_at(j, ++j->at);
}

/* ---- strings ---- */

static int hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The four digits at P, or -1. */
static int32_t parse_hex4(const uint8_t *p)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* Bytes of the escape at P, of which LEFT bytes remain, and the character it means; 0: it is none.
 */
static size_t parse_escape(const uint8_t *p, size_t left, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (left < 2)
        return 0;
    const char *letter = p[1] != '\0' ? strchr(letters, p[1]) : NULL;
    if (letter != NULL) {
        *code = (uint8_t)meanings[letter - letters];
        return 2;
    }
    int32_t high = p[1] == 'u' && left >= 6 ? parse_hex4(p + 2) : -1;
    if (high < 0 || (high >= 0xdc00 && high < 0xe000))
        return 0;
    *code = (uint32_t)high;
    if (high < 0xd800 || high >= 0xe000)
        return 6;
    int32_t low = left >= 12 && p[6] == '\\' && p[7] == 'u' ? parse_hex4(p + 8) : -1;
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    *code = 0x10000 + (uint32_t)((high - 0xd800) << 10 | (low - 0xdc00));
    return 12;
}

/* The string whose quote is at j->at. */
static enum hk_json_token scan_string(struct hk_json *j, enum hk_json_token token)
{
    const uint8_t *p = j->text.p;
    size_t first = j->at + 1, at = first;
    j->escaped = false;
    while (at < j->text.n && p[at] != '"') {
        uint32_t code;
        size_t n = p[at] == '\\' ? parse_escape(p + at, j->text.n - at, &code) : 1;
        if (p[at] < 0x20)
            return fail_json(j, at, "a control character in a string");
        if (n == 0)
            return fail_json(j, at, "an escape that is none");
        j->escaped = j->escaped || n > 1;
        at += n;
    }
    if (at >= j->text.n)
        return fail_json(j, j->start, "a string without an end");
    j->span = (struct hk_bytes){p + first, at - first};
    if (!hk_utf8_valid(j->span))
        return fail_json(j, first, "a string that is not UTF-8");
    j->at = at + 1;
    return token;
}

size_t hk_json_decode(const struct hk_json *j, uint8_t *to)
{
    const uint8_t *p = j->span.p, *end = p + j->span.n;
    size_t n = 0;
    while (p < end) {
        uint32_t code = 0;
        if (*p != '\\') {
            to[n++] = *p++;
            continue;
        }
        p += parse_escape(p, (size_t)(end - p), &code);
        n += hk_utf8_put(to + n, code);
    }
    return n;
}

bool hk_json_is(const struct hk_json *j, const char *s)
{
    uint8_t text[6 * 64]; /* an escape is at most 6 times as long as what it means */
    if (!j->escaped)
        return hk_bytes_are(j->span, s);
    if (j->span.n > sizeof text)
        return false;
    return hk_bytes_are((struct hk_bytes){text, hk_json_decode(j, text)}, s);
}

void hk_json_quote(struct hk_buf *b, struct hk_bytes text)
{
    static const char digits[] = "0123456789abcdef";
    static const char letters[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    hk_buf_text(b, "\"");
    for (size_t i = 0, plain = 0; i <= text.n; i++) {
        uint8_t c = i < text.n ? text.p[i] : 0;
        if (i < text.n && c >= 0x20 && c != '"' && c != '\\')
            continue;
        hk_buf_put(b, text.p + plain, i - plain);
        plain = i + 1;
        if (i == text.n)
            break;
        char letter = c >= 0x20 ? (char)c : letters[c];
        char escaped[6] = {'\\', letter, '0', '0', digits[c >> 4], digits[c & 15]};
        if (letter == '\0')
            escaped[1] = 'u';
        hk_buf_put(b, escaped, letter == '\0' ? 6 : 2);
    }
    hk_buf_text(b, "\"");
}

/* ---- numbers ---- */

/* Behind the digits from AT on; AT itself where there are none. */
static size_t skip_json_digits(const struct hk_json *j, size_t at)
{
    while (byte_at(j, at) >= '0' && byte_at(j, at) <= '9')
        at++;
    return at;
}

static enum hk_json_token scan_number(struct hk_json *j)
{
    static const char broken[] = "a number that is none";
    size_t first = j->at, whole = first + (byte_at(j, first) == '-'),
           at = skip_json_digits(j, whole);
    if (at == whole || (at > whole + 1 && byte_at(j, whole) == '0'))
        return fail_json(j, first, broken);
    if (byte_at(j, at) == '.') {
        size_t from = at + 1;
        if ((at = skip_json_digits(j, from)) == from)
            return fail_json(j, first, broken);
    }
    if (byte_at(j, at) == 'e' || byte_at(j, at) == 'E') {
        size_t from = at + 1;
        from += byte_at(j, from) == '+' || byte_at(j, from) == '-';
        if ((at = skip_json_digits(j, from)) == from)
            return fail_json(j, first, broken);
    }
    j->span = (struct hk_bytes){j->text.p + first, at - first};
    j->at = at;
    return HK_JSON_NUMBER;
}

bool hk_json_u64(struct hk_bytes b, uint64_t *out)
{
    uint64_t v = 0;
    if (b.n == 0 || (b.n > 1 && b.p[0] == '0'))
        return false;
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < '0' || b.p[i] > '9' || !mul_ok(v, 10, &v) ||
            !add_ok(v, (uint64_t)(b.p[i] - '0'), &v))
            return false;
    *out = v;
    return true;
}

bool hk_json_i64(struct hk_bytes b, int64_t *out)
{
    bool minus = b.n > 0 && b.p[0] == '-';
    uint64_t v;
    if (!hk_json_u64((struct hk_bytes){b.p + minus, b.n - minus}, &v) ||
        v > (uint64_t)INT64_MAX + minus)
        return false;
    *out = (int64_t)(minus ? -v : v);
    return true;
}

/* ---- structure ---- */

static enum hk_json_token open_json_bracket(struct hk_json *j, bool object)
{
    if (j->depth == HK_JSON_MAX_DEPTH)
        return fail_json(j, j->at, "arrays or objects nested more than 64 deep");
    j->depth++;
    j->objects = j->objects << 1 | object;
    j->expected = object ? FIRST_KEY : FIRST_ELEMENT;
    j->at++;
    return object ? HK_JSON_OBJECT : HK_JSON_ARRAY;
}

static enum hk_json_token close_json_bracket(struct hk_json *j)
{
    bool object = j->objects & 1;
    j->depth--;
    j->objects >>= 1;
    j->expected = AFTER;
    j->at++;
    return object ? HK_JSON_OBJECT_END : HK_JSON_ARRAY_END;
}

static enum hk_json_token scan_word(struct hk_json *j, const char *s, enum hk_json_token token)
{
    const struct hk_bytes left = {j->text.p + j->at, j->text.n - j->at};
    if (!hk_bytes_begin_with(left, s))
        return fail_json(j, j->at, "no JSON value");
    j->at += strlen(s);
    return token;
}

static enum hk_json_token scan_value(struct hk_json *j)
{
    int c = byte_at(j, j->at);
    if (c == '{' || c == '[')
        return open_json_bracket(j, c == '{');
    j->expected = AFTER;
    switch (c) {
    case '"':
        return scan_string(j, HK_JSON_STRING);
    case 't':
        return scan_word(j, "true", HK_JSON_TRUE);
    case 'f':
        return scan_word(j, "false", HK_JSON_FALSE);
    case 'n':
        return scan_word(j, "null", HK_JSON_NULL);
    default:
        if (c == '-' || (c >= '0' && c <= '9'))
            return scan_number(j);
        return fail_json(j, j->at, c < 0 ? "the text ends early" : "no JSON value");
    }
}

static enum hk_json_token scan_key(struct hk_json *j)
{
    if (byte_at(j, j->at) != '"')
        return fail_json(j, j->at, "a key in quotes is missing");
    enum hk_json_token token = scan_string(j, HK_JSON_KEY);
    if (token == HK_JSON_ERROR)
        return token;
    skip_json_blanks(j);
    if (byte_at(j, j->at) != ':')
        return fail_json(j, j->at, "a colon is missing");
    j->at++;
    j->expected = VALUE;
    return token;
}

/* Behind a value: the end, or a comma, after which j->expected is what has to follow. */
static enum hk_json_token scan_after_value(struct hk_json *j)
{
    int c = byte_at(j, j->at);
    if (j->depth == 0)
        return c < 0 ? HK_JSON_END : fail_json(j, j->at, "something follows the value");
    bool object = j->objects & 1;
    if (c == (object ? '}' : ']'))
        return close_json_bracket(j);
    if (c != ',')
        return fail_json(j, j->at, c < 0 ? "the text ends early" : "a comma is missing");
    j->at++;
    skip_json_blanks(j);
    j->start = j->at;
    return object ? scan_key(j) : scan_value(j);
}

enum hk_json_token hk_json_next(struct hk_json *j)
{
    if (j->why != NULL)
        return HK_JSON_ERROR;
    skip_json_blanks(j);
    j->start = j->at;
    switch (j->expected) {
    case FIRST_ELEMENT:
        return byte_at(j, j->at) == ']' ? close_json_bracket(j) : scan_value(j);
    case FIRST_KEY:
        return byte_at(j, j->at) == '}' ? close_json_bracket(j) : scan_key(j);
    case AFTER:
        return scan_after_value(j);
    default:
        return scan_value(j);
    }
}
