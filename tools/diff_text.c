/* diff_text.c: what hk-diff prints for people: a table for each part that differs, or names. */
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"
#include "tools/lib/metadata.h"
#include "tools/lib/records.h"

enum { NAME_COLUMNS = HK_MAX_NAME, VALUE_COLUMNS = 48 };

void diff_place(const struct hk_tensor *t, uint64_t i, uint64_t place[HK_MAX_DIMS])
{
    for (size_t d = t->ndim; d-- > 0; i /= t->shape[d])
        place[d] = i % t->shape[d];
}

const char *diff_kind(bool in_a, bool in_b)
{
    return !in_a ? "added" : !in_b ? "removed" : "changed";
}

/* ---- metadata ---- */

/* Strings as they are, everything else as JSON; behind PREFIX. Takes over V. */
static void diff_json_cell(struct tool_table *t, const char *prefix, json_t *v)
{
    char *line;
    size_t size;
    FILE *memory = open_memstream(&line, &size);
    if (memory == NULL)
        tool_nomem();
    fputs(prefix, memory);
    if (json_is_string(v)) {
        fwrite(json_string_value(v), 1, json_string_length(v), memory);
        putc('\n', memory);
        json_decref(v);
    } else {
        tool_json_print(v, memory);
    }
    if (fclose(memory) != 0)
        tool_nomem();
    tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)line, size - 1}, VALUE_COLUMNS);
    free(line);
}

/* The type is said where it is what differs, or where nothing is there to compare with. */
static void diff_value_cell(struct tool_table *t, const struct diff_kv *d, const struct hk_kv *kv)
{
    char prefix[64] = "";
    if (kv == NULL) {
        tool_cell(t, "%s", "");
        return;
    }
    bool said =
        d->a == NULL || d->b == NULL || strcmp(diff_kv_type(d, d->a), diff_kv_type(d, d->b)) != 0;
    if (said)
        snprintf(prefix, sizeof prefix, "%.60s: ", diff_kv_type(d, kv));
    diff_json_cell(t, prefix, metadata_value(kv, false));
}

static void diff_element_cell(struct tool_table *t, const struct diff_kv *d, uint64_t count,
                              json_t *element)
{
    char prefix[40];
    if (d->first >= count) {
        tool_cell(t, "%llu elements", (unsigned long long)count);
        return;
    }
    snprintf(prefix, sizeof prefix, "[%llu] ", (unsigned long long)d->first);
    diff_json_cell(t, prefix, json_incref(element));
}

static void diff_kv_row(struct tool_table *t, const struct diff_kv *d)
{
    unsigned long long most = d->count_a > d->count_b ? d->count_a : d->count_b;
    tool_cell_bytes(t, d->a != NULL ? d->a->key : d->b->key, NAME_COLUMNS);
    tool_cell(t, "%s", diff_kind(d->a != NULL, d->b != NULL));
    if (!d->array) {
        diff_value_cell(t, d, d->a);
        diff_value_cell(t, d, d->b);
        tool_cell(t, "%s", "");
        return;
    }
    diff_element_cell(t, d, d->count_a, d->first_a);
    diff_element_cell(t, d, d->count_b, d->first_b);
    tool_cell(t, "%llu of %llu elements differ", (unsigned long long)d->differing, most);
}

static void print_metadata_changes(const struct diff *d)
{
    static const char *const titles[] = {"KEY", "CHANGE", "A", "B", "NOTE"};
    struct tool_table t = {.columns = 5, .right = "lllll"};
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < d->kv_count; i++)
        diff_kv_row(&t, &d->kvs[i]);
    tool_table_print(&t, stdout);
}

/* ---- tensors ---- */

static void append_word(char *line, size_t size, const char *separator, const char *word)
{
    size_t n = strlen(line);
    snprintf(line + n, size - n, "%s%s", n > 0 ? separator : "", word);
}

static void join_numbers(char *line, size_t size, const char *separator, const uint64_t *v,
                         size_t n)
{
    char number[24];
    line[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)v[i]);
        append_word(line, size, separator, number);
    }
}

/* Type, and whatever else differs or is not usual where there is nothing to compare with. */
static void diff_form_cell(struct tool_table *t, const struct hk_tensor *tensor, unsigned show)
{
    char line[512] = "", shape[HK_MAX_DIMS * 24];
    if (tensor == NULL) {
        tool_cell(t, "%s", "");
        return;
    }
    append_word(line, sizeof line, " ", hk_type_info(tensor->type)->name);
    if (show & DIFF_SHAPE) {
        join_numbers(shape, sizeof shape, " x ", tensor->shape, tensor->ndim);
        append_word(line, sizeof line, " ", tensor->ndim > 0 ? shape : "scalar");
    }
    if (show & DIFF_LAYOUT)
        append_word(line, sizeof line, " ", hk_layout_name(tensor->layout));
    if (show & DIFF_SPARSITY)
        append_word(line, sizeof line, " ", hk_sparsity_name(tensor->sparsity));
    if (show & DIFF_BLOCK_SIZE) {
        snprintf(shape, sizeof shape, "block_size %u", tensor->block_size);
        append_word(line, sizeof line, " ", shape);
    }
    tool_cell(t, "%s", line);
}

static void diff_change_cell(struct tool_table *t, const struct diff_tensor *d)
{
    char line[96] = "";
    for (unsigned i = 0; i < DIFF_WAYS; i++)
        if (d->differs >> i & 1)
            append_word(line, sizeof line, ", ", diff_ways[i]);
    tool_cell(t, "%s", d->differs != 0 ? line : diff_kind(d->a != NULL, d->b != NULL));
}

static void diff_number_cell(struct tool_table *t, double v)
{
    if (isnan(v))
        tool_cell(t, "-");
    else
        tool_cell(t, "%.4g", v);
}

/* As many nines as tell it from one. */
static void diff_cosine_cell(struct tool_table *t, double v)
{
    if (isnan(v))
        tool_cell(t, "-");
    else
        tool_cell(t, "%.9f", v);
}

static void diff_first_cell(struct tool_table *t, const struct diff_tensor *d)
{
    uint64_t place[HK_MAX_DIMS];
    char line[HK_MAX_DIMS * 24];
    diff_place(d->a, d->sums.first, place);
    join_numbers(line, sizeof line, ",", place, d->a->ndim);
    tool_cell(t, "[%s] %.7g %.7g", line, d->sums.first_a, d->sums.first_b);
}

static void diff_note_cell(struct tool_table *t, const struct diff_tensor *d)
{
    const struct diff_sums *s = &d->sums;
    bool special = s->nan_a + s->nan_b + s->inf_a + s->inf_b > 0;
    if (d->a == NULL || d->b == NULL || (d->way == DIFF_NOT && d->why == NULL))
        tool_cell(t, "%s", "");
    else if (d->way == DIFF_NOT)
        tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)d->why, strlen(d->why)}, 0);
    else if (d->way == DIFF_BY_BYTES || s->differing == 0)
        tool_cell(t, "values equal");
    else if (special)
        tool_cell(t, "%llu of %llu differ, nan %llu:%llu, inf %llu:%llu",
                  (unsigned long long)s->differing, (unsigned long long)s->elements,
                  (unsigned long long)s->nan_a, (unsigned long long)s->nan_b,
                  (unsigned long long)s->inf_a, (unsigned long long)s->inf_b);
    else
        tool_cell(t, "%llu of %llu differ", (unsigned long long)s->differing,
                  (unsigned long long)s->elements);
}

static void diff_tensor_row(struct tool_table *t, const struct diff_tensor *d)
{
    bool both = d->a != NULL && d->b != NULL;
    unsigned show = both ? d->differs : DIFF_SHAPE;
    tool_cell_bytes(t, d->a != NULL ? d->a->name : d->b->name, NAME_COLUMNS);
    diff_change_cell(t, d);
    diff_form_cell(t, d->a, show);
    diff_form_cell(t, d->b, show);
    if (d->way == DIFF_BY_VALUES && d->sums.differing > 0) {
        diff_number_cell(t, d->sums.largest);
        diff_number_cell(t, diff_rmse(&d->sums));
        diff_number_cell(t, diff_relative(&d->sums));
        diff_cosine_cell(t, diff_cosine(&d->sums));
        diff_first_cell(t, d);
    } else {
        for (int i = 0; i < 5; i++)
            tool_cell(t, "%s", "");
    }
    diff_note_cell(t, d);
}

static void print_tensor_changes(const struct diff *d)
{
    static const char *const titles[] = {"TENSOR", "CHANGE",   "A",      "B",     "MAX ABS",
                                         "RMSE",   "RELATIVE", "COSINE", "FIRST", "NOTE"};
    struct tool_table t = {.columns = 10, .right = "llllrrrrll"};
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < d->tensor_count; i++)
        diff_tensor_row(&t, &d->tensors[i]);
    tool_table_print(&t, stdout);
}

/* ---- appendix ---- */

static void diff_record_row(struct tool_table *t, const struct diff_record *r)
{
    const struct hk_record *one = r->a != NULL ? r->a : r->b;
    char line[128] = "";
    json_t *type = record_type(one);
    for (unsigned i = 0; i < DIFF_FIELDS; i++)
        if (r->differs >> i & 1)
            append_word(line, sizeof line, ", ", diff_fields[i]);
    tool_cell(t, "%u", one->generation);
    tool_cell(t, "%s", json_string_value(type));
    tool_cell_bytes(t, one->name, NAME_COLUMNS);
    tool_cell(t, "%s", r->differs != 0 ? line : diff_kind(r->a != NULL, r->b != NULL));
    json_decref(type);
}

static void print_record_changes(const struct diff *d)
{
    static const char *const titles[] = {"GENERATION", "RECORD", "NAME", "CHANGE"};
    struct tool_table t = {.columns = 4, .right = "rlll"};
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < d->record_count; i++)
        diff_record_row(&t, &d->records[i]);
    tool_table_print(&t, stdout);
}

/* ---- names ---- */

static void print_changed_name(bool in_a, bool in_b, const char *what, struct hk_bytes name)
{
    printf("%s %s ", diff_kind(in_a, in_b), what);
    tool_escape(stdout, name);
    putchar('\n');
}

static void print_changed_names(const struct diff *d)
{
    for (size_t i = 0; i < d->kv_count; i++) {
        const struct diff_kv *kv = &d->kvs[i];
        print_changed_name(kv->a != NULL, kv->b != NULL, "key",
                           kv->a != NULL ? kv->a->key : kv->b->key);
    }
    for (size_t i = 0; i < d->tensor_count; i++) {
        const struct diff_tensor *t = &d->tensors[i];
        print_changed_name(t->a != NULL, t->b != NULL, "tensor",
                           t->a != NULL ? t->a->name : t->b->name);
    }
    for (size_t i = 0; i < d->record_count; i++) {
        const struct diff_record *r = &d->records[i];
        print_changed_name(r->a != NULL, r->b != NULL, "record",
                           r->a != NULL ? r->a->name : r->b->name);
    }
}

void diff_print_text(const struct diff *d)
{
    static void (*const prints[])(const struct diff *) = {
        print_metadata_changes, print_tensor_changes, print_record_changes};
    const size_t counts[] = {d->kv_count, d->tensor_count, d->record_count};
    bool any = false;
    if (d->options->brief) {
        print_changed_names(d);
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        if (counts[i] == 0)
            continue;
        if (any)
            putchar('\n');
        prints[i](d);
        any = true;
    }
}
