/* Payload bytes from an open file to an output: as they are, in the kernel where a section is large
 * and mapped, else in pieces; or as a view has them, rows in another order and values decoded. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "libhkfmt/base/error.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/stream.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/tensor/narrow.h"

void hk_report_loss(const struct hk_convert_options *opt, const char *fmt, ...)
{
    char text[320];
    va_list ap;
    if (opt->loss == NULL)
        return;
    va_start(ap, fmt);
    hk_vline(text, sizeof text, fmt, ap);
    va_end(ap);
    opt->loss(opt->arg, text);
}

enum {
    CHUNK_SIZE = 1 << 20,
    COPY_SIZE = 64 << 20,  /* between two reports of progress */
    SMALL_SIZE = 64 << 10, /* cheaper through the output's buffer than by a call of its own */
};

static uint64_t stored_size(const struct hk_tensor *t)
{
    return t->data_size + t->scale_size + t->residual_size;
}

/* Payload of T in the output: .hk stores what is shared once. */
static enum hk_status payload_in_output(const struct hk_copying *c, const struct hk_tensor *t,
                                        uint64_t *size, struct hk_error *err)
{
    *size = 0;
    if (t->type == HK_TYPE_SHARED_REF && c->writer != NULL)
        return HK_OK;
    enum hk_status st = hk_tensor_resolve(c->from, t, &t, err);
    if (st == HK_OK)
        *size = stored_size(t);
    return st;
}

static enum hk_status check_stream_order(const struct hk_file *f, struct hk_error *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->data_size == 0)
            continue;
        if (t->data_offset < end)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s lies before an earlier entry's data: not to be read from "
                           "a stream, only from a file",
                           HK_STR(t->name));
        end = t->data_offset + t->data_size;
    }
    return HK_OK;
}

/* Bytes that tensor I is decoded from, which many references may share. */
static uint64_t decoded_from(const struct hk_file *f, size_t i)
{
    const struct hk_how *how = f->how != NULL ? &f->how[i] : NULL;
    uint64_t all =
        how != NULL && how->decoded && how->source != NULL ? stored_size(how->source) : 0;
    for (uint32_t k = 0; how != NULL && how->decoded && k < how->piece_count; k++)
        if (!add_ok(all, stored_size(how->pieces[k].source), &all))
            return UINT64_MAX;
    return all;
}

enum hk_status hk_copying_begin(struct hk_copying *c, struct hk_error *err)
{
    const struct hk_file *f = c->from;
    const uint64_t limit = hk_output_limit(f, c->opt->max_output);
    enum hk_status st = HK_OK;
    uint64_t work = 0;
    for (size_t i = 0; st == HK_OK && i < f->tensor_count; i++) {
        uint64_t size, from = decoded_from(f, i);
        st = payload_in_output(c, &f->tensors[i], &size, err);
        c->all += size;
        if (st == HK_OK && !add_ok(work, size > from ? size : from, &work))
            work = UINT64_MAX;
        if (st == HK_OK)
            st = hk_check_output(work, limit, err);
    }
    if (st != HK_OK || f->stream == NULL)
        return st;
    st = check_stream_order(f, err);
    if (st != HK_OK)
        return st;
    c->chunk = malloc(CHUNK_SIZE);
    return c->chunk == NULL ? hk_fail_nomem(err) : HK_OK;
}

static enum hk_status put_payload(struct hk_copying *c, const uint8_t *p, size_t n,
                                  struct hk_error *err)
{
    return c->writer != NULL ? hk_writer_put(c->writer, p, n, err)
                             : hk_out_write(c->out, p, n, err);
}

/* N more bytes are written; whoever watches is told, and may want no more. */
static enum hk_status advance_copy(struct hk_copying *c, uint64_t n, struct hk_error *err)
{
    c->done += n;
    if (c->opt->progress != NULL)
        c->opt->progress(c->opt->arg, c->done, c->all);
    if (c->opt->stop != NULL && *c->opt->stop != 0)
        return hk_fail_sys(err, EINTR, "given up");
    return HK_OK;
}

enum hk_status hk_copy_made(struct hk_copying *c, const uint8_t *p, size_t n, struct hk_error *err)
{
    enum hk_status st = put_payload(c, p, n, err);
    return st != HK_OK ? st : advance_copy(c, n, err);
}

static enum hk_status copy_piece(struct hk_copying *c, uint32_t number, uint64_t offset, uint64_t n,
                                 struct hk_error *err)
{
    if (c->from->stream != NULL) {
        enum hk_status st = hk_stream_read(c->from, offset, c->chunk, (size_t)n, err);
        return st != HK_OK ? st : put_payload(c, c->chunk, (size_t)n, err);
    }
    const struct hk_part *part = &c->from->parts[number];
    if (part->fd < 0 || n <= SMALL_SIZE)
        return put_payload(c, part->map + offset, (size_t)n, err);
    return c->writer != NULL ? hk_writer_copy(c->writer, part->fd, offset, n, err)
                             : hk_out_copy(c->out, part->fd, offset, n, err);
}

enum hk_status hk_copy_bytes(struct hk_copying *c, uint32_t part, uint64_t offset, uint64_t size,
                             struct hk_error *err)
{
    const uint64_t most = c->from->stream != NULL ? CHUNK_SIZE : COPY_SIZE;
    while (size > 0) {
        uint64_t n = size < most ? size : most;
        enum hk_status st = copy_piece(c, part, offset, n, err);
        if (st == HK_OK)
            st = advance_copy(c, n, err);
        if (st != HK_OK)
            return st;
        offset += n;
        size -= n;
    }
    return HK_OK;
}

enum hk_status hk_copying_finish(struct hk_copying *c, struct hk_error *err)
{
    const struct hk_file *f = c->from;
    uint64_t end = 0;
    if (c->overflows > 0)
        hk_report_loss(c->opt, "%llu values are too large for their new type and became infinite",
                       (unsigned long long)c->overflows);
    for (size_t i = 0; f->stream != NULL && i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        uint64_t padded = t->data_offset + t->data_size; /* checked when the head was read */
        if (align_ok(padded, f->header.alignment, &padded) && padded > end)
            end = padded;
    }
    return end == 0 ? HK_OK : hk_stream_finish(c->from, end, err);
}

void hk_copying_end(struct hk_copying *c)
{
    free(c->chunk);
    c->chunk = NULL;
}

/* ---- a tensor ---- */

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
static enum hk_status put_decoded_values(struct making *m, uint64_t first, uint64_t n,
                                         struct hk_error *err)
{
    const enum hk_type type = (enum hk_type)m->t->type;
    const size_t width = hk_type_info(type)->block_bytes;
    enum hk_status st = HK_OK;
    while (st == HK_OK && n > 0) {
        const size_t some = n < STEP ? (size_t)n : STEP;
        hk_decoder_read(m->decoder, first, some, m->values);
        m->c->overflows += hk_narrow(type, m->values, some, m->bytes);
        st = hk_copy_made(m->c, m->bytes, some * width, err);
        first += some;
        n -= some;
    }
    return st;
}

static enum hk_status put_source_row(struct making *m, uint64_t r, struct hk_error *err)
{
    if (m->decoder != NULL)
        return put_decoded_values(m, r * m->cols, m->cols, err);
    const struct hk_tensor *s = m->how->source;
    const uint8_t *data = m->c->from->parts[s->part].map + s->data_offset;
    return hk_copy_made(m->c, data + r * m->row_bytes, (size_t)m->row_bytes, err);
}

/* Rows that are changed are decoded whole. */
static enum hk_status put_changed_rows(struct making *m, struct hk_error *err)
{
    const enum hk_type type = (enum hk_type)m->t->type;
    const uint64_t cols = hk_tensor_cols(m->t), rows = hk_tensor_rows(m->t);
    float *row = cols <= SIZE_MAX / 8 ? malloc((size_t)cols * sizeof *row + 1) : NULL;
    uint8_t *bytes = row != NULL ? malloc((size_t)cols * sizeof *row + 1) : NULL;
    enum hk_status st = bytes == NULL ? hk_fail_nomem(err) : HK_OK;
    const uint64_t length = m->how->heads > 0 ? m->rows / m->how->heads : 0;
    for (uint64_t r = 0; st == HK_OK && r < rows; r++) {
        const uint64_t source = hk_row_source(m->how->order, length, r);
        hk_decoder_read(m->decoder, source * cols, (size_t)cols, row);
        m->how->change(m->how->change_arg, source, cols, row);
        m->c->overflows += hk_narrow(type, row, (size_t)cols, bytes);
        st = hk_copy_made(m->c, bytes, (size_t)cols * hk_type_info(type)->block_bytes, err);
    }
    free(bytes);
    free(row);
    return st;
}

static enum hk_status put_made_rows(struct making *m, struct hk_error *err)
{
    if (m->how->change != NULL)
        return put_changed_rows(m, err);
    if (m->how->order == HK_ROWS_KEPT)
        return put_decoded_values(m, 0, hk_tensor_elems(m->t), err);
    enum hk_status st = HK_OK;
    const uint64_t length = m->rows / m->how->heads;
    for (uint64_t r = 0; st == HK_OK && r < m->rows; r++)
        st = put_source_row(m, hk_row_source(m->how->order, length, r), err);
    return st;
}

static enum hk_status prepare_making(struct making *m, struct hk_error *err)
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

/* T's bytes, made as HOW says. */
static enum hk_status copy_made_values(struct hk_copying *c, const struct hk_tensor *t,
                                       const struct hk_how *how, struct hk_error *err)
{
    struct making m = {.c = c, .t = t, .how = how};
    if (hk_tensor_elems(t) == 0) /* any number of rows without columns */
        return HK_OK;
    enum hk_status st = prepare_making(&m, err);
    if (st == HK_OK)
        st = put_made_rows(&m, err);
    hk_decoder_free(&m.decoder);
    free(m.values);
    free(m.bytes);
    return st;
}

static enum hk_status copy_stored_tensor(struct hk_copying *c, const struct hk_tensor *t,
                                         struct hk_error *err)
{
    enum hk_status st = hk_copy_bytes(c, t->part, t->data_offset, t->data_size, err);
    if (st == HK_OK)
        st = hk_copy_bytes(c, t->part, t->scale_offset, t->scale_size, err);
    if (st == HK_OK)
        st = hk_copy_bytes(c, t->part, t->residual_offset, t->residual_size, err);
    return st;
}

/* The pieces of T, one behind the other: no more than one is looked at at a time. */
static enum hk_status copy_pieces(struct hk_copying *c, const struct hk_tensor *t,
                                  const struct hk_how *how, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (uint32_t k = 0; st == HK_OK && k < how->piece_count; k++) {
        const struct hk_how *piece = &how->pieces[k];
        struct hk_tensor part = *piece->source;
        part.type = t->type;
        st = piece->decoded || piece->order != HK_ROWS_KEPT
                 ? copy_made_values(c, &part, piece, err)
                 : copy_stored_tensor(c, piece->source, err);
    }
    return st;
}

enum hk_status hk_copy_tensor(struct hk_copying *c, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &c->from->tensors[i];
    const struct hk_how *how = c->from->how != NULL ? &c->from->how[i] : NULL;
    if (how != NULL && how->made != NULL)
        return hk_copy_made(c, how->made, (size_t)t->data_size, err);
    if (how != NULL && how->pieces != NULL)
        return copy_pieces(c, t, how, err);
    if (how != NULL && (how->decoded || how->order != HK_ROWS_KEPT))
        return copy_made_values(c, t, how, err);
    enum hk_status st = hk_tensor_resolve(c->from, t, &t, err);
    return st != HK_OK ? st : copy_stored_tensor(c, t, err);
}
