/* Scores as merges. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

/* Bytes that all look-ups together may hash: a file of usual size needs a hundredth. */
#define MOST_WORK ((uint64_t)1 << 32)

struct cut { /* one way to cut a piece */
    struct hk_tok_merge merge;
    float score;
    uint32_t chars, left; /* of the left half; of the piece */
};

struct cuts {
    struct hk_buf all; /* struct cut */
    uint64_t work;
};

static bool may_merge(const struct hk_tok_token *t)
{
    return t->piece.n > 0 && (t->type == HK_TOKEN_NORMAL || t->type == HK_TOKEN_UNUSED ||
                              (t->type == HK_TOKEN_USER && t->in_model));
}

static uint32_t count_chars(struct hk_bytes b)
{
    uint32_t n = 0;
    for (size_t i = 0; i < b.n; i++)
        n += (b.p[i] & 0xc0) != 0x80;
    return n;
}

static bool is_half(const struct hk_tok *t, struct hk_bytes b, uint32_t *id)
{
    int64_t found = hk_tok_id(t, b);
    if (found < 0 || !may_merge(&t->token[found]))
        return false;
    *id = (uint32_t)found;
    return true;
}

static void cut_piece(const struct hk_tok *t, uint32_t id, struct cuts *x)
{
    const struct hk_tok_token *token = &t->token[id];
    struct hk_bytes b = token->piece;
    uint32_t chars = count_chars(b), at = 0;
    for (size_t i = 1; i < b.n && x->work <= MOST_WORK; i++) {
        if ((b.p[i] & 0xc0) == 0x80)
            continue;
        struct cut c = {.merge = {.id = id}, .score = token->score, .left = ++at, .chars = chars};
        x->work += b.n;
        if (is_half(t, (struct hk_bytes){b.p, i}, &c.merge.left) &&
            is_half(t, (struct hk_bytes){b.p + i, b.n - i}, &c.merge.right))
            hk_buf_put(&x->all, &c, sizeof c);
    }
}

/* transformers sorts by score and the halves' lengths, largest first; what is equal in these stays
 * in the order of ids. */
static int by_score(const void *pa, const void *pb)
{
    const struct cut *a = pa, *b = pb;
    if (a->score < b->score || a->score > b->score)
        return a->score > b->score ? -1 : 1;
    if (a->left != b->left)
        return a->left > b->left ? -1 : 1;
    if (a->chars != b->chars)
        return a->chars > b->chars ? -1 : 1;
    if (a->merge.id != b->merge.id)
        return a->merge.id < b->merge.id ? -1 : 1;
    return (a->merge.left > b->merge.left) - (a->merge.left < b->merge.left);
}

static enum hk_status number(const struct hk_tok *t, struct cuts *x, struct hk_tok_merges *out)
{
    size_t n = x->all.n / sizeof(struct cut);
    struct cut *cut = (struct cut *)(void *)x->all.p;
    if (n > INT32_MAX)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET, "the tokenizer has %zu merges", n);
    out->merge = calloc(n + 1, sizeof *out->merge);
    if (out->merge == NULL)
        return hk_fail_nomem(t->err);
    if (n > 0)
        qsort(cut, n, sizeof *cut, by_score);
    for (size_t i = 0; i < n; i++) {
        out->merge[i] = cut[i].merge;
        out->merge[i].rank = (uint32_t)i;
    }
    out->count = (uint32_t)n;
    return HK_OK;
}

enum hk_status hk_tok_make_merges(const struct hk_tok *t, struct hk_tok_merges *out)
{
    struct cuts x = {0};
    for (uint32_t i = 0; i < t->count; i++)
        if (may_merge(&t->token[i]))
            cut_piece(t, i, &x);
    enum hk_status st = HK_OK;
    if (x.all.failed)
        st = hk_fail_nomem(t->err);
    else if (x.work > MOST_WORK)
        st = hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                     "the tokenizer's pieces are so long that their merges take too much work");
    else
        st = number(t, &x, out);
    hk_buf_free(&x.all);
    return st;
}
