/* hk_hash(): the SHA-256 digests of a file's parts and tensors, each a task of the caller's loop,
 * and of them the base digest: what the tensors are, whatever their place in the file. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/base/sha256.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/hk/file.h"

/* ---- ranges of mapped bytes in the caller's loop ---- */

struct hk_hash_task {
    struct hk_bytes bytes;
    const struct hk_part *part; /* whose pages are given back once they are read */
    uint8_t *digest;            /* where it goes */
    bool failed;
};

struct hk_hashing {
    struct hk_hash_task *tasks;
    size_t count;
    uint64_t all; /* bytes of all tasks */
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
    atomic_uint_fast64_t done; /* bytes so far */
    atomic_flag reporting;     /* one reports at a time, the others go on */
};

enum {
    CHUNK = 4 << 20,       /* between two reports, and pages given back at a time */
    SMALL_CHUNK = 1 << 16, /* not worth giving back */
    READ_SIZE = 256 << 10, /* a read from a descriptor */
};

static void report_hashed(struct hk_hashing *h, size_t n)
{
    uint64_t done = atomic_fetch_add(&h->done, n) + n;
    if (h->progress == NULL || atomic_flag_test_and_set(&h->reporting))
        return;
    h->progress(h->arg, done, h->all);
    atomic_flag_clear(&h->reporting);
}

/* Whether B lies in PART's own mapping: only such pages come back with what they held once they are
 * let go of. */
static bool is_of_mapping(const struct hk_part *part, struct hk_bytes b)
{
    const uintptr_t map = (uintptr_t)part->map, from = (uintptr_t)b.p;
    return part->map != NULL && !part->borrowed && from >= map && from + b.n <= map + part->size;
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
    if (next.n > SMALL_CHUNK && is_of_mapping(t->part, next))
        hk_sys_read_ahead(next.p, next.n);
    enum hk_status st = hk_sha256_add(sha, chunk.p, chunk.n, NULL);
    if (chunk.n > SMALL_CHUNK && is_of_mapping(t->part, chunk))
        hk_sys_let_go(chunk.p, chunk.n);
    return st;
}

static enum hk_status hash_range(struct hk_hashing *h, const struct hk_hash_task *t)
{
    struct hk_sha256 *sha;
    enum hk_status st = hk_sha256_new(&sha, NULL);
    if (st != HK_OK)
        return st;
    for (size_t at = 0, n; st == HK_OK && at < t->bytes.n; at += n) {
        n = chunk_at(t, at).n;
        st = hash_chunk(sha, t, at);
        report_hashed(h, n);
    }
    if (st == HK_OK)
        return hk_sha256_done(&sha, t->digest, NULL);
    hk_sha256_free(&sha);
    return st;
}

static void run_hash_task(void *arg, size_t i)
{
    struct hk_hashing *h = arg;
    h->tasks[i].failed = hash_range(h, &h->tasks[i]) != HK_OK;
}

static enum hk_status run_hash_tasks(struct hk_hashing *h, const struct hk_loop *loop,
                                     struct hk_error *err)
{
    atomic_init(&h->done, 0);
    atomic_flag_clear(&h->reporting);
    if (loop != NULL)
        loop->run(loop->context, h->count, run_hash_task, h);
    for (size_t i = 0; i < h->count; i++) {
        if (loop == NULL)
            run_hash_task(h, i);
        if (h->tasks[i].failed)
            return hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "SHA-256 failed in libcrypto");
    }
    if (h->progress != NULL)
        h->progress(h->arg, h->all, h->all);
    return HK_OK;
}

static enum hk_status hash_descriptor(struct hk_sha256 *sha, int fd, uint8_t *buffer,
                                      struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (ssize_t n = 1; st == HK_OK && n != 0;) {
        n = read(fd, buffer, READ_SIZE);
        if (n > 0)
            st = hk_sha256_add(sha, buffer, (size_t)n, err);
        else if (n < 0 && errno != EINTR)
            st = hk_fail_sys(err, errno, "cannot read");
    }
    return st;
}

enum hk_status hk_hash_fd(int fd, uint8_t out[HK_SHA256_SIZE], struct hk_error *err)
{
    struct hk_sha256 *sha = NULL;
    uint8_t *buffer = malloc(READ_SIZE);
    enum hk_status st = buffer == NULL ? hk_fail_nomem(err) : hk_sha256_new(&sha, err);
    if (st == HK_OK)
        st = hash_descriptor(sha, fd, buffer, err);
    if (st == HK_OK)
        st = hk_sha256_done(&sha, out, err);
    else
        hk_sha256_free(&sha);
    free(buffer);
    return st;
}

/* ---- a file ---- */

enum { SECTIONS = 3 };

/* Digests of a tensor's data, scales and residual. */
struct digests {
    uint8_t of[SECTIONS][HK_SHA256_SIZE];
};

struct plan {
    const struct hk_file *f;
    const struct hk_hashes *want;
    const struct hk_tensor **owners; /* of each tensor: itself, or what it refers to */
    struct digests *sections;        /* of owners only */
    bool *taken;                     /* an owner's sections have their tasks */
    struct hk_hashing hashing;
};

static void sections_of_tensor(const struct hk_file *f, const struct hk_tensor *t,
                               struct hk_bytes out[SECTIONS])
{
    out[0] = hk_tensor_data(f, t);
    out[1] = hk_tensor_scales(f, t);
    out[2] = hk_tensor_residual(f, t);
}

static bool is_tensor_wanted(const struct plan *p, size_t i)
{
    const struct hk_hashes *w = p->want;
    return w->base != NULL || (w->tensors != NULL && (w->chosen == NULL || w->chosen[i]));
}

static void add_hash_task(struct plan *p, struct hk_bytes bytes, uint32_t part, uint8_t *digest)
{
    p->hashing.all += bytes.n;
    p->hashing.tasks[p->hashing.count++] =
        (struct hk_hash_task){.bytes = bytes, .part = &p->f->parts[part], .digest = digest};
}

/* A table of references to one large tensor costs that tensor once. */
static enum hk_status plan_tensor_hash(struct plan *p, size_t i, struct hk_error *err)
{
    const struct hk_file *f = p->f;
    struct hk_bytes bytes[SECTIONS];
    enum hk_status st = hk_tensor_resolve(f, &f->tensors[i], &p->owners[i], err);
    if (st == HK_OK)
        st = hk_refuse_made(p->owners[i], err);
    if (st != HK_OK)
        return st;
    size_t owner = (size_t)(p->owners[i] - f->tensors);
    if (p->taken[owner])
        return HK_OK;
    p->taken[owner] = true;
    sections_of_tensor(f, p->owners[i], bytes);
    for (size_t k = 0; k < SECTIONS; k++)
        add_hash_task(p, bytes[k], p->owners[i]->part, p->sections[owner].of[k]);
    return HK_OK;
}

/* Whole files come first: nothing else takes as long. */
static enum hk_status plan_hashes(struct plan *p, struct hk_error *err)
{
    const struct hk_file *f = p->f;
    enum hk_status st = HK_OK;
    for (uint32_t i = 0; i < f->part_count && p->want->files != NULL; i++)
        add_hash_task(p, (struct hk_bytes){f->parts[i].map, (size_t)f->parts[i].size}, i,
                      p->want->files[i]);
    for (size_t i = 0; st == HK_OK && i < f->tensor_count; i++)
        if (is_tensor_wanted(p, i))
            st = plan_tensor_hash(p, i, err);
    return st;
}

/* ---- what is made of the sections' digests ---- */

static const struct digests *section_digests(const struct plan *p, size_t i)
{
    return &p->sections[p->owners[i] - p->f->tensors];
}

/* Of a tensor with data only, which is nearly every one, what any other program finds too. */
static enum hk_status put_tensor_digest(const struct plan *p, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = p->owners[i];
    const struct digests *d = section_digests(p, i);
    const struct hk_bytes all = {d->of[0], sizeof d->of};
    if (t->scale_size > 0 || t->residual_size > 0)
        return hk_sha256_of(&all, 1, p->want->tensors[i], err);
    memcpy(p->want->tensors[i], d->of[0], HK_SHA256_SIZE);
    return HK_OK;
}

/* A block size of 0 becomes 32 whenever a .hk is written, so it is 32 here too. */
static enum hk_status hash_tensor_entry(struct hk_sha256 *h, const struct hk_tensor *t,
                                        const struct digests *digests, struct hk_error *err)
{
    uint8_t type[2], shape[8 * HK_MAX_DIMS], block_size[2];
    put16(type, t->type);
    put16(block_size, t->block_size == 0 ? 32 : t->block_size);
    for (size_t i = 0; i < t->ndim; i++)
        put64(shape + 8 * i, t->shape[i]);
    const struct hk_bytes fields[] = {
        t->name,           {type, sizeof type},   {&t->layout, 1},
        {&t->sparsity, 1}, {shape, 8u * t->ndim}, {block_size, sizeof block_size}};
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < sizeof fields / sizeof *fields; i++)
        st = hk_sha256_field(h, fields[i].p, fields[i].n, err);
    for (size_t k = 0; st == HK_OK && k < SECTIONS; k++)
        st = hk_sha256_field(h, digests->of[k], HK_SHA256_SIZE, err);
    return st;
}

static enum hk_status put_base_digest(const struct plan *p, struct hk_error *err)
{
    struct hk_sha256 *h;
    enum hk_status st = hk_sha256_new(&h, err);
    if (st != HK_OK)
        return st;
    for (size_t i = 0; st == HK_OK && i < p->f->tensor_count; i++)
        st = hash_tensor_entry(h, &p->f->tensors[i], section_digests(p, i), err);
    if (st == HK_OK)
        return hk_sha256_done(&h, p->want->base, err);
    hk_sha256_free(&h);
    return st;
}

static enum hk_status combine_digests(const struct plan *p, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < p->f->tensor_count && p->want->tensors != NULL; i++)
        if (p->want->chosen == NULL || p->want->chosen[i])
            st = put_tensor_digest(p, i, err);
    return st == HK_OK && p->want->base != NULL ? put_base_digest(p, err) : st;
}

static enum hk_status hash_wanted(const struct hk_file *f, const struct hk_hashes *h,
                                  const struct hk_work *w, struct hk_error *err)
{
    if (f->stream != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a stream has no bytes to go back to");
    enum hk_status st = hk_refuse_cut(f, err);
    if (st != HK_OK)
        return st;
    struct plan p = {.f = f, .want = h, .hashing = {.progress = w->progress, .arg = w->arg}};
    const size_t tensors = f->tensor_count, most = f->part_count + SECTIONS * tensors;
    p.owners = calloc(tensors + 1, sizeof(const struct hk_tensor *));
    p.sections = calloc(tensors + 1, sizeof *p.sections);
    p.taken = calloc(tensors + 1, sizeof *p.taken);
    p.hashing.tasks = calloc(most + 1, sizeof *p.hashing.tasks);
    bool good =
        p.owners != NULL && p.sections != NULL && p.taken != NULL && p.hashing.tasks != NULL;
    st = good ? plan_hashes(&p, err) : hk_fail_nomem(err);
    if (st == HK_OK)
        st = run_hash_tasks(&p.hashing, w->loop, err);
    if (st == HK_OK)
        st = combine_digests(&p, err);
    free(p.owners);
    free(p.sections);
    free(p.taken);
    free(p.hashing.tasks);
    return st;
}

enum hk_status hk_hash(const struct hk_file *f, const struct hk_hashes *h, struct hk_error *err)
{
    struct hk_hashes want;
    struct hk_work work;
    enum hk_status st = hk_read_options(&want, sizeof want, h, err);
    if (st == HK_OK)
        st = hk_read_options(&work, sizeof work, want.work, err);
    return st == HK_OK ? hash_wanted(f, &want, &work, err) : st;
}

enum hk_status hk_base_digest(const struct hk_file *f, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    return hk_hash(f, &(struct hk_hashes){.size = sizeof(struct hk_hashes), .base = out}, err);
}
