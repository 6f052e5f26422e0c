/* diff_join.c: which entry of one table is which of the other. */
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

struct place {
    struct diff_key key;
    size_t index;
};

static int compare_keys(const struct diff_key *a, const struct diff_key *b)
{
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int c = n > 0 ? memcmp(a->name.p, b->name.p, n) : 0;
    if (c == 0)
        c = (a->name.n > b->name.n) - (a->name.n < b->name.n);
    return c != 0 ? c : (a->number > b->number) - (a->number < b->number);
}

static int compare_places(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    int c = compare_keys(&a->key, &b->key);
    return c != 0 ? c : (a->index > b->index) - (a->index < b->index);
}

static void *need(void *p)
{
    if (p == NULL)
        tool_nomem();
    return p;
}

static struct place *sorted(const struct diff_key *keys, size_t count)
{
    struct place *places = need(calloc(count + 1, sizeof *places));
    for (size_t i = 0; i < count; i++)
        places[i] = (struct place){keys[i], i};
    qsort(places, count, sizeof *places, compare_places);
    return places;
}

/* Into PARTNERS (one for each of A) and LONELY (one for each of B). */
static void merge(const struct place *a, size_t a_count, const struct place *b, size_t b_count,
                  size_t *partners, bool *lonely)
{
    size_t i = 0, k = 0;
    while (i < a_count || k < b_count) {
        int c = i == a_count ? 1 : k == b_count ? -1 : compare_keys(&a[i].key, &b[k].key);
        if (c <= 0)
            partners[a[i].index] = c == 0 ? b[k].index : DIFF_NONE;
        if (c > 0)
            lonely[b[k].index] = true;
        i += c <= 0;
        k += c >= 0;
    }
}

struct diff_pair *diff_join(const struct diff_key *a, size_t a_count, const struct diff_key *b,
                            size_t b_count, size_t *count)
{
    struct place *sorted_a = sorted(a, a_count), *sorted_b = sorted(b, b_count);
    size_t *partners = need(calloc(a_count + 1, sizeof *partners)), n = 0;
    bool *lonely = need(calloc(b_count + 1, sizeof *lonely));
    struct diff_pair *pairs = need(calloc(a_count + b_count + 1, sizeof *pairs));
    merge(sorted_a, a_count, sorted_b, b_count, partners, lonely);
    for (size_t i = 0; i < a_count; i++)
        pairs[n++] = (struct diff_pair){i, partners[i]};
    for (size_t i = 0; i < b_count; i++)
        if (lonely[i])
            pairs[n++] = (struct diff_pair){DIFF_NONE, i};
    free(sorted_a);
    free(sorted_b);
    free(partners);
    free(lonely);
    *count = n;
    return pairs;
}
