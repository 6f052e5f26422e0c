/* Tensor geometry: one place knows what sizes a tensor must have. */
#ifndef HK_GEOMETRY_H
#define HK_GEOMETRY_H

#include "libhkfmt/base/fault.h"

/* How a tensor's data section is laid out, decided from type, sparsity, layout and lengths
 * (format-notes 4). */
enum hk_form {
    HK_FORM_DENSE,  /* elements of a dense type, row-major */
    HK_FORM_TILED,  /* f32 in padded tiles, or column-major (tile height 0) */
    HK_FORM_BLOCKS, /* ggml blocks */
    HK_FORM_SPLIT,  /* iq4_nl, mxfp4, nvfp4 with a scale section */
    HK_FORM_DUAL,   /* dq4, dq8, dqt */
    HK_FORM_2_4,    /* structured sparsity */
    HK_FORM_BITMASK,
    HK_FORM_BSR,
    HK_FORM_ZERO,   /* null_ref */
    HK_FORM_SHARED, /* shared_ref: ask its target */
    HK_FORM_OPAQUE, /* no defined layout */
};

struct hk_geometry {
    enum hk_form form;
    uint64_t elems, cols, rows;
    uint16_t block_elems, block_bytes; /* dense and block forms */
    uint16_t tile_rows, tile_cols;     /* tiled form; 0, 0 is column-major */
    /* Dense f32 under another label, as the reference's tools write it. With form BITMASK or BSR:
     * as long as dense f32, and read so unless the payload fits the label. */
    bool mislabelled;
};

/* Decide T's form and check shape, block_size and the three section sizes against it, reporting
 * each fault to R (may be NULL) with tensor number INDEX. Looks at no payload: a bitmask's exact
 * size is left to hk_decoder_new(). False if any fault prevents opening; *OUT is then not to be
 * used. */
bool hk_geometry(const struct hk_tensor *t, uint64_t index, const struct hk_reporter *r,
                 struct hk_geometry *out);

#endif
