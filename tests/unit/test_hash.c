/* hk_hash(): its results do not depend on the loop, on what else is asked for, or on where tensors
 * lie; and the plain digests against those of other bytes. */
#include <errno.h>
#include <pthread.h>

#include "tests/lib/sample.h"

enum { SIZE = HK_SHA256_SIZE };
typedef uint8_t digest[SIZE];

/* Everything hk_hash() computes of one file. */
struct all {
    digest files[1], tensors[SAMPLE_TENSORS], base;
};

static struct hk_file *opened(const struct image *image)
{
    struct hk_file *f;
    struct hk_error err;
    int fd = memory_file(image);
    must(hk_open_fd(&f, fd, &err), &err, "open");
    close(fd);
    return f;
}

static struct all hash_all(const struct hk_file *f, const struct hk_loop *loop)
{
    struct all a = {0};
    struct hk_error err;
    const struct hk_work work = {.size = sizeof work, .loop = loop};
    const struct hk_hashes want = {
        .size = sizeof want, .files = a.files, .tensors = a.tensors, .base = a.base, .work = &work};
    must(hk_hash(f, &want, &err), &err, "hash");
    return a;
}

static bool is_digest_of(const digest d, const void *p, size_t n)
{
    digest own;
    struct hk_bytes bytes = {p, n};
    struct hk_error err;
    must(hk_sha256_of(&bytes, 1, own, &err), &err, "digest");
    return memcmp(d, own, SIZE) == 0;
}

/* ---- loops ---- */

static void backwards(void *context, size_t n, hk_each_fn *fn, void *arg)
{
    size_t *calls = context;
    for (size_t i = n; i-- > 0; ++*calls)
        fn(arg, i);
}

struct shared {
    size_t n;
    hk_each_fn *fn;
    void *arg;
    size_t next;
};

static void *take(void *context)
{
    struct shared *s = context;
    for (size_t i; (i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->n;)
        s->fn(s->arg, i);
    return NULL;
}

static void in_threads(void *context, size_t n, hk_each_fn *fn, void *arg)
{
    struct shared s = {n, fn, arg, 0};
    pthread_t threads[4];
    (void)context;
    for (size_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, take, &s) != 0)
            exit(2);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* ---- what it computes ---- */

static void check_known(void)
{
    static const uint8_t abc[SIZE] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                      0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                      0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                      0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    digest d;
    struct hk_error err;
    const struct image image = {(uint8_t *)(uintptr_t) "abc", 3};
    int fd = memory_file(&image);
    lseek(fd, 0, SEEK_SET);
    must(hk_hash_fd(fd, d, &err), &err, "descriptor");
    ok(memcmp(d, abc, SIZE) == 0, "SHA-256 of abc is the standard's");
    lseek(fd, 2, SEEK_SET);
    must(hk_hash_fd(fd, d, &err), &err, "descriptor");
    ok(is_digest_of(d, "c", 1), "a descriptor is read from its position");
    close(fd);
    ok(hk_hash_fd(-1, d, &err) == HK_E_IO && err.sys == EBADF, "a bad descriptor is an error");
}

static void check_tensors(const struct hk_file *f, const struct image *image, const struct all *a)
{
    ok(is_digest_of(a->files[0], image->p, image->n), "the file's digest is that of its bytes");
    for (size_t i = 0; i < SAMPLE_TENSORS; i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i == T_SHARED ? T_F32 : i);
        const struct hk_bytes sections[] = {hk_tensor_data(f, t), hk_tensor_scales(f, t),
                                            hk_tensor_residual(f, t)};
        digest three[3];
        for (size_t k = 0; k < 3; k++)
            must(hk_sha256_of(&sections[k], 1, three[k], NULL), NULL, "digest");
        bool good = i == T_DQ4 ? is_digest_of(a->tensors[i], three, sizeof three)
                               : is_digest_of(a->tensors[i], sections[0].p, sections[0].n);
        ok(good, "tensor %.*s", HK_STR(hk_tensor_at(f, i)->name));
    }
}

static void check_loops(const struct hk_file *f, const struct all *a)
{
    size_t calls = 0;
    const struct hk_loop reversed = {backwards, &calls}, threads = {in_threads, NULL};
    struct all b = hash_all(f, &reversed), c = hash_all(f, &threads);
    ok(memcmp(a, &b, sizeof b) == 0 && calls > SAMPLE_TENSORS, "backwards gives the same");
    ok(memcmp(a, &c, sizeof c) == 0, "threads give the same");
}

static void check_chosen(const struct hk_file *f, const struct all *a)
{
    for (size_t i = 0; i < SAMPLE_TENSORS; i++) {
        digest tensors[SAMPLE_TENSORS] = {{0}}, none = {0};
        bool chosen[SAMPLE_TENSORS] = {0};
        size_t calls = 0;
        const struct hk_loop loop = {backwards, &calls};
        const struct hk_work work = {.size = sizeof work, .loop = &loop};
        chosen[i] = true;
        struct hk_error err;
        must(hk_hash(f,
                     &(struct hk_hashes){.size = sizeof(struct hk_hashes),
                                         .tensors = tensors,
                                         .chosen = chosen,
                                         .work = &work},
                     &err),
             &err, "chosen");
        bool alone = true;
        for (size_t k = 0; k < SAMPLE_TENSORS; k++)
            alone = alone && memcmp(tensors[k], k == i ? a->tensors[i] : none, SIZE) == 0;
        ok(alone && calls == 3, "tensor %zu alone", i);
    }
}

static void check_base(const struct hk_file *f, const struct all *a)
{
    digest base;
    struct hk_error err;
    must(hk_base_digest(f, base, &err), &err, "base");
    ok(memcmp(base, a->base, SIZE) == 0, "the base digest alone is the same");
    struct image moved = sample(4096, 3);
    struct hk_file *g = opened(&moved);
    struct all b = hash_all(g, NULL);
    ok(memcmp(a->base, b.base, SIZE) == 0 && memcmp(a->tensors, b.tensors, sizeof b.tensors) == 0,
       "other places and more records: the same base and tensors");
    ok(memcmp(a->files, b.files, SIZE) != 0, "and another file");
    hk_close(&g);
    free(moved.p);
}

/* ---- progress ---- */

struct seen {
    uint64_t last, all;
    unsigned calls;
    bool falls;
};

static void see(void *arg, uint64_t done, uint64_t all)
{
    struct seen *s = arg;
    s->falls = s->falls || done < s->last || done > all;
    *s = (struct seen){done, all, s->calls + 1, s->falls};
}

static void check_progress(const struct hk_file *f)
{
    struct all a;
    struct seen seen = {0};
    struct hk_error err;
    const struct hk_work work = {.size = sizeof work, .progress = see, .arg = &seen};
    struct hk_hashes want = {.size = sizeof want, .files = a.files, .base = a.base, .work = &work};
    must(hk_hash(f, &want, &err), &err, "hash");
    ok(seen.calls > 1 && !seen.falls && seen.last == seen.all && seen.all > hk_file_size(f),
       "progress rises to the end");
}

int main(void)
{
    check_known();
    struct image image = sample(128, 1);
    struct hk_file *f = opened(&image);
    struct all a = hash_all(f, NULL);
    check_tensors(f, &image, &a);
    check_loops(f, &a);
    check_chosen(f, &a);
    check_base(f, &a);
    check_progress(f);
    hk_close(&f);
    free(image.p);
    return tap_done();
}
