/* What the writer writes reads back; what it must not write it refuses. */
#include "tests/lib/sample.h"

static void test_round_trip(uint32_t alignment)
{
    struct image image = sample(alignment, 2);
    struct hk_file *f;
    struct hk_error err = {0};
    int64_t integer = 0;
    double real = 0;
    bool yes = false;
    struct hk_bytes string = {0};
    struct hk_array array = {0};
    must(open_image(&image, &f, &err), &err, "open");
    ok(hk_file_header(f)->alignment == alignment, "alignment %u", alignment);
    ok(hk_kv_int(hk_kv_find(f, "llama.block_count"), &integer, &err) == HK_OK && integer == -3,
       "int64");
    ok(hk_kv_float(hk_kv_find(f, "real"), &real, &err) == HK_OK && real == 1.5, "float64");
    ok(hk_kv_float(hk_kv_find(f, "llama.block_count"), &real, &err) == HK_OK && real == -3,
       "int as float");
    ok(hk_kv_bool(hk_kv_find(f, "yes"), &yes, &err) == HK_OK && yes, "bool");
    ok(hk_kv_string(hk_kv_find(f, "general.architecture"), &string, &err) == HK_OK &&
           hk_bytes_are(string, "llama"),
       "string");
    ok(hk_kv_int(hk_kv_find(f, "yes"), &integer, &err) == HK_E_FORMAT &&
           strstr(err.text, "yes is of type bool") != NULL,
       "a bool is no int");
    ok(hk_kv_array(hk_kv_find(f, "strings"), HK_ARRAY_STRING, &array, &err) == HK_OK &&
           array.count == 2 && hk_bytes_are(hk_array_string(&array, 1), "llo"),
       "array of strings");
    ok(hk_kv_array(hk_kv_find(f, "strings"), HK_ARRAY_I32, &array, &err) == HK_E_FORMAT,
       "strings are no integers");
    ok(hk_kv_array(hk_kv_find(f, "json"), HK_ARRAY_F32, &array, &err) == HK_OK &&
           array.count == 2 && hk_array_f32(&array, 1) == 2.5F,
       "json array as f32");
    hk_array_free(&array);
    const struct hk_tensor *shared = hk_tensor_find(f, "shared"), *target = NULL;
    ok(hk_tensor_resolve(f, shared, &target, &err) == HK_OK &&
           target == hk_tensor_find(f, "f32.weight"),
       "shared_ref leads to its tensor");
    for (size_t i = 0; i < hk_tensor_count(f); i++)
        ok(hk_tensor_at(f, i)->data_offset % alignment == 0, "tensor %zu is aligned", i);
    ok(hk_record_count(f) == 2 && hk_bytes_are(hk_record_at(f, 1)->name, "odd"), "two records");
    ok(hk_kv_find(f, "no such key") == NULL && hk_tensor_find(f, "") == NULL, "absent names");
    hk_close(&f);
    free(image.p);
}

static void test_digest(void)
{
    struct image a = sample(64, 0), b = sample(4096, 2);
    struct hk_file *f, *g;
    struct hk_error err;
    uint8_t first[32], second[32];
    must(open_image(&a, &f, &err), &err, "open");
    must(open_image(&b, &g, &err), &err, "open");
    must(hk_base_digest(f, first, &err), &err, "digest");
    must(hk_base_digest(g, second, &err), &err, "digest");
    ok(memcmp(first, second, 32) == 0, "the base digest survives realignment and an appendix");
    hk_close(&g);
    b.p[4096] ^= 1;
    must(open_image(&b, &g, &err), &err, "open");
    must(hk_base_digest(g, second, &err), &err, "digest");
    ok(memcmp(first, second, 32) != 0, "and changes with a payload byte");
    hk_close(&f);
    hk_close(&g);
    free(a.p);
    free(b.p);
}

static struct hk_writer *fresh(void)
{
    struct hk_writer *w;
    struct hk_error err;
    must(hk_writer_new(&w, NULL, &err), &err, "new");
    return w;
}

static void test_refusals(void)
{
    struct hk_error err = {0};
    struct hk_writer *w = NULL;
    char name[130];
    memset(name, 'n', 129);
    name[129] = '\0';
    ok(hk_writer_new(
           &w,
           &(struct hk_writer_options){.size = sizeof(struct hk_writer_options), .alignment = 96},
           &err) == HK_E_USE,
       "alignment 96");
    ok(hk_writer_new(&w,
                     &(struct hk_writer_options){.size = sizeof(struct hk_writer_options),
                                                 .alignment = 131072},
                     &err) == HK_E_USE,
       "alignment 131072");
    ok(hk_writer_new(&w,
                     &(struct hk_writer_options){.size = sizeof(struct hk_writer_options),
                                                 .split_index = 2,
                                                 .split_count = 2},
                     &err) == HK_E_USE,
       "shard 2 of 2");
    w = fresh();
    ok(hk_writer_set(w, text(""), HK_META_STRING, text("x"), &err) == HK_E_USE, "empty key");
    ok(hk_writer_set(w, text("k"), HK_META_INT64, text("x"), &err) == HK_E_FORMAT,
       "int64 of one byte");
    struct hk_tensor t = {
        .name = text(name), .type = HK_TYPE_F32, .ndim = 1, .shape = {4}, .data_size = 16};
    ok(hk_writer_add(w, &t, 0, &err) == HK_E_RANGE, "name of 129 bytes");
    t.name = text("t");
    t.data_size = 15;
    ok(hk_writer_add(w, &t, 0, &err) == HK_E_FORMAT, "size that does not fit the shape");
    t.type = HK_TYPE_Q1_0;
    ok(hk_writer_add(w, &t, 0, &err) == HK_E_UNSUPPORTED && strstr(err.text, "q1_0") != NULL,
       "a type that only GGUF has");
    t = (struct hk_tensor){.name = text("s"), .type = HK_TYPE_SHARED_REF, .ndim = 1, .shape = {4}};
    ok(hk_writer_add(w, &t, 0, &err) == HK_E_USE, "shared_ref before its tensor");
    hk_writer_free(&w);
}

static void test_contract(void)
{
    struct hk_error err = {0};
    struct hk_writer *w = fresh();
    struct hk_out *o;
    int fd = memfd_create("t", 0);
    struct hk_tensor t = {
        .name = text("t"), .type = HK_TYPE_F32, .ndim = 1, .shape = {4}, .data_size = 16};
    must(hk_out_fd(&o, fd, &err), &err, "out");
    must(hk_writer_set_string(w, "k", "one", &err), &err, "set");
    must(hk_writer_set_string(w, "k", "two", &err), &err, "set");
    must(hk_writer_add(w, &t, 0, &err), &err, "add");
    ok(hk_writer_put(w, "x", 1, &err) == HK_E_USE, "payload before the head");
    must(hk_writer_begin(w, o, &err), &err, "begin");
    ok(hk_writer_add(w, &t, 0, &err) == HK_E_USE, "a tensor after the head");
    ok(hk_writer_put(w, "0123456789abcdefg", 17, &err) == HK_E_USE, "too many bytes");
    must(hk_writer_put(w, "0123456789", 10, &err), &err, "put");
    ok(hk_writer_finish(w, &err) == HK_E_USE, "too few bytes");
    must(hk_writer_put(w, "abcdef", 6, &err), &err, "put");
    ok(hk_writer_put(w, "x", 1, &err) == HK_E_USE, "bytes past the last section");
    must(hk_writer_finish(w, &err), &err, "finish");
    ok(hk_writer_size(w) == hk_out_offset(o), "the size was known beforehand");
    must(hk_out_commit(&o, &err), &err, "commit");
    struct hk_file *f;
    struct hk_bytes value = {0};
    must(hk_open_fd(&f, fd, &err), &err, "open");
    ok(hk_kv_count(f) == 1 && hk_kv_string(hk_kv_at(f, 0), &value, &err) == HK_OK &&
           hk_bytes_are(value, "two"),
       "setting a key again replaces it");
    hk_close(&f);
    hk_writer_free(&w);
    close(fd);
}

static void test_duplicate(void)
{
    struct hk_error err = {0};
    struct hk_writer *w = fresh();
    struct hk_out *o;
    struct hk_tensor t = {.name = text("t"), .type = HK_TYPE_F32, .ndim = 1, .shape = {0}};
    int fd = memfd_create("t", 0);
    must(hk_out_fd(&o, fd, &err), &err, "out");
    must(hk_writer_add(w, &t, 0, &err), &err, "add");
    must(hk_writer_add(w, &t, 0, &err), &err, "add");
    ok(hk_writer_begin(w, o, &err) == HK_E_FORMAT, "two tensors of one name");
    hk_out_discard(&o);
    hk_writer_free(&w);
    close(fd);
}

int main(void)
{
    char directory[] = "/tmp/hk-test-writer-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        puts("Bail out! no directory");
        return 2;
    }
    static const uint32_t alignments[] = {1, 32, 128, 4096, 16384, 65536};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        test_round_trip(alignments[i]);
    test_digest();
    test_refusals();
    test_contract();
    test_duplicate();
    ok(rmdir(directory) == 0, "no litter");
    return tap_done();
}
