/* threads.c: HK_THREADS, read here and passed down, and the engine's pool as the library's loop.
 * Apart from engine_options.c, so that a program gets no kernels with it. */
#include "tools/lib/threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/cores.h"
#include "engine/cpu/pool.h"
#include "tools/lib/tool.h"

unsigned tool_threads(void)
{
    const char *value = getenv("HK_THREADS");
    if (value == NULL || *value == '\0') {
        struct hke_cores cores;
        hke_cores_find(&cores, "", NULL);
        return cores.threads;
    }
    bool digits = value[strspn(value, "0123456789")] == '\0';
    unsigned long n = digits ? strtoul(value, NULL, 10) : 0;
    if (n >= 1 && n <= HKE_MAX_THREADS)
        return (unsigned)n;
    tool_warn(NULL, "HK_THREADS: %s: not a number of threads from 1 to %d", value, HKE_MAX_THREADS);
    exit(TOOL_TROUBLE);
}

unsigned tool_threads_option(const char *value)
{
    return (unsigned)tool_uint(value, 1, HKE_MAX_THREADS);
}

/* ---- the loop ---- */

struct walk {
    size_t n;
    atomic_size_t next;
    hk_each_fn *fn;
    void *arg;
};

/* In order: what is next in a file is next for all, so it is read as one stream. */
static void walk_share(void *arg, unsigned worker, unsigned workers)
{
    struct walk *w = arg;
    (void)worker;
    (void)workers;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        w->fn(w->arg, i);
}

static void run_walk(void *context, size_t n, hk_each_fn *fn, void *arg)
{
    struct walk w = {.n = n, .fn = fn, .arg = arg};
    if (n > 1)
        hke_pool_run(context, walk_share, &w);
    else
        hke_pool_run_alone(context, walk_share, &w);
}

enum hk_status tool_loop_new(struct hk_loop *out, unsigned threads, struct hk_error *err)
{
    struct hke_pool *pool;
    enum hk_status status = hke_pool_new(threads > 0 ? threads : tool_threads(), &pool, err);
    if (status == HK_OK)
        *out = (struct hk_loop){run_walk, pool};
    return status;
}

void tool_loop_free(struct hk_loop *loop)
{
    struct hke_pool *pool = loop->context;
    hke_pool_free(&pool);
    *loop = (struct hk_loop){0};
}
