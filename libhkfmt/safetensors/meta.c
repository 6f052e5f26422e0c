/* Metadata of a safetensors file that was made from a .hk: "hk.types" says what the strings of
 * __metadata__ stand for, and they become that again, bit for bit. */
#include <math.h>
#include <stdlib.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/base/number.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"

struct decoding {
    struct hk_arena *arena;
    bool no_memory;
};

/* N bytes for a value; NULL when out of memory. */
static uint8_t *room(struct decoding *d, size_t n)
{
    uint8_t *p = hk_arena_alloc(d->arena, n > 0 ? n : 1);
    d->no_memory = p == NULL;
    return p;
}

/* ---- one value each: false where TEXT is none, or no memory ---- */

static bool same(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    (void)d;
    *out = text;
    return true;
}

static bool integer(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    int64_t v;
    uint8_t *p;
    if (!hk_json_i64(text, &v) || (p = room(d, 8)) == NULL)
        return false;
    put64(p, (uint64_t)v);
    *out = (struct hk_bytes){p, 8};
    return true;
}

/* A word for what JSON has no number for: inf, -inf, nan, or nan: with all its bits. */
static bool parse_word(struct hk_bytes word, double *v)
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
static bool parse_real(struct hk_bytes text, double *v)
{
    struct hk_json j = {.text = text};
    bool number = hk_json_next(&j) == HK_JSON_NUMBER && j.span.n == text.n;
    return number ? hk_parse_json_double(text, v) : parse_word(text, v);
}

static bool real(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    double v;
    uint8_t *p;
    if (!parse_real(text, &v) || (p = room(d, 8)) == NULL)
        return false;
    put_f64(p, v);
    *out = (struct hk_bytes){p, 8};
    return true;
}

static bool truth(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    bool yes = hk_bytes_are(text, "true");
    uint8_t *p;
    if ((!yes && !hk_bytes_are(text, "false")) || (p = room(d, 1)) == NULL)
        return false;
    p[0] = yes;
    *out = (struct hk_bytes){p, 1};
    return true;
}

static bool base64(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    uint8_t *p = room(d, text.n / 4 * 3);
    out->p = p;
    return p != NULL && hk_st_base64(text, p, &out->n);
}

/* ---- arrays ---- */

/* TEXT is a JSON array of COUNT values that are no arrays or objects. */
static bool count_elements(struct hk_bytes text, uint32_t *count)
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
static uint8_t *begin_blob(struct decoding *d, struct hk_bytes text, enum hk_array_kind kind,
                           uint64_t most, uint32_t *count)
{
    uint64_t size;
    if (!count_elements(text, count) || !add_ok(most, 8 + 4 * ((uint64_t)*count + 1), &size) ||
        size > UINT32_MAX)
        return NULL;
    uint8_t *p = room(d, (size_t)size);
    if (p != NULL) {
        put32(p, (uint32_t)kind);
        put32(p + 4, *count);
    }
    return p;
}

static bool strings(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    uint32_t count;
    uint8_t *p = begin_blob(d, text, HK_ARRAY_STRING, text.n, &count);
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
static bool f32_bits(const struct hk_json *j, enum hk_json_token token, uint32_t *bits)
{
    bool word = token == HK_JSON_STRING;
    double v;
    if (word ? !parse_word(j->span, &v)
             : token != HK_JSON_NUMBER || !hk_parse_json_double(j->span, &v))
        return false;
    float f = word ? 0 : (float)v;
    if (word ? !hk_narrow_double(v, &f) : isinf(f))
        return false; /* a NaN of more bits, a number that only a double holds */
    memcpy(bits, &f, sizeof *bits);
    return true;
}

static bool i32_bits(const struct hk_json *j, enum hk_json_token token, uint32_t *bits)
{
    int64_t v;
    if (token != HK_JSON_NUMBER || !hk_json_i64(j->span, &v) || v < INT32_MIN || v > INT32_MAX)
        return false;
    *bits = (uint32_t)v;
    return true;
}

static bool words(struct decoding *d, struct hk_bytes text, enum hk_array_kind kind,
                  struct hk_bytes *out)
{
    uint32_t count;
    uint8_t *p = begin_blob(d, text, kind, 0, &count);
    if (p == NULL)
        return false;
    struct hk_json j = {.text = text};
    hk_json_next(&j);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        enum hk_json_token token = hk_json_next(&j);
        if (!(kind == HK_ARRAY_F32 ? f32_bits(&j, token, &bits) : i32_bits(&j, token, &bits)))
            return false;
        put32(p + 8 + 4 * (uint64_t)i, bits);
    }
    *out = (struct hk_bytes){p, 8 + 4 * (size_t)count};
    return true;
}

static bool f32s(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    return words(d, text, HK_ARRAY_F32, out);
}

static bool i32s(struct decoding *d, struct hk_bytes text, struct hk_bytes *out)
{
    return words(d, text, HK_ARRAY_I32, out);
}

/* ---- all of them ---- */

static const struct kind {
    const char *name;
    enum hk_meta_type type;
    bool (*decode)(struct decoding *d, struct hk_bytes text, struct hk_bytes *out);
} kinds[] = {
    {"int64", HK_META_INT64, integer},      {"float64", HK_META_FLOAT64, real},
    {"bool", HK_META_BOOL, truth},          {"json", HK_META_JSON, same},
    {"json<base64>", HK_META_JSON, base64}, {"string<base64>", HK_META_STRING, base64},
    {"bytes", HK_META_BYTES, base64},       {"array<string>", HK_META_BYTES, strings},
    {"array<f32>", HK_META_BYTES, f32s},    {"array<i32>", HK_META_BYTES, i32s},
};

/* The kind that the string just read names, or NULL. */
static const struct kind *kind_of(const struct hk_json *j)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (hk_json_is(j, kinds[i].name))
            return &kinds[i];
    return NULL;
}

static struct hk_bytes kv_name(const void *table, size_t i)
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

static enum hk_status no_types(const struct applying *a, const char *why)
{
    return hk_fail(a->err, HK_E_FORMAT, a->offset, "key hk.types: %s", why);
}

/* The pair that the key just read names. */
static enum hk_status find(struct applying *a, size_t *out)
{
    struct hk_bytes key = a->j.span;
    if (a->j.escaped) {
        uint8_t *p = hk_arena_alloc(&a->f->arena, key.n);
        if (p == NULL)
            return hk_fail_nomem(a->err);
        key = (struct hk_bytes){p, hk_json_decode(&a->j, p)};
    }
    size_t i = hk_index_find(&a->index, a->f->kvs, kv_name, key);
    if (i == SIZE_MAX || a->done[i])
        return hk_fail(a->err, HK_E_FORMAT, a->offset, "key %.*s %s hk.types", HK_STR(key),
                       i == SIZE_MAX ? "is missing that is in" : "occurs again in");
    a->done[i] = true;
    *out = i;
    return HK_OK;
}

static enum hk_status apply_one(struct applying *a)
{
    size_t i = 0;
    enum hk_status status = find(a, &i);
    if (status != HK_OK)
        return status;
    struct hk_kv *kv = &a->f->kvs[i];
    if (hk_json_next(&a->j) != HK_JSON_STRING)
        return hk_fail(a->err, HK_E_FORMAT, kv->offset, "key %.*s: its type is no string",
                       HK_STR(kv->key));
    const struct kind *kind = kind_of(&a->j);
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

static enum hk_status apply_all(struct applying *a)
{
    enum hk_json_token token = hk_json_next(&a->j);
    if (token != HK_JSON_OBJECT)
        return no_types(a, "it is no JSON object");
    while ((token = hk_json_next(&a->j)) == HK_JSON_KEY) {
        enum hk_status status = apply_one(a);
        if (status != HK_OK)
            return status;
    }
    if (token != HK_JSON_OBJECT_END || hk_json_next(&a->j) != HK_JSON_END)
        return no_types(a, a->j.why);
    return HK_OK;
}

enum hk_status hk_st_apply_types(struct hk_file *f, struct hk_bytes text, uint64_t offset,
                                 struct hk_error *err)
{
    struct applying a = {.f = f, .j = {.text = text}, .offset = offset, .err = err};
    enum hk_status status = HK_E_NOMEM;
    a.done = calloc(f->kv_count + 1, sizeof *a.done);
    if (a.done == NULL || !hk_index_build(&a.index, f->kvs, f->kv_count, kv_name, NULL, NULL))
        hk_fail_nomem(err);
    else
        status = apply_all(&a);
    free(a.done);
    hk_index_free(&a.index);
    return status;
}
