/* hk_convert(): what is kept, what is recorded, and what is refused by name. */
#include "tests/lib/mk_gguf.h"

enum { U32 = 4, F32 = 6, STRING = 8, U64 = 10 };

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static struct hk_tensor tensor(const char *name, enum hk_type type, uint64_t rows, uint64_t cols,
                               uint64_t size)
{
    return (struct hk_tensor){.name = text(name),
                              .type = (uint16_t)type,
                              .ndim = 2,
                              .shape = {rows, cols},
                              .data_size = size,
                              .block_size = 32};
}

/* A .hk in the making: one that a test describes through W and then closes. */
struct hk_make {
    struct hk_writer *w;
};

static void hk_start(struct hk_make *h, uint64_t appendix)
{
    const struct hk_writer_options options = {
        .size = sizeof options, .appendix_size = appendix, .flags = HK_FLAG_RAW_WEIGHT_STORAGE};
    mk_need(hk_writer_new(&h->w, &options, NULL) == HK_OK, "hk_writer_new");
}

static void set(struct hk_make *h, const char *key, enum hk_meta_type type, struct hk_bytes value)
{
    mk_need(hk_writer_set(h->w, text(key), type, value, NULL) == HK_OK, key);
}

static void add(struct hk_make *h, struct hk_tensor t, size_t shared)
{
    struct hk_error err = {0};
    mk_need(hk_writer_add(h->w, &t, shared, &err) == HK_OK, err.text);
}

/* SIZES are those of all sections in order; one of 144 bytes is the appendix. */
static struct hk_file *hk_end(struct hk_make *h, const size_t *sizes, size_t count, struct mk *made)
{
    struct hk_out *out;
    struct hk_file *f = NULL;
    struct stat st;
    int fd = mk_fd("", 0);
    uint8_t bytes[4096];
    bool good = hk_out_fd(&out, fd, NULL) == HK_OK && hk_writer_begin(h->w, out, NULL) == HK_OK;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)(i * 7 + k);
        if (sizes[i] == 144)
            mk_record(bytes, sizes[i]);
        good = good && hk_writer_put(h->w, bytes, sizes[i], NULL) == HK_OK;
    }
    good = good && hk_writer_finish(h->w, NULL) == HK_OK && hk_out_commit(&out, NULL) == HK_OK &&
           hk_open_fd(&f, fd, NULL) == HK_OK && fstat(fd, &st) == 0;
    mk_need(good, "making a .hk");
    if (made != NULL) {
        made->n = (size_t)st.st_size;
        made->p = malloc(made->n);
        mk_need(made->p != NULL && pread(fd, made->p, made->n, 0) == st.st_size, "read back");
    }
    close(fd);
    hk_writer_free(&h->w);
    return f;
}

/* F does not go to GGUF, and the message has NAME. Closes F. */
static void refuses(struct hk_file *f, enum hk_status status, const char *name, const char *what)
{
    struct mk made;
    struct hk_error err = {0};
    enum hk_status got = mk_convert(&made, f, HK_FORMAT_GGUF, 0, &err);
    ok(got == status && strstr(err.text, name) != NULL, "%s: %s, '%s'", what, hk_status_name(got),
       err.text);
    mk_free(&made);
    hk_close(&f);
}

static void refuses_tensor(struct hk_tensor t, enum hk_status status, const char *what)
{
    struct hk_make h;
    const size_t sizes[] = {t.data_size, t.scale_size, t.residual_size};
    hk_start(&h, 0);
    add(&h, t, 0);
    size_t count = t.data_size == 0 ? 0 : t.scale_size == 0 ? 1 : t.residual_size == 0 ? 2 : 3;
    refuses(hk_end(&h, sizes, count, NULL), status, t.name.n > 60 ? "xxxx" : "t.weight", what);
}

static void test_refused_tensors(void)
{
    struct hk_tensor t = tensor("t.weight", HK_TYPE_DQ8, 1, 32, 32);
    t.scale_size = 4;
    refuses_tensor(t, HK_E_UNSUPPORTED, "dq8");
    refuses_tensor(tensor("t.weight", HK_TYPE_NULL_REF, 1, 32, 0), HK_E_UNSUPPORTED, "null_ref");
    refuses_tensor(tensor("t.weight", HK_TYPE_UINT8, 1, 32, 32), HK_E_UNSUPPORTED, "uint8");
    refuses_tensor(tensor("t.weight", HK_TYPE_FP8_E4M3, 1, 32, 32), HK_E_UNSUPPORTED, "fp8");
    t = tensor("t.weight", HK_TYPE_F32, 1, 32, 128);
    t.sparsity = HK_SPARSITY_PHYSICAL_PRUNED;
    refuses_tensor(t, HK_E_UNSUPPORTED, "a sparsity label");
    t = tensor("t.weight", HK_TYPE_F32, 16, 16, 1024);
    t.layout = HK_LAYOUT_TILE_16X16;
    refuses_tensor(t, HK_E_UNSUPPORTED, "tiles");
    t = tensor("t.weight", HK_TYPE_F32, 1, 4, 16);
    t.ndim = 5;
    t.shape[1] = t.shape[2] = t.shape[3] = 1;
    t.shape[4] = 4;
    refuses_tensor(t, HK_E_UNSUPPORTED, "5 dimensions");
    t = tensor("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", HK_TYPE_F32, 1,
               4, 16);
    refuses_tensor(t, HK_E_RANGE, "a name of 64 bytes");
}

static void refuses_key(const char *key, enum hk_meta_type type, const char *value,
                        const char *second_key, const char *second)
{
    struct hk_make h;
    hk_start(&h, 0);
    set(&h, key, type, text(value));
    if (second_key != NULL)
        set(&h, second_key, HK_META_STRING, text(second));
    enum hk_status status =
        type == HK_META_BYTES || second_key != NULL ? HK_E_UNSUPPORTED : HK_E_FORMAT;
    refuses(hk_end(&h, NULL, 0, NULL), status, second_key != NULL ? second_key : key, value);
}

static void test_refused_keys(void)
{
    refuses_key("k.bytes", HK_META_BYTES, "opaque", NULL, NULL);
    refuses_key("hk.gguf.types", HK_META_JSON, "[1]", NULL, NULL);
    refuses_key("general.architecture", HK_META_STRING, "llama", "hk.rope_style", "swirl");
    refuses_key("general.alignment", HK_META_STRING, "32", NULL, NULL);

    static const struct {
        const char *type, *json;
    } rows[] = {{"u8", "{\"k\":\"u8\"}"},           {"word", "{\"k\":\"word\"}"},
                {"f32", "{\"k\":\"f32\"}"},         {"number", "{\"k\":1}"},
                {"array", "{\"k\":\"array<u8>\"}"}, {"bool", "{\"k\":\"bool\"}"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hk_make h;
        hk_start(&h, 0);
        mk_need(hk_writer_set_int(h.w, "k", 300, NULL) == HK_OK, "set");
        set(&h, "hk.gguf.types", HK_META_JSON, text(rows[i].json));
        refuses(hk_end(&h, NULL, 0, NULL), HK_E_FORMAT, "key k", rows[i].type);
    }
}

static void refuses_json(const char *type, const char *value)
{
    struct hk_make h;
    char types[128];
    hk_start(&h, 0);
    set(&h, "k", HK_META_JSON, text(value));
    snprintf(types, sizeof types, "{\"k\":\"%s\"}", type);
    set(&h, "hk.gguf.types", HK_META_JSON, text(types));
    refuses(hk_end(&h, NULL, 0, NULL), HK_E_FORMAT, "key k", value);
}

static void test_refused_json(void)
{
    refuses_json("array<u64>", "[1");
    refuses_json("array<u64>", "[1]]");
    refuses_json("array<u64>", "[-1]");
    refuses_json("array<u64>", "[18446744073709551616]");
    refuses_json("array<u64>", "[1 2]");
    refuses_json("array<u64>", "[\"1\"]");
    refuses_json("array<u64", "[1]");
    refuses_json("array<u64>x", "[1]");
    refuses_json("array<f64>", "[nan]");
    refuses_json("array<f64>", "[\"nan:x\"]");
    refuses_json("array<array>", "[[]]");
    refuses_json("array<array<u8>>", "[]");
    refuses_json("array<array<u8>,array<i8>>", "[[1]]");
    refuses_json("array<array<u8>,array<i8>>", "[[1],[1],[1]]");
    refuses_json("array<array<string>>", "[[\"\\q\"]]");
    refuses_json("array<array<bool>>", "[[1]]");
    refuses_json("array<array<array<array<array<array<array<array<array<u8>>>>>>>>>",
                 "[[[[[[[[[1]]]]]]]]]");
    refuses_json("u64", "18446744073709551616");
}

/* ---- what is kept ---- */

static struct hk_file *rich_file(struct mk *made)
{
    static const size_t sizes[] = {32, 4, 128, 1024, 128, 144};
    struct hk_make h;
    struct hk_tensor t;
    hk_start(&h, 144);
    set(&h, "k.string", HK_META_STRING, text("v"));
    set(&h, "k.json", HK_META_JSON, text("{\"a\":1}"));
    set(&h, "k.bytes", HK_META_BYTES, text("opaque"));
    set(&h, "k.bool", HK_META_BOOL, (struct hk_bytes){(const uint8_t *)"\1", 1});
    mk_need(hk_writer_set_int(h.w, "k.int", -5, NULL) == HK_OK, "set");
    t = tensor("dq8", HK_TYPE_DQ8, 1, 32, 32);
    t.scale_size = 4;
    t.residual_size = 128;
    t.sparsity_ratio = 0.5F;
    add(&h, t, 0);
    t = tensor("tiled", HK_TYPE_F32, 16, 16, 1024);
    t.layout = HK_LAYOUT_TILE_16X16;
    add(&h, t, 0);
    add(&h, tensor("null", HK_TYPE_NULL_REF, 2, 2, 0), 0);
    add(&h, tensor("plain", HK_TYPE_F32, 4, 8, 128), 0);
    add(&h, tensor("shared", HK_TYPE_SHARED_REF, 4, 8, 0), 3);
    return hk_end(&h, sizes, 6, made);
}

static void test_hk_to_hk(void)
{
    struct mk made = {0}, again = {0}, wide = {0}, back = {0};
    struct hk_error err = {0};
    struct hk_file *f = rich_file(&made), *g = NULL;
    enum hk_status status = mk_convert(&again, f, HK_FORMAT_HK, 0, &err);
    ok(status == HK_OK && again.n == made.n && memcmp(again.p, made.p, made.n) == 0,
       ".hk to .hk keeps every byte, the appendix too %s", err.text);
    status = mk_convert(&wide, f, HK_FORMAT_HK, 65536, &err);
    ok(status == HK_OK && mk_open(&g, wide.p, wide.n, &err) == HK_OK &&
           hk_file_header(g)->alignment == 65536 && hk_tensor_at(g, 0)->data_offset % 65536 == 0,
       "alignment 65536 is remembered %s", err.text);
    ok(g != NULL && mk_convert(&back, g, HK_FORMAT_HK, 128, &err) == HK_OK && back.n == made.n &&
           memcmp(back.p, made.p, made.n) == 0,
       "and leaves nothing behind when it goes %s", err.text);
    hk_close(&g);
    mk_free(&back);
    ok(mk_convert(&back, f, HK_FORMAT_HK, 3, &err) == HK_E_USE, "alignment 3: '%s'", err.text);
    refuses(f, HK_E_UNSUPPORTED, "appendix", "an appendix does not go to GGUF");
    mk_free(&made), mk_free(&again), mk_free(&wide);
}

static void test_shared(void)
{
    static const size_t sizes[] = {128};
    struct hk_make h;
    struct mk made = {0};
    struct hk_file *f = NULL, *g = NULL;
    hk_start(&h, 0);
    add(&h, tensor("token_embd.weight", HK_TYPE_F32, 4, 8, 128), 0);
    add(&h, tensor("again.weight", HK_TYPE_SHARED_REF, 4, 8, 0), 0);
    add(&h, tensor("output.weight", HK_TYPE_SHARED_REF, 4, 8, 0), 0);
    f = hk_end(&h, sizes, 1, NULL);
    bool good = mk_convert(&made, f, HK_FORMAT_GGUF, 0, NULL) == HK_OK &&
                mk_open(&g, made.p, made.n, NULL) == HK_OK && hk_tensor_count(g) == 2;
    ok(good, "a shared tensor goes to GGUF, an output that is the embedding does not");
    if (good) {
        struct hk_bytes a = hk_tensor_data(g, hk_tensor_at(g, 0));
        struct hk_bytes b = hk_tensor_data(g, hk_tensor_at(g, 1));
        ok(a.n == 128 && b.n == 128 && a.p != b.p && memcmp(a.p, b.p, 128) == 0,
           "as bytes of its own");
        ok(hk_bytes_are(hk_tensor_at(g, 1)->name, "again.weight"), "under its own name");
    }
    hk_close(&g);
    hk_close(&f);
    mk_free(&made);
}

/* Types that a .hk has without a record: what llama.cpp reads as hyperparameters. */
static void test_default_types(void)
{
    static const char f32_blob[] = "\2\0\0\0\1\0\0\0\0\0\x80\x3f";
    static const struct {
        const char *key, *type;
    } rows[] = {{"small", "u32"},       {"negative", "i32"}, {"large", "i64"},  {"json", "string"},
                {"blob", "array<f32>"}, {"exact", "f32"},    {"inexact", "f64"}};
    static const char half[] = "\0\0\0\0\0\0\xe0\x3f";
    static const char tenth[] = "\x9a\x99\x99\x99\x99\x99\xb9\x3f";
    struct hk_make h;
    struct mk made = {0};
    struct hk_file *f, *g = NULL;
    hk_start(&h, 0);
    mk_need(hk_writer_set_int(h.w, "small", 32, NULL) == HK_OK, "set");
    mk_need(hk_writer_set_int(h.w, "negative", -1, NULL) == HK_OK, "set");
    mk_need(hk_writer_set_int(h.w, "large", INT64_C(1) << 40, NULL) == HK_OK, "set");
    set(&h, "json", HK_META_JSON, text("[1,2]"));
    set(&h, "blob", HK_META_BYTES, (struct hk_bytes){(const uint8_t *)f32_blob, 12});
    set(&h, "exact", HK_META_FLOAT64, (struct hk_bytes){(const uint8_t *)half, 8});
    set(&h, "inexact", HK_META_FLOAT64, (struct hk_bytes){(const uint8_t *)tenth, 8});
    f = hk_end(&h, NULL, 0, NULL);
    bool good = mk_convert(&made, f, HK_FORMAT_GGUF, 0, NULL) == HK_OK &&
                mk_open(&g, made.p, made.n, NULL) == HK_OK;
    ok(good, "a .hk that never was a GGUF becomes one");
    for (size_t i = 0; good && i < sizeof rows / sizeof *rows; i++)
        ok(strcmp(hk_kv_find(g, rows[i].key)->gguf_type, rows[i].type) == 0, "%s as %s",
           rows[i].key, rows[i].type);
    hk_close(&g);
    hk_close(&f);
    mk_free(&made);
}

/* ---- from GGUF ---- */

static struct hk_file *gguf_of(const char *key, const char *name, unsigned type)
{
    struct mk m = {0};
    struct hk_file *f = NULL;
    struct hk_error err = {0};
    mk_header(&m, 1, 2);
    mk_key(&m, key, STRING), mk_text(&m, "v");
    mk_key(&m, "wide", U64), mk_int(&m, 5, 8);
    mk_tensor(&m, name, 128, 1, type, 0);
    mk_pad(&m, 32);
    for (unsigned i = 0; i < 512; i++)
        mk_int(&m, i, 1);
    enum hk_status status = mk_open(&f, m.p, m.n, &err);
    mk_need(status == HK_OK, err.text);
    mk_free(&m);
    return f;
}

static void refuses_gguf(struct hk_file *f, const char *name)
{
    struct mk made;
    struct hk_error err = {0};
    enum hk_status got = mk_convert(&made, f, HK_FORMAT_HK, 0, &err);
    ok(got == HK_E_UNSUPPORTED && strstr(err.text, name) != NULL, "%s: '%s'", name, err.text);
    hk_close(&f);
}

static void test_from_gguf(void)
{
    refuses_gguf(gguf_of("hk.source.format", "t", 0), "hk.source.format");
    refuses_gguf(gguf_of("hk.source.gguf_version", "t", 0), "hk.source.gguf_version");
    refuses_gguf(gguf_of("hk.gguf.types", "t", 0), "hk.gguf.types");
    refuses_gguf(gguf_of("hk.alignment", "t", 0), "hk.alignment");
    refuses_gguf(gguf_of("k", "t.q1", 41), "q1_0");
    refuses_gguf(gguf_of("k", "t.q2", 42), "t.q2");

    struct hk_file *f = gguf_of("k", "t", 0), *g = NULL;
    struct mk hk = {0}, plain = {0}, aligned = {0};
    struct hk_bytes types = {0}, source = {0};
    int64_t version = 0, alignment = 0;
    mk_need(mk_convert(&hk, f, HK_FORMAT_HK, 0, NULL) == HK_OK &&
                mk_open(&g, hk.p, hk.n, NULL) == HK_OK,
            "conversion");
    ok(hk_kv_string(hk_kv_find(g, "hk.gguf.types"), &types, NULL) == HK_OK &&
           hk_bytes_are(types, "{\"wide\":\"u64\"}"),
       "only the type that the value does not tell is recorded");
    ok(hk_kv_string(hk_kv_find(g, "hk.source.format"), &source, NULL) == HK_OK &&
           hk_bytes_are(source, "gguf") &&
           hk_kv_int(hk_kv_find(g, "hk.source.gguf_version"), &version, NULL) == HK_OK &&
           version == 3,
       "and where the file comes from");
    hk_close(&g);
    ok(mk_convert(&plain, f, HK_FORMAT_GGUF, 0, NULL) == HK_OK &&
           mk_convert(&aligned, f, HK_FORMAT_GGUF, 64, NULL) == HK_OK &&
           mk_open(&g, aligned.p, aligned.n, NULL) == HK_OK &&
           hk_kv_int(hk_kv_find(g, "general.alignment"), &alignment, NULL) == HK_OK &&
           alignment == 64 && hk_tensor_at(g, 0)->data_offset % 64 == 0 &&
           hk_kv_count(g) == hk_kv_count(f) + 1,
       "GGUF to GGUF with another alignment says so in its metadata");
    hk_close(&g);
    hk_close(&f);
    mk_free(&hk), mk_free(&plain), mk_free(&aligned);
}

int main(void)
{
    test_refused_tensors();
    test_refused_keys();
    test_refused_json();
    test_hk_to_hk();
    test_shared();
    test_default_types();
    test_from_gguf();
    return tap_done();
}
