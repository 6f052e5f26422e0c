/* The small JSON files beside a tokenizer. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/hf/tokenizer/tokens.h"

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The end of the number at P. */
static const uint8_t *number_end(const uint8_t *p, const uint8_t *end, bool *integer)
{
    *integer = true;
    for (; p < end && (is_digit(*p) || memchr("+-.eE", *p, 5) != NULL); p++)
        *integer &= *p == '-' || is_digit(*p);
    return p;
}

static const uint8_t *string_end(const uint8_t *p, const uint8_t *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\' && end - p > 1;
    return p < end ? p + 1 : end;
}

/* TEXT with ".0" behind integers that int64 has no room for. */
static void widen(struct hk_buf *out, const uint8_t *p, size_t n)
{
    enum { SURE = 18 }; /* so many digits always fit */
    const uint8_t *end = p + n, *done = p;
    while (p < end) {
        bool integer = false;
        const uint8_t *from = p;
        if (*p == '"')
            p = string_end(p, end);
        else if (*p == '-' || is_digit(*p))
            p = number_end(p, end, &integer);
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

static enum hk_status parse(const struct hk_tok *t, const char *name, const struct hk_buf *text,
                            json_t **out)
{
    json_error_t e;
    if (text->failed)
        return hk_fail_nomem(t->err);
    json_t *o = hk_json_load((struct hk_bytes){text->p, text->n},
                             JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (o == NULL)
        return hk_fail(t->err, HK_E_FORMAT, e.position > 0 ? (uint64_t)e.position : HK_NO_OFFSET,
                       "%s: %s", name, e.text);
    if (!json_is_object(o)) {
        json_decref(o);
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no JSON object", name);
    }
    *out = o;
    return HK_OK;
}

enum hk_status hk_tok_json(const struct hk_tok *t, const char *name, json_t **out)
{
    uint8_t *p;
    size_t n;
    enum hk_status st = hk_hf_read(t->dir, name, HK_TOK_FILE, &p, &n, t->err);
    if (st != HK_OK || p == NULL)
        return st;
    struct hk_buf text = {0};
    widen(&text, p, n);
    free(p);
    st = parse(t, name, &text, out);
    hk_buf_free(&text);
    return st;
}

struct hk_bytes hk_tok_string(const json_t *s)
{
    return (struct hk_bytes){(const uint8_t *)json_string_value(s), json_string_length(s)};
}

bool hk_tok_is(const json_t *o, const char *name)
{
    return json_is_string(json_object_get(o, "type")) &&
           hk_bytes_are(hk_tok_string(json_object_get(o, "type")), name);
}

const char *hk_tok_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "(none)";
}

enum hk_status hk_tok_put_json(const struct hk_tok *t, enum hk_vocab_key key, const json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT);
    if (text == NULL)
        return hk_fail_nomem(t->err);
    hk_kvlist_json(t->out, hk_vocab_key(key),
                   (struct hk_bytes){(const uint8_t *)text, strlen(text)});
    free(text);
    return HK_OK;
}
