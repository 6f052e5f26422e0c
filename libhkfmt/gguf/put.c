/* Metadata values of .hk as GGUF values of a given type; JSON text as arrays, too: the type name
 * leads, and the text must fit. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/gguf.h"

const char *hk_gguf_default_type(const struct hk_kv *kv)
{
    struct hk_array array;
    float f;
    int64_t v;
    switch (kv->type) {
    case HK_META_INT64:
        v = (int64_t)le64(kv->value.p);
        return v >= 0 && v <= UINT32_MAX ? "u32" : v >= INT32_MIN && v < 0 ? "i32" : "i64";
    case HK_META_FLOAT64:
        return hk_narrow_double(le_f64(kv->value.p), &f) ? "f32" : "f64";
    case HK_META_BOOL:
        return "bool";
    case HK_META_STRING:
    case HK_META_JSON:
        return "string";
    default:
        if (!hk_array_from_blob(kv->value, &array))
            return NULL;
        return array.kind == HK_ARRAY_STRING ? "array<string>"
               : array.kind == HK_ARRAY_F32  ? "array<f32>"
                                             : "array<i32>";
    }
}

/* ---- scalars ---- */

/* Append an integer (or bool) of TYPE; false if it does not fit. */
static bool put_gguf_int(struct hk_buf *b, unsigned type, bool negative, uint64_t magnitude)
{
    /* clang-format off */
    static const struct {
        uint64_t least, most; /* magnitudes of the least and the largest value */
    } range[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = {0, UINT8_MAX},           [GGUF_I8] = {128, INT8_MAX},
        [GGUF_U16] = {0, UINT16_MAX},         [GGUF_I16] = {32768, INT16_MAX},
        [GGUF_U32] = {0, UINT32_MAX},         [GGUF_I32] = {UINT64_C(1) << 31, INT32_MAX},
        [GGUF_U64] = {0, UINT64_MAX},         [GGUF_I64] = {UINT64_C(1) << 63, INT64_MAX},
        [GGUF_BOOL] = {0, 1},
    };
    /* clang-format on */
    if (magnitude > (negative ? range[type].least : range[type].most))
        return false;
    uint8_t bytes[8];
    put64(bytes, negative ? -magnitude : magnitude);
    hk_buf_put(b, bytes, hk_gguf_type_size(type));
    return true;
}

static bool put_gguf_int64(struct hk_buf *b, unsigned type, int64_t v)
{
    return put_gguf_int(b, type, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_gguf_f32(struct hk_buf *b, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    hk_buf_u32(b, bits);
}

static void put_gguf_f64(struct hk_buf *b, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    hk_buf_u64(b, bits);
}

static void put_gguf_string(struct hk_buf *b, struct hk_bytes s)
{
    hk_buf_u64(b, s.n);
    hk_buf_put(b, s.p, s.n);
}

/* ---- JSON text ---- */

struct json_array_source {
    struct hk_bytes text; /* what is left */
    const char *type;     /* likewise */
};

static bool is_json_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_bytes(struct hk_bytes *text, size_t n)
{
    text->p += n;
    text->n -= n;
}

/* Skip blanks, then C if it comes next. */
static bool skip_to_char(struct hk_bytes *text, char c)
{
    while (text->n > 0 && is_json_blank(text->p[0]))
        skip_bytes(text, 1);
    if (text->n == 0 || text->p[0] != (uint8_t)c)
        return false;
    skip_bytes(text, 1);
    return true;
}

static size_t json_string_length_at(struct hk_bytes text)
{
    size_t n = 1;
    while (n < text.n && text.p[n] != '"')
        n += text.p[n] == '\\' ? 2 : 1;
    return n < text.n ? n + 1 : text.n;
}

/* The next string (with its quotes), number or word. */
static struct hk_bytes take_json_token(struct hk_bytes *text)
{
    while (text->n > 0 && is_json_blank(text->p[0]))
        skip_bytes(text, 1);
    struct hk_bytes t = {text->p, 0};
    if (text->n > 0 && text->p[0] == '"')
        t.n = json_string_length_at(*text);
    else
        while (t.n < text->n && !is_json_blank(t.p[t.n]) && t.p[t.n] != ',' && t.p[t.n] != ']')
            t.n++;
    skip_bytes(text, t.n);
    return t;
}

static bool put_json_integer(struct hk_buf *b, unsigned type, struct hk_bytes text)
{
    struct hk_bytes t = take_json_token(&text);
    uint64_t v = 0;
    bool negative = t.n > 0 && t.p[0] == '-';
    if (negative)
        skip_bytes(&t, 1);
    if (t.n == 0)
        return false;
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < '0' || t.p[i] > '9' || !mul_ok(v, 10, &v) ||
            !add_ok(v, (uint64_t)(t.p[i] - '0'), &v))
            return false;
    }
    return put_gguf_int(b, type, negative, v);
}

static bool put_json_string(struct hk_buf *b, struct hk_bytes t)
{
    json_t *value = hk_json_load(t, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool good = json_is_string(value);
    if (good)
        put_gguf_string(b, (struct hk_bytes){(const uint8_t *)json_string_value(value),
                                             json_string_length(value)});
    json_decref(value);
    return good;
}

static bool put_json_float(struct hk_buf *b, unsigned type, struct hk_bytes t)
{
    double d;
    float f;
    if (!hk_parse_json_double(t, &d))
        return false;
    if (type == GGUF_F64)
        return put_gguf_f64(b, d), true;
    /* Nine digits name a float, and its nearest double rounds to it. */
    if (!isnan(d))
        f = (float)d;
    else if (!hk_narrow_double(d, &f))
        return false;
    put_gguf_f32(b, f);
    return true;
}

static bool put_json_scalar(struct hk_buf *b, unsigned type, struct hk_bytes t)
{
    if (t.n == 0)
        return false;
    if (type == GGUF_STRING)
        return put_json_string(b, t);
    if (type == GGUF_F32 || type == GGUF_F64)
        return put_json_float(b, type, t);
    if (type == GGUF_BOOL)
        return (hk_bytes_are(t, "true") || hk_bytes_are(t, "false")) &&
               put_gguf_int64(b, type, t.p[0] == 't');
    return put_json_integer(b, type, t);
}

static bool put_json_array(struct hk_buf *b, struct json_array_source *s, unsigned depth);

/* What the elements of an array are. */
struct elements {
    unsigned type;
    bool arrays;       /* of a type that is spelt out */
    const char *first; /* where that type begins, or the list of one type for each */
    bool list;
    uint64_t count; /* so far */
};

/* The next element, an array whose type is at S or, where one type serves all, at the first. */
static bool put_json_inner_array(struct hk_buf *b, struct json_array_source *s, unsigned depth,
                                 struct elements *e)
{
    if (e->count == 1)
        e->list = *s->type == ',';
    if (e->count > 0 && e->list && *s->type++ != ',')
        return false;
    if (e->count > 0 && !e->list)
        s->type = e->first;
    return put_json_array(b, s, depth + 1);
}

static bool put_json_elements(struct hk_buf *b, struct json_array_source *s, unsigned depth,
                              struct elements *e)
{
    for (; !skip_to_char(&s->text, ']'); e->count++) {
        if (b->failed || (e->count > 0 && !skip_to_char(&s->text, ',')))
            return false;
        bool good = e->arrays               ? put_json_inner_array(b, s, depth, e)
                    : e->type != GGUF_ARRAY ? put_json_scalar(b, e->type, take_json_token(&s->text))
                                            : false;
        if (!good)
            return false;
    }
    return !b->failed && !(e->arrays && e->count == 0);
}

/* The array at S, whose type begins with "array<" there; both move behind it. */
static bool put_json_array(struct hk_buf *b, struct json_array_source *s, unsigned depth)
{
    if (depth > GGUF_MAX_DEPTH || strncmp(s->type, "array<", 6) != 0 ||
        !skip_to_char(&s->text, '['))
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
    if (!put_json_elements(b, s, depth, &e) || *s->type != '>')
        return false;
    s->type++;
    put64(b->p + count_at, e.count);
    return true;
}

static bool put_whole_json_array(struct hk_buf *b, struct hk_bytes text, const char *type)
{
    struct json_array_source s = {text, type};
    if (!put_json_array(b, &s, 1))
        return false;
    while (s.text.n > 0 && is_json_blank(s.text.p[0]))
        skip_bytes(&s.text, 1);
    return s.text.n == 0 && *s.type == '\0';
}

/* ---- the values ---- */

static bool is_gguf_integer(unsigned type)
{
    return hk_gguf_type_size(type) != 0 && type != GGUF_F32 && type != GGUF_F64 &&
           type != GGUF_BOOL;
}

static bool put_gguf_scalar(struct hk_buf *b, const struct hk_kv *kv, unsigned type)
{
    float f;
    if (type == GGUF_STRING && (kv->type == HK_META_STRING || kv->type == HK_META_JSON))
        return put_gguf_string(b, kv->value), true;
    if (type == GGUF_BOOL && kv->type == HK_META_BOOL)
        return put_gguf_int64(b, type, kv->value.p[0] != 0);
    if (is_gguf_integer(type) && kv->type == HK_META_INT64)
        return put_gguf_int64(b, type, (int64_t)le64(kv->value.p));
    if (type == GGUF_U64 && kv->type == HK_META_JSON)
        return put_json_integer(b, type, kv->value);
    if (kv->type != HK_META_FLOAT64)
        return false;
    double d = le_f64(kv->value.p);
    if (type == GGUF_F64)
        return put_gguf_f64(b, d), true;
    if (type != GGUF_F32 || !hk_narrow_double(d, &f))
        return false;
    put_gguf_f32(b, f);
    return true;
}

/* The elements of array blob A as TYPE. */
static bool put_blob_elements(struct hk_buf *b, const struct hk_array *a, unsigned type)
{
    hk_buf_u32(b, type);
    hk_buf_u64(b, a->count);
    if (a->kind == HK_ARRAY_F32) {
        hk_buf_put(b, a->blob.p + 8, 4 * (size_t)a->count);
        return type == GGUF_F32;
    }
    bool ints = is_gguf_integer(type) || type == GGUF_BOOL;
    bool good = a->kind == HK_ARRAY_STRING ? type == GGUF_STRING : ints;
    for (uint32_t i = 0; good && i < a->count; i++) {
        if (a->kind == HK_ARRAY_STRING)
            put_gguf_string(b, hk_array_string(a, i));
        else
            good = put_gguf_int64(b, type, hk_array_i32(a, i));
    }
    return good;
}

static bool put_gguf_array(struct hk_buf *b, const struct hk_kv *kv, const char *type)
{
    struct hk_array array;
    if (kv->type == HK_META_JSON)
        return put_whole_json_array(b, kv->value, type);
    if (kv->type != HK_META_BYTES || !hk_array_from_blob(kv->value, &array))
        return false;
    const char *rest = type + strlen("array<");
    unsigned element = hk_gguf_type_parse(&rest);
    return element < GGUF_TYPE_COUNT && strcmp(rest, ">") == 0 &&
           put_blob_elements(b, &array, element);
}

static enum hk_status fail_misfit(const struct hk_kv *kv, const char *type, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s: its %s value is no GGUF %s",
                   HK_STR(kv->key), hk_meta_type_name(kv->type), type);
}

enum hk_status hk_gguf_put_value(struct hk_buf *b, const struct hk_kv *kv, const char *type,
                                 struct hk_error *err)
{
    const char *rest = type;
    unsigned kind = hk_gguf_type_parse(&rest);
    bool array = kind == GGUF_ARRAY && *rest == '<';
    if (kind >= GGUF_TYPE_COUNT || (!array && *rest != '\0'))
        return hk_fail(err, HK_E_FORMAT, kv->offset,
                       "key %.*s: '%s' of hk.gguf.types is no GGUF type", HK_STR(kv->key), type);
    hk_buf_u32(b, kind);
    if (!(array ? put_gguf_array(b, kv, type) : put_gguf_scalar(b, kv, kind)))
        return fail_misfit(kv, type, err);
    return b->failed ? hk_fail_nomem(err) : HK_OK;
}
