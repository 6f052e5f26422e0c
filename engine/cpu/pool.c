/* The thread pool. Workers between two runs wait in the same barrier as workers inside one, so that
 * there is one way to wait: read a word, then spin, then sleep in the kernel until it changes. */
#include "engine/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "engine/cpu/cores.h"
#include "engine/cpu/sys.h"

enum {
    LINE = 128,           /* processors fetch lines of 64 bytes in pairs */
    ROUND = 64,           /* looks at the word between two at the clock */
    SPIN_NS = 200 * 1000, /* longer than waking a thread takes, shorter than anyone notices */
    YIELDS = 2,           /* then let others run, before sleeping */
    CROWDED_YIELDS = 16,  /* the one waited for may need this processor */
    ALONE_TIMES = 16,     /* as long as a run that was hindered, before all are tried again */
};

struct worker {
    struct hke_pool *pool;
    pthread_t thread;
    unsigned number;
};

struct hke_pool {
    /* Set before a barrier that all pass, read after it. FN NULL ends the threads. */
    hke_pool_fn *fn;
    void *arg;
    unsigned workers;
    unsigned started; /* threads, which is workers - 1 except where starting them failed */
    bool crowded;     /* more workers than can run at the same time */
    bool alone;       /* the caller runs FN by itself, the others wait for the next run */

    /* The caller's: how long it waited for others in this run; until when it does better without
     * them, or 0. */
    int64_t waited, alone_until;
    pthread_t owner;

    alignas(LINE) atomic_uint arrived; /* at the barrier that is open */
    alignas(LINE) atomic_uint epoch;   /* barriers passed; the word that is waited for */
    alignas(LINE) atomic_uint sleepers;
    alignas(LINE) atomic_size_t taken; /* first number that hke_pool_take() has not given out */
    alignas(LINE) struct worker worker[];
};

/* ---- waiting ---- */

static void pause_processor(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* "yield" does nothing on most */
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool has_passed(struct hke_pool *p, unsigned epoch)
{
    return atomic_load_explicit(&p->epoch, memory_order_acquire) != epoch;
}

/* Whether the epoch passed while spinning. Where workers share processors it is soon given up.
 * SINCE is when it began, or 0 where it was over before a look at the clock. */
static bool spin_until_passed(struct hke_pool *p, unsigned epoch, int64_t *since)
{
    *since = 0;
    for (;;) {
        for (int i = 0; i < ROUND; i++) {
            if (has_passed(p, epoch))
                return true;
            pause_processor();
        }
        int64_t now = monotonic_ns();
        if (*since == 0)
            *since = now;
        if (p->crowded || now - *since >= SPIN_NS)
            return false;
    }
}

/* The kernel compares the word before it lets the thread sleep, after the sleeper has been counted;
 * open_barrier() changes the word before it looks for sleepers. So one of the two sees the other.
 */
static void sleep_until_passed(struct hke_pool *p, unsigned epoch)
{
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_passed(p, epoch))
        hke_futex_wait(&p->epoch, epoch);
    atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
}

/* Gives how long it took, which is 0 for very short. */
static int64_t wait_for_epoch(struct hke_pool *p, unsigned epoch)
{
    int64_t since;
    bool done = spin_until_passed(p, epoch, &since);
    for (int i = p->crowded ? CROWDED_YIELDS : YIELDS; !done && i > 0; i--) {
        sched_yield();
        done = has_passed(p, epoch);
    }
    if (!done)
        sleep_until_passed(p, epoch);
    return since != 0 ? monotonic_ns() - since : 0;
}

/* ---- the barrier ---- */

static void open_barrier(struct hke_pool *p)
{
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&p->taken, 0, memory_order_relaxed);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers) > 0)
        hke_futex_wake_all(&p->epoch);
}

/* Count N as arrived; true for whoever completes the workers. */
static bool arrive_at_barrier(struct hke_pool *p, unsigned n)
{
    return atomic_fetch_add_explicit(&p->arrived, n, memory_order_acq_rel) + n == p->workers;
}

/* Gives how long the others were waited for. */
static int64_t meet_at_barrier(struct hke_pool *p)
{
    /* It cannot pass before this thread has arrived, so this is the current one. */
    unsigned epoch = atomic_load_explicit(&p->epoch, memory_order_relaxed);
    if (!arrive_at_barrier(p, 1))
        return wait_for_epoch(p, epoch);
    open_barrier(p);
    return 0;
}

void hke_pool_barrier(struct hke_pool *p)
{
    if (p->alone) {
        atomic_store_explicit(&p->taken, 0, memory_order_relaxed);
        return;
    }
    int64_t waited = meet_at_barrier(p);
    if (waited > 0 && pthread_equal(pthread_self(), p->owner))
        p->waited += waited;
}

bool hke_pool_take(struct hke_pool *p, size_t total, size_t grain, size_t *begin, size_t *end)
{
    /* Looking first keeps those that ask in vain from driving the counter on. */
    size_t at = atomic_load_explicit(&p->taken, memory_order_relaxed);
    if (at >= total)
        return false;
    if (p->alone)
        atomic_store_explicit(&p->taken, at + grain, memory_order_relaxed);
    else
        at = atomic_fetch_add_explicit(&p->taken, grain, memory_order_relaxed);
    if (at >= total)
        return false;
    *begin = at;
    *end = total - at > grain ? at + grain : total;
    return true;
}

size_t hke_pool_grain(const struct hke_pool *p, size_t total, size_t max)
{
    const size_t shares = (size_t)p->workers * 4, grain = (total + shares - 1) / shares;
    return grain < 1 ? 1 : grain < max ? grain : max;
}

/* Those that wait, or are still on their way there from the run before, do not look at ALONE. */
void hke_pool_run_alone(struct hke_pool *p, hke_pool_fn *fn, void *arg)
{
    p->alone = true;
    fn(arg, 0, 1);
    hke_pool_barrier(p);
    p->alone = false;
}

/* Alone the caller takes as long as all workers' shares, so with W workers it is sooner where it
 * waits for more than 1 - 1 / W of the time: where they share processors with each other or with
 * other programs. Finding that out again costs a run as slow, so not before many times as long. */
static void judge_run(struct hke_pool *p, int64_t start)
{
    int64_t now = monotonic_ns(), took = now - start;
    bool hindered = (double)(took - p->waited) * p->workers < (double)took;
    p->alone_until = hindered ? now + ALONE_TIMES * took : 0;
}

bool hke_pool_hindered(const struct hke_pool *p)
{
    return p->alone_until != 0 && monotonic_ns() < p->alone_until;
}

void hke_pool_run(struct hke_pool *p, hke_pool_fn *fn, void *arg)
{
    if (p->workers == 1) {
        hke_pool_run_alone(p, fn, arg);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->waited = 0;
    int64_t start = monotonic_ns();
    meet_at_barrier(p);
    fn(arg, 0, p->workers);
    p->waited += meet_at_barrier(p);
    judge_run(p, start);
}

/* ---- threads ---- */

static void *work_until_stopped(void *arg)
{
    const struct worker *w = arg;
    struct hke_pool *p = w->pool;
    for (;;) {
        meet_at_barrier(p);
        if (p->fn == NULL)
            return NULL;
        p->fn(p->arg, w->number, p->workers);
        meet_at_barrier(p);
    }
}

/* Signals are for the threads that the program knows of. */
static int start_workers(struct hke_pool *p)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = 0;
    while (failed == 0 && p->started + 1 < p->workers) {
        struct worker *w = &p->worker[p->started];
        *w = (struct worker){.pool = p, .number = p->started + 1};
        failed = pthread_create(&w->thread, NULL, work_until_stopped, w);
        p->started += failed == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

/* The threads wait for the start of a run. This thread arrives there for itself and for those that
 * were never started. */
static void stop_workers(struct hke_pool *p)
{
    p->fn = NULL;
    if (arrive_at_barrier(p, p->workers - p->started))
        open_barrier(p);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->worker[i].thread, NULL);
}

enum hk_status hke_pool_new(unsigned threads, struct hke_pool **out, struct hk_error *err)
{
    if (threads < 1 || threads > HKE_MAX_THREADS)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "%u threads: there can be 1 to %d", threads,
                       HKE_MAX_THREADS);
    size_t size = sizeof(struct hke_pool) + (threads - 1) * sizeof(struct worker);
    struct hke_pool *p = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    if (p == NULL)
        return hk_fail_nomem(err);
    *p = (struct hke_pool){
        .workers = threads, .crowded = threads > hke_cores_usable(), .owner = pthread_self()};
    int failed = start_workers(p);
    if (failed != 0) {
        unsigned number = p->started + 1;
        hke_pool_free(&p);
        return hk_fail_sys(err, failed, "cannot start thread %u of %u", number, threads);
    }
    *out = p;
    return HK_OK;
}

void hke_pool_free(struct hke_pool **p)
{
    if (*p == NULL)
        return;
    stop_workers(*p);
    free(*p);
    *p = NULL;
}

unsigned hke_pool_workers(const struct hke_pool *p)
{
    return p->workers;
}
