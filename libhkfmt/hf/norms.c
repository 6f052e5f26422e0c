/* Norms that transformers' class of a family multiplies with one plus their weights: everything
 * else has the sum as the weight. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"

static bool is_norm_weight(const struct hk_tensor *t)
{
    static const char end[] = "norm.weight";
    const size_t n = sizeof end - 1;
    return t->ndim == 1 && t->name.n >= n && memcmp(t->name.p + t->name.n - n, end, n) == 0;
}

/* One plus T's numbers to OUT. */
static enum hk_status raise_norm(const struct hk_file *f, const struct hk_tensor *t, uint8_t *out,
                                 struct hk_error *err)
{
    const size_t n = (size_t)t->shape[0];
    struct hk_decoder *d;
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    float *v = calloc(n + 1, sizeof *v);
    if (v != NULL)
        hk_decoder_read(d, 0, n, v);
    for (size_t i = 0; v != NULL && i < n; i++) {
        const float sum = 1 + v[i];
        uint32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        put32(out + 4 * i, bits);
    }
    hk_decoder_free(&d);
    free(v);
    return v != NULL ? HK_OK : hk_fail_nomem(err);
}

/* Bytes that norms of F take as f32: no more than twice what they have in it. */
static uint64_t norm_bytes(const struct hk_file *f)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < f->tensor_count; i++)
        bytes += is_norm_weight(&f->tensors[i]) ? 4 * f->tensors[i].shape[0] : 0;
    return bytes;
}

enum hk_status hk_hf_make_norms(struct hk_file *f, const struct hk_family *family,
                                struct hk_error *err)
{
    const uint64_t size = norm_bytes(f);
    enum hk_status st = HK_OK;
    if (!family->norms_less_one || size == 0)
        return HK_OK;
    uint8_t *made = hk_file_make_part(f, (size_t)size);
    if (made == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < f->tensor_count && st == HK_OK; i++) {
        struct hk_tensor *t = &f->tensors[i];
        if (!is_norm_weight(t))
            continue;
        st = raise_norm(f, t, made, err);
        t->type = HK_TYPE_F32;
        t->part = (uint32_t)f->part_count;
        t->data_offset = (uint64_t)(made - f->parts[f->part_count].map);
        t->data_size = 4 * t->shape[0];
        if (f->how != NULL)
            f->how[i] = (struct hk_how){.made = made};
        made += t->data_size;
    }
    return st;
}

static void subtract_one(void *arg, uint64_t row, uint64_t cols, float *values)
{
    (void)arg, (void)row;
    for (uint64_t i = 0; i < cols; i++)
        values[i] -= 1;
}

enum hk_status hk_hf_lower_norms(struct hk_view *v, const struct hk_family *family,
                                 enum hk_type type, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; family->norms_less_one && i < v->file->tensor_count && st == HK_OK; i++)
        if (is_norm_weight(&v->file->tensors[i]))
            st = hk_view_change(v, i, type, subtract_one, NULL, err);
    return st;
}
