/* Views: other names, types, orders of rows. */
#include <stdlib.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/tensor/geometry.h"
#include "libhkfmt/tensor/narrow.h"

static enum hk_status take_viewed_metadata(struct hk_view *v, struct hk_error *err)
{
    const struct hk_file *from = v->from;
    v->kvs.arena = &v->file->arena;
    v->kvs.kvs = malloc((from->kv_count + 1) * sizeof *v->kvs.kvs);
    if (v->kvs.kvs == NULL)
        return hk_fail_nomem(err);
    v->kvs.room = from->kv_count + 1;
    for (size_t i = 0; i < from->kv_count; i++)
        if (!hk_is_shard_key(from, &from->kvs[i]))
            v->kvs.kvs[v->kvs.count++] = from->kvs[i];
    return HK_OK;
}

/* T under its own name, with the bytes of what it refers to. */
static enum hk_status take_viewed_tensor(struct hk_view *v, const struct hk_tensor *t,
                                         struct hk_error *err)
{
    struct hk_file *f = v->file;
    const struct hk_tensor *source;
    enum hk_status st = hk_tensor_resolve(v->from, t, &source, err);
    if (st != HK_OK)
        return st;
    struct hk_tensor *out = &f->tensors[f->tensor_count];
    struct hk_how *how = &f->how[f->tensor_count++];
    *out = *source;
    out->name = t->name;
    out->entry_offset = t->entry_offset;
    out->ndim = t->ndim;
    memcpy(out->shape, t->shape, sizeof out->shape);
    *how = v->from->how != NULL ? v->from->how[source - v->from->tensors]
                                : (struct hk_how){.source = source};
    return HK_OK;
}

static enum hk_status fill_view(struct hk_view *v, size_t first, size_t count, struct hk_error *err)
{
    struct hk_file *f = v->file;
    f->format = v->from->format;
    f->header = v->from->header;
    f->parts = v->from->parts;
    f->part_count = v->from->part_count;
    if (f->part_count > 1) { /* the whole of a set */
        f->header.split_index = 0;
        f->header.split_count = 1;
    }
    f->origin = v->from->origin != NULL ? v->from->origin : v->from;
    f->without_appendix = v->from->without_appendix;
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    f->how = calloc(count + 1, sizeof *f->how);
    if (f->tensors == NULL || f->how == NULL)
        return hk_fail_nomem(err);
    v->room = count + 1;
    enum hk_status st = take_viewed_metadata(v, err);
    for (size_t i = 0; st == HK_OK && i < count; i++)
        st = take_viewed_tensor(v, &v->from->tensors[first + i], err);
    return st;
}

enum hk_status hk_view_range(struct hk_view **out, struct hk_file *from, size_t first, size_t count,
                             struct hk_error *err)
{
    if (from->stream != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "this conversion needs a file, a stream will not do");
    enum hk_status st = hk_refuse_cut(from, err);
    if (st != HK_OK)
        return st;
    struct hk_view *v = calloc(1, sizeof *v);
    if (v == NULL || (v->file = calloc(1, sizeof *v->file)) == NULL) {
        free(v);
        return hk_fail_nomem(err);
    }
    v->from = from;
    st = fill_view(v, first, count, err);
    if (st != HK_OK) {
        hk_view_free(&v);
        return st;
    }
    *out = v;
    return HK_OK;
}

enum hk_status hk_view_new(struct hk_view **out, struct hk_file *from, struct hk_error *err)
{
    return hk_view_range(out, from, 0, from->tensor_count, err);
}

void hk_view_free(struct hk_view **view)
{
    struct hk_view *v = *view;
    if (v == NULL)
        return;
    hk_kvlist_free(&v->kvs);
    v->file->parts = NULL; /* the other file's */
    v->file->part_count = 0;
    hk_close(&v->file);
    free(v);
    *view = NULL;
}

/* Copied into the view's arena; NULL when out of memory. */
static uint8_t *keep_in_view(struct hk_view *v, const void *p, size_t n)
{
    uint8_t *to = hk_arena_alloc(&v->file->arena, n > 0 ? n : 1);
    if (to != NULL && n > 0)
        memcpy(to, p, n);
    return to;
}

enum hk_status hk_view_rename(struct hk_view *v, size_t i, const char *name, struct hk_error *err)
{
    const size_t n = strlen(name);
    const uint8_t *kept = keep_in_view(v, name, n);
    if (kept == NULL)
        return hk_fail_nomem(err);
    v->file->tensors[i].name = (struct hk_bytes){kept, n};
    return HK_OK;
}

void hk_view_drop(struct hk_view *v, size_t i)
{
    struct hk_file *f = v->file;
    const size_t behind = --f->tensor_count - i;
    memmove(&f->tensors[i], &f->tensors[i + 1], behind * sizeof *f->tensors);
    memmove(&f->how[i], &f->how[i + 1], behind * sizeof *f->how);
}

/* Room for another tensor. */
static enum hk_status grow_view(struct hk_view *v, struct hk_error *err)
{
    struct hk_file *f = v->file;
    if (f->tensor_count < v->room)
        return HK_OK;
    struct hk_tensor *tensors = reallocarray(f->tensors, v->room * 2, sizeof *tensors);
    if (tensors == NULL)
        return hk_fail_nomem(err);
    f->tensors = tensors;
    struct hk_how *how = reallocarray(f->how, v->room * 2, sizeof *how);
    if (how == NULL)
        return hk_fail_nomem(err);
    f->how = how;
    v->room *= 2;
    return HK_OK;
}

enum hk_status hk_view_add(struct hk_view *v, const struct hk_tensor *t, const uint8_t *made,
                           struct hk_error *err)
{
    enum hk_status st = grow_view(v, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = v->file;
    f->tensors[f->tensor_count] = *t;
    f->how[f->tensor_count++] = (struct hk_how){.made = made};
    return HK_OK;
}

enum hk_status hk_view_again(struct hk_view *v, size_t i, const char *name, struct hk_error *err)
{
    enum hk_status st = grow_view(v, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = v->file;
    f->tensors[f->tensor_count] = f->tensors[i];
    f->how[f->tensor_count] = f->how[i];
    return hk_view_rename(v, f->tensor_count++, name, err);
}

/* ---- slices ---- */

/* T without its first dimension, of COUNT. */
static void drop_first_dimension(struct hk_tensor *t, uint64_t count)
{
    memmove(&t->shape[0], &t->shape[1], (HK_MAX_DIMS - 1) * sizeof t->shape[0]);
    t->shape[HK_MAX_DIMS - 1] = 0;
    t->ndim--;
    t->data_size /= count;
}

/* Slice K of COUNT of S, kept in the view: rows that are stored one behind the other. */
static enum hk_status slice_source(struct hk_view *v, const struct hk_tensor *s, uint64_t k,
                                   uint64_t count, const struct hk_tensor **out,
                                   struct hk_error *err)
{
    struct hk_geometry g;
    if (!hk_geometry(s, 0, NULL, &g) || g.mislabelled ||
        (g.form != HK_FORM_DENSE && g.form != HK_FORM_BLOCKS))
        return hk_fail(err, HK_E_UNSUPPORTED, s->entry_offset,
                       "tensor %.*s is not stored row by row, so it cannot be taken apart",
                       HK_STR(s->name));
    struct hk_tensor *slice = (struct hk_tensor *)(void *)keep_in_view(v, s, sizeof *s);
    if (slice == NULL)
        return hk_fail_nomem(err);
    drop_first_dimension(slice, count);
    slice->data_offset += k * slice->data_size;
    *out = slice;
    return HK_OK;
}

/* T, which is stored as it is, lies where S does. */
static void lie_where(struct hk_tensor *t, const struct hk_tensor *s)
{
    t->part = s->part;
    t->data_offset = s->data_offset;
    t->data_size = s->data_size;
}

enum hk_status hk_view_slice(struct hk_view *v, size_t i, uint64_t k, const char *name,
                             struct hk_error *err)
{
    enum hk_status st = grow_view(v, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = v->file;
    struct hk_tensor t = f->tensors[i];
    struct hk_how how = f->how[i];
    const uint64_t count = t.ndim > 1 ? t.shape[0] : 0;
    if (k >= count)
        return hk_fail(err, HK_E_RANGE, t.entry_offset, "tensor %.*s has no slice %llu",
                       HK_STR(t.name), (unsigned long long)k);
    if (how.pieces != NULL && how.piece_count == count)
        how = how.pieces[k];
    else if (how.source == NULL || how.change != NULL || how.order != HK_ROWS_KEPT)
        return hk_fail(err, HK_E_UNSUPPORTED, t.entry_offset, "tensor %.*s cannot be taken apart",
                       HK_STR(t.name));
    else
        st = slice_source(v, how.source, k, count, &how.source, err);
    if (st != HK_OK)
        return st;
    drop_first_dimension(&t, count);
    if (!how.decoded && how.source != NULL)
        lie_where(&t, how.source);
    f->tensors[f->tensor_count] = t;
    f->how[f->tensor_count] = how;
    return hk_view_rename(v, f->tensor_count++, name, err);
}

/* ---- types ---- */

/* S, a source of tensor T, can be decoded, and what is decoded is not too much. */
static enum hk_status check_decoded_source(struct hk_view *v, const struct hk_tensor *t,
                                           const struct hk_tensor *s, struct hk_error *err)
{
    struct hk_decoder *d = NULL;
    if (s == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s was made here, so it cannot be decoded", HK_STR(t->name));
    if (!add_ok(v->decoded, s->data_size, &v->decoded))
        v->decoded = UINT64_MAX;
    enum hk_status st = hk_check_output(v->decoded, hk_output_limit(v->file, v->max_output), err);
    if (st == HK_OK)
        st = hk_decoder_new(&d, v->file, s, err);
    hk_decoder_free(&d);
    return st;
}

/* The pieces of tensor I, each decoded, in the view's own memory. */
static enum hk_status decode_pieces(struct hk_view *v, size_t i, struct hk_error *err)
{
    struct hk_how *how = &v->file->how[i];
    struct hk_how *own = (struct hk_how *)(void *)keep_in_view(
        v, how->pieces, how->piece_count * sizeof *how->pieces);
    enum hk_status st = own == NULL ? hk_fail_nomem(err) : HK_OK;
    for (uint32_t k = 0; st == HK_OK && k < how->piece_count; k++) {
        st = check_decoded_source(v, &v->file->tensors[i], own[k].source, err);
        own[k].decoded = true;
    }
    if (st == HK_OK)
        how->pieces = own;
    return st;
}

enum hk_status hk_view_decode(struct hk_view *v, size_t i, enum hk_type type, struct hk_error *err)
{
    struct hk_tensor *t = &v->file->tensors[i];
    struct hk_how *how = &v->file->how[i];
    enum hk_status st = how->pieces != NULL ? decode_pieces(v, i, err)
                                            : check_decoded_source(v, t, how->source, err);
    if (st != HK_OK)
        return st;
    uint64_t size;
    if (!mul_ok(hk_tensor_elems(t), hk_type_info(type)->block_bytes, &size))
        return hk_fail(err, HK_E_RANGE, t->entry_offset, "tensor %.*s would be too large",
                       HK_STR(t->name));
    t->type = (uint16_t)type;
    t->layout = HK_LAYOUT_ROW_MAJOR;
    t->sparsity = HK_SPARSITY_NONE;
    t->sparsity_ratio = 0;
    t->data_size = size;
    t->scale_offset = t->scale_size = t->residual_offset = t->residual_size = 0;
    how->decoded = true;
    return HK_OK;
}

enum hk_status hk_view_change(struct hk_view *v, size_t i, enum hk_type type, hk_row_fn *change,
                              void *arg, struct hk_error *err)
{
    enum hk_status st = hk_view_decode(v, i, type, err);
    v->file->how[i].change = change;
    v->file->how[i].change_arg = arg;
    return st;
}

/* A vector (a bias) has a row an element. */
static uint64_t row_count(const struct hk_tensor *t)
{
    return t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
}

enum hk_status hk_view_reorder(struct hk_view *v, size_t i, enum hk_row_order order, uint32_t heads,
                               struct hk_error *err)
{
    struct hk_tensor *t = &v->file->tensors[i];
    struct hk_how *how = &v->file->how[i];
    struct hk_geometry g;
    const uint64_t rows = row_count(t);
    if (!how->decoded && (how->source == NULL || !hk_geometry(how->source, i, NULL, &g) ||
                          g.mislabelled || (g.form != HK_FORM_DENSE && g.form != HK_FORM_BLOCKS) ||
                          (t->ndim == 1 && g.block_elems != 1)))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s is not stored row by row, so its rows cannot be reordered",
                       HK_STR(t->name));
    if (heads == 0 || rows % heads != 0 || rows / heads % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %llu rows, which are no %u heads of even length",
                       HK_STR(t->name), (unsigned long long)rows, heads);
    how->order = order;
    how->heads = heads;
    return HK_OK;
}

/* ROWS times COLS elements of WIDTH bytes each; those of TO are COLS times ROWS. */
static void transpose_matrix(uint8_t *to, const uint8_t *from, uint64_t rows, uint64_t cols,
                             size_t width)
{
    for (uint64_t c = 0; c < cols; c++)
        for (uint64_t r = 0; r < rows; r++, to += width)
            memcpy(to, from + (r * cols + c) * width, width);
}

/* All values of tensor I, which becomes f32, to *OUT, allocated with malloc(). */
static enum hk_status decode_whole(struct hk_view *v, size_t i, uint8_t **out, struct hk_error *err)
{
    struct hk_decoder *d;
    enum hk_status st = hk_view_decode(v, i, HK_TYPE_F32, err);
    if (st == HK_OK)
        st = hk_decoder_new(&d, v->from, v->file->how[i].source, err);
    if (st != HK_OK)
        return st;
    const uint64_t n = hk_tensor_elems(&v->file->tensors[i]);
    float *values = n <= SIZE_MAX / sizeof *values ? malloc((size_t)n * sizeof *values + 1) : NULL;
    if (values != NULL) {
        hk_decoder_read(d, 0, (size_t)n, values);
        hk_narrow(HK_TYPE_F32, values, (size_t)n, (uint8_t *)values);
    }
    hk_decoder_free(&d);
    *out = (uint8_t *)values;
    return values != NULL ? HK_OK : hk_fail_nomem(err);
}

static enum hk_status transpose_bytes(struct hk_view *v, size_t i, const uint8_t *from,
                                      struct hk_error *err)
{
    struct hk_tensor *t = &v->file->tensors[i];
    const uint64_t rows = t->shape[0], cols = t->shape[1];
    uint8_t *made =
        t->data_size < SIZE_MAX ? hk_arena_alloc(&v->file->arena, (size_t)t->data_size + 1) : NULL;
    if (made == NULL)
        return hk_fail_nomem(err);
    transpose_matrix(made, from, rows, cols, hk_type_info(t->type)->block_bytes);
    t->shape[0] = cols;
    t->shape[1] = rows;
    v->file->how[i] = (struct hk_how){.made = made};
    return HK_OK;
}

enum hk_status hk_view_transpose(struct hk_view *v, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &v->file->tensors[i];
    const struct hk_how *how = &v->file->how[i];
    const struct hk_tensor *s = how->source;
    struct hk_geometry g;
    uint8_t *decoded = NULL;
    if (s == NULL || how->change != NULL || how->order != HK_ROWS_KEPT || t->ndim != 2)
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s is no matrix whose rows and columns can be exchanged",
                       HK_STR(t->name));
    if (s->type == t->type && s->type <= HK_TYPE_BF16 && hk_geometry(s, i, NULL, &g) &&
        g.form == HK_FORM_DENSE)
        return transpose_bytes(v, i, v->from->parts[s->part].map + s->data_offset, err);
    enum hk_status st = decode_whole(v, i, &decoded, err);
    if (st == HK_OK)
        st = transpose_bytes(v, i, decoded, err);
    free(decoded);
    return st;
}

enum hk_status hk_view_ready(struct hk_view *v, struct hk_error *err)
{
    struct hk_file *f = v->file;
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    f->header.tensor_count = f->tensor_count;
    enum hk_status st = hk_kvlist_take(&v->kvs, f, err);
    if (st == HK_OK)
        st = hk_build_indexes(f, &reporter, err);
    return st != HK_OK ? st : capture.status;
}
