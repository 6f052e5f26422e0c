/* Folding adapters and deltas into new base tensors: each tensor that is changed has a list of what
 * changes it, which is applied row by row while it is copied. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter.h"
#include "libhkfmt/view.h"

struct change {
    struct change *next;
    const struct hk_low_rank *pair; /* one of the three */
    const struct hk_replacement *whole;
    struct hk_decoder *delta;
    double scale;
};

struct patch { /* of one tensor */
    struct change *first, **last;
    float *delta_row;
};

struct merging {
    struct hk_view *v;
    struct hk_arena arena;
    struct patch *patches; /* one a tensor of the view */
    struct hk_adapter **adapters;
    struct hk_file **payloads; /* of deltas */
    size_t count;              /* of items; either of the two is NULL */
    enum hk_type type;
};

/* ---- one row ---- */

static void add_pair(const struct hk_low_rank *p, double scale, uint64_t row, uint64_t cols,
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

static void add_delta(const struct change *c, float *scratch, uint64_t row, uint64_t cols, float *v)
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
            add_pair(c->pair, c->scale, row, cols, v);
        else if (c->whole != NULL)
            memcpy(v, c->whole->values + row * cols, (size_t)cols * sizeof *v);
        else
            add_delta(c, p->delta_row, row, cols, v);
    }
}

/* ---- what changes what ---- */

/* A change of tensor INDEX of the base, to be filled in. */
static struct change *new_change(struct merging *m, size_t index, double scale)
{
    struct patch *p = &m->patches[index];
    struct change *c = hk_arena_alloc(&m->arena, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (struct change){.scale = scale};
    if (p->first == NULL)
        p->last = &p->first;
    *p->last = c;
    p->last = &c->next;
    return c;
}

static enum hk_status take_adapter(struct merging *m, size_t item, size_t record, double scale,
                                   struct hk_error *err)
{
    const struct hk_file *f = m->v->from;
    enum hk_status status = hk_adapter_open(&m->adapters[item], f, record, err);
    if (status != HK_OK)
        return status;
    const struct hk_adapter *a = m->adapters[item];
    for (size_t i = 0; i < hk_adapter_count(a); i++) {
        struct change *c = new_change(m, (size_t)(hk_adapter_at(a, i)->base - f->tensors), scale);
        if (c == NULL)
            return hk_fail_nomem(err);
        c->pair = hk_adapter_at(a, i);
    }
    for (size_t i = 0; i < hk_adapter_replacements(a); i++) {
        const struct hk_replacement *w = hk_adapter_replacement(a, i);
        if (scale < 1 || scale > 1)
            return hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(f, record)->offset,
                           "tensor '%.*s': one that was trained whole is taken once, not %g times",
                           HK_STR(w->base->name), scale);
        struct change *c = new_change(m, (size_t)(w->base - f->tensors), scale);
        if (c == NULL)
            return hk_fail_nomem(err);
        c->whole = w;
    }
    return HK_OK;
}

/* The base's tensor of T's name and shape. */
static enum hk_status find_base(const struct hk_file *f, const struct hk_tensor *t, size_t *index,
                                struct hk_error *err)
{
    char name[HK_MAX_NAME + 1];
    const struct hk_tensor *base = NULL;
    if (t->name.n <= HK_MAX_NAME) {
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, (const char *)t->name.p);
        base = hk_tensor_find(f, name);
    }
    if (base == NULL)
        return hk_fail(err, HK_E_MISSING, t->entry_offset, "the base has no tensor '%.*s'",
                       HK_STR(t->name));
    if (base->ndim != t->ndim || memcmp(base->shape, t->shape, sizeof t->shape) != 0)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor '%.*s' has not the shape of the base's", HK_STR(t->name));
    *index = (size_t)(base - f->tensors);
    return HK_OK;
}

static enum hk_status take_delta(struct merging *m, size_t item, size_t record, double scale,
                                 struct hk_error *err)
{
    enum hk_status status = hk_record_open(&m->payloads[item], m->v->from, record, err);
    const struct hk_file *payload = m->payloads[item];
    for (size_t i = 0; status == HK_OK && i < payload->tensor_count; i++) {
        size_t index = 0;
        struct change *c = NULL;
        const struct hk_tensor *t = &payload->tensors[i];
        status = find_base(m->v->from, t, &index, err);
        if (status == HK_OK && (c = new_change(m, index, scale)) == NULL)
            status = hk_fail_nomem(err);
        if (status == HK_OK)
            status = hk_decoder_new(&c->delta, payload, t, err);
        if (status == HK_OK && m->patches[index].delta_row == NULL)
            m->patches[index].delta_row =
                hk_arena_alloc(&m->arena, (size_t)hk_tensor_cols(t) * sizeof(float) + 1);
        if (status == HK_OK && m->patches[index].delta_row == NULL)
            status = hk_fail_nomem(err);
    }
    return status;
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
    hk_kvlist_json(&m->v->kvs, "hk.merged", (struct hk_bytes){(const uint8_t *)text, strlen(text)});
    free(text);
    return HK_OK;
}

static enum hk_status apply(struct merging *m, const struct hk_merge_item *items,
                            struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < m->count; i++)
        status = take_item(m, i, &items[i], err);
    for (size_t i = 0; status == HK_OK && i < m->v->file->tensor_count; i++)
        if (m->patches[i].first != NULL)
            status = hk_view_change(m->v, i, m->type, change_row, &m->patches[i], err);
    if (status == HK_OK)
        status = note_merged(m, items, err);
    return status == HK_OK ? hk_view_ready(m->v, err) : status;
}

/* A view of the file without its records. */
static enum hk_status prepare(struct merging *m, struct hk_file *f, struct hk_error *err)
{
    enum hk_status status = hk_view_new(&m->v, f, err);
    if (status != HK_OK)
        return status;
    m->v->file->without_appendix = true;
    m->patches = calloc(f->tensor_count + 1, sizeof *m->patches);
    m->adapters = calloc(m->count + 1, sizeof *m->adapters);
    m->payloads = calloc(m->count + 1, sizeof *m->payloads);
    return m->patches == NULL || m->adapters == NULL || m->payloads == NULL ? hk_fail_nomem(err)
                                                                            : HK_OK;
}

static void release(struct merging *m)
{
    for (size_t i = 0; m->patches != NULL && i < m->v->from->tensor_count; i++)
        for (struct change *c = m->patches[i].first; c != NULL; c = c->next)
            hk_decoder_free(&c->delta);
    for (size_t i = 0; m->adapters != NULL && i < m->count; i++)
        hk_adapter_free(&m->adapters[i]);
    for (size_t i = 0; m->payloads != NULL && i < m->count; i++)
        hk_close(&m->payloads[i]);
    hk_view_free(&m->v);
    hk_arena_free(&m->arena);
    free(m->patches);
    free(m->adapters);
    free(m->payloads);
}

enum hk_status hk_merge(struct hk_file *f, const struct hk_merge_item *items, size_t count,
                        enum hk_type type, const struct hk_convert_options *opt, struct hk_out *out,
                        struct hk_error *err)
{
    struct merging m = {.count = count, .type = type};
    if (f->format != HK_FORMAT_HK || type > HK_TYPE_BF16)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       f->format != HK_FORMAT_HK ? "only a .hk has records to merge"
                                                 : "merged tensors are f32, f16 or bf16");
    enum hk_status status = prepare(&m, f, err);
    if (status == HK_OK)
        status = apply(&m, items, err);
    if (status == HK_OK)
        status = hk_write_as(m.v->file, HK_FORMAT_HK, opt, NULL, out, err);
    release(&m);
    return status;
}
