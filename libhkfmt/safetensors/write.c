/* An open file as safetensors: what it has no form for (quantised, sparse and tiled tensors) is
 * decoded, and what it has no place for is refused by name before the first byte is written. */
#include <inttypes.h>
#include <stdio.h>

#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/out.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/model/model.h"
#include "libhkfmt/safetensors/st.h"
#include "libhkfmt/tensor/geometry.h"
#include "libhkfmt/tensor/types.h"

/* ---- dtypes ---- */

/* The dtype of storage type TYPE ("F32", "F8_E4M3", ...), NULL where safetensors has none. */
static const char *dtype_of(unsigned type)
{
    size_t count;
    const struct hk_dtype *row = hk_dtypes(&count);
    for (size_t i = 0; i < count; i++)
        if (row[i].type == type)
            return row[i].dtype;
    return NULL;
}

/* Whether G, the geometry of T, which has a dtype, is of the form that safetensors stores. */
static bool is_safetensors_form(const struct hk_tensor *t, const struct hk_geometry *g)
{
    return g->form == HK_FORM_DENSE || (g->form == HK_FORM_OPAQUE && t->type > UINT8_MAX);
}

/* ---- what is decoded ---- */

/* Whether T's bytes are what safetensors means by its dtype. */
static bool is_stored_as_dtype(const struct hk_tensor *t, size_t i)
{
    struct hk_geometry g;
    return dtype_of(t->type) != NULL && hk_geometry(t, i, NULL, &g) && !g.mislabelled &&
           is_safetensors_form(t, &g);
}

/* Floats that are sparse or in tiles stay what they are. */
static enum hk_type dense_type(unsigned type, enum hk_type wanted)
{
    const bool floats =
        type == HK_TYPE_F32 || type == HK_TYPE_SPARSE_F16 || type == HK_TYPE_SPARSE_2_4;
    return floats ? HK_TYPE_F32 : wanted;
}

/* f32 holds what a decoder gives. */
static void report_decoded(const struct hk_convert_options *opt, const size_t *decoded)
{
    for (unsigned type = 0; type < HK_TYPE_CODES; type++) {
        const struct hk_type_info *info = hk_type_info(type);
        if (decoded[type] > 0 && info != NULL)
            hk_report_loss(opt, "%zu tensor%s of type %s: %s %s", decoded[type],
                           decoded[type] == 1 ? "" : "s", info->name,
                           dense_type(type, opt->dense) == HK_TYPE_F32 ? "decoded to"
                                                                       : "decoded and rounded to",
                           hk_type_info(dense_type(type, opt->dense))->name);
    }
}

/* What a GGUF says of its quantisation is not true of decoded tensors. */
static void drop_quantisation_keys(struct hk_view *v, const struct hk_convert_options *opt)
{
    static const char *const keys[] = {HK_FILE_TYPE_KEY, "general.quantization_version"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (hk_kvlist_find(&v->kvs, keys[i]) == NULL)
            continue;
        hk_report_loss(opt, "key %s: left out, as tensors are no longer quantised", keys[i]);
        hk_kvlist_remove(&v->kvs, keys[i]);
    }
}

enum hk_status hk_decode_for_safetensors(struct hk_view *v, const struct hk_convert_options *opt,
                                         struct hk_error *err)
{
    size_t decoded[HK_TYPE_CODES] = {0};
    bool any = false;
    enum hk_status st = HK_OK;
    v->max_output = opt->max_output;
    for (size_t i = 0; st == HK_OK && i < v->file->tensor_count; i++) {
        const struct hk_tensor *t = &v->file->tensors[i];
        const unsigned type = t->type;
        if (v->file->how[i].made != NULL || is_stored_as_dtype(t, i))
            continue;
        st = hk_view_decode(v, i, dense_type(type, opt->dense), err);
        any = true;
        if (type < HK_TYPE_CODES)
            decoded[type]++;
    }
    if (st == HK_OK && any) {
        report_decoded(opt, decoded);
        drop_quantisation_keys(v, opt);
    }
    return st;
}

enum hk_status hk_view_for_safetensors(struct hk_view **out, struct hk_file *f,
                                       const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_view *v = NULL;
    *out = NULL;
    if (f->format == HK_FORMAT_SAFETENSORS && f->part_count == 1)
        return HK_OK;
    enum hk_status st = hk_view_new(&v, f, err);
    if (st == HK_OK)
        st = hk_decode_for_safetensors(v, opt, err);
    if (st == HK_OK)
        st = hk_view_ready(v, err);
    if (st != HK_OK)
        hk_view_free(&v);
    *out = v;
    return st;
}

/* ---- the header ---- */

enum { DATA_ALIGNMENT = 8 }; /* of the data's beginning, as the reference writer has it */

struct plan {
    const struct hk_file *f;
    struct hk_buf head; /* with the length in front */
    uint64_t data;      /* bytes that follow it */
};

static enum hk_status refuse_for_safetensors(const struct hk_tensor *t, const char *why,
                                             const char *what, struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset, "tensor %.*s: %s%s", HK_STR(t->name),
                   why, what);
}

/* Whether the bytes of T, number INDEX, are what safetensors means by its dtype. */
static enum hk_status check_dtype_bytes(const struct hk_tensor *t, uint64_t index,
                                        struct hk_error *err)
{
    const struct hk_type_info *info = hk_type_info(t->type);
    struct hk_geometry g;
    if (dtype_of(t->type) == NULL)
        return refuse_for_safetensors(t, "safetensors has no dtype for ",
                                      info == NULL ? "a type of that number" : info->name, err);
    if (t->sparsity != HK_SPARSITY_NONE)
        return refuse_for_safetensors(t, "safetensors has no sparsity ",
                                      hk_sparsity_name(t->sparsity), err);
    if (t->layout != HK_LAYOUT_ROW_MAJOR)
        return refuse_for_safetensors(t, "safetensors has no layout ", hk_layout_name(t->layout),
                                      err);
    if (t->scale_size != 0 || t->residual_size != 0)
        return refuse_for_safetensors(t, "safetensors has no scale or residual section", "", err);
    if (!hk_geometry(t, index, NULL, &g) || !is_safetensors_form(t, &g))
        return refuse_for_safetensors(t, "its bytes are not those of type ", info->name, err);
    return HK_OK;
}

static enum hk_status check_safetensors_name(const struct hk_tensor *t, struct hk_error *err)
{
    if (!hk_utf8_valid(t->name))
        return refuse_for_safetensors(
            t, "its name is not UTF-8, which a safetensors file cannot carry", "", err);
    if (hk_bytes_are(t->name, "__metadata__"))
        return refuse_for_safetensors(t, "safetensors keeps this name for metadata", "", err);
    return HK_OK;
}

static void put_json_number(struct hk_buf *b, const char *before, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    hk_buf_text(b, before);
    hk_buf_text(b, text);
}

/* The entry of T, whose bytes are those of STORED. */
static void put_tensor_entry(struct plan *p, const struct hk_tensor *t,
                             const struct hk_tensor *stored)
{
    struct hk_buf *b = &p->head;
    hk_json_quote(b, t->name);
    hk_buf_text(b, ":{\"dtype\":\"");
    hk_buf_text(b, dtype_of(stored->type));
    hk_buf_text(b, "\",\"shape\":[");
    for (unsigned i = 0; i < t->ndim; i++)
        put_json_number(b, i > 0 ? "," : "", t->shape[i]);
    put_json_number(b, "],\"data_offsets\":[", p->data);
    put_json_number(b, ",", p->data + stored->data_size);
    hk_buf_text(b, "]},");
}

static enum hk_status put_planned_entry(struct plan *p, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &p->f->tensors[i], *stored;
    enum hk_status st = check_safetensors_name(t, err);
    if (st == HK_OK)
        st = hk_tensor_resolve(p->f, t, &stored, err);
    if (st == HK_OK)
        st = check_dtype_bytes(stored, (uint64_t)(stored - p->f->tensors), err);
    if (st != HK_OK)
        return st;
    put_tensor_entry(p, t, stored);
    if (!add_ok(p->data, stored->data_size, &p->data) || p->data > INT64_MAX / 2)
        return hk_fail(err, HK_E_RANGE, t->entry_offset, "the file would be too large");
    return HK_OK;
}

/* Close the header behind its last member, fill it up with blanks and tell its length. */
static enum hk_status close_header(struct plan *p, struct hk_error *err)
{
    struct hk_buf *b = &p->head;
    if (b->failed)
        return hk_fail_nomem(err);
    if (b->p[b->n - 1] == ',')
        b->n--;
    hk_buf_text(b, "}");
    while (!b->failed && b->n % DATA_ALIGNMENT != 0)
        hk_buf_text(b, " ");
    if (b->failed)
        return hk_fail_nomem(err);
    if (b->n - ST_LENGTH_SIZE > ST_MAX_HEADER)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "metadata and tensor table take %zu bytes, safetensors allows %d",
                       b->n - ST_LENGTH_SIZE, ST_MAX_HEADER);
    put64(b->p, b->n - ST_LENGTH_SIZE);
    return HK_OK;
}

/* P->head is the caller's to free, also after a failure. */
static enum hk_status plan_safetensors(struct plan *p, struct hk_error *err)
{
    hk_buf_u64(&p->head, 0);
    hk_buf_text(&p->head, "{");
    enum hk_status st = hk_put_safetensors_metadata(&p->head, p->f, err);
    for (size_t i = 0; st == HK_OK && i < p->f->tensor_count; i++)
        st = put_planned_entry(p, i, err);
    return st == HK_OK ? close_header(p, err) : st;
}

static enum hk_status write_planned_safetensors(const struct plan *p, struct hk_copying *c,
                                                struct hk_error *err)
{
    const uint64_t start = hk_out_offset(c->out), planned = p->head.n + p->data;
    enum hk_status st = hk_copying_begin(c, err);
    if (st == HK_OK)
        st = hk_out_expect(c->out, planned, err);
    if (st == HK_OK)
        st = hk_out_write(c->out, p->head.p, p->head.n, err);
    for (size_t i = 0; st == HK_OK && i < p->f->tensor_count; i++)
        st = hk_copy_tensor(c, i, err);
    if (st == HK_OK)
        st = hk_copying_finish(c, err);
    const uint64_t written = hk_out_offset(c->out) - start;
    if (st == HK_OK && written != planned)
        st = hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "%llu bytes were written, not %llu",
                     (unsigned long long)written, (unsigned long long)planned);
    return st;
}

enum hk_status hk_write_safetensors(struct hk_file *f, const struct hk_convert_options *opt,
                                    struct hk_out *out, struct hk_error *err)
{
    struct plan p = {.f = f};
    struct hk_copying c = {.from = f, .opt = opt, .out = out};
    enum hk_status st = plan_safetensors(&p, err);
    if (st == HK_OK)
        st = write_planned_safetensors(&p, &c, err);
    hk_copying_end(&c);
    hk_buf_free(&p.head);
    return st;
}

enum hk_status hk_safetensors_size(const struct hk_file *f, uint64_t *size, struct hk_error *err)
{
    struct plan p = {.f = f};
    enum hk_status st = plan_safetensors(&p, err);
    if (st == HK_OK)
        *size = p.head.n + p.data;
    hk_buf_free(&p.head);
    return st;
}
