/* hk_save(): stopped at any time, or failing at the last name, it leaves what was there and nothing
 * else. */
#include <dirent.h>
#include <errno.h>

#include "tests/lib/sample.h"

/* ---- what is in a directory ---- */

static uint64_t digest_of(const char *path, uint64_t h)
{
    uint8_t buffer[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            h = (h ^ buffer[i]) * 0x100000001b3u;
    if (fd >= 0)
        close(fd);
    return h;
}

/* A number for names and contents below DIRECTORY, whatever their order; *COUNT of them. */
static uint64_t snapshot(const char *directory, unsigned *count)
{
    uint64_t sum = 0;
    char path[512];
    DIR *d = opendir(directory);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        struct stat st;
        uint64_t h = 0xcbf29ce484222325u;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        for (const char *p = e->d_name; *p != '\0'; p++)
            h = (h ^ (uint8_t)*p) * 0x100000001b3u;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            h += snapshot(path, count);
        sum += digest_of(path, h);
        ++*count;
    }
    if (d != NULL)
        closedir(d);
    return sum;
}

static void clear(const char *directory)
{
    char path[512];
    DIR *d = opendir(directory);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        if (unlink(path) != 0) {
            clear(path);
            rmdir(path);
        }
    }
    if (d != NULL)
        closedir(d);
}

/* ---- saving ---- */

struct watch {
    unsigned left; /* reports of progress until the stop */
    volatile sig_atomic_t stop;
    uint64_t done, all;
    bool steady; /* progress goes up to one sum */
};

static void progress(void *arg, uint64_t done, uint64_t all)
{
    struct watch *w = arg;
    w->steady = w->steady && done >= w->done && (w->all == 0 || all == w->all) && done <= all;
    w->done = done;
    w->all = all;
    if (w->left > 0 && --w->left == 0)
        w->stop = SIGTERM;
}

struct kind {
    const char *name, *path;
    enum hk_format to;
    uint64_t split_size;
    unsigned files;
};

static const struct kind kinds[] = {
    {"a file", "out/m.hk", HK_FORMAT_HK, 0, 1},
    {"shards of .hk", "out/m.hk", HK_FORMAT_HK, 100000, 7},
    {"shards of GGUF", "out/m.gguf", HK_FORMAT_GGUF, 100000, 6},
    {"shards of safetensors", "out/m.safetensors", HK_FORMAT_SAFETENSORS, 100000, 7},
    {"a directory", "out/m", HK_FORMAT_HF, 0, 0},
    {"a directory of shards", "out/m/", HK_FORMAT_HF, 100000, 0},
};

static enum hk_status save(struct hk_file *f, const struct kind *k, struct watch *w, bool replace,
                           struct hk_error *err)
{
    const struct hk_convert_options opt = {.size = sizeof opt,
                                           .dense = HK_TYPE_F16,
                                           .progress = progress,
                                           .arg = w,
                                           .split_size = k->split_size,
                                           .replace = replace,
                                           .stop = &w->stop};
    w->steady = true;
    return hk_save(f, k->path, k->to, &opt, err);
}

/* Stop K after more and more reports of progress, until it comes to its end. */
static void test_stops(struct hk_file *f, const struct kind *k, bool replace)
{
    unsigned before = 0, after = 0, runs = 0;
    const uint64_t there = snapshot("out", &before);
    for (unsigned left = 1;; left += left / 2 + 1, runs++) {
        struct watch w = {.left = left};
        struct hk_error err = {0};
        enum hk_status status = save(f, k, &w, replace, &err);
        if (status == HK_OK) {
            ok(w.steady && w.done == w.all, "%s: one progress for all", k->name);
            break;
        }
        after = 0;
        if (status != HK_E_IO || err.sys != EINTR || snapshot("out", &after) != there ||
            after != before) {
            ok(false, "%s: stopped at %u: %s, %u entries", k->name, left, err.text, after);
            return;
        }
    }
    ok(runs >= 2, "%s: stopped %u times%s, nothing has changed", k->name, runs,
       replace ? " while replacing" : "");
    after = 0;
    snapshot("out", &after);
    ok(k->files == 0 || replace || after == k->files, "%s: %u files", k->name, after);
}

/* Stopped before the first byte. */
static void test_stopped(struct hk_file *f, const struct kind *k)
{
    struct watch w = {.stop = SIGINT};
    struct hk_error err = {0};
    unsigned count = 0;
    ok(save(f, k, &w, false, &err) == HK_E_IO && err.sys == EINTR, "%s: stopped at once: %s",
       k->name, err.text);
    snapshot("out", &count);
    ok(count == 0, "%s: and nothing is there", k->name);
}

/* The last of the names cannot be taken: the others are given back. */
static void test_last_name(struct hk_file *f)
{
    struct watch w = {0};
    struct hk_error err = {0};
    unsigned before = 0, after = 0;
    must(save(f, &kinds[1], &w, false, &err), &err, "save");
    ok(unlink("out/m-00002-of-00006.hk") == 0 && unlink("out/m.hk.index.json") == 0 &&
           mkdir("out/m.hk.index.json", 0700) == 0 && truncate("out/m-00003-of-00006.hk", 9) == 0,
       "a directory in the way");
    const uint64_t there = snapshot("out", &before);
    ok(save(f, &kinds[1], &w, true, &err) == HK_E_USE &&
           strstr(err.text, "m.hk.index.json") != NULL,
       "refused: %s", err.text);
    ok(snapshot("out", &after) == there && after == before,
       "new shards are gone, and old ones back");
}

/* An index is JSON, whose strings are UTF-8. */
static void test_no_text(struct hk_file *f)
{
    struct watch w = {0};
    struct hk_error err = {0};
    unsigned count = 0, before = 0;
    struct kind k = {"", "out/\xff.hk", HK_FORMAT_HK, 100000, 0};
    snapshot("out", &before);
    ok(save(f, &k, &w, false, &err) == HK_E_USE && strstr(err.text, "not UTF-8") != NULL,
       "shards of a name that is not UTF-8: %s", err.text);
    snapshot("out", &count);
    ok(count == before, "and nothing is there");
}

static void test_input(struct hk_file *f)
{
    struct watch w = {0};
    struct hk_error err = {0};
    struct hk_file *set = NULL;
    must(save(f, &kinds[1], &w, false, &err), &err, "save");
    must(hk_open_set(&set, "out/m.hk.index.json", &err), &err, "open");
    ok(link("out/m-00004-of-00006.hk", "out/other") == 0, "another name");
    const struct kind over = {"", "out/other", HK_FORMAT_GGUF, 0, 0};
    ok(save(set, &over, &w, true, &err) == HK_E_USE && strstr(err.text, "the output is the input"),
       "a shard of the input by another name");
    ok(save(set, &kinds[1], &w, true, &err) == HK_E_USE, "the input's own set");
    hk_close(&set);
}

int main(void)
{
    const char *fixtures = getenv("HK_FIXTURES");
    char model[512], directory[] = "/tmp/hk-test-save-XXXXXX";
    snprintf(model, sizeof model, "%s/models/stories260K-f16.gguf",
             fixtures != NULL ? fixtures : "tests/fixtures");
    struct hk_error err;
    struct hk_file *f;
    must(hk_open(&f, model, &err), &err, model);
    if (mkdtemp(directory) == NULL || chdir(directory) != 0 || mkdir("out", 0700) != 0) {
        puts("Bail out! no directory");
        return 2;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        test_stopped(f, &kinds[i]);
        test_stops(f, &kinds[i], false);
        test_stops(f, &kinds[i], true);
        clear("out");
    }
    test_last_name(f);
    clear("out");
    test_input(f);
    clear("out");
    test_no_text(f);
    hk_close(&f);
    ok(rmdir("out") == 0 && chdir("/") == 0 && rmdir(directory) == 0, "no litter");
    return tap_done();
}
