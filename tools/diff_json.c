/* diff_json.c: what hk-diff --json prints. */
#include <string.h>

#include "tools/diff.h"
#include "tools/lib/metadata.h"
#include "tools/lib/records.h"

/* Members of an object come in three lists. */
typedef json_t *entry_fn(const struct diff *d, size_t i, int *kind);
enum { ADDED, REMOVED, CHANGED, KINDS };

static int change_kind(bool in_a, bool in_b)
{
    return !in_a ? ADDED : !in_b ? REMOVED : CHANGED;
}

static void put_change_lists(const struct diff *d, size_t count, entry_fn *entry,
                             struct tool_json_out *o)
{
    static const char *const names[KINDS] = {"added", "removed", "changed"};
    for (int list = 0; list < KINDS; list++) {
        tool_json_enter(o, names[list], '[');
        for (size_t i = 0; i < count && !ferror(o->file); i++) {
            int kind = list;
            json_t *v = entry(d, i, &kind);
            if (v != NULL)
                tool_json_put(o, NULL, v);
        }
        tool_json_leave(o, ']');
    }
}

/* ---- metadata ---- */

static json_t *diff_value_json(const struct diff_kv *d, const struct hk_kv *kv)
{
    json_t *v = json_object();
    tool_json_set(v, "type", tool_json_text(diff_kv_type(d, kv)));
    tool_json_set(v, "value", metadata_value(kv, false));
    return v;
}

static json_t *diff_array_json(const struct diff_kv *d)
{
    json_t *v = json_object(), *first = json_object();
    tool_json_set(v, "count_a", tool_json_uint(d->count_a));
    tool_json_set(v, "count_b", tool_json_uint(d->count_b));
    tool_json_set(v, "differing", tool_json_uint(d->differing));
    tool_json_set(first, "index", tool_json_uint(d->first));
    tool_json_set(first, "a", json_incref(d->first_a));
    tool_json_set(first, "b", json_incref(d->first_b));
    tool_json_set(v, "first", first);
    return v;
}

static json_t *changed_kv_json(const struct diff *d, size_t i, int *kind)
{
    const struct diff_kv *kv = &d->kvs[i];
    if (change_kind(kv->a != NULL, kv->b != NULL) != *kind)
        return NULL;
    json_t *v = json_object();
    const struct hk_kv *one = kv->a != NULL ? kv->a : kv->b;
    tool_json_set(v, "key", tool_json_bytes(one->key));
    if (*kind != CHANGED) {
        tool_json_set(v, "type", tool_json_text(diff_kv_type(kv, one)));
        tool_json_set(v, "value", metadata_value(one, false));
        return v;
    }
    tool_json_set(v, "a", diff_value_json(kv, kv->a));
    tool_json_set(v, "b", diff_value_json(kv, kv->b));
    if (kv->array)
        tool_json_set(v, "array", diff_array_json(kv));
    return v;
}

/* ---- tensors ---- */

static void set_tensor_entry(json_t *v, const struct hk_tensor *t)
{
    tool_json_set(v, "type", tool_json_text(hk_type_info(t->type)->name));
    tool_json_set(v, "shape", tool_json_uints(t->shape, t->ndim));
    tool_json_set(v, "layout", tool_json_text(hk_layout_name(t->layout)));
    tool_json_set(v, "sparsity", tool_json_text(hk_sparsity_name(t->sparsity)));
    tool_json_set(v, "block_size", tool_json_uint(t->block_size));
}

static json_t *tensor_entry_json(const struct hk_tensor *t)
{
    json_t *v = json_object();
    set_tensor_entry(v, t);
    return v;
}

static json_t *first_difference_json(const struct diff_tensor *t)
{
    const struct diff_sums *s = &t->sums;
    uint64_t place[HK_MAX_DIMS];
    if (s->differing == 0)
        return json_null();
    json_t *v = json_object();
    diff_place(t->a, s->first, place);
    tool_json_set(v, "index", tool_json_uint(s->first));
    tool_json_set(v, "place", tool_json_uints(place, t->a->ndim));
    tool_json_set(v, "a", tool_json_double(s->first_a));
    tool_json_set(v, "b", tool_json_double(s->first_b));
    return v;
}

static json_t *uint_pair_json(uint64_t a, uint64_t b)
{
    json_t *v = json_array();
    tool_json_push(v, tool_json_uint(a));
    tool_json_push(v, tool_json_uint(b));
    return v;
}

static void set_sums_json(json_t *v, const struct diff_tensor *t)
{
    const struct diff_sums *s = &t->sums;
    tool_json_set(v, "elements", tool_json_uint(s->elements));
    tool_json_set(v, "differing", tool_json_uint(s->differing));
    tool_json_set(v, "max_abs_error", tool_json_double(s->largest));
    tool_json_set(v, "max_index", s->largest > 0 ? tool_json_uint(s->largest_at) : json_null());
    tool_json_set(v, "rmse", tool_json_double(diff_rmse(s)));
    tool_json_set(v, "relative", tool_json_double(diff_relative(s)));
    tool_json_set(v, "cosine", tool_json_double(diff_cosine(s)));
    tool_json_set(v, "first", first_difference_json(t));
    tool_json_set(v, "nan", uint_pair_json(s->nan_a, s->nan_b));
    tool_json_set(v, "inf", uint_pair_json(s->inf_a, s->inf_b));
}

static json_t *tensor_values_json(const struct diff_tensor *t)
{
    static const char *const ways[] = {
        [DIFF_BY_BYTES] = "bytes", [DIFF_BY_VALUES] = "values", [DIFF_NOT] = "no"};
    json_t *v = json_object();
    bool equal = t->way == DIFF_BY_BYTES || t->sums.differing == 0;
    tool_json_set(v, "compared", tool_json_text(ways[t->way]));
    tool_json_set(v, "equal", t->way == DIFF_NOT ? json_null() : json_boolean(equal));
    if (t->way == DIFF_BY_VALUES)
        set_sums_json(v, t);
    if (t->why != NULL)
        tool_json_set(v, "why", tool_json_text(t->why));
    return v;
}

static json_t *differs_json(unsigned bits, const char *const *names, unsigned count)
{
    json_t *v = json_array();
    for (unsigned i = 0; i < count; i++)
        if (bits >> i & 1)
            tool_json_push(v, tool_json_text(names[i]));
    return v;
}

static json_t *changed_tensor_json(const struct diff *d, size_t i, int *kind)
{
    const struct diff_tensor *t = &d->tensors[i];
    if (change_kind(t->a != NULL, t->b != NULL) != *kind)
        return NULL;
    json_t *v = json_object();
    const struct hk_tensor *one = t->a != NULL ? t->a : t->b;
    tool_json_set(v, "name", tool_json_bytes(one->name));
    if (*kind != CHANGED) {
        set_tensor_entry(v, one);
        return v;
    }
    tool_json_set(v, "differs", differs_json(t->differs, diff_ways, DIFF_WAYS));
    tool_json_set(v, "a", tensor_entry_json(t->a));
    tool_json_set(v, "b", tensor_entry_json(t->b));
    tool_json_set(v, "values", tensor_values_json(t));
    return v;
}

/* ---- appendix ---- */

static json_t *changed_record_json(const struct diff *d, size_t i, int *kind)
{
    const struct diff_record *r = &d->records[i];
    if (change_kind(r->a != NULL, r->b != NULL) != *kind)
        return NULL;
    json_t *v = json_object();
    const struct hk_record *one = r->a != NULL ? r->a : r->b;
    tool_json_set(v, "generation", tool_json_uint(one->generation));
    tool_json_set(v, "type", record_type(one));
    tool_json_set(v, "name", tool_json_bytes(one->name));
    if (*kind == CHANGED)
        tool_json_set(v, "differs", differs_json(r->differs, diff_fields, DIFF_FIELDS));
    else
        tool_json_set(v, "size", tool_json_uint(one->data_size));
    return v;
}

void diff_print_json(const struct diff *d)
{
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "a", tool_json_text(d->name_a));
    tool_json_put(&o, "b", tool_json_text(d->name_b));
    tool_json_put(&o, "same", json_boolean(!d->differ));
    if (d->options->parts & DIFF_METADATA) {
        tool_json_enter(&o, "metadata", '{');
        tool_json_put(&o, "ignored", tool_json_uint(d->ignored));
        put_change_lists(d, d->kv_count, changed_kv_json, &o);
        tool_json_leave(&o, '}');
    }
    if (d->options->parts & DIFF_TENSORS) {
        tool_json_enter(&o, "tensors", '{');
        tool_json_put(&o, "same", tool_json_uint(d->same));
        tool_json_put(&o, "tolerated", tool_json_uint(d->tolerated));
        put_change_lists(d, d->tensor_count, changed_tensor_json, &o);
        tool_json_leave(&o, '}');
    }
    static const char *const names[] = {"records", "appendix"}; /* the second: the name before */
    for (size_t i = 0; i < 2 && d->options->parts & DIFF_APPENDIX; i++) {
        tool_json_enter(&o, names[i], '{');
        put_change_lists(d, d->record_count, changed_record_json, &o);
        tool_json_leave(&o, '}');
    }
    tool_json_end(&o);
}
