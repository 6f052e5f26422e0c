/* meta_json.c: values of metadata as JSON from which an import makes the same bytes. */
#include <math.h>
#include <string.h>

#include "tools/meta.h"

static const struct {
    const char *name;
    enum hk_meta_type stored;
} types[META_TYPES] = {
    [META_STRING] = {"string", HK_META_STRING},
    [META_INT] = {"int", HK_META_INT64},
    [META_FLOAT] = {"float", HK_META_FLOAT64},
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
    return META_NONE;
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

static bool is_utf8(struct hk_bytes b)
{
    uint32_t code;
    for (size_t i = 0, n; i < b.n; i += n)
        if ((n = tool_utf8(b.p + i, b.n - i, &code)) == 0)
            return false;
    return true;
}

static json_t *elements(const struct hk_array *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->count; i++)
        tool_json_push(list, a->kind == HK_ARRAY_STRING ? tool_json_bytes(hk_array_string(a, i))
                             : a->kind == HK_ARRAY_F32  ? tool_json_float(hk_array_f32(a, i))
                                                        : json_integer(hk_array_i32(a, i)));
    return list;
}

/* Whether JSON can hold every element exactly. */
static bool elements_fit(const struct hk_array *a)
{
    bool good = true;
    for (uint32_t i = 0; good && i < a->count; i++)
        good = a->kind == HK_ARRAY_STRING ? is_utf8(hk_array_string(a, i))
                                          : a->kind != HK_ARRAY_F32 || isfinite(hk_array_f32(a, i));
    return good;
}

static json_t *array_json(struct hk_bytes value)
{
    struct hk_array a;
    return hk_array_from_blob(value, &a) && elements_fit(&a) ? elements(&a) : NULL;
}

/* The value of KV as JSON; NULL where only its bytes tell it exactly. */
static json_t *plain(const struct hk_kv *kv, enum meta_type type)
{
    int64_t i;
    double d;
    switch (type) {
    case META_JSON: /* an import takes no other text, but any bytes */
        return meta_is_json(kv->value) ? tool_json_bytes(kv->value) : NULL;
    case META_STRING:
        return is_utf8(kv->value) ? tool_json_bytes(kv->value) : NULL;
    case META_INT:
        return hk_kv_int(kv, &i, NULL) == HK_OK ? json_integer(i) : NULL;
    case META_FLOAT:
        return hk_kv_float(kv, &d, NULL) == HK_OK && isfinite(d) ? json_real(d) : NULL;
    case META_BOOL:
        return kv->value.p[0] <= 1 ? json_boolean(kv->value.p[0]) : NULL;
    case META_BYTES:
        return NULL;
    default:
        return array_json(kv->value);
    }
}

json_t *meta_json(const struct hk_kv *kv)
{
    json_t *v = json_object();
    enum meta_type type = meta_type_of(kv);
    json_t *value = plain(kv, type);
    tool_json_set(v, "type", json_string(meta_type_name(type)));
    if (value != NULL)
        tool_json_set(v, "value", value);
    else
        tool_json_set(v, "base64", meta_base64(kv->value));
    return v;
}
