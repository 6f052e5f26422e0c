/* Once warm, a pass over tokens allocates nothing and does not call the system: with one thread
 * nothing at all, with several only what waiting takes. The linker puts the counters below in the
 * place of malloc and its kin; what calls the system is asked for by the kernel's own filter. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/tap.h"

enum { PROMPT = 24, STEPS = 8, VOCAB = 512 };
enum { GOOD = 10, ALLOCATED, FAILED, NO_FILTER }; /* statuses of a child */

/* ---- allocations ---- */

static atomic_uint allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(align, size);
}

/* ---- system calls ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(call)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on anything but the end of the process kills it; WAITING allows what a barrier of
 * several threads calls too, the clock included, which is a call only on some machines. */
static bool forbid_calls(bool waiting)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        ALLOW(__NR_exit_group),
        ALLOW(waiting ? __NR_futex : __NR_exit_group),
        ALLOW(waiting ? __NR_sched_yield : __NR_exit_group),
        ALLOW(waiting ? __NR_clock_gettime : __NR_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* ---- passes ---- */

static enum hk_status pass(struct hke_context *c)
{
    uint32_t id[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        id[i] = (i * 37 + 260) % VOCAB;
    enum hk_status st = hke_eval(c, id, PROMPT, NULL, NULL, NULL);
    for (size_t i = 0; i < STEPS && st == HK_OK; i++)
        st = hke_eval(c, &id[i], 1, NULL, NULL, NULL);
    return st;
}

/* In a process of its own. */
static int child(const struct hke_model *m, unsigned threads, bool filtered)
{
    const struct hke_context_options opt = {.threads = threads};
    struct hke_context *c;
    if (hke_context_new(&c, m, &opt, NULL) != HK_OK || pass(c) != HK_OK)
        return FAILED;
    hke_context_rewind(c, 4);
    if (filtered && !forbid_calls(threads > 1))
        return NO_FILTER;
    unsigned before = atomic_load(&allocations);
    enum hk_status st = pass(c);
    return st != HK_OK ? FAILED : atomic_load(&allocations) != before ? ALLOCATED : GOOD;
}

static int status_of(const struct hke_model *m, unsigned threads, bool filtered)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(m, threads, filtered));
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_threads(const struct hke_model *m, unsigned threads)
{
    ok(status_of(m, threads, false) == GOOD, "%u threads: nothing is allocated once warm", threads);
#ifdef SANITIZED
    tap_skip("system calls", "sanitizers make some of their own");
    return;
#endif
    int status = status_of(m, threads, true);
    if (status == NO_FILTER)
        tap_skip("system calls", "SKIPPED: the kernel has no filter for them");
    else
        ok(status == GOOD, "%u threads: %s", threads,
           threads > 1 ? "the system is called for waiting only" : "no system call");
}

/* The test itself sees what it looks for. */
static void test_test(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool on = forbid_calls(false);
        _exit(on ? (int)syscall(SYS_getppid) & 0 : NO_FILTER);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER),
       "a call that is not allowed is seen");
    unsigned before = atomic_load(&allocations);
    void *volatile p = malloc(1);
    free(p);
    ok(atomic_load(&allocations) == before + 1, "an allocation is seen");
}

int main(void)
{
    const char *own = getenv("HK_FIXTURES");
    char path[4096];
    struct hk_file *f = NULL;
    struct hke_model *m = NULL;
    struct hk_error err = {0};
    snprintf(path, sizeof path, "%s/models/stories260K-f16.gguf",
             own != NULL ? own : "tests/fixtures");
    test_test();
    if (ok(hk_open(&f, path, &err) == HK_OK && hke_model_new(&m, f, &err) == HK_OK, "a model %s",
           err.text))
        for (unsigned threads = 1; threads <= 3; threads++)
            test_threads(m, threads);
    hke_model_free(&m);
    hk_close(&f);
    return tap_done();
}
