/* Added tokens: whole strings that are found in a text before it is split, leftmost first and of
 * those that begin at one place the longest. */
#include "engine/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/characters.h"
#include "engine/tokenizer/nfc.h"
#include "libhkfmt/base/grow.h"

bool hke_is_added_type(enum hk_token_type type)
{
    return type == HK_TOKEN_USER || type == HK_TOKEN_CONTROL || type == HK_TOKEN_UNKNOWN;
}

/* ---- flags ---- */

static enum hk_status check_flags_of_token(const struct hke_tokenizer *t, const struct hk_kv *kv,
                                           int32_t id, int32_t flags, struct hk_error *err)
{
    if (id < 0 || (uint32_t)id >= t->piece.n)
        return hk_fail(err, HK_E_RANGE, kv->offset, "%s: %d is outside the vocabulary of %u",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id, t->piece.n);
    if (!hke_is_added_type(t->type[id]))
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: token %d is of type %u, no added token",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id, t->type[id]);
    if (flags < 0 || flags > HK_ADDED_ALL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown flags %d of token %d",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), flags, id);
    return HK_OK;
}

static enum hk_status copy_added_flags(struct hke_tokenizer *t, const struct hk_kv *kv,
                                       const struct hk_array *a, struct hk_error *err)
{
    if (a->count % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u values are not pairs of id and flags",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), a->count);
    for (uint32_t i = 0; i < a->count; i += 2) {
        int32_t id = hk_array_i32(a, i), flags = hk_array_i32(a, i + 1);
        enum hk_status st = check_flags_of_token(t, kv, id, flags, err);
        if (st != HK_OK)
            return st;
        if (i > 0 && id <= hk_array_i32(a, i - 2))
            return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: token %d is not in rising order",
                           hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id);
        t->flags[id] = (uint8_t)flags;
    }
    return HK_OK;
}

enum hk_status hke_load_added_flags(struct hke_tokenizer *t, const struct hk_file *f,
                                    struct hk_error *err)
{
    t->flags = calloc(t->piece.n, sizeof *t->flags);
    if (t->flags == NULL)
        return hk_fail_nomem(err);
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_ADDED_FLAGS);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    st = copy_added_flags(t, kv, &a, err);
    hk_array_free(&a);
    return st;
}

/* ---- the tokens by their first bytes ---- */

static int compare_added(const void *pa, const void *pb)
{
    const struct tok_added_one *a = pa, *b = pb;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int c = memcmp(a->text.p, b->text.p, n);
    if (c == 0)
        c = (a->text.n > b->text.n) - (a->text.n < b->text.n);
    return c != 0 ? c : (a->id > b->id) - (a->id < b->id);
}

/* Bounds of the tokens with each first byte. */
static void index_first_bytes(struct tok_added *a)
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
static bool normalise_added(struct tok_added *a)
{
    struct tok_nfc x = {0};
    size_t n = 0, room = 0;
    bool good = true;
    for (uint32_t i = 0; i < a->n && good; i++) {
        struct hk_bytes text;
        good = hke_normalise(&x, a->one[i].text, &text) && hk_grow(&a->own, &room, n + text.n, 1);
        if (!good)
            break;
        memcpy(a->own + n, text.p, text.n);
        a->one[i].text.n = text.n;
        n += text.n;
    }
    hke_nfc_free(&x);
    n = 0;
    for (uint32_t i = 0; i < a->n && good; i++) {
        a->one[i].text.p = a->own + n;
        n += a->one[i].text.n;
    }
    return good;
}

/* Collect those that are matched in normalised text, or those that are not. */
static enum hk_status collect_added(struct hke_tokenizer *t, bool normalised, struct hk_error *err)
{
    struct tok_added *a = &t->added[normalised];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->text.n; i++)
        n += hke_is_added_type(t->type[i]);
    a->one = calloc((size_t)n + 1, sizeof *a->one);
    if (a->one == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < t->text.n; i++) {
        struct hk_bytes text = tok_string(&t->text, i);
        bool here = ((t->flags[i] & HK_ADDED_NORMALIZED) != 0) == normalised;
        if (here && hke_is_added_type(t->type[i]) && text.n > 0)
            a->one[a->n++] = (struct tok_added_one){text, i};
    }
    if (normalised && t->nfc && !normalise_added(a))
        return hk_fail_nomem(err);
    qsort(a->one, a->n, sizeof *a->one, compare_added);
    index_first_bytes(a);
    return HK_OK;
}

enum hk_status hke_index_added(struct hke_tokenizer *t, struct hk_error *err)
{
    enum hk_status st = collect_added(t, false, err);
    return st == HK_OK ? collect_added(t, true, err) : st;
}

/* First of [LOW, HIGH), whose texts agree in K bytes and are longer, with byte K at least C. */
static uint32_t find_byte_bound(const struct tok_added *a, uint32_t low, uint32_t high, size_t k,
                                unsigned c)
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

const struct tok_added_one *hke_match_added(const struct hke_tokenizer *t,
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
            if ((t->flags[id] & HK_ADDED_SINGLE_WORD) != 0 && hke_is_inside_word(text, at, at + k))
                continue;
            best = &a->one[low];
            found = true;
        }
        if (at + k == text.n)
            break;
        low = find_byte_bound(a, low, high, k, p[k]);
        high = find_byte_bound(a, low, high, k, p[k] + 1u);
    }
    return best;
}
