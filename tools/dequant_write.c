/* dequant_write.c: decoded rows as raw f32, .npy, JSON and text, chunk by chunk. */
#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dequant.h"

enum {
    CHUNK = 1 << 18,     /* elements decoded at a time: 1 MiB */
    TEXT_ROOM = 1 << 20, /* text collected before it is written */
    ELEMENT_ROOM = 40,   /* more than the longest element with what goes around it */
};

struct sink {
    struct hk_out *out;
    struct hk_error *err;
    char *text;
    size_t used;
};

typedef enum hk_status put_fn(struct sink *s, const struct dequant_piece *p, uint64_t at,
                              float *values, size_t n);

/* Decode P and pass it to PUT in order; AT counts from the first element written. */
static enum hk_status decode_chunks(struct sink *s, const struct dequant_piece *p, put_fn *put)
{
    uint64_t all = p->rows * p->cols, from = p->first * p->cols;
    float *values = malloc(CHUNK * sizeof *values);
    if (values == NULL)
        return hk_fail_nomem(s->err);
    enum hk_status status = HK_OK;
    for (uint64_t at = 0; at < all && status == HK_OK;) {
        size_t n = all - at < CHUNK ? (size_t)(all - at) : CHUNK;
        hk_decoder_read(p->decoder, from + at, n, values);
        status = put(s, p, at, values, n);
        at += n;
        if (p->progress != NULL)
            p->progress(p->arg, n);
    }
    free(values);
    return status;
}

/* ---- raw and .npy ---- */

static enum hk_status put_raw_chunk(struct sink *s, const struct dequant_piece *p, uint64_t at,
                                    float *values, size_t n)
{
    (void)p;
    (void)at;
#if __BYTE_ORDER == __BIG_ENDIAN
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = htole32(bits);
        memcpy(&values[i], &bits, sizeof bits);
    }
#endif
    return hk_out_write(s->out, values, n * sizeof *values, s->err);
}

static size_t piece_shape(const struct dequant_piece *p, uint64_t *shape)
{
    if (p->whole) {
        memcpy(shape, p->tensor->shape, sizeof p->tensor->shape);
        return p->tensor->ndim;
    }
    shape[0] = p->rows;
    shape[1] = p->cols;
    return 2;
}

/* Version 1.0: magic, length of the rest, a Python dictionary padded to a multiple of 64. */
static enum hk_status put_npy_header(struct sink *s, const struct dequant_piece *p)
{
    enum { PREFIX = 10, UNIT = 64 };
    uint64_t shape[HK_MAX_DIMS];
    size_t ndim = piece_shape(p, shape);
    char dictionary[HK_MAX_DIMS * 24 + 80], header[512];
    int n = snprintf(dictionary, sizeof dictionary,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (size_t i = 0; i < ndim; i++)
        n += snprintf(dictionary + n, sizeof dictionary - (size_t)n, "%llu%s",
                      (unsigned long long)shape[i],
                      ndim == 1      ? ","
                      : i + 1 < ndim ? ", "
                                     : "");
    n += snprintf(dictionary + n, sizeof dictionary - (size_t)n, "), }");
    size_t size = (PREFIX + (size_t)n + 1 + UNIT - 1) / UNIT * UNIT;
    memset(header, ' ', size);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((size - PREFIX) & 0xff);
    header[9] = (char)((size - PREFIX) >> 8);
    memcpy(header + PREFIX, dictionary, (size_t)n);
    header[size - 1] = '\n';
    return hk_out_write(s->out, header, size, s->err);
}

/* ---- text ---- */

static enum hk_status flush_sink(struct sink *s)
{
    size_t n = s->used;
    s->used = 0;
    return hk_out_write(s->out, s->text, n, s->err);
}

static enum hk_status put_sink_text(struct sink *s, const char *text, size_t n)
{
    enum hk_status status = HK_OK;
    if (n > TEXT_ROOM - s->used)
        status = flush_sink(s);
    if (status != HK_OK)
        return status;
    if (n > TEXT_ROOM)
        return hk_out_write(s->out, text, n, s->err);
    memcpy(s->text + s->used, text, n);
    s->used += n;
    return HK_OK;
}

static void add_sink_text(struct sink *s, const char *text)
{
    size_t n = strlen(text);
    memcpy(s->text + s->used, text, n);
    s->used += n;
}

static void add_sink_number(struct sink *s, float v, bool json)
{
    char text[32];
    if (tool_float_text(v, text) || json)
        add_sink_text(s, text);
    else
        add_sink_text(s, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

static enum hk_status put_text_chunk(struct sink *s, const struct dequant_piece *p, uint64_t at,
                                     float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum hk_status status = HK_OK;
        if (TEXT_ROOM - s->used < ELEMENT_ROOM)
            status = flush_sink(s);
        if (status != HK_OK)
            return status;
        add_sink_number(s, values[i], false);
        add_sink_text(s, (at + i + 1) % p->cols == 0 ? "\n" : " ");
    }
    return HK_OK;
}

static enum hk_status put_json_chunk(struct sink *s, const struct dequant_piece *p, uint64_t at,
                                     float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum hk_status status = HK_OK;
        if (TEXT_ROOM - s->used < ELEMENT_ROOM)
            status = flush_sink(s);
        if (status != HK_OK)
            return status;
        if (at + i > 0)
            add_sink_text(s, ",");
        if (p->pretty)
            add_sink_text(s, (at + i) % p->cols == 0 ? "\n    " : " ");
        add_sink_number(s, values[i], true);
    }
    return HK_OK;
}

/* {"name":...,"type":...,"shape":[...],"data":[ */
static enum hk_status put_json_head(struct sink *s, const struct dequant_piece *p)
{
    uint64_t shape[HK_MAX_DIMS];
    size_t ndim = piece_shape(p, shape), size;
    char *text;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        tool_nomem();
    struct tool_json_out o;
    tool_json_begin(&o, memory);
    o.pretty = p->pretty;
    tool_json_put(&o, "name", tool_json_bytes(p->tensor->name));
    tool_json_put(&o, "type", tool_json_text(hk_type_info(p->tensor->type)->name));
    tool_json_put(&o, "shape", tool_json_uints(shape, ndim));
    tool_json_enter(&o, "data", '[');
    if (fclose(memory) != 0)
        tool_nomem();
    enum hk_status status = put_sink_text(s, text, size);
    free(text);
    return status;
}

/* ---- the four forms ---- */

static enum hk_status write_text_form(struct sink *s, const struct dequant_piece *p, bool json)
{
    s->text = malloc(TEXT_ROOM);
    if (s->text == NULL)
        return hk_fail_nomem(s->err);
    enum hk_status status = json ? put_json_head(s, p) : HK_OK;
    if (status == HK_OK)
        status = decode_chunks(s, p, json ? put_json_chunk : put_text_chunk);
    const char *end = p->pretty ? "\n  ]\n}\n" : "]}\n";
    if (status == HK_OK && json)
        status = put_sink_text(s, end, strlen(end));
    if (status == HK_OK)
        status = flush_sink(s);
    free(s->text);
    return status;
}

enum hk_status dequant_write(const struct dequant_piece *p, enum dequant_form form,
                             struct hk_out *out, struct hk_error *err)
{
    struct sink s = {.out = out, .err = err};
    enum hk_status status = HK_OK;
    switch (form) {
    case DEQUANT_JSON:
    case DEQUANT_TEXT:
        return write_text_form(&s, p, form == DEQUANT_JSON);
    case DEQUANT_NPY:
        status = put_npy_header(&s, p);
        break;
    case DEQUANT_RAW:
        break;
    }
    return status == HK_OK ? decode_chunks(&s, p, put_raw_chunk) : status;
}
