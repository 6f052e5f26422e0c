/* A view: another file's tensors and metadata under other names, types, orders of rows, or a part
 * of them, made before anything is written. It is an open file itself, so every writer takes one as
 * it takes what hk_open() gives; its payload bytes are borrowed from the file it was made from, or
 * made on the way by hk_copy_tensor(). */
#ifndef HK_VIEW_H
#define HK_VIEW_H

#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/model/rows.h"

/* Change row ROW of a decoded tensor, COLS values, in place. */
typedef void hk_row_fn(void *arg, uint64_t row, uint64_t cols, float *values);

struct hk_how {                     /* one for each tensor of a view */
    const struct hk_tensor *source; /* in the file that the view was made from; resolved */
    const uint8_t *made;            /* the bytes themselves where they are in no file, else NULL */
    bool decoded;                   /* to the view's tensor's type: f32, f16 or bf16 */
    enum hk_row_order order;
    uint32_t heads;    /* of ORDER; divides the rows, and rows per head are even */
    hk_row_fn *change; /* of a decoded tensor's source rows, or NULL */
    void *change_arg;
    /* Of a tensor that several make, one behind the other, with SOURCE NULL: what each of them is
     * made of. Its rows are its source's. */
    const struct hk_how *pieces;
    uint32_t piece_count;
};

struct hk_view {
    struct hk_file *file; /* the view; its parts are FROM's */
    struct hk_file *from; /* must outlive it */
    struct hk_kvlist kvs; /* its metadata until hk_view_ready() */
    size_t room;          /* tensors there is room for */
    uint64_t decoded;     /* bytes that hk_view_decode() had to look at */
    uint64_t max_output;  /* of hk_output_limit(), which they are held against; 0 unless set */
};

/* A view of all of FROM (a mapped file or a ready view): names, metadata, tensors as they are, save
 * that a shared_ref has become what it refers to. Keys of shards (hk_is_shard_key) are left out.
 * HK_E_USE: FROM is a stream. */
enum hk_status hk_view_new(struct hk_view **out, struct hk_file *from, struct hk_error *err);
/* The same with no more than the COUNT tensors from FIRST on. */
enum hk_status hk_view_range(struct hk_view **out, struct hk_file *from, size_t first, size_t count,
                             struct hk_error *err);
/* NULL is allowed. FROM stays open. */
void hk_view_free(struct hk_view **v);

enum hk_status hk_view_rename(struct hk_view *v, size_t i, const char *name, struct hk_error *err);
/* Take tensor I out; those behind it move up. */
void hk_view_drop(struct hk_view *v, size_t i);
/* Add a tensor at the end whose bytes (of T's type and shape, already in the arena) are MADE. */
enum hk_status hk_view_add(struct hk_view *v, const struct hk_tensor *t, const uint8_t *made,
                           struct hk_error *err);
/* Add tensor I once more, at the end and under NAME. */
enum hk_status hk_view_again(struct hk_view *v, size_t i, const char *name, struct hk_error *err);
/* Add slice K along the first dimension of tensor I as a tensor of its own, at the end and under
 * NAME: what was stacked is taken apart. HK_E_UNSUPPORTED: it is stored in a form that has no
 * slices; HK_E_RANGE: it has fewer. */
enum hk_status hk_view_slice(struct hk_view *v, size_t i, uint64_t k, const char *name,
                             struct hk_error *err);
/* Tensor I decoded to TYPE (f32, f16, bf16). HK_E_UNSUPPORTED: no decoder knows it; HK_E_RANGE: too
 * many tensors share bytes with others. */
enum hk_status hk_view_decode(struct hk_view *v, size_t i, enum hk_type type, struct hk_error *err);
/* Let CHANGE (with ARG) have each row of tensor I, which becomes TYPE, before it is rounded. A
 * vector is one row. */
enum hk_status hk_view_change(struct hk_view *v, size_t i, enum hk_type type, hk_row_fn *change,
                              void *arg, struct hk_error *err);
/* Tensor I with rows in the other order. HK_E_UNSUPPORTED: it is stored in a form that has no rows
 * (sparse, tiled, dual); HK_E_FORMAT: HEADS does not fit its rows. */
enum hk_status hk_view_reorder(struct hk_view *v, size_t i, enum hk_row_order order, uint32_t heads,
                               struct hk_error *err);
/* Tensor I, a matrix, with rows and columns exchanged, in memory; what is not f32, f16 or bf16
 * becomes f32. HK_E_UNSUPPORTED: it is no matrix, or no decoder knows it. */
enum hk_status hk_view_transpose(struct hk_view *v, size_t i, struct hk_error *err);
/* Build what an open file has: metadata from KVS, name indexes. Nothing is changed afterwards. */
enum hk_status hk_view_ready(struct hk_view *v, struct hk_error *err);

#endif
