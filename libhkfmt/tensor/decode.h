/* Decoding pieces that only hk_dequantize() and hk_decoder_*() use. */
#ifndef HK_DECODE_H
#define HK_DECODE_H

#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/tensor/geometry.h"
#include "libhkfmt/tensor/type_list.h"

/* N elements of a dense type. */
typedef void hk_dense_fn(const uint8_t *src, size_t n, float *dst);
/* One block of a ggml type, at any address. */
typedef void hk_block_fn(const uint8_t *block, float *dst);

enum { HK_MAX_BLOCK = 256 }; /* elements in the largest block */

/* The decoder of storage type TYPE; NULL if that is of another class. */
hk_dense_fn *hk_dense_decoder(unsigned type); /* dequant_dense.c */
hk_dense_fn hk_decode_f32;
hk_block_fn *hk_block_decoder(unsigned type);

/* In the dequant_*.c. */
#define BLOCK(SYMBOL, name, ...) hk_block_fn hk_decode_##name;
HK_BLOCK_TYPES(BLOCK)
#undef BLOCK

static inline float hk_bits_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t hk_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* f32 of the half with bits H. Exponents are rebased in integer arithmetic; a subnormal's leading
 * one is found by subtracting 2^-14 from 2^-14 plus its mantissa, which is exact. Selections are
 * masks, so a loop over this becomes vector code. */
static inline float hk_f16(uint32_t h)
{
    uint32_t magnitude = (h & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
    uint32_t normal = magnitude + ((exponent == 0x0f800000 ? 224u : 112u) << 23);
    uint32_t subnormal = hk_f32_bits(hk_bits_f32(magnitude + (113u << 23)) - 0x1p-14f);
    uint32_t pick = 0u - (uint32_t)(exponent == 0);
    return hk_bits_f32((subnormal & pick) | (normal & ~pick) | (h & 0x8000) << 16);
}

/* The same for an E4M3 byte without infinities: 0x7f and 0xff are NaN. */
static inline float hk_e4m3(uint32_t b)
{
    uint32_t magnitude = (b & 0x7f) << 20;
    uint32_t normal = magnitude + (120u << 23);
    uint32_t subnormal = hk_f32_bits(hk_bits_f32(magnitude + (121u << 23)) - 0x1p-6f);
    uint32_t pick = 0u - (uint32_t)(magnitude < 1u << 23);
    uint32_t nan = (b & 0x7f) == 0x7f ? 0x7fc00000u : 0;
    return hk_bits_f32((subnormal & pick) | (normal & ~pick) | nan | (b & 0x80) << 24);
}

/* Half of the E8M0 scale 2^(e-127), to go with the doubled E2M1 values. E = 255 is 2^127 like the
 * rest, not NaN: what ggml reads. */
static inline float hk_half_e8m0(uint32_t e)
{
    return hk_bits_f32(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* ---- forms of whole tensors: filled when the decoder is made, so that reading cannot fail ---- */

/* dq4, dq8, dqt and the split forms: codes over the flattened tensor, a scale for each block of
 * them (dual.c). */
struct hk_dual {
    unsigned type;
    uint64_t block;
    const uint8_t *codes, *scales, *residual; /* residual may be NULL */
};
void hk_dual_read(const struct hk_dual *d, uint64_t first, size_t n, float *dst);

/* Padded tiles of R x C elements, or with R 0 whole columns (tiles.c). */
struct hk_tiles {
    uint64_t rows, cols;
    uint16_t tile_rows, tile_cols;
    const uint8_t *data;
};
void hk_tiles_read(const struct hk_tiles *t, uint64_t first, size_t n, float *dst);

/* Two values in each four elements (sparse.c). */
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

/* The form that the payload turned out to have, which a label alone does not tell. */
enum hk_form hk_decoder_form(const struct hk_decoder *d);
/* Where the f32 values begin that a sparse or dense f32 tensor stores; they reach to the end of its
 * data. NULL for other forms. */
const uint8_t *hk_decoder_values(const struct hk_decoder *d);

#endif
