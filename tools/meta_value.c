/* meta_value.c: the types that values have for people, and values as JSON from which an import
 * makes the same bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/meta.h"

/* ---- base64 ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *meta_base64(struct hk_bytes b)
{
    if (b.n > SIZE_MAX / 2)
        return NULL;
    size_t n = (b.n + 2) / 3 * 4;
    char *text = malloc(n + 1), *out = text;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < b.n; i += 3) {
        size_t left = b.n - i;
        uint32_t v = (uint32_t)b.p[i] << 16 | (left > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) |
                     (left > 2 ? b.p[i + 2] : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[v & 63] : '=';
    }
    json_t *v = json_stringn_nocheck(text, n);
    free(text);
    return v;
}

/* Four digits at S, of which PADDING are "=", as 24 bits; false where they are none, or bits that
 * the padding leaves out are set. */
static bool decode_base64_digits(const char *s, size_t padding, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4 - padding; i++) {
        const char *digit = s[i] != '\0' ? strchr(digits, s[i]) : NULL;
        if (digit == NULL)
            return false;
        v |= (uint32_t)(digit - digits) << (18 - 6 * i);
    }
    *out = v;
    return (v & ((1u << 8 * padding) - 1)) == 0;
}

uint8_t *meta_from_base64(const char *s, size_t length, size_t *n)
{
    uint8_t *bytes = malloc(length / 4 * 3 + 1);
    bool good = bytes != NULL && length % 4 == 0;
    size_t at = 0;
    for (size_t i = 0; good && i < length; i += 4) {
        bool last = i + 4 == length;
        size_t padding = last && s[i + 3] == '=' ? (s[i + 2] == '=' ? 2 : 1) : 0;
        uint32_t v = 0;
        good = decode_base64_digits(s + i, padding, &v);
        for (size_t k = 0; k < 3 - padding; k++)
            bytes[at++] = (uint8_t)(v >> (16 - 8 * k));
    }
    if (!good) {
        free(bytes);
        return NULL;
    }
    *n = at;
    return bytes;
}

/* ---- types and JSON ---- */

static const struct {
    const char *name;
    enum hk_meta_type stored;
} types[META_TYPES] = {
    [META_STRING] = {"string", HK_META_STRING},
    [META_INT] = {"int64", HK_META_INT64},
    [META_FLOAT] = {"float64", HK_META_FLOAT64},
    [META_BOOL] = {"bool", HK_META_BOOL},
    [META_JSON] = {"json", HK_META_JSON},
    [META_BYTES] = {"bytes", HK_META_BYTES},
    [META_STRINGS] = {"array<string>", HK_META_BYTES},
    [META_F32S] = {"array<f32>", HK_META_BYTES},
    [META_I32S] = {"array<i32>", HK_META_BYTES},
};

const char *meta_type_name(enum meta_type type)
{
    return types[type].name;
}

enum meta_type meta_type_of_name(const char *name)
{
    for (enum meta_type type = META_STRING; type < META_TYPES; type++)
        if (strcmp(types[type].name, name) == 0)
            return type;
    if (strcmp(name, "int") == 0) /* their names before */
        return META_INT;
    return strcmp(name, "float") == 0 ? META_FLOAT : META_NONE;
}

enum hk_meta_type meta_stored_type(enum meta_type type)
{
    return types[type].stored;
}

enum meta_type meta_type_of(const struct hk_kv *kv)
{
    struct hk_array a;
    for (enum meta_type type = META_STRING; type < META_BYTES; type++)
        if (types[type].stored == kv->type)
            return type;
    if (!hk_array_from_blob(kv->value, &a))
        return META_BYTES;
    return a.kind == HK_ARRAY_STRING ? META_STRINGS
           : a.kind == HK_ARRAY_F32  ? META_F32S
                                     : META_I32S;
}

bool meta_is_json(struct hk_bytes text)
{
    const size_t flags =
        JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
    json_t *v = tool_json_load(text, flags, NULL);
    json_decref(v);
    return v != NULL;
}

static json_t *array_elements_json(const struct hk_array *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->count; i++)
        tool_json_push(list, a->kind == HK_ARRAY_STRING ? tool_json_bytes(hk_array_string(a, i))
                             : a->kind == HK_ARRAY_F32  ? tool_json_float(hk_array_f32(a, i))
                                                        : json_integer(hk_array_i32(a, i)));
    return list;
}

/* Whether JSON can hold every element exactly. */
static bool json_holds_elements(const struct hk_array *a)
{
    bool good = true;
    for (uint32_t i = 0; good && i < a->count; i++)
        good = a->kind == HK_ARRAY_STRING ? hk_utf8_valid(hk_array_string(a, i))
                                          : a->kind != HK_ARRAY_F32 || isfinite(hk_array_f32(a, i));
    return good;
}

static json_t *exact_array_json(struct hk_bytes value)
{
    struct hk_array a;
    return hk_array_from_blob(value, &a) && json_holds_elements(&a) ? array_elements_json(&a)
                                                                    : NULL;
}

/* The value of KV as JSON; NULL where only its bytes tell it exactly. */
static json_t *exact_value_json(const struct hk_kv *kv, enum meta_type type)
{
    int64_t i;
    double d;
    switch (type) {
    case META_JSON: /* an import takes no other text, but any bytes */
        return meta_is_json(kv->value) ? tool_json_bytes(kv->value) : NULL;
    case META_STRING:
        return hk_utf8_valid(kv->value) ? tool_json_bytes(kv->value) : NULL;
    case META_INT:
        return hk_kv_int(kv, &i, NULL) == HK_OK ? json_integer(i) : NULL;
    case META_FLOAT:
        return hk_kv_float(kv, &d, NULL) == HK_OK && isfinite(d) ? json_real(d) : NULL;
    case META_BOOL:
        return kv->value.p[0] <= 1 ? json_boolean(kv->value.p[0]) : NULL;
    case META_BYTES:
        return NULL;
    default:
        return exact_array_json(kv->value);
    }
}

json_t *meta_json(const struct hk_kv *kv)
{
    json_t *v = json_object();
    enum meta_type type = meta_type_of(kv);
    json_t *value = exact_value_json(kv, type);
    tool_json_set(v, "type", json_string(meta_type_name(type)));
    if (value != NULL)
        tool_json_set(v, "value", value);
    else
        tool_json_set(v, "base64", meta_base64(kv->value));
    return v;
}
