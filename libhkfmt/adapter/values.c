/* Values of an adapter's tensors, in the order of the base's rows. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"

enum hk_status hk_adapter_misfit(const struct hk_tensor *t, const char *why, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s: %s", HK_STR(t->name), why);
}

static float *floats(struct hk_adapter_reading *r, uint64_t n)
{
    return n < SIZE_MAX / sizeof(float)
               ? hk_arena_alloc(&r->a->arena, (size_t)(n + 1) * sizeof(float))
               : NULL;
}

enum hk_status hk_adapter_decode(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                 float **out, struct hk_error *err)
{
    struct hk_decoder *d;
    float *v = floats(r, hk_tensor_elems(t));
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
static enum hk_status into_pairs(struct hk_adapter_reading *r, float **values, uint64_t rows,
                                 uint64_t cols, uint32_t heads, struct hk_error *err)
{
    const uint64_t length = rows / heads;
    if (rows % heads != 0 || length % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%llu rows are no %u heads of even length",
                       (unsigned long long)rows, heads);
    float *v = floats(r, rows * cols);
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
    if (st != HK_OK || r->base.model.halves || heads == 0)
        return st;
    const uint64_t rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    return into_pairs(r, out, rows, rows > 0 ? hk_tensor_elems(t) / rows : 0, heads, err);
}

enum hk_status hk_adapter_decode_transposed(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                            float **out, struct hk_error *err)
{
    struct hk_decoder *d;
    const uint64_t rows = t->shape[0], cols = t->shape[1];
    float *v = floats(r, hk_tensor_elems(t)), *row = malloc((size_t)cols * sizeof *row + 1);
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
