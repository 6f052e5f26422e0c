/* Weights that are kept in memory, and the limit on that; large pages change no result. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cpu/cpu.h"
#include "engine/engine.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/tap.h"

/* Bytes of this process that are locked. */
static uint64_t locked(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

static uint64_t weights(const struct hk_file *f)
{
    uint64_t size = 0;
    for (size_t i = 0; i < hk_tensor_count(f); i++)
        size += hk_tensor_data(f, hk_tensor_at(f, i)).n;
    return size;
}

static void test_lock(const char *path)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    struct rlimit limit;
    if (!ok(hk_open(&f, path, &err) == HK_OK, "a model %s", err.text))
        return;
    uint64_t size = weights(f), before = locked();
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (hke_lock_weights(f, &err) == HK_OK)
        ok(locked() - before >= size, "%" PRIu64 " bytes of weights are locked", size);
    else if (limit.rlim_cur < size + before)
        tap_skip("locked weights", "SKIPPED: the limit on locked memory is too low");
    else
        ok(false, "weights can be locked: %s", err.text);
    hk_close(&f);
    ok(locked() == before, "until the file is closed");
}

/* In a process without privileges, which no limit binds. */
static int refused(const char *path)
{
    struct hk_error err = {0};
    struct hk_file *f = NULL;
    const struct rlimit little = {8192, 8192};
    if (hk_open(&f, path, &err) != HK_OK || setrlimit(RLIMIT_MEMLOCK, &little) != 0)
        return 1;
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    enum hk_status st = hke_lock_weights(f, &err);
    bool good = st == HK_E_IO && err.sys != 0 && strstr(err.text, "RLIMIT_MEMLOCK is 8 KiB");
    hk_close(&f);
    return good ? 0 : 2;
}

static void test_limit(const char *path)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(refused(path));
    waitpid(pid, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a limit that is too low is named");
}

static void test_alloc(void)
{
    static const size_t sizes[] = {HKK_ALIGN, 4 << 20, (4 << 20) + HKK_ALIGN};
    bool good = true;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i / 2], align = i % 2 && size > HKK_ALIGN ? 2 << 20 : HKK_ALIGN;
        char *p = hke_alloc_pages(size, i % 2);
        good = good && p != NULL && (uintptr_t)p % align == 0;
        if (p != NULL)
            memset(p, 1, size);
        free(p);
    }
    ok(good, "memory is aligned, for large pages to those");
}

static bool evaluate(const struct hke_model *m, bool huge, float *out)
{
    static const uint32_t id[] = {1, 403, 407, 261, 378};
    const struct hke_context_options opt = {.threads = 2, .huge_pages = huge};
    struct hke_context *c;
    if (hke_context_new(&c, m, &opt, NULL) != HK_OK)
        return false;
    bool good = hke_eval(c, id, sizeof id / sizeof *id, NULL, NULL, NULL) == HK_OK;
    memcpy(out, hke_logits(c), hke_model_params(m)->vocab * sizeof *out);
    hke_context_free(&c);
    return good;
}

static void test_huge(const char *path)
{
    struct hk_file *f = NULL;
    struct hke_model *m = NULL;
    float logits[2][512];
    bool good = hk_open(&f, path, NULL) == HK_OK && hke_model_new(&m, f, NULL) == HK_OK &&
                evaluate(m, false, logits[0]) && evaluate(m, true, logits[1]);
    ok(good && memcmp(logits[0], logits[1], sizeof logits[0]) == 0, "large pages, the same logits");
    hke_model_free(&m);
    hk_close(&f);
}

int main(void)
{
    const char *own = getenv("HK_FIXTURES");
    char path[4096];
    snprintf(path, sizeof path, "%s/models/stories260K-f16.gguf",
             own != NULL ? own : "tests/fixtures");
#ifdef SANITIZED
    tap_skip("locked weights", "sanitizers lock nothing");
    (void)test_lock, (void)test_limit;
#else
    test_lock(path);
    test_limit(path);
#endif
    test_alloc();
    test_huge(path);
    return tap_done();
}
