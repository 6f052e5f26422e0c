/* GGUF metadata values as the value types of .hk: format-notes 2.3, with what it leaves out as
 * JSON. */
#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/gguf.h"

static uint8_t *keep(struct gguf_reader *r, struct hk_kv *kv, enum hk_meta_type type, size_t n)
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

int64_t hk_gguf_load_int(unsigned type, const uint8_t *p)
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

/* A u64 above 2^63-1. */
static bool big_int(struct gguf_reader *r, struct hk_kv *kv, uint64_t v)
{
    char text[24];
    size_t at = sizeof text;
    for (; v != 0; v /= 10)
        text[--at] = (char)('0' + v % 10);
    uint8_t *p = keep(r, kv, HK_META_JSON, sizeof text - at);
    if (p != NULL)
        memcpy(p, text + at, sizeof text - at);
    return p != NULL;
}

static bool scalar(struct gguf_reader *r, struct hk_kv *kv, unsigned type)
{
    const uint8_t *v = hk_gguf_take(r, hk_gguf_type_size(type), "value");
    if (v == NULL)
        return false;
    if (type == GGUF_U64 && le64(v) > INT64_MAX)
        return big_int(r, kv, le64(v));
    enum hk_meta_type meta = type == GGUF_BOOL                      ? HK_META_BOOL
                             : type == GGUF_F32 || type == GGUF_F64 ? HK_META_FLOAT64
                                                                    : HK_META_INT64;
    uint8_t *p = keep(r, kv, meta, meta == HK_META_BOOL ? 1 : 8);
    if (p == NULL)
        return false;
    if (type == GGUF_F32)
        put_f64(p, hk_widen_float(le_f32(v)));
    else if (type == GGUF_F64)
        memcpy(p, v, 8);
    else if (type == GGUF_BOOL)
        p[0] = v[0] != 0;
    else
        put64(p, (uint64_t)hk_gguf_load_int(type, v));
    return true;
}

static bool string(struct gguf_reader *r, struct hk_kv *kv)
{
    kv->type = HK_META_STRING;
    return hk_gguf_string(r, &kv->value, "string");
}

/* Bytes that the N strings at the cursor hold; the cursor does not move. */
static bool measure_strings(struct gguf_reader *r, uint64_t n, uint64_t *total)
{
    uint64_t start = r->c.at, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct hk_bytes s;
        if (!hk_gguf_string(r, &s, "string of an array"))
            return false;
        sum += s.n; /* no more than the file */
    }
    r->c.at = start;
    *total = sum;
    return true;
}

static void blob_head(uint8_t *p, enum hk_array_kind kind, uint64_t count)
{
    put32(p, kind);
    put32(p + 4, (uint32_t)count);
}

static bool string_array(struct gguf_reader *r, struct hk_kv *kv, uint64_t count)
{
    uint64_t at = r->c.at, total;
    if (!measure_strings(r, count, &total))
        return false;
    if (total > UINT32_MAX || count >= UINT32_MAX / 4)
        return hk_gguf_fail(r, HK_E_RANGE, at,
                            "strings of an array hold %llu bytes, more than 2^32-1",
                            (unsigned long long)total);
    uint8_t *p = keep(r, kv, HK_META_BYTES, 12 + 4 * (size_t)count + (size_t)total);
    if (p == NULL)
        return false;
    blob_head(p, HK_ARRAY_STRING, count);
    uint8_t *offsets = p + 8, *text = p + 12 + 4 * count;
    uint32_t end = 0;
    put32(offsets, 0);
    for (uint64_t i = 1; i <= count; i++) {
        struct hk_bytes s;
        if (!hk_gguf_string(r, &s, "string of an array"))
            return false;
        if (s.n > 0)
            memcpy(text + end, s.p, s.n);
        end += (uint32_t)s.n;
        put32(offsets + 4 * i, end);
    }
    return true;
}

static bool fits_i32(const uint8_t *p, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (le32(p + 4 * i) > INT32_MAX)
            return false;
    return true;
}

/* COUNT numbers of TYPE at P as an f32 or i32 blob. */
static bool number_array(struct gguf_reader *r, struct hk_kv *kv, unsigned type, uint64_t count,
                         const uint8_t *p)
{
    uint8_t *blob = keep(r, kv, HK_META_BYTES, 8 + 4 * (size_t)count);
    if (blob == NULL)
        return false;
    blob_head(blob, type == GGUF_F32 ? HK_ARRAY_F32 : HK_ARRAY_I32, count);
    size_t size = hk_gguf_type_size(type);
    if (type == GGUF_F32 && count > 0)
        memcpy(blob + 8, p, 4 * (size_t)count);
    for (uint64_t i = 0; type != GGUF_F32 && i < count; i++)
        put32(blob + 8 + 4 * i, (uint32_t)hk_gguf_load_int(type, p + size * i));
    return true;
}

static bool array(struct gguf_reader *r, struct hk_kv *kv)
{
    uint64_t at = r->c.at, count;
    uint32_t type;
    if (!hk_gguf_u32(r, &type, "element type") || !hk_gguf_u64(r, &count, "array length"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "array of unknown value type %u", type);
    size_t size = hk_gguf_type_size(type);
    if (!hk_gguf_expect(r, count, size != 0 ? size : 8, "array"))
        return false;
    if (count > UINT32_MAX)
        return hk_gguf_fail(r, HK_E_RANGE, at + 4, "array of %llu elements, more than 2^32-1",
                            (unsigned long long)count);
    kv->gguf_type = hk_gguf_array_name(type);
    if (type == GGUF_STRING)
        return string_array(r, kv, count);
    bool wide = type == GGUF_ARRAY || type == GGUF_U64 || type == GGUF_I64 || type == GGUF_F64;
    const uint8_t *p = r->c.base + r->c.at;
    if (wide || (type == GGUF_U32 && !fits_i32(p, count)))
        return hk_gguf_array_json(r, type, count, kv);
    r->c.at += size * count;
    return number_array(r, kv, type, count, p);
}

bool hk_gguf_value(struct gguf_reader *r, struct hk_kv *kv)
{
    uint64_t at = r->c.at;
    uint32_t type;
    if (!hk_gguf_u32(r, &type, "value type"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "unknown value type %u", type);
    kv->offset = r->c.at;
    kv->gguf_type = hk_gguf_type_name(type);
    if (type == GGUF_STRING)
        return string(r, kv);
    return type == GGUF_ARRAY ? array(r, kv) : scalar(r, kv, type);
}
