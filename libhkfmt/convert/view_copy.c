/* A tensor's payload as its view has it: bytes as they are, rows in another order, values decoded.
 */
#include <stdlib.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/tensor/narrow.h"

enum { STEP = 1 << 16 }; /* elements decoded at once */

struct making {
    struct hk_copying *c;
    const struct hk_tensor *t; /* of the view */
    const struct hk_how *how;
    uint64_t rows, cols; /* COLS elements a row */
    uint64_t row_bytes;  /* as stored */
    struct hk_decoder *decoder;
    float *values;
    uint8_t *bytes;
};

/* N elements from FIRST on, decoded. */
static enum hk_status put_values(struct making *m, uint64_t first, uint64_t n, struct hk_error *err)
{
    const enum hk_type type = (enum hk_type)m->t->type;
    const size_t width = hk_type_info(type)->block_bytes;
    enum hk_status status = HK_OK;
    while (status == HK_OK && n > 0) {
        const size_t some = n < STEP ? (size_t)n : STEP;
        hk_decoder_read(m->decoder, first, some, m->values);
        m->c->overflows += hk_narrow(type, m->values, some, m->bytes);
        status = hk_copy_made(m->c, m->bytes, some * width, err);
        first += some;
        n -= some;
    }
    return status;
}

static enum hk_status put_row(struct making *m, uint64_t r, struct hk_error *err)
{
    if (m->decoder != NULL)
        return put_values(m, r * m->cols, m->cols, err);
    const struct hk_tensor *s = m->how->source;
    const uint8_t *data = m->c->from->parts[s->part].map + s->data_offset;
    return hk_copy_made(m->c, data + r * m->row_bytes, (size_t)m->row_bytes, err);
}

/* Rows that are changed are decoded whole. */
static enum hk_status put_changed(struct making *m, struct hk_error *err)
{
    const enum hk_type type = (enum hk_type)m->t->type;
    const uint64_t cols = hk_tensor_cols(m->t), rows = hk_tensor_rows(m->t);
    float *row = cols <= SIZE_MAX / 8 ? malloc((size_t)cols * sizeof *row + 1) : NULL;
    uint8_t *bytes = row != NULL ? malloc((size_t)cols * sizeof *row + 1) : NULL;
    enum hk_status status = bytes == NULL ? hk_fail_nomem(err) : HK_OK;
    const uint64_t length = m->how->heads > 0 ? m->rows / m->how->heads : 0;
    for (uint64_t r = 0; status == HK_OK && r < rows; r++) {
        const uint64_t source = hk_row_source(m->how->order, length, r);
        hk_decoder_read(m->decoder, source * cols, (size_t)cols, row);
        m->how->change(m->how->change_arg, source, cols, row);
        m->c->overflows += hk_narrow(type, row, (size_t)cols, bytes);
        status = hk_copy_made(m->c, bytes, (size_t)cols * hk_type_info(type)->block_bytes, err);
    }
    free(bytes);
    free(row);
    return status;
}

static enum hk_status put_rows(struct making *m, struct hk_error *err)
{
    if (m->how->change != NULL)
        return put_changed(m, err);
    if (m->how->order == HK_ROWS_KEPT)
        return put_values(m, 0, hk_tensor_elems(m->t), err);
    enum hk_status status = HK_OK;
    const uint64_t length = m->rows / m->how->heads;
    for (uint64_t r = 0; status == HK_OK && r < m->rows; r++)
        status = put_row(m, hk_row_source(m->how->order, length, r), err);
    return status;
}

static enum hk_status prepare(struct making *m, struct hk_error *err)
{
    const struct hk_tensor *t = m->t, *s = m->how->source;
    m->rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    m->cols = t->ndim == 1 ? 1 : hk_tensor_cols(t);
    m->row_bytes = m->rows > 0 ? s->data_size / m->rows : 0;
    if (!m->how->decoded)
        return HK_OK;
    m->values = malloc(STEP * sizeof *m->values);
    m->bytes = malloc(STEP * sizeof *m->values);
    if (m->values == NULL || m->bytes == NULL)
        return hk_fail_nomem(err);
    return hk_decoder_new(&m->decoder, m->c->from, s, err);
}

static enum hk_status copy_changed(struct hk_copying *c, size_t i, struct hk_error *err)
{
    struct making m = {.c = c, .t = &c->from->tensors[i], .how = &c->from->how[i]};
    if (hk_tensor_elems(m.t) == 0) /* any number of rows without columns */
        return HK_OK;
    enum hk_status status = prepare(&m, err);
    if (status == HK_OK)
        status = put_rows(&m, err);
    hk_decoder_free(&m.decoder);
    free(m.values);
    free(m.bytes);
    return status;
}

static enum hk_status copy_stored(struct hk_copying *c, const struct hk_tensor *t,
                                  struct hk_error *err)
{
    enum hk_status status = hk_copy_bytes(c, t->part, t->data_offset, t->data_size, err);
    if (status == HK_OK)
        status = hk_copy_bytes(c, t->part, t->scale_offset, t->scale_size, err);
    if (status == HK_OK)
        status = hk_copy_bytes(c, t->part, t->residual_offset, t->residual_size, err);
    return status;
}

enum hk_status hk_copy_tensor(struct hk_copying *c, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &c->from->tensors[i];
    const struct hk_how *how = c->from->how != NULL ? &c->from->how[i] : NULL;
    if (how != NULL && how->made != NULL)
        return hk_copy_made(c, how->made, (size_t)t->data_size, err);
    if (how != NULL && (how->decoded || how->order != HK_ROWS_KEPT))
        return copy_changed(c, i, err);
    enum hk_status status = hk_tensor_resolve(c->from, t, &t, err);
    return status != HK_OK ? status : copy_stored(c, t, err);
}
