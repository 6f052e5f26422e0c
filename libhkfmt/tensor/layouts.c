/* Whole tensors in a layout of their own, back to rows of f32: codes with scales in a section of
 * their own (format-notes 4.3, 4.4), tiles and columns (4.6), sparse payloads (4.5). */
#include "libhkfmt/tensor/layouts.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/floats.h"
#include "libhkfmt/tensor/tables.h"

/* ---- codes and scales in sections of their own ----
 * dq4, dq8, dqt and the split forms of iq4_nl, mxfp4 and nvfp4. Blocks hold whole bytes of codes,
 * so a code's place follows from its number in the flattened tensor alone. */

static const float nf4[16] = {
    -1.0f,      -0.6961928f, -0.5250731f, -0.3949175f, -0.2844414f, -0.1847734f, -0.0910500f, 0.0f,
    0.0795803f, 0.1609302f,  0.2461123f,  0.3379152f,  0.4407098f,  0.5626170f,  0.7229568f,  1.0f,
};

/* The values of split iq4_nl, which are not those of its blocks. */
static const float split_iq4[16] = {
    -1.0f,       -0.7903226f, -0.6129032f, -0.4677419f, -0.3387097f, -0.2258065f,
    -0.1290323f, -0.0483871f, 0.0483871f,  0.1290323f,  0.2258065f,  0.3387097f,
    0.4677419f,  0.6129032f,  0.7903226f,  1.0f,
};

/* Of block B; half of it where values are doubled. */
static float dual_scale(const struct hk_dual *d, uint64_t b)
{
    if (d->type == HK_TYPE_MXFP4)
        return hk_half_e8m0(d->scales[b]);
    if (d->type == HK_TYPE_NVFP4)
        return 0.5f * hk_e4m3(d->scales[b]);
    return le_f32(d->scales + 4 * b);
}

/* What each code stands for under SCALE. */
static void code_levels(unsigned type, float scale, float level[16])
{
    if (type == HK_TYPE_DQT) { /* minus one is 2 from native writers, 3 from Python's */
        level[0] = 0.0f;
        level[1] = scale;
        level[2] = level[3] = -scale;
        return;
    }
    for (int i = 0; i < 16; i++) {
        float v = type == HK_TYPE_DQ4      ? nf4[i]
                  : type == HK_TYPE_IQ4_NL ? split_iq4[i]
                                           : (float)hk_e2m1_doubled[i];
        level[i] = v * scale;
    }
}

/* Elements I .. I+N-1, all of one block. Lower elements lie in lower bits of a byte. */
static void read_dual_block(const struct hk_dual *d, uint64_t i, size_t n, float scale,
                            float *restrict dst)
{
    const uint8_t *codes = d->codes;
    float level[16];
    if (d->type == HK_TYPE_DQ8) {
        for (size_t j = 0; j < n; j++)
            dst[j] = (float)(int8_t)codes[i + j] * scale;
        return;
    }
    code_levels(d->type, scale, level);
    if (d->type == HK_TYPE_DQT)
        for (size_t j = 0; j < n; j++, i++)
            dst[j] = level[codes[i / 4] >> i % 4 * 2 & 3];
    else
        for (size_t j = 0; j < n; j++, i++)
            dst[j] = level[codes[i / 2] >> i % 2 * 4 & 15];
}

void hk_dual_read(const struct hk_dual *d, uint64_t first, size_t n, float *dst)
{
    for (size_t done = 0, run; done < n; done += run) {
        uint64_t i = first + done, rest = d->block - i % d->block;
        run = rest < n - done ? (size_t)rest : n - done;
        read_dual_block(d, i, run, dual_scale(d, i / d->block), dst + done);
    }
    if (d->residual == NULL)
        return;
    for (size_t j = 0; j < n; j++)
        dst[j] += le_f32(d->residual + 4 * (first + j));
}

/* ---- tiled and column-major f32 ---- */

static void read_tile_columns(const struct hk_tiles *t, uint64_t first, size_t n, float *dst)
{
    uint64_t r = first / t->cols, c = first % t->cols;
    for (size_t i = 0; i < n; i++) {
        dst[i] = le_f32(t->data + 4 * (c * t->rows + r));
        if (++c == t->cols) {
            c = 0;
            r++;
        }
    }
}

/* Elements FROM .. FROM+N-1 of row R. A tile's rows are contiguous: a run ends with its tile. */
static void read_tile_row(const struct hk_tiles *t, uint64_t r, uint64_t from, size_t n, float *dst)
{
    uint64_t high = t->tile_rows, wide = t->tile_cols;
    uint64_t tile = r / high * div_up(t->cols, wide) + from / wide;
    size_t skip = from % wide;
    uint64_t at = (tile * high + r % high) * wide;
    for (; n > 0; at += high * wide) {
        size_t run = wide - skip < n ? wide - skip : n;
        hk_decode_f32(t->data + 4 * (at + skip), run, dst);
        dst += run;
        n -= run;
        skip = 0;
    }
}

void hk_tiles_read(const struct hk_tiles *t, uint64_t first, size_t n, float *dst)
{
    if (t->tile_rows == 0) {
        read_tile_columns(t, first, n, dst);
        return;
    }
    while (n > 0) {
        uint64_t from = first % t->cols, rest = t->cols - from;
        size_t run = rest < n ? (size_t)rest : n;
        read_tile_row(t, first / t->cols, from, run, dst);
        dst += run;
        first += run;
        n -= run;
    }
}

/* ---- two in four ---- */

uint64_t hk_pairs_indexes(uint64_t elems)
{
    return (elems / 4 + 7) / 8 * 4;
}

/* The second value is written last: where both have the same place it counts. */
static void read_pair_group(const struct hk_pairs *p, uint64_t group, float y[4])
{
    unsigned at = (unsigned)p->indexes[group / 2] >> group % 2 * 4;
    memset(y, 0, 4 * sizeof *y);
    y[at & 3] = le_f32(p->values + 8 * group);
    y[at >> 2 & 3] = le_f32(p->values + 8 * group + 4);
}

void hk_pairs_read(const struct hk_pairs *p, uint64_t first, size_t n, float *dst)
{
    for (size_t skip = first % 4; n > 0; skip = 0) {
        float four[4];
        size_t take = 4 - skip < n ? 4 - skip : n;
        read_pair_group(p, first / 4, four);
        memcpy(dst, four + skip, take * sizeof *dst);
        dst += take;
        first += take;
        n -= take;
    }
}

/* ---- bitmask ---- */

static bool mask_bit(const uint8_t *mask, uint64_t i)
{
    return mask[i / 8] >> i % 8 & 1;
}

/* Bits set among elements FROM .. TO-1, FROM a multiple of 8. */
static uint64_t count_bits(const uint8_t *mask, uint64_t from, uint64_t to)
{
    uint64_t count = 0;
    for (; from + 64 <= to; from += 64)
        count += (unsigned)__builtin_popcountll(le64(mask + from / 8));
    for (; from < to; from++)
        count += mask_bit(mask, from);
    return count;
}

enum hk_status hk_bitmask_init(struct hk_bitmask *b, struct hk_bytes data, uint64_t elems,
                               const struct hk_tensor *t, struct hk_error *err)
{
    uint64_t mask = (elems + 31) / 32 * 4, count = 0;
    size_t steps = (size_t)div_up(elems, HK_RANK_STEP);
    if (data.n < mask)
        return hk_fail(err, HK_E_FORMAT, t->data_offset, "tensor %.*s: no room for the mask",
                       HK_STR(t->name));
    uint64_t *rank = malloc((steps + 1) * sizeof *rank);
    if (rank == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < steps; i++) {
        uint64_t from = (uint64_t)i * HK_RANK_STEP;
        uint64_t to = elems - from < HK_RANK_STEP ? elems : from + HK_RANK_STEP;
        rank[i] = count;
        count += count_bits(data.p, from, to);
    }
    if (data.n != mask + 4 * count) {
        free(rank);
        return hk_fail(err, HK_E_FORMAT, t->data_offset,
                       "tensor %.*s: the mask has %llu bits set, which takes %llu bytes, not "
                       "the %llu of data_size",
                       HK_STR(t->name), (unsigned long long)count,
                       (unsigned long long)(mask + 4 * count), (unsigned long long)data.n);
    }
    *b = (struct hk_bitmask){data.p, elems > 0 ? data.p + mask : data.p, rank};
    return HK_OK;
}

void hk_bitmask_read(const struct hk_bitmask *b, uint64_t first, size_t n, float *dst)
{
    uint64_t step = first / HK_RANK_STEP;
    uint64_t at = b->rank[step] + count_bits(b->mask, step * HK_RANK_STEP, first);
    const uint8_t *value = b->values + 4 * at;
    for (size_t i = 0; i < n; i++) {
        bool set = mask_bit(b->mask, first + i);
        dst[i] = set ? le_f32(value) : 0.0f;
        value += set ? 4 : 0;
    }
}

/* ---- block-sparse rows ---- */

static enum hk_status bsr_fault(const struct hk_tensor *t, uint64_t at, const char *what,
                                uint64_t number, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->data_offset + at,
                   "tensor %.*s: block-sparse payload: %s (%llu)", HK_STR(t->name), what,
                   (unsigned long long)number);
}

/* Row pointers rise from 0 to the number of blocks; every block starts inside the matrix. */
static enum hk_status check_bsr_indexes(const struct hk_bsr *b, uint64_t row_ptrs, uint64_t blocks,
                                        const struct hk_tensor *t, struct hk_error *err)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < row_ptrs; i++) {
        uint64_t p = le32(b->row_ptr + 4 * i);
        if (p < last || p > blocks || (i == 0 && p != 0) || (i + 1 == row_ptrs && p != blocks))
            return bsr_fault(t, 12 + 4 * i, "row pointer out of order or range", p, err);
        last = p;
    }
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t c = le32(b->col_idx + 4 * i);
        if (c >= div_up(b->cols, b->block_cols))
            return bsr_fault(t, 12 + 4 * (row_ptrs + i), "column index past the last column", c,
                             err);
    }
    return HK_OK;
}

static int compare_block_columns(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

static bool blocks_ordered(const struct hk_bsr *b)
{
    for (uint64_t row = 0; row < b->row_blocks; row++) {
        uint64_t end = le32(b->row_ptr + 4 * row + 4);
        for (uint64_t k = (uint64_t)le32(b->row_ptr + 4 * row) + 1; k < end; k++)
            if (le32(b->col_idx + 4 * k - 4) >= le32(b->col_idx + 4 * k))
                return false;
    }
    return true;
}

/* Let the blocks that cover some columns be found without a look at all of their row. */
static bool order_blocks(struct hk_bsr *b, uint64_t blocks)
{
    if (blocks_ordered(b))
        return true;
    b->order = malloc((size_t)blocks * sizeof *b->order);
    if (b->order == NULL)
        return false;
    for (uint64_t k = 0; k < blocks; k++)
        b->order[k] = (uint64_t)le32(b->col_idx + 4 * k) << 32 | k;
    for (uint64_t row = 0; row < b->row_blocks; row++) {
        uint32_t first = le32(b->row_ptr + 4 * row), end = le32(b->row_ptr + 4 * row + 4);
        qsort(b->order + first, end - first, sizeof *b->order, compare_block_columns);
    }
    return true;
}

/* The reference visits whole rows of blocks only. A pointer for a last, partial one may be there;
 * its blocks are not read either. */
enum hk_status hk_bsr_init(struct hk_bsr *b, struct hk_bytes data, const struct hk_geometry *g,
                           const struct hk_tensor *t, struct hk_error *err)
{
    if (data.n < 12)
        return bsr_fault(t, 0, "too short for its header", data.n, err);
    uint64_t block_rows = le16(data.p), block_cols = le16(data.p + 2);
    uint64_t row_ptrs = le32(data.p + 4), blocks = le32(data.p + 8);
    if (block_rows == 0 || block_cols == 0)
        return bsr_fault(t, 0, "blocks without elements", 0, err);
    if (row_ptrs != g->rows / block_rows + 1 && row_ptrs != div_up(g->rows, block_rows) + 1)
        return bsr_fault(t, 4, "number of row pointers does not fit the rows", row_ptrs, err);
    /* 2^32 blocks of 2^32 elements are more than 64 bits hold. */
    uint64_t values, size;
    if (!mul_ok(blocks, 4 * block_rows * block_cols + 4, &values) ||
        !add_ok(values, 12 + 4 * row_ptrs, &size) || size != data.n)
        return bsr_fault(t, 8, "number of blocks does not fit the length", blocks, err);
    struct hk_bsr made = {
        .cols = g->cols,
        .block_rows = block_rows,
        .block_cols = block_cols,
        .row_blocks = g->rows / block_rows,
        .row_ptr = data.p + 12,
        .col_idx = data.p + 12 + 4 * row_ptrs,
        .values = data.p + 12 + 4 * (row_ptrs + blocks),
    };
    enum hk_status s = check_bsr_indexes(&made, row_ptrs, blocks, t, err);
    if (s == HK_OK && !order_blocks(&made, blocks))
        s = hk_fail_nomem(err);
    if (s == HK_OK)
        *b = made;
    return s;
}

/* Column and number of the block that is number I by order. */
static uint64_t ordered_block(const struct hk_bsr *b, uint64_t i)
{
    return b->order != NULL ? b->order[i] : (uint64_t)le32(b->col_idx + 4 * i) << 32 | i;
}

/* First of [LOW, HIGH) by order that reaches column COLUMN of blocks. */
static uint64_t first_block(const struct hk_bsr *b, uint64_t low, uint64_t high, uint64_t column)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (ordered_block(b, middle) >> 32 < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Columns FROM .. FROM+N-1 of row ROW. */
static void bsr_row(const struct hk_bsr *b, uint64_t row, uint64_t from, size_t n, float *dst)
{
    uint64_t block_row = row / b->block_rows, inner = row % b->block_rows;
    memset(dst, 0, n * sizeof *dst);
    if (block_row >= b->row_blocks)
        return;
    uint64_t end = le32(b->row_ptr + 4 * block_row + 4);
    uint64_t i = first_block(b, le32(b->row_ptr + 4 * block_row), end, from / b->block_cols);
    for (; i < end; i++) {
        uint64_t block = ordered_block(b, i), k = block & UINT32_MAX;
        uint64_t left = (block >> 32) * b->block_cols, right = left + b->block_cols;
        uint64_t start = left > from ? left : from, stop = right < from + n ? right : from + n;
        if (left >= from + n)
            return;
        uint64_t at = (k * b->block_rows + inner) * b->block_cols + (start - left);
        hk_decode_f32(b->values + 4 * at, (size_t)(stop - start), dst + (start - from));
    }
}

void hk_bsr_read(const struct hk_bsr *b, uint64_t first, size_t n, float *dst)
{
    while (n > 0) {
        uint64_t row = first / b->cols, from = first % b->cols, run = b->cols - from;
        if (run > n)
            run = n;
        bsr_row(b, row, from, (size_t)run, dst);
        dst += run;
        first += run;
        n -= (size_t)run;
    }
}
