/* Which records of a history are in effect: later records without data switch those of their type,
 * name and target on or off. */
#include "libhkfmt/hk/record_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hk/file.h"

static int compare_bytes(struct hk_bytes a, struct hk_bytes b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_switches(const struct hk_record *a, const struct hk_record *b)
{
    int order = compare_bytes(a->name, b->name);
    if (order == 0)
        order = (a->type > b->type) - (a->type < b->type);
    return order != 0 ? order : compare_bytes(a->target, b->target);
}

bool hk_same_switch(const struct hk_record *a, const struct hk_record *b)
{
    return compare_switches(a, b) == 0;
}

static int compare_records(const void *pa, const void *pb)
{
    const struct hk_record *a = *(const struct hk_record *const *)pa,
                           *b = *(const struct hk_record *const *)pb;
    const int order = compare_switches(a, b);
    return order != 0 ? order : (a > b) - (a < b);
}

const struct hk_record **hk_sort_records(const struct hk_file *f)
{
    const struct hk_record **sorted = calloc(f->record_count + 1, sizeof *sorted);
    if (sorted == NULL)
        return NULL;
    for (size_t i = 0; i < f->record_count; i++)
        sorted[i] = &f->records[i];
    if (f->record_count > 0)
        qsort(sorted, f->record_count, sizeof *sorted, compare_records);
    return sorted;
}

/* Of the COUNT records at GROUP, all of one type, name and target, from the last one back. */
static void settle_group(const struct hk_file *f, const struct hk_record *const *group,
                         size_t count, struct hk_record_state *out)
{
    const bool on = (group[count - 1]->flags & HK_RECORD_ACTIVE) != 0;
    bool switched = false, to = false;
    for (size_t i = count; i-- > 0;) {
        const struct hk_record *r = group[i];
        const bool active = (r->flags & HK_RECORD_ACTIVE) != 0;
        struct hk_record_state *s = &out[r - f->records];
        s->is_switch = r->data_size == 0 && i > 0;
        if (s->is_switch && !switched) {
            switched = true;
            to = active;
        }
        s->effective = on && (switched ? to : active);
    }
}

enum hk_status hk_record_states(const struct hk_file *f, struct hk_record_state *out,
                                struct hk_error *err)
{
    const struct hk_record **sorted = hk_sort_records(f);
    if (sorted == NULL)
        return hk_fail_nomem(err);
    for (size_t first = 0, end; first < f->record_count; first = end) {
        for (end = first + 1; end < f->record_count; end++)
            if (!hk_same_switch(sorted[first], sorted[end]))
                break;
        settle_group(f, sorted + first, end - first, out);
    }
    free(sorted);
    return HK_OK;
}

enum hk_status hk_no_record(const struct hk_file *f, const struct hk_record *const *sorted,
                            struct hk_bytes name, struct hk_error *err)
{
    char list[200] = "";
    size_t used = 0;
    bool cut = false;
    if (f->record_count == 0)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %.*s: the file has none",
                       HK_STR(name));
    for (size_t i = 0; i < f->record_count && !cut; i++) {
        if (i > 0 && compare_bytes(sorted[i]->name, sorted[i - 1]->name) == 0)
            continue;
        cut = sorted[i]->name.n > sizeof list - sizeof ", ..." - used;
        if (!cut)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s",
                                     used > 0 ? ", " : "", HK_STR(sorted[i]->name));
    }
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %.*s; there are: %s%s", HK_STR(name),
                   list, cut ? ", ..." : "");
}

enum hk_status hk_record_find(const struct hk_file *f, struct hk_bytes name, size_t *out,
                              struct hk_error *err)
{
    const struct hk_record **sorted = hk_sort_records(f), *last = NULL;
    if (sorted == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < f->record_count; i++) {
        const struct hk_record *r = sorted[i];
        const bool is_switch = r->data_size == 0 && i > 0 && hk_same_switch(sorted[i - 1], r);
        if (!is_switch && compare_bytes(r->name, name) == 0 && (last == NULL || r > last))
            last = r;
    }
    enum hk_status st = last != NULL ? HK_OK : hk_no_record(f, sorted, name, err);
    if (st == HK_OK)
        *out = (size_t)(last - f->records);
    free(sorted);
    return st;
}
