/* What sizes a tensor's sections must have, decided from its type, sparsity, layout and shape alone
 * (format-notes 3 and 4). */
#include "libhkfmt/tensor/geometry.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"

/* Elements are bounded so that 8 bytes for each still fit a signed 64-bit offset; no sum or product
 * of sizes below can then wrap. */
static const uint64_t max_elems = INT64_MAX / 8;

struct extent {
    uint64_t elems, cols, rows;
};

/* Products over the shape. The dimensions other than 0 have to multiply within bounds even where
 * one is 0, so that rows and cols are sound for an empty tensor too. */
static bool shape_extent(const struct hk_tensor *t, struct extent *out)
{
    uint64_t product = 1;
    bool empty = false;
    if (t->ndim > HK_MAX_DIMS)
        return false;
    *out = (struct extent){.cols = 1, .rows = 1};
    for (unsigned i = 0; i < t->ndim; i++) {
        empty = empty || t->shape[i] == 0;
        if (t->shape[i] != 0 && !mul_ok(product, t->shape[i], &product))
            return false;
        if (i + 1 == t->ndim)
            out->cols = t->shape[i];
        else
            out->rows *= t->shape[i];
    }
    out->elems = empty ? 0 : product;
    return product <= max_elems;
}

uint64_t hk_tensor_elems(const struct hk_tensor *t)
{
    struct extent e;
    return shape_extent(t, &e) ? e.elems : UINT64_MAX;
}

uint64_t hk_tensor_cols(const struct hk_tensor *t)
{
    return t->ndim == 0 || t->ndim > HK_MAX_DIMS ? 1 : t->shape[t->ndim - 1];
}

uint64_t hk_tensor_rows(const struct hk_tensor *t)
{
    struct extent e;
    return shape_extent(t, &e) ? e.rows : UINT64_MAX;
}

/* One tensor under inspection. */
struct check {
    const struct hk_tensor *t;
    const struct hk_type_info *info;
    const struct hk_reporter *reporter;
    struct hk_where where;
    struct hk_geometry *g;
    bool good;
};

#define FAULT(c, id, fmt, ...)                                                                     \
    hk_report((c)->reporter, HK_FAULT_##id, &(c)->where, "tensor %.*s: " fmt,                      \
              HK_STR((c)->t->name), __VA_ARGS__)

#define REFUSE(c, ...) ((c)->good = false, FAULT(c, __VA_ARGS__))

static void expect_data(struct check *c, uint64_t least, uint64_t most)
{
    uint64_t size = c->t->data_size;
    if (size >= least && size <= most)
        return;
    if (least == most)
        REFUSE(c, DATA_SIZE, "data_size %llu, but %s of this shape takes %llu",
               (unsigned long long)size, c->info->name, (unsigned long long)least);
    else
        REFUSE(c, DATA_SIZE, "data_size %llu, but %s of this shape takes %llu to %llu",
               (unsigned long long)size, c->info->name, (unsigned long long)least,
               (unsigned long long)most);
}

static void expect_scales(struct check *c, uint64_t size)
{
    if (c->t->scale_size != size)
        REFUSE(c, SCALE_SIZE, "scale_size %llu, but %s of this shape takes %llu",
               (unsigned long long)c->t->scale_size, c->info->name, (unsigned long long)size);
}

static void expect_residual(struct check *c, uint64_t size)
{
    if (c->t->residual_size != 0 && c->t->residual_size != size)
        REFUSE(c, RESIDUAL_SIZE, "residual_size %llu, but %s of this shape takes %s%llu",
               (unsigned long long)c->t->residual_size, c->info->name, size == 0 ? "" : "0 or ",
               (unsigned long long)size);
}

/* Only data. */
static void expect_no_extras(struct check *c)
{
    expect_scales(c, 0);
    expect_residual(c, 0);
}

static bool expect_block_size(struct check *c, unsigned multiple)
{
    unsigned size = c->t->block_size;
    if (size != 0 && size % multiple == 0)
        return true;
    if (multiple == 1)
        REFUSE(c, BLOCK_SIZE, "block_size 0 of %s", c->info->name);
    else
        REFUSE(c, BLOCK_SIZE, "block_size %u of %s is not a multiple of %u", size, c->info->name,
               multiple);
    return false;
}

/* Tile sides of LAYOUT; false for row-major, for column-major 0, 0. Block_sparse_2_4 has no layout
 * of its own: its data are row-major (format-notes 4.6). */
static bool tile_of(unsigned layout, uint16_t *rows, uint16_t *cols)
{
    static const uint16_t sides[][2] = {
        [HK_LAYOUT_COL_MAJOR] = {0, 0},    [HK_LAYOUT_TILE_16X16] = {16, 16},
        [HK_LAYOUT_TILE_16X8] = {16, 8},   [HK_LAYOUT_TILE_32X16] = {32, 16},
        [HK_LAYOUT_TILE_32X32] = {32, 32}, [HK_LAYOUT_TILE_64X64] = {64, 64},
    };
    if (layout == HK_LAYOUT_ROW_MAJOR || layout == HK_LAYOUT_BLOCK_SPARSE_2_4 ||
        layout >= sizeof sides / sizeof *sides)
        return false;
    *rows = sides[layout][0];
    *cols = sides[layout][1];
    return true;
}

/* Bytes of an M x K f32 matrix in R x C tiles, padded to whole tiles. False: past what a file can
 * hold. */
static bool tiled_size(uint64_t m, uint64_t k, uint16_t r, uint16_t c, uint64_t *size)
{
    if (r == 0)
        return mul_ok(m * k, 4, size);
    return align_ok(m, r, &m) && align_ok(k, c, &k) && mul_ok(m, k, size) && mul_ok(*size, 4, size);
}

static void as_f32(struct hk_geometry *g)
{
    g->form = HK_FORM_DENSE;
    g->block_elems = 1;
    g->block_bytes = 4;
}

/* Whether the data are as long as dense f32 of T's shape, plain or in the tiles of its layout; sets
 * the form if so. A matrix of whole tiles has one length for both: the label decides. */
static bool fits_f32(const struct hk_tensor *t, struct hk_geometry *g)
{
    uint64_t tiled;
    uint16_t r, c;
    if (t->ndim == 2 && tile_of(t->layout, &r, &c) && tiled_size(g->rows, g->cols, r, c, &tiled) &&
        t->data_size == tiled) {
        as_f32(g);
        g->form = HK_FORM_TILED;
        g->tile_rows = r;
        g->tile_cols = c;
        return true;
    }
    if (t->data_size != 4 * g->elems)
        return false;
    as_f32(g);
    return true;
}

static uint64_t mask_bytes(uint64_t elems)
{
    return (elems + 31) / 32 * 4;
}

/* Values of two in each group of four, after a nibble a group padded to 4 bytes. "retile" and
 * "expand" leave the label on dense f32; the two lengths differ for any tensor that is not empty.
 */
static void check_2_4(struct check *c)
{
    uint64_t groups = c->g->elems / 4, size = (groups + 7) / 8 * 4 + 8 * groups;
    bool whole = c->g->elems % 4 == 0;
    c->g->form = HK_FORM_2_4;
    if (c->t->type == HK_TYPE_F32 && !(whole && c->t->data_size == size) && fits_f32(c->t, c->g))
        c->g->mislabelled = true;
    else if (!whole)
        REFUSE(c, DATA_SIZE, "%llu elements are not groups of 4", (unsigned long long)c->g->elems);
    else
        expect_data(c, size, size);
}

/* Whether a sparsity label is on data as long as dense f32. Only the payload can tell if they are
 * that; the decoder looks, and takes the sparse form if it fits exactly. */
static bool perhaps_f32(struct check *c)
{
    c->g->mislabelled = c->t->type == HK_TYPE_F32 && c->g->elems != 0 && fits_f32(c->t, c->g);
    return c->g->mislabelled;
}

/* A mask and one f32 for each bit set. How many those are is for the decoder to see. */
static void check_bitmask(struct check *c)
{
    uint64_t mask = mask_bytes(c->g->elems);
    if (!perhaps_f32(c)) {
        expect_data(c, mask, mask + 4 * c->g->elems);
        if (c->good && c->t->data_size % 4 != 0)
            REFUSE(c, DATA_SIZE, "data_size %llu of a bitmask tensor is not a multiple of 4",
                   (unsigned long long)c->t->data_size);
    }
    c->g->form = HK_FORM_BITMASK;
}

/* Row pointers, column indexes and f32 blocks, sized by a header of 12 bytes in the payload. Only
 * csr can be a label left behind on dense f32: no tool that does so knows bsr. */
static void check_bsr(struct check *c)
{
    bool dense = c->t->sparsity == HK_SPARSITY_CSR && perhaps_f32(c);
    bool nothing = c->g->elems == 0 && fits_f32(c->t, c->g);
    if (nothing || (dense && c->t->data_size < 12))
        return;
    c->g->form = HK_FORM_BSR;
    if (c->t->data_size < 12)
        REFUSE(c, DATA_SIZE, "data_size %llu is too small for the header of a block-sparse tensor",
               (unsigned long long)c->t->data_size);
}

static void check_tiled(struct check *c)
{
    uint64_t size;
    uint16_t r, k;
    if (fits_f32(c->t, c->g))
        return;
    if (c->t->ndim == 2 && tile_of(c->t->layout, &r, &k) &&
        tiled_size(c->g->rows, c->g->cols, r, k, &size))
        expect_data(c, size, size);
    else
        expect_data(c, 4 * c->g->elems, 4 * c->g->elems);
}

/* Dense elements and ggml blocks, but for f32. The pruning tool of the reference writes f32 bytes
 * and keeps the original type (format-notes 4.5). Under sparsity bitmask, which is its mark, such a
 * tensor is read as what it is and marked as mislabelled; without the mark the length only says
 * that type and bytes disagree, and which of them is right is a guess: an error that names the
 * suspicion. */
static void check_blocks(struct check *c)
{
    struct hk_geometry *g = c->g;
    uint64_t elems = c->info->block_elems, bytes = c->info->block_bytes;
    bool wide = c->t->data_size == 4 * g->elems && (elems != 1 || bytes != 4) && g->elems != 0;
    if (wide && c->t->sparsity == HK_SPARSITY_BITMASK) {
        as_f32(g);
        g->mislabelled = true;
        return;
    }
    g->form = elems == 1 ? HK_FORM_DENSE : HK_FORM_BLOCKS;
    g->block_elems = c->info->block_elems;
    g->block_bytes = c->info->block_bytes;
    uint64_t size = g->elems / elems * bytes;
    if (wide && c->t->data_size != size)
        REFUSE(c, DATA_SIZE, "data_size %llu: f32 bytes under the wrong type, %s",
               (unsigned long long)c->t->data_size, c->info->name);
    else if (g->cols % elems != 0)
        REFUSE(c, ROW_BLOCKS, "rows of %llu elements are not whole %s blocks of %u",
               (unsigned long long)g->cols, c->info->name, c->info->block_elems);
    else
        expect_data(c, size, size);
}

/* The older form of iq4_nl, mxfp4 and nvfp4 with scales in a section of their own (format-notes
 * 4.4): two neighbouring codes a byte over the flattened tensor, the last block perhaps padded. */
static void check_split(struct check *c)
{
    bool iq4 = c->t->type == HK_TYPE_IQ4_NL;
    c->g->form = HK_FORM_SPLIT;
    if (iq4 && !expect_block_size(c, 2))
        return;
    uint64_t block = iq4 ? c->t->block_size : c->t->type == HK_TYPE_MXFP4 ? 32 : 16;
    uint64_t blocks = div_up(c->g->elems, block);
    expect_data(c, div_up(c->g->elems, 2), blocks * (block / 2));
    expect_scales(c, iq4 ? 4 * blocks : blocks);
    expect_residual(c, 0);
}

/* dq4, dq8, dqt (format-notes 4.3). Codes of the last block may be padded to a whole block. */
static void check_dual(struct check *c)
{
    unsigned packed = c->t->type == HK_TYPE_DQ4 ? 2 : c->t->type == HK_TYPE_DQT ? 4 : 1;
    c->g->form = HK_FORM_DUAL;
    if (!expect_block_size(c, packed))
        return;
    uint64_t blocks = div_up(c->g->elems, c->t->block_size);
    expect_data(c, div_up(c->g->elems, packed), blocks * (c->t->block_size / packed));
    expect_scales(c, 4 * blocks);
    expect_residual(c, 4 * c->g->elems);
}

/* Elements may be packed over the ends of rows. */
static void check_opaque(struct check *c)
{
    const uint64_t elems = c->info->block_elems, bytes = c->info->block_bytes;
    c->g->form = HK_FORM_OPAQUE;
    if (c->info->kind == HK_CLASS_OPAQUE && elems > 0) {
        expect_data(c, c->g->elems / elems * bytes, div_up(c->g->elems, elems) * bytes);
        FAULT(c, UNDECODABLE, "type %s is not decoded", c->info->name);
    } else if (c->info->kind == HK_CLASS_OPAQUE)
        FAULT(c, UNDECODABLE, "type %s has no defined layout", c->info->name);
    else
        FAULT(c, UNDECODABLE, "sparsity bsr is not defined for %u dimensions", c->t->ndim);
}

/* The forms that a sparsity label chooses, in the reference's order (format-notes 4.5). Csr is any
 * type's, and on other than two dimensions has no effect. */
static bool check_sparse(struct check *c)
{
    unsigned type = c->t->type, label = c->t->sparsity;
    if (type == HK_TYPE_SPARSE_2_4 || (type == HK_TYPE_F32 && label == HK_SPARSITY_STRUCTURED_2_4))
        check_2_4(c);
    else if (type == HK_TYPE_SPARSE_F16 || (type == HK_TYPE_F32 && label == HK_SPARSITY_BITMASK))
        check_bitmask(c);
    else if ((label == HK_SPARSITY_CSR || label == HK_SPARSITY_BSR) && c->t->ndim == 2)
        check_bsr(c);
    else
        return false;
    expect_no_extras(c);
    return true;
}

static bool has_split_form(unsigned type)
{
    return type == HK_TYPE_IQ4_NL || type == HK_TYPE_MXFP4 || type == HK_TYPE_NVFP4;
}

static void check_form(struct check *c)
{
    unsigned type = c->t->type;
    if (type == HK_TYPE_SHARED_REF) {
        c->g->form = HK_FORM_SHARED;
    } else if (type == HK_TYPE_NULL_REF) {
        c->g->form = HK_FORM_ZERO;
        expect_data(c, 0, 0);
        expect_no_extras(c);
        if (c->t->data_offset != 0)
            FAULT(c, NULL_OFFSET, "a null_ref has no data, but data_offset is %llu",
                  (unsigned long long)c->t->data_offset);
    } else if (c->info->kind == HK_CLASS_OPAQUE) {
        check_opaque(c);
    } else if (check_sparse(c)) {
        return;
    } else if (c->t->sparsity == HK_SPARSITY_BSR) {
        check_opaque(c);
    } else if (c->info->kind == HK_CLASS_DUAL) {
        check_dual(c);
    } else if (has_split_form(type) && c->t->scale_size != 0) {
        check_split(c);
    } else {
        if (type == HK_TYPE_F32)
            check_tiled(c);
        else
            check_blocks(c);
        expect_no_extras(c);
    }
}

bool hk_geometry(const struct hk_tensor *t, uint64_t index, const struct hk_reporter *r,
                 struct hk_geometry *out)
{
    struct hk_geometry g = {.form = HK_FORM_OPAQUE};
    struct check c = {
        .t = t,
        .info = hk_type_info(t->type),
        .reporter = r,
        .where = {t->entry_offset, HK_SUBJECT_TENSOR, t->name, index},
        .g = &g,
        .good = true,
    };
    struct extent e;
    if (t->ndim > HK_MAX_DIMS) {
        REFUSE(&c, NDIM, "ndim %u is above %d", t->ndim, HK_MAX_DIMS);
    } else if (c.info == NULL) {
        REFUSE(&c, STORAGE_TYPE, "storage type 0x%02x is unknown", t->type);
    } else if (!shape_extent(t, &e)) {
        REFUSE(&c, SHAPE_OVERFLOW, "the shape has more than %llu elements",
               (unsigned long long)max_elems);
    } else {
        g.elems = e.elems;
        g.cols = e.cols;
        g.rows = e.rows;
        check_form(&c);
    }
    if (c.good)
        *out = g;
    return c.good;
}
