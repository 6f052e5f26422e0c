/* diff_tensors.c: tensors that only one file has, and what differs of the others. Bytes are
 * compared first: where they are equal, and stand for the same, nothing needs decoding. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/diff.h"

const char *const diff_ways[DIFF_WAYS] = {"type",       "shape",  "layout", "sparsity",
                                          "block_size", "values", "bytes"};

static struct diff_key *tensor_keys(const struct hk_file *f)
{
    struct diff_key *keys = calloc(hk_tensor_count(f) + 1, sizeof *keys);
    if (keys == NULL)
        tool_nomem();
    for (size_t i = 0; i < hk_tensor_count(f); i++)
        keys[i].name = hk_tensor_at(f, i)->name;
    return keys;
}

/* ---- what the tables say ---- */

/* The field has a value in every entry, but only here a meaning. */
static unsigned used_block_size(const struct hk_tensor *t)
{
    bool used = hk_type_info(t->type)->kind == HK_CLASS_DUAL || t->scale_size > 0;
    return used ? t->block_size : 0;
}

static bool same_tensor_shape(const struct hk_tensor *a, const struct hk_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

static unsigned compare_tensor_entries(const struct hk_tensor *a, const struct hk_tensor *b)
{
    unsigned differs = 0;
    differs |= a->type != b->type ? DIFF_TYPE : 0;
    differs |= same_tensor_shape(a, b) ? 0 : DIFF_SHAPE;
    differs |= a->layout != b->layout ? DIFF_LAYOUT : 0;
    differs |= a->sparsity != b->sparsity ? DIFF_SPARSITY : 0;
    differs |= used_block_size(a) != used_block_size(b) ? DIFF_BLOCK_SIZE : 0;
    return differs;
}

/* ---- what the bytes say ---- */

static bool same_tensor_bytes(const struct diff *d, const struct hk_tensor *a,
                              const struct hk_tensor *b)
{
    return hk_bytes_equal(hk_tensor_data(d->a, a), hk_tensor_data(d->b, b)) &&
           hk_bytes_equal(hk_tensor_scales(d->a, a), hk_tensor_scales(d->b, b)) &&
           hk_bytes_equal(hk_tensor_residual(d->a, a), hk_tensor_residual(d->b, b));
}

/* A reference is compared by what it refers to; one that leads nowhere is refused when it is to be
 * decoded. */
static const struct hk_tensor *referred_tensor(const struct hk_file *f, const struct hk_tensor *t)
{
    const struct hk_tensor *target = t;
    return hk_tensor_resolve(f, t, &target, NULL) == HK_OK ? target : t;
}

struct batch {
    const struct diff *d;
    struct diff_tensor *tensors;
};

static void compare_pair_bytes(void *arg, size_t i)
{
    const struct batch *batch = arg;
    struct diff_tensor *t = &batch->tensors[i];
    if (t->way == DIFF_NOT)
        return;
    const struct hk_tensor *a = referred_tensor(batch->d->a, t->a),
                           *b = referred_tensor(batch->d->b, t->b);
    bool alike = t->head_rows == 0 && (compare_tensor_entries(a, b) & ~(unsigned)DIFF_SHAPE) == 0;
    t->way = DIFF_BY_VALUES;
    if (alike && same_tensor_bytes(batch->d, a, b))
        t->way = DIFF_BY_BYTES;
    else if (alike)
        t->differs |= DIFF_BYTES;
}

static uint64_t pair_bytes(const struct diff *d, const struct diff_tensor *t)
{
    const struct hk_tensor *one =
        t->a != NULL ? referred_tensor(d->a, t->a) : referred_tensor(d->b, t->b);
    return one->data_size + one->scale_size + one->residual_size;
}

/* Which are compared at all. */
static void choose_compared_tensors(const struct diff *d, struct diff_tensor *tensors, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct diff_tensor *t = &tensors[i];
        t->way = DIFF_BY_VALUES;
        if (t->a == NULL || t->b == NULL || t->differs & DIFF_SHAPE)
            t->way = DIFF_NOT;
        else
            (void)diff_affordable(d, t, pair_bytes(d, t), &sum);
    }
}

/* In batches, for the bar. */
static void compare_bytes_of_all(const struct diff *d, struct diff_tensor *tensors, size_t count)
{
    const uint64_t most = 256 << 20;
    uint64_t done = 0, all = 0;
    choose_compared_tensors(d, tensors, count);
    for (size_t i = 0; i < count; i++)
        all += pair_bytes(d, &tensors[i]);
    for (size_t from = 0, to; from < count; from = to) {
        struct batch batch = {d, tensors + from};
        uint64_t size = 0;
        for (to = from; to < count && size < most; to++)
            size += pair_bytes(d, &tensors[to]);
        d->options->loop->run(d->options->loop->context, to - from, compare_pair_bytes, &batch);
        tool_progress("comparing bytes", done += size, all);
    }
    tool_progress("comparing bytes", 1, 1);
}

/* ---- the order of rows ---- */

/* Rows of a head of the pair, if the two files have them in different orders and agree on heads. */
static uint64_t differing_head_rows(const struct diff *d, const struct diff_tensor *t)
{
    if (t->a == NULL || t->b == NULL || !diff_orders_known(d) || d->rotation_a == d->rotation_b)
        return 0;
    const uint64_t rows = hk_tensor_head_rows(d->a, t->a);
    return rows == hk_tensor_head_rows(d->b, t->b) ? rows : 0;
}

/* ---- the verdict ---- */

static bool has_tolerance(const struct diff_options *o)
{
    return !isnan(o->tolerance) || !isnan(o->cosine);
}

static bool is_tolerated(const struct diff_options *o, const struct diff_tensor *t)
{
    const struct diff_sums *s = &t->sums;
    if (!has_tolerance(o) || t->way == DIFF_NOT)
        return false;
    if (t->way == DIFF_BY_BYTES || s->differing == 0)
        return true;
    return s->unlike == 0 && (isnan(o->tolerance) || s->largest <= o->tolerance) &&
           (isnan(o->cosine) || diff_cosine(s) >= o->cosine);
}

static void judge_tensor(struct diff *d, struct diff_tensor *t)
{
    if (t->way == DIFF_BY_VALUES && t->sums.differing > 0)
        t->differs = (t->differs & ~(unsigned)DIFF_BYTES) | DIFF_VALUES;
    bool both = t->a != NULL && t->b != NULL;
    if (both && t->differs == 0 && t->why == NULL)
        d->same++;
    else if (both && is_tolerated(d->options, t))
        d->tolerated++;
    else
        d->tensors[d->tensor_count++] = *t;
}

/* Names alone do not need to know by how much values differ, unless that decides. */
static void skip_value_comparison(struct diff_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tensors[i].way == DIFF_BY_VALUES)
            tensors[i].way = DIFF_NOT;
}

static struct diff_tensor *pair_tensors(const struct diff *d, size_t *count)
{
    struct diff_key *a = tensor_keys(d->a), *b = tensor_keys(d->b);
    struct diff_pair *pairs = diff_join(a, hk_tensor_count(d->a), b, hk_tensor_count(d->b), count);
    struct diff_tensor *tensors = calloc(*count + 1, sizeof *tensors);
    if (tensors == NULL)
        tool_nomem();
    for (size_t i = 0; i < *count; i++) {
        struct diff_tensor *t = &tensors[i];
        t->a = pairs[i].a != DIFF_NONE ? hk_tensor_at(d->a, pairs[i].a) : NULL;
        t->b = pairs[i].b != DIFF_NONE ? hk_tensor_at(d->b, pairs[i].b) : NULL;
        t->differs = t->a != NULL && t->b != NULL ? compare_tensor_entries(t->a, t->b) : 0;
        t->head_rows = differing_head_rows(d, t);
    }
    free(a);
    free(b);
    free(pairs);
    return tensors;
}

void diff_tensors(struct diff *d)
{
    size_t count;
    struct diff_tensor *tensors = pair_tensors(d, &count);
    compare_bytes_of_all(d, tensors, count);
    if (d->options->brief && !has_tolerance(d->options))
        skip_value_comparison(tensors, count);
    diff_values(d, tensors, count);
    d->tensors = tensors; /* those that are kept move up */
    for (size_t i = 0; i < count; i++)
        judge_tensor(d, &tensors[i]);
    d->differ = d->differ || d->tensor_count > 0;
}
