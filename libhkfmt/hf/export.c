/* A runnable model as its Hugging Face directory has it. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/write.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"

struct exporting {
    struct hk_view *v;
    const struct hk_convert_options *opt;
    const struct hk_hf_family *family;
    struct hk_hf_model model;
    uint64_t vocab;
    struct hk_error *err;
};

/* ---- is it a model ---- */

static uint64_t size_of(const struct exporting *x, unsigned dim)
{
    const struct hk_hf_model *m = &x->model;
    const uint64_t sizes[] = {
        [HK_HF_ONE] = 1,
        [HK_HF_WIDTH] = m->width,
        [HK_HF_FFN] = m->ffn,
        [HK_HF_VOCAB] = x->vocab,
        [HK_HF_Q] = (uint64_t)m->heads * m->head_dim,
        [HK_HF_KV] = (uint64_t)m->kv_heads * m->head_dim,
        [HK_HF_HEAD] = m->head_dim,
    };
    return sizes[dim];
}

static enum hk_status check_tensor(const struct exporting *x, const struct hk_hf_part *part,
                                   const char *name)
{
    const struct hk_tensor *t = hk_tensor_find(x->v->from, name);
    const uint64_t rows = size_of(x, part->rows), cols = size_of(x, part->cols);
    if (t == NULL && part->optional)
        return HK_OK;
    if (t == NULL)
        return hk_fail(x->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", name);
    const unsigned ndim = part->rows == HK_HF_ONE ? 1 : 2;
    if (t->ndim != ndim || hk_tensor_rows(t) != rows || hk_tensor_cols(t) != cols)
        return hk_fail(x->err, HK_E_FORMAT, t->entry_offset,
                       "tensor %s does not have the %llu x %llu elements that the keys say", name,
                       (unsigned long long)rows, (unsigned long long)cols);
    return HK_OK;
}

/* Ends at the first layer that is not there, whatever their number is said to be. */
static enum hk_status check_tensors(struct exporting *x)
{
    const struct hk_tensor *rows = hk_tensor_find(x->v->from, "token_embd.weight");
    const struct hk_hf_part *part;
    enum hk_status status = HK_OK;
    x->vocab = rows != NULL ? hk_tensor_rows(rows) : 0;
    for (uint32_t layer = 0; status == HK_OK && layer < x->model.layers; layer++)
        for (size_t i = 0; status == HK_OK && (part = hk_hf_part(i)) != NULL; i++) {
            char name[HK_MAX_NAME + 1];
            if ((part->needs & ~x->family->tensors) != 0 || (!part->layer && layer > 0))
                continue;
            if (part->layer)
                snprintf(name, sizeof name, "blk.%u.%s", layer, part->gguf);
            else
                snprintf(name, sizeof name, "%s", part->gguf);
            status = check_tensor(x, part, name);
        }
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

static bool equal(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static bool same_tensor(const struct hk_file *f, const struct hk_tensor *a,
                        const struct hk_tensor *b)
{
    return a->type == b->type && a->layout == b->layout && a->sparsity == b->sparsity &&
           a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           equal(hk_tensor_data(f, a), hk_tensor_data(f, b)) &&
           equal(hk_tensor_scales(f, a), hk_tensor_scales(f, b)) &&
           equal(hk_tensor_residual(f, a), hk_tensor_residual(f, b));
}

enum hk_status hk_hf_is_tied(const struct hk_file *f, bool tied, bool *out, struct hk_error *err)
{
    const struct hk_tensor *head = hk_tensor_find(f, "output.weight");
    const struct hk_tensor *embedding = hk_tensor_find(f, "token_embd.weight");
    *out = true;
    if (head == NULL || embedding == NULL)
        return HK_OK;
    enum hk_status status = hk_tensor_resolve(f, head, &head, err);
    if (status == HK_OK)
        status = hk_tensor_resolve(f, embedding, &embedding, err);
    if (status == HK_OK)
        *out = head == embedding || (tied && same_tensor(f, head, embedding));
    return status;
}

/* Rows that are rotated together are half a head apart in transformers. */
static enum hk_status reorder(struct exporting *x)
{
    const struct hk_file *f = x->v->file;
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && x->model.pairs && i < f->tensor_count; i++) {
        bool key;
        if (hk_hf_rotates(f->tensors[i].name, &key))
            status = hk_view_reorder(x->v, i, HK_ROWS_TO_HALVES,
                                     key ? x->model.kv_heads : x->model.heads, x->err);
    }
    return status;
}

static enum hk_status rename_all(struct exporting *x)
{
    char name[HK_MAX_NAME + 1];
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < x->v->file->tensor_count; i++) {
        const struct hk_tensor *t = &x->v->file->tensors[i];
        status = hk_hf_name_to(x->family, x->model.layers, t->name, name, x->err);
        if (status == HK_OK)
            status = hk_view_rename(x->v, i, name, x->err);
    }
    return status;
}

static enum hk_status put_tensors(struct exporting *x, bool tied)
{
    drop(x->v, "rope_freqs.weight"); /* hk_hf_read_model() has turned it into parameters */
    if (tied)
        drop(x->v, "output.weight");
    enum hk_status status = check_tensors(x);
    if (status == HK_OK)
        status = hk_st_decode(x->v, x->opt, x->err);
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

/* A head's length that config.json tells, but that is not made a key again where it follows from
 * the others. */
static bool is_implied(const struct exporting *x, struct hk_bytes key)
{
    char length[2][96];
    snprintf(length[0], sizeof length[0], "%s.attention.key_length", x->family->architecture);
    snprintf(length[1], sizeof length[1], "%s.attention.value_length", x->family->architecture);
    const struct hk_hf_model *m = &x->model;
    return (hk_bytes_are(key, length[0]) || hk_bytes_are(key, length[1])) &&
           (uint64_t)m->heads * m->head_dim == m->width;
}

static bool is_told(const struct exporting *x, struct hk_bytes key)
{
    return hk_hf_tokenizer_tells(key) ||
           (hk_hf_config_tells(x->family, key) && !is_implied(x, key));
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
    const char *what = hk_hf_model_lacks(x->family, key) ? "config.json has no field for it"
                       : !is_told(x, key) && changes_text(key)
                           ? "no file beside the weights says it"
                           : NULL;
    if (what != NULL)
        hk_lost(x->opt,
                "key %.*s: %s; it stays in the safetensors' metadata, where transformers does "
                "not look",
                HK_STR(key), what);
}

/* Keep what no side file tells, for __metadata__. transformers asks for "format". */
static void put_metadata(struct exporting *x)
{
    struct hk_kvlist *l = &x->v->kvs;
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct hk_kv kv = l->kvs[i];
        report_unknown(x, kv.key);
        if (hk_bytes_are(kv.key, "format")) {
            if (kv.type != HK_META_STRING || !hk_bytes_are(kv.value, "pt"))
                hk_lost(x->opt, "key format: transformers needs it to be 'pt'");
        } else if (!is_told(x, kv.key))
            l->kvs[kept++] = kv;
    }
    l->count = kept;
    hk_kvlist_text(l, "format", "pt");
}

/* ---- the whole ---- */

static enum hk_status read_model(struct exporting *x, bool *tied)
{
    const struct hk_file *f = x->v->from;
    struct hk_hf_told told;
    enum hk_status status = hk_hf_read_told(f, &told, x->err);
    if (status == HK_OK)
        status = hk_hf_family_of(f, &told, &x->family, x->err);
    if (status == HK_OK)
        status = hk_hf_read_model(f, x->family, &x->model, x->err);
    if (status == HK_OK)
        status = hk_hf_is_tied(f, told.config.tied, tied, x->err);
    hk_hf_told_free(&told);
    return status;
}

enum hk_status hk_hf_export(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_side_files *out, struct hk_error *err)
{
    struct exporting x = {.v = v, .opt = opt, .err = err};
    bool tied = false;
    enum hk_status status = read_model(&x, &tied);
    if (status == HK_OK)
        status = put_tensors(&x, tied);
    if (status == HK_OK)
        status = hk_hf_put_config(v->from, x.family, most(v->file, opt->dense), out, err);
    if (status == HK_OK)
        status = hk_hf_put_tokenizer(v->from, opt, out, err);
    if (status == HK_OK)
        put_metadata(&x);
    return status;
}
