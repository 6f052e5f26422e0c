/* The thread pool. There is one way to wait, for the start of a run as for a barrier inside one:
 * read a word, then spin, then sleep in the kernel until it changes.
 *
 * Ranges: each worker has a share of its own, from which it takes first, so that from pass to pass
 * the same rows meet the same processor; then it takes from the shares of the others. */
#include "engine/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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
    MAX_PARTIES = HKE_MAX_THREADS,
};

struct worker {
    /* Grains that have been taken of its share, below; above, the epoch that this is of: in another
     * one none have been. */
    alignas(LINE) _Atomic uint64_t taken;
    struct hke_pool *pool;
    pthread_t thread; /* of the caller's, the first: not set */
    unsigned number;
};

struct hke_pool {
    /* Set before a run starts, read by those that take part. FN NULL ends the threads. */
    hke_pool_fn *fn;
    void *arg;
    unsigned parties; /* the first of the workers: those that take part */

    unsigned workers;
    unsigned started; /* threads, which is workers - 1 except where starting them failed */
    unsigned usable;  /* workers that can run at the same time, at most all */
    bool alone;       /* the caller runs FN by itself, the others wait for the next run */

    /* The caller's: how long it waited for others in this run; until when it does better without
     * them, or 0. */
    int64_t waited, alone_until;
    pthread_t owner;

    alignas(LINE) atomic_uint start;   /* runs, times MAX_PARTIES, and how many take part less 1 */
    atomic_uint waiting;               /* those that sleep until it changes */
    alignas(LINE) atomic_uint arrived; /* at the barrier that is open */
    alignas(LINE) atomic_uint epoch;   /* barriers passed */
    alignas(LINE) atomic_uint sleepers;
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

/* A word that is waited for, and how many sleep meanwhile. */
struct word {
    atomic_uint *value, *sleepers;
};

static bool has_changed(struct word w, unsigned from)
{
    return atomic_load_explicit(w.value, memory_order_acquire) != from;
}

static bool is_crowded(const struct hke_pool *p)
{
    return p->parties > p->usable;
}

/* Whether W changed while spinning. Where workers share processors it is soon given up. SINCE is
 * when it began, or 0 where it was over before a look at the clock. */
static bool spin_until_changed(struct word w, unsigned from, bool crowded, int64_t *since)
{
    *since = 0;
    for (;;) {
        for (int i = 0; i < ROUND; i++) {
            if (has_changed(w, from))
                return true;
            pause_processor();
        }
        int64_t now = monotonic_ns();
        if (*since == 0)
            *since = now;
        if (crowded || now - *since >= SPIN_NS)
            return false;
    }
}

/* The kernel compares the word before it lets the thread sleep, after the sleeper has been counted;
 * change_word() changes the word before it looks for sleepers. So one of the two sees the other. */
static void sleep_until_changed(struct word w, unsigned from)
{
    atomic_fetch_add(w.sleepers, 1);
    while (!has_changed(w, from))
        hke_futex_wait(w.value, from);
    atomic_fetch_sub_explicit(w.sleepers, 1, memory_order_relaxed);
}

static void change_word(struct word w, unsigned to)
{
    atomic_exchange(w.value, to);
    if (atomic_load(w.sleepers) > 0)
        hke_futex_wake_all(w.value);
}

/* Gives how long it took, which is 0 for very short. */
static int64_t wait_for_change(struct word w, unsigned from, bool crowded)
{
    int64_t since;
    bool done = spin_until_changed(w, from, crowded, &since);
    for (int i = crowded ? CROWDED_YIELDS : YIELDS; !done && i > 0; i--) {
        sched_yield();
        done = has_changed(w, from);
    }
    if (!done)
        sleep_until_changed(w, from);
    return since != 0 ? monotonic_ns() - since : 0;
}

/* ---- the barrier ---- */

static struct word epoch_of(struct hke_pool *p)
{
    return (struct word){&p->epoch, &p->sleepers};
}

/* Gives how long the others were waited for. */
static int64_t meet_at_barrier(struct hke_pool *p)
{
    /* It cannot pass before this thread has arrived, so this is the current one; and until then the
     * run goes on. */
    const unsigned epoch = atomic_load_explicit(&p->epoch, memory_order_relaxed);
    const unsigned parties = p->parties;
    const bool crowded = is_crowded(p);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 < parties)
        return wait_for_change(epoch_of(p), epoch, crowded);
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    change_word(epoch_of(p), epoch + 1);
    return 0;
}

void hke_pool_barrier(struct hke_pool *p)
{
    if (p->alone) {
        atomic_store_explicit(&p->worker[0].taken, 0, memory_order_relaxed);
        return;
    }
    int64_t waited = meet_at_barrier(p);
    if (waited > 0 && pthread_equal(pthread_self(), p->owner))
        p->waited += waited;
}

/* ---- ranges ---- */

/* The first of GRAINS that is in the share of WORKER, or behind the last of the share before. */
static uint64_t share_begin(uint64_t grains, unsigned worker, unsigned parties)
{
    return grains * worker / parties;
}

/* The next grain of W's share, which has N, in *AT. */
static bool take_of_share(struct worker *w, unsigned epoch, uint64_t n, uint64_t *at)
{
    uint64_t old = atomic_load_explicit(&w->taken, memory_order_relaxed), taken;
    do {
        taken = old >> 32 == epoch ? old & UINT32_MAX : 0;
        if (taken >= n)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&w->taken, &old,
                                                    (uint64_t)epoch << 32 | (taken + 1),
                                                    memory_order_relaxed, memory_order_relaxed));
    *at = taken;
    return true;
}

bool hke_pool_take(struct hke_pool *p, unsigned worker, size_t total, size_t grain, size_t *begin,
                   size_t *end)
{
    const unsigned epoch = p->alone ? 0 : atomic_load_explicit(&p->epoch, memory_order_relaxed);
    const unsigned parties = p->alone ? 1 : p->parties;
    const uint64_t grains = total / grain + (total % grain > 0);
    for (unsigned i = 0; i < parties; i++) {
        const unsigned whose = (worker + i) % parties;
        const uint64_t first = share_begin(grains, whose, parties);
        uint64_t at;
        if (take_of_share(&p->worker[whose], epoch, share_begin(grains, whose + 1, parties) - first,
                          &at)) {
            *begin = (size_t)(first + at) * grain;
            *end = total - *begin > grain ? *begin + grain : total;
            return true;
        }
    }
    return false;
}

size_t hke_pool_grain(const struct hke_pool *p, size_t total, size_t max)
{
    const size_t shares = (size_t)(p->alone ? 1 : p->parties) * 4,
                 grain = (total + shares - 1) / shares;
    return grain < 1 ? 1 : grain < max ? grain : max;
}

/* The first barrier forgets what the last run took. Those that wait do not look at ALONE. */
void hke_pool_run_alone(struct hke_pool *p, hke_pool_fn *fn, void *arg)
{
    p->alone = true;
    hke_pool_barrier(p);
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
    bool hindered = (double)(took - p->waited) * p->parties < (double)took;
    p->alone_until = hindered ? now + ALONE_TIMES * took : 0;
}

bool hke_pool_hindered(const struct hke_pool *p)
{
    return p->alone_until != 0 && monotonic_ns() < p->alone_until;
}

static struct word start_of(struct hke_pool *p)
{
    return (struct word){&p->start, &p->waiting};
}

/* Those that take part cannot be late for it: it does not end without them. Others may miss it. */
static void start_run(struct hke_pool *p, unsigned parties, hke_pool_fn *fn, void *arg)
{
    const unsigned runs = atomic_load_explicit(&p->start, memory_order_relaxed) / MAX_PARTIES;
    p->fn = fn;
    p->arg = arg;
    p->parties = parties;
    change_word(start_of(p), (runs + 1) * MAX_PARTIES + parties - 1);
}

void hke_pool_run_some(struct hke_pool *p, unsigned most, hke_pool_fn *fn, void *arg)
{
    const unsigned parties = most < p->workers ? most : p->workers;
    if (parties == 1) {
        hke_pool_run_alone(p, fn, arg);
        return;
    }
    p->waited = 0;
    int64_t start = monotonic_ns();
    start_run(p, parties, fn, arg);
    fn(arg, 0, parties);
    p->waited += meet_at_barrier(p);
    judge_run(p, start);
}

void hke_pool_run(struct hke_pool *p, hke_pool_fn *fn, void *arg)
{
    hke_pool_run_some(p, p->workers, fn, arg);
}

/* ---- threads ---- */

/* PARTIES of a run is the caller's to change as long as this worker is not known to be in one, so
 * how many take part is read from the word. Who was not in the last run soon sleeps. */
static void *work_until_stopped(void *arg)
{
    const struct worker *w = arg;
    struct hke_pool *p = w->pool;
    unsigned seen = 0;
    bool took_part = true;
    for (;;) {
        wait_for_change(start_of(p), seen, !took_part || p->workers > p->usable);
        seen = atomic_load_explicit(&p->start, memory_order_acquire);
        took_part = w->number <= seen % MAX_PARTIES;
        if (!took_part)
            continue;
        if (p->fn == NULL)
            return NULL;
        p->fn(p->arg, w->number, p->parties);
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
        struct worker *w = &p->worker[p->started + 1];
        w->pool = p;
        w->number = p->started + 1;
        failed = pthread_create(&w->thread, NULL, work_until_stopped, w);
        p->started += failed == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

static void stop_workers(struct hke_pool *p)
{
    start_run(p, p->workers, NULL, NULL);
    for (unsigned i = 1; i <= p->started; i++)
        pthread_join(p->worker[i].thread, NULL);
}

enum hk_status hke_pool_new(unsigned threads, struct hke_pool **out, struct hk_error *err)
{
    if (threads < 1 || threads > HKE_MAX_THREADS)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "%u threads: there can be 1 to %d", threads,
                       HKE_MAX_THREADS);
    const size_t size = sizeof(struct hke_pool) + threads * sizeof(struct worker);
    struct hke_pool *p = aligned_alloc(LINE, size);
    if (p == NULL)
        return hk_fail_nomem(err);
    const unsigned usable = hke_cores_usable();
    memset(p, 0, size);
    p->workers = p->parties = threads;
    p->usable = usable < threads ? usable : threads;
    p->owner = pthread_self();
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

unsigned hke_pool_usable(const struct hke_pool *p)
{
    return p->usable;
}
