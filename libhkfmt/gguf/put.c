/* Metadata values of .hk as GGUF values of a given type. */
#include "libhkfmt/gguf/put.h"
#include "libhkfmt/base/number.h"

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

static enum hk_status misfit(const struct hk_kv *kv, const char *type, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s: its %s value is no GGUF %s",
                   HK_STR(kv->key), hk_meta_type_name(kv->type), type);
}

bool hk_gguf_put_int(struct hk_buf *b, unsigned type, bool negative, uint64_t magnitude)
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

bool hk_gguf_put_int64(struct hk_buf *b, unsigned type, int64_t v)
{
    return hk_gguf_put_int(b, type, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void hk_gguf_put_f32(struct hk_buf *b, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    hk_buf_u32(b, bits);
}

void hk_gguf_put_f64(struct hk_buf *b, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    hk_buf_u64(b, bits);
}

void hk_gguf_put_string(struct hk_buf *b, struct hk_bytes s)
{
    hk_buf_u64(b, s.n);
    hk_buf_put(b, s.p, s.n);
}

static bool is_int(unsigned type)
{
    return hk_gguf_type_size(type) != 0 && type != GGUF_F32 && type != GGUF_F64 &&
           type != GGUF_BOOL;
}

static bool put_scalar(struct hk_buf *b, const struct hk_kv *kv, unsigned type)
{
    float f;
    if (type == GGUF_STRING && (kv->type == HK_META_STRING || kv->type == HK_META_JSON))
        return hk_gguf_put_string(b, kv->value), true;
    if (type == GGUF_BOOL && kv->type == HK_META_BOOL)
        return hk_gguf_put_int64(b, type, kv->value.p[0] != 0);
    if (is_int(type) && kv->type == HK_META_INT64)
        return hk_gguf_put_int64(b, type, (int64_t)le64(kv->value.p));
    if (type == GGUF_U64 && kv->type == HK_META_JSON)
        return hk_gguf_put_json_int(b, type, kv->value);
    if (kv->type != HK_META_FLOAT64)
        return false;
    double d = le_f64(kv->value.p);
    if (type == GGUF_F64)
        return hk_gguf_put_f64(b, d), true;
    if (type != GGUF_F32 || !hk_narrow_double(d, &f))
        return false;
    hk_gguf_put_f32(b, f);
    return true;
}

/* The elements of array blob A as TYPE. */
static bool put_elements(struct hk_buf *b, const struct hk_array *a, unsigned type)
{
    hk_buf_u32(b, type);
    hk_buf_u64(b, a->count);
    if (a->kind == HK_ARRAY_F32) {
        hk_buf_put(b, a->blob.p + 8, 4 * (size_t)a->count);
        return type == GGUF_F32;
    }
    bool ints = is_int(type) || type == GGUF_BOOL;
    bool good = a->kind == HK_ARRAY_STRING ? type == GGUF_STRING : ints;
    for (uint32_t i = 0; good && i < a->count; i++) {
        if (a->kind == HK_ARRAY_STRING)
            hk_gguf_put_string(b, hk_array_string(a, i));
        else
            good = hk_gguf_put_int64(b, type, hk_array_i32(a, i));
    }
    return good;
}

static bool put_array(struct hk_buf *b, const struct hk_kv *kv, const char *type)
{
    struct hk_array array;
    if (kv->type == HK_META_JSON)
        return hk_gguf_put_json_array(b, kv->value, type);
    if (kv->type != HK_META_BYTES || !hk_array_from_blob(kv->value, &array))
        return false;
    const char *rest = type + strlen("array<");
    unsigned element = hk_gguf_type_parse(&rest);
    return element < GGUF_TYPE_COUNT && strcmp(rest, ">") == 0 && put_elements(b, &array, element);
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
    if (!(array ? put_array(b, kv, type) : put_scalar(b, kv, kind)))
        return misfit(kv, type, err);
    return b->failed ? hk_fail_nomem(err) : HK_OK;
}
