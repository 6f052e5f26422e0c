/* One tensor of a file, or rows of it, as a matrix of the plan. Matrices stay where they are. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/plan/plan.h"
#include "kernels/kernels.h"

enum { SHAPE_TEXT = 96 };

/* "16 x 8" into TEXT. */
static void print_shape(char text[SHAPE_TEXT], const uint64_t *dim, unsigned ndim)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < ndim && at < SHAPE_TEXT; i++)
        at +=
            (size_t)snprintf(text + at, SHAPE_TEXT - at, "%s%" PRIu64, i > 0 ? " x " : "", dim[i]);
}

enum hk_status hke_find_tensor(const struct hk_tensor **out, const struct hk_file *f,
                               const char *name, const struct hke_shape *shape,
                               struct hk_error *err)
{
    char is[SHAPE_TEXT], want[SHAPE_TEXT];
    const uint64_t dim[] = {shape->stack, shape->rows, shape->cols};
    const unsigned ndim = shape->stack > 0 ? 3 : shape->rows > 0 ? 2 : 1, absent = 3 - ndim;
    const struct hk_tensor *t = hk_tensor_find(f, name);
    if (t == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", name);
    bool fits = t->ndim == ndim;
    for (unsigned i = 0; fits && i < ndim; i++)
        fits = t->shape[i] == dim[absent + i];
    if (fits) {
        *out = t;
        return HK_OK;
    }
    print_shape(is, t->shape, t->ndim);
    print_shape(want, dim + absent, ndim);
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s is %s, but the model has it %s",
                   HK_STR(t->name), is, want);
}

enum hk_status hke_bind_weight(struct hke_weight *out, const struct hk_file *f,
                               const struct hk_tensor *t, size_t row_begin, size_t rows,
                               struct hk_error *err)
{
    const uint64_t *dim = t->shape + t->ndim - 2;
    struct hke_weight w = {.tensor = t,
                           .stack = t->ndim > 2 ? (size_t)t->shape[0] : 1,
                           .rows = rows,
                           .cols = (size_t)dim[1],
                           .row_begin = row_begin,
                           .tensor_rows = (size_t)dim[0]};
    enum hk_status st = hk_decoder_new(&w.decoder, f, t, err);
    if (st != HK_OK)
        return st;
    w.data = hk_decoder_rows(w.decoder, &w.type);
    if (w.data != NULL &&
        (hkk_kind_of(w.type) == HKK_KIND_NONE || w.cols % hkk_block_elems(w.type) != 0))
        w.data = NULL;
    *out = w;
    return HK_OK;
}

void hke_unbind_weight(struct hke_weight *w)
{
    hk_decoder_free(&w->decoder);
}

/* ---- what needs kernels ---- */

static enum hk_status need_kernels(const struct hke_weight *w, const struct hk_file *f,
                                   struct hk_error *err)
{
    const struct hk_tensor *target;
    if (w->data != NULL)
        return HK_OK;
    enum hk_status st = hk_tensor_resolve(f, w->tensor, &target, err);
    if (st != HK_OK)
        return st;
    const char *form = target->scale_size > 0 || target->sparsity != HK_SPARSITY_NONE ||
                               target->layout != HK_LAYOUT_ROW_MAJOR
                           ? " in this layout"
                           : "";
    return hk_fail(err, HK_E_UNSUPPORTED, w->tensor->entry_offset,
                   "tensor %.*s: there are no kernels for type %s%s; it runs with --activations "
                   "f32",
                   HK_STR(w->tensor->name), hk_type_info(target->type)->name, form);
}

enum hk_status hke_check_kernels(const struct hke_plan *p, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < p->weights && st == HK_OK; i++)
        st = need_kernels(&p->weight[i], p->file, err);
    return st;
}
