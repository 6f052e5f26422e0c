/* The GGUF reader: what each value becomes, every rule with the field that breaks it, and a file
 * cut at every length and changed in every byte. */
#include "tests/lib/mk_gguf.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

/* ---- values ---- */

struct expected {
    const char *key, *gguf_type;
    enum hk_meta_type type;
    const char *value;
    size_t size;
};
#define VALUE(key, gguf_type, type, text)                                                          \
    {                                                                                              \
        key, gguf_type, type, text, sizeof(text) - 1                                               \
    }

/* clang-format off */
static const struct expected values[] = {
    VALUE("u8", "u8", HK_META_INT64, "\xc8\0\0\0\0\0\0\0"),
    VALUE("i8", "i8", HK_META_INT64, "\xfe\xff\xff\xff\xff\xff\xff\xff"),
    VALUE("u16", "u16", HK_META_INT64, "\xff\xff\0\0\0\0\0\0"),
    VALUE("i16", "i16", HK_META_INT64, "\x00\x80\xff\xff\xff\xff\xff\xff"),
    VALUE("u32", "u32", HK_META_INT64, "\xff\xff\xff\xff\0\0\0\0"),
    VALUE("i32", "i32", HK_META_INT64, "\x00\x00\x00\x80\xff\xff\xff\xff"),
    VALUE("f32", "f32", HK_META_FLOAT64, "\0\0\0\0\0\0\xf8\x3f"),
    VALUE("f32.nan", "f32", HK_META_FLOAT64, "\0\0\0\x20\0\0\xf0\x7f"),
    VALUE("bool", "bool", HK_META_BOOL, "\1"),
    VALUE("string", "string", HK_META_STRING, "h\xc3\xa9"),
    VALUE("string.empty", "string", HK_META_STRING, ""),
    VALUE("u64", "u64", HK_META_INT64, "\xff\xff\xff\xff\xff\xff\xff\x7f"),
    VALUE("u64.big", "u64", HK_META_JSON, "18446744073709551615"),
    VALUE("i64", "i64", HK_META_INT64, "\0\0\0\0\0\0\0\x80"),
    VALUE("f64", "f64", HK_META_FLOAT64, "\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
    VALUE("a.u8", "array<u8>", HK_META_BYTES, "\3\0\0\0\2\0\0\0\1\0\0\0\xff\0\0\0"),
    VALUE("a.i8", "array<i8>", HK_META_BYTES, "\3\0\0\0\1\0\0\0\xff\xff\xff\xff"),
    VALUE("a.u16", "array<u16>", HK_META_BYTES, "\3\0\0\0\1\0\0\0\xff\xff\0\0"),
    VALUE("a.i16", "array<i16>", HK_META_BYTES, "\3\0\0\0\1\0\0\0\0\x80\xff\xff"),
    VALUE("a.u32", "array<u32>", HK_META_BYTES, "\3\0\0\0\1\0\0\0\xff\xff\xff\x7f"),
    VALUE("a.u32.big", "array<u32>", HK_META_JSON, "[7,2147483648]"),
    VALUE("a.i32", "array<i32>", HK_META_BYTES, "\3\0\0\0\1\0\0\0\xfe\xff\xff\xff"),
    VALUE("a.f32", "array<f32>", HK_META_BYTES, "\2\0\0\0\1\0\0\0\0\0\xc0\x3f"),
    VALUE("a.bool", "array<bool>", HK_META_BYTES, "\3\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0"),
    VALUE("a.string", "array<string>", HK_META_BYTES,
          "\1\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\2\0\0\0\5\0\0\0hello"),
    VALUE("a.none", "array<u16>", HK_META_BYTES, "\3\0\0\0\0\0\0\0"),
    VALUE("a.none.string", "array<string>", HK_META_BYTES, "\1\0\0\0\0\0\0\0\0\0\0\0"),
    VALUE("a.u64", "array<u64>", HK_META_JSON, "[0,18446744073709551615]"),
    VALUE("a.i64", "array<i64>", HK_META_JSON, "[-9223372036854775808]"),
    VALUE("a.f64", "array<f64>", HK_META_JSON,
          "[0.5,-0,\"inf\",\"-inf\",\"nan\",\"nan:fff8000000000001\"]"),
    VALUE("a.a", "array<array<i16>>", HK_META_JSON, "[[-1],[]]"),
    VALUE("a.a.mixed", "array<array<bool>,array<string>>", HK_META_JSON, "[[true,false],[\"\\\"\"]]"),
    VALUE("a.a.none", "array<array>", HK_META_JSON, "[]"),
    VALUE("a.a.f32", "array<array<f32>>", HK_META_JSON, "[[0.100000001]]"),
};
/* clang-format on */
enum { VALUES = sizeof values / sizeof *values };

static void put_scalars(struct mk *m)
{
    mk_key(m, "u8", U8), mk_int(m, 200, 1);
    mk_key(m, "i8", I8), mk_int(m, 0xfe, 1);
    mk_key(m, "u16", U16), mk_int(m, 0xffff, 2);
    mk_key(m, "i16", I16), mk_int(m, 0x8000, 2);
    mk_key(m, "u32", U32), mk_int(m, 0xffffffff, 4);
    mk_key(m, "i32", I32), mk_int(m, 0x80000000, 4);
    mk_key(m, "f32", F32), mk_int(m, 0x3fc00000, 4);
    mk_key(m, "f32.nan", F32), mk_int(m, 0x7f800001, 4);
    mk_key(m, "bool", BOOL), mk_int(m, 1, 1);
    mk_key(m, "string", STRING), mk_text(m, "h\xc3\xa9");
    mk_key(m, "string.empty", STRING), mk_text(m, "");
    mk_key(m, "u64", U64), mk_int(m, INT64_MAX, 8);
    mk_key(m, "u64.big", U64), mk_int(m, UINT64_MAX, 8);
    mk_key(m, "i64", I64), mk_int(m, UINT64_C(1) << 63, 8);
    mk_key(m, "f64", F64), mk_int(m, UINT64_C(0x3fb999999999999a), 8);
}

static void put_arrays(struct mk *m)
{
    mk_array(m, "a.u8", U8, 2), mk_int(m, 0xff01, 2);
    mk_array(m, "a.i8", I8, 1), mk_int(m, 0xff, 1);
    mk_array(m, "a.u16", U16, 1), mk_int(m, 0xffff, 2);
    mk_array(m, "a.i16", I16, 1), mk_int(m, 0x8000, 2);
    mk_array(m, "a.u32", U32, 1), mk_int(m, INT32_MAX, 4);
    mk_array(m, "a.u32.big", U32, 2), mk_int(m, 7, 4), mk_int(m, UINT64_C(1) << 31, 4);
    mk_array(m, "a.i32", I32, 1), mk_int(m, 0xfffffffe, 4);
    mk_array(m, "a.f32", F32, 1), mk_int(m, 0x3fc00000, 4);
    mk_array(m, "a.bool", BOOL, 2), mk_int(m, 1, 2);
    mk_array(m, "a.string", STRING, 3), mk_text(m, "he"), mk_text(m, ""), mk_text(m, "llo");
    mk_array(m, "a.none", U16, 0);
    mk_array(m, "a.none.string", STRING, 0);
    mk_array(m, "a.u64", U64, 2), mk_int(m, 0, 8), mk_int(m, UINT64_MAX, 8);
    mk_array(m, "a.i64", I64, 1), mk_int(m, UINT64_C(1) << 63, 8);
    mk_array(m, "a.f64", F64, 6);
    mk_int(m, UINT64_C(0x3fe) << 52, 8), mk_int(m, UINT64_C(1) << 63, 8);
    mk_int(m, UINT64_C(0x7ff) << 52, 8), mk_int(m, UINT64_C(0xfff) << 52, 8);
    mk_int(m, UINT64_C(0x7ff8) << 48, 8), mk_int(m, UINT64_C(0xfff8000000000001), 8);
}

static void put_nested(struct mk *m)
{
    mk_array(m, "a.a", ARRAY, 2);
    mk_int(m, I16, 4), mk_int(m, 1, 8), mk_int(m, 0xffff, 2);
    mk_int(m, I16, 4), mk_int(m, 0, 8);
    mk_array(m, "a.a.mixed", ARRAY, 2);
    mk_int(m, BOOL, 4), mk_int(m, 2, 8), mk_int(m, 1, 2);
    mk_int(m, STRING, 4), mk_int(m, 1, 8), mk_text(m, "\"");
    mk_array(m, "a.a.none", ARRAY, 0);
    mk_array(m, "a.a.f32", ARRAY, 1);
    mk_int(m, F32, 4), mk_int(m, 1, 8), mk_int(m, 0x3dcccccd, 4);
}

static struct mk all_values(void)
{
    struct mk m = {0};
    mk_header(&m, 0, VALUES);
    put_scalars(&m);
    put_arrays(&m);
    put_nested(&m);
    mk_pad(&m, 32);
    return m;
}

static void test_values(void)
{
    struct mk m = all_values(), hk = {0}, back = {0};
    struct hk_error err = {0};
    struct hk_file *f = NULL, *made = NULL;
    if (!ok(mk_open(&f, m.p, m.n, &err) == HK_OK, "a GGUF with every value type opens: %s",
            err.text))
        return;
    ok(hk_kv_count(f) == VALUES && hk_kv_at(f, VALUES) == NULL, "all keys are there");
    for (size_t i = 0; i < VALUES; i++) {
        const struct expected *e = &values[i];
        const struct hk_kv *kv = hk_kv_at(f, i);
        ok(hk_bytes_are(kv->key, e->key) && strcmp(kv->gguf_type, e->gguf_type) == 0 &&
               kv->type == e->type && kv->value.n == e->size &&
               memcmp(kv->value.p, e->value, e->size) == 0,
           "key %s of type %s is %s of %zu bytes", e->key, kv->gguf_type,
           hk_meta_type_name(kv->type), kv->value.n);
    }
    bool good = mk_convert(&hk, f, HK_FORMAT_HK, 0, &err) == HK_OK &&
                mk_open(&made, hk.p, hk.n, &err) == HK_OK &&
                mk_convert(&back, made, HK_FORMAT_GGUF, 0, &err) == HK_OK;
    ok(good, "it converts to .hk and back: %s", good ? "" : err.text);
    ok(good && back.n == m.n && memcmp(back.p, m.p, m.n) == 0, "with the same bytes in the end");
    hk_close(&made);
    hk_close(&f);
    mk_free(&back);
    mk_free(&hk);
    mk_free(&m);
}

/* ---- rules: one field of a small file broken ---- */

/* Offsets of what the rows below break. */
struct places {
    size_t key, type, alignment, array, tensor, ndims, dim, ttype, offset, data;
};

static struct mk small_file(struct places *at)
{
    struct mk m = {0};
    mk_header(&m, 2, 4);
    at->key = m.n;
    mk_key(&m, "general.architecture", STRING), mk_text(&m, "llama");
    mk_key(&m, "general.alignment", U32);
    at->type = m.n - 4;
    at->alignment = m.n;
    mk_int(&m, 32, 4);
    at->array = m.n + 8 + 1 + 4;
    mk_array(&m, "k", U8, 3), mk_int(&m, 0x030201, 3);
    mk_array(&m, "s", STRING, 2), mk_text(&m, "a"), mk_text(&m, "bc");
    at->tensor = m.n;
    mk_tensor(&m, "a.weight", 4, 2, 0, 0);
    at->ndims = at->tensor + 16;
    at->dim = at->ndims + 4;
    at->ttype = at->dim + 16;
    at->offset = at->ttype + 4;
    mk_tensor(&m, "b.weight", 32, 2, 8, 32);
    mk_pad(&m, 32);
    at->data = m.n;
    for (unsigned i = 0; i < 32 + 68; i++)
        mk_int(&m, i, 1);
    mk_pad(&m, 32);
    return m;
}

static void refuses(const char *what, size_t at, uint64_t value, size_t size, enum hk_status status,
                    uint64_t offset, const char *text)
{
    struct places p;
    struct mk m = small_file(&p);
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    for (size_t i = 0; i < size; i++)
        m.p[at + i] = (uint8_t)(value >> (8 * i));
    enum hk_status got = mk_open(&f, m.p, m.n, &err);
    bool good = got == status && err.offset == offset && strstr(err.text, text) != NULL;
    ok(good, "%s: %s, '%s' at %llu", what, hk_status_name(got), err.text,
       (unsigned long long)err.offset);
    hk_close(&f);
    mk_free(&m);
}

static void test_header(void)
{
    refuses("magic", 0, 0x58554747, 4, HK_E_FORMAT, 0, "");
    refuses("version 0", 4, 0, 4, HK_E_UNSUPPORTED, 4, "version 0");
    refuses("version 1", 4, 1, 4, HK_E_UNSUPPORTED, 4, "version 1");
    refuses("version 4", 4, 4, 4, HK_E_UNSUPPORTED, 4, "version 4");
    refuses("big-endian", 4, 3u << 24, 4, HK_E_UNSUPPORTED, 4, "big-endian");
    refuses("tensor count 2^64-1", 8, UINT64_MAX, 8, HK_E_RANGE, 8, "18446744073709551615");
    refuses("key count 2^40", 16, UINT64_C(1) << 40, 8, HK_E_RANGE, 16, "1099511627776");
}

static void test_metadata_rules(void)
{
    struct places p;
    struct mk m = small_file(&p);
    refuses("key length 2^64-1", p.key, UINT64_MAX, 8, HK_E_RANGE, p.key, "key 0");
    refuses("empty key", p.key, 0, 8, HK_E_FORMAT, p.key, "empty");
    refuses("value type 13", p.key + 28, 13, 4, HK_E_UNSUPPORTED, p.key + 28, "value type 13");
    refuses("string length", p.key + 32, 1000, 8, HK_E_RANGE, p.key + 32, "1000");
    refuses("alignment 0", p.alignment, 0, 4, HK_E_FORMAT, p.alignment, "alignment 0");
    refuses("alignment 48", p.alignment, 48, 4, HK_E_FORMAT, p.alignment, "alignment 48");
    refuses("alignment of type i32", p.type, I32, 4, HK_E_FORMAT, p.alignment, "i32");
    refuses("array of type 99", p.array, 99, 4, HK_E_UNSUPPORTED, p.array, "99");
    refuses("array length", p.array + 4, UINT64_C(1) << 61, 8, HK_E_RANGE, p.array + 12,
            "2305843009213693952");
    refuses("string in an array", p.array + 40, UINT64_MAX, 8, HK_E_RANGE, p.array + 40, "key 3");
    mk_free(&m);
}

static void test_tensor_rules(void)
{
    struct places p;
    struct mk m = small_file(&p);
    size_t second = p.tensor + 48;
    refuses("name length", p.tensor, UINT64_MAX, 8, HK_E_RANGE, p.tensor, "tensor 0");
    refuses("empty name", p.tensor, 0, 8, HK_E_FORMAT, p.tensor, "empty");
    refuses("name of 64 bytes", p.tensor, 64, 8, HK_E_RANGE, p.tensor, "64");
    refuses("duplicate name", second + 8, 'a', 1, HK_E_FORMAT, second, "a.weight");
    refuses("5 dimensions", p.ndims, 5, 4, HK_E_RANGE, p.ndims, "n_dims is 5");
    refuses("overflow", p.dim, UINT64_MAX, 8, HK_E_RANGE, p.tensor, "overflow");
    refuses("product 2^64", p.dim, UINT64_C(1) << 63, 8, HK_E_RANGE, p.tensor, "overflow");
    refuses("bytes", p.dim, UINT64_C(1) << 61, 8, HK_E_RANGE, p.tensor, "too many bytes");
    refuses("unknown type", p.ttype, 99, 4, HK_E_UNSUPPORTED, p.ttype, "type 99");
    refuses("removed type", p.ttype, 31, 4, HK_E_UNSUPPORTED, p.ttype, "q4_0_4_4");
    refuses("rows", p.ttype, 2, 4, HK_E_FORMAT, p.tensor, "whole blocks");
    refuses("offset's alignment", p.offset, 16, 8, HK_E_FORMAT, p.offset, "offset 16");
    refuses("offset past the end", p.offset, 1 << 20, 8, HK_E_RANGE, p.tensor, "a.weight");
    refuses("offset that wraps", p.offset, UINT64_MAX - 31, 8, HK_E_RANGE, p.tensor, "a.weight");
    refuses("overlap", p.offset, 64, 8, HK_E_FORMAT, p.tensor, "overlap");
    mk_free(&m);
}

/* ---- cuts and changes ---- */

/* Open, and go over everything that a user can look at. */
static bool survives(const uint8_t *p, size_t n)
{
    struct hk_file *f = NULL;
    struct mk hk = {0}, back = {0};
    if (mk_open(&f, p, n, NULL) != HK_OK)
        return false;
    if (mk_convert(&hk, f, HK_FORMAT_HK, 0, NULL) == HK_OK) {
        struct hk_file *made = NULL;
        if (mk_open(&made, hk.p, hk.n, NULL) == HK_OK)
            (void)!mk_convert(&back, made, HK_FORMAT_GGUF, 0, NULL);
        hk_close(&made);
    }
    mk_free(&back);
    mk_free(&hk);
    hk_close(&f);
    return true;
}

static bool stream_converts(const uint8_t *p, size_t n)
{
    struct hk_file *f = NULL;
    struct mk hk = {0};
    int fd = mk_fd(p, n);
    bool good = hk_open_stream(&f, fd, NULL) == HK_OK;
    good = good && mk_convert(&hk, f, HK_FORMAT_HK, 0, NULL) == HK_OK;
    hk_close(&f);
    close(fd);
    mk_free(&hk);
    return good;
}

static void test_cuts(void)
{
    struct places p;
    struct mk m = small_file(&p);
    size_t opened = 0, streamed = 0;
    for (size_t n = 0; n < m.n; n++) {
        opened += survives(m.p, n);
        streamed += stream_converts(m.p, n);
    }
    ok(survives(m.p, m.n) && stream_converts(m.p, m.n), "the whole file is read");
    ok(opened == 0, "cut at each of %zu lengths it is refused", m.n);
    ok(streamed == 0, "and so it is from a stream");
    mk_free(&m);
}

static void change_all(const struct mk *m, size_t end, const char *what)
{
    size_t tried = 0, read = 0;
    for (size_t i = 0; i < end; i++) {
        const uint8_t was = m->p[i];
        const uint8_t tries[] = {0, 0xff, 0x7f, 0x80, (uint8_t)(was ^ 1), (uint8_t)(was + 1)};
        for (size_t k = 0; k < sizeof tries; k++, tried++) {
            m->p[i] = tries[k];
            read += survives(m->p, m->n);
            read += stream_converts(m->p, m->n);
        }
        m->p[i] = was;
    }
    ok(read < 2 * tried, "%s with each of %zu bytes changed: no crash (%zu of %zu are read)", what,
       end, read / 2, tried);
}

static void test_changes(void)
{
    struct places p;
    struct mk small = small_file(&p), values_file = all_values();
    change_all(&small, p.data, "a small file");
    change_all(&values_file, values_file.n, "a file of all value types");
    mk_free(&small);
    mk_free(&values_file);
}

/* ---- shapes ---- */

static void test_tensors(void)
{
    struct places p;
    struct mk m = small_file(&p);
    struct hk_file *f = NULL;
    mk_need(mk_open(&f, m.p, m.n, NULL) == HK_OK, "small file");
    const struct hk_tensor *b = hk_tensor_find(f, "b.weight");
    ok(hk_file_format(f) == HK_FORMAT_GGUF && hk_file_header(f)->version_major == 3 &&
           hk_file_header(f)->alignment == 32 && hk_file_header(f)->tensor_data_offset == p.data,
       "the header is presented");
    ok(b != NULL && b->ndim == 2 && b->shape[0] == 2 && b->shape[1] == 32, "outermost first");
    ok(b != NULL && b->type == HK_TYPE_Q8_0 && b->data_size == 68 && b->block_size == 32 &&
           b->data_offset == p.data + 32 && hk_tensor_data(f, b).p[0] == 32,
       "its bytes are found");
    hk_close(&f);
    mk_free(&m);
}

static void test_stream(void)
{
    struct places p;
    struct mk m = small_file(&p);
    struct hk_file *f = NULL;
    uint8_t byte[2] = {0};
    int fd = mk_fd(m.p, m.n);
    ok(hk_open_stream(&f, fd, NULL) == HK_OK && hk_file_is_stream(f) && hk_file_size(f) == 0,
       "a stream opens");
    ok(hk_tensor_data(f, hk_tensor_at(f, 0)).n == 0, "without payloads");
    ok(hk_stream_read(f, p.data + 33, byte, 2, NULL) == HK_OK && byte[0] == 33 && byte[1] == 34,
       "which are read by offset");
    ok(hk_stream_read(f, p.data, byte, 1, NULL) == HK_E_USE, "not backwards");
    ok(hk_stream_read(f, m.n, byte, 1, NULL) == HK_E_RANGE, "not past the end");
    hk_close(&f);
    close(fd);
    fd = mk_fd("HKNT", 4);
    ok(hk_open_stream(&f, fd, NULL) == HK_E_FORMAT, "a .hk is no stream");
    close(fd);
    mk_free(&m);
}

int main(void)
{
    test_values();
    test_header();
    test_metadata_rules();
    test_tensor_rules();
    test_tensors();
    test_stream();
    test_cuts();
    test_changes();
    return tap_done();
}
