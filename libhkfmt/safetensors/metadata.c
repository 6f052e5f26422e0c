/* __metadata__ of a safetensors file, both ways: "hk.types" says what its strings stand for in a
 * .hk, so that they become that again, bit for bit. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/base64.h"
#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/base/number.h"
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

/* ---- reading ---- */

struct decoding {
    struct hk_arena *arena;
    bool no_memory;
};

/* N bytes for a value; NULL when out of memory. */
static uint8_t *allocate_value(struct decoding *d, size_t n)
{
    uint8_t *p = hk_arena_alloc(d->arena, n > 0 ? n : 1);
    d->no_memory = p == NULL;
    return p;
}

/* ---- one value each: false where TEXT is none, or no memory ---- */

static bool keep_text(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    (void)d;
    *out = text;
    return true;
}

static bool decode_int64(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    int64_t v;
    uint8_t *p;
    if (!hk_json_i64(text, &v) || (p = allocate_value(d, 8)) == NULL)
        return false;
    put64(p, (uint64_t)v);
    *out = (struct hk_bytes){p, 8};
    return true;
}

/* A word for what JSON has no number for: inf, -inf, nan, or nan: with all its bits. */
static bool parse_number_word(struct hk_bytes word, double *v)
{
    char quoted[24];
    const size_t digits = word.n == 20 && memcmp(word.p, "nan:", 4) == 0 ? 16 : 0;
    if (digits == 0 && !hk_bytes_are(word, "inf") && !hk_bytes_are(word, "-inf") &&
        !hk_bytes_are(word, "nan"))
        return false;
    for (size_t i = 4; i < 4 + digits; i++)
        if (strchr("0123456789abcdef", word.p[i]) == NULL || word.p[i] == '\0')
            return false;
    quoted[0] = quoted[word.n + 1] = '"';
    memcpy(quoted + 1, word.p, word.n);
    return hk_parse_json_double((struct hk_bytes){(const uint8_t *)quoted, word.n + 2}, v) &&
           (digits == 0 || isnan(*v));
}

/* A JSON number or such a word. */
static bool parse_real_text(struct hk_bytes text, double *v)
{
    struct hk_json j = {.text = text};
    bool number = hk_json_next(&j) == HK_JSON_NUMBER && j.span.n == text.n;
    return number ? hk_parse_json_double(text, v) : parse_number_word(text, v);
}

static bool decode_float64(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    double v;
    uint8_t *p;
    if (!parse_real_text(text, &v) || (p = allocate_value(d, 8)) == NULL)
        return false;
    put_f64(p, v);
    *out = (struct hk_bytes){p, 8};
    return true;
}

static bool decode_bool(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    bool yes = hk_bytes_are(text, "true");
    uint8_t *p;
    if ((!yes && !hk_bytes_are(text, "false")) || (p = allocate_value(d, 1)) == NULL)
        return false;
    p[0] = yes;
    *out = (struct hk_bytes){p, 1};
    return true;
}

static bool decode_base64_value(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    uint8_t *p = allocate_value(d, text.n / 4 * 3);
    out->p = p;
    return p != NULL && hk_decode_base64(text, p, &out->n);
}

/* ---- arrays ---- */

/* TEXT is a JSON array of COUNT values that are no arrays or objects. */
static bool count_array_elements(struct hk_bytes text, uint32_t *count)
{
    struct hk_json j = {.text = text};
    enum hk_json_token token = hk_json_next(&j);
    uint64_t n = 0;
    if (token != HK_JSON_ARRAY)
        return false;
    for (; (token = hk_json_next(&j)) != HK_JSON_ARRAY_END; n++)
        if (token == HK_JSON_ERROR || token == HK_JSON_OBJECT || token == HK_JSON_ARRAY)
            return false;
    *count = (uint32_t)n;
    return hk_json_next(&j) == HK_JSON_END && n < UINT32_MAX;
}

/* Room for the blob of an array of KIND, whose bytes behind the count are at most MORE. */
static uint8_t *make_blob_room(struct decoding *d, struct hk_bytes text, enum hk_array_kind kind,
                               uint64_t most, uint32_t *count)
{
    uint64_t size;
    if (!count_array_elements(text, count) ||
        !add_ok(most, 8 + 4 * ((uint64_t)*count + 1), &size) || size > UINT32_MAX)
        return NULL;
    uint8_t *p = allocate_value(d, (size_t)size);
    if (p != NULL) {
        put32(p, (uint32_t)kind);
        put32(p + 4, *count);
    }
    return p;
}

static bool decode_string_array(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    uint32_t count;
    uint8_t *p = make_blob_room(d, text, HK_ARRAY_STRING, text.n, &count);
    if (p == NULL)
        return false;
    const uint64_t table = 8 + 4 * ((uint64_t)count + 1);
    struct hk_json j = {.text = text};
    uint32_t at = 0;
    put32(p + 8, 0);
    hk_json_next(&j);
    for (uint32_t i = 0; i < count; i++) {
        if (hk_json_next(&j) != HK_JSON_STRING)
            return false;
        at += (uint32_t)hk_json_decode(&j, p + table + at);
        put32(p + 8 + 4 * ((uint64_t)i + 1), at);
    }
    *out = (struct hk_bytes){p, (size_t)(table + at)};
    return true;
}

/* The token just read as the bits of an f32, rounded from its decimal digits. */
static bool token_to_f32(const struct hk_json *j, enum hk_json_token token, uint32_t *bits)
{
    bool word = token == HK_JSON_STRING;
    double v;
    if (word ? !parse_number_word(j->span, &v)
             : token != HK_JSON_NUMBER || !hk_parse_json_double(j->span, &v))
        return false;
    float f = word ? 0 : (float)v;
    if (word ? !hk_narrow_double(v, &f) : isinf(f))
        return false; /* a NaN of more bits, a number that only a double holds */
    memcpy(bits, &f, sizeof *bits);
    return true;
}

static bool token_to_i32(const struct hk_json *j, enum hk_json_token token, uint32_t *bits)
{
    int64_t v;
    if (token != HK_JSON_NUMBER || !hk_json_i64(j->span, &v) || v < INT32_MIN || v > INT32_MAX)
        return false;
    *bits = (uint32_t)v;
    return true;
}

static bool decode_word_array(struct decoding *d, struct hk_bytes text, enum hk_array_kind kind,
                              struct hk_bytes *out)
{
    uint32_t count;
    uint8_t *p = make_blob_room(d, text, kind, 0, &count);
    if (p == NULL)
        return false;
    struct hk_json j = {.text = text};
    hk_json_next(&j);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        enum hk_json_token token = hk_json_next(&j);
        if (!(kind == HK_ARRAY_F32 ? token_to_f32(&j, token, &bits)
                                   : token_to_i32(&j, token, &bits)))
            return false;
        put32(p + 8 + 4 * (uint64_t)i, bits);
    }
    *out = (struct hk_bytes){p, 8 + 4 * (size_t)count};
    return true;
}

static bool decode_f32_array(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    return decode_word_array(d, text, HK_ARRAY_F32, out);
}

static bool decode_i32_array(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    return decode_word_array(d, text, HK_ARRAY_I32, out);
}

/* ---- all of them ---- */

static const struct kind {
    const char *name;
    enum hk_meta_type type;
    bool (*decode)(struct decoding *d, struct hk_bytes text, struct hk_bytes *out);
} kinds[] = {
    {"int64", HK_META_INT64, decode_int64},
    {"float64", HK_META_FLOAT64, decode_float64},
    {"bool", HK_META_BOOL, decode_bool},
    {"json", HK_META_JSON, keep_text},
    {"json<base64>", HK_META_JSON, decode_base64_value},
    {"string<base64>", HK_META_STRING, decode_base64_value},
    {"bytes", HK_META_BYTES, decode_base64_value},
    {"array<string>", HK_META_BYTES, decode_string_array},
    {"array<f32>", HK_META_BYTES, decode_f32_array},
    {"array<i32>", HK_META_BYTES, decode_i32_array},
};

/* The kind that the string just read names, or NULL. */
static const struct kind *find_value_kind(const struct hk_json *j)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (hk_json_is(j, kinds[i].name))
            return &kinds[i];
    return NULL;
}

static struct hk_bytes metadata_key_at(const void *table, size_t i)
{
    return ((const struct hk_kv *)table)[i].key;
}

struct applying {
    struct hk_file *f;
    struct hk_json j;
    struct hk_index index;
    bool *done; /* for each pair */
    uint64_t offset;
    struct hk_error *err;
};

static enum hk_status fail_types(const struct applying *a, const char *why)
{
    return hk_fail(a->err, HK_E_FORMAT, a->offset, "key hk.types: %s", why);
}

/* The pair that the key just read names. */
static enum hk_status find_typed_pair(struct applying *a, size_t *out)
{
    struct hk_bytes key = a->j.span;
    if (a->j.escaped) {
        uint8_t *p = hk_arena_alloc(&a->f->arena, key.n);
        if (p == NULL)
            return hk_fail_nomem(a->err);
        key = (struct hk_bytes){p, hk_json_decode(&a->j, p)};
    }
    size_t i = hk_index_find(&a->index, a->f->kvs, metadata_key_at, key);
    if (i == SIZE_MAX || a->done[i])
        return hk_fail(a->err, HK_E_FORMAT, a->offset, "key %.*s %s hk.types", HK_STR(key),
                       i == SIZE_MAX ? "is missing that is in" : "occurs again in");
    a->done[i] = true;
    *out = i;
    return HK_OK;
}

static enum hk_status apply_type(struct applying *a)
{
    size_t i = 0;
    enum hk_status st = find_typed_pair(a, &i);
    if (st != HK_OK)
        return st;
    struct hk_kv *kv = &a->f->kvs[i];
    if (hk_json_next(&a->j) != HK_JSON_STRING)
        return hk_fail(a->err, HK_E_FORMAT, kv->offset, "key %.*s: its type is no string",
                       HK_STR(kv->key));
    const struct kind *kind = find_value_kind(&a->j);
    if (kind == NULL)
        return hk_fail(a->err, HK_E_FORMAT, kv->offset, "key %.*s: unknown type '%.*s'",
                       HK_STR(kv->key), HK_STR(a->j.span));
    struct decoding d = {.arena = &a->f->arena};
    struct hk_bytes value;
    if (!kind->decode(&d, kv->value, &value))
        return d.no_memory ? hk_fail_nomem(a->err)
                           : hk_fail(a->err, HK_E_FORMAT, kv->offset,
                                     "key %.*s: its value is no %s", HK_STR(kv->key), kind->name);
    kv->type = (uint8_t)kind->type;
    kv->value = value;
    return HK_OK;
}

static enum hk_status apply_all_types(struct applying *a)
{
    enum hk_json_token token = hk_json_next(&a->j);
    if (token != HK_JSON_OBJECT)
        return fail_types(a, "it is no JSON object");
    while ((token = hk_json_next(&a->j)) == HK_JSON_KEY) {
        enum hk_status st = apply_type(a);
        if (st != HK_OK)
            return st;
    }
    if (token != HK_JSON_OBJECT_END || hk_json_next(&a->j) != HK_JSON_END)
        return fail_types(a, a->j.why);
    return HK_OK;
}

enum hk_status hk_apply_metadata_types(struct hk_file *f, struct hk_bytes text, uint64_t offset,
                                       struct hk_error *err)
{
    struct applying a = {.f = f, .j = {.text = text}, .offset = offset, .err = err};
    enum hk_status st = HK_E_NOMEM;
    a.done = calloc(f->kv_count + 1, sizeof *a.done);
    if (a.done == NULL ||
        !hk_index_build(&a.index, f->kvs, f->kv_count, metadata_key_at, NULL, NULL))
        hk_fail_nomem(err);
    else
        st = apply_all_types(&a);
    free(a.done);
    hk_index_free(&a.index);
    return st;
}

/* ---- writing ---- */

static bool strings_are_utf8(const struct hk_array *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (!hk_utf8_valid(hk_array_string(a, i)))
            return false;
    return true;
}

static void put_array_element(struct hk_buf *b, const struct hk_array *a, uint32_t i)
{
    char number[16];
    switch (a->kind) {
    case HK_ARRAY_STRING:
        hk_json_quote(b, hk_array_string(a, i));
        break;
    case HK_ARRAY_F32:
        hk_put_json_double(b, hk_widen_float(hk_array_f32(a, i)), 9);
        break;
    case HK_ARRAY_I32:
        snprintf(number, sizeof number, "%" PRId32, hk_array_i32(a, i));
        hk_buf_text(b, number);
        break;
    }
}

static void put_json_text_array(struct hk_buf *b, const struct hk_array *a)
{
    hk_buf_text(b, "[");
    for (uint32_t i = 0; i < a->count; i++) {
        hk_buf_text(b, i > 0 ? "," : "");
        put_array_element(b, a, i);
    }
    hk_buf_text(b, "]");
}

static const char *put_bytes_value(struct hk_buf *b, struct hk_bytes value)
{
    static const char *const names[] = {[HK_ARRAY_STRING] = "array<string>",
                                        [HK_ARRAY_F32] = "array<f32>",
                                        [HK_ARRAY_I32] = "array<i32>"};
    struct hk_array a;
    if (hk_array_from_blob(value, &a) && (a.kind != HK_ARRAY_STRING || strings_are_utf8(&a))) {
        put_json_text_array(b, &a);
        return names[a.kind];
    }
    hk_put_base64(b, value);
    return "bytes";
}

/* Text as such, base64 where it is not UTF-8. */
static const char *put_text_value(struct hk_buf *b, struct hk_bytes value, const char *name,
                                  const char *coded)
{
    if (!hk_utf8_valid(value)) {
        hk_put_base64(b, value);
        return coded;
    }
    hk_buf_put(b, value.p, value.n);
    return name;
}

static const char *put_float64_value(struct hk_buf *b, struct hk_bytes value)
{
    struct hk_buf text = {0};
    hk_put_json_double(&text, le_f64(value.p), 17);
    size_t quote = text.n > 0 && text.p[0] == '"'; /* around a word */
    if (text.failed)
        b->failed = true;
    else
        hk_buf_put(b, text.p + quote, text.n - 2 * quote);
    hk_buf_free(&text);
    return "float64";
}

/* The text of KV's value to B; its *TYPE, NULL of a plain string. */
static enum hk_status put_metadata_value(struct hk_buf *b, const struct hk_kv *kv,
                                         const char **type, struct hk_error *err)
{
    char number[24];
    switch (kv->type) {
    case HK_META_STRING:
        *type = put_text_value(b, kv->value, NULL, "string<base64>");
        return HK_OK;
    case HK_META_JSON:
        *type = put_text_value(b, kv->value, "json", "json<base64>");
        return HK_OK;
    case HK_META_INT64:
        snprintf(number, sizeof number, "%" PRId64, (int64_t)le64(kv->value.p));
        hk_buf_text(b, number);
        *type = "int64";
        return HK_OK;
    case HK_META_FLOAT64:
        *type = put_float64_value(b, kv->value);
        return HK_OK;
    case HK_META_BOOL:
        if (kv->value.p[0] > 1)
            return hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s: bool is %u, not 0 or 1",
                           HK_STR(kv->key), kv->value.p[0]);
        hk_buf_text(b, kv->value.p[0] ? "true" : "false");
        *type = "bool";
        return HK_OK;
    default:
        *type = put_bytes_value(b, kv->value);
        return HK_OK;
    }
}

/* "KEY":"VALUE", and what KV adds to TYPES. */
static enum hk_status put_typed_pair(struct hk_buf *b, struct hk_buf *types, const struct hk_kv *kv,
                                     struct hk_error *err)
{
    if (hk_bytes_are(kv->key, "hk.types"))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key hk.types has a meaning of its own in a safetensors file");
    if (!hk_utf8_valid(kv->key))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key %.*s is not UTF-8, which a safetensors file cannot carry",
                       HK_STR(kv->key));
    struct hk_buf text = {0};
    const char *type = NULL;
    enum hk_status st = put_metadata_value(&text, kv, &type, err);
    if (st == HK_OK && text.failed)
        st = hk_fail_nomem(err);
    if (st == HK_OK) {
        hk_json_quote(b, kv->key);
        hk_buf_text(b, ":");
        hk_json_quote(b, (struct hk_bytes){text.p, text.n});
    }
    if (st == HK_OK && type != NULL) {
        hk_buf_text(types, types->n > 0 ? "," : "{");
        hk_json_quote(types, kv->key);
        hk_buf_text(types, ":\"");
        hk_buf_text(types, type);
        hk_buf_text(types, "\"");
    }
    hk_buf_free(&text);
    return st;
}

/* __metadata__ in the making. */
struct members {
    struct hk_buf *b;
    struct hk_buf types;
    bool any;
};

static enum hk_status put_metadata_member(struct members *m, const struct hk_kv *kv,
                                          struct hk_error *err)
{
    hk_buf_text(m->b, m->any ? "," : "\"__metadata__\":{");
    m->any = true;
    return put_typed_pair(m->b, &m->types, kv, err);
}

/* What a .hk made from GGUF F would have too, so that types that .hk does not tell apart stay. */
static enum hk_status put_gguf_source(struct members *m, const struct hk_file *f,
                                      struct hk_error *err)
{
    uint8_t version[8];
    char *types = NULL;
    put64(version, f->header.version_major);
    enum hk_status st = hk_gguf_types_text(f, &types, err);
    struct hk_kv kvs[] = {
        {hk_bytes_of("hk.source.format"), hk_bytes_of("gguf"), .type = HK_META_STRING},
        {hk_bytes_of("hk.source.gguf_version"), {version, sizeof version}, .type = HK_META_INT64},
        {hk_bytes_of("hk.gguf.types"), hk_bytes_of(types != NULL ? types : ""),
         .type = HK_META_JSON},
    };
    for (size_t i = 0; st == HK_OK && i < (types != NULL ? 3 : 2); i++)
        st = put_metadata_member(m, &kvs[i], err);
    free(types);
    return st;
}

static enum hk_status put_metadata_pairs(struct members *m, const struct hk_file *f,
                                         struct hk_error *err)
{
    const bool gguf = f->format == HK_FORMAT_GGUF;
    enum hk_status st = gguf ? hk_gguf_refuse_keys(f, err) : HK_OK;
    for (size_t i = 0; st == HK_OK && i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        /* How a .hk is laid out: of no meaning here. */
        if (!hk_is_shard_key(f, kv) && !hk_bytes_are(kv->key, "hk.alignment"))
            st = put_metadata_member(m, kv, err);
    }
    return st == HK_OK && gguf ? put_gguf_source(m, f, err) : st;
}

enum hk_status hk_put_safetensors_metadata(struct hk_buf *b, const struct hk_file *f,
                                           struct hk_error *err)
{
    struct members m = {.b = b};
    enum hk_status st = put_metadata_pairs(&m, f, err);
    if (st == HK_OK && m.types.n > 0) {
        hk_buf_text(&m.types, "}");
        hk_buf_text(b, ",\"hk.types\":");
        hk_json_quote(b, (struct hk_bytes){m.types.p, m.types.n});
    }
    hk_buf_text(b, m.any ? "}," : "");
    if (st == HK_OK && (b->failed || m.types.failed))
        st = hk_fail_nomem(err);
    hk_buf_free(&m.types);
    return st;
}
