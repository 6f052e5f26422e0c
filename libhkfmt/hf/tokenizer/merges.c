/* The merges of a BPE model, from its list or from scores. */
#include "libhkfmt/hf/tokenizer/merges.h"

#include <stdlib.h>
#include <string.h>

/* The two halves of merge O: a list of two strings, or one string with a space between them. */
static bool split_merge(const json_t *o, struct hk_bytes half[2])
{
    if (json_is_array(o) && json_array_size(o) == 2) {
        for (size_t i = 0; i < 2; i++)
            half[i] = hk_json_string_bytes(json_array_get(o, i));
        return half[0].n > 0 && half[1].n > 0;
    }
    struct hk_bytes text = hk_json_string_bytes(o);
    const uint8_t *space = text.n > 0 ? memchr(text.p, ' ', text.n) : NULL;
    if (space == NULL)
        return false;
    half[0] = (struct hk_bytes){text.p, (size_t)(space - text.p)};
    half[1] = (struct hk_bytes){space + 1, text.n - half[0].n - 1};
    return half[0].n > 0 && half[1].n > 0 && memchr(half[1].p, ' ', half[1].n) == NULL;
}

static enum hk_status resolve_merge_pieces(const struct hk_tok *t, const struct hk_bytes half[2],
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
        return hk_fail(
            t->err, HK_E_FORMAT, HK_NO_OFFSET,
            "tokenizer.json: model.merges: merge %u (\"%.*s\" and \"%.*s\") is not of three "
            "pieces of the vocabulary",
            m->rank, HK_STR(half[0]), HK_STR(half[1]));
    m->left = (uint32_t)left;
    m->right = (uint32_t)right;
    m->id = (uint32_t)id;
    return HK_OK;
}

static int compare_merge_halves(const void *pa, const void *pb)
{
    const struct hk_tok_merge *a = pa, *b = pb;
    if (a->left != b->left)
        return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* Of a pair that is there twice the libraries do not agree which one counts. */
static enum hk_status sort_unique_merges(const struct hk_tok *t, struct hk_tok_merges *m)
{
    qsort(m->merge, m->count, sizeof *m->merge, compare_merge_halves);
    for (uint32_t i = 1; i < m->count; i++) {
        if (compare_merge_halves(&m->merge[i - 1], &m->merge[i]) == 0)
            return hk_fail(
                t->err, HK_E_FORMAT, HK_NO_OFFSET,
                "tokenizer.json: model.merges: the merge of \"%.*s\" and \"%.*s\" is there twice",
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
        st = split_merge(o, half)
                 ? resolve_merge_pieces(t, half, &joined, &out->merge[i])
                 : hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tokenizer.json: model.merges: merge %zu is no pair", i);
        if (st != HK_OK)
            break;
    }
    hk_buf_free(&joined);
    return st == HK_OK ? sort_unique_merges(t, out) : st;
}

void hk_tok_sort_merges(struct hk_tok_merges *m)
{
    if (m->count > 0)
        qsort(m->merge, m->count, sizeof *m->merge, compare_merge_halves);
}

const struct hk_tok_merge *hk_tok_find_merge(const struct hk_tok_merges *m, uint32_t left,
                                             uint32_t right)
{
    struct hk_tok_merge key = {.left = left, .right = right};
    return bsearch(&key, m->merge, m->count, sizeof key, compare_merge_halves);
}

/* "left right" of each merge, one behind the other in the order of M. */
static void spell_merges(const struct hk_tok *t, const struct hk_tok_merges *m,
                         struct hk_bytes *line, struct hk_buf *text)
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

static enum hk_status check_merged_spaces(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes piece = t->token[m->merge[i].id].piece;
        if (memchr(piece.p, ' ', piece.n) != NULL)
            return hk_fail(
                t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "tokenizer.json: model.merges: merge %u makes \"%.*s\", which has a space",
                m->merge[i].rank, HK_STR(piece));
    }
    return HK_OK;
}

enum hk_status hk_tok_put_merges(const struct hk_tok *t, enum hk_vocab_key key,
                                 const struct hk_tok_merges *m)
{
    enum hk_status st = check_merged_spaces(t, m);
    if (st != HK_OK)
        return st;
    struct hk_bytes *line = calloc((size_t)m->count + 1, sizeof *line);
    struct hk_buf text = {0};
    if (line != NULL)
        spell_merges(t, m, line, &text);
    if (line != NULL && !text.failed)
        hk_kvlist_strings(t->out, hk_vocab_key(key), line, m->count);
    else
        st = hk_fail_nomem(t->err);
    hk_buf_free(&text);
    free(line);
    return st;
}

/* ---- scores as merges ---- */

/* Bytes that all look-ups together may hash: a file of usual size needs a hundredth. */
#define MAX_WORK ((uint64_t)1 << 32)

struct cut { /* one way to cut a piece */
    struct hk_tok_merge merge;
    float score;
    uint32_t chars, left; /* of the left half; of the piece */
};

struct cuts {
    struct hk_buf all; /* struct cut */
    uint64_t work;
};

static bool may_piece_merge(const struct hk_tok_token *t)
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

static bool is_merge_half(const struct hk_tok *t, struct hk_bytes b, uint32_t *id)
{
    int64_t found = hk_tok_id(t, b);
    if (found < 0 || !may_piece_merge(&t->token[found]))
        return false;
    *id = (uint32_t)found;
    return true;
}

static void cut_piece_in_two(const struct hk_tok *t, uint32_t id, struct cuts *x)
{
    const struct hk_tok_token *token = &t->token[id];
    struct hk_bytes b = token->piece;
    uint32_t chars = count_chars(b), at = 0;
    for (size_t i = 1; i < b.n && x->work <= MAX_WORK; i++) {
        if ((b.p[i] & 0xc0) == 0x80)
            continue;
        struct cut c = {.merge = {.id = id}, .score = token->score, .left = ++at, .chars = chars};
        x->work += b.n;
        if (is_merge_half(t, (struct hk_bytes){b.p, i}, &c.merge.left) &&
            is_merge_half(t, (struct hk_bytes){b.p + i, b.n - i}, &c.merge.right))
            hk_buf_put(&x->all, &c, sizeof c);
    }
}

/* transformers sorts by score and the halves' lengths, largest first; what is equal in these stays
 * in the order of ids. */
static int compare_cuts(const void *pa, const void *pb)
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

static enum hk_status number_cuts(const struct hk_tok *t, struct cuts *x, struct hk_tok_merges *out)
{
    size_t n = x->all.n / sizeof(struct cut);
    struct cut *cut = (struct cut *)(void *)x->all.p;
    if (n > INT32_MAX)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET, "the tokenizer has %zu merges", n);
    out->merge = calloc(n + 1, sizeof *out->merge);
    if (out->merge == NULL)
        return hk_fail_nomem(t->err);
    if (n > 0)
        qsort(cut, n, sizeof *cut, compare_cuts);
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
        if (may_piece_merge(&t->token[i]))
            cut_piece_in_two(t, i, &x);
    enum hk_status st = HK_OK;
    if (x.all.failed)
        st = hk_fail_nomem(t->err);
    else if (x.work > MAX_WORK)
        st = hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                     "the tokenizer's pieces are so long that their merges take too much work");
    else
        st = number_cuts(t, &x, out);
    hk_buf_free(&x.all);
    return st;
}
