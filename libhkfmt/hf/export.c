/* A runnable model as its Hugging Face directory has it. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/convert/copying.h"
#include "libhkfmt/hf/export.h"
#include "libhkfmt/hf/tokenizer/tokenizer.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"

struct exporting {
    struct hk_view *v;
    const struct hk_convert_options *opt;
    struct hk_model_params model;
    struct hk_error *err;
};

/* ---- is it a model ---- */

static enum hk_status check_exported_tensor(const struct exporting *x,
                                            const struct hk_model_tensor *wanted)
{
    const struct hk_tensor *t = hk_tensor_find(x->v->from, wanted->name);
    if (t == NULL && wanted->optional)
        return HK_OK;
    if (t == NULL)
        return hk_fail(x->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", wanted->name);
    if (!hk_has_shape_of(t, wanted))
        return hk_fail(x->err, HK_E_FORMAT, t->entry_offset,
                       "tensor %s does not have the %llu x %llu elements that the keys say",
                       wanted->name, (unsigned long long)(wanted->rows > 0 ? wanted->rows : 1),
                       (unsigned long long)wanted->cols);
    return HK_OK;
}

/* Ends at the first layer that is not there, whatever their number is said to be. */
static enum hk_status check_exported_tensors(const struct exporting *x)
{
    enum hk_status status = HK_OK;
    struct hk_model_tensor wanted;
    for (size_t at = 0; status == HK_OK && hk_model_tensor_next(&x->model, &at, &wanted);)
        status = check_exported_tensor(x, &wanted);
    return status;
}

/* ---- tensors ---- */

static size_t find(const struct hk_view *v, const char *name)
{
    size_t i = 0;
    while (i < v->file->tensor_count && !hk_bytes_are(v->file->tensors[i].name, name))
        i++;
    return i;
}

static void drop(struct hk_view *v, const char *name)
{
    const size_t i = find(v, name);
    if (i < v->file->tensor_count)
        hk_view_drop(v, i);
}

/* Rows that are rotated together are half a head apart in transformers. */
static enum hk_status reorder(struct exporting *x)
{
    const struct hk_file *f = x->v->file;
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && !x->model.halves && i < f->tensor_count; i++) {
        const uint32_t heads = hk_rotating_heads(&x->model, f->tensors[i].name);
        if (heads > 0)
            status = hk_view_reorder(x->v, i, HK_ROWS_TO_HALVES, heads, x->err);
    }
    return status;
}

static enum hk_status rename_all(struct exporting *x)
{
    char name[HK_MAX_NAME + 1];
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < x->v->file->tensor_count; i++) {
        const struct hk_tensor *t = &x->v->file->tensors[i];
        status = hk_name_to_hf(x->model.family, x->model.layers, t->name, name, x->err);
        if (status == HK_OK)
            status = hk_view_rename(x->v, i, name, x->err);
    }
    return status;
}

static enum hk_status put_tensors(struct exporting *x, bool tied)
{
    /* hk_hf_export_params() has turned it into parameters */
    drop(x->v, hk_tensor_role_name(HK_ROLE_ROPE_FACTORS));
    if (tied)
        drop(x->v, hk_tensor_role_name(HK_ROLE_OUTPUT));
    enum hk_status status = check_exported_tensors(x);
    if (status == HK_OK)
        status = hk_decode_for_safetensors(x->v, x->opt, x->err);
    if (status == HK_OK)
        status = reorder(x);
    return status == HK_OK ? rename_all(x) : status;
}

/* The type of most weights, of those that config.json has a name for. */
static enum hk_type most(const struct hk_file *f, enum hk_type dense)
{
    const enum hk_type types[] = {dense, HK_TYPE_F32, HK_TYPE_F16, HK_TYPE_BF16, HK_TYPE_F64};
    enum hk_type best = dense;
    double best_count = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        double count = 0;
        for (size_t k = 0; k < f->tensor_count; k++)
            count += f->tensors[k].type == types[i] ? (double)hk_tensor_elems(&f->tensors[k]) : 0;
        if (count > best_count) {
            best_count = count;
            best = types[i];
        }
    }
    return best;
}

/* ---- metadata ---- */

/* A head's length that config.json says, but that is not made a key again where it follows from the
 * others. */
static bool is_implied(const struct exporting *x, struct hk_bytes key)
{
    const struct hk_model_params *m = &x->model;
    const enum hk_model_key k = hk_key_of_text(m->architecture, key);
    return (k == HK_KEY_KEY_LENGTH || k == HK_KEY_VALUE_LENGTH) &&
           (uint64_t)m->heads * m->key_dim == m->hidden;
}

static bool is_covered(const struct exporting *x, struct hk_bytes key)
{
    return hk_hf_tokenizer_covers(key) ||
           (hk_hf_config_covers(x->model.architecture, key) && !is_implied(x, key));
}

/* What would change a text, and no side file of a directory has. */
static bool changes_text(struct hk_bytes key)
{
    static const char *const groups[] = {"tokenizer.", "general.sampling."};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (key.n > strlen(groups[i]) && memcmp(key.p, groups[i], strlen(groups[i])) == 0)
            return true;
    return false;
}

/* No loss of the file's, but of the model's. */
static void report_unknown(const struct exporting *x, struct hk_bytes key)
{
    const char *what =
        hk_hf_config_lacks(x->model.architecture, key) ? "config.json has no field for it"
        : !is_covered(x, key) && changes_text(key)     ? "no file beside the weights says it"
                                                       : NULL;
    if (what != NULL)
        hk_report_loss(
            x->opt,
            "key %.*s: %s; it stays in the safetensors' metadata, where transformers does "
            "not look",
            HK_STR(key), what);
}

/* Keep what no side file covers, for __metadata__. transformers asks for "format". */
static void put_metadata(struct exporting *x)
{
    struct hk_kvlist *l = &x->v->kvs;
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct hk_kv kv = l->kvs[i];
        report_unknown(x, kv.key);
        if (hk_bytes_are(kv.key, "format")) {
            if (kv.type != HK_META_STRING || !hk_bytes_are(kv.value, "pt"))
                hk_report_loss(x->opt, "key format: transformers needs it to be 'pt'");
        } else if (!is_covered(x, kv.key))
            l->kvs[kept++] = kv;
    }
    l->count = kept;
    hk_kvlist_text(l, "format", "pt");
}

/* ---- the whole ---- */

static enum hk_status read_exported_model(struct exporting *x, bool *tied)
{
    const struct hk_file *f = x->v->from;
    const struct hk_tensor *t = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_EMBEDDING));
    struct hk_hf_stored stored;
    enum hk_status status = hk_hf_stored_read(f, &stored, x->err);
    if (status == HK_OK)
        status = hk_hf_export_params(f, &stored, &x->model, x->err);
    if (status == HK_OK)
        status = hk_output_is_tied(f, stored.config.tied, tied, x->err);
    if (status == HK_OK && (t == NULL || t->ndim == 0 || t->shape[0] > UINT32_MAX))
        status =
            hk_fail(x->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s with a row for each token",
                    hk_tensor_role_name(HK_ROLE_EMBEDDING));
    if (status == HK_OK)
        x->model.vocab = (uint32_t)t->shape[0];
    hk_hf_stored_free(&stored);
    return status;
}

enum hk_status hk_hf_export(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_side_files *out, struct hk_error *err)
{
    struct exporting x = {.v = v, .opt = opt, .err = err};
    bool tied = false;
    enum hk_status status = read_exported_model(&x, &tied);
    if (status == HK_OK)
        status = put_tensors(&x, tied);
    if (status == HK_OK)
        status = hk_hf_put_config(v->from, &x.model, most(v->file, opt->dense), out, err);
    if (status == HK_OK)
        status = hk_hf_export_tokenizer(v->from, opt, out, err);
    if (status == HK_OK)
        put_metadata(&x);
    return status;
}
