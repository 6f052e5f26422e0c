/* Values of metadata: numbers, texts, the array blobs of format-notes section 2.2, and flat json
 * arrays turned into such blobs. */
#include <jansson.h>
#include <stdlib.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/scan.h"

size_t hk_meta_fixed_size(unsigned type)
{
    return type == HK_META_INT64 || type == HK_META_FLOAT64 ? 8 : type == HK_META_BOOL ? 1 : 0;
}

static enum hk_status refuse_value_type(const struct hk_kv *kv, const char *wanted,
                                        struct hk_error *err)
{
    const char *name = hk_meta_type_name(kv->type);
    return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s is of type %s, not %s", HK_STR(kv->key),
                   name != NULL ? name : "unknown", wanted);
}

enum hk_status hk_kv_int(const struct hk_kv *kv, int64_t *out, struct hk_error *err)
{
    if (kv->type != HK_META_INT64)
        return refuse_value_type(kv, "int64", err);
    *out = (int64_t)le64(kv->value.p);
    return HK_OK;
}

enum hk_status hk_kv_float(const struct hk_kv *kv, double *out, struct hk_error *err)
{
    if (kv->type == HK_META_INT64)
        *out = (double)(int64_t)le64(kv->value.p);
    else if (kv->type == HK_META_FLOAT64)
        *out = le_f64(kv->value.p);
    else
        return refuse_value_type(kv, "float64", err);
    return HK_OK;
}

enum hk_status hk_kv_bool(const struct hk_kv *kv, bool *out, struct hk_error *err)
{
    if (kv->type != HK_META_BOOL)
        return refuse_value_type(kv, "bool", err);
    *out = kv->value.p[0] != 0;
    return HK_OK;
}

enum hk_status hk_kv_string(const struct hk_kv *kv, struct hk_bytes *out, struct hk_error *err)
{
    if (kv->type != HK_META_STRING && kv->type != HK_META_JSON)
        return refuse_value_type(kv, "string", err);
    *out = kv->value;
    return HK_OK;
}

/* ---- array blobs ---- */

static bool is_string_table(struct hk_bytes b, uint32_t count)
{
    uint64_t table = 8 + 4 * ((uint64_t)count + 1);
    if (b.n < table || le32(b.p + 8) != 0)
        return false;
    uint64_t data = b.n - table;
    uint32_t last = 0;
    for (uint64_t i = 0; i <= count; i++) {
        uint32_t offset = le32(b.p + 8 + 4 * i);
        if (offset < last || offset > data)
            return false;
        last = offset;
    }
    return last == data;
}

bool hk_array_from_blob(struct hk_bytes b, struct hk_array *out)
{
    if (b.n < 8 || b.p[1] != 0 || b.p[2] != 0 || b.p[3] != 0)
        return false;
    uint32_t count = le32(b.p + 4);
    bool numbers = b.p[0] == HK_ARRAY_F32 || b.p[0] == HK_ARRAY_I32;
    if (numbers ? b.n != 8 + 4 * (uint64_t)count
                : b.p[0] != HK_ARRAY_STRING || !is_string_table(b, count))
        return false;
    *out = (struct hk_array){.kind = (enum hk_array_kind)b.p[0], .count = count, .blob = b};
    return true;
}

struct hk_bytes hk_array_string(const struct hk_array *a, uint32_t i)
{
    const uint8_t *offsets = a->blob.p + 8;
    const uint8_t *data = offsets + 4 * ((uint64_t)a->count + 1);
    uint32_t start = le32(offsets + 4 * (uint64_t)i), end = le32(offsets + 4 * (uint64_t)i + 4);
    return (struct hk_bytes){data + start, end - start};
}

float hk_array_f32(const struct hk_array *a, uint32_t i)
{
    return le_f32(a->blob.p + 8 + 4 * (uint64_t)i);
}

int32_t hk_array_i32(const struct hk_array *a, uint32_t i)
{
    return (int32_t)le32(a->blob.p + 8 + 4 * (uint64_t)i);
}

void hk_array_free(struct hk_array *a)
{
    free(a->owned);
    *a = (struct hk_array){0};
}

/* ---- json: all strings, all integers of i32, or any numbers (then f32) ---- */

static bool kind_of_json_array(const json_t *list, enum hk_array_kind *kind, uint64_t *bytes)
{
    size_t strings = 0, integers = 0, numbers = 0, n = json_array_size(list);
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t integer = json_is_integer(v) ? json_integer_value(v) : 0;
        strings += json_is_string(v);
        numbers += json_is_number(v);
        integers += json_is_integer(v) && integer >= INT32_MIN && integer <= INT32_MAX;
        *bytes += json_string_length(v);
    }
    *kind = strings == n ? HK_ARRAY_STRING : integers == n ? HK_ARRAY_I32 : HK_ARRAY_F32;
    return n < UINT32_MAX && *bytes < UINT32_MAX && (strings == n || numbers == n);
}

static void fill_strings_of_json(const json_t *list, uint8_t *blob)
{
    size_t n = json_array_size(list);
    uint8_t *data = blob + 8 + 4 * (n + 1);
    uint32_t at = 0;
    put32(blob + 8, 0);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        memcpy(data + at, json_string_value(v), json_string_length(v));
        at += (uint32_t)json_string_length(v);
        put32(blob + 8 + 4 * (i + 1), at);
    }
}

static void fill_numbers_of_json(const json_t *list, enum hk_array_kind kind, uint8_t *blob)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        uint32_t bits = (uint32_t)json_integer_value(v);
        float f = (float)json_number_value(v);
        if (kind == HK_ARRAY_F32)
            memcpy(&bits, &f, sizeof bits);
        put32(blob + 8 + 4 * i, bits);
    }
}

static enum hk_status refuse_array(const struct hk_kv *kv, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s is not an array", HK_STR(kv->key));
}

static enum hk_status array_from_json(const struct hk_kv *kv, bool as_f32, struct hk_array *out,
                                      struct hk_error *err)
{
    json_t *list = hk_json_load(kv->value, JSON_ALLOW_NUL, NULL);
    enum hk_array_kind kind;
    uint64_t bytes;
    if (!json_is_array(list) || !kind_of_json_array(list, &kind, &bytes)) {
        json_decref(list);
        return refuse_array(kv, err);
    }
    size_t n = json_array_size(list);
    if (kind == HK_ARRAY_I32 && as_f32)
        kind = HK_ARRAY_F32;
    uint64_t size =
        kind == HK_ARRAY_STRING ? 8 + 4 * ((uint64_t)n + 1) + bytes : 8 + 4 * (uint64_t)n;
    uint8_t *blob = calloc(1, size);
    if (blob == NULL) {
        json_decref(list);
        return hk_fail_nomem(err);
    }
    blob[0] = (uint8_t)kind;
    put32(blob + 4, (uint32_t)n);
    if (kind == HK_ARRAY_STRING)
        fill_strings_of_json(list, blob);
    else
        fill_numbers_of_json(list, kind, blob);
    json_decref(list);
    *out = (struct hk_array){kind, (uint32_t)n, {blob, size}, blob};
    return HK_OK;
}

enum hk_status hk_kv_array(const struct hk_kv *kv, enum hk_array_kind kind, struct hk_array *out,
                           struct hk_error *err)
{
    static const char *const names[] = {"", "strings", "f32", "i32"};
    struct hk_array a = {0};
    if (kv->type == HK_META_JSON) {
        enum hk_status st = array_from_json(kv, kind == HK_ARRAY_F32, &a, err);
        if (st != HK_OK)
            return st;
    } else if (kv->type != HK_META_BYTES || !hk_array_from_blob(kv->value, &a)) {
        return refuse_array(kv, err);
    }
    if (a.kind != kind && a.count > 0) {
        enum hk_array_kind has = a.kind;
        hk_array_free(&a);
        return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s is an array of %s, not of %s",
                       HK_STR(kv->key), names[has], names[kind]);
    }
    a.kind = kind;
    *out = a;
    return HK_OK;
}
