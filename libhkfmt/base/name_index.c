/* Names to numbers: a sorted table, so that look-up is logarithmic and a duplicate check cannot be
 * made slow by names chosen to collide. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/name_index.h"

struct sorting {
    const void *table;
    hk_name_fn *name;
};

static int compare_named_entries(const void *pa, const void *pb, void *arg)
{
    const struct sorting *s = arg;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int c = hk_bytes_compare(s->name(s->table, a), s->name(s->table, b));
    return c != 0 ? c : (a > b) - (a < b);
}

/* Keep the first of each run of equal names. */
static size_t drop_duplicate_names(uint32_t *order, size_t count, const struct sorting *s,
                                   void (*duplicate)(void *arg, size_t i, size_t first), void *arg)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool again = kept > 0 && hk_bytes_compare(s->name(s->table, order[kept - 1]),
                                                  s->name(s->table, order[i])) == 0;
        if (!again)
            order[kept++] = order[i];
        else if (duplicate != NULL)
            duplicate(arg, order[i], order[kept - 1]);
    }
    return kept;
}

bool hk_index_build(struct hk_index *x, const void *table, size_t count, hk_name_fn *name,
                    void (*duplicate)(void *arg, size_t i, size_t first), void *arg)
{
    if (count >= UINT32_MAX)
        return false;
    uint32_t *order = malloc((count + 1) * sizeof *order);
    if (order == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    struct sorting s = {table, name};
    qsort_r(order, count, sizeof *order, compare_named_entries, &s);
    x->order = order;
    x->count = drop_duplicate_names(order, count, &s, duplicate, arg);
    return true;
}

size_t hk_index_find(const struct hk_index *x, const void *table, hk_name_fn *name,
                     struct hk_bytes key)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = hk_bytes_compare(name(table, x->order[middle]), key);
        if (c == 0)
            return x->order[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

void hk_index_free(struct hk_index *x)
{
    free(x->order);
    *x = (struct hk_index){0};
}
