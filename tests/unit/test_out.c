/* Output appears whole or not at all: names, links, permissions, refusals, full disks. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/lib/sample.h"

static unsigned entries(const char *directory)
{
    unsigned n = 0;
    DIR *d = opendir(directory);
    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static bool holds(const char *path, const char *want)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(got, 1, sizeof got - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    return n == strlen(want) && memcmp(got, want, n) == 0;
}

static enum hk_status put(const char *path, const char *data, unsigned options, bool commit,
                          struct hk_error *err)
{
    struct hk_out *o;
    enum hk_status status = hk_out_create(&o, path, options, err);
    if (status != HK_OK)
        return status;
    status = hk_out_write(o, data, strlen(data), err);
    if (status == HK_OK && commit)
        return hk_out_commit(&o, err);
    hk_out_discard(&o);
    return status;
}

static void test_names(void)
{
    struct hk_error err = {0};
    ok(put("new", "one", 0, false, &err) == HK_OK && entries(".") == 0,
       "discarded: nothing is left");
    ok(put("new", "one", 0, true, &err) == HK_OK && holds("new", "one"), "committed: it is there");
    ok(put("new", "two", 0, true, &err) == HK_E_USE && holds("new", "one"),
       "an existing file is not replaced unless asked");
    chmod("new", 0640);
    ok(put("new", "two", HK_OUT_REPLACE, true, &err) == HK_OK && holds("new", "two"),
       "replaced when asked");
    struct stat st;
    ok(stat("new", &st) == 0 && (st.st_mode & 07777) == 0640, "permissions are kept");
    ok(symlink("new", "link") == 0 && put("link", "three", HK_OUT_REPLACE, true, &err) == HK_OK &&
           holds("new", "three") && lstat("link", &st) == 0 && S_ISLNK(st.st_mode),
       "a link stays a link to the new file");
    ok(symlink("nowhere", "dangling") == 0 && put("dangling", "x", 0, true, &err) == HK_E_USE,
       "a link to nothing is refused");
    ok(put("no/such/place", "x", 0, true, &err) == HK_E_IO && err.sys == ENOENT,
       "a missing directory is an error with errno");
    ok(entries(".") == 3, "no litter");
}

/* The file appears while we write: the one who came first is kept. */
static void test_race(void)
{
    struct hk_error err = {0};
    struct hk_out *o;
    must(hk_out_create(&o, "raced", 0, &err), &err, "create");
    must(hk_out_write(o, "late", 4, &err), &err, "write");
    FILE *f = fopen("raced", "w");
    fputs("early", f);
    fclose(f);
    ok(hk_out_commit(&o, &err) == HK_E_USE && o == NULL && holds("raced", "early"),
       "a file that appeared meanwhile is kept");
}

static void test_killed(void)
{
    unsigned before = entries(".");
    pid_t child = fork();
    if (child == 0) {
        struct hk_out *o;
        if (hk_out_create(&o, "killed", 0, NULL) == HK_OK &&
            hk_out_write(o, "data", 4, NULL) == HK_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ok(WIFSIGNALED(status) && entries(".") == before, "a kill leaves nothing");
}

static void test_full(void)
{
    struct hk_error err = {0};
    struct rlimit old, small = {4096, 4096};
    char block[8192] = {0};
    struct hk_out *o;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    must(hk_out_create(&o, "big", 0, &err), &err, "create");
    setrlimit(RLIMIT_FSIZE, &small);
    must(hk_out_write(o, block, sizeof block, &err), &err, "write into the buffer");
    ok(hk_out_commit(&o, &err) == HK_E_IO && err.sys == EFBIG && access("big", F_OK) != 0,
       "a write that fails at the end is reported and leaves nothing");
    setrlimit(RLIMIT_FSIZE, &old);
    ok(put("/dev/full", "x", 0, true, &err) == HK_E_IO && err.sys == ENOSPC,
       "a full device is reported");
}

static void test_copy(void)
{
    struct hk_error err = {0};
    struct hk_out *o;
    size_t n = 3000001;
    struct image image = {malloc(n), n};
    for (size_t i = 0; i < n; i++)
        image.p[i] = (uint8_t)(i * 31 >> 3);
    int fd = memory_file(&image);
    must(hk_out_create(&o, "copy", 0, &err), &err, "create");
    must(hk_out_write(o, "head", 4, &err), &err, "write");
    must(hk_out_copy(o, fd, 1000, n - 1000, &err), &err, "copy");
    must(hk_out_write(o, "tail", 4, &err), &err, "write");
    ok(hk_out_offset(o) == n - 1000 + 8, "the offset counts copied bytes");
    must(hk_out_commit(&o, &err), &err, "commit");
    int got = open("copy", O_RDONLY);
    struct image back = read_back(got);
    ok(back.n == n - 992 && memcmp(back.p, "head", 4) == 0 &&
           memcmp(back.p + 4, image.p + 1000, n - 1000) == 0 &&
           memcmp(back.p + back.n - 4, "tail", 4) == 0,
       "copied bytes stand between written ones");
    must(hk_out_create(&o, "short", 0, &err), &err, "create");
    ok(hk_out_copy(o, fd, n - 10, 20, &err) == HK_E_RANGE,
       "an input that is too short is an error");
    hk_out_discard(&o);
    close(got);
    close(fd);
    free(back.p);
    free(image.p);
}

/* Writes of every size around the buffer's keep their order. */
static void test_order(void)
{
    static const size_t sizes[] = {3, 600000,  5,      524288, 524289, 1048576,
                                   1, 2000000, 400000, 700000, 9};
    struct hk_error err = {0};
    struct hk_out *o;
    size_t total = 0, at = 0;
    bool good = true;
    char *block = malloc(2000000);
    int fd = memfd_create("order", 0);
    must(hk_out_fd(&o, fd, &err), &err, "out");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(block, (int)i, sizes[i]);
        must(hk_out_write(o, block, sizes[i], &err), &err, "write");
        total += sizes[i];
    }
    must(hk_out_commit(&o, &err), &err, "commit");
    struct image back = read_back(fd);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizes[i]; j++, at++)
            good = good && at < back.n && back.p[at] == i;
    ok(back.n == total && good, "writes of every size keep their order");
    close(fd);
    free(back.p);
    free(block);
}

/* What was written to memory, or to a descriptor of the caller's, is opened in place of a commit.
 */
static void test_open(void)
{
    struct image image = sample(128, 1);
    struct hk_error err = {0};
    const int fds[] = {-1, memfd_create("written", MFD_CLOEXEC)};
    for (size_t i = 0; i < 2; i++) {
        struct hk_out *o = NULL;
        struct hk_file *f = NULL;
        must(fds[i] < 0 ? hk_out_memory(&o, &err) : hk_out_fd(&o, fds[i], &err), &err, "out");
        must(hk_out_write(o, image.p, image.n, &err), &err, "write");
        ok(hk_out_open(&o, &f, &err) == HK_OK && o == NULL && hk_file_size(f) == image.n &&
               hk_record_count(f) == 1,
           "what was written to %s opens %s", fds[i] < 0 ? "memory" : "a descriptor", err.text);
        hk_close(&f);
        must(hk_out_memory(&o, &err), &err, "out");
        ok(hk_out_open(&o, &f, &err) != HK_OK && o == NULL && f == NULL, "nothing does not: %s",
           err.text);
    }
    close(fds[1]);
    free(image.p);
}

int main(void)
{
    char directory[] = "/tmp/hk-test-out-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        puts("Bail out! no directory");
        return 2;
    }
    test_names();
    test_race();
    test_killed();
    test_full();
    test_copy();
    test_order();
    test_open();
    static const char *const names[] = {"new", "link", "dangling", "raced", "copy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    ok(rmdir(directory) == 0, "nothing else was left in the directory");
    return tap_done();
}
