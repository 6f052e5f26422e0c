/* Payload bytes from an open file to an output: in the kernel where a section is large and mapped,
 * else in pieces. */
#include <errno.h>
#include <stdlib.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

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
static enum hk_status payload(const struct hk_copying *c, const struct hk_tensor *t, uint64_t *size,
                              struct hk_error *err)
{
    *size = 0;
    if (t->type == HK_TYPE_SHARED_REF && c->writer != NULL)
        return HK_OK;
    enum hk_status status = hk_tensor_resolve(c->from, t, &t, err);
    if (status == HK_OK)
        *size = stored_size(t);
    return status;
}

static enum hk_status check_order(const struct hk_file *f, struct hk_error *err)
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
    return f->how != NULL && f->how[i].decoded ? stored_size(f->how[i].source) : 0;
}

enum hk_status hk_copying_begin(struct hk_copying *c, struct hk_error *err)
{
    const struct hk_file *f = c->from;
    const uint64_t limit = hk_output_limit(f, c->opt->max_output);
    enum hk_status status = HK_OK;
    uint64_t work = 0;
    for (size_t i = 0; status == HK_OK && i < f->tensor_count; i++) {
        uint64_t size, from = decoded_from(f, i);
        status = payload(c, &f->tensors[i], &size, err);
        c->all += size;
        if (status == HK_OK && !add_ok(work, size > from ? size : from, &work))
            work = UINT64_MAX;
        if (status == HK_OK)
            status = hk_check_output(work, limit, err);
    }
    if (status != HK_OK || f->stream == NULL)
        return status;
    status = check_order(f, err);
    if (status != HK_OK)
        return status;
    c->chunk = malloc(CHUNK_SIZE);
    return c->chunk == NULL ? hk_fail_nomem(err) : HK_OK;
}

static enum hk_status put(struct hk_copying *c, const uint8_t *p, size_t n, struct hk_error *err)
{
    return c->writer != NULL ? hk_writer_put(c->writer, p, n, err)
                             : hk_out_write(c->out, p, n, err);
}

/* N more bytes are written; whoever watches is told, and may want no more. */
static enum hk_status advance(struct hk_copying *c, uint64_t n, struct hk_error *err)
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
    enum hk_status status = put(c, p, n, err);
    return status != HK_OK ? status : advance(c, n, err);
}

static enum hk_status copy_piece(struct hk_copying *c, uint32_t number, uint64_t offset, uint64_t n,
                                 struct hk_error *err)
{
    if (c->from->stream != NULL) {
        enum hk_status status = hk_stream_read(c->from, offset, c->chunk, (size_t)n, err);
        return status != HK_OK ? status : put(c, c->chunk, (size_t)n, err);
    }
    const struct hk_part *part = &c->from->parts[number];
    if (part->fd < 0 || n <= SMALL_SIZE)
        return put(c, part->map + offset, (size_t)n, err);
    return c->writer != NULL ? hk_writer_copy(c->writer, part->fd, offset, n, err)
                             : hk_out_copy(c->out, part->fd, offset, n, err);
}

enum hk_status hk_copy_bytes(struct hk_copying *c, uint32_t part, uint64_t offset, uint64_t size,
                             struct hk_error *err)
{
    const uint64_t most = c->from->stream != NULL ? CHUNK_SIZE : COPY_SIZE;
    while (size > 0) {
        uint64_t n = size < most ? size : most;
        enum hk_status status = copy_piece(c, part, offset, n, err);
        if (status == HK_OK)
            status = advance(c, n, err);
        if (status != HK_OK)
            return status;
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
        hk_lost(c->opt, "%llu values are too large for their new type and became infinite",
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
