/* Folding adapters and deltas into new base tensors: each tensor that is changed has a list of what
 * changes it, which is applied row by row while it is copied. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

struct change {
    struct change *next;
    const struct hk_low_rank *pair; /* one of the three */
    const struct hk_replacement *whole;
    const struct hk_decoder *delta;
    double scale;
    size_t item; /* whose it is */
};

struct patch { /* of one tensor */
    struct change *first, **last;
    float *delta_row;
};

struct merging {
    struct hk_view *v;
    struct hk_arena arena;
    /* One a tensor of the file; behind them that of the head, where the embedding is the head. */
    struct patch *patches;
    size_t embedding, head; /* their patches; SIZE_MAX: there is none */
    bool own_head;          /* the head of a tied model changes otherwise than its embedding */
    struct hk_adapter **adapters; /* of items */
    struct hk_file **payloads;    /* of deltas */
    size_t count;                 /* of items; either of the two is NULL */
    struct hk_decoder **decoders; /* of deltas' tensors */
    size_t decoder_count;
    enum hk_type type;
};

/* ---- one row ---- */

static void add_low_rank_row(const struct hk_low_rank *p, double scale, uint64_t row, uint64_t cols,
                             float *v)
{
    const float *b = p->b + row * p->rank;
    for (uint64_t c = 0; c < cols; c++) {
        double sum = 0;
        for (uint32_t r = 0; r < p->rank; r++)
            sum += (double)b[r] * (double)p->a[r * cols + c];
        v[c] = (float)((double)v[c] + scale * p->scale * sum);
    }
    if (p->magnitude == NULL)
        return;
    double norm = 0;
    for (uint64_t c = 0; c < cols; c++)
        norm += (double)v[c] * (double)v[c];
    const double factor = norm > 0 ? (double)p->magnitude[row] / sqrt(norm) : 0;
    for (uint64_t c = 0; c < cols; c++)
        v[c] = (float)((double)v[c] * factor);
}

static int compare_row_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void replace_row(const struct hk_replacement *w, uint64_t row, uint64_t cols, float *v)
{
    uint64_t from = row;
    if (w->rows != NULL) {
        const uint32_t key = (uint32_t)row;
        const uint32_t *at = bsearch(&key, w->rows, w->row_count, sizeof key, compare_row_numbers);
        if (at == NULL || row > UINT32_MAX)
            return;
        from = (uint64_t)(at - w->rows);
    }
    memcpy(v, w->values + from * cols, (size_t)cols * sizeof *v);
}

static void add_delta_row(const struct change *c, float *scratch, uint64_t row, uint64_t cols,
                          float *v)
{
    hk_decoder_read(c->delta, row * cols, (size_t)cols, scratch);
    for (uint64_t i = 0; i < cols; i++)
        v[i] = (float)((double)v[i] + c->scale * (double)scratch[i]);
}

static void change_row(void *arg, uint64_t row, uint64_t cols, float *v)
{
    const struct patch *p = arg;
    for (const struct change *c = p->first; c != NULL; c = c->next) {
        if (c->pair != NULL)
            add_low_rank_row(c->pair, c->scale, row, cols, v);
        else if (c->whole != NULL)
            replace_row(c->whole, row, cols, v);
        else
            add_delta_row(c, p->delta_row, row, cols, v);
    }
}

/* ---- what changes what ---- */

/* Let C change the tensor of patch INDEX, after what was added before. */
static enum hk_status add_change(struct merging *m, size_t index, const struct change *what,
                                 struct hk_error *err)
{
    struct patch *p = &m->patches[index];
    struct change *c = hk_arena_alloc(&m->arena, sizeof *c);
    if (c == NULL)
        return hk_fail_nomem(err);
    *c = *what;
    c->next = NULL;
    if (p->first == NULL)
        p->last = &p->first;
    *p->last = c;
    p->last = &c->next;
    return HK_OK;
}

/* A tensor trained whole, and the lengths of DoRA, are of the base as it was trained on: another
 * record's change before them would be lost, or be scaled too. */
static enum hk_status check_first(const struct merging *m, size_t index, const struct change *c,
                                  const char *what, struct hk_error *err)
{
    for (const struct change *o = m->patches[index].first; o != NULL; o = o->next)
        if (o->item != c->item)
            return hk_fail(
                err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "tensor %.*s: %s has to be merged before what else changes it; name the "
                "records in that order with --adapter",
                HK_STR(m->v->from->tensors[index < m->v->from->tensor_count ? index : m->embedding]
                           .name),
                what);
    return HK_OK;
}

/* Let C change BASE, or the uses of it that USE says. */
static enum hk_status change_tensor(struct merging *m, const struct hk_tensor *base,
                                    enum hk_weight_use use, const struct change *c,
                                    struct hk_error *err)
{
    const char *first = c->whole != NULL                                ? "what was trained whole"
                        : c->pair != NULL && c->pair->magnitude != NULL ? "a DoRA"
                                                                        : NULL;
    size_t at[2] = {(size_t)(base - m->v->from->tensors), SIZE_MAX};
    if (use == HK_USE_HEAD)
        at[0] = m->head;
    else if (use == HK_USE_BOTH)
        at[1] = m->head;
    else if (use == HK_USE_EMBEDDING)
        at[0] = m->embedding;
    m->own_head |= use == HK_USE_HEAD || use == HK_USE_EMBEDDING;
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < 2 && at[i] != SIZE_MAX; i++) {
        if (first != NULL)
            st = check_first(m, at[i], c, first, err);
        if (st == HK_OK)
            st = add_change(m, at[i], c, err);
    }
    return st;
}

/* What was trained whole comes before pairs of the same module. */
static enum hk_status take_adapter(struct merging *m, size_t item, size_t record, double scale,
                                   struct hk_error *err)
{
    enum hk_status st = hk_adapter_open(&m->adapters[item], m->v->from, record, err);
    const struct hk_adapter *a = m->adapters[item];
    for (size_t i = 0; st == HK_OK && i < hk_adapter_replacements(a); i++) {
        const struct hk_replacement *w = hk_adapter_replacement(a, i);
        const struct change c = {.whole = w, .scale = scale, .item = item};
        if (scale < 1 || scale > 1)
            return hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(m->v->from, record)->offset,
                           "tensor %.*s: one that was trained whole is taken once, not %g times",
                           HK_STR(w->base->name), scale);
        st = change_tensor(m, w->base, w->use, &c, err);
    }
    for (size_t i = 0; st == HK_OK && i < hk_adapter_count(a); i++) {
        const struct hk_low_rank *p = hk_adapter_at(a, i);
        const struct change c = {.pair = p, .scale = scale, .item = item};
        st = change_tensor(m, p->base, p->use, &c, err);
    }
    return st;
}

/* The base's tensor of T's name and shape. */
static enum hk_status find_base_tensor(const struct hk_file *f, const struct hk_tensor *t,
                                       size_t *index, struct hk_error *err)
{
    char name[HK_MAX_NAME + 1];
    const struct hk_tensor *base = NULL;
    if (t->name.n <= HK_MAX_NAME) {
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, (const char *)t->name.p);
        base = hk_tensor_find(f, name);
    }
    if (base == NULL)
        return hk_fail(err, HK_E_MISSING, t->entry_offset, "the base has no tensor %.*s",
                       HK_STR(t->name));
    if (base->ndim != t->ndim || memcmp(base->shape, t->shape, sizeof t->shape) != 0)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has not the shape of the base's", HK_STR(t->name));
    *index = (size_t)(base - f->tensors);
    return HK_OK;
}

static enum hk_status give_delta_row(struct merging *m, size_t index, const struct hk_tensor *t,
                                     struct hk_error *err)
{
    struct patch *p = &m->patches[index];
    if (p->delta_row == NULL)
        p->delta_row = hk_arena_alloc(&m->arena, (size_t)hk_tensor_cols(t) * sizeof(float) + 1);
    return p->delta_row == NULL ? hk_fail_nomem(err) : HK_OK;
}

/* Differences of a tied embedding are the head's too, unless it has some of its own. */
static enum hk_status take_difference(struct merging *m, size_t item, const struct hk_tensor *t,
                                      double scale, struct hk_error *err)
{
    const struct hk_file *f = m->v->from;
    struct hk_decoder *d = NULL;
    size_t index = 0;
    bool tied = false;
    enum hk_status st = find_base_tensor(f, t, &index, err);
    if (st == HK_OK && index == m->embedding)
        st = hk_output_is_tied(f, false, &tied, err);
    const bool both =
        tied && hk_tensor_find(m->payloads[item], hk_tensor_role_name(HK_ROLE_OUTPUT)) == NULL;
    if (st == HK_OK)
        st = give_delta_row(m, index, t, err);
    if (st == HK_OK && both)
        st = give_delta_row(m, m->head, t, err);
    if (st == HK_OK)
        st = hk_decoder_new(&d, m->payloads[item], t, err);
    if (st != HK_OK)
        return st;
    m->decoders[m->decoder_count++] = d;
    const struct change c = {.delta = d, .scale = scale, .item = item};
    return change_tensor(m, &f->tensors[index], both ? HK_USE_BOTH : HK_USE_MATRIX, &c, err);
}

static enum hk_status take_delta(struct merging *m, size_t item, size_t record, double scale,
                                 struct hk_error *err)
{
    enum hk_status st = hk_record_open(&m->payloads[item], m->v->from, record, err);
    if (st != HK_OK)
        return st;
    const struct hk_file *payload = m->payloads[item];
    if (payload->tensor_count == 0)
        return hk_fail(err, HK_E_FORMAT, hk_record_at(m->v->from, record)->offset,
                       "record '%.*s' has no tensors",
                       HK_STR(hk_record_at(m->v->from, record)->name));
    struct hk_decoder **more =
        reallocarray(m->decoders, m->decoder_count + payload->tensor_count, sizeof *more);
    if (more == NULL)
        return hk_fail_nomem(err);
    m->decoders = more;
    for (size_t i = 0; st == HK_OK && i < payload->tensor_count; i++)
        st = take_difference(m, item, &payload->tensors[i], scale, err);
    return st;
}

static enum hk_status take_item(struct merging *m, size_t i, const struct hk_merge_item *item,
                                struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(m->v->from, item->record);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", item->record);
    if (r->type == HK_RECORD_LORA_ADAPTER)
        return take_adapter(m, i, item->record, item->scale, err);
    if (r->type == HK_RECORD_DELTA_PATCH)
        return take_delta(m, i, item->record, item->scale, err);
    return hk_fail(err, HK_E_UNSUPPORTED, r->offset,
                   "record '%.*s' is neither an adapter nor a delta, so it cannot be merged",
                   HK_STR(r->name));
}

/* ---- the whole ---- */

/* hk.merged: what was folded in, so that the new file says where it comes from. */
static enum hk_status note_merged(struct merging *m, const struct hk_merge_item *items,
                                  struct hk_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->count; i++) {
        const struct hk_record *r = hk_record_at(m->v->from, items[i].record);
        json_t *v = json_pack("{s:o?, s:s, s:I, s:f}", "name",
                              json_stringn((const char *)r->name.p, r->name.n), "type",
                              hk_record_type_name(r->type), "generation", (json_int_t)r->generation,
                              "scale", items[i].scale);
        if (v == NULL || json_array_append_new(list, v) != 0) {
            json_decref(list);
            return hk_fail_nomem(err);
        }
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (text == NULL)
        return hk_fail_nomem(err);
    hk_kvlist_json(&m->v->kvs, "hk.merged", hk_bytes_of(text));
    free(text);
    return HK_OK;
}

static enum hk_status change_view(struct merging *m, size_t tensor, size_t patch,
                                  struct hk_error *err)
{
    return m->patches[patch].first == NULL
               ? HK_OK
               : hk_view_change(m->v, tensor, m->type, change_row, &m->patches[patch], err);
}

static enum hk_status apply_items(struct merging *m, const struct hk_merge_item *items,
                                  struct hk_error *err)
{
    const size_t tensors = m->v->file->tensor_count;
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < m->count; i++)
        st = take_item(m, i, &items[i], err);
    const bool separate = m->own_head && m->head == tensors;
    if (st == HK_OK && separate)
        st = hk_view_again(m->v, m->embedding, hk_tensor_role_name(HK_ROLE_OUTPUT), err);
    for (size_t i = 0; st == HK_OK && i < tensors; i++)
        st = change_view(m, i, i, err);
    if (st == HK_OK && separate)
        st = change_view(m, tensors, m->head, err);
    if (st == HK_OK)
        st = note_merged(m, items, err);
    return st == HK_OK ? hk_view_ready(m->v, err) : st;
}

static size_t find_tensor_index(const struct hk_file *f, const char *name, size_t otherwise)
{
    const struct hk_tensor *t = hk_tensor_find(f, name);
    return t != NULL ? (size_t)(t - f->tensors) : otherwise;
}

/* A view of the file without its records. */
static enum hk_status prepare_merge(struct merging *m, struct hk_file *f, struct hk_error *err)
{
    enum hk_status st = hk_view_new(&m->v, f, err);
    if (st != HK_OK)
        return st;
    m->v->file->without_appendix = true;
    m->embedding = find_tensor_index(f, hk_tensor_role_name(HK_ROLE_EMBEDDING), SIZE_MAX);
    m->head = find_tensor_index(f, hk_tensor_role_name(HK_ROLE_OUTPUT),
                                m->embedding != SIZE_MAX ? f->tensor_count : SIZE_MAX);
    m->patches = calloc(f->tensor_count + 1, sizeof *m->patches);
    m->adapters = calloc(m->count + 1, sizeof *m->adapters);
    m->payloads = calloc(m->count + 1, sizeof *m->payloads);
    return m->patches == NULL || m->adapters == NULL || m->payloads == NULL ? hk_fail_nomem(err)
                                                                            : HK_OK;
}

static void free_merge(struct merging *m)
{
    for (size_t i = 0; i < m->decoder_count; i++)
        hk_decoder_free(&m->decoders[i]);
    for (size_t i = 0; m->adapters != NULL && i < m->count; i++)
        hk_adapter_free(&m->adapters[i]);
    for (size_t i = 0; m->payloads != NULL && i < m->count; i++)
        hk_close(&m->payloads[i]);
    hk_view_free(&m->v);
    hk_arena_free(&m->arena);
    free(m->patches);
    free(m->adapters);
    free(m->payloads);
    free(m->decoders);
}

enum hk_status hk_merge(struct hk_file *f, const struct hk_merge_item *items, size_t count,
                        enum hk_type type, uint64_t max_output, hk_merged_fn *use, void *arg,
                        struct hk_error *err)
{
    struct merging m = {.count = count, .type = type};
    if (f->format != HK_FORMAT_HK || count == 0 || type > HK_TYPE_BF16)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       f->format != HK_FORMAT_HK ? "only a .hk has records to merge"
                       : count == 0              ? "no record to merge"
                                                 : "merged tensors are f32, f16 or bf16");
    enum hk_status st = prepare_merge(&m, f, err);
    if (st == HK_OK) {
        m.v->max_output = max_output;
        st = apply_items(&m, items, err);
    }
    if (st == HK_OK)
        st = use(arg, m.v->file, err);
    free_merge(&m);
    return st;
}
