/* hk_hash(): the digests of a file's parts and tensors, each a task of the caller's loop, and of
 * them the base digest: what the tensors are, whatever their place in the file. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/hash.h"

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

static void sections_of(const struct hk_file *f, const struct hk_tensor *t,
                        struct hk_bytes out[SECTIONS])
{
    out[0] = hk_tensor_data(f, t);
    out[1] = hk_tensor_scales(f, t);
    out[2] = hk_tensor_residual(f, t);
}

static bool wanted(const struct plan *p, size_t i)
{
    const struct hk_hashes *w = p->want;
    return w->base != NULL || (w->tensors != NULL && (w->chosen == NULL || w->chosen[i]));
}

static void add_task(struct plan *p, struct hk_bytes bytes, uint32_t part, uint8_t *digest)
{
    p->hashing.all += bytes.n;
    p->hashing.tasks[p->hashing.count++] =
        (struct hk_hash_task){.bytes = bytes, .part = &p->f->parts[part], .digest = digest};
}

/* A table of references to one large tensor costs that tensor once. */
static enum hk_status plan_tensor(struct plan *p, size_t i, struct hk_error *err)
{
    const struct hk_file *f = p->f;
    struct hk_bytes bytes[SECTIONS];
    enum hk_status status = hk_tensor_resolve(f, &f->tensors[i], &p->owners[i], err);
    if (status != HK_OK)
        return status;
    size_t owner = (size_t)(p->owners[i] - f->tensors);
    if (p->taken[owner])
        return HK_OK;
    p->taken[owner] = true;
    sections_of(f, p->owners[i], bytes);
    for (size_t k = 0; k < SECTIONS; k++)
        add_task(p, bytes[k], p->owners[i]->part, p->sections[owner].of[k]);
    return HK_OK;
}

/* Whole files come first: nothing else takes as long. */
static enum hk_status plan_all(struct plan *p, struct hk_error *err)
{
    const struct hk_file *f = p->f;
    enum hk_status status = HK_OK;
    for (uint32_t i = 0; i < f->part_count && p->want->files != NULL; i++)
        add_task(p, (struct hk_bytes){f->parts[i].map, (size_t)f->parts[i].size}, i,
                 p->want->files[i]);
    for (size_t i = 0; status == HK_OK && i < f->tensor_count; i++)
        if (wanted(p, i))
            status = plan_tensor(p, i, err);
    return status;
}

/* ---- what is made of the sections' digests ---- */

static const struct digests *digests_of(const struct plan *p, size_t i)
{
    return &p->sections[p->owners[i] - p->f->tensors];
}

/* Of a tensor with data only, which is nearly every one, what any other program finds too. */
static enum hk_status tensor_digest(const struct plan *p, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = p->owners[i];
    const struct digests *d = digests_of(p, i);
    const struct hk_bytes all = {d->of[0], sizeof d->of};
    if (t->scale_size > 0 || t->residual_size > 0)
        return hk_sha256_of(&all, 1, p->want->tensors[i], err);
    memcpy(p->want->tensors[i], d->of[0], HK_SHA256_SIZE);
    return HK_OK;
}

/* A block size of 0 becomes 32 whenever a .hk is written, so it is 32 here too. */
static enum hk_status add_tensor(struct hk_sha256 *h, const struct hk_tensor *t,
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
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < sizeof fields / sizeof *fields; i++)
        status = hk_sha256_field(h, fields[i].p, fields[i].n, err);
    for (size_t k = 0; status == HK_OK && k < SECTIONS; k++)
        status = hk_sha256_field(h, digests->of[k], HK_SHA256_SIZE, err);
    return status;
}

static enum hk_status base_digest(const struct plan *p, struct hk_error *err)
{
    struct hk_sha256 *h;
    enum hk_status status = hk_sha256_new(&h, err);
    if (status != HK_OK)
        return status;
    for (size_t i = 0; status == HK_OK && i < p->f->tensor_count; i++)
        status = add_tensor(h, &p->f->tensors[i], digests_of(p, i), err);
    if (status == HK_OK)
        return hk_sha256_done(&h, p->want->base, err);
    hk_sha256_free(&h);
    return status;
}

static enum hk_status combine(const struct plan *p, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < p->f->tensor_count && p->want->tensors != NULL; i++)
        if (p->want->chosen == NULL || p->want->chosen[i])
            status = tensor_digest(p, i, err);
    return status == HK_OK && p->want->base != NULL ? base_digest(p, err) : status;
}

static enum hk_status hash_wanted(const struct hk_file *f, const struct hk_hashes *h,
                                  const struct hk_work *w, struct hk_error *err)
{
    if (f->stream != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a stream has no bytes to go back to");
    struct plan p = {.f = f, .want = h, .hashing = {.progress = w->progress, .arg = w->arg}};
    const size_t tensors = f->tensor_count, most = f->part_count + SECTIONS * tensors;
    p.owners = calloc(tensors + 1, sizeof(const struct hk_tensor *));
    p.sections = calloc(tensors + 1, sizeof *p.sections);
    p.taken = calloc(tensors + 1, sizeof *p.taken);
    p.hashing.tasks = calloc(most + 1, sizeof *p.hashing.tasks);
    bool good =
        p.owners != NULL && p.sections != NULL && p.taken != NULL && p.hashing.tasks != NULL;
    enum hk_status status = good ? plan_all(&p, err) : hk_fail_nomem(err);
    if (status == HK_OK)
        status = hk_hash_tasks(&p.hashing, w->loop, err);
    if (status == HK_OK)
        status = combine(&p, err);
    free(p.owners);
    free(p.sections);
    free(p.taken);
    free(p.hashing.tasks);
    return status;
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
