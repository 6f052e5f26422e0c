/* GGUF arrays that have no array blob: of 64-bit numbers, of large u32, and arrays of arrays. The
 * value is JSON text; the type name is exact, since JSON does not tell widths:
 *   array<u64>          all elements have the type named
 *   array<array>        no elements, which would be arrays
 *   array<A,B,C>        elements are arrays of differing types, named one by one */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/gguf.h"

static bool string_text(struct gguf_reader *r, struct hk_buf *text)
{
    struct hk_bytes s;
    uint64_t at = r->c.at;
    if (!hk_gguf_string(r, &s, "string of an array"))
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

static bool scalar_text(struct gguf_reader *r, unsigned type, struct hk_buf *text)
{
    if (type == GGUF_STRING)
        return string_text(r, text);
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
        snprintf(number, sizeof number, "%" PRId64, hk_gguf_load_int(type, p));
    hk_buf_text(text, number);
    return true;
}

static bool array_text(struct gguf_reader *r, uint32_t type, uint64_t count, unsigned depth,
                       struct hk_buf *text, struct hk_buf *name);

static bool inner_text(struct gguf_reader *r, unsigned depth, struct hk_buf *text,
                       struct hk_buf *name)
{
    uint64_t at = r->c.at, count;
    uint32_t type;
    if (depth > GGUF_MAX_DEPTH)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "arrays are nested more than %d deep",
                            GGUF_MAX_DEPTH);
    if (!hk_gguf_u32(r, &type, "element type") || !hk_gguf_u64(r, &count, "array length"))
        return false;
    if (type >= GGUF_TYPE_COUNT)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "array of unknown value type %u", type);
    return array_text(r, type, count, depth, text, name);
}

/* COUNT arrays. Their type names are listed, then cut to one if all are equal. */
static bool arrays_text(struct gguf_reader *r, uint64_t count, unsigned depth, struct hk_buf *text,
                        struct hk_buf *name)
{
    size_t first = name->n, length = 0;
    bool same = true;
    for (uint64_t i = 0; i < count; i++) {
        hk_buf_text(text, i > 0 ? "," : "");
        hk_buf_text(name, i > 0 ? "," : "");
        size_t start = name->n;
        if (!inner_text(r, depth + 1, text, name))
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

static bool array_text(struct gguf_reader *r, uint32_t type, uint64_t count, unsigned depth,
                       struct hk_buf *text, struct hk_buf *name)
{
    size_t size = hk_gguf_type_size(type);
    if (!hk_gguf_expect(r, count, size != 0 ? size : 8, "array"))
        return false;
    hk_buf_text(text, "[");
    hk_buf_text(name, "array<");
    if (type == GGUF_ARRAY && count > 0) {
        if (!arrays_text(r, count, depth, text, name))
            return false;
    } else {
        hk_buf_text(name, hk_gguf_type_name(type));
        for (uint64_t i = 0; i < count; i++) {
            hk_buf_text(text, i > 0 ? "," : "");
            if (!scalar_text(r, type, text))
                return false;
        }
    }
    hk_buf_text(text, "]");
    hk_buf_text(name, ">");
    return true;
}

static const uint8_t *kept(struct gguf_reader *r, const struct hk_buf *b, size_t n)
{
    uint8_t *p = b->failed ? NULL : hk_arena_alloc(r->arena, n);
    if (p == NULL)
        hk_gguf_fail_nomem(r);
    else
        memcpy(p, b->p, n);
    return p;
}

bool hk_gguf_array_json(struct gguf_reader *r, uint32_t type, uint64_t count, struct hk_kv *kv)
{
    struct hk_buf text = {0}, name = {0};
    bool good = array_text(r, type, count, 1, &text, &name);
    hk_buf_put(&name, "", 1);
    const uint8_t *value = good ? kept(r, &text, text.n) : NULL;
    const uint8_t *type_name = value != NULL ? kept(r, &name, name.n) : NULL;
    if (type_name != NULL) {
        kv->type = HK_META_JSON;
        kv->value = (struct hk_bytes){value, text.n};
        kv->gguf_type = (const char *)type_name;
    }
    hk_buf_free(&text);
    hk_buf_free(&name);
    return type_name != NULL;
}
