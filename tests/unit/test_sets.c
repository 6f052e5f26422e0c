/* hk_open_set(): shards, indexes and directories lead to the whole; whatever disagrees is refused.
 */
#include <errno.h>

#include "tests/lib/sample.h"

#define A "m-00001-of-00003.hk"
#define B "m-00002-of-00003.hk"
#define C "m-00003-of-00003.hk"
#define INDEX "m.hk.index.json"
#define MAP(a, b, c) "\"weight_map\":{\"a\":\"" a "\",\"b\":\"" b "\",\"c\":\"" c "\"}"
#define TOTALS(size, tensors, count)                                                               \
    "\"metadata\":{\"total_size\":" size ",\"total_tensors\":" tensors ",\"split_count\":" count   \
    ",\"format\":\"hk\",\"version\":\"1.0.0\"},"

struct shard {
    const char *path;
    unsigned index, count;
    const char *tensors; /* a letter each */
    const char *key, *value;
    int64_t number; /* of KEY where VALUE is NULL */
};

static void write_shard(const struct shard *s)
{
    struct hk_error err;
    struct hk_writer *w;
    struct hk_out *o;
    struct hk_writer_options opt = {
        .size = sizeof opt, .split_index = (uint16_t)s->index, .split_count = (uint16_t)s->count};
    must(hk_writer_new(&w, &opt, &err), &err, "new");
    must(hk_writer_set_string(w, "general.architecture", "llama", &err), &err, "set");
    if (s->key != NULL && s->value != NULL)
        must(hk_writer_set_string(w, s->key, s->value, &err), &err, "set");
    else if (s->key != NULL)
        must(hk_writer_set_int(w, s->key, s->number, &err), &err, "set");
    for (const char *t = s->tensors; *t != '\0'; t++)
        must(hk_writer_add(w,
                           &(struct hk_tensor){.name = {(const uint8_t *)t, 1},
                                               .type = HK_TYPE_F32,
                                               .ndim = 1,
                                               .shape = {4},
                                               .data_size = 16},
                           0, &err),
             &err, "add");
    must(hk_out_create(&o, s->path, HK_OUT_REPLACE, &err), &err, "out");
    must(hk_writer_begin(w, o, &err), &err, "begin");
    for (const char *t = s->tensors; *t != '\0'; t++)
        must(hk_writer_put(w, (const uint8_t[16]){(uint8_t)*t}, 16, &err), &err, "put");
    must(hk_writer_finish(w, &err), &err, "finish");
    must(hk_out_commit(&o, &err), &err, "commit");
    hk_writer_free(&w);
}

static void write_text(const char *path, const char *s)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(s, f) < 0 || fclose(f) != 0) {
        puts("Bail out! cannot write");
        exit(2);
    }
}

static void write_set(void)
{
    write_shard(&(struct shard){A, 0, 3, "a", 0, 0, 0});
    write_shard(&(struct shard){B, 1, 3, "b", 0, 0, 0});
    write_shard(&(struct shard){C, 2, 3, "c", 0, 0, 0});
}

static void remove_files(void)
{
    static const char *const names[] = {A, B, C, INDEX, "x.hk", "m.index.json", "o.hk.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
}

/* PATH leads to tensors a, b, c in this order from three files. */
static void expect_whole(const char *path, const char *what)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    enum hk_status status = hk_open_set(&f, path, &err);
    if (!ok(status == HK_OK, "%s: opens %s%s", what, path, err.text))
        return;
    bool good = hk_file_parts(f) == 3 && hk_tensor_count(f) == 3 && hk_kv_count(f) >= 1;
    for (size_t i = 0; good && i < 3; i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        good = t->part == i && t->name.p[0] == 'a' + i && hk_tensor_data(f, t).p[0] == 'a' + i &&
               hk_file_part_name(f, i) != NULL;
    }
    ok(good && hk_file_part_name(f, 3) == NULL, "%s: parts, tensors and names in order", what);
    hk_close(&f);
}

static void expect_refusal(const char *path, enum hk_status status, const char *part,
                           const char *what)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    enum hk_status got = hk_open_set(&f, path, &err);
    ok(got == status && f == NULL && strstr(err.text, part) != NULL && err.status == status,
       "%s: %s: %s", what, hk_status_name(got), err.text);
    ok(hk_open_set(&f, path, NULL) == got && f == NULL, "%s: the same without an error", what);
}

/* ---- what is whole ---- */

static void test_whole(void)
{
    static const char *const paths[] = {A, B, C, ("./" B)};
    struct hk_error err;
    struct hk_file *f;
    write_set();
    for (size_t i = 0; i < 4; i++)
        expect_whole(paths[i], "no index");
    expect_whole(".", "a directory of a set");
    write_text(INDEX, "{" TOTALS("48", "3", "3.0") MAP(A, B, C) "}");
    for (size_t i = 0; i < 4; i++)
        expect_whole(paths[i], "an index");
    expect_whole(INDEX, "by the index");
    expect_whole("./", "a directory of a set with an index");
    must(hk_open(&f, B, &err), &err, "open one shard");
    ok(hk_tensor_count(f) == 1 && hk_file_part_name(f, 0) == NULL, "hk_open() opens just the one");
    hk_close(&f);
    remove_files();
}

static void test_keys(void)
{
    write_set();
    write_shard(&(struct shard){B, 1, 3, "b", "split_index", NULL, 1});
    expect_whole(A, "a key of one shard only");
    write_shard(&(struct shard){A, 0, 3, "a", "total_tensors", "3", 0});
    expect_whole(A, "total_tensors as text");
    write_shard(&(struct shard){A, 0, 3, "a", "index_file", "o.hk.index.json", 0});
    write_text("o.hk.index.json", "{" MAP(A, B, C) "}");
    expect_whole(A, "an index that the key names");
    expect_whole(".", "a directory with an index of another name");
    write_text("o.hk.index.json", "{" MAP(A, C, B) "}");
    expect_refusal(A, HK_E_FORMAT, "tensor b is in " B ", not in " C " as o.hk.index.json says",
                   "that index is looked at");
    remove_files();
}

/* What a later shard says beyond its tensors does not count. */
static void test_metadata(void)
{
    write_set();
    write_shard(&(struct shard){B, 1, 3, "b", "k", "v", 0});
    write_shard(&(struct shard){C, 2, 3, "c", "general.architecture", "qwen2", 0});
    expect_whole(C, "keys of later shards");
    struct hk_error err;
    struct hk_file *f;
    struct hk_bytes value;
    must(hk_open_set(&f, B, &err), &err, "open");
    ok(hk_kv_find(f, "k") == NULL &&
           hk_kv_string(hk_kv_find(f, "general.architecture"), &value, NULL) == HK_OK &&
           hk_bytes_are(value, "llama"),
       "the metadata is that of the first");
    hk_close(&f);
    remove_files();
}

/* Numbers in names that an index lists say nothing. */
static void test_misnumbered(void)
{
    static const char *const names[] = {"m-00000-of-00003.hk", "m-00001-of-00003.hk",
                                        "m-00002-of-00003.hk"};
    write_shard(&(struct shard){"m-00000-of-00003.hk", 0, 3, "a", 0, 0, 0});
    write_shard(&(struct shard){"m-00001-of-00003.hk", 1, 3, "b", 0, 0, 0});
    write_shard(&(struct shard){"m-00002-of-00003.hk", 2, 3, "c", 0, 0, 0});
    expect_refusal(names[0], HK_E_FORMAT, "no index names it", "numbered from 0, no index");
    write_text(INDEX, "{" MAP("m-00000-of-00003.hk", A, B) "}");
    for (size_t i = 0; i < 3; i++)
        expect_whole(names[i], "numbered from 0");
    expect_whole(INDEX, "numbered from 0, the index");
    expect_whole(".", "numbered from 0, the directory");
    unlink(names[0]);
    remove_files();
}

/* Names that say nothing: the shards themselves tell their order. */
static void test_unnumbered(void)
{
    write_shard(&(struct shard){"x.hk", 2, 3, "c", 0, 0, 0});
    write_shard(&(struct shard){A, 0, 3, "a", 0, 0, 0});
    write_shard(&(struct shard){B, 1, 3, "b", 0, 0, 0});
    ok(rename(A, "z.hk") == 0 && rename(B, "y.hk") == 0, "rename");
    write_text(INDEX, "{" MAP("z.hk", "y.hk", "x.hk") "}");
    expect_whole(INDEX, "files with plain names");
    expect_whole(".", "a directory of them");
    expect_whole("x.hk", "a shard with a plain name, by the index that has it");
    write_text("a.hk.index.json", "{");
    write_text("b.hk.index.json", "{\"weight_map\":{\"x\":\"w.hk\"}}");
    expect_whole("x.hk", "the same beside indexes of others");
    unlink("a.hk.index.json");
    unlink("b.hk.index.json");
    unlink(INDEX);
    expect_refusal("x.hk", HK_E_FORMAT,
                   "no index names it, so its name should end in -00003-of-00003",
                   "a shard with a plain name and no index");
    write_text(INDEX, "{" MAP("z.hk", "y.hk", "x.hk") "}");
    write_shard(&(struct shard){"y.hk", 2, 3, "b", 0, 0, 0});
    expect_refusal(INDEX, HK_E_FORMAT, "is shard 3, as x.hk is", "two files for one place");
    unlink("z.hk");
    unlink("y.hk");
    remove_files();
}

/* ---- what is refused ---- */

struct row {
    const char *what;
    struct shard shard; /* written over one of the base; path NULL: none */
    const char *index;  /* NULL: none */
    const char *path;
    enum hk_status status;
    const char *text;
};

#define NO_SHARD                                                                                   \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0                                                                        \
    }
#define GOOD_MAP MAP(A, B, C)

/* clang-format off */
static const struct row rows[] = {
    {"a shard that says it is another", {B, 2, 3, "b", 0, 0, 0}, NULL, A, HK_E_FORMAT, B ": says that it is shard 3 of 3"},
    {"a shard of another count", {B, 1, 4, "b", 0, 0, 0}, NULL, A, HK_E_FORMAT, B ": says that it is shard 2 of 4"},
    {"the same by that shard", {B, 1, 4, "b", 0, 0, 0}, NULL, B, HK_E_FORMAT, "its name should end in -00002-of-00004"},
    {"a whole file among shards", {B, 0, 1, "b", 0, 0, 0}, NULL, A, HK_E_FORMAT, B ": says that it is shard 1 of 1"},
    {"a tensor in two shards", {C, 2, 3, "a", 0, 0, 0}, NULL, A, HK_E_FORMAT, "a occurs again"},
    {"header and keys disagree", {B, 1, 3, "b", "split_count", "4", 0}, NULL, B, HK_E_FORMAT, "is shard 2 of 3 in its header, 1 of 4 in its keys"},
    {"split_count is no number", {B, 1, 3, "b", "split_count", "3x", 0}, NULL, A, HK_E_FORMAT, "key split_count is no number"},
    {"split_count is negative", {B, 1, 3, "b", "split_count", NULL, -1}, NULL, A, HK_E_FORMAT, "split_count -1"},
    {"total_tensors", {A, 0, 3, "a", "total_tensors", NULL, 4}, NULL, A, HK_E_FORMAT, "key total_tensors says 4 tensors"},
    {"total_tensors as text", {A, 0, 3, "a", "total_tensors", "", 0}, NULL, A, HK_E_FORMAT, "key total_tensors is no number"},
    {"no map", NO_SHARD, "{\"metadata\":{}}", A, HK_E_FORMAT, INDEX ": has no object \"weight_map\""},
    {"an empty map", NO_SHARD, "{\"weight_map\":{}}", A, HK_E_FORMAT, INDEX ": names no file"},
    {"no JSON", NO_SHARD, "{\"weight_map\":", INDEX, HK_E_FORMAT, INDEX ": is no valid JSON"},
    {"an empty index", NO_SHARD, "", INDEX, HK_E_FORMAT, INDEX ": is no valid JSON"},
    {"a list", NO_SHARD, "[]", INDEX, HK_E_FORMAT, "has no object"},
    {"a key twice", NO_SHARD, "{\"weight_map\":{\"a\":\"" A "\",\"\\u0061\":\"" B "\"}}", INDEX, HK_E_FORMAT, "duplicate object key"},
    {"a file that is no text", NO_SHARD, "{\"weight_map\":{\"a\":1}}", INDEX, HK_E_FORMAT, "the file of tensor a is no text"},
    {"a file elsewhere", NO_SHARD, "{" MAP("../" A, B, C) "}", INDEX, HK_E_FORMAT, "'../" A "' is no name of a file"},
    {"an absolute file", NO_SHARD, "{" MAP("/etc/passwd", B, C) "}", INDEX, HK_E_FORMAT, "'/etc/passwd' is no name of a file"},
    {"the parent", NO_SHARD, "{" MAP("..", B, C) "}", INDEX, HK_E_FORMAT, "'..' is no name of a file"},
    {"no name", NO_SHARD, "{" MAP("", B, C) "}", INDEX, HK_E_FORMAT, "'' is no name of a file"},
    {"a name with NUL", NO_SHARD, "{" MAP(A "\\u0000", B, C) "}", INDEX, HK_E_FORMAT, "is no valid JSON"},
    {"an unknown file", NO_SHARD, "{" MAP("x", "x", "x") "}", INDEX, HK_E_MISSING, "1 of 1 files are missing: x"},
    {"two sets", NO_SHARD, "{" MAP(A, B, "m-00003-of-00004.hk") "}", A, HK_E_MISSING, "1 of 3 files are missing: m-00003-of-00004.hk"},
    {"a shard and another file", NO_SHARD, "{" MAP(A, B, "x.hk") "}", A, HK_E_MISSING, "1 of 3 files are missing: x.hk"},
    {"another set of names", NO_SHARD, "{" MAP("n-00001-of-00001.hk", "n-00001-of-00001.hk", "n-00001-of-00001.hk") "}", A, HK_E_FORMAT, "is a shard, but not in " INDEX},
    {"two tensors swapped", NO_SHARD, "{" MAP(B, A, C) "}", A, HK_E_FORMAT, "tensor a is in " A ", not in " B " as " INDEX " says"},
    {"a tensor too few", NO_SHARD, "{\"weight_map\":{\"a\":\"" A "\",\"b\":\"" B "\"}}", A, HK_E_FORMAT, A ": says that it is shard 1 of 3, and " INDEX " names 2 files"},
    {"a tensor too few of a shard", {C, 2, 3, "cd", 0, 0, 0}, "{" GOOD_MAP "}", A, HK_E_FORMAT, "tensor d is in " C ", but not in " INDEX},
    {"a tensor too many", {C, 2, 3, "", 0, 0, 0}, "{" GOOD_MAP "}", A, HK_E_FORMAT, "tensor c is not in " C ", though " INDEX " says so"},
    {"total_size", NO_SHARD, "{" TOTALS("47", "3", "3") GOOD_MAP "}", A, HK_E_FORMAT, INDEX ": total_size is not 48"},
    {"total_size as text", NO_SHARD, "{" TOTALS("\"48\"", "3", "3") GOOD_MAP "}", A, HK_E_FORMAT, INDEX ": total_size is not 48"},
    {"total_tensors of the index", NO_SHARD, "{" TOTALS("48", "4", "3") GOOD_MAP "}", A, HK_E_FORMAT, INDEX ": total_tensors is not 3"},
    {"split_count of the index", NO_SHARD, "{" TOTALS("48", "3", "2") GOOD_MAP "}", A, HK_E_FORMAT, INDEX ": split_count is not 3"},
};
/* clang-format on */

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_set();
        if (rows[i].shard.path != NULL)
            write_shard(&rows[i].shard);
        if (rows[i].index != NULL)
            write_text(INDEX, rows[i].index);
        expect_refusal(rows[i].path, rows[i].status, rows[i].text, rows[i].what);
        remove_files();
    }
}

static void test_missing(void)
{
    write_set();
    unlink(A);
    unlink(B);
    expect_refusal(C, HK_E_MISSING, "2 of 3 files are missing: " A ", " B, "no index");
    expect_refusal(".", HK_E_MISSING, C ": 2 of 3 files are missing", "a directory, no index");
    write_text(INDEX, "{" MAP(A, B, C) "}");
    expect_refusal(INDEX, HK_E_MISSING, "2 of 3 files are missing: " A ", " B, "an index");
    expect_refusal(".", HK_E_MISSING, INDEX ": 2 of 3 files are missing", "a directory");
    ok(mkfifo(A, 0600) == 0 && mkdir(B, 0700) == 0, "a FIFO and a directory");
    expect_refusal(INDEX, HK_E_IO, A ": not a regular file but a FIFO", "a FIFO");
    ok(unlink(A) == 0 && rmdir(B) == 0, "gone");
    remove_files();
}

static void test_directories(void)
{
    expect_refusal(".", HK_E_IO, "a directory without a model", "an empty directory");
    write_shard(&(struct shard){".hidden.hk", 0, 1, "a", 0, 0, 0});
    expect_refusal(".", HK_E_IO, "a directory without a model", "only a hidden file");
    write_set();
    write_shard(&(struct shard){"x.hk", 0, 1, "x", 0, 0, 0});
    expect_refusal(".", HK_E_FORMAT, "2 models, name one of them: " A ", x.hk", "a set and a file");
    remove_files();
    write_shard(&(struct shard){"x.hk", 0, 1, "x", 0, 0, 0});
    struct hk_error err = {0};
    struct hk_file *f;
    must(hk_open_set(&f, ".", &err), &err, "open a directory of one file");
    ok(hk_file_parts(f) == 1 && strcmp(hk_file_part_name(f, 0), "x.hk") == 0, "its name is told");
    hk_close(&f);
    write_text("x.hk", "<html>");
    expect_refusal(".", HK_E_FORMAT, "x.hk: ", "a directory with something else");
    unlink(".hidden.hk");
    remove_files();
    write_shard(&(struct shard){"x.hk", 0, 1, "x", 0, 0, 0});
    write_text(INDEX, "{\"weight_map\":{\"x\":\"x.hk\"}}");
    write_text("o.hk.index.json", "{\"weight_map\":{\"y\":\"y.hk\"}}");
    expect_refusal(".", HK_E_FORMAT, "2 models, name one of them: " INDEX ", o.hk.index.json",
                   "two indexes");
    remove_files();
}

/* ---- many ---- */

static unsigned descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_many(void)
{
    enum { MANY = 1000 };
    char path[64];
    for (unsigned i = 0; i < MANY; i++) {
        uint8_t name[8];
        struct hk_error err;
        struct hk_writer *w;
        struct hk_out *o;
        struct hk_tensor t = {.name = {name, 5}, .type = HK_TYPE_INT8, .ndim = 1, .shape = {0}};
        snprintf(path, sizeof path, "m-%05u-of-%05u.hk", i + 1, MANY);
        snprintf((char *)name, sizeof name, "t%04u", i);
        must(hk_writer_new(&w,
                           &(struct hk_writer_options){.size = sizeof(struct hk_writer_options),
                                                       .split_index = (uint16_t)i,
                                                       .split_count = MANY},
                           &err),
             &err, "new");
        must(hk_writer_add(w, &t, 0, &err), &err, "add");
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        must(hk_out_fd(&o, fd, &err), &err, "out");
        must(hk_writer_begin(w, o, &err), &err, "begin");
        must(hk_out_commit(&o, &err), &err, "commit");
        hk_writer_free(&w);
        close(fd);
    }
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    unsigned before = descriptors();
    must(hk_open_set(&f, "m-00500-of-01000.hk", &err), &err, "open a thousand shards");
    ok(hk_file_parts(f) == MANY && hk_tensor_count(f) == MANY && descriptors() == before + 1,
       "a thousand shards, and only the descriptor of the first is kept");
    hk_close(&f);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "m-%05u-of-%05u.hk", i + 1, MANY);
        unlink(path);
    }
}

int main(void)
{
    char directory[] = "/tmp/hk-test-sets-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        puts("Bail out! no directory");
        return 2;
    }
    test_whole();
    test_keys();
    test_metadata();
    test_misnumbered();
    test_unnumbered();
    test_rows();
    test_missing();
    test_directories();
    test_many();
    ok(rmdir(directory) == 0, "no litter");
    return tap_done();
}
