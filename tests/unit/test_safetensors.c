/* safetensors: what a sound file says, what a .hk has there and back again, bit for bit, and a file
 * cut at every length and changed in every byte of its head. */
#include "libhkfmt/base/le.h"
#include "tests/lib/mk_st.h"

/* ---- reading ---- */

static void test_good(void)
{
    static const char json[] =
        " {\"z\":{\"data_offsets\":[8,16],\"shape\":[2,1,2],\"dtype\":\"BF16\"},"
        "\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\":\"a\\nb\",\"e\":\"\"},"
        "\"y\\u0001\":{\"dtype\":\"F\\u00332\",\"shape\":[],\"data_offsets\":[4,8]},"
        "\"q\":{\"dtype\":\"U8\",\"shape\":[0,3],\"data_offsets\":[4,4]},"
        "\"p\":{\"dtype\":\"I16\",\"shape\":[0],\"data_offsets\":[4,4]},"
        "\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}} \n\t\r ";
    static const struct {
        const char *name;
        enum hk_type type;
        unsigned ndim;
        uint64_t begin, size;
    } wanted[] = {{"x", HK_TYPE_F32, 8, 0, 4},
                  {"p", HK_TYPE_INT16, 1, 4, 0},
                  {"q", HK_TYPE_UINT8, 2, 4, 0},
                  {"y\1", HK_TYPE_F32, 0, 4, 4},
                  {"z", HK_TYPE_BF16, 3, 8, 8}};
    struct hk_file *f;
    struct hk_error err;
    const struct hk_bytes header = {(const uint8_t *)json + 1, sizeof json - 2};
    if (!ok(open_json(&f, header, 16, &err) == HK_OK, "a sound file opens: %s", err.text))
        return;
    const struct hk_header *h = hk_file_header(f);
    ok(hk_file_format(f) == HK_FORMAT_SAFETENSORS &&
           strcmp(hk_format_name(hk_file_format(f)), "safetensors") == 0 && h->version_major == 0 &&
           h->flags == 0 && h->alignment == 0 && h->split_count == 1,
       "it is a safetensors file without version");
    ok(h->tensor_count == 5 && h->metadata_kv_count == 3 && h->tensor_toc_offset == 8 &&
           h->tensor_toc_size == header.n && h->tensor_data_offset == 8 + header.n,
       "its header tells counts and places");
    const char *object = strstr(json + 1, "{\"format\"");
    ok(h->metadata_offset == 8 + (uint64_t)(object - json - 1) &&
           h->metadata_size == (uint64_t)(strchr(object, '}') + 1 - object),
       "and where the metadata are");
    for (size_t i = 0; i < 5; i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        ok(hk_bytes_are(t->name, wanted[i].name) && t->type == wanted[i].type &&
               t->ndim == wanted[i].ndim && t->data_size == wanted[i].size &&
               t->data_offset == h->tensor_data_offset + wanted[i].begin &&
               hk_tensor_find(f, wanted[i].name) == t,
           "tensor %zu is where its bytes are", i);
    }
    const struct hk_tensor *z = hk_tensor_at(f, 4);
    ok(z->shape[0] == 2 && z->shape[1] == 1 && z->shape[2] == 2 && hk_tensor_data(f, z).p[0] == 8,
       "with its shape and its bytes");
    ok(hk_bytes_are(hk_kv_at(f, 0)->key, "format") && hk_bytes_are(hk_kv_at(f, 0)->value, "pt") &&
           hk_bytes_are(hk_kv_at(f, 1)->key, "\xc3\xa9") &&
           hk_bytes_are(hk_kv_at(f, 1)->value, "a\nb") && hk_kv_at(f, 2)->value.n == 0,
       "and metadata without escapes");
    hk_close(&f);
}

static void test_names(void)
{
    char json[600];
    struct hk_file *f;
    struct hk_error err;
    snprintf(json, sizeof json,
             "{\"%0300d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 7);
    bool opened = open_json(&f, text(json), 1, &err) == HK_OK;
    ok(opened && hk_tensor_at(f, 0)->name.n == 300, "a name of 300 bytes is read, as from a .hk");
    struct mk made;
    ok(opened && mk_convert(&made, f, HK_FORMAT_HK, 0, &err) == HK_E_RANGE, "and no .hk: %s",
       err.text);
    hk_close(&f);
    opened = open_json(
                 &f, text("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}"),
                 1, &err) == HK_OK;
    ok(opened && equal(hk_tensor_at(f, 0)->name, (struct hk_bytes){(const uint8_t *)"a\0b", 3}),
       "a NUL is part of a name, as in a .hk");
    hk_close(&f);
    ok(open_json(&f, text("{}"), 0, &err) == HK_OK && hk_tensor_count(f) == 0 &&
           hk_kv_count(f) == 0,
       "a file may be empty");
    hk_close(&f);
}

/* ---- there and back ---- */

struct pair {
    const char *key;
    enum hk_meta_type type;
    const char *value;
    size_t n;
};
#define PAIR(key, type, value)                                                                     \
    {                                                                                              \
        key, type, value, sizeof(value) - 1                                                        \
    }

/* clang-format off */
static const struct pair pairs[] = {
    PAIR("format", HK_META_STRING, "pt"),
    PAIR("empty", HK_META_STRING, ""),
    PAIR("text", HK_META_STRING, "q\"b\\n\nt\tz\0u\x1f\xc3\xa9\xf0\x9f\x98\x80"),
    PAIR("not utf-8", HK_META_STRING, "\xff\xfe"),
    PAIR("k\"ey\n\xc3\xa9", HK_META_STRING, "{}"),
    PAIR("i.0", HK_META_INT64, "\0\0\0\0\0\0\0\0"),
    PAIR("i.-1", HK_META_INT64, "\xff\xff\xff\xff\xff\xff\xff\xff"),
    PAIR("i.least", HK_META_INT64, "\0\0\0\0\0\0\0\x80"),
    PAIR("i.most", HK_META_INT64, "\xff\xff\xff\xff\xff\xff\xff\x7f"),
    PAIR("f.0", HK_META_FLOAT64, "\0\0\0\0\0\0\0\0"),
    PAIR("f.-0", HK_META_FLOAT64, "\0\0\0\0\0\0\0\x80"),
    PAIR("f.0.1", HK_META_FLOAT64, "\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
    PAIR("f.most", HK_META_FLOAT64, "\xff\xff\xff\xff\xff\xff\xef\x7f"),
    PAIR("f.least", HK_META_FLOAT64, "\1\0\0\0\0\0\0\0"),
    PAIR("f.normal", HK_META_FLOAT64, "\0\0\0\0\0\0\x10\0"),
    PAIR("f.inf", HK_META_FLOAT64, "\0\0\0\0\0\0\xf0\x7f"),
    PAIR("f.-inf", HK_META_FLOAT64, "\0\0\0\0\0\0\xf0\xff"),
    PAIR("f.nan", HK_META_FLOAT64, "\0\0\0\0\0\0\xf8\x7f"),
    PAIR("f.-nan", HK_META_FLOAT64, "\0\0\0\0\0\0\xf8\xff"),
    PAIR("f.snan", HK_META_FLOAT64, "\1\0\0\0\0\0\xf0\x7f"),
    PAIR("yes", HK_META_BOOL, "\1"),
    PAIR("no", HK_META_BOOL, "\0"),
    PAIR("json", HK_META_JSON, "{\"a\": [1, \"\\u00e9\"]}"),
    PAIR("json broken", HK_META_JSON, "{"),
    PAIR("json not utf-8", HK_META_JSON, "\"\x80\""),
    PAIR("b", HK_META_BYTES, "\0\1\2\xff"),
    PAIR("b.empty", HK_META_BYTES, ""),
    PAIR("b.nearly", HK_META_BYTES, "\3\0\0\0\2\0\0\0\1\0\0\0"),
    PAIR("a.none", HK_META_BYTES, "\1\0\0\0\0\0\0\0\0\0\0\0"),
    PAIR("a.none.f", HK_META_BYTES, "\2\0\0\0\0\0\0\0"),
    PAIR("a.none.i", HK_META_BYTES, "\3\0\0\0\0\0\0\0"),
    PAIR("a.s", HK_META_BYTES, "\1\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\2\0\0\0\7\0\0\0\"\\\0\xc3\xa9\n\x1f"),
    PAIR("a.s.bad", HK_META_BYTES, "\1\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\xff"),
    PAIR("a.f", HK_META_BYTES, "\2\0\0\0\x0a\0\0\0\0\0\x80\x3f\xcd\xcc\xcc\x3d\1\0\0\0\xff\xff\x7f\x7f\0\0\0\x80"
         "\0\0\x80\x7f\0\0\x80\xff\0\0\xc0\x7f\1\0\xc0\xff\1\0\x80\x7f"),
    PAIR("a.i", HK_META_BYTES, "\3\0\0\0\3\0\0\0\0\0\0\x80\xff\xff\xff\x7f\xff\xff\xff\xff"),
};
/* clang-format on */
enum { PAIRS = sizeof pairs / sizeof *pairs };

static const enum hk_type types[] = {
    HK_TYPE_F64,      HK_TYPE_F32,    HK_TYPE_F16,    HK_TYPE_BF16,  HK_TYPE_FP8_E4M3,
    HK_TYPE_FP8_E5M2, HK_TYPE_INT64,  HK_TYPE_INT32,  HK_TYPE_INT16, HK_TYPE_INT8,
    HK_TYPE_UINT64,   HK_TYPE_UINT32, HK_TYPE_UINT16, HK_TYPE_UINT8, HK_TYPE_BOOL};
enum { TYPES = sizeof types / sizeof *types };

/* A .hk in the making, then open. */
static struct hk_file *finish(struct hk_writer *w, struct hk_out *out, int fd)
{
    struct hk_file *f = NULL;
    mk_need(hk_writer_finish(w, NULL) == HK_OK && hk_out_commit(&out, NULL) == HK_OK &&
                hk_open_fd(&f, fd, NULL) == HK_OK,
            "making a .hk");
    hk_writer_free(&w);
    close(fd);
    return f;
}

static struct hk_tensor tensor(const char *name, enum hk_type type, uint64_t rows, uint64_t cols)
{
    const struct hk_type_info *info = hk_type_info(type);
    uint64_t size = info->block_elems > 0 ? rows * cols / info->block_elems * info->block_bytes : 0;
    return (struct hk_tensor){.name = text(name),
                              .type = (uint16_t)type,
                              .ndim = 2,
                              .shape = {rows, cols},
                              .data_size = size};
}

/* A .hk of one tensor and one pair. */
static struct hk_file *one(const struct hk_tensor *t, const struct pair *p, uint64_t appendix)
{
    static const uint8_t bytes[4096];
    uint8_t record[HK_RECORD_HEADER_SIZE];
    mk_record(record, sizeof record);
    const struct hk_writer_options options = {.size = sizeof options, .appendix_size = appendix};
    struct hk_writer *w;
    struct hk_out *out = NULL;
    int fd = mk_fd("", 0);
    mk_need(hk_writer_new(&w, &options, NULL) == HK_OK && hk_writer_add(w, t, 0, NULL) == HK_OK &&
                (p == NULL || hk_writer_set(w, text(p->key), p->type,
                                            (struct hk_bytes){(const uint8_t *)p->value, p->n},
                                            NULL) == HK_OK) &&
                hk_out_fd(&out, fd, NULL) == HK_OK && hk_writer_begin(w, out, NULL) == HK_OK &&
                hk_writer_put(w, bytes, (size_t)t->data_size, NULL) == HK_OK &&
                hk_writer_put(w, bytes, (size_t)t->scale_size, NULL) == HK_OK &&
                hk_writer_put(w, record, (size_t)appendix, NULL) == HK_OK,
            "a small .hk");
    return finish(w, out, fd);
}

/* Every kind of pair, every dtype, an empty tensor, a scalar and one that shares. */
static struct hk_file *all(void)
{
    struct hk_writer *w;
    struct hk_out *out = NULL;
    char name[TYPES + 2][24];
    uint8_t bytes[8 * 15];
    int fd = mk_fd("", 0);
    bool good = hk_writer_new(&w, NULL, NULL) == HK_OK;
    for (size_t i = 0; i < PAIRS; i++)
        good = good && hk_writer_set(w, text(pairs[i].key), pairs[i].type,
                                     (struct hk_bytes){(const uint8_t *)pairs[i].value, pairs[i].n},
                                     NULL) == HK_OK;
    for (size_t i = 0; i < TYPES; i++) {
        snprintf(name[i], sizeof name[i], "%zu\"\\\n\xc3\xa9", TYPES - i);
        const struct hk_tensor t = tensor(name[i], types[i], 3, 1 + i % 5);
        good = good && hk_writer_add(w, &t, 0, NULL) == HK_OK;
    }
    struct hk_tensor shared = tensor("shared", HK_TYPE_SHARED_REF, 1, 6);
    struct hk_tensor empty = tensor("void", HK_TYPE_F32, 0, 5);
    struct hk_tensor scalar = {.name = text("scalar"), .type = HK_TYPE_F16, .data_size = 2};
    good = good && hk_writer_add(w, &shared, 1, NULL) == HK_OK &&
           hk_writer_add(w, &empty, 0, NULL) == HK_OK &&
           hk_writer_add(w, &scalar, 0, NULL) == HK_OK && hk_out_fd(&out, fd, NULL) == HK_OK &&
           hk_writer_begin(w, out, NULL) == HK_OK;
    for (size_t i = 0; i <= TYPES; i++) {
        const size_t n = i < TYPES ? 3 * (1 + i % 5) * hk_type_info(types[i])->block_bytes : 2;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(i * 37 + k * 101);
        good = good && hk_writer_put(w, bytes, n, NULL) == HK_OK;
    }
    mk_need(good, "a .hk of everything");
    return finish(w, out, fd);
}

static bool same_pairs(const struct hk_file *a, const struct hk_file *b)
{
    bool good = hk_kv_count(a) == hk_kv_count(b);
    for (size_t i = 0; good && i < hk_kv_count(a); i++) {
        const struct hk_kv *x = hk_kv_at(a, i), *y = hk_kv_at(b, i);
        if (!(good = equal(x->key, y->key) && x->type == y->type && equal(x->value, y->value)))
            printf("# key %.*s\n", HK_STR(x->key));
    }
    return good;
}

/* References are what they refer to in B. */
static bool same_tensors(const struct hk_file *a, const struct hk_file *b)
{
    bool good = hk_tensor_count(a) == hk_tensor_count(b);
    for (size_t i = 0; good && i < hk_tensor_count(a); i++) {
        const struct hk_tensor *x = hk_tensor_at(a, i), *y = hk_tensor_at(b, i), *bytes = NULL;
        good = hk_tensor_resolve(a, x, &bytes, NULL) == HK_OK && equal(x->name, y->name) &&
               bytes->type == y->type && x->ndim == y->ndim &&
               memcmp(x->shape, y->shape, sizeof x->shape) == 0 &&
               equal(hk_tensor_data(a, bytes), hk_tensor_data(b, y));
        if (!good)
            printf("# tensor %zu\n", i);
    }
    return good;
}

static void test_round_trip(void)
{
    struct hk_file *f = all(), *st = NULL, *back = NULL;
    struct mk made = {0}, again = {0}, hk = {0};
    struct hk_error err = {0};
    uint64_t size = 0;
    bool good = mk_convert(&made, f, HK_FORMAT_SAFETENSORS, 0, &err) == HK_OK &&
                mk_open(&st, made.p, made.n, &err) == HK_OK;
    if (!ok(good, "a .hk of everything becomes safetensors: %s", err.text))
        return;
    ok(same_pairs(f, st), "with the same metadata");
    ok(same_tensors(f, st), "and tensors");
    ok(hk_file_header(st)->tensor_data_offset % 8 == 0 && made.p[8] == '{', "the data are aligned");
    ok(hk_safetensors_size(f, &size, &err) == HK_OK && size == made.n, "of the size foretold");
    ok(mk_convert(&again, st, HK_FORMAT_SAFETENSORS, 0, &err) == HK_OK &&
           equal((struct hk_bytes){made.p, made.n}, (struct hk_bytes){again.p, again.n}),
       "written again it has the same bytes");
    good = mk_convert(&hk, st, HK_FORMAT_HK, 0, &err) == HK_OK &&
           mk_open(&back, hk.p, hk.n, &err) == HK_OK;
    ok(good && same_pairs(f, back) && same_tensors(f, back), "and back it is a .hk as before: %s",
       err.text);
    hk_close(&back);
    hk_close(&st);
    hk_close(&f);
    mk_free(&hk);
    mk_free(&again);
    mk_free(&made);
}

static void test_bytes(void)
{
    static const char json[] =
        "{\"__metadata__\":{\"n\":\"-7\",\"hk.types\":\"{\\\"n\\\":\\\"int64\\\"}\"},"
        "\"t\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}";
    const struct pair n = PAIR("n", HK_META_INT64, "\xf9\xff\xff\xff\xff\xff\xff\xff");
    const struct hk_tensor t = tensor("t", HK_TYPE_F32, 1, 2);
    struct hk_file *f = one(&t, &n, 0);
    struct mk made = {0};
    struct hk_error err = {0};
    mk_need(mk_convert(&made, f, HK_FORMAT_SAFETENSORS, 0, &err) == HK_OK, err.text);
    const size_t length = sizeof json - 1, padded = (length + 7) / 8 * 8;
    bool blanks = true;
    for (size_t i = length; i < padded && i + 8 < made.n; i++)
        blanks = blanks && made.p[8 + i] == ' ';
    ok(made.n == 8 + padded + 8 && le64(made.p) == padded &&
           memcmp(made.p + 8, json, length) == 0 && blanks,
       "a small file has the bytes that it should");
    hk_close(&f);
    mk_free(&made);
}

/* F does not become safetensors, and the message has NAME. Closes F. */
static void refuses(struct hk_file *f, enum hk_status status, const char *name, const char *what)
{
    struct mk made;
    struct hk_error err = {0};
    enum hk_status got = mk_convert(&made, f, HK_FORMAT_SAFETENSORS, 0, &err);
    ok(got == status && strstr(err.text, name) != NULL, "%s: %s, '%s'", what, hk_status_name(got),
       err.text);
    mk_free(&made);
    hk_close(&f);
}

static void test_refused(void)
{
    const struct hk_tensor t = tensor("t", HK_TYPE_F32, 1, 2);
    const struct pair types_key = PAIR("hk.types", HK_META_STRING, "{}");
    const struct pair bad_key = PAIR("\xff", HK_META_STRING, "");
    const struct pair bad_bool = PAIR("maybe", HK_META_BOOL, "\2");
    refuses(one(&t, &types_key, 0), HK_E_UNSUPPORTED, "key hk.types", "the key of the types");
    refuses(one(&t, &bad_key, 0), HK_E_UNSUPPORTED, "key \\xff", "a key that is not UTF-8");
    refuses(one(&t, &bad_bool, 0), HK_E_FORMAT, "key maybe", "a bool of 2");
    refuses(one(&t, NULL, HK_RECORD_HEADER_SIZE), HK_E_UNSUPPORTED, "appendix", "an appendix");
    struct hk_tensor u = tensor("__metadata__", HK_TYPE_F32, 1, 2);
    refuses(one(&u, NULL, 0), HK_E_UNSUPPORTED, "__metadata__", "a tensor of the reserved name");
    u = tensor("\xfe", HK_TYPE_F32, 1, 2);
    refuses(one(&u, NULL, 0), HK_E_UNSUPPORTED, "tensor \\xfe", "a name that is not UTF-8");
}

/* What only a view makes fit: the writer itself does not guess. */
static void refuses_tensor(struct hk_tensor t, const char *what)
{
    struct hk_file *f = one(&t, NULL, 0);
    uint64_t size;
    struct hk_error err = {0};
    enum hk_status status = hk_safetensors_size(f, &size, &err);
    ok(status == HK_E_UNSUPPORTED && strstr(err.text, "tensor t") != NULL, "%s: %s", what,
       err.text);
    hk_close(&f);
}

static void test_refused_tensors(void)
{
    refuses_tensor(tensor("t", HK_TYPE_Q8_0, 1, 32), "a block type");
    refuses_tensor(tensor("t", HK_TYPE_NULL_REF, 1, 2), "a null_ref");
    struct hk_tensor t = tensor("t", HK_TYPE_F32, 2, 2);
    t.layout = HK_LAYOUT_COL_MAJOR;
    refuses_tensor(t, "columns first");
    t = tensor("t", HK_TYPE_DQ8, 1, 32);
    t.data_size = 32;
    t.scale_size = 4;
    t.block_size = 32;
    refuses_tensor(t, "scales");
    t = tensor("t", HK_TYPE_F16, 1, 2);
    t.sparsity = HK_SPARSITY_BITMASK;
    t.data_size = 8;
    refuses_tensor(t, "a bitmask");
}

/* ---- damage ---- */

static struct mk sample(void)
{
    struct hk_file *f = all();
    struct mk made;
    mk_need(mk_convert(&made, f, HK_FORMAT_SAFETENSORS, 0, NULL) == HK_OK, "sample");
    hk_close(&f);
    return made;
}

static void test_cut(void)
{
    struct mk m = sample();
    size_t opened = 0, silent = 0;
    for (size_t n = 0; n < m.n; n++) {
        struct hk_file *f = NULL;
        struct hk_error err = {0};
        opened += mk_open(&f, m.p, n, &err) == HK_OK;
        silent += err.text[0] == '\0';
        hk_close(&f);
    }
    ok(opened == 0 && silent == 0, "cut at each of %zu lengths: refused with a reason", m.n);
    mk_free(&m);
}

/* Reads and writes what opens: the sanitizers see what goes wrong. */
static bool survives(const struct mk *m)
{
    struct hk_file *f = NULL;
    struct hk_error err = {0};
    enum hk_status status = mk_open(&f, m->p, m->n, &err);
    if (status != HK_OK)
        return err.text[0] != '\0' && strchr(err.text, '\n') == NULL;
    struct mk made, again = {0};
    struct hk_file *g = NULL;
    bool good = mk_convert(&made, f, HK_FORMAT_SAFETENSORS, 0, &err) == HK_OK &&
                mk_open(&g, made.p, made.n, &err) == HK_OK && same_pairs(f, g) &&
                same_tensors(f, g);
    /* Keys that have a meaning of their own in a new place are refused. */
    good = good ||
           (status = mk_convert(&again, f, HK_FORMAT_SAFETENSORS, 0, &err)) == HK_E_UNSUPPORTED;
    if (!good)
        printf("# %s\n", err.text);
    hk_close(&g);
    hk_close(&f);
    mk_free(&made);
    mk_free(&again);
    return good;
}

static void test_changes(void)
{
    static const uint8_t masks[] = {0x01, 0x04, 0x10, 0x80};
    struct mk m = sample();
    const size_t head = 8 + (size_t)le64(m.p);
    size_t bad = 0;
    for (size_t at = 0; at < head; at++)
        for (size_t k = 0; k < sizeof masks; k++) {
            m.p[at] ^= masks[k];
            bad += !survives(&m);
            m.p[at] ^= masks[k];
        }
    ok(bad == 0, "every byte of a head of %zu changed in %zu ways", head, sizeof masks);
    uint32_t state = 12345;
    bad = 0;
    for (int i = 0; i < 4000; i++) {
        state = state * 1664525 + 1013904223;
        const size_t at = (size_t)(state >> 8) % head;
        const uint8_t was = m.p[at];
        m.p[at] = (uint8_t) "\"\\{}[],:0919-.e \n\0u"[state % 19];
        bad += !survives(&m);
        m.p[at] = was;
    }
    ok(bad == 0, "a byte of the head replaced by one that JSON cares for, 4000 times");
    mk_free(&m);
}

/* ---- size ---- */

/* 100,000 tensors, the last first. */
static void test_many(void)
{
    enum { COUNT = 100000 };
    struct hk_buf b = {0};
    char entry[120];
    hk_buf_text(&b, "{");
    for (int i = COUNT; i-- > 0;) {
        snprintf(entry, sizeof entry,
                 "\"%06d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}%s",
                 (i * 7919) % COUNT, i, i + 1, i > 0 ? "," : "}");
        hk_buf_text(&b, entry);
    }
    mk_need(!b.failed, "memory");
    struct mk m = {0};
    mk_int(&m, b.n, 8);
    mk_bytes(&m, b.p, b.n);
    m.p = realloc(m.p, m.n + COUNT);
    mk_need(m.p != NULL, "memory");
    memset(m.p + m.n, 5, COUNT);
    m.n += COUNT;
    struct hk_file *f = NULL;
    struct hk_error err = {0};
    bool good = mk_open(&f, m.p, m.n, &err) == HK_OK && hk_tensor_count(f) == COUNT;
    for (size_t i = 0; good && i < COUNT; i++)
        good = hk_tensor_at(f, i)->data_offset == 8 + b.n + i;
    ok(good && hk_tensor_find(f, "007919") == hk_tensor_at(f, 1), "%d tensors in order: %s", COUNT,
       err.text);
    hk_close(&f);
    hk_buf_free(&b);
    mk_free(&m);
}

int main(void)
{
    test_good();
    test_names();
    test_round_trip();
    test_bytes();
    test_refused();
    test_refused_tensors();
    test_cut();
    test_changes();
    test_many();
    return tap_done();
}
