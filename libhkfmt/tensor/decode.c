/* Any range of any tensor as f32: the form of its payload decided once, then read. */
#include "libhkfmt/tensor/decode.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/layouts.h"

struct hk_decoder {
    struct hk_geometry g;
    unsigned type; /* of the bytes, where the form is dense or blocks */
    const uint8_t *data;
    hk_dense_fn *dense;
    hk_block_fn *block;
    union {
        struct hk_dual dual;
        struct hk_tiles tiles;
        struct hk_pairs pairs;
        struct hk_bitmask bitmask;
        struct hk_bsr bsr;
    };
};

static uint64_t dual_block(const struct hk_tensor *t)
{
    return t->type == HK_TYPE_MXFP4 ? 32 : t->type == HK_TYPE_NVFP4 ? 16 : t->block_size;
}

/* Set up D for the form that its geometry names. Every length was checked with the geometry; only
 * the two forms with counts of their own inside the payload are left to be refused. */
static enum hk_status set_up_form(struct hk_decoder *d, const struct hk_file *f,
                                  const struct hk_tensor *t, struct hk_error *err)
{
    struct hk_bytes data = hk_tensor_data(f, t), residual = hk_tensor_residual(f, t);
    d->data = data.p;
    d->type = d->g.mislabelled ? HK_TYPE_F32 : t->type;
    switch (d->g.form) {
    case HK_FORM_DENSE:
        d->dense = d->g.mislabelled ? hk_decode_f32 : hk_dense_decoder(t->type);
        return HK_OK;
    case HK_FORM_BLOCKS:
        d->block = hk_block_decoder(t->type);
        return HK_OK;
    case HK_FORM_TILED:
        d->tiles = (struct hk_tiles){d->g.rows, d->g.cols, d->g.tile_rows, d->g.tile_cols, data.p};
        return HK_OK;
    case HK_FORM_SPLIT:
    case HK_FORM_DUAL:
        d->dual = (struct hk_dual){t->type, dual_block(t), data.p, hk_tensor_scales(f, t).p,
                                   residual.n > 0 ? residual.p : NULL};
        return HK_OK;
    case HK_FORM_2_4:
        d->pairs = (struct hk_pairs){data.p, data.p};
        if (d->g.elems > 0)
            d->pairs.values += hk_pairs_indexes(d->g.elems);
        return HK_OK;
    case HK_FORM_BITMASK:
        return hk_bitmask_init(&d->bitmask, data, d->g.elems, t, err);
    case HK_FORM_BSR:
        return hk_bsr_init(&d->bsr, data, &d->g, t, err);
    case HK_FORM_ZERO:
    case HK_FORM_SHARED:
    case HK_FORM_OPAQUE:
        break;
    }
    return HK_OK;
}

/* Sections are there in full: not so for a stream. */
static bool sections_mapped(const struct hk_file *f, const struct hk_tensor *t)
{
    return hk_tensor_data(f, t).n == t->data_size && hk_tensor_scales(f, t).n == t->scale_size &&
           hk_tensor_residual(f, t).n == t->residual_size;
}

static enum hk_status decodable_geometry(const struct hk_tensor *t, struct hk_geometry *g,
                                         struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    struct hk_reporter reporter = {hk_capture_fault, &capture};
    if (!hk_geometry(t, 0, &reporter, g))
        return capture.status;
    const struct hk_type_info *info = hk_type_info(t->type);
    if (g->form == HK_FORM_OPAQUE && info->kind == HK_CLASS_OPAQUE && info->block_elems > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s: type %s is not decoded", HK_STR(t->name), info->name);
    if (g->form == HK_FORM_OPAQUE)
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s: type %s with sparsity %s has no defined layout",
                       HK_STR(t->name), hk_type_info(t->type)->name, hk_sparsity_name(t->sparsity));
    if (g->form == HK_FORM_SHARED)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s: unresolved reference",
                       HK_STR(t->name));
    return HK_OK;
}

/* As set_up_form(); a label that the reference's tools left behind on dense f32 yields if the
 * payload does not bear it out (format-notes 4.5). */
static enum hk_status choose_form(struct hk_decoder *d, const struct hk_file *f,
                                  const struct hk_tensor *t, struct hk_error *err)
{
    enum hk_status s = decodable_geometry(t, &d->g, err);
    if (s != HK_OK)
        return s;
    if (!sections_mapped(f, t))
        return hk_fail(err, HK_E_USE, t->entry_offset, "tensor %.*s: its bytes are not mapped",
                       HK_STR(t->name));
    bool doubtful = d->g.mislabelled;
    s = set_up_form(d, f, t, doubtful ? NULL : err);
    if (s != HK_E_FORMAT || !doubtful)
        return s == HK_E_NOMEM ? hk_fail_nomem(err) : s;
    struct hk_tensor plain = *t;
    plain.sparsity = HK_SPARSITY_NONE;
    s = decodable_geometry(&plain, &d->g, err);
    return s == HK_OK ? set_up_form(d, f, &plain, err) : s;
}

enum hk_status hk_decoder_new(struct hk_decoder **out, const struct hk_file *f,
                              const struct hk_tensor *t, struct hk_error *err)
{
    const struct hk_tensor *target;
    enum hk_status s = hk_tensor_resolve(f, t, &target, err);
    if (s != HK_OK)
        return s;
    uint64_t own = hk_tensor_elems(t), shared = hk_tensor_elems(target);
    if (own != shared)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %llu elements, but the one it shares has %llu",
                       HK_STR(t->name), (unsigned long long)own, (unsigned long long)shared);
    struct hk_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return hk_fail_nomem(err);
    s = choose_form(d, f, target, err);
    if (s == HK_OK)
        *out = d;
    else
        hk_decoder_free(&d);
    return s;
}

void hk_decoder_free(struct hk_decoder **d)
{
    if (*d != NULL && (*d)->g.form == HK_FORM_BITMASK)
        free((*d)->bitmask.rank);
    if (*d != NULL && (*d)->g.form == HK_FORM_BSR)
        free((*d)->bsr.order);
    free(*d);
    *d = NULL;
}

const uint8_t *hk_decoder_rows(const struct hk_decoder *d, unsigned *type)
{
    if (d->g.form != HK_FORM_DENSE && d->g.form != HK_FORM_BLOCKS)
        return NULL;
    *type = d->type;
    return d->data;
}

enum hk_form hk_decoder_form(const struct hk_decoder *d)
{
    return d->g.form;
}

const uint8_t *hk_decoder_values(const struct hk_decoder *d)
{
    switch (d->g.form) {
    case HK_FORM_2_4:
        return d->pairs.values;
    case HK_FORM_BITMASK:
        return d->bitmask.values;
    case HK_FORM_BSR:
        return d->bsr.values;
    case HK_FORM_TILED:
        return d->data;
    default:
        return d->type == HK_TYPE_F32 ? d->data : NULL;
    }
}

/* Whole blocks go straight to DST, the parts at both ends through a buffer. */
static void read_blocks(const struct hk_decoder *d, uint64_t first, size_t n, float *dst)
{
    size_t elems = d->g.block_elems, skip = first % elems;
    const uint8_t *p = d->data + first / elems * d->g.block_bytes;
    for (; n > 0; p += d->g.block_bytes) {
        size_t take = elems - skip < n ? elems - skip : n;
        if (take == elems) {
            d->block(p, dst);
        } else {
            float whole[HK_MAX_BLOCK];
            d->block(p, whole);
            memcpy(dst, whole + skip, take * sizeof *dst);
        }
        dst += take;
        n -= take;
        skip = 0;
    }
}

void hk_decoder_read(const struct hk_decoder *d, uint64_t first, size_t n, float *dst)
{
    if (n == 0)
        return;
    switch (d->g.form) {
    case HK_FORM_DENSE:
        d->dense(d->data + first * d->g.block_bytes, n, dst);
        return;
    case HK_FORM_BLOCKS:
        read_blocks(d, first, n, dst);
        return;
    case HK_FORM_TILED:
        hk_tiles_read(&d->tiles, first, n, dst);
        return;
    case HK_FORM_SPLIT:
    case HK_FORM_DUAL:
        hk_dual_read(&d->dual, first, n, dst);
        return;
    case HK_FORM_2_4:
        hk_pairs_read(&d->pairs, first, n, dst);
        return;
    case HK_FORM_BITMASK:
        hk_bitmask_read(&d->bitmask, first, n, dst);
        return;
    case HK_FORM_BSR:
        hk_bsr_read(&d->bsr, first, n, dst);
        return;
    case HK_FORM_ZERO:
    case HK_FORM_SHARED:
    case HK_FORM_OPAQUE:
        break;
    }
    memset(dst, 0, n * sizeof *dst);
}
