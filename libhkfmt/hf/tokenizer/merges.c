/* The merges of a BPE model. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

/* The two halves of merge O: a list of two strings, or one string with a blank between them. */
static bool halves(const json_t *o, struct hk_bytes half[2])
{
    if (json_is_array(o) && json_array_size(o) == 2) {
        for (size_t i = 0; i < 2; i++)
            half[i] = hk_tok_string(json_array_get(o, i));
        return half[0].n > 0 && half[1].n > 0;
    }
    struct hk_bytes text = hk_tok_string(o);
    const uint8_t *blank = text.n > 0 ? memchr(text.p, ' ', text.n) : NULL;
    if (blank == NULL)
        return false;
    half[0] = (struct hk_bytes){text.p, (size_t)(blank - text.p)};
    half[1] = (struct hk_bytes){blank + 1, text.n - half[0].n - 1};
    return half[0].n > 0 && half[1].n > 0 && memchr(half[1].p, ' ', half[1].n) == NULL;
}

static enum hk_status resolve(const struct hk_tok *t, const struct hk_bytes half[2],
                              struct hk_buf *joined, struct hk_tok_merge *m)
{
    joined->n = 0;
    hk_buf_put(joined, half[0].p, half[0].n);
    hk_buf_put(joined, half[1].p, half[1].n);
    if (joined->failed)
        return hk_fail_nomem(t->err);
    int64_t left = hk_tok_id(t, half[0]), right = hk_tok_id(t, half[1]),
            id = hk_tok_id(t, (struct hk_bytes){joined->p, joined->n});
    if (left < 0 || right < 0 || id < 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer.json: model.merges: merge %u (\"%.*s\" and \"%.*s\") is not of "
                       "three pieces of the vocabulary",
                       m->rank, HK_STR(half[0]), HK_STR(half[1]));
    m->left = (uint32_t)left;
    m->right = (uint32_t)right;
    m->id = (uint32_t)id;
    return HK_OK;
}

static int by_halves(const void *pa, const void *pb)
{
    const struct hk_tok_merge *a = pa, *b = pb;
    if (a->left != b->left)
        return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* Of a pair that is there twice the libraries do not agree which one counts. */
static enum hk_status sort_by_halves(const struct hk_tok *t, struct hk_tok_merges *m)
{
    qsort(m->merge, m->count, sizeof *m->merge, by_halves);
    for (uint32_t i = 1; i < m->count; i++) {
        if (by_halves(&m->merge[i - 1], &m->merge[i]) == 0)
            return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tokenizer.json: model.merges: the merge of \"%.*s\" and \"%.*s\" is "
                           "there twice",
                           HK_STR(t->token[m->merge[i].left].piece),
                           HK_STR(t->token[m->merge[i].right].piece));
    }
    return HK_OK;
}

enum hk_status hk_tok_read_merges(struct hk_tok *t, struct hk_tok_merges *out)
{
    const json_t *list = json_object_get(json_object_get(t->json, "model"), "merges"), *o;
    if (!json_is_array(list) || json_array_size(list) > INT32_MAX)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer.json: model.merges is no list of merges");
    out->count = (uint32_t)json_array_size(list);
    out->merge = calloc((size_t)out->count + 1, sizeof *out->merge);
    if (out->merge == NULL)
        return hk_fail_nomem(t->err);
    t->pairs = json_is_array(json_array_get(list, 0));
    struct hk_buf joined = {0};
    enum hk_status st = HK_OK;
    size_t i;
    json_array_foreach(list, i, o)
    {
        struct hk_bytes half[2];
        out->merge[i].rank = (uint32_t)i;
        st = halves(o, half) ? resolve(t, half, &joined, &out->merge[i])
                             : hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                                       "tokenizer.json: model.merges: merge %zu is no pair", i);
        if (st != HK_OK)
            break;
    }
    hk_buf_free(&joined);
    return st == HK_OK ? sort_by_halves(t, out) : st;
}

void hk_tok_sort_merges(struct hk_tok_merges *m)
{
    if (m->count > 0)
        qsort(m->merge, m->count, sizeof *m->merge, by_halves);
}

const struct hk_tok_merge *hk_tok_find_merge(const struct hk_tok_merges *m, uint32_t left,
                                             uint32_t right)
{
    struct hk_tok_merge key = {.left = left, .right = right};
    return bsearch(&key, m->merge, m->count, sizeof key, by_halves);
}

/* "left right" of each merge, one behind the other in the order of M. */
static void spell(const struct hk_tok *t, const struct hk_tok_merges *m, struct hk_bytes *line,
                  struct hk_buf *text)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes left = t->token[m->merge[i].left].piece,
                        right = t->token[m->merge[i].right].piece;
        hk_buf_put(text, left.p, left.n);
        hk_buf_text(text, " ");
        hk_buf_put(text, right.p, right.n);
        line[m->merge[i].rank].n = left.n + right.n + 1;
    }
    const uint8_t *p = text->p;
    for (uint32_t i = 0; i < m->count && !text->failed; i++) {
        struct hk_bytes *b = &line[m->merge[i].rank];
        b->p = p;
        p += b->n;
    }
}

static enum hk_status check_blanks(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes piece = t->token[m->merge[i].id].piece;
        if (memchr(piece.p, ' ', piece.n) != NULL)
            return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "tokenizer.json: model.merges: merge %u makes \"%.*s\", which has a "
                           "blank",
                           m->merge[i].rank, HK_STR(piece));
    }
    return HK_OK;
}

enum hk_status hk_tok_put_merges(const struct hk_tok *t, enum hk_vocab_key key,
                                 const struct hk_tok_merges *m)
{
    enum hk_status st = check_blanks(t, m);
    if (st != HK_OK)
        return st;
    struct hk_bytes *line = calloc((size_t)m->count + 1, sizeof *line);
    struct hk_buf text = {0};
    if (line != NULL)
        spell(t, m, line, &text);
    if (line != NULL && !text.failed)
        hk_kvlist_strings(t->out, hk_vocab_key(key), line, m->count);
    else
        st = hk_fail_nomem(t->err);
    hk_buf_free(&text);
    free(line);
    return st;
}
