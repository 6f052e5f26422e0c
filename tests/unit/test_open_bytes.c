/* Files in memory: every format opens as from a descriptor, and the bytes stay the caller's. */
#include "tests/lib/mk_gguf.h"
#include "tests/lib/sample.h"

/* Whether F and G say the same of all tensors and keys. */
static bool have_equal_contents(const struct hk_file *f, const struct hk_file *g)
{
    uint8_t of_f[HK_SHA256_SIZE], of_g[HK_SHA256_SIZE];
    bool good = hk_file_format(f) == hk_file_format(g) && hk_kv_count(f) == hk_kv_count(g) &&
                hk_file_size(f) == hk_file_size(g) && hk_record_count(f) == hk_record_count(g) &&
                hk_base_digest(f, of_f, NULL) == HK_OK && hk_base_digest(g, of_g, NULL) == HK_OK &&
                memcmp(of_f, of_g, sizeof of_f) == 0;
    for (size_t i = 0; good && i < hk_kv_count(f); i++) {
        const struct hk_kv *a = hk_kv_at(f, i), *b = hk_kv_find_bytes(g, a->key);
        good = b != NULL && a->type == b->type && a->value.n == b->value.n &&
               memcmp(a->value.p, b->value.p, a->value.n) == 0;
    }
    return good;
}

static void test_format(enum hk_format format, const uint8_t *p, size_t n)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL, *mapped = NULL;
    uint8_t *copy = malloc(n);
    mk_need(copy != NULL, "memory");
    memcpy(copy, p, n);
    must(mk_open(&mapped, p, n, &err), &err, "open");
    ok(hk_open_bytes(&f, (struct hk_bytes){copy, n}, &err) == HK_OK && hk_file_format(f) == format,
       "%s opens from memory %s", hk_format_name(format), err.text);
    ok(have_equal_contents(f, mapped), "with what the file has");
    const struct hk_bytes data = hk_tensor_data(f, hk_tensor_at(f, 0));
    ok(data.p >= copy && data.p + data.n <= copy + n, "and payloads where they are");
    hk_close(&mapped);
    must(mk_open(&mapped, copy, n, &err), &err, "open");
    hk_close(&f);
    ok(memcmp(copy, p, n) == 0, "the bytes are still there after hk_close()");
    hk_close(&mapped);
    free(copy);
}

static void test_formats(void)
{
    static const enum hk_format others[] = {HK_FORMAT_GGUF, HK_FORMAT_SAFETENSORS};
    struct image image = sample(128, 2);
    struct hk_error err = {0};
    test_format(HK_FORMAT_HK, image.p, image.n);

    struct hk_writer *w;
    struct hk_out *out;
    struct hk_file *f;
    const float values[64] = {1, 2, 3};
    const struct hk_tensor t = {
        .name = text("a"), .type = HK_TYPE_F32, .ndim = 1, .shape = {64}, .data_size = 256};
    int fd = mk_fd("", 0);
    must(hk_writer_new(&w, NULL, &err), &err, "new");
    must(hk_writer_set_string(w, "general.architecture", "llama", &err), &err, "set");
    must(hk_writer_add(w, &t, 0, &err), &err, "add");
    must(hk_out_fd(&out, fd, &err), &err, "out");
    must(hk_writer_begin(w, out, &err), &err, "begin");
    must(hk_writer_put(w, values, sizeof values, &err), &err, "put");
    must(hk_writer_finish(w, &err), &err, "finish");
    must(hk_out_commit(&out, &err), &err, "commit");
    hk_writer_free(&w);
    must(hk_open_fd(&f, fd, &err), &err, "open");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct mk made;
        must(mk_convert(&made, f, others[i], 0, &err), &err, "convert");
        test_format(others[i], made.p, made.n);
        mk_free(&made);
    }
    hk_close(&f);
    close(fd);
    free(image.p);
}

/* hk_hash() gives pages back: not those of a caller's memory, which would lose what they hold. */
static void test_hashed(void)
{
    enum { SIZE = 24 << 20 };
    struct hk_error err = {0};
    struct hk_file *f;
    static const char head[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[25165000],"
                               "\"data_offsets\":[0,25165000]}}";
    uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mk_need(p != MAP_FAILED, "memory");
    put64(p, sizeof head - 1);
    memcpy(p + 8, head, sizeof head - 1);
    const size_t n = 8 + sizeof head - 1 + 25165000;
    memset(p + n - 25165000, 7, 25165000);
    must(hk_open_bytes(&f, (struct hk_bytes){p, n}, &err), &err, "open");
    uint8_t digest[HK_SHA256_SIZE];
    must(hk_base_digest(f, digest, &err), &err, "digest");
    bool kept = true;
    for (size_t i = n - 25165000; kept && i < n; i++)
        kept = p[i] == 7;
    ok(kept, "what was hashed is still in memory");
    hk_close(&f);
    munmap(p, SIZE);
}

/* In a block of its own size, so that a sanitizer sees every byte read past the end. */
static void test_cut(void)
{
    struct image image = sample(128, 2);
    size_t differ = 0, opened = 0;
    for (size_t n = 0; n <= image.n; n++) {
        struct hk_error err;
        struct hk_file *f = NULL, *g = NULL;
        struct image cut = {malloc(n > 0 ? n : 1), n};
        mk_need(cut.p != NULL, "memory");
        memcpy(cut.p, image.p, n);
        enum hk_status st = hk_open_bytes(&f, (struct hk_bytes){cut.p, n}, &err);
        differ += st != open_image(&cut, &g, NULL);
        opened += st == HK_OK;
        hk_close(&f);
        hk_close(&g);
        free(cut.p);
    }
    ok(differ == 0 && opened > 0, "cut anywhere it opens or not as a file does");
    free(image.p);
}

static void test_refused(void)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    struct hk_writer *w;
    struct hk_out *out;
    const struct hk_writer_options options = {
        .size = sizeof options, .split_index = 1, .split_count = 3};
    int fd = mk_fd("", 0);
    must(hk_writer_new(&w, &options, &err), &err, "new");
    must(hk_out_fd(&out, fd, &err), &err, "out");
    must(hk_writer_begin(w, out, &err), &err, "begin");
    must(hk_writer_finish(w, &err), &err, "finish");
    must(hk_out_commit(&out, &err), &err, "commit");
    hk_writer_free(&w);
    struct image shard = read_back(fd);
    ok(hk_open_bytes(&f, (struct hk_bytes){shard.p, shard.n}, &err) == HK_E_UNSUPPORTED &&
           f == NULL && strstr(err.text, "shard of 3") != NULL,
       "one shard of several: %s", err.text);
    ok(hk_open_bytes(&f, (struct hk_bytes){0}, &err) != HK_OK && f == NULL, "nothing: %s",
       err.text);
    ok(hk_open_bytes(&f, text("{\"weight_map\": {}}"), &err) != HK_OK && f == NULL, "an index: %s",
       err.text);
    close(fd);
    free(shard.p);
}

/* Names need not end where a C string does. */
static void test_find(void)
{
    struct image image = sample(128, 0);
    struct hk_file *f;
    struct hk_error err = {0};
    must(hk_open_bytes(&f, (struct hk_bytes){image.p, image.n}, &err), &err, "open");
    struct hk_bytes longer = text("scalar and more");
    longer.n = 6;
    ok(hk_tensor_find_bytes(f, longer) == hk_tensor_find(f, "scalar") &&
           hk_tensor_find(f, "scalar") != NULL,
       "a tensor by bytes");
    longer.n = 7;
    ok(hk_tensor_find_bytes(f, longer) == NULL, "and none by others");
    struct hk_bytes key = text("real estate");
    key.n = 4;
    ok(hk_kv_find_bytes(f, key) == hk_kv_find(f, "real") && hk_kv_find(f, "real") != NULL,
       "a key by bytes");
    key.n = 3;
    ok(hk_kv_find_bytes(f, key) == NULL, "and none by others");
    hk_close(&f);
    free(image.p);
}

int main(void)
{
    test_formats();
    test_hashed();
    test_cut();
    test_refused();
    test_find();
    return tap_done();
}
