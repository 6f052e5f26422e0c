/* What a shared_ref shares. The format stores its target's offsets but neither its index nor its
 * type, and the reference's C and Python savers store no offsets at all, only the shape
 * (format-notes section 3). Targets are kept sorted, so that a table made of references costs no
 * more than any other. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/file.h"

static bool is_reference(const struct hk_tensor *t)
{
    return t->type == HK_TYPE_SHARED_REF || t->type == HK_TYPE_NULL_REF;
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_bytes(const struct hk_tensor *a, const struct hk_tensor *b)
{
    int c = order(a->part, b->part);
    c = c != 0 ? c : order(a->data_offset, b->data_offset);
    return c != 0 ? c : order(a->data_size, b->data_size);
}

static int compare_shape(const struct hk_tensor *a, const struct hk_tensor *b)
{
    int c = order(a->part, b->part);
    c = c != 0 ? c : order(a->ndim, b->ndim);
    for (unsigned i = 0; c == 0 && i < a->ndim; i++)
        c = order(a->shape[i], b->shape[i]);
    return c;
}

typedef int compare_fn(const struct hk_tensor *, const struct hk_tensor *);

struct sorting {
    const struct hk_tensor *tensors;
    compare_fn *compare;
};

static int compare_entries(const void *pa, const void *pb, void *arg)
{
    const struct sorting *s = arg;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int c = s->compare(&s->tensors[a], &s->tensors[b]);
    return c != 0 ? c : order(a, b);
}

static bool build(struct hk_file *f, struct hk_index *x, compare_fn *compare)
{
    struct sorting s = {f->tensors, compare};
    x->order = malloc((f->tensor_count + 1) * sizeof *x->order);
    if (x->order == NULL)
        return false;
    for (size_t i = 0; i < f->tensor_count; i++)
        if (!is_reference(&f->tensors[i]))
            x->order[x->count++] = (uint32_t)i;
    qsort_r(x->order, x->count, sizeof *x->order, compare_entries, &s);
    return true;
}

enum hk_status hk_build_targets(struct hk_file *f, struct hk_error *err)
{
    size_t shared = 0;
    for (size_t i = 0; i < f->tensor_count; i++)
        shared += f->tensors[i].type == HK_TYPE_SHARED_REF;
    if (shared == 0)
        return HK_OK;
    bool good = f->tensor_count < UINT32_MAX && build(f, &f->by_bytes, compare_bytes) &&
                build(f, &f->by_shape, compare_shape);
    return good ? HK_OK : hk_fail_nomem(err);
}

/* Position of the first entry of X that is not below T. */
static size_t lower_bound(const struct hk_file *f, const struct hk_index *x,
                          const struct hk_tensor *t, compare_fn *compare)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&f->tensors[x->order[middle]], t) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry at position AT if it is equal to T by COMPARE, else NULL. */
static const struct hk_tensor *equal_at(const struct hk_file *f, const struct hk_index *x,
                                        size_t at, const struct hk_tensor *t, compare_fn *compare)
{
    const struct hk_tensor *found = at < x->count ? &f->tensors[x->order[at]] : NULL;
    return found != NULL && compare(found, t) == 0 ? found : NULL;
}

static enum hk_status unresolved(const struct hk_tensor *t, const char *why, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s: shared_ref %s", HK_STR(t->name),
                   why);
}

/* Scales are the target's or not noted, and so is a residual, which the reference never notes. */
static bool same_extras(const struct hk_tensor *t, const struct hk_tensor *target)
{
    bool scales = t->scale_offset == target->scale_offset && t->scale_size == target->scale_size;
    bool residual =
        t->residual_offset == target->residual_offset && t->residual_size == target->residual_size;
    return (scales || t->scale_size == 0) && (residual || t->residual_size == 0);
}

/* Offsets name the target; any position in the table will do, since only one tensor can own the
 * bytes. */
static enum hk_status by_bytes(const struct hk_file *f, const struct hk_tensor *t,
                               const struct hk_tensor **out, struct hk_error *err)
{
    size_t at = lower_bound(f, &f->by_bytes, t, compare_bytes);
    const struct hk_tensor *target = equal_at(f, &f->by_bytes, at, t, compare_bytes);
    if (target == NULL)
        return unresolved(t, "points at no tensor", err);
    if (hk_tensor_elems(target) != hk_tensor_elems(t))
        return unresolved(t, "has another number of elements than its target", err);
    *out = target;
    return HK_OK;
}

/* Entries of one shape are in table order, so the first two decide. */
static enum hk_status by_shape(const struct hk_file *f, const struct hk_tensor *t,
                               const struct hk_tensor **out, struct hk_error *err)
{
    size_t at = lower_bound(f, &f->by_shape, t, compare_shape);
    const struct hk_tensor *first = equal_at(f, &f->by_shape, at, t, compare_shape);
    const struct hk_tensor *second = equal_at(f, &f->by_shape, at + 1, t, compare_shape);
    if (first == NULL || first > t)
        return unresolved(t, "without bytes fits no earlier tensor", err);
    if (second != NULL && second < t)
        return unresolved(t, "without bytes fits more than one earlier tensor", err);
    *out = first;
    return HK_OK;
}

enum hk_status hk_tensor_resolve(const struct hk_file *f, const struct hk_tensor *t,
                                 const struct hk_tensor **out, struct hk_error *err)
{
    const struct hk_tensor *target = t;
    enum hk_status status = t->type != HK_TYPE_SHARED_REF ? HK_OK
                            : t->data_size > 0            ? by_bytes(f, t, &target, err)
                                                          : by_shape(f, t, &target, err);
    if (status == HK_OK && target != t && !same_extras(t, target))
        status = unresolved(t, "has other scales or another residual than its target", err);
    if (status == HK_OK)
        *out = target;
    return status;
}
