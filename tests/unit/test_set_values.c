/* Metadata values made of C types, by a writer and by an edit: each comes back as it was given. */
#include <math.h>

#include "tests/lib/sample.h"

static const struct hk_bytes names[] = {
    {(const uint8_t *)"a", 1}, {NULL, 0}, {(const uint8_t *)"c\0d", 3}};
static const float floats[] = {0.1F, -0.0F, INFINITY};
static const int32_t ints[] = {INT32_MIN, 0, INT32_MAX};
static const uint8_t blob[] = {0, 255, 7};
static const double exact = 0.1;

/* clang-format off */
#define SET_ALL(who, to, err)                                                                      \
    must(hk_##who##_set_string(to, "string", "text", err), err, "string");                         \
    must(hk_##who##_set_int(to, "int", INT64_MIN, err), err, "int");                               \
    must(hk_##who##_set_float(to, "float", exact, err), err, "float");                             \
    must(hk_##who##_set_bool(to, "bool", true, err), err, "bool");                                 \
    must(hk_##who##_set_json(to, "json", "{\"a\": [1]}", err), err, "json");                       \
    must(hk_##who##_set_bytes(to, "bytes", (struct hk_bytes){blob, sizeof blob}, err), err, "bytes"); \
    must(hk_##who##_set_string_array(to, "strings", names, 3, err), err, "strings");               \
    must(hk_##who##_set_f32_array(to, "floats", floats, 3, err), err, "floats");                   \
    must(hk_##who##_set_i32_array(to, "ints", ints, 3, err), err, "ints");                         \
    must(hk_##who##_set_i32_array(to, "none", NULL, 0, err), err, "an empty array")
/* clang-format on */

static bool is_of(const struct hk_file *f, const char *key, enum hk_meta_type type)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    return kv != NULL && kv->type == type;
}

static void check_arrays(const struct hk_file *f, const char *by)
{
    struct hk_array a;
    bool good = hk_kv_array(hk_kv_find(f, "strings"), HK_ARRAY_STRING, &a, NULL) == HK_OK;
    ok(good && a.count == 3 && hk_bytes_are(hk_array_string(&a, 0), "a") &&
           hk_array_string(&a, 1).n == 0 && hk_array_string(&a, 2).n == 3 &&
           memcmp(hk_array_string(&a, 2).p, "c\0d", 3) == 0,
       "%s: an array of strings", by);
    good = hk_kv_array(hk_kv_find(f, "floats"), HK_ARRAY_F32, &a, NULL) == HK_OK;
    ok(good && a.count == 3 && hk_array_f32(&a, 0) == 0.1F && signbit(hk_array_f32(&a, 1)) &&
           isinf(hk_array_f32(&a, 2)),
       "%s: an array of floats", by);
    good = hk_kv_array(hk_kv_find(f, "ints"), HK_ARRAY_I32, &a, NULL) == HK_OK;
    ok(good && a.count == 3 && hk_array_i32(&a, 0) == INT32_MIN && hk_array_i32(&a, 2) == INT32_MAX,
       "%s: an array of integers", by);
    good = hk_kv_array(hk_kv_find(f, "none"), HK_ARRAY_I32, &a, NULL) == HK_OK;
    ok(good && a.count == 0, "%s: an empty array", by);
}

static void check_all(int fd, const char *by)
{
    struct hk_file *f;
    struct hk_error err;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    struct hk_bytes s = {0};
    must(hk_open_fd(&f, fd, &err), &err, "open");
    ok(is_of(f, "string", HK_META_STRING) &&
           hk_kv_string(hk_kv_find(f, "string"), &s, NULL) == HK_OK && hk_bytes_are(s, "text"),
       "%s: string", by);
    ok(hk_kv_int(hk_kv_find(f, "int"), &i, NULL) == HK_OK && i == INT64_MIN, "%s: int", by);
    ok(is_of(f, "float", HK_META_FLOAT64) &&
           hk_kv_float(hk_kv_find(f, "float"), &d, NULL) == HK_OK && d == exact,
       "%s: float, all of its bits", by);
    ok(hk_kv_bool(hk_kv_find(f, "bool"), &b, NULL) == HK_OK && b, "%s: bool", by);
    ok(is_of(f, "json", HK_META_JSON) && hk_kv_string(hk_kv_find(f, "json"), &s, NULL) == HK_OK &&
           hk_bytes_are(s, "{\"a\": [1]}"),
       "%s: json", by);
    s = hk_kv_find(f, "bytes")->value;
    ok(is_of(f, "bytes", HK_META_BYTES) && s.n == sizeof blob && memcmp(s.p, blob, s.n) == 0,
       "%s: bytes", by);
    check_arrays(f, by);
    hk_close(&f);
}

static void test_writer(int fd)
{
    struct hk_error err = {0};
    struct hk_writer *w;
    struct hk_out *out;
    must(hk_writer_new(&w, NULL, &err), &err, "new");
    SET_ALL(writer, w, &err);
    ok(hk_writer_set_bool(w, "", true, &err) == HK_E_USE, "an empty key: %s", err.text);
    ok(hk_writer_set_i32_array(w, "", ints, 3, &err) == HK_E_USE, "of an array too");
    must(hk_out_fd(&out, fd, &err), &err, "out");
    must(hk_writer_begin(w, out, &err), &err, "begin");
    ok(hk_writer_set_float(w, "late", 1, &err) == HK_E_USE, "nothing once the head is written");
    must(hk_writer_finish(w, &err), &err, "finish");
    must(hk_out_commit(&out, &err), &err, "commit");
    hk_writer_free(&w);
    check_all(fd, "writer");
}

static void test_edit(void)
{
    struct image image = sample(128, 0);
    struct hk_error err = {0};
    struct hk_edit *e;
    char path[40];
    int fd = memory_file(&image);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(hk_edit_begin(&e, path, NULL, &err), &err, "edit");
    SET_ALL(edit, e, &err);
    ok(hk_edit_set_bool(e, "", true, &err) == HK_E_USE, "an empty key: %s", err.text);
    must(hk_edit_commit(&e, &err), &err, "commit");
    check_all(fd, "edit");
    close(fd);
    free(image.p);
}

int main(void)
{
    int fd = memfd_create("written", MFD_CLOEXEC);
    test_writer(fd);
    close(fd);
    test_edit();
    return tap_done();
}
