/* Layouts of whole tensors other than rows of elements or blocks. Each is a struct that is filled
 * and checked once, so that reading N elements from number FIRST on into DST cannot fail. */
#ifndef HK_LAYOUTS_H
#define HK_LAYOUTS_H

#include "libhkfmt/tensor/geometry.h"

/* dq4, dq8, dqt and the split forms: codes over the flattened tensor, a scale for each block of
 * them. */
struct hk_dual {
    unsigned type;
    uint64_t block;
    const uint8_t *codes, *scales, *residual; /* residual may be NULL */
};
void hk_dual_read(const struct hk_dual *d, uint64_t first, size_t n, float *dst);

/* Padded tiles of R x C elements, or with R 0 whole columns. */
struct hk_tiles {
    uint64_t rows, cols;
    uint16_t tile_rows, tile_cols;
    const uint8_t *data;
};
void hk_tiles_read(const struct hk_tiles *t, uint64_t first, size_t n, float *dst);

/* Two values in each four elements. */
struct hk_pairs {
    const uint8_t *indexes, *values;
};
/* Bytes of its indexes; the values follow. */
uint64_t hk_pairs_indexes(uint64_t elems);
void hk_pairs_read(const struct hk_pairs *p, uint64_t first, size_t n, float *dst);

/* A bit for each element and a value for each bit that is set. RANK[i] is the number of bits set
 * before element i * HK_RANK_STEP. */
enum { HK_RANK_STEP = 4096 };
struct hk_bitmask {
    const uint8_t *mask, *values;
    uint64_t *rank;
};
/* HK_E_FORMAT with the text of what is wrong: T's data are not a mask of ELEMS bits and its values.
 */
enum hk_status hk_bitmask_init(struct hk_bitmask *b, struct hk_bytes data, uint64_t elems,
                               const struct hk_tensor *t, struct hk_error *err);
void hk_bitmask_read(const struct hk_bitmask *b, uint64_t first, size_t n, float *dst);

/* Rows of dense blocks of block_rows x block_cols elements. Blocks of one row may be in any order;
 * where two cover the same element the later one counts. */
struct hk_bsr {
    uint64_t cols;
    uint64_t block_rows, block_cols;
    uint64_t row_blocks; /* rows of blocks that are present; elements below them are 0 */
    const uint8_t *row_ptr, *col_idx, *values;
    /* Column and number of each block, a row's by column and then by number; NULL where the file
     * has them in this order. */
    uint64_t *order;
};
enum hk_status hk_bsr_init(struct hk_bsr *b, struct hk_bytes data, const struct hk_geometry *g,
                           const struct hk_tensor *t, struct hk_error *err);
void hk_bsr_read(const struct hk_bsr *b, uint64_t first, size_t n, float *dst);

#endif
