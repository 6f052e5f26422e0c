/* What a GGUF head is made of: integers, strings, and metadata values as the value types of .hk
 * (format-notes 2.3). */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/stream.h"
#include "libhkfmt/hkmodel.h"

/* ---- value types ---- */

/* clang-format off */
static const struct {
    const char *name, *array;
    size_t size;
} types[GGUF_TYPE_COUNT] = {
    [GGUF_U8]     = {"u8",     "array<u8>",     1},
    [GGUF_I8]     = {"i8",     "array<i8>",     1},
    [GGUF_U16]    = {"u16",    "array<u16>",    2},
    [GGUF_I16]    = {"i16",    "array<i16>",    2},
    [GGUF_U32]    = {"u32",    "array<u32>",    4},
    [GGUF_I32]    = {"i32",    "array<i32>",    4},
    [GGUF_F32]    = {"f32",    "array<f32>",    4},
    [GGUF_BOOL]   = {"bool",   "array<bool>",   1},
    [GGUF_STRING] = {"string", "array<string>", 0},
    [GGUF_ARRAY]  = {"array",  "array<array>",  0},
    [GGUF_U64]    = {"u64",    "array<u64>",    8},
    [GGUF_I64]    = {"i64",    "array<i64>",    8},
    [GGUF_F64]    = {"f64",    "array<f64>",    8},
};
/* clang-format on */

size_t hk_gguf_type_size(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].size : 0;
}

/* "u8", ... and "array<u8>", ...; NULL for an unknown type. */
static const char *gguf_type_name(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].name : NULL;
}

static const char *gguf_array_name(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].array : NULL;
}

unsigned hk_gguf_type_parse(const char **name)
{
    for (unsigned type = 0; type < GGUF_TYPE_COUNT; type++) {
        size_t n = strlen(types[type].name);
        if (strncmp(*name, types[type].name, n) == 0) {
            *name += n;
            return type;
        }
    }
    return GGUF_TYPE_COUNT;
}

/* ---- the next bytes ---- */

bool hk_gguf_fail(struct gguf_reader *r, enum hk_status st, uint64_t offset, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->status = st;
    if (r->kind == NULL)
        hk_fail(r->err, st, offset, "%s", text);
    else if (r->name.p == NULL)
        hk_fail(r->err, st, offset, "%s %llu: %s", r->kind, (unsigned long long)r->index, text);
    else
        hk_fail(r->err, st, offset, "%s %llu '%.*s': %s", r->kind, (unsigned long long)r->index,
                HK_STR(r->name), text);
    return false;
}

bool hk_gguf_fail_nomem(struct gguf_reader *r)
{
    r->status = hk_fail_nomem(r->err);
    return false;
}

/* N bytes are wanted and not there: in a stream they may follow. */
static void note_short_read(struct gguf_reader *r, uint64_t n)
{
    r->short_of = r->stream && n <= HK_MAX_STREAM_HEAD;
}

bool hk_gguf_expect(struct gguf_reader *r, uint64_t count, uint64_t least, const char *what)
{
    uint64_t size, left = cursor_left(&r->c);
    bool sane = mul_ok(count, least, &size);
    if (sane && size <= left)
        return true;
    note_short_read(r, sane ? size : UINT64_MAX);
    return hk_gguf_fail(r, HK_E_RANGE, r->c.at,
                        "%s of %llu entries does not fit the %llu bytes left", what,
                        (unsigned long long)count, (unsigned long long)left);
}

const uint8_t *hk_gguf_take(struct gguf_reader *r, uint64_t n, const char *what)
{
    const uint8_t *p = cursor_take(&r->c, n);
    if (p != NULL)
        return p;
    note_short_read(r, n);
    hk_gguf_fail(r, HK_E_RANGE, r->c.at, "%s of %llu bytes does not fit the %llu left", what,
                 (unsigned long long)n, (unsigned long long)cursor_left(&r->c));
    return NULL;
}

bool hk_gguf_take_u32(struct gguf_reader *r, uint32_t *out, const char *what)
{
    const uint8_t *p = hk_gguf_take(r, 4, what);
    if (p != NULL)
        *out = le32(p);
    return p != NULL;
}

bool hk_gguf_take_u64(struct gguf_reader *r, uint64_t *out, const char *what)
{
    const uint8_t *p = hk_gguf_take(r, 8, what);
    if (p != NULL)
        *out = le64(p);
    return p != NULL;
}

bool hk_gguf_take_string(struct gguf_reader *r, struct hk_bytes *out, const char *what)
{
    uint64_t at = r->c.at, n;
    if (!hk_gguf_take_u64(r, &n, what))
        return false;
    const uint8_t *p = cursor_take(&r->c, n);
    if (p == NULL) {
        note_short_read(r, n);
        return hk_gguf_fail(r, HK_E_RANGE, at, "%s of %llu bytes does not fit the %llu left", what,
                            (unsigned long long)n, (unsigned long long)cursor_left(&r->c));
    }
    *out = (struct hk_bytes){p, (size_t)n};
    return true;
}

/* Element of an integer type (or bool) at P; a u64 comes as its bits. */
static int64_t load_gguf_int(unsigned type, const uint8_t *p)
{
    switch (type) {
    case GGUF_U8:
        return p[0];
    case GGUF_I8:
        return (int8_t)p[0];
    case GGUF_U16:
        return le16(p);
    case GGUF_I16:
        return (int16_t)le16(p);
    case GGUF_U32:
        return le32(p);
    case GGUF_I32:
        return (int32_t)le32(p);
    case GGUF_BOOL:
        return p[0] != 0;
    default:
        return (int64_t)le64(p);
    }
}

/* ---- arrays as JSON ----
 * Of 64-bit numbers, of large u32, and arrays of arrays, which no array blob holds. The type name
 * is exact, since JSON does not say widths: array<u64>          all elements have the type named
 *   array<array>        no elements, which would be arrays
 *   array<A,B,C>        elements are arrays of differing types, named one by one */

static bool put_string_text(struct gguf_reader *r, struct hk_buf *text)
{
    struct hk_bytes s;
    uint64_t at = r->c.at;
    if (!hk_gguf_take_string(r, &s, "string of an array"))
        return false;
    if (!hk_utf8_valid(s))
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at,
                            "an array in an array holds a string that is not UTF-8");
    json_t *value = json_stringn(s.n > 0 ? (const char *)s.p : "", s.n);
    char *quoted = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL)
        return hk_gguf_fail_nomem(r);
    hk_buf_text(text, quoted);
    free(quoted);
    return true;
}

static bool put_scalar_text(struct gguf_reader *r, unsigned type, struct hk_buf *text)
{
    if (type == GGUF_STRING)
        return put_string_text(r, text);
    const uint8_t *p = hk_gguf_take(r, hk_gguf_type_size(type), "element of an array");
    char number[32] = "";
    if (p == NULL)
        return false;
    if (type == GGUF_F32)
        hk_put_json_double(text, hk_widen_float(le_f32(p)), 9);
    else if (type == GGUF_F64)
        hk_put_json_double(text, le_f64(p), 17);
    else if (type == GGUF_BOOL)
        hk_buf_text(text, p[0] != 0 ? "true" : "false");
    else if (type == GGUF_U64)
        snprintf(number, sizeof number, "%" PRIu64, le64(p));
    else
        snprintf(number, sizeof number, "%" PRId64, load_gguf_int(type, p));
    hk_buf_text(text, number);
    return true;
}

static bool put_array_text(struct gguf_reader *r, uint32_t type, uint64_t count, unsigned depth,
                           struct hk_buf *text, struct hk_buf *name);

static bool put_inner_array_text(struct gguf_reader *r, unsigned depth, struct hk_buf *text,
                                 struct hk_buf *name)
{
    uint64_t at = r->c.at, count;
    uint32_t type;
    if (depth > GGUF_MAX_DEPTH)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "arrays are nested more than %d deep",
                            GGUF_MAX_DEPTH);
    if (!hk_gguf_take_u32(r, &type, "element type") || !hk_gguf_take_u64(r, &count, "array length"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "array of unknown value type %u", type);
    return put_array_text(r, type, count, depth, text, name);
}

/* COUNT arrays. Their type names are listed, then cut to one if all are equal. */
static bool put_arrays_text(struct gguf_reader *r, uint64_t count, unsigned depth,
                            struct hk_buf *text, struct hk_buf *name)
{
    size_t first = name->n, length = 0;
    bool same = true;
    for (uint64_t i = 0; i < count; i++) {
        hk_buf_text(text, i > 0 ? "," : "");
        hk_buf_text(name, i > 0 ? "," : "");
        size_t start = name->n;
        if (!put_inner_array_text(r, depth + 1, text, name))
            return false;
        if (name->failed || text->failed)
            return hk_gguf_fail_nomem(r);
        if (i == 0)
            length = name->n - first;
        same = same && name->n - start == length &&
               memcmp(name->p + start, name->p + first, length) == 0;
    }
    if (count > 0 && same)
        name->n = first + length;
    return true;
}

static bool put_array_text(struct gguf_reader *r, uint32_t type, uint64_t count, unsigned depth,
                           struct hk_buf *text, struct hk_buf *name)
{
    size_t size = hk_gguf_type_size(type);
    if (!hk_gguf_expect(r, count, size != 0 ? size : 8, "array"))
        return false;
    hk_buf_text(text, "[");
    hk_buf_text(name, "array<");
    if (type == GGUF_ARRAY && count > 0) {
        if (!put_arrays_text(r, count, depth, text, name))
            return false;
    } else {
        hk_buf_text(name, gguf_type_name(type));
        for (uint64_t i = 0; i < count; i++) {
            hk_buf_text(text, i > 0 ? "," : "");
            if (!put_scalar_text(r, type, text))
                return false;
        }
    }
    hk_buf_text(text, "]");
    hk_buf_text(name, ">");
    return true;
}

static const uint8_t *keep_buffer(struct gguf_reader *r, const struct hk_buf *b, size_t n)
{
    uint8_t *p = b->failed ? NULL : hk_arena_alloc(r->arena, n);
    if (p == NULL)
        hk_gguf_fail_nomem(r);
    else
        memcpy(p, b->p, n);
    return p;
}

/* The array of COUNT elements of TYPE at the cursor as JSON text, with its exact type name. */
static bool take_array_as_json(struct gguf_reader *r, uint32_t type, uint64_t count,
                               struct hk_kv *kv)
{
    struct hk_buf text = {0}, name = {0};
    bool good = put_array_text(r, type, count, 1, &text, &name);
    hk_buf_put(&name, "", 1);
    const uint8_t *value = good ? keep_buffer(r, &text, text.n) : NULL;
    const uint8_t *type_name = value != NULL ? keep_buffer(r, &name, name.n) : NULL;
    if (type_name != NULL) {
        kv->type = HK_META_JSON;
        kv->value = (struct hk_bytes){value, text.n};
        kv->gguf_type = (const char *)type_name;
    }
    hk_buf_free(&text);
    hk_buf_free(&name);
    return type_name != NULL;
}

/* ---- values ---- */

static uint8_t *make_room_for_value(struct gguf_reader *r, struct hk_kv *kv, enum hk_meta_type type,
                                    size_t n)
{
    uint8_t *p = hk_arena_alloc(r->arena, n);
    if (p == NULL) {
        hk_gguf_fail_nomem(r);
        return NULL;
    }
    kv->type = (uint8_t)type;
    kv->value = (struct hk_bytes){p, n};
    return p;
}

/* A u64 above 2^63-1. */
static bool set_big_int(struct gguf_reader *r, struct hk_kv *kv, uint64_t v)
{
    char text[24];
    size_t at = sizeof text;
    for (; v != 0; v /= 10)
        text[--at] = (char)('0' + v % 10);
    uint8_t *p = make_room_for_value(r, kv, HK_META_JSON, sizeof text - at);
    if (p != NULL)
        memcpy(p, text + at, sizeof text - at);
    return p != NULL;
}

static bool take_scalar(struct gguf_reader *r, struct hk_kv *kv, unsigned type)
{
    const uint8_t *v = hk_gguf_take(r, hk_gguf_type_size(type), "value");
    if (v == NULL)
        return false;
    if (type == GGUF_U64 && le64(v) > INT64_MAX)
        return set_big_int(r, kv, le64(v));
    enum hk_meta_type meta = type == GGUF_BOOL                      ? HK_META_BOOL
                             : type == GGUF_F32 || type == GGUF_F64 ? HK_META_FLOAT64
                                                                    : HK_META_INT64;
    uint8_t *p = make_room_for_value(r, kv, meta, meta == HK_META_BOOL ? 1 : 8);
    if (p == NULL)
        return false;
    if (type == GGUF_F32)
        put_f64(p, hk_widen_float(le_f32(v)));
    else if (type == GGUF_F64)
        memcpy(p, v, 8);
    else if (type == GGUF_BOOL)
        p[0] = v[0] != 0;
    else
        put64(p, (uint64_t)load_gguf_int(type, v));
    return true;
}

static bool take_string_value(struct gguf_reader *r, struct hk_kv *kv)
{
    kv->type = HK_META_STRING;
    return hk_gguf_take_string(r, &kv->value, "string");
}

/* Bytes that the N strings at the cursor hold; the cursor does not move. */
static bool measure_gguf_strings(struct gguf_reader *r, uint64_t n, uint64_t *total)
{
    uint64_t start = r->c.at, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct hk_bytes s;
        if (!hk_gguf_take_string(r, &s, "string of an array"))
            return false;
        sum += s.n; /* no more than the file */
    }
    r->c.at = start;
    *total = sum;
    return true;
}

static void put_array_head(uint8_t *p, enum hk_array_kind kind, uint64_t count)
{
    put32(p, kind);
    put32(p + 4, (uint32_t)count);
}

static bool take_string_array(struct gguf_reader *r, struct hk_kv *kv, uint64_t count)
{
    uint64_t at = r->c.at, total;
    if (!measure_gguf_strings(r, count, &total))
        return false;
    if (total > UINT32_MAX || count >= UINT32_MAX / 4)
        return hk_gguf_fail(r, HK_E_RANGE, at,
                            "strings of an array hold %llu bytes, more than 2^32-1",
                            (unsigned long long)total);
    uint8_t *p = make_room_for_value(r, kv, HK_META_BYTES, 12 + 4 * (size_t)count + (size_t)total);
    if (p == NULL)
        return false;
    put_array_head(p, HK_ARRAY_STRING, count);
    uint8_t *offsets = p + 8, *text = p + 12 + 4 * count;
    uint32_t end = 0;
    put32(offsets, 0);
    for (uint64_t i = 1; i <= count; i++) {
        struct hk_bytes s;
        if (!hk_gguf_take_string(r, &s, "string of an array"))
            return false;
        if (s.n > 0)
            memcpy(text + end, s.p, s.n);
        end += (uint32_t)s.n;
        put32(offsets + 4 * i, end);
    }
    return true;
}

static bool all_fit_i32(const uint8_t *p, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (le32(p + 4 * i) > INT32_MAX)
            return false;
    return true;
}

/* COUNT numbers of TYPE at P as an f32 or i32 blob. */
static bool take_number_array(struct gguf_reader *r, struct hk_kv *kv, unsigned type,
                              uint64_t count, const uint8_t *p)
{
    uint8_t *blob = make_room_for_value(r, kv, HK_META_BYTES, 8 + 4 * (size_t)count);
    if (blob == NULL)
        return false;
    put_array_head(blob, type == GGUF_F32 ? HK_ARRAY_F32 : HK_ARRAY_I32, count);
    size_t size = hk_gguf_type_size(type);
    if (type == GGUF_F32 && count > 0)
        memcpy(blob + 8, p, 4 * (size_t)count);
    for (uint64_t i = 0; type != GGUF_F32 && i < count; i++)
        put32(blob + 8 + 4 * i, (uint32_t)load_gguf_int(type, p + size * i));
    return true;
}

static bool take_array(struct gguf_reader *r, struct hk_kv *kv)
{
    uint64_t at = r->c.at, count;
    uint32_t type;
    if (!hk_gguf_take_u32(r, &type, "element type") || !hk_gguf_take_u64(r, &count, "array length"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "array of unknown value type %u", type);
    size_t size = hk_gguf_type_size(type);
    if (!hk_gguf_expect(r, count, size != 0 ? size : 8, "array"))
        return false;
    if (count > UINT32_MAX)
        return hk_gguf_fail(r, HK_E_RANGE, at + 4, "array of %llu elements, more than 2^32-1",
                            (unsigned long long)count);
    kv->gguf_type = gguf_array_name(type);
    if (type == GGUF_STRING)
        return take_string_array(r, kv, count);
    bool wide = type == GGUF_ARRAY || type == GGUF_U64 || type == GGUF_I64 || type == GGUF_F64;
    const uint8_t *p = r->c.base + r->c.at;
    if (wide || (type == GGUF_U32 && !all_fit_i32(p, count)))
        return take_array_as_json(r, type, count, kv);
    r->c.at += size * count;
    return take_number_array(r, kv, type, count, p);
}

bool hk_gguf_take_value(struct gguf_reader *r, struct hk_kv *kv)
{
    uint64_t at = r->c.at;
    uint32_t type;
    if (!hk_gguf_take_u32(r, &type, "value type"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "unknown value type %u", type);
    kv->offset = r->c.at;
    kv->gguf_type = gguf_type_name(type);
    if (type == GGUF_STRING)
        return take_string_value(r, kv);
    return type == GGUF_ARRAY ? take_array(r, kv) : take_scalar(r, kv, type);
}
