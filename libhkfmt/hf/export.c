/* A runnable model as its Hugging Face directory has it: what transformers would not compute alike
 * is refused, and the tensor of rope factors that llama.cpp has becomes parameters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- what config.json has no field for ---- */

static enum hk_status refuse_key_value(const struct hk_model_params *p, enum hk_model_key key,
                                       double v, struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "key %s is %g: config.json has no field for it",
                   hk_key_text(p->architecture, key).s, v);
}

static enum hk_status refuse_params(const struct hk_model_params *p, struct hk_error *err)
{
    const struct hk_rope *r = &p->rope;
    const bool yarn = r->kind == HK_ROPE_YARN;
    if (p->value_dim != p->key_dim)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "keys have %u values a head and values %u: config.json has one head_dim",
                       p->key_dim, p->value_dim);
    if (r->ext_factor != (yarn ? 1 : 0))
        return refuse_key_value(p, HK_KEY_YARN_EXT_FACTOR, r->ext_factor, err);
    if (r->yarn_attn_factor != 1)
        return refuse_key_value(p, HK_KEY_YARN_ATTN_FACTOR, r->yarn_attn_factor, err);
    if (!yarn && r->attn_factor != 1 && (p->family->tensors & HK_MAY_HAVE_LONGROPE) == 0)
        return refuse_key_value(p, HK_KEY_SCALING_ATTN_FACTOR, r->attn_factor, err);
    if (p->window > 0 && !p->family->slides)
        return refuse_key_value(p, HK_KEY_SLIDING_WINDOW, p->window, err);
    if (p->window > 0 && p->whole_every != 0 && p->family->whole_every == 0)
        return refuse_key_value(p, HK_KEY_WINDOW_PATTERN, p->whole_every, err);
    return hk_hf_refuse_multipliers(p, err);
}

/* ---- the tensor of factors ---- */

/* Converters compute them in f32. The power has a relative error of some 16 roundings (its
 * exponent times ln(base)), which the blend multiplies by less than 32. */
static const double rounding = 512 * 0x1p-24;

static bool rope_gives_factors(const struct hk_rope *r, const float *factors, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        const double expected = (double)hk_rope_factor(r, 2 * pairs, i);
        if (!(fabs((double)factors[i] - expected) <= expected * rounding))
            return false;
    }
    return true;
}

/* Of files without the parameters: those of the models that were published. */
static bool recover_llama3(struct hk_rope *r, const float *factors, uint32_t pairs)
{
    static const double published[] = {8, 32}; /* Llama 3.1 and 3.2 */
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct hk_rope guess = *r;
        guess.kind = HK_ROPE_LLAMA3;
        guess.factor = published[i];
        guess.low_freq = 1;
        guess.high_freq = 4;
        guess.original = 8192;
        if (rope_gives_factors(&guess, factors, pairs)) {
            *r = guess;
            return true;
        }
    }
    return false;
}

static enum hk_status explain_factors(struct hk_rope *r, const float *factors, uint32_t pairs,
                                      const struct hk_tensor *t, struct hk_error *err)
{
    if (r->kind == HK_ROPE_LLAMA3 && rope_gives_factors(r, factors, pairs))
        return HK_OK;
    if (r->kind == HK_ROPE_NONE && recover_llama3(r, factors, pairs))
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s holds other factors than %s: config.json cannot say them",
                   HK_STR(t->name),
                   r->kind == HK_ROPE_LLAMA3 ? "the keys of llama3 scaling give"
                   : r->kind != HK_ROPE_NONE ? "the scaling that the keys name"
                                             : "a published llama3 scaling");
}

/* What the tensor, where F has it, says of R. */
static enum hk_status read_rope_factors(const struct hk_file *f, uint32_t dims, struct hk_rope *r,
                                        struct hk_error *err)
{
    const struct hk_tensor *t = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_ROPE_FACTORS));
    const uint32_t pairs = dims / 2;
    struct hk_decoder *d = NULL;
    if (t == NULL)
        return HK_OK;
    if (hk_tensor_elems(t) != pairs)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %llu factors for %u pairs", HK_STR(t->name),
                       (unsigned long long)hk_tensor_elems(t), pairs);
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    float *factors = calloc(pairs, sizeof *factors);
    if (factors == NULL)
        st = hk_fail_nomem(err);
    else {
        hk_decoder_read(d, 0, pairs, factors);
        st = explain_factors(r, factors, pairs, t, err);
    }
    free(factors);
    hk_decoder_free(&d);
    return st;
}

/* The hyperparameters of F as far as config.json can say them. The family is the stored config's
 * where it fits F. */
static enum hk_status read_export_params(const struct hk_file *f, const struct hk_hf_stored *stored,
                                         struct hk_model_params *out, struct hk_error *err)
{
    struct hk_model_params p;
    const struct hk_key_source keys = hk_keys_of_file(f);
    enum hk_status st = hk_params_read(&keys, HK_PARAMS_TO_RUN, &p, err);
    if (st == HK_OK && stored->json != NULL &&
        strcmp(stored->config.model.architecture, p.architecture) == 0)
        p.family = stored->config.family;
    if (st == HK_OK)
        st = refuse_params(&p, err);
    if (st == HK_OK)
        st = read_rope_factors(f, p.rope_dims, &p.rope, err);
    if (st == HK_OK)
        st = hk_hf_refuse_longrope(f, stored->json, err);
    if (st == HK_OK)
        *out = p;
    return st;
}

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
                       wanted->name,
                       (unsigned long long)((wanted->rows > 0 ? wanted->rows : 1) *
                                            (wanted->experts > 0 ? wanted->experts : 1)),
                       (unsigned long long)wanted->cols);
    return HK_OK;
}

/* Ends at the first layer that is not there, whatever their number is said to be. */
static enum hk_status check_exported_tensors(const struct exporting *x)
{
    enum hk_status st = HK_OK;
    struct hk_model_tensor wanted;
    for (size_t at = 0; st == HK_OK && hk_model_tensor_next(&x->model, &at, &wanted);)
        st = check_exported_tensor(x, &wanted);
    return st;
}

/* ---- tensors ---- */

static size_t find_view_tensor(const struct hk_view *v, const char *name)
{
    size_t i = 0;
    while (i < v->file->tensor_count && !hk_bytes_are(v->file->tensors[i].name, name))
        i++;
    return i;
}

static void drop_view_tensor(struct hk_view *v, const char *name)
{
    const size_t i = find_view_tensor(v, name);
    if (i < v->file->tensor_count)
        hk_view_drop(v, i);
}

/* Rows that are rotated together are half a head apart in most classes of transformers. */
static enum hk_status reorder_to_halves(struct exporting *x)
{
    const struct hk_file *f = x->v->file;
    const bool other = !hk_turns_as_in_hf(&x->model);
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && other && i < f->tensor_count; i++) {
        const uint32_t heads = hk_rotating_heads(&x->model, f->tensors[i].name);
        if (heads > 0)
            st = hk_view_reorder(x->v, i, HK_ROWS_TO_HALVES, heads, x->err);
    }
    return st;
}

/* Stack I, whose place is PLACE, becomes a tensor an expert at the end. */
static enum hk_status unstack_experts(struct exporting *x, size_t i, struct hk_tensor_place place)
{
    char name[HK_MAX_NAME + 1];
    const uint64_t count = x->v->file->tensors[i].shape[0];
    enum hk_status st = HK_OK;
    for (; st == HK_OK && place.expert < count; place.expert++) {
        hk_tensor_place_name(&place, false, name);
        st = hk_view_slice(x->v, i, place.expert, name, x->err);
    }
    hk_view_drop(x->v, i);
    return st;
}

static enum hk_status rename_all_to_hf(struct exporting *x)
{
    char name[HK_MAX_NAME + 1];
    enum hk_status st = HK_OK;
    size_t left = x->v->file->tensor_count; /* slices are at the end already */
    for (size_t i = 0; st == HK_OK && left > 0; left--) {
        struct hk_tensor_place place;
        st = hk_tensor_place_find(x->model.family, x->model.layers, x->v->file->tensors[i].name,
                                  true, &place, x->err);
        if (st != HK_OK)
            return st;
        if (hk_tensor_row_by_expert(place.row)) {
            st = unstack_experts(x, i, place);
            continue;
        }
        hk_tensor_place_name(&place, false, name);
        st = hk_view_rename(x->v, i++, name, x->err);
    }
    return st;
}

/* The type of most weights, of those that config.json has a name for. */
static enum hk_type choose_dtype(const struct hk_file *f, enum hk_type dense)
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

static enum hk_status export_tensors(struct exporting *x, bool tied)
{
    /* read_export_params() has turned it into parameters, or found them in config.json */
    drop_view_tensor(x->v, hk_tensor_role_name(HK_ROLE_ROPE_FACTORS));
    drop_view_tensor(x->v, hk_tensor_role_name(HK_ROLE_ROPE_SHORT));
    drop_view_tensor(x->v, hk_tensor_role_name(HK_ROLE_ROPE_LONG));
    if (tied)
        drop_view_tensor(x->v, hk_tensor_role_name(HK_ROLE_OUTPUT));
    enum hk_status st = check_exported_tensors(x);
    if (st == HK_OK)
        st = hk_decode_for_safetensors(x->v, x->opt, x->err);
    if (st == HK_OK)
        st = reorder_to_halves(x);
    if (st == HK_OK)
        st = hk_hf_lower_norms(x->v, x->model.family, choose_dtype(x->v->file, x->opt->dense),
                               x->err);
    return st == HK_OK ? rename_all_to_hf(x) : st;
}

/* ---- metadata ---- */

/* Whether config.json has a field for KEY. */
static bool config_covers(const char *architecture, struct hk_bytes key)
{
    const enum hk_model_key k = hk_key_of_text(architecture, key);
    return k != HK_MODEL_KEYS && (hk_key_flags(k) & HK_KEY_IN_CONFIG) != 0;
}

/* Whether KEY is one of ARCHITECTURE's that config.json has no field for, and that
 * read_export_params() does not look at either. */
static bool config_lacks(const char *architecture, struct hk_bytes key)
{
    const size_t n = strlen(architecture);
    return key.n > n + 1 && memcmp(key.p, architecture, n) == 0 && key.p[n] == '.' &&
           hk_key_of_text(architecture, key) == HK_MODEL_KEYS;
}

/* A head's length that config.json says, but that is not made a key again where it follows from the
 * others. */
static bool is_implied_head_size(const struct exporting *x, struct hk_bytes key)
{
    const struct hk_model_params *m = &x->model;
    const enum hk_model_key k = hk_key_of_text(m->architecture, key);
    return (k == HK_KEY_KEY_LENGTH || k == HK_KEY_VALUE_LENGTH) &&
           (uint64_t)m->heads * m->key_dim == m->hidden;
}

static bool is_covered_by_files(const struct exporting *x, struct hk_bytes key)
{
    return hk_hf_tokenizer_covers(key) ||
           (config_covers(x->model.architecture, key) && !is_implied_head_size(x, key));
}

/* What would change a text, and no side file of a directory has. */
static bool is_text_key(struct hk_bytes key)
{
    static const char *const groups[] = {"tokenizer.", "general.sampling."};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (key.n > strlen(groups[i]) && memcmp(key.p, groups[i], strlen(groups[i])) == 0)
            return true;
    return false;
}

/* No loss of the file's, but of the model's. */
static void report_unsaid_key(const struct exporting *x, struct hk_bytes key)
{
    const char *what = config_lacks(x->model.architecture, key) ? "config.json has no field for it"
                       : !is_covered_by_files(x, key) && is_text_key(key)
                           ? "no file beside the weights says it"
                           : NULL;
    if (what != NULL)
        hk_report_loss(
            x->opt,
            "key %.*s: %s; it stays in the safetensors' metadata, where transformers does "
            "not look",
            HK_STR(key), what);
}

/* Keep what no side file covers, for __metadata__. transformers asks for "format". */
static void keep_uncovered_metadata(struct exporting *x)
{
    struct hk_kvlist *l = &x->v->kvs;
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct hk_kv kv = l->kvs[i];
        report_unsaid_key(x, kv.key);
        if (hk_bytes_are(kv.key, "format")) {
            if (kv.type != HK_META_STRING || !hk_bytes_are(kv.value, "pt"))
                hk_report_loss(x->opt, "key format: transformers needs it to be 'pt'");
        } else if (!is_covered_by_files(x, kv.key))
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
    enum hk_status st = hk_hf_stored_read(f, &stored, x->err);
    if (st == HK_OK)
        st = read_export_params(f, &stored, &x->model, x->err);
    if (st == HK_OK)
        st = hk_output_is_tied(f, stored.config.tied, tied, x->err);
    if (st == HK_OK && (t == NULL || t->ndim == 0 || t->shape[0] > UINT32_MAX))
        st = hk_fail(x->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s with a row for each token",
                     hk_tensor_role_name(HK_ROLE_EMBEDDING));
    if (st == HK_OK)
        x->model.vocab = (uint32_t)t->shape[0];
    hk_hf_stored_free(&stored);
    return st;
}

enum hk_status hk_hf_export(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_side_files *out, struct hk_error *err)
{
    struct exporting x = {.v = v, .opt = opt, .err = err};
    bool tied = false;
    enum hk_status st = read_exported_model(&x, &tied);
    if (st == HK_OK)
        st = export_tensors(&x, tied);
    if (st == HK_OK)
        st = hk_hf_export_config(v->from, &x.model, choose_dtype(v->file, opt->dense), out, err);
    if (st == HK_OK)
        st = hk_hf_export_tokenizer(v->from, opt, out, err);
    if (st == HK_OK)
        keep_uncovered_metadata(&x);
    return st;
}
