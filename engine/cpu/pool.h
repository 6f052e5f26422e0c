/* pool.h: threads that all run the same function, with a barrier and ranges handed out as they are
 * asked for.
 *
 * Which worker gets which range depends on time alone: a function whose results depend on it is
 * wrong. A pool belongs to the thread that made it. Waiting threads spin briefly, then sleep: an
 * idle pool uses no processor, and more workers than processors still make progress. */
#ifndef HKE_POOL_H
#define HKE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "libhkfmt/hkfmt.h"

struct hke_pool;

enum { HKE_MAX_THREADS = 256 };

/* Make a pool of THREADS workers (1..HKE_MAX_THREADS), of which the caller is one: THREADS - 1
 * threads start, with all signals blocked, and live until hke_pool_free(). HK_E_USE: THREADS is out
 * of bounds; HK_E_NOMEM; HK_E_IO: a thread cannot be started. */
HK_MUST enum hk_status hke_pool_new(unsigned threads, struct hke_pool **out, struct hk_error *err);
/* *P becomes NULL. NULL is allowed. */
void hke_pool_free(struct hke_pool **p);
unsigned hke_pool_workers(const struct hke_pool *p);

typedef void hke_pool_fn(void *arg, unsigned worker, unsigned workers);

/* Call FN once in every worker, the caller being worker 0, and return when all have returned: what
 * they wrote is then visible here. FN must not call it. */
void hke_pool_run(struct hke_pool *p, hke_pool_fn *fn, void *arg);

/* The same in the first MOST of the workers, at least 1. */
void hke_pool_run_some(struct hke_pool *p, unsigned most, hke_pool_fn *fn, void *arg);

/* Workers that can run at the same time. More of them are only slower where there is a barrier
 * every few microseconds. */
unsigned hke_pool_usable(const struct hke_pool *p);

/* The same in the caller alone, as a pool of one worker, for what is too little to be worth waking
 * the others. */
void hke_pool_run_alone(struct hke_pool *p, hke_pool_fn *fn, void *arg);

/* Whether the caller had better run alone: a moment ago it waited for the others so long, because
 * processors are short, that it would have been sooner without them. */
bool hke_pool_hindered(const struct hke_pool *p);

/* ---- inside such a function ---- */

/* Wait until all workers of the run are here: what any wrote before, all see after. Every worker
 * has to call it equally often. No system call where the others come soon; never an allocation. */
void hke_pool_barrier(struct hke_pool *p);

/* The next at most GRAIN of 0..TOTAL that no worker has been given, for WORKER: [*BEGIN, *END).
 * First of the part that is its own, a contiguous one and the same in every run of as many workers;
 * then of those of others. False where none are left. All workers pass the same TOTAL and GRAIN
 * until one barrier (or the start or end of the run) and the next, which begins anew from 0. GRAIN
 * is at least 1, TOTAL / GRAIN below 2^32. */
bool hke_pool_take(struct hke_pool *p, unsigned worker, size_t total, size_t grain, size_t *begin,
                   size_t *end);

/* A grain for TOTAL ranges: a quarter of a worker's even share, at most MAX. */
size_t hke_pool_grain(const struct hke_pool *p, size_t total, size_t max);

#endif
