/* Editing metadata in place: what changes, what is refused, who waits for whom. How an edit dies is
 * test_edit_kill.c's. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/wire.h"
#include "tests/lib/sample.h"

static void save(const char *path, const struct image *image)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, image->p, image->n) != (ssize_t)image->n) {
        puts("Bail out! cannot write a file");
        exit(2);
    }
    close(fd);
}

static struct image load(const char *path)
{
    int fd = open(path, O_RDONLY);
    struct image image = read_back(fd);
    close(fd);
    return image;
}

static bool is_still(const char *path, const struct image *image)
{
    struct image now = load(path);
    bool same = now.n == image->n && memcmp(now.p, image->p, image->n) == 0;
    free(now.p);
    return same;
}

static enum hk_status set_string(const char *path, const char *key, const char *value,
                                 struct hk_error *err)
{
    struct hk_edit *e;
    enum hk_status status = hk_edit_begin(&e, path, NULL, err);
    if (status == HK_OK)
        status = hk_edit_set(e, text(key), HK_META_STRING, text(value), err);
    else
        return status;
    if (status == HK_OK)
        return hk_edit_commit(&e, err);
    hk_edit_discard(&e);
    return status;
}

static enum hk_status set_int(struct hk_edit *e, const char *key, int64_t v)
{
    uint8_t bytes[8];
    put64(bytes, (uint64_t)v);
    return hk_edit_set(e, text(key), HK_META_INT64, (struct hk_bytes){bytes, 8}, NULL);
}

static void put(struct hk_edit *e, struct hk_bytes key, unsigned type, struct hk_bytes value)
{
    struct hk_error err = {0};
    must(hk_edit_set(e, key, (enum hk_meta_type)type, value, &err), &err, "set");
}

static void drop(struct hk_edit *e, struct hk_bytes key)
{
    struct hk_error err = {0};
    must(hk_edit_delete(e, key, &err), &err, "delete");
}

static struct hk_edit *begin(const char *path)
{
    struct hk_edit *e;
    struct hk_error err = {0};
    must(hk_edit_begin(&e, path, NULL, &err), &err, "begin");
    return e;
}

static void commit(struct hk_edit *e)
{
    struct hk_error err = {0};
    must(hk_edit_commit(&e, &err), &err, "commit");
}

/* The keys of PATH in order, a blank between them. */
static const char *keys_of(const char *path, char *out)
{
    struct hk_file *f;
    struct hk_error err = {0};
    must(hk_open(&f, path, &err), &err, "open");
    out[0] = '\0';
    for (size_t i = 0; i < hk_kv_count(f); i++)
        sprintf(out + strlen(out), "%s%.*s", i > 0 ? " " : "", HK_STR(hk_kv_at(f, i)->key));
    hk_close(&f);
    return out;
}

/* What PATH has for KEY as text, "-" where it has none. */
static const char *value_of(const char *path, const char *key, char *out)
{
    struct hk_file *f;
    struct hk_error err = {0};
    must(hk_open(&f, path, &err), &err, "open");
    const struct hk_kv *kv = hk_kv_find(f, key);
    int64_t v;
    if (kv == NULL)
        strcpy(out, "-");
    else if (hk_kv_int(kv, &v, NULL) == HK_OK)
        sprintf(out, "%lld", (long long)v);
    else
        sprintf(out, "%.*s", HK_STR(kv->value));
    hk_close(&f);
    return out;
}

static void test_changes(void)
{
    char got[300];
    struct image image = sample(4096, 1);
    save("f.hk", &image);
    chmod("f.hk", 0640);
    struct hk_edit *e = begin("f.hk");
    ok(set_int(e, "new", 1) == HK_OK && set_int(e, "real", 7) == HK_OK &&
           set_int(e, "later", 2) == HK_OK && set_int(e, "new", 3) == HK_OK &&
           hk_edit_delete(e, text("yes"), NULL) == HK_OK &&
           hk_edit_delete(e, text("json"), NULL) == HK_OK &&
           hk_edit_set(e, text("json"), HK_META_JSON, text("{}"), NULL) == HK_OK,
       "changes are taken");
    ok(hk_kv_find(hk_edit_file(e), "new") == NULL && is_still("f.hk", &image),
       "and nothing is done before the end");
    commit(e);
    ok(strcmp(keys_of("f.hk", got),
              "general.architecture llama.block_count real json strings new later") == 0,
       "keys keep their order, new ones come last: %s", got);
    ok(strcmp(value_of("f.hk", "new", got), "3") == 0, "the last of two changes holds");
    ok(strcmp(value_of("f.hk", "real", got), "7") == 0, "a type can change");
    struct stat st;
    ok(stat("f.hk", &st) == 0 && (st.st_mode & 07777) == 0640 && (size_t)st.st_size == image.n,
       "permissions and size are kept");
    ok(symlink("f.hk", "link") == 0 && set_string("link", "by", "link", NULL) == HK_OK &&
           strcmp(value_of("f.hk", "by", got), "link") == 0 && lstat("link", &st) == 0 &&
           S_ISLNK(st.st_mode),
       "a link stays a link");
    free(image.p);
}

/* All keys can go, all can come back. */
static void test_empty(void)
{
    char got[300];
    struct image image = sample(128, 0);
    save("f.hk", &image);
    struct hk_edit *e = begin("f.hk");
    struct hk_file *f;
    for (size_t i = 0; i < hk_kv_count(hk_edit_file(e)); i++)
        drop(e, hk_kv_at(hk_edit_file(e), i)->key);
    commit(e);
    ok(strcmp(keys_of("f.hk", got), "") == 0, "no key is left");
    must(open_image(&image, &f, NULL), &(struct hk_error){0}, "open");
    e = begin("f.hk");
    for (size_t i = 0; i < hk_kv_count(f); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        put(e, kv->key, kv->type, kv->value);
    }
    commit(e);
    ok(is_still("f.hk", &image), "and all are back, byte for byte");
    hk_close(&f);
    free(image.p);
}

static void test_refused_changes(void)
{
    static uint8_t zeros[UINT16_MAX + 1];
    struct image image = sample(65536, 0);
    save("f.hk", &image);
    struct hk_error err = {0};
    struct hk_edit *e = begin("f.hk");
    struct hk_bytes one = {zeros, 1}, eight = {zeros, 8}, alignment = {NULL, 8};
    const struct hk_kv *kv = hk_kv_find(hk_edit_file(e), "hk.alignment");
    alignment = kv->value;
    ok(hk_edit_set(e, text(""), HK_META_BYTES, one, &err) == HK_E_USE, "an empty key");
    ok(hk_edit_set(e, (struct hk_bytes){zeros, sizeof zeros}, HK_META_BYTES, one, &err) ==
           HK_E_RANGE,
       "a key too long");
    if (SIZE_MAX > UINT32_MAX)
        ok(hk_edit_set(e, text("k"), HK_META_BYTES,
                       (struct hk_bytes){zeros, (size_t)UINT32_MAX + 1}, &err) == HK_E_RANGE,
           "a value too long");
    ok(hk_edit_set(e, text("k"), HK_META_INT64, one, &err) == HK_E_FORMAT, "an int of one byte");
    ok(hk_edit_set(e, text("k"), (enum hk_meta_type)7, one, &err) == HK_E_FORMAT,
       "a type that is none");
    ok(hk_edit_delete(e, text("k"), &err) == HK_E_MISSING && strstr(err.text, "no key k") != NULL,
       "deleting what is not there");
    ok(hk_edit_set(e, text("hk.alignment"), HK_META_INT64, eight, &err) == HK_E_UNSUPPORTED &&
           hk_edit_delete(e, text("hk.alignment"), &err) == HK_E_UNSUPPORTED &&
           hk_edit_set(e, text("split_count"), HK_META_INT64, eight, &err) == HK_E_UNSUPPORTED,
       "keys that say how the file is laid out: %s", err.text);
    ok(hk_edit_set(e, text("hk.alignment"), HK_META_INT64, alignment, &err) == HK_OK,
       "unless the value is what it is");
    commit(e);
    ok(is_still("f.hk", &image), "nothing of it is written");
    free(image.p);
}

/* The edit of file F.HK, holding IMAGE, is refused with STATUS and TEXT, and changes nothing. */
static void refuses(const struct image *image, enum hk_status status, const char *words,
                    const char *what)
{
    struct hk_error err = {0};
    static char big[70000];
    memset(big, 'x', sizeof big - 1);
    save("f.hk", image);
    enum hk_status got = set_string("f.hk", "new", big, &err);
    ok(got == status && strstr(err.text, words) != NULL && is_still("f.hk", image), "%s: %s", what,
       err.text);
}

static void test_refused_files(void)
{
    struct hk_error err = {0};
    struct image image = sample(128, 1), plain = sample(128, 0);
    refuses(&image, HK_E_RANGE, "hk-convert", "no room because of an appendix");
    put64(image.p + HK_AT_APPENDIX_OFFSET, le64(image.p + HK_AT_APPENDIX_OFFSET) + 1);
    refuses(&image, HK_E_FORMAT, "no multiple of 8", "an appendix in no place for one");
    put16(plain.p + HK_AT_SPLIT_COUNT, 3);
    put16(plain.p + HK_AT_SPLIT_INDEX, 1);
    refuses(&plain, HK_E_UNSUPPORTED, "is shard 2 of 3", "a later shard");
    put16(plain.p + HK_AT_SPLIT_COUNT, 1);
    put16(plain.p + HK_AT_SPLIT_INDEX, 0);
    struct image more = {malloc(plain.n + 200), plain.n + 200};
    memcpy(more.p, plain.p, plain.n);
    memset(more.p + plain.n, 0, 200);
    more.p[plain.n + 150] = 1;
    refuses(&more, HK_E_FORMAT, "belong to nothing", "bytes of another's torn append");
    save("f.hk.hkmeta-journal", &plain);
    refuses(&plain, HK_E_FORMAT, "journal", "a journal beside it");
    ok(symlink("f.hk", "other") == 0 && set_string("other", "k", "v", &err) == HK_E_FORMAT,
       "the same through a link");
    unlink("f.hk.hkmeta-journal");
    refuses(&(struct image){(uint8_t *)(uintptr_t) "GGUF\3\0\0\0", 8}, HK_E_UNSUPPORTED,
            "hk-convert", "a GGUF");
    refuses(&(struct image){(uint8_t *)(uintptr_t) "\2\0\0\0\0\0\0\0{}", 10}, HK_E_UNSUPPORTED,
            "hk-convert", "a safetensors file");
    ok(set_string(".", "k", "v", &err) == HK_E_UNSUPPORTED, "a directory: %s", err.text);
    ok(mkfifo("fifo", 0600) == 0 && set_string("fifo", "k", "v", &err) == HK_E_IO, "a FIFO: %s",
       err.text);
    ok(set_string("absent", "k", "v", &err) == HK_E_IO && err.sys == ENOENT, "no file");
    free(more.p);
    free(image.p);
    free(plain.p);
}

/* No room on the disk for what is staged. */
static void test_full(void)
{
    struct image image = sample(4096, 2);
    struct rlimit old, small;
    struct hk_error err = {0};
    size_t bad = 0, tried = 0;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    for (size_t room = 0; room < 500; room += 61, tried++) {
        save("f.hk", &image);
        small = (struct rlimit){image.n + room, old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        bad += set_string("f.hk", "new", "value", &err) != HK_E_IO || err.sys != EFBIG;
        setrlimit(RLIMIT_FSIZE, &old);
        bad += !is_still("f.hk", &image);
    }
    ok(bad == 0 && tried == 9, "a full disk keeps the old file, byte for byte: %s", err.text);
    free(image.p);
}

/* A program that knows no lock changes the file in the middle of an edit. */
static void test_changed(void)
{
    struct image image = sample(4096, 0);
    struct hk_error err = {0};
    save("f.hk", &image);
    struct hk_edit *e = begin("f.hk");
    set_int(e, "new", 1);
    int fd = open("f.hk", O_WRONLY | O_APPEND);
    ok(write(fd, "12345678", 8) == 8 && hk_edit_commit(&e, &err) == HK_E_IO && e == NULL,
       "a file that grows is not edited: %s", err.text);
    close(fd);
    struct image now = load("f.hk");
    ok(now.n == image.n + 8 && memcmp(now.p, image.p, image.n) == 0, "and stays as it is");
    free(now.p);
    /* Nor is anything cut, though an edit had left something before. */
    size_t padding = (8 - image.n % 8) % 8;
    image.p = realloc(image.p, image.n + padding + HK_STAGING_SIZE);
    memset(image.p + image.n, 0, padding);
    hk_staging_head(image.p + image.n + padding, image.n, false);
    image.n += padding + HK_STAGING_SIZE;
    save("f.hk", &image);
    e = begin("f.hk");
    set_int(e, "new", 1);
    fd = open("f.hk", O_WRONLY | O_APPEND);
    ok(write(fd, "12345678", 8) == 8 && hk_edit_commit(&e, &err) == HK_E_IO, "again: %s", err.text);
    close(fd);
    now = load("f.hk");
    ok(now.n == image.n + 8 && memcmp(now.p, image.p, image.n) == 0, "and nothing is cut");
    free(now.p);
    free(image.p);
}

/* The other one holds the file, and lets go after having made DEED. */
static pid_t other_holds(void (*deed)(struct hk_edit *e))
{
    int ready[2];
    char c;
    if (pipe(ready) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        struct hk_edit *e = begin("f.hk");
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        usleep(50000);
        deed(e);
        _exit(0);
    }
    bool held = read(ready[0], &c, 1) == 1;
    close(ready[0]);
    close(ready[1]);
    return held ? child : -1;
}

static void edits(struct hk_edit *e)
{
    set_int(e, "other", 5);
    commit(e);
}

static void replaces(struct hk_edit *e)
{
    rename("next.hk", "f.hk");
    hk_edit_discard(&e);
}

static void test_waits(void)
{
    char a[100], b[100];
    int status;
    struct image image = sample(4096, 0);
    save("f.hk", &image);
    pid_t child = other_holds(edits);
    ok(child > 0 && set_string("f.hk", "own", "6", NULL) == HK_OK &&
           strcmp(value_of("f.hk", "other", a), "5") == 0 &&
           strcmp(value_of("f.hk", "own", b), "6") == 0,
       "an edit waits for another and builds on it");
    waitpid(child, &status, 0);
    save("f.hk", &image);
    save("next.hk", &image);
    must(set_string("next.hk", "which", "next", NULL), &(struct hk_error){0}, "set");
    child = other_holds(replaces);
    ok(child > 0 && set_string("f.hk", "own", "7", NULL) == HK_OK &&
           strcmp(value_of("f.hk", "which", a), "next") == 0 &&
           strcmp(value_of("f.hk", "own", b), "7") == 0,
       "and edits the file that has the name by then");
    waitpid(child, &status, 0);
    free(image.p);
}

/* ---- broken files ---- */

static bool same_payloads(const struct hk_file *a, const struct hk_file *b)
{
    bool good =
        hk_tensor_count(a) == hk_tensor_count(b) && hk_record_count(a) == hk_record_count(b);
    for (size_t i = 0; good && i < hk_tensor_count(a); i++) {
        struct hk_bytes x = hk_tensor_data(a, hk_tensor_at(a, i));
        struct hk_bytes y = hk_tensor_data(b, hk_tensor_at(b, i));
        good = x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
    }
    return good;
}

/* An edit of a file with a wrong byte: it is made and nothing else differs, or refused and nothing
 * differs at all. */
static bool holds(const struct image *broken, unsigned *made)
{
    struct hk_file *before = NULL, *after = NULL;
    struct hk_error err = {0};
    char path[40];
    int fd = memory_file(broken);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool opens = open_image(broken, &before, &err) == HK_OK;
    bool edited = set_string(path, "new", "a value of some length", &err) == HK_OK;
    struct image now = read_back(fd);
    bool good = edited ? opens && open_image(&now, &after, &err) == HK_OK &&
                             hk_kv_find(after, "new") != NULL &&
                             hk_kv_count(after) == hk_kv_count(before) + 1 &&
                             same_payloads(before, after)
                       : now.n == broken->n && memcmp(now.p, broken->p, now.n) == 0;
    *made += edited;
    hk_close(&before);
    hk_close(&after);
    free(now.p);
    close(fd);
    return good;
}

static void test_broken(uint32_t alignment, unsigned records)
{
    static const uint8_t masks[] = {0x01, 0x08, 0x10, 0x80, 0xff};
    struct image image = sample(alignment, records);
    unsigned bad = 0, made = 0, tried = 0;
    uint64_t head = le64(image.p + HK_AT_TOC_OFFSET) + le64(image.p + HK_AT_TOC_SIZE);
    for (uint64_t at = 0; at < head; at++)
        for (size_t m = 0; m < sizeof masks; m++, tried++) {
            image.p[at] ^= masks[m];
            if (!holds(&image, &made) && ++bad > 0)
                printf("# byte %llu ^ 0x%02x\n", (unsigned long long)at, masks[m]);
            image.p[at] ^= masks[m];
        }
    ok(bad == 0 && made > 0 && made < tried,
       "alignment %u, %u records, with a wrong byte: %u edits are made, %u refused", alignment,
       records, made, tried - made);
    free(image.p);
}

/* ---- hk.gguf.types ---- */

struct row {
    const char *what, *before; /* recorded types */
    int64_t value;             /* of key "n", which is OLD before */
    int64_t old;
    const char *after; /* "-": the key is gone */
};

static void run_row(const struct row *r)
{
    char got[300];
    struct image image = sample(4096, 0);
    struct hk_edit *e;
    save("f.hk", &image);
    e = begin("f.hk");
    set_int(e, "n", r->old);
    set_int(e, "m", 1);
    if (r->before != NULL)
        put(e, text("hk.gguf.types"), HK_META_JSON, text(r->before));
    commit(e);
    e = begin("f.hk");
    set_int(e, "n", r->value);
    commit(e);
    ok(strcmp(value_of("f.hk", "hk.gguf.types", got), r->after) == 0, "%s: %s", r->what, got);
    free(image.p);
}

static void test_types(void)
{
    static const struct row rows[] = {
        {"fits its type", "{\"n\":\"u16\"}", 65535, 5, "{\"n\":\"u16\"}"},
        {"does not fit", "{\"n\":\"u16\",\"m\":\"u8\"}", 65536, 5, "{\"m\":\"u8\"}"},
        {"the last one goes", "{\"n\":\"u16\"}", -1, 5, "-"},
        {"a usual type stays another's", NULL, 5, -5, "{\"n\":\"i32\"}"},
        {"nothing to record", NULL, 6, 5, "-"},
        {"the text is kept", "{ \"n\": \"u64\" }", 6, 5, "{ \"n\": \"u64\" }"},
        {"no value changes", "{\"n\":\"u32\"}", 5, 5, "{\"n\":\"u32\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_row(&rows[i]);
    char got[300];
    struct hk_error err = {0};
    must(set_string("f.hk", "n", "text", &err), &err, "set");
    ok(strcmp(value_of("f.hk", "hk.gguf.types", got), "-") == 0, "a key of another type has none");
    struct hk_edit *e = begin("f.hk");
    set_int(e, "n", 300);
    put(e, text("hk.gguf.types"), HK_META_JSON, text("{\"n\":\"u8\"}"));
    commit(e);
    ok(strcmp(value_of("f.hk", "hk.gguf.types", got), "{\"n\":\"u8\"}") == 0,
       "whoever sets the record too is taken at their word");
    e = begin("f.hk");
    drop(e, text("n"));
    commit(e);
    ok(strcmp(value_of("f.hk", "hk.gguf.types", got), "-") == 0, "a key that goes has none");
    must(set_string("f.hk", "hk.gguf.types", "nonsense", &err), &err, "set");
    ok(set_string("f.hk", "k", "v", &err) == HK_E_FORMAT &&
           strstr(err.text, "hk.gguf.types") != NULL,
       "a record that is none is named");
}

int main(void)
{
    static const char *const names[] = {"f.hk", "link", "other", "fifo"};
    char directory[] = "/tmp/hk-test-edit-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        puts("Bail out! no directory");
        return 2;
    }
    test_changes();
    test_empty();
    test_refused_changes();
    test_refused_files();
    test_full();
    test_changed();
    test_waits();
    test_types();
    test_broken(4096, 0);
    test_broken(4096, 2);
    test_broken(128, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    ok(rmdir(directory) == 0, "nothing else was left in the directory");
    return tap_done();
}
