/* Tensors bound to the plan of a model. Matrices stay where they are in the file; norms and biases
 * are decoded here. */
#include "engine/plan/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one tensor ---- */

enum hk_status hke_bind_weight(struct hke_weight *out, const struct hk_file *f,
                               const struct hk_tensor *t, size_t row_begin, size_t rows,
                               struct hk_error *err)
{
    const uint64_t *dim = t->shape + t->ndim - 2;
    struct hke_weight w = {.tensor = t,
                           .stack = t->ndim > 2 ? (size_t)t->shape[0] : 1,
                           .rows = rows,
                           .cols = (size_t)dim[1],
                           .row_begin = row_begin,
                           .tensor_rows = (size_t)dim[0]};
    enum hk_status st = hk_decoder_new(&w.decoder, f, t, err);
    if (st != HK_OK)
        return st;
    w.data = hk_decoder_rows(w.decoder, &w.type);
    *out = w;
    return HK_OK;
}

void hke_unbind_weight(struct hke_weight *w)
{
    hk_decoder_free(&w->decoder);
}

void hke_to_file_order(float *x, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(x + i, &bits, sizeof bits);
    }
}

/* ---- all tensors ---- */

enum { SHAPE_TEXT = 96 };

/* References to nothing and sparse blocks give a small file matrices of any size, and with them
 * buffers and work without bound. No format stores as little as this a weight. */
enum { WEIGHTS_A_BYTE = 64, WEIGHTS_FREE = 1 << 20 };

static enum hk_status spend_weights(struct hke_builder *b, const struct hk_tensor *t,
                                    const struct hk_model_tensor *as)
{
    const uint64_t matrix = as->rows * as->cols; /* both are below 2^31 */
    const uint64_t stack = as->experts > 0 ? as->experts : 1;
    if (matrix > b->budget || stack > b->budget / (matrix > 0 ? matrix : 1))
        return hk_fail(b->err, HK_E_RANGE, t->entry_offset,
                       "tensor %.*s is %" PRIu64 " x %" PRIu64
                       ": more weights than a file of %" PRIu64 " bytes can mean",
                       HK_STR(t->name), as->rows, as->cols, hk_file_size(b->plan->file));
    b->budget -= stack * matrix;
    return HK_OK;
}

static bool is_matrix(const struct hk_model_tensor *t)
{
    return t->rows > 0 && !t->numbers;
}

/* ROWS of T from BEGIN on are the matrix ROLE. */
static enum hk_status bind_rows(struct hke_builder *b, const struct hk_tensor *t,
                                enum hk_tensor_role role, size_t begin, size_t rows)
{
    struct hke_weight *w = &b->plan->weight[b->plan->weights];
    enum hk_status st = hke_bind_weight(w, b->plan->file, t, begin, rows, b->err);
    if (st != HK_OK)
        return st;
    b->plan->weights++;
    b->matrix[role] = w;
    return HK_OK;
}

enum { MOST_PARTS = 3 }; /* matrices that one tensor is */

/* Several matrices may be the rows of one tensor. */
static enum hk_status bind_matrix(struct hke_builder *b, const struct hk_tensor *t,
                                  const struct hk_model_tensor *as)
{
    const struct hk_model_params *p = b->params;
    const struct {
        enum hk_tensor_role whole, part;
        uint64_t rows;
    } parts[] = {
        {HK_ROLE_QKV, HK_ROLE_Q, (uint64_t)p->heads * p->key_dim},
        {HK_ROLE_QKV, HK_ROLE_K, (uint64_t)p->kv_heads * p->key_dim},
        {HK_ROLE_QKV, HK_ROLE_V, (uint64_t)p->kv_heads * p->value_dim},
        {HK_ROLE_FFN_GATE_UP, HK_ROLE_FFN_GATE, p->ffn},
        {HK_ROLE_FFN_GATE_UP, HK_ROLE_FFN_UP, p->ffn},
        {as->role, as->role, as->rows},
    };
    enum hk_status st = spend_weights(b, t, as);
    for (uint64_t i = 0, at = 0; st == HK_OK && at < as->rows; i++)
        if (parts[i].whole == as->role) {
            st = bind_rows(b, t, parts[i].part, at, parts[i].rows);
            at += parts[i].rows;
        }
    return st;
}

/* Norms and biases are used as f32, which other types are not meant to become. */
static enum hk_status check_vector_type(const struct hke_builder *b, const struct hk_tensor *t)
{
    const struct hk_tensor *target;
    enum hk_status st = hk_tensor_resolve(b->plan->file, t, &target, b->err);
    if (st != HK_OK || target->type == HK_TYPE_F32 || target->type == HK_TYPE_F16 ||
        target->type == HK_TYPE_BF16)
        return st;
    return hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s is %s: a norm or a bias has to be f32, f16 or bf16",
                   HK_STR(t->name), hk_type_info(target->type)->name);
}

static enum hk_status decode_vector(struct hke_builder *b, const struct hk_tensor *t,
                                    const struct hk_model_tensor *as)
{
    const size_t n = (as->rows > 0 ? as->rows : 1) * as->cols;
    struct hk_decoder *d;
    enum hk_status st = check_vector_type(b, t);
    if (st == HK_OK)
        st = spend_weights(b, t, as);
    if (st == HK_OK)
        st = hk_decoder_new(&d, b->plan->file, t, b->err);
    if (st != HK_OK)
        return st;
    float *v = calloc(n, sizeof *v);
    if (v != NULL)
        hk_decoder_read(d, 0, n, v);
    hk_decoder_free(&d);
    if (v == NULL)
        return hk_fail_nomem(b->err);
    b->plan->vector[b->plan->vectors++] = v;
    b->vector[as->role] = v;
    return HK_OK;
}

/* "16 x 8", or "8" of a vector, into TEXT. */
static void print_shape(char text[SHAPE_TEXT], const uint64_t *dim, unsigned ndim)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < ndim && at < SHAPE_TEXT; i++)
        at +=
            (size_t)snprintf(text + at, SHAPE_TEXT - at, "%s%" PRIu64, i > 0 ? " x " : "", dim[i]);
}

static enum hk_status check_tensor_shape(const struct hke_builder *b, const struct hk_tensor *t,
                                         const struct hk_model_tensor *as)
{
    const uint64_t dims[] = {as->experts, as->rows, as->cols};
    const unsigned first = as->rows == 0 ? 2 : as->experts == 0 ? 1 : 0;
    if (t->ndim == 3 - first && memcmp(t->shape, dims + first, t->ndim * sizeof *dims) == 0)
        return HK_OK;
    char is[SHAPE_TEXT], want[SHAPE_TEXT];
    print_shape(is, t->shape, t->ndim);
    print_shape(want, dims + first, 3 - first);
    return hk_fail(b->err, HK_E_FORMAT, t->entry_offset,
                   "tensor %.*s is %s, but the model has it %s", HK_STR(t->name), is, want);
}

/* Optional ones may not be there. */
static enum hk_status bind_tensor(struct hke_builder *b, const struct hk_model_tensor *as)
{
    const struct hk_tensor *t = hk_tensor_find(b->plan->file, as->name);
    if (t == NULL)
        return HK_OK;
    enum hk_status st = check_tensor_shape(b, t, as);
    if (st != HK_OK)
        return st;
    b->bound[b->count++] = t;
    return is_matrix(as) ? bind_matrix(b, t, as) : decode_vector(b, t, as);
}

/* The tensors that come next: of LAYER, or those outside of the layers, which come first. */
static void bind_tensors(struct hke_builder *b, bool in_layer, uint32_t layer)
{
    while (b->st == HK_OK && b->more && b->next.in_layer == in_layer && b->next.layer == layer) {
        b->st = bind_tensor(b, &b->next);
        b->more = hk_model_tensor_next(b->params, &b->at, &b->next);
    }
}

/* Not every layer has all that another one has. */
static void forget_layer(struct hke_builder *b)
{
    for (unsigned role = HK_ROLE_ATTN_NORM; role < HK_TENSOR_ROLES; role++) {
        b->matrix[role] = NULL;
        b->vector[role] = NULL;
    }
}

void hke_bind_layer(struct hke_builder *b, uint32_t layer)
{
    forget_layer(b);
    bind_tensors(b, true, layer);
}

/* ---- what has no place ---- */

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const struct hk_tensor *const *)a;
    uintptr_t y = (uintptr_t) * (const struct hk_tensor *const *)b;
    return (x > y) - (x < y);
}

/* A tensor without a place is a bias or a norm that the architecture does not have, or a part of
 * something else. */
static enum hk_status refuse_unbound(struct hke_builder *b)
{
    const struct hk_file *f = b->plan->file;
    qsort(b->bound, b->count, sizeof(struct hk_tensor *), compare_addresses);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (hk_is_of_next_layers(b->params, t->name))
            continue;
        if (bsearch(&t, b->bound, b->count, sizeof(struct hk_tensor *), compare_addresses) == NULL)
            return hk_fail(b->err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s has no place in a %s model", HK_STR(t->name),
                           b->params->architecture);
    }
    return HK_OK;
}

/* Every tensor that has to be there is: so the plan is not much larger than the file's table. */
static enum hk_status count_tensors(const struct hke_builder *b, size_t *matrices, size_t *vectors)
{
    struct hk_model_tensor t;
    *matrices = *vectors = 0;
    for (size_t at = 0; hk_model_tensor_next(b->params, &at, &t);) {
        if (!t.optional && hk_tensor_find(b->plan->file, t.name) == NULL)
            return hk_fail(b->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", t.name);
        const bool fused = t.role == HK_ROLE_QKV || t.role == HK_ROLE_FFN_GATE_UP;
        *(is_matrix(&t) ? matrices : vectors) += fused ? MOST_PARTS : 1;
    }
    return HK_OK;
}

/* ---- begin and end ---- */

void hke_bind_begin(struct hke_builder *b)
{
    struct hke_plan *p = b->plan;
    size_t matrices, vectors;
    b->budget = hk_file_size(p->file) * WEIGHTS_A_BYTE + WEIGHTS_FREE;
    b->st = count_tensors(b, &matrices, &vectors);
    if (b->st != HK_OK)
        return;
    p->weight = calloc(matrices, sizeof *p->weight);
    p->vector = calloc(vectors, sizeof *p->vector);
    b->bound = calloc(matrices + vectors, sizeof(struct hk_tensor *));
    if (p->weight == NULL || p->vector == NULL || b->bound == NULL)
        b->st = hk_fail_nomem(b->err);
    b->more = hk_model_tensor_next(b->params, &b->at, &b->next);
    bind_tensors(b, false, 0);
}

void hke_bind_end(struct hke_builder *b)
{
    if (b->st == HK_OK)
        b->st = refuse_unbound(b);
    free(b->bound);
}
