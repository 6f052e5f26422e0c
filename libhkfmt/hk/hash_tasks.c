/* SHA-256 of many ranges of mapped bytes in the caller's parallel loop, or of a descriptor's. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/hash.h"

enum {
    CHUNK = 4 << 20,       /* between two reports, and pages given back at a time */
    SMALL_CHUNK = 1 << 16, /* not worth giving back */
    READ_SIZE = 256 << 10, /* a read from a descriptor */
};

static void report(struct hk_hashing *h, size_t n)
{
    uint64_t done = atomic_fetch_add(&h->done, n) + n;
    if (h->progress == NULL || atomic_flag_test_and_set(&h->reporting))
        return;
    h->progress(h->arg, done, h->all);
    atomic_flag_clear(&h->reporting);
}

/* Advise on the whole pages of B, if they are of PART's mapping: only such pages come back with
 * what they held once they are dropped. */
static void advise(const struct hk_part *part, struct hk_bytes b, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), map = (uintptr_t)part->map;
    uintptr_t from = (uintptr_t)b.p, to = from + b.n;
    if (part->map == NULL || from < map || to > map + part->size)
        return;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to)
        (void)madvise((void *)from, to - from, advice);
}

/* The chunk of T that begins at AT. */
static struct hk_bytes chunk_at(const struct hk_hash_task *t, size_t at)
{
    size_t left = at < t->bytes.n ? t->bytes.n - at : 0;
    return (struct hk_bytes){left > 0 ? t->bytes.p + at : NULL, left < CHUNK ? left : CHUNK};
}

/* The next chunk is on its way while one is hashed, and then that one is given back: of a model as
 * large as memory no more than this need be resident. */
static enum hk_status hash_chunk(struct hk_sha256 *sha, const struct hk_hash_task *t, size_t at)
{
    struct hk_bytes chunk = chunk_at(t, at), next = chunk_at(t, at + chunk.n);
    if (next.n > SMALL_CHUNK)
        advise(t->part, next, MADV_WILLNEED);
    enum hk_status status = hk_sha256_add(sha, chunk.p, chunk.n, NULL);
    if (chunk.n > SMALL_CHUNK)
        advise(t->part, chunk, MADV_DONTNEED);
    return status;
}

static enum hk_status hash_range(struct hk_hashing *h, const struct hk_hash_task *t)
{
    struct hk_sha256 *sha;
    enum hk_status status = hk_sha256_new(&sha, NULL);
    if (status != HK_OK)
        return status;
    for (size_t at = 0, n; status == HK_OK && at < t->bytes.n; at += n) {
        n = chunk_at(t, at).n;
        status = hash_chunk(sha, t, at);
        report(h, n);
    }
    if (status == HK_OK)
        return hk_sha256_done(&sha, t->digest, NULL);
    hk_sha256_free(&sha);
    return status;
}

static void run_task(void *arg, size_t i)
{
    struct hk_hashing *h = arg;
    h->tasks[i].failed = hash_range(h, &h->tasks[i]) != HK_OK;
}

enum hk_status hk_hash_tasks(struct hk_hashing *h, const struct hk_loop *loop, struct hk_error *err)
{
    atomic_init(&h->done, 0);
    atomic_flag_clear(&h->reporting);
    if (loop != NULL)
        loop->run(loop->context, h->count, run_task, h);
    for (size_t i = 0; i < h->count; i++) {
        if (loop == NULL)
            run_task(h, i);
        if (h->tasks[i].failed)
            return hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "SHA-256 failed in libcrypto");
    }
    if (h->progress != NULL)
        h->progress(h->arg, h->all, h->all);
    return HK_OK;
}

static enum hk_status add_all(struct hk_sha256 *sha, int fd, uint8_t *buffer, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (ssize_t n = 1; status == HK_OK && n != 0;) {
        n = read(fd, buffer, READ_SIZE);
        if (n > 0)
            status = hk_sha256_add(sha, buffer, (size_t)n, err);
        else if (n < 0 && errno != EINTR)
            status = hk_fail_sys(err, errno, "cannot read");
    }
    return status;
}

enum hk_status hk_hash_fd(int fd, uint8_t out[HK_SHA256_SIZE], struct hk_error *err)
{
    struct hk_sha256 *sha = NULL;
    uint8_t *buffer = malloc(READ_SIZE);
    enum hk_status status = buffer == NULL ? hk_fail_nomem(err) : hk_sha256_new(&sha, err);
    if (status == HK_OK)
        status = add_all(sha, fd, buffer, err);
    if (status == HK_OK)
        status = hk_sha256_done(&sha, out, err);
    else
        hk_sha256_free(&sha);
    free(buffer);
    return status;
}
