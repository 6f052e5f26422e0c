/* Tensors of an adapter: their values in the order of the base's rows, and those that it carries
 * without having trained them: PEFT saves lm_head.base_layer.weight beside a pair for the head.
 * They have to be the base's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/tensor/narrow.h"

enum hk_status hk_adapter_misfit(const struct hk_tensor *t, const char *why, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s: %s", HK_STR(t->name), why);
}

static float *alloc_floats(struct hk_adapter_reading *r, uint64_t n)
{
    return n < SIZE_MAX / sizeof(float)
               ? hk_arena_alloc(&r->a->arena, (size_t)(n + 1) * sizeof(float))
               : NULL;
}

enum hk_status hk_adapter_decode(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                 float **out, struct hk_error *err)
{
    struct hk_decoder *d;
    float *v = alloc_floats(r, hk_tensor_elems(t));
    if (v == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_decoder_new(&d, r->payload, t, err);
    if (st != HK_OK)
        return st;
    hk_decoder_read(d, 0, (size_t)hk_tensor_elems(t), v);
    hk_decoder_free(&d);
    *out = v;
    return HK_OK;
}

/* ROWS rows of COLS values, halves of each head, into neighbouring pairs. */
static enum hk_status order_rows_in_pairs(struct hk_adapter_reading *r, float **values,
                                          uint64_t rows, uint64_t cols, uint32_t heads,
                                          struct hk_error *err)
{
    const uint64_t length = rows / heads;
    if (rows % heads != 0 || length % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%llu rows are no %u heads of even length",
                       (unsigned long long)rows, heads);
    float *v = alloc_floats(r, rows * cols);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t from = hk_row_source(HK_ROWS_TO_PAIRS, length, i);
        memcpy(v + i * cols, *values + from * cols, (size_t)cols * sizeof *v);
    }
    *values = v;
    return HK_OK;
}

enum hk_status hk_adapter_decode_rows(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                      const struct hk_tensor *base, float **out,
                                      struct hk_error *err)
{
    const uint32_t heads = hk_rotating_heads(&r->base.model, base->name);
    enum hk_status st = hk_adapter_decode(r, t, out, err);
    if (st != HK_OK || hk_turns_as_in_hf(&r->base.model) || heads == 0)
        return st;
    const uint64_t rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    return order_rows_in_pairs(r, out, rows, rows > 0 ? hk_tensor_elems(t) / rows : 0, heads, err);
}

enum hk_status hk_adapter_decode_transposed(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                            float **out, struct hk_error *err)
{
    struct hk_decoder *d;
    const uint64_t rows = t->shape[0], cols = t->shape[1];
    float *v = alloc_floats(r, hk_tensor_elems(t)), *row = malloc((size_t)cols * sizeof *row + 1);
    enum hk_status st = v == NULL || row == NULL ? hk_fail_nomem(err) : HK_OK;
    if (st == HK_OK)
        st = hk_decoder_new(&d, r->payload, t, err);
    if (st == HK_OK) {
        for (uint64_t i = 0; i < rows; i++) {
            hk_decoder_read(d, i * cols, (size_t)cols, row);
            for (uint64_t k = 0; k < cols; k++)
                v[k * rows + i] = row[k];
        }
        hk_decoder_free(&d);
        *out = v;
    }
    free(row);
    return st;
}

/* ---- copies ---- */

struct comparing {
    struct hk_decoder *copy, *base;
    enum hk_type narrow; /* the base's type if a float, f32 else */
    enum hk_type copied; /* the copy's, likewise */
    uint64_t rows, cols;
    enum hk_row_order order;
    uint64_t length; /* of a head */
    float *a, *b;
    uint8_t *narrowed[2];
    bool same;
    double difference, size; /* sums of squares */
};

static enum hk_type float_type_of(const struct hk_tensor *t)
{
    return t->type == HK_TYPE_F16 || t->type == HK_TYPE_BF16 ? (enum hk_type)t->type : HK_TYPE_F32;
}

static bool are_equal_as(struct comparing *c, enum hk_type type)
{
    const size_t n = (size_t)c->cols * hk_type_info(type)->block_bytes;
    hk_narrow(type, c->a, (size_t)c->cols, c->narrowed[0]);
    hk_narrow(type, c->b, (size_t)c->cols, c->narrowed[1]);
    return memcmp(c->narrowed[0], c->narrowed[1], n) == 0;
}

static void compare_rows(struct comparing *c)
{
    for (uint64_t r = 0; r < c->rows; r++) {
        hk_decoder_read(c->copy, hk_row_source(c->order, c->length, r) * c->cols, (size_t)c->cols,
                        c->a);
        hk_decoder_read(c->base, r * c->cols, (size_t)c->cols, c->b);
        c->same = c->same && (are_equal_as(c, c->narrow) || are_equal_as(c, c->copied));
        for (uint64_t k = 0; k < c->cols; k++) {
            const double d = (double)c->a[k] - (double)c->b[k];
            c->difference += d * d;
            c->size += (double)c->a[k] * (double)c->a[k];
        }
    }
}

/* A quantised base is not bit for bit what the adapter was trained on: with B bits a weight it may
 * be off by 4 / 2^B of its size, twice what good quantisers leave. */
static bool is_near(const struct comparing *c, const struct hk_tensor *base)
{
    const double bits = 8 * (double)base->data_size / (double)(c->rows * c->cols);
    return sqrt(c->difference) <= 4 * exp2(-bits) * sqrt(c->size);
}

static bool is_float_tensor(const struct hk_tensor *t)
{
    return t->type == HK_TYPE_F32 || t->type == HK_TYPE_F16 || t->type == HK_TYPE_BF16;
}

static enum hk_status begin_comparing(struct comparing *c, struct hk_adapter_reading *r,
                                      const struct hk_tensor *t, const struct hk_tensor *base,
                                      struct hk_error *err)
{
    const uint32_t heads = hk_rotating_heads(&r->base.model, base->name);
    const size_t bytes = (size_t)c->cols * sizeof(float) + 1;
    if (!hk_turns_as_in_hf(&r->base.model) && heads > 0) {
        c->order = HK_ROWS_TO_PAIRS;
        c->length = c->rows / heads;
        if (c->rows % heads != 0 || c->length % 2 != 0)
            return hk_adapter_misfit(t, "its rows are no heads of even length", err);
    }
    c->a = malloc(bytes);
    c->b = malloc(bytes);
    c->narrowed[0] = malloc(bytes);
    c->narrowed[1] = malloc(bytes);
    if (c->a == NULL || c->b == NULL || c->narrowed[0] == NULL || c->narrowed[1] == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_decoder_new(&c->copy, r->payload, t, err);
    return st == HK_OK ? hk_decoder_new(&c->base, r->base.file, base, err) : st;
}

static enum hk_status compare_copy(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                   const struct hk_tensor *base, struct hk_error *err)
{
    const struct hk_tensor *stored;
    enum hk_status st = hk_tensor_resolve(r->base.file, base, &stored, err);
    if (st != HK_OK)
        return st;
    struct comparing c = {.narrow = float_type_of(stored),
                          .copied = float_type_of(t),
                          .rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t),
                          .same = true};
    c.cols = c.rows > 0 ? hk_tensor_elems(t) / c.rows : 0;
    st = begin_comparing(&c, r, t, base, err);
    if (st == HK_OK) {
        compare_rows(&c);
        if (is_float_tensor(stored) ? !c.same : !is_near(&c, stored))
            st = hk_adapter_misfit(t,
                                   "it is no copy of the base's tensor, so the adapter is for "
                                   "another base",
                                   err);
    }
    hk_decoder_free(&c.copy);
    hk_decoder_free(&c.base);
    free(c.a);
    free(c.b);
    free(c.narrowed[0]);
    free(c.narrowed[1]);
    return st;
}

enum hk_status hk_adapter_check_copy(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                     const char *name, struct hk_error *err)
{
    const struct hk_tensor *base;
    enum hk_weight_use use;
    enum hk_status st = hk_adapter_base_find(&r->base, name, &base, &use, err);
    if (st != HK_OK)
        return st;
    if (t->ndim != base->ndim || memcmp(t->shape, base->shape, sizeof t->shape) != 0)
        return hk_adapter_misfit(t, "it has not the shape of the base's tensor", err);
    return compare_copy(r, t, base, err);
}
