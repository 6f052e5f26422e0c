/* JSON text as GGUF arrays: the way back of gguf/json.c. The type name leads, the text must fit. */
#include <jansson.h>
#include <math.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/put.h"

struct source {
    struct hk_bytes text; /* what is left */
    const char *type;     /* likewise */
};

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void advance(struct hk_bytes *text, size_t n)
{
    text->p += n;
    text->n -= n;
}

/* Skip blanks, then C if it comes next. */
static bool accept(struct hk_bytes *text, char c)
{
    while (text->n > 0 && is_blank(text->p[0]))
        advance(text, 1);
    if (text->n == 0 || text->p[0] != (uint8_t)c)
        return false;
    advance(text, 1);
    return true;
}

static size_t string_length(struct hk_bytes text)
{
    size_t n = 1;
    while (n < text.n && text.p[n] != '"')
        n += text.p[n] == '\\' ? 2 : 1;
    return n < text.n ? n + 1 : text.n;
}

/* The next string (with its quotes), number or word. */
static struct hk_bytes token(struct hk_bytes *text)
{
    while (text->n > 0 && is_blank(text->p[0]))
        advance(text, 1);
    struct hk_bytes t = {text->p, 0};
    if (text->n > 0 && text->p[0] == '"')
        t.n = string_length(*text);
    else
        while (t.n < text->n && !is_blank(t.p[t.n]) && t.p[t.n] != ',' && t.p[t.n] != ']')
            t.n++;
    advance(text, t.n);
    return t;
}

bool hk_gguf_put_json_int(struct hk_buf *b, unsigned type, struct hk_bytes text)
{
    struct hk_bytes t = token(&text);
    uint64_t v = 0;
    bool negative = t.n > 0 && t.p[0] == '-';
    if (negative)
        advance(&t, 1);
    if (t.n == 0)
        return false;
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < '0' || t.p[i] > '9' || !mul_ok(v, 10, &v) ||
            !add_ok(v, (uint64_t)(t.p[i] - '0'), &v))
            return false;
    }
    return hk_gguf_put_int(b, type, negative, v);
}

static bool put_string(struct hk_buf *b, struct hk_bytes t)
{
    json_t *value = hk_json_load(t, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool good = json_is_string(value);
    if (good)
        hk_gguf_put_string(b, (struct hk_bytes){(const uint8_t *)json_string_value(value),
                                                json_string_length(value)});
    json_decref(value);
    return good;
}

static bool put_float(struct hk_buf *b, unsigned type, struct hk_bytes t)
{
    double d;
    float f;
    if (!hk_parse_json_double(t, &d))
        return false;
    if (type == GGUF_F64)
        return hk_gguf_put_f64(b, d), true;
    /* Nine digits name a float, and its nearest double rounds to it. */
    if (!isnan(d))
        f = (float)d;
    else if (!hk_narrow_double(d, &f))
        return false;
    hk_gguf_put_f32(b, f);
    return true;
}

static bool put_scalar(struct hk_buf *b, unsigned type, struct hk_bytes t)
{
    if (t.n == 0)
        return false;
    if (type == GGUF_STRING)
        return put_string(b, t);
    if (type == GGUF_F32 || type == GGUF_F64)
        return put_float(b, type, t);
    if (type == GGUF_BOOL)
        return (hk_bytes_are(t, "true") || hk_bytes_are(t, "false")) &&
               hk_gguf_put_int64(b, type, t.p[0] == 't');
    return hk_gguf_put_json_int(b, type, t);
}

static bool put_array(struct hk_buf *b, struct source *s, unsigned depth);

/* What the elements of an array are. */
struct elements {
    unsigned type;
    bool arrays;       /* of a type that is spelt out */
    const char *first; /* where that type begins, or the list of one type for each */
    bool list;
    uint64_t count; /* so far */
};

/* The next element, an array whose type is at S or, where one type serves all, at the first. */
static bool put_inner(struct hk_buf *b, struct source *s, unsigned depth, struct elements *e)
{
    if (e->count == 1)
        e->list = *s->type == ',';
    if (e->count > 0 && e->list && *s->type++ != ',')
        return false;
    if (e->count > 0 && !e->list)
        s->type = e->first;
    return put_array(b, s, depth + 1);
}

static bool put_elements(struct hk_buf *b, struct source *s, unsigned depth, struct elements *e)
{
    for (; !accept(&s->text, ']'); e->count++) {
        if (b->failed || (e->count > 0 && !accept(&s->text, ',')))
            return false;
        bool good = e->arrays               ? put_inner(b, s, depth, e)
                    : e->type != GGUF_ARRAY ? put_scalar(b, e->type, token(&s->text))
                                            : false;
        if (!good)
            return false;
    }
    return !b->failed && !(e->arrays && e->count == 0);
}

/* The array at S, whose type begins with "array<" there; both move behind it. */
static bool put_array(struct hk_buf *b, struct source *s, unsigned depth)
{
    if (depth > GGUF_MAX_DEPTH || strncmp(s->type, "array<", 6) != 0 || !accept(&s->text, '['))
        return false;
    s->type += 6;
    struct elements e = {.first = s->type};
    e.type = hk_gguf_type_parse(&s->type);
    e.arrays = e.type == GGUF_ARRAY && *s->type == '<';
    if (e.type >= GGUF_TYPE_COUNT)
        return false;
    if (e.arrays)
        s->type = e.first;
    hk_buf_u32(b, e.type);
    size_t count_at = b->n;
    hk_buf_u64(b, 0);
    if (!put_elements(b, s, depth, &e) || *s->type != '>')
        return false;
    s->type++;
    put64(b->p + count_at, e.count);
    return true;
}

bool hk_gguf_put_json_array(struct hk_buf *b, struct hk_bytes text, const char *type)
{
    struct source s = {text, type};
    if (!put_array(b, &s, 1))
        return false;
    while (s.text.n > 0 && is_blank(s.text.p[0]))
        advance(&s.text, 1);
    return s.text.n == 0 && *s.type == '\0';
}
