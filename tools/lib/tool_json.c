/* tool_json.c: JSON as all programs print it. The trees are jansson's; the printer is our own,
 * because floats must be the shortest decimal and a file's bytes must reach a terminal harmless. */
#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- numbers ---- */

json_t *tool_json_uint(uint64_t v)
{
    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return json_string(text);
}

json_t *tool_json_known(uint64_t v)
{
    return v > 0 ? tool_json_uint(v) : json_null();
}

json_t *tool_json_double(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* The double nearest to the float's shortest decimal: at most nine digits, so printing that double
 * gives the same decimal again. */
json_t *tool_json_float(float v)
{
    char text[32];
    return tool_float_text(v, text) ? json_real(strtod(text, NULL)) : json_null();
}

/* ---- strings ---- */

/* Every byte that is not part of a well-formed sequence becomes U+FFFD; NULL when out of memory. */
static char *replace_stray_bytes(struct hk_bytes b, size_t *length)
{
    char *text = b.n < SIZE_MAX / 3 ? malloc(b.n * 3 + 1) : NULL;
    if (text == NULL)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < b.n;) {
        uint32_t code;
        size_t n = tool_utf8(b.p + i, b.n - i, &code);
        memcpy(text + at, n > 0 ? (const void *)(b.p + i) : "\xef\xbf\xbd", n > 0 ? n : 3);
        at += n > 0 ? n : 3;
        i += n > 0 ? n : 1;
    }
    *length = at;
    return text;
}

json_t *tool_json_bytes(struct hk_bytes b)
{
    if (b.n == 0)
        return json_string("");
    if (hk_utf8_valid(b))
        return json_stringn_nocheck((const char *)b.p, b.n);
    size_t length;
    char *text = replace_stray_bytes(b, &length);
    if (text == NULL)
        return NULL;
    json_t *v = json_stringn_nocheck(text, length);
    free(text);
    return v;
}

json_t *tool_json_load(struct hk_bytes text, size_t flags, json_error_t *why)
{
    if (hk_json_fits(text))
        return json_loadb(text.n > 0 ? (const char *)text.p : "", text.n, flags, why);
    if (why != NULL) {
        *why = (json_error_t){.line = -1, .column = -1};
        snprintf(why->text, sizeof why->text, "more values than its length allows");
    }
    return NULL;
}

json_t *tool_json_any(struct hk_bytes text)
{
    return tool_json_load(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

json_t *tool_json_text(const char *s)
{
    return s != NULL ? tool_json_bytes(hk_bytes_of(s)) : json_null();
}

json_t *tool_json_hex(const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *text = n < SIZE_MAX / 2 ? malloc(n * 2 + 1) : NULL;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[p[i] >> 4];
        text[2 * i + 1] = digits[p[i] & 15];
    }
    json_t *v = json_stringn_nocheck(text, n * 2);
    free(text);
    return v;
}

/* ---- building ---- */

void tool_json_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new_nocheck(object, key, value) != 0)
        tool_nomem();
}

void tool_json_push(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        tool_nomem();
}

json_t *tool_json_uints(const uint64_t *v, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        tool_json_push(list, tool_json_uint(v[i]));
    return list;
}

/* ---- printing: by one thread, so without the locks of stdio, which cost as much as all else ----
 */

static void print_json_escape(FILE *file, uint32_t code)
{
    switch (code) {
    case '"':
        fputs_unlocked("\\\"", file);
        return;
    case '\\':
        fputs_unlocked("\\\\", file);
        return;
    case '\n':
        fputs_unlocked("\\n", file);
        return;
    case '\r':
        fputs_unlocked("\\r", file);
        return;
    case '\t':
        fputs_unlocked("\\t", file);
        return;
    case 0xfffd:
        fputs_unlocked("\xef\xbf\xbd", file);
        return;
    default:
        fprintf(file, "\\u%04x", code);
    }
}

/* Most bytes are of this kind, and stand for themselves. */
static bool is_plain_json_byte(uint8_t c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Strings of a tree are UTF-8, keys of a file perhaps not: each stray byte becomes U+FFFD. */
static void print_json_string(FILE *file, const char *s, size_t length)
{
    const uint8_t *p = (const uint8_t *)s;
    size_t from = 0, i = 0;
    putc_unlocked('"', file);
    while (i < length) {
        if (is_plain_json_byte(p[i])) {
            i++;
            continue;
        }
        uint32_t code = 0xfffd;
        size_t n = tool_utf8(p + i, length - i, &code);
        if (n == 0 || tool_disturbs(code) || code < 0x7f) {
            fwrite_unlocked(p + from, 1, i - from, file);
            print_json_escape(file, code);
            from = i + (n > 0 ? n : 1);
        }
        i += n > 0 ? n : 1;
    }
    fwrite_unlocked(p + from, 1, length - from, file);
    putc_unlocked('"', file);
}

static void print_json_real(FILE *file, double v)
{
    char text[32];
    tool_double_text(v, text);
    fputs_unlocked(text, file);
}

static void print_json_newline(const struct tool_json_out *p)
{
    if (p->pretty)
        fprintf(p->file, "\n%*s", (int)p->depth * 2, "");
}

static void print_json_value(struct tool_json_out *p, const json_t *v);

/* A short array of plain values (a shape) and any of integers (token ids) stays on one line on a
 * terminal too. */
static bool fits_json_line(const json_t *array)
{
    enum { MOST = 8 };
    size_t n = json_array_size(array), integers = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(array, i);
        if (json_is_array(e) || json_is_object(e) || json_string_length(e) > 60)
            return false;
        integers += json_is_integer(e);
    }
    return n <= MOST || integers == n;
}

static void print_json_array(struct tool_json_out *p, const json_t *v)
{
    size_t n = json_array_size(v);
    bool one_line = fits_json_line(v);
    putc_unlocked('[', p->file);
    p->depth++;
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            fputs_unlocked(p->pretty && one_line ? ", " : ",", p->file);
        if (!one_line)
            print_json_newline(p);
        print_json_value(p, json_array_get(v, i));
    }
    p->depth--;
    if (!one_line)
        print_json_newline(p);
    putc_unlocked(']', p->file);
}

/* jansson's iterator takes the object without const, but only reads it. */
static void print_json_object(struct tool_json_out *p, json_t *v)
{
    bool first = true;
    putc_unlocked('{', p->file);
    p->depth++;
    for (void *i = json_object_iter(v); i != NULL; i = json_object_iter_next(v, i)) {
        if (!first)
            putc_unlocked(',', p->file);
        first = false;
        print_json_newline(p);
        print_json_string(p->file, json_object_iter_key(i), json_object_iter_key_len(i));
        fputs_unlocked(p->pretty ? ": " : ":", p->file);
        print_json_value(p, json_object_iter_value(i));
    }
    p->depth--;
    if (!first)
        print_json_newline(p);
    putc_unlocked('}', p->file);
}

/* Depth: trees come from the programs or from jansson's parser, which stops at 2048. */
static void print_json_value(struct tool_json_out *p, const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        print_json_object(p, (json_t *)(uintptr_t)v);
        return;
    case JSON_ARRAY:
        print_json_array(p, v);
        return;
    case JSON_STRING:
        print_json_string(p->file, json_string_value(v), json_string_length(v));
        return;
    case JSON_INTEGER:
        fprintf(p->file, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        return;
    case JSON_REAL:
        print_json_real(p->file, json_real_value(v));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        fputs_unlocked(json_is_true(v) ? "true" : "false", p->file);
        return;
    case JSON_NULL:
        fputs_unlocked("null", p->file);
        return;
    }
}

/* Whether FILE is a terminal. (tool_output_begin() made stdout a stream without a descriptor.) */
static bool is_terminal_stream(FILE *file)
{
    return isatty(file == stdout ? STDOUT_FILENO : fileno(file)) != 0;
}

void tool_json_print(json_t *v, FILE *file)
{
    if (v == NULL)
        tool_nomem();
    struct tool_json_out o = {.file = file, .pretty = is_terminal_stream(file)};
    print_json_value(&o, v);
    putc_unlocked('\n', file);
    json_decref(v);
}

/* ---- printing piece by piece ---- */

/* What goes before a member or element. */
static void print_json_separator(struct tool_json_out *o)
{
    const bool in_line = o->depth > 0 && o->depth == o->line_depth;
    if (!o->first)
        fputs_unlocked(in_line && o->pretty ? ", " : ",", o->file);
    if (o->depth > 0 && !in_line)
        print_json_newline(o);
    o->first = false;
}

static void put_json_key(struct tool_json_out *o, const char *key, size_t length)
{
    print_json_separator(o);
    print_json_string(o->file, key, length);
    fputs_unlocked(o->pretty ? ": " : ":", o->file);
}

static void put_json_value(struct tool_json_out *o, json_t *v)
{
    if (v == NULL)
        tool_nomem();
    print_json_value(o, v);
    json_decref(v);
}

void tool_json_put(struct tool_json_out *o, const char *key, json_t *v)
{
    if (key != NULL)
        put_json_key(o, key, strlen(key));
    else
        print_json_separator(o);
    put_json_value(o, v);
}

void tool_json_put_again(struct tool_json_out *o, const char *key, const char *text)
{
    put_json_key(o, key, strlen(key));
    fputs_unlocked(text, o->file);
}

void tool_json_put_bytes(struct tool_json_out *o, struct hk_bytes key, json_t *v)
{
    put_json_key(o, (const char *)key.p, key.n);
    put_json_value(o, v);
}

void tool_json_enter(struct tool_json_out *o, const char *key, char bracket)
{
    if (key != NULL)
        put_json_key(o, key, strlen(key));
    else
        print_json_separator(o);
    putc_unlocked(bracket, o->file);
    o->depth++;
    o->first = true;
}

void tool_json_enter_line(struct tool_json_out *o, const char *key)
{
    tool_json_enter(o, key, '[');
    o->line_depth = o->depth;
}

void tool_json_leave(struct tool_json_out *o, char bracket)
{
    const bool in_line = o->depth == o->line_depth;
    if (in_line)
        o->line_depth = 0;
    o->depth--;
    if (!o->first && !in_line)
        print_json_newline(o);
    putc_unlocked(bracket, o->file);
    o->first = false;
}

void tool_json_begin(struct tool_json_out *o, FILE *file)
{
    *o = (struct tool_json_out){.file = file, .pretty = is_terminal_stream(file), .first = true};
    tool_json_enter(o, NULL, '{');
}

void tool_json_end(struct tool_json_out *o)
{
    tool_json_leave(o, '}');
    putc_unlocked('\n', o->file);
}
