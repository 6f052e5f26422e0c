/* meta_parse.c: text and JSON as values of metadata. Nothing is guessed: the type leads, the text
 * has to be one of it. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/meta.h"

static enum hk_status refuse_value(struct hk_error *err, const char *key, const char *why)
{
    struct hk_bytes name = hk_bytes_of(key);
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "key %.*s: %s", HK_STR(name), why);
}

static enum hk_status keep_value_bytes(struct meta_value *out, enum hk_meta_type type,
                                       const void *p, size_t n, struct hk_error *err)
{
    uint8_t *bytes = malloc(n > 0 ? n : 1);
    if (bytes == NULL)
        return hk_fail_nomem(err);
    if (n > 0)
        memcpy(bytes, p, n);
    *out = (struct meta_value){type, bytes, n};
    return HK_OK;
}

static void put_le_uint(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static enum hk_status keep_int_value(struct meta_value *out, int64_t v, struct hk_error *err)
{
    uint8_t bytes[8];
    put_le_uint(bytes, (uint64_t)v, 8);
    return keep_value_bytes(out, HK_META_INT64, bytes, 8, err);
}

static enum hk_status keep_float_value(struct meta_value *out, double v, struct hk_error *err)
{
    uint8_t bytes[8];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_le_uint(bytes, bits, 8);
    return keep_value_bytes(out, HK_META_FLOAT64, bytes, 8, err);
}

static enum hk_status keep_bool_value(struct meta_value *out, bool v, struct hk_error *err)
{
    uint8_t byte = v;
    return keep_value_bytes(out, HK_META_BOOL, &byte, 1, err);
}

bool meta_narrow(struct meta_value *v)
{
    uint64_t bits = 0;
    double d;
    for (size_t i = 0; i < 8; i++)
        bits |= (uint64_t)v->bytes[i] << 8 * i;
    memcpy(&d, &bits, sizeof d);
    d = (double)(float)d;
    memcpy(&bits, &d, sizeof bits);
    put_le_uint(v->bytes, bits, 8);
    return isfinite(d);
}

/* ---- JSON elements ---- */

/* An integer is a number too, where a double holds it. */
static bool json_as_double(const json_t *v, double *out)
{
    *out = json_number_value(v);
    return json_is_real(v) || (json_is_integer(v) && fabs(*out) <= 0x1p53 &&
                               (json_int_t)*out == json_integer_value(v));
}

/* Bytes of element V of an array; false where it is none of TYPE. */
static bool set_array_element(enum meta_type type, const json_t *v, uint8_t *word)
{
    double d = 0;
    if (type == META_STRINGS)
        return json_is_string(v);
    if (type == META_I32S) {
        json_int_t i = json_integer_value(v);
        put_le_uint(word, (uint64_t)i, 4);
        return json_is_integer(v) && i >= INT32_MIN && i <= INT32_MAX;
    }
    float f = json_as_double(v, &d) ? (float)d : INFINITY;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_le_uint(word, bits, 4);
    return isfinite(f);
}

/* Bytes of the array blob of LIST; false where an element is none of TYPE or it is too long. */
static bool array_blob_size(enum meta_type type, const json_t *list, uint64_t *size)
{
    uint8_t word[4];
    uint64_t n = json_array_size(list);
    *size = 8 + 4 * (n + (type == META_STRINGS));
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!set_array_element(type, v, word))
            return false;
        *size += json_string_length(v);
    }
    return *size <= UINT32_MAX;
}

static void put_string_blob(const json_t *list, uint8_t *blob)
{
    size_t n = json_array_size(list), at = 0;
    uint8_t *data = blob + 8 + 4 * (n + 1);
    put_le_uint(blob + 8, 0, 4);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (json_string_length(v) > 0)
            memcpy(data + at, json_string_value(v), json_string_length(v));
        at += json_string_length(v);
        put_le_uint(blob + 8 + 4 * (i + 1), at, 4);
    }
}

static enum hk_status parse_json_list(struct meta_value *out, enum meta_type type,
                                      const json_t *list, const char *key, struct hk_error *err)
{
    uint64_t size;
    if (!json_is_array(list) || !array_blob_size(type, list, &size))
        return refuse_value(err, key,
                            type == META_STRINGS ? "not an array of strings"
                            : type == META_F32S  ? "not an array of 32-bit floats"
                                                 : "not an array of 32-bit integers");
    uint8_t *blob = calloc(1, size);
    if (blob == NULL)
        return hk_fail_nomem(err);
    blob[0] = (uint8_t)(type == META_STRINGS ? HK_ARRAY_STRING
                        : type == META_F32S  ? HK_ARRAY_F32
                                             : HK_ARRAY_I32);
    put_le_uint(blob + 4, json_array_size(list), 4);
    if (type == META_STRINGS)
        put_string_blob(list, blob);
    for (size_t i = 0; type != META_STRINGS && i < json_array_size(list); i++)
        set_array_element(type, json_array_get(list, i), blob + 8 + 4 * i);
    *out = (struct meta_value){HK_META_BYTES, blob, size};
    return HK_OK;
}

/* ---- text ---- */

/* What a number or word is followed by where it was read from a file. */
static struct hk_bytes strip_newline(struct hk_bytes b)
{
    if (b.n > 0 && b.p[b.n - 1] == '\n')
        b.n--;
    return b;
}

/* Digits from *S on, at least one. */
static bool skip_decimal_digits(const char **s)
{
    size_t n = strspn(*s, "0123456789");
    *s += n;
    return n > 0;
}

/* -?digits[.digits][e[+-]digits] */
static bool is_decimal_number(const char *s, bool whole)
{
    s += *s == '-';
    if (!skip_decimal_digits(&s))
        return false;
    if (!whole && *s == '.' && (s++, !skip_decimal_digits(&s)))
        return false;
    if (!whole && (*s == 'e' || *s == 'E')) {
        s++;
        s += *s == '+' || *s == '-';
        if (!skip_decimal_digits(&s))
            return false;
    }
    return *s == '\0';
}

static enum hk_status parse_int_text(struct meta_value *out, const char *s, const char *key,
                                     struct hk_error *err)
{
    errno = 0;
    intmax_t v = is_decimal_number(s, true) ? strtoimax(s, NULL, 10) : 0;
    if (!is_decimal_number(s, true) || errno != 0)
        return refuse_value(err, key, "not a 64-bit integer");
    return keep_int_value(out, v, err);
}

/* Whether the number S is 0 as it is written. */
static bool is_written_zero(const char *s)
{
    return s[strcspn(s, "123456789eE")] == '\0' ||
           strchr("eE", s[strcspn(s, "123456789eE")]) != NULL;
}

static enum hk_status parse_float_text(struct meta_value *out, const char *s, const char *key,
                                       struct hk_error *err)
{
    double v = is_decimal_number(s, false) ? strtod(s, NULL) : NAN;
    if (!isfinite(v) || (v == 0 && !is_written_zero(s)))
        return refuse_value(err, key, "not a number that a 64-bit float can hold");
    return keep_float_value(out, v, err);
}

static enum hk_status parse_scalar_text(struct meta_value *out, enum meta_type type,
                                        struct hk_bytes text, const char *key, struct hk_error *err)
{
    struct hk_bytes word = strip_newline(text);
    bool nul = memchr(word.p, '\0', word.n) != NULL;
    char *s = strndup((const char *)word.p, word.n);
    if (s == NULL)
        return hk_fail_nomem(err);
    enum hk_status status;
    if (type == META_BOOL)
        status = hk_bytes_are(word, "true") || hk_bytes_are(word, "false")
                     ? keep_bool_value(out, s[0] == 't', err)
                     : refuse_value(err, key, "not true or false");
    else if (nul)
        status = refuse_value(err, key, "not a number");
    else
        status = type == META_INT ? parse_int_text(out, s, key, err)
                                  : parse_float_text(out, s, key, err);
    free(s);
    return status;
}

static enum hk_status parse_string_text(struct meta_value *out, enum meta_type type,
                                        struct hk_bytes text, const char *key, struct hk_error *err)
{
    if (type == META_STRING && !hk_utf8_valid(text))
        return refuse_value(err, key, "not UTF-8, which a string must be; use --type bytes");
    if (type == META_JSON && !meta_is_json(text))
        return refuse_value(err, key, "not JSON");
    return keep_value_bytes(out, meta_stored_type(type), text.p, text.n, err);
}

enum hk_status meta_parse(struct meta_value *out, enum meta_type type, struct hk_bytes text,
                          const char *key, struct hk_error *err)
{
    if (type == META_INT || type == META_FLOAT || type == META_BOOL)
        return parse_scalar_text(out, type, text, key, err);
    if (type == META_STRING || type == META_JSON || type == META_BYTES)
        return parse_string_text(out, type, text, key, err);
    json_t *list = tool_json_any(text);
    enum hk_status status = parse_json_list(out, type, list, key, err);
    json_decref(list);
    return status;
}

/* ---- JSON ---- */

static enum hk_status parse_json_value(struct meta_value *out, enum meta_type type, const json_t *v,
                                       const char *key, struct hk_error *err)
{
    double d;
    struct hk_bytes text = {(const uint8_t *)json_string_value(v), json_string_length(v)};
    switch (type) {
    case META_STRING:
    case META_JSON:
        return json_is_string(v) ? parse_string_text(out, type, text, key, err)
                                 : refuse_value(err, key, "the value is not a JSON string");
    case META_INT:
        return json_is_integer(v) ? keep_int_value(out, json_integer_value(v), err)
                                  : refuse_value(err, key, "the value is not a 64-bit integer");
    case META_FLOAT:
        return json_as_double(v, &d)
                   ? keep_float_value(out, d, err)
                   : refuse_value(err, key,
                                  "the value is not a number that a 64-bit float can hold");
    case META_BOOL:
        return json_is_boolean(v) ? keep_bool_value(out, json_is_true(v), err)
                                  : refuse_value(err, key, "the value is not true or false");
    case META_BYTES:
        return refuse_value(err, key, "bytes must be given as base64");
    default:
        return parse_json_list(out, type, v, key, err);
    }
}

static enum hk_status parse_base64_value(struct meta_value *out, enum meta_type type,
                                         const json_t *v, const char *key, struct hk_error *err)
{
    size_t n = 0;
    uint8_t *bytes = json_is_string(v)
                         ? meta_from_base64(json_string_value(v), json_string_length(v), &n)
                         : NULL;
    if (bytes == NULL)
        return refuse_value(err, key, "not base64");
    *out = (struct meta_value){meta_stored_type(type), bytes, n};
    return HK_OK;
}

enum hk_status meta_parse_json(struct meta_value *out, const json_t *v, const char *key,
                               struct hk_error *err)
{
    const json_t *value = json_object_get(v, "value"), *base64 = json_object_get(v, "base64");
    const char *name = json_string_value(json_object_get(v, "type"));
    enum meta_type type = name != NULL ? meta_type_of_name(name) : META_NONE;
    if (type == META_NONE)
        return refuse_value(err, key, "not null, nor an object with a \"type\" that hk-meta knows");
    if (json_object_size(v) != 2 || (value == NULL) == (base64 == NULL))
        return refuse_value(err, key, "need either \"value\" or \"base64\" beside \"type\"");
    return value != NULL ? parse_json_value(out, type, value, key, err)
                         : parse_base64_value(out, type, base64, key, err);
}
