/* The small JSON files beside a tokenizer. */
#include "libhkfmt/hf/tokenizer/json.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/json_tree.h"

static bool is_ascii_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The end of the number at P. */
static const uint8_t *find_number_end(const uint8_t *p, const uint8_t *end, bool *integer)
{
    *integer = true;
    for (; p < end && (is_ascii_digit(*p) || memchr("+-.eE", *p, 5) != NULL); p++)
        *integer &= *p == '-' || is_ascii_digit(*p);
    return p;
}

static const uint8_t *find_string_end(const uint8_t *p, const uint8_t *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\' && end - p > 1;
    return p < end ? p + 1 : end;
}

/* TEXT with ".0" behind integers that int64 has no room for. */
static void widen_large_integers(struct hk_buf *out, const uint8_t *p, size_t n)
{
    enum { SURE = 18 }; /* so many digits always fit */
    const uint8_t *end = p + n, *done = p;
    while (p < end) {
        bool integer = false;
        const uint8_t *from = p;
        if (*p == '"')
            p = find_string_end(p, end);
        else if (*p == '-' || is_ascii_digit(*p))
            p = find_number_end(p, end, &integer);
        else
            p++;
        if (integer && p - from > SURE + 1) {
            hk_buf_put(out, done, (size_t)(p - done));
            hk_buf_text(out, ".0");
            done = p;
        }
    }
    hk_buf_put(out, done, (size_t)(end - done));
}

static enum hk_status parse_json_file(const char *name, const struct hk_buf *text,
                                      struct hk_error *err, json_t **out)
{
    json_error_t e;
    if (text->failed)
        return hk_fail_nomem(err);
    json_t *o = hk_json_load((struct hk_bytes){text->p, text->n},
                             JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (o == NULL)
        return hk_fail(err, HK_E_FORMAT, e.position > 0 ? (uint64_t)e.position : HK_NO_OFFSET,
                       "%s: %s", name, e.text);
    if (!json_is_object(o)) {
        json_decref(o);
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no JSON object", name);
    }
    *out = o;
    return HK_OK;
}

enum hk_status hk_tok_read_json(const char *dir, const char *name, json_t **out,
                                struct hk_error *err)
{
    uint8_t *p;
    size_t n;
    enum hk_status st = hk_hf_read(dir, name, HK_TOK_FILE, &p, &n, err);
    if (st != HK_OK || p == NULL)
        return st;
    struct hk_buf text = {0};
    widen_large_integers(&text, p, n);
    free(p);
    st = parse_json_file(name, &text, err, out);
    hk_buf_free(&text);
    return st;
}

struct hk_bytes hk_json_string_bytes(const json_t *s)
{
    return (struct hk_bytes){(const uint8_t *)json_string_value(s), json_string_length(s)};
}

bool hk_json_has_type(const json_t *o, const char *name)
{
    return json_is_string(json_object_get(o, "type")) &&
           hk_bytes_are(hk_json_string_bytes(json_object_get(o, "type")), name);
}

const char *hk_json_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "(none)";
}

json_t *hk_json_new_string(struct hk_bytes b)
{
    return json_stringn(b.n > 0 ? (const char *)b.p : "", b.n);
}

bool hk_json_set_new(json_t *o, const char *key, json_t *value)
{
    return json_object_set_new(o, key, value) == 0;
}
