/* Added tokens: whole strings that are found in a text before it is split, leftmost first and of
 * those that begin at one place the longest. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tok.h"

bool hke_tok_is_added(enum hk_token_type type)
{
    return type == HK_TOKEN_USER || type == HK_TOKEN_CONTROL || type == HK_TOKEN_UNKNOWN;
}

static int compare(const void *pa, const void *pb)
{
    const struct tok_added_one *a = pa, *b = pb;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int c = memcmp(a->text.p, b->text.p, n);
    if (c == 0)
        c = (a->text.n > b->text.n) - (a->text.n < b->text.n);
    return c != 0 ? c : (a->id > b->id) - (a->id < b->id);
}

/* Bounds of the tokens with each first byte. */
static void index_first(struct tok_added *a)
{
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        a->first[b] = i;
        while (i < a->n && a->one[i].text.p[0] == b)
            i++;
    }
    a->first[256] = i;
}

/* Replace the texts of A by their normal form, kept in A->own. */
static bool normalise(struct tok_added *a)
{
    struct tok_nfc x = {0};
    size_t n = 0, room = 0;
    bool good = true;
    for (uint32_t i = 0; i < a->n && good; i++) {
        struct hk_bytes text;
        good =
            hke_tok_nfc(&x, a->one[i].text, &text) && hke_tok_grow(&a->own, &room, n + text.n, 1);
        if (!good)
            break;
        memcpy(a->own + n, text.p, text.n);
        a->one[i].text.n = text.n;
        n += text.n;
    }
    hke_tok_nfc_free(&x);
    n = 0;
    for (uint32_t i = 0; i < a->n && good; i++) {
        a->one[i].text.p = a->own + n;
        n += a->one[i].text.n;
    }
    return good;
}

/* Collect those that are matched in normalised text, or those that are not. */
static enum hk_status collect(struct hke_tokenizer *t, bool normalised, struct hk_error *err)
{
    struct tok_added *a = &t->added[normalised];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->text.n; i++)
        n += hke_tok_is_added(t->type[i]);
    a->one = calloc((size_t)n + 1, sizeof *a->one);
    if (a->one == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < t->text.n; i++) {
        struct hk_bytes text = tok_string(&t->text, i);
        bool here = ((t->flags[i] & HK_ADDED_NORMALIZED) != 0) == normalised;
        if (here && hke_tok_is_added(t->type[i]) && text.n > 0)
            a->one[a->n++] = (struct tok_added_one){text, i};
    }
    if (normalised && t->nfc && !normalise(a))
        return hk_fail_nomem(err);
    qsort(a->one, a->n, sizeof *a->one, compare);
    index_first(a);
    return HK_OK;
}

enum hk_status hke_tok_added_build(struct hke_tokenizer *t, struct hk_error *err)
{
    enum hk_status st = collect(t, false, err);
    return st == HK_OK ? collect(t, true, err) : st;
}

/* First of [LOW, HIGH), whose texts agree in K bytes and are longer, with byte K at least C. */
static uint32_t lower(const struct tok_added *a, uint32_t low, uint32_t high, size_t k, unsigned c)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a->one[middle].text.p[k] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct tok_added_one *hke_tok_added_match(const struct hke_tokenizer *t,
                                                const struct tok_added *a, struct hk_bytes text,
                                                size_t at, bool special, uint64_t *work)
{
    const uint8_t *p = text.p + at;
    const struct tok_added_one *best = NULL;
    uint32_t low = a->first[p[0]], high = a->first[p[0] + 1];
    for (size_t k = 1; low < high; k++) {
        ++*work;
        /* Texts that end here come first; of equal ones the first that may match counts. */
        bool found = false;
        for (; low < high && a->one[low].text.n == k; low++) {
            uint32_t id = a->one[low].id;
            ++*work;
            if (found || (!special && t->type[id] != HK_TOKEN_USER))
                continue;
            if ((t->flags[id] & HK_ADDED_SINGLE_WORD) != 0 && hke_tok_inside_word(text, at, at + k))
                continue;
            best = &a->one[low];
            found = true;
        }
        if (at + k == text.n)
            break;
        low = lower(a, low, high, k, p[k]);
        high = lower(a, low, high, k, p[k] + 1u);
    }
    return best;
}
