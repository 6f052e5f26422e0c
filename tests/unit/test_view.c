/* Views: rounding, rows in another order, decoded tensors, and what GGUF wants otherwise. */
#include <fcntl.h>
#include <math.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/tensor/narrow.h"
#include "tests/lib/mk_gguf.h"

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

/* ---- rounding ---- */

static uint8_t *fixture(const char *name, size_t n)
{
    char path[4096];
    const char *dir = getenv("HK_FIXTURES");
    snprintf(path, sizeof path, "%s/quant/%s", dir != NULL ? dir : "tests/fixtures", name);
    uint8_t *p = malloc(n);
    FILE *file = fopen(path, "rb");
    mk_need(p != NULL && file != NULL && fread(p, 1, n, file) == n, path);
    fclose(file);
    return p;
}

static bool is_nan16(uint16_t code, uint16_t infinity)
{
    return (code & 0x7fff) > infinity;
}

static void test_rounding(enum hk_type type, const char *name, uint16_t infinity)
{
    enum { COUNT = 4096 };
    uint8_t *from = fixture("rounding.f32", 4 * COUNT), *want = fixture(name, 2 * COUNT);
    static float v[COUNT];
    static uint8_t got[2 * COUNT];
    size_t wrong = 0, infinite = 0;
    for (size_t i = 0; i < COUNT; i++)
        v[i] = le_f32(from + 4 * i);
    size_t lost = hk_narrow(type, v, COUNT, got);
    for (size_t i = 0; i < COUNT; i++) {
        uint16_t a = le16(got + 2 * i), b = le16(want + 2 * i);
        wrong += a != b && !(is_nan16(a, infinity) && is_nan16(b, infinity));
        infinite += isfinite(v[i]) && (b & 0x7fff) == infinity;
    }
    ok(wrong == 0, "%s: %zu of %d differ", name, wrong, (int)COUNT);
    ok(lost == infinite && lost > 0, "%s: %zu values became infinite", name, lost);
    free(from);
    free(want);
}

/* ---- files ---- */

struct made {
    struct hk_writer *w;
    size_t sizes[8], count;
    const uint8_t *bytes[8];
};

static void begin(struct made *m)
{
    *m = (struct made){0};
    mk_need(hk_writer_new(&m->w, NULL, NULL) == HK_OK, "writer");
}

static void set_float(struct made *m, const char *key, double d)
{
    uint8_t p[8];
    put_f64(p, d);
    mk_need(hk_writer_set(m->w, text(key), HK_META_FLOAT64, (struct hk_bytes){p, 8}, NULL) == HK_OK,
            key);
}

static void add(struct made *m, const char *name, enum hk_type type, unsigned ndim, uint64_t rows,
                uint64_t cols, const void *bytes, size_t n)
{
    const struct hk_tensor t = {.name = text(name),
                                .type = (uint16_t)type,
                                .ndim = (uint8_t)ndim,
                                .shape = {rows, ndim > 1 ? cols : 0},
                                .data_size = n};
    struct hk_error err = {0};
    mk_need(hk_writer_add(m->w, &t, 0, &err) == HK_OK, err.text);
    m->bytes[m->count] = bytes;
    m->sizes[m->count++] = n;
}

static struct hk_file *end(struct made *m)
{
    struct hk_out *out;
    struct hk_file *f = NULL;
    struct hk_error err = {0};
    int fd = mk_fd("", 0);
    bool good = hk_out_fd(&out, fd, NULL) == HK_OK && hk_writer_begin(m->w, out, NULL) == HK_OK;
    for (size_t i = 0; i < m->count; i++)
        good = good && hk_writer_put(m->w, m->bytes[i], m->sizes[i], NULL) == HK_OK;
    good = good && hk_writer_finish(m->w, NULL) == HK_OK && hk_out_commit(&out, NULL) == HK_OK;
    mk_need(good && hk_open_fd(&f, fd, &err) == HK_OK, err.text);
    close(fd);
    hk_writer_free(&m->w);
    return f;
}

static struct hk_file *written(struct hk_file *f, enum hk_format to)
{
    struct hk_out *out;
    struct hk_file *back = NULL;
    struct hk_error err = {0};
    int fd = mk_fd("", 0);
    const struct hk_convert_options opt = {.size = sizeof opt};
    mk_need(hk_out_fd(&out, fd, NULL) == HK_OK, "out");
    mk_need(hk_write_as(f, to, &opt, out, &err) == HK_OK, err.text);
    mk_need(hk_out_commit(&out, &err) == HK_OK && hk_open_fd(&back, fd, &err) == HK_OK, err.text);
    close(fd);
    return back;
}

/* ---- order of rows ---- */

/* Two heads of four rows, a number a row: pairs (0 1)(2 3) become halves (0 2 1 3). */
static void test_order(void)
{
    static const uint8_t rows[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t halves[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    struct made m;
    struct hk_view *v, *w;
    struct hk_error err = {0};
    begin(&m);
    add(&m, "q", HK_TYPE_INT8, 2, 8, 1, rows, 8);
    add(&m, "bias", HK_TYPE_INT8, 1, 8, 0, rows, 8);
    struct hk_file *f = end(&m);
    mk_need(hk_view_new(&v, f, NULL) == HK_OK, "view");
    ok(hk_view_reorder(v, 0, HK_ROWS_TO_HALVES, 3, &err) == HK_E_FORMAT &&
           strstr(err.text, "tensor q has 8 rows") != NULL,
       "8 rows are no 3 heads: %s", err.text);
    mk_need(hk_view_reorder(v, 0, HK_ROWS_TO_HALVES, 2, NULL) == HK_OK &&
                hk_view_reorder(v, 1, HK_ROWS_TO_HALVES, 2, NULL) == HK_OK &&
                hk_view_ready(v, NULL) == HK_OK,
            "reorder");
    struct hk_file *g = written(v->file, HK_FORMAT_HK);
    ok(memcmp(hk_tensor_data(g, hk_tensor_at(g, 0)).p, halves, 8) == 0, "pairs become halves");
    ok(memcmp(hk_tensor_data(g, hk_tensor_at(g, 1)).p, halves, 8) == 0, "in a vector as well");
    mk_need(hk_view_new(&w, g, NULL) == HK_OK &&
                hk_view_reorder(w, 0, HK_ROWS_TO_PAIRS, 2, NULL) == HK_OK &&
                hk_view_ready(w, NULL) == HK_OK,
            "back");
    struct hk_file *back = written(w->file, HK_FORMAT_HK);
    ok(memcmp(hk_tensor_data(back, hk_tensor_at(back, 0)).p, rows, 8) == 0, "and pairs again");
    hk_close(&back);
    hk_view_free(&w);
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
}

/* ---- decoding, names, parts ---- */

static void test_decode(void)
{
    static uint8_t block[2 * 34]; /* q8_0: two rows of one block, scale 1 and 70000/127 */
    struct made m;
    struct hk_view *v, *part;
    put16(block, 0x3c00);
    put16(block + 34, 0x6046);
    for (unsigned i = 0; i < 32; i++) {
        block[2 + i] = (uint8_t)i;
        block[36 + i] = 127;
    }
    begin(&m);
    add(&m, "a", HK_TYPE_F32, 1, 1, 0, "\0\0\200\77", 4);
    add(&m, "w", HK_TYPE_Q8_0, 2, 2, 32, block, sizeof block);
    struct hk_file *f = end(&m);
    mk_need(hk_view_new(&v, f, NULL) == HK_OK && hk_view_decode(v, 1, HK_TYPE_F16, NULL) == HK_OK &&
                hk_view_reorder(v, 1, HK_ROWS_TO_HALVES, 1, NULL) == HK_OK &&
                hk_view_rename(v, 1, "weight", NULL) == HK_OK && hk_view_ready(v, NULL) == HK_OK,
            "view");
    mk_need(hk_view_range(&part, v->file, 1, 1, NULL) == HK_OK &&
                hk_view_ready(part, NULL) == HK_OK,
            "part");
    struct hk_file *g = written(part->file, HK_FORMAT_HK);
    const struct hk_tensor *t = hk_tensor_find(g, "weight");
    ok(hk_tensor_count(g) == 1 && t != NULL && t->type == HK_TYPE_F16 && t->data_size == 128,
       "a part of a view has its names and types");
    if (t == NULL)
        return;
    const uint8_t *p = hk_tensor_data(g, t).p;
    bool good = true;
    for (unsigned i = 0; i < 32; i++) {
        float want = (float)i, got;
        hk_dequantize(HK_TYPE_F16, p + 2 * i, 1, &got);
        good = good && got == want;
        good = good && le16(p + 64 + 2 * i) == 0x7c00;
    }
    ok(good, "values are decoded, and infinite where f16 ends");
    hk_close(&g);
    hk_view_free(&part);
    hk_view_free(&v);
    hk_close(&f);
}

/* ---- what GGUF wants ---- */

static void describe(struct made *m, const char *style, const char *scaling)
{
    static const uint8_t rows[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    begin(m);
    bool good = hk_writer_set_string(m->w, "general.architecture", "llama", NULL) == HK_OK &&
                hk_writer_set_int(m->w, "llama.embedding_length", 256, NULL) == HK_OK &&
                hk_writer_set_int(m->w, "llama.attention.head_count", 2, NULL) == HK_OK &&
                hk_writer_set_int(m->w, "llama.attention.head_count_kv", 1, NULL) == HK_OK &&
                hk_writer_set_int(m->w, "llama.context_length", 131072, NULL) == HK_OK;
    if (style != NULL)
        good = good && hk_writer_set_string(m->w, "hk.rope_style", style, NULL) == HK_OK;
    if (scaling != NULL) {
        good = good &&
               hk_writer_set_string(m->w, "llama.rope.scaling.type", scaling, NULL) == HK_OK &&
               hk_writer_set_int(m->w, "llama.rope.scaling.original_context_length", 8192, NULL) ==
                   HK_OK;
        set_float(m, "llama.rope.freq_base", 500000);
        set_float(m, "llama.rope.scaling.factor", 8);
        set_float(m, "hk.rope.low_freq_factor", 1);
        set_float(m, "hk.rope.high_freq_factor", 4);
    }
    mk_need(good, "describe");
    add(m, "blk.0.attn_q.weight", HK_TYPE_INT8, 2, 8, 1, rows, 8);
    add(m, "blk.0.attn_k.bias", HK_TYPE_INT8, 1, 8, 0, rows, 8);
    add(m, "blk.0.attn_v.weight", HK_TYPE_INT8, 2, 8, 1, rows, 8);
}

static bool bytes_are(struct hk_file *f, const char *name, const char *bytes, size_t n)
{
    const struct hk_tensor *t = hk_tensor_find(f, name);
    return t != NULL && t->data_size == n && memcmp(hk_tensor_data(f, t).p, bytes, n) == 0;
}

static struct hk_file *to_gguf(struct hk_file *f, struct hk_view **v)
{
    const struct hk_convert_options opt = {.size = sizeof opt};
    struct hk_error err = {0};
    mk_need(hk_prepare(v, f, HK_FORMAT_GGUF, &opt, &err) == HK_OK, err.text);
    return written(*v != NULL ? (*v)->file : f, HK_FORMAT_GGUF);
}

static void test_gguf_order(void)
{
    struct made m;
    struct hk_view *v;
    describe(&m, "neox", NULL);
    struct hk_file *f = end(&m), *g = to_gguf(f, &v);
    ok(bytes_are(g, "blk.0.attn_q.weight", "\0\2\1\3\4\6\5\7", 8), "rows of two heads of queries");
    ok(bytes_are(g, "blk.0.attn_k.bias", "\0\4\1\5\2\6\3\7", 8), "a bias of one head of keys");
    ok(bytes_are(g, "blk.0.attn_v.weight", "\0\1\2\3\4\5\6\7", 8), "values do not rotate");
    ok(hk_kv_find(g, "hk.rope_style") == NULL, "the key has no place in a GGUF");
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
    describe(&m, "norm", NULL);
    f = end(&m), g = to_gguf(f, &v);
    ok(bytes_are(g, "blk.0.attn_q.weight", "\0\1\2\3\4\5\6\7", 8), "norm is llama's own order");
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
    describe(&m, "other", NULL);
    f = end(&m);
    struct hk_error err = {0};
    ok(hk_prepare(&v, f, HK_FORMAT_GGUF, &(struct hk_convert_options){0}, &err) ==
               HK_E_UNSUPPORTED &&
           strstr(err.text, "hk.rope_style") != NULL,
       "another style: %s", err.text);
    hk_close(&f);
}

/* Rows beyond the vocabulary get names, types and scores. */
static void test_gguf_padding(void)
{
    static const uint8_t rows[5] = {0, 1, 2, 3, 4};
    static const uint8_t tokens[] = {1, 0, 0, 0, 2, 0, 0, 0, 0, 0,   0,
                                     0, 1, 0, 0, 0, 2, 0, 0, 0, 'a', 'b'};
    static const uint8_t types[] = {3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0};
    struct made m;
    struct hk_view *v;
    struct hk_array list;
    describe(&m, "norm", NULL);
    mk_need(hk_writer_set(m.w, text("tokenizer.ggml.tokens"), HK_META_BYTES,
                          (struct hk_bytes){tokens, sizeof tokens}, NULL) == HK_OK &&
                hk_writer_set(m.w, text("tokenizer.ggml.token_type"), HK_META_BYTES,
                              (struct hk_bytes){types, sizeof types}, NULL) == HK_OK,
            "vocabulary");
    add(&m, "token_embd.weight", HK_TYPE_INT8, 2, 5, 1, rows, 5);
    struct hk_file *f = end(&m), *g = to_gguf(f, &v);
    ok(hk_kv_array(hk_kv_find(g, "tokenizer.ggml.tokens"), HK_ARRAY_STRING, &list, NULL) == HK_OK &&
           list.count == 5 && hk_bytes_are(hk_array_string(&list, 1), "b") &&
           hk_bytes_are(hk_array_string(&list, 4), "[PAD4]"),
       "two tokens for five rows: three are named");
    ok(hk_kv_array(hk_kv_find(g, "tokenizer.ggml.token_type"), HK_ARRAY_I32, &list, NULL) ==
               HK_OK &&
           list.count == 5 && hk_array_i32(&list, 1) == 3 && hk_array_i32(&list, 2) == 5,
       "as unused ones");
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
}

/* Llama 3.1's factors by its own formula, of wavelengths. */
static double factor_of(unsigned i, unsigned dims)
{
    const double pi = 3.14159265358979323846, base = 500000, factor = 8, low = 1, high = 4,
                 old = 8192;
    const double wavelength = 2 * pi * pow(base, 2.0 * i / dims);
    if (wavelength < old / high)
        return 1;
    if (wavelength > old / low)
        return factor;
    const double smooth = (old / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

static void test_gguf_scaling(void)
{
    struct made m;
    struct hk_view *v;
    describe(&m, NULL, "llama3");
    struct hk_file *f = end(&m), *g = to_gguf(f, &v);
    const struct hk_tensor *t = hk_tensor_find(g, "rope_freqs.weight");
    ok(t != NULL && t->type == HK_TYPE_F32 && t->ndim == 1 && t->shape[0] == 64,
       "llama3 becomes a tensor of 64 factors");
    double most = 0;
    unsigned blended = 0;
    for (unsigned i = 0; t != NULL && i < 64; i++) {
        const double got = (double)le_f32(hk_tensor_data(g, t).p + 4 * i), want = factor_of(i, 128);
        most = fmax(most, fabs(got / want - 1));
        blended += want > 1 && want < 8;
    }
    ok(most < 1e-7 && blended > 2, "they are those of the formula within %g", most);
    ok(hk_kv_find(g, "llama.rope.scaling.type") == NULL &&
           hk_kv_find(g, "llama.rope.scaling.factor") == NULL &&
           hk_kv_find(g, "hk.rope.scaling.factor") != NULL,
       "no factor is left that llama.cpp would take for a linear one");
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
    describe(&m, NULL, "linear");
    f = end(&m), g = to_gguf(f, &v);
    ok(hk_kv_find(g, "llama.rope.scaling.factor") != NULL &&
           hk_tensor_find(g, "rope_freqs.weight") == NULL,
       "linear scaling has keys of its own");
    hk_close(&g);
    hk_view_free(&v);
    hk_close(&f);
}

int main(void)
{
    test_rounding(HK_TYPE_F16, "rounding.f16", 0x7c00);
    test_rounding(HK_TYPE_BF16, "rounding.bf16", 0x7f80);
    test_order();
    test_decode();
    test_gguf_order();
    test_gguf_padding();
    test_gguf_scaling();
    return tap_done();
}
