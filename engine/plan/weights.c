/* Every tensor of the file bound to its place in the model. Matrices stay where they are; norms and
 * biases are decoded here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/model.h"

/* ---- types, before contents ---- */

enum hk_status hke_check_types(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        const struct hk_type_info *type = hk_type_info(t->type);
        if (type == NULL || type->kind == HK_CLASS_OPAQUE)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: type %s is not supported", HK_STR(t->name),
                           type == NULL ? "unknown" : type->name);
    }
    return HK_OK;
}

/* ---- binding ---- */

struct binding {
    struct hke_model *m;
    const struct hk_tensor **bound; /* tensors that have a place: COUNT of them */
    size_t count;
    uint64_t budget; /* elements that matrices may still have */
    struct hk_error *err;
    enum hk_status status; /* of the first failure: after it nothing is bound */
};

static enum hk_status wrong_shape(const struct binding *b, const struct hk_tensor *t, size_t rows,
                                  size_t cols)
{
    char is[96] = "";
    size_t at = 0;
    for (unsigned i = 0; i < t->ndim && at < sizeof is; i++)
        at += (size_t)snprintf(is + at, sizeof is - at, "%s%" PRIu64, i > 0 ? " x " : "",
                               t->shape[i]);
    if (rows > 0)
        return hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s is %s, but the model has it %zu x %zu", HK_STR(t->name), is,
                       rows, cols);
    return hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                   "tensor %.*s is %s, but the model has it %zu", HK_STR(t->name), is, cols);
}

/* The tensor NAME, [rows][cols], or [cols] with ROWS 0; NULL, and the status set, if it is not
 * there. */
static const struct hk_tensor *take(struct binding *b, const char *name, size_t rows, size_t cols)
{
    const struct hk_tensor *t = hk_tensor_find(b->m->file, name);
    if (t == NULL) {
        b->status = hk_fail(b->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", name);
        return NULL;
    }
    bool fits = rows > 0 ? t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols
                         : t->ndim == 1 && t->shape[0] == cols;
    if (!fits) {
        b->status = wrong_shape(b, t, rows, cols);
        return NULL;
    }
    b->bound[b->count++] = t;
    return t;
}

/* References to nothing and sparse blocks give a small file matrices of any size, and with them
 * buffers and work without bound. No format stores as little as this a weight. */
enum { WEIGHTS_A_BYTE = 64, WEIGHTS_FREE = 1 << 20 };

static bool within_budget(struct binding *b, const struct hk_tensor *t, size_t rows, size_t cols)
{
    uint64_t elems = (uint64_t)rows * cols; /* dimensions are below 2^31, 2^40 and 2^20 */
    if (elems > b->budget) {
        b->status = hk_fail(b->err, HK_E_RANGE, t->entry_offset,
                            "tensor %.*s is %zu x %zu: more weights than a file of %" PRIu64
                            " bytes can mean",
                            HK_STR(t->name), rows, cols, hk_file_size(b->m->file));
        return false;
    }
    b->budget -= elems;
    return true;
}

static void matrix(struct binding *b, const char *name, size_t rows, size_t cols,
                   struct hke_matrix *out)
{
    if (b->status != HK_OK)
        return;
    const struct hk_tensor *t = take(b, name, rows, cols);
    if (t == NULL || !within_budget(b, t, rows, cols))
        return;
    b->status = hk_decoder_new(&out->decoder, b->m->file, t, b->err);
    if (b->status != HK_OK)
        return;
    out->tensor = t;
    out->rows = rows;
    out->cols = cols;
    out->data = hk_decoder_rows(out->decoder, &out->type);
    if (out->data != NULL &&
        (hkk_kind_of(out->type) == HKK_KIND_NONE || cols % hkk_block_elems(out->type) != 0))
        out->data = NULL;
}

/* Norms and biases are used as f32, which other types are not meant to become. */
static bool is_vector_type(struct binding *b, const struct hk_tensor *t)
{
    const struct hk_tensor *target;
    b->status = hk_tensor_resolve(b->m->file, t, &target, b->err);
    if (b->status != HK_OK)
        return false;
    if (target->type == HK_TYPE_F32 || target->type == HK_TYPE_F16 || target->type == HK_TYPE_BF16)
        return true;
    b->status = hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                        "tensor %.*s is %s: a norm or a bias has to be f32, f16 or bf16",
                        HK_STR(t->name), hk_type_info(target->type)->name);
    return false;
}

static void vector(struct binding *b, const char *name, size_t n, float **out)
{
    if (b->status != HK_OK)
        return;
    const struct hk_tensor *t = take(b, name, 0, n);
    if (t == NULL || !is_vector_type(b, t))
        return;
    struct hk_decoder *d;
    b->status = hk_decoder_new(&d, b->m->file, t, b->err);
    if (b->status != HK_OK)
        return;
    *out = calloc(n, sizeof **out);
    if (*out == NULL)
        b->status = hk_fail_nomem(b->err);
    else
        hk_decoder_read(d, 0, n, *out);
    hk_decoder_free(&d);
}

/* A GGUF names the rows behind its vocabulary "[PAD12]", by their numbers: no text has them, and
 * they are never to be drawn. */
static uint32_t named_tokens(const struct hk_array *tokens)
{
    uint32_t n = tokens->count;
    while (n > 1 && hk_vocab_is_padding(hk_array_string(tokens, n - 1), n - 1))
        n--;
    return n;
}

/* The rows of the embedding decide how many logits there are; its tokens must all have one. */
static void count_vocab(struct binding *b)
{
    struct hk_model_params *p = &b->m->params;
    if (b->status != HK_OK)
        return;
    const struct hk_tensor *t = hk_tensor_find(b->m->file, "token_embd.weight");
    if (t == NULL)
        return; /* matrix() says so */
    if (t->ndim != 2 || t->shape[0] == 0 || t->shape[0] > INT32_MAX) {
        b->status = hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                            "tensor %.*s has %u dimensions and %" PRIu64 " rows", HK_STR(t->name),
                            t->ndim, t->shape[0]);
        return;
    }
    p->vocab = (uint32_t)t->shape[0];
    b->m->tokens = p->vocab;
    const struct hk_kv *kv = hk_vocab_find(b->m->file, HK_VOCAB_TOKENS);
    if (kv == NULL)
        return;
    struct hk_array tokens;
    b->status = hk_kv_array(kv, HK_ARRAY_STRING, &tokens, b->err);
    if (b->status != HK_OK)
        return;
    b->m->tokens = named_tokens(&tokens);
    hk_array_free(&tokens);
    if (b->m->tokens > p->vocab || b->m->tokens == 0)
        b->status =
            hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                    "the vocabulary has %u tokens, the embedding %u rows", b->m->tokens, p->vocab);
}

/* The place of matrix T; NULL: it is a vector. */
static struct hke_matrix *place_of_matrix(struct hke_model *m, const struct hk_model_tensor *t)
{
    struct hke_layer *l = &m->layers[t->layer];
    switch (t->role) {
    case HK_ROLE_EMBEDDING:
        return &m->embedding;
    case HK_ROLE_OUTPUT:
        return &m->output;
    case HK_ROLE_Q:
        return &l->q;
    case HK_ROLE_K:
        return &l->k;
    case HK_ROLE_V:
        return &l->v;
    case HK_ROLE_ATTN_OUTPUT:
        return &l->o;
    case HK_ROLE_FFN_GATE:
        return &l->gate;
    case HK_ROLE_FFN_UP:
        return &l->up;
    case HK_ROLE_FFN_DOWN:
        return &l->down;
    default:
        return NULL;
    }
}

static float **place_of_vector(struct hke_model *m, const struct hk_model_tensor *t)
{
    struct hke_layer *l = &m->layers[t->layer];
    switch (t->role) {
    case HK_ROLE_OUTPUT_NORM:
        return &m->output_norm;
    case HK_ROLE_ROPE_FACTORS:
        return &m->rope_factors;
    case HK_ROLE_ATTN_NORM:
        return &l->attn_norm;
    case HK_ROLE_FFN_NORM:
        return &l->ffn_norm;
    case HK_ROLE_Q_BIAS:
        return &l->q_bias;
    case HK_ROLE_K_BIAS:
        return &l->k_bias;
    case HK_ROLE_V_BIAS:
        return &l->v_bias;
    case HK_ROLE_Q_NORM:
        return &l->q_norm;
    case HK_ROLE_K_NORM:
        return &l->k_norm;
    default:
        return NULL;
    }
}

static void bind_tensor(struct binding *b, const struct hk_model_tensor *t)
{
    struct hke_matrix *w = place_of_matrix(b->m, t);
    if (t->optional && hk_tensor_find(b->m->file, t->name) == NULL)
        return;
    if (w != NULL)
        matrix(b, t->name, t->rows, t->cols, w);
    else
        vector(b, t->name, t->cols, place_of_vector(b->m, t));
}

/* ---- what has no place ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const struct hk_tensor *const *)a;
    uintptr_t y = (uintptr_t) * (const struct hk_tensor *const *)b;
    return (x > y) - (x < y);
}

/* Names are unique, so a file with more tensors than were bound has one without a place: a bias or
 * a norm that the architecture does not have, or a part of something else. */
static void refuse_others(struct binding *b)
{
    const struct hk_file *f = b->m->file;
    if (b->status != HK_OK || b->count == hk_tensor_count(f))
        return;
    qsort(b->bound, b->count, sizeof(struct hk_tensor *), by_address);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (bsearch(&t, b->bound, b->count, sizeof(struct hk_tensor *), by_address) != NULL)
            continue;
        b->status = hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                            "tensor %.*s has no place in a %s model", HK_STR(t->name),
                            b->m->params.architecture);
        return;
    }
}

enum hk_status hke_bind_weights(struct hke_model *m, struct hk_error *err)
{
    const struct hk_model_params *p = &m->params;
    struct binding b = {.m = m, .err = err};
    struct hk_model_tensor t;
    size_t at = 0;
    b.budget = hk_file_size(m->file) * WEIGHTS_A_BYTE + WEIGHTS_FREE;
    b.bound = calloc(hk_tensor_count(m->file) + 1, sizeof(struct hk_tensor *));
    m->layers = calloc(p->layers, sizeof *m->layers);
    if (b.bound == NULL || m->layers == NULL)
        b.status = hk_fail_nomem(err);
    count_vocab(&b);
    while (b.status == HK_OK && hk_model_tensor_next(p, &at, &t))
        bind_tensor(&b, &t);
    refuse_others(&b);
    free(b.bound);
    return b.status;
}

/* ---- what needs kernels ---- */

static enum hk_status need_kernels(const struct hke_matrix *w, const struct hk_file *f,
                                   struct hk_error *err)
{
    const struct hk_tensor *target;
    if (w->tensor == NULL || w->data != NULL)
        return HK_OK;
    enum hk_status st = hk_tensor_resolve(f, w->tensor, &target, err);
    if (st != HK_OK)
        return st;
    const char *form = target->scale_size > 0 || target->sparsity != HK_SPARSITY_NONE ||
                               target->layout != HK_LAYOUT_ROW_MAJOR
                           ? " in this layout"
                           : "";
    return hk_fail(err, HK_E_UNSUPPORTED, w->tensor->entry_offset,
                   "tensor %.*s: there are no kernels for type %s%s; it runs with --activations "
                   "f32",
                   HK_STR(w->tensor->name), hk_type_info(target->type)->name, form);
}

enum hk_status hke_check_kernels(const struct hke_model *m, struct hk_error *err)
{
    enum hk_status st = need_kernels(&m->embedding, m->file, err);
    if (st == HK_OK)
        st = need_kernels(&m->output, m->file, err);
    for (uint32_t i = 0; i < m->params.layers; i++) {
        const struct hke_layer *l = &m->layers[i];
        const struct hke_matrix *all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t k = 0; k < sizeof all / sizeof *all && st == HK_OK; k++)
            st = need_kernels(all[k], m->file, err);
    }
    return st;
}

/* ---- the end ---- */

static void free_layer(struct hke_layer *l)
{
    struct hke_matrix *matrices[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    float *vectors[] = {l->attn_norm, l->ffn_norm, l->q_bias, l->k_bias,
                        l->v_bias,    l->q_norm,   l->k_norm};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        hk_decoder_free(&matrices[i]->decoder);
        hke_low_rank_free(&matrices[i]->low);
    }
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        free(vectors[i]);
}

void hke_free_weights(struct hke_model *m)
{
    for (uint32_t i = 0; m->layers != NULL && i < m->params.layers; i++)
        free_layer(&m->layers[i]);
    hk_decoder_free(&m->embedding.decoder);
    hk_decoder_free(&m->output.decoder);
    hke_low_rank_free(&m->output.low);
    hke_low_rank_free(&m->embedding.low);
    hke_low_rank_free(&m->embedding_low);
    free(m->output_norm);
    free(m->rope_factors);
    free(m->rope_frequency);
    free(m->layers);
}
