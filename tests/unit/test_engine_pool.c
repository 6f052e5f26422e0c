/* The thread pool, with real threads. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/cpu/pool.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/tap.h"

static struct hke_pool *pool_of(unsigned threads)
{
    struct hke_pool *p = NULL;
    struct hk_error err;
    if (hke_pool_new(threads, &p, &err) != HK_OK) {
        printf("Bail out! no pool of %u: %s\n", threads, err.text);
        exit(1);
    }
    return p;
}

/* ---- runs ---- */

struct calls {
    unsigned seen[HKE_MAX_THREADS]; /* by worker, each its own */
    pthread_t thread[HKE_MAX_THREADS];
    unsigned workers;
};

static void count_call(void *arg, unsigned worker, unsigned workers)
{
    struct calls *c = arg;
    c->seen[worker]++;
    c->thread[worker] = pthread_self();
    if (worker == 0)
        c->workers = workers;
}

static void test_run(unsigned threads)
{
    enum { RUNS = 50 };
    struct hke_pool *p = pool_of(threads);
    struct calls c = {.workers = 0};
    for (int i = 0; i < RUNS; i++)
        hke_pool_run(p, count_call, &c);
    bool each = true, distinct = true;
    for (unsigned i = 0; i < threads; i++) {
        each = each && c.seen[i] == RUNS;
        for (unsigned j = 0; j < i; j++)
            distinct = distinct && !pthread_equal(c.thread[i], c.thread[j]);
    }
    ok(each && c.workers == threads && hke_pool_workers(p) == threads,
       "%u workers: each called once in every run", threads);
    ok(distinct && pthread_equal(c.thread[0], pthread_self()),
       "%u workers: a thread each, the caller being worker 0", threads);
    hke_pool_free(&p);
    ok(p == NULL, "%u workers: the pool ends", threads);
}

/* ---- barriers ---- */

struct steps {
    struct hke_pool *pool;
    unsigned rounds;
    unsigned at[HKE_MAX_THREADS]; /* plain memory: a barrier alone makes it visible */
    atomic_uint wrong;
};

static void step(void *arg, unsigned worker, unsigned workers)
{
    struct steps *s = arg;
    for (unsigned r = 1; r <= s->rounds; r++) {
        s->at[worker] = r;
        hke_pool_barrier(s->pool);
        for (unsigned i = 0; i < workers; i++)
            if (s->at[i] != r)
                atomic_fetch_add(&s->wrong, 1);
        hke_pool_barrier(s->pool);
    }
}

static void test_barrier(unsigned threads, unsigned rounds)
{
    struct steps s = {.pool = pool_of(threads), .rounds = rounds};
    hke_pool_run(s.pool, step, &s);
    ok(s.wrong == 0 && s.at[threads - 1] == rounds,
       "%u workers: %u barriers, nobody ahead and nobody behind", threads, 2 * rounds);
    hke_pool_free(&s.pool);
}

/* One worker comes so late that the others have gone to sleep. */
static void come_late(void *arg, unsigned worker, unsigned workers)
{
    struct steps *s = arg;
    for (unsigned r = 0; r < s->rounds; r++) {
        if (worker == r % workers)
            nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        s->at[worker]++;
        hke_pool_barrier(s->pool);
        for (unsigned i = 0; i < workers; i++)
            if (s->at[i] != r + 1)
                atomic_fetch_add(&s->wrong, 1);
        hke_pool_barrier(s->pool);
    }
}

static void test_sleep(unsigned threads)
{
    struct steps s = {.pool = pool_of(threads), .rounds = 2 * threads};
    hke_pool_run(s.pool, come_late, &s);
    ok(s.wrong == 0 && s.at[0] == s.rounds, "%u workers: who waits long is woken", threads);
    hke_pool_free(&s.pool);
}

/* ---- ranges ---- */

enum { MOST = 5000 };

struct ranges {
    struct hke_pool *pool;
    size_t total, grain;
    unsigned given[2][MOST]; /* how often each number was, before and after a barrier */
    atomic_uint wrong;
    bool slow; /* the last worker takes one range and keeps it */
    size_t share[HKE_MAX_THREADS];
};

static void take_all(struct ranges *r, unsigned *given, unsigned worker, unsigned workers)
{
    size_t begin, end;
    while (hke_pool_take(r->pool, worker, r->total, r->grain, &begin, &end)) {
        if (begin >= end || end > r->total || end - begin > r->grain)
            atomic_fetch_add(&r->wrong, 1);
        for (size_t i = begin; i < end; i++)
            given[i]++;
        r->share[worker] += end - begin;
        if (r->slow && worker == workers - 1)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void take_twice(void *arg, unsigned worker, unsigned workers)
{
    struct ranges *r = arg;
    take_all(r, r->given[0], worker, workers);
    hke_pool_barrier(r->pool);
    take_all(r, r->given[1], worker, workers);
}

static bool each_given(const unsigned *given, size_t total, unsigned times)
{
    for (size_t i = 0; i < total; i++)
        if (given[i] != times)
            return false;
    return true;
}

static void test_take(unsigned threads)
{
    static const size_t totals[] = {0, 1, 7, 64, 1000, MOST}, grains[] = {1, 3, 64, MOST * 2};
    struct hke_pool *p = pool_of(threads);
    bool good = true;
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            struct ranges r = {.pool = p, .total = totals[t], .grain = grains[g]};
            hke_pool_run(p, take_twice, &r);
            hke_pool_run(p, take_twice, &r);
            good = good && r.wrong == 0 && each_given(r.given[0], r.total, 2) &&
                   each_given(r.given[1], r.total, 2);
        }
    ok(good, "%u workers: every number is given out once, and again after a barrier", threads);
    hke_pool_free(&p);
}

static void test_slow_worker(void)
{
    struct ranges r = {.pool = pool_of(2), .total = 1000, .grain = 1, .slow = true};
    hke_pool_run(r.pool, take_twice, &r);
    ok(r.share[1] < r.total, "a slow worker (%zu of %zu) does not hold up the other", r.share[1],
       2 * r.total);
    hke_pool_free(&r.pool);
}

static void take_huge(void *arg, unsigned worker, unsigned workers)
{
    struct ranges *r = arg;
    size_t begin, end;
    (void)workers;
    while (hke_pool_take(r->pool, worker, r->total, r->grain, &begin, &end))
        atomic_fetch_add(&r->wrong, end <= r->total ? 0 : 1);
    for (int i = 0; i < 1000; i++)
        if (hke_pool_take(r->pool, worker, r->total, r->grain, &begin, &end))
            atomic_fetch_add(&r->wrong, 1);
}

static void test_huge(void)
{
    struct ranges r = {.pool = pool_of(3), .total = SIZE_MAX, .grain = SIZE_MAX / HKE_MAX_THREADS};
    hke_pool_run(r.pool, take_huge, &r);
    ok(r.wrong == 0, "the largest total and grain do not overflow, nor asking in vain");
    hke_pool_free(&r.pool);
}

/* ---- shares ---- */

struct shares {
    struct hke_pool *pool;
    size_t first[2][HKE_MAX_THREADS]; /* where each worker's first range began, in two runs */
    unsigned run;
};

static void take_first(void *arg, unsigned worker, unsigned workers)
{
    struct shares *s = arg;
    size_t begin, end;
    (void)workers;
    s->first[s->run][worker] = SIZE_MAX;
    if (hke_pool_take(s->pool, worker, 1000, 10, &begin, &end))
        s->first[s->run][worker] = begin;
    hke_pool_barrier(s->pool);
}

static void test_shares(void)
{
    static const size_t begins[] = {0, 250, 500, 750};
    struct shares s = {.pool = pool_of(4)};
    for (; s.run < 2; s.run++)
        hke_pool_run(s.pool, take_first, &s);
    ok(memcmp(s.first[0], begins, sizeof begins) == 0 &&
           memcmp(s.first[1], begins, sizeof begins) == 0,
       "a worker begins with the same part in every run");
    hke_pool_free(&s.pool);
}

/* ---- some ---- */

static void test_some(unsigned threads)
{
    struct calls c = {.workers = 0};
    struct ranges r = {.pool = pool_of(threads), .total = 1000, .grain = 3};
    enum { RUNS = 30 };
    unsigned expected[HKE_MAX_THREADS] = {0};
    bool counted = true;
    for (unsigned i = 0; i < RUNS; i++) {
        const unsigned most = 1 + i * 7 % threads;
        hke_pool_run_some(r.pool, most, count_call, &c);
        counted = counted && c.workers == most;
        hke_pool_run_some(r.pool, most, take_twice, &r);
        for (unsigned k = 0; k < most; k++)
            expected[k]++;
    }
    ok(counted && memcmp(c.seen, expected, sizeof expected) == 0 &&
           each_given(r.given[0], r.total, RUNS) && each_given(r.given[1], r.total, RUNS),
       "%u workers: the first of them run, each once, between runs of others", threads);
    hke_pool_free(&r.pool);
}

/* ---- alone ---- */

static void test_alone(unsigned threads)
{
    struct calls c = {.workers = 0};
    struct ranges r = {.pool = pool_of(threads), .total = 1000, .grain = 3};
    for (int i = 0; i < 3; i++) {
        hke_pool_run_alone(r.pool, count_call, &c);
        hke_pool_run_alone(r.pool, take_twice, &r);
        hke_pool_run(r.pool, take_twice, &r);
    }
    ok(c.seen[0] == 3 && c.workers == 1 && each_given(r.given[0], r.total, 6) &&
           each_given(r.given[1], r.total, 6),
       "%u workers: the caller runs alone, between runs of all", threads);
    hke_pool_free(&r.pool);
}

/* ARG: the worker that is late. */
static void be_late(void *arg, unsigned worker, unsigned workers)
{
    const unsigned *late = arg;
    (void)workers;
    if (worker == *late)
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

static void test_hindered(void)
{
    struct hke_pool *p = pool_of(2);
    unsigned caller = 0, other = 1, ms = 0;
    bool before = hke_pool_hindered(p);
    hke_pool_run(p, be_late, &other);
    bool after = hke_pool_hindered(p);
    for (; ms < 60000 && hke_pool_hindered(p); ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ok(!before && after && ms < 60000,
       "who waits for most of a run is better off alone for a while");
    hke_pool_run(p, be_late, &other);
    hke_pool_run(p, be_late, &caller);
    ok(!hke_pool_hindered(p), "and no longer once it is not so");
    hke_pool_free(&p);
}

/* ---- threads ---- */

static int64_t used_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void test_idle(void)
{
    struct calls c = {.workers = 0};
    struct hke_pool *p = pool_of(4);
    hke_pool_run(p, count_call, &c);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    int64_t before = used_ns();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    int64_t used = used_ns() - before;
    ok(used < 20000000, "an idle pool uses no processor (%lld us in 300 ms)",
       (long long)used / 1000);
    hke_pool_free(&p);
}

struct masks {
    atomic_uint open; /* workers other than 0 that would take the signal */
};

static void look_at_mask(void *arg, unsigned worker, unsigned workers)
{
    struct masks *m = arg;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    if (worker > 0 && !sigismember(&set, SIGINT))
        atomic_fetch_add(&m->open, 1);
    (void)workers;
}

static void test_signals(void)
{
    struct masks m = {0};
    struct hke_pool *p = pool_of(3);
    hke_pool_run(p, look_at_mask, &m);
    sigset_t own;
    pthread_sigmask(SIG_BLOCK, NULL, &own);
    ok(m.open == 0 && !sigismember(&own, SIGINT), "signals stay with the caller's thread");
    hke_pool_free(&p);
}

static void test_bounds(void)
{
    struct hke_pool *p = NULL;
    struct hk_error err;
    ok(hke_pool_new(0, &p, &err) == HK_E_USE && p == NULL, "no threads: %s", err.text);
    ok(hke_pool_new(HKE_MAX_THREADS + 1, &p, &err) == HK_E_USE && p == NULL, "too many: %s",
       err.text);
    hke_pool_free(&p);
    ok(p == NULL, "freeing no pool is allowed");
}

/* Address space for the stacks of some threads, but not of all. */
static void test_failure(void)
{
#ifdef SANITIZED
    tap_skip("threads that cannot be started", "sanitizers need the address space");
#else
    unsigned long pages = 0;
    struct rlimit old, small;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &old) != 0) {
        tap_skip("threads that cannot be started", "the address space in use is not known");
        return;
    }
    fclose(file);
    small = old;
    small.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (UINT64_C(100) << 20);
    setrlimit(RLIMIT_AS, &small);
    struct hke_pool *p = NULL;
    struct hk_error err = {.text = ""};
    enum hk_status status = hke_pool_new(HKE_MAX_THREADS, &p, &err);
    setrlimit(RLIMIT_AS, &old);
    ok(status == HK_E_IO && p == NULL && err.sys == EAGAIN && strstr(err.text, " of 256: ") != NULL,
       "threads that cannot be started, after some that were: %s", err.text);
    test_run(3);
#endif
}

int main(void)
{
    static const unsigned threads[] = {1, 2, 3, 8, HKE_MAX_THREADS};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        test_run(threads[i]);
        test_barrier(threads[i], threads[i] < 8 ? 2000 : 50);
        test_take(threads[i] < 8 ? threads[i] : 8);
    }
    test_sleep(2);
    test_sleep(5);
    test_slow_worker();
    test_huge();
    test_shares();
    test_some(2);
    test_some(5);
    test_some(32);
    test_alone(1);
    test_alone(3);
    test_hindered();
    test_idle();
    test_signals();
    test_bounds();
    test_failure();
    return tap_done();
}
