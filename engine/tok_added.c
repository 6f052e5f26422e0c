/* Added tokens: whole strings that are found in a text before it is split, leftmost first and of
 * those that begin at one place the longest. */
#include <stdlib.h>
#include <string.h>

#include "engine/tok.h"

static bool is_added(enum hke_token_type type)
{
    return type == HKE_TOKEN_USER || type == HKE_TOKEN_CONTROL || type == HKE_TOKEN_UNKNOWN;
}

static int compare_text(const void *pa, const void *pb, void *arg)
{
    const struct tok_strings *s = arg;
    uint32_t i = *(const uint32_t *)pa, j = *(const uint32_t *)pb;
    struct hk_bytes a = tok_string(s, i), b = tok_string(s, j);
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    if (c == 0)
        c = (a.n > b.n) - (a.n < b.n);
    return c != 0 ? c : (i > j) - (i < j);
}

/* Bounds of the tokens with each first byte. */
static void index_first(struct tok_added *a, const struct tok_strings *text)
{
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        a->first[b] = i;
        while (i < a->n && tok_string(text, a->id[i]).p[0] == b)
            i++;
    }
    a->first[256] = i;
}

enum hk_status hke_tok_added_build(struct hke_tokenizer *t, struct hk_error *err)
{
    struct tok_added *a = &t->added;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->text.n; i++)
        n += is_added(t->type[i]);
    a->id = malloc(((size_t)n + 1) * sizeof *a->id);
    if (a->id == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < t->text.n; i++) {
        if (is_added(t->type[i]) && tok_string(&t->text, i).n > 0)
            a->id[a->n++] = i;
    }
    qsort_r(a->id, a->n, sizeof *a->id, compare_text, &t->text);
    index_first(a, &t->text);
    return HK_OK;
}

/* First of [LOW, HIGH), whose texts agree in K bytes and are longer, with byte K at least C. */
static uint32_t lower(const struct hke_tokenizer *t, uint32_t low, uint32_t high, size_t k,
                      unsigned c)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tok_string(&t->text, t->added.id[middle]).p[k] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t hke_tok_added_match(const struct hke_tokenizer *t, const uint8_t *p, const uint8_t *end,
                             bool special)
{
    const struct tok_added *a = &t->added;
    uint32_t low = a->first[p[0]], high = a->first[p[0] + 1], best = TOK_NONE;
    for (size_t k = 1; low < high; k++) {
        /* Texts that end here come first; of equal ones the first that may match counts. */
        bool found = false;
        for (; low < high && tok_string(&t->text, a->id[low]).n == k; low++) {
            uint32_t id = a->id[low];
            if (!found && (special || t->type[id] == HKE_TOKEN_USER)) {
                best = id;
                found = true;
            }
        }
        if (p + k == end)
            break;
        low = lower(t, low, high, k, p[k]);
        high = lower(t, low, high, k, p[k] + 1u);
    }
    return best;
}
