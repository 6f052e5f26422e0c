/* model.vocab and model.merges of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/convert/copying.h"
#include "libhkfmt/hf/tokenizer/export.h"

static enum hk_status put_vocab(struct hk_put_tok *p, json_t *model)
{
    json_t *vocab = json_object();
    bool good = vocab != NULL && hk_put_tok_set(model, "vocab", vocab);
    for (uint32_t i = 0; i < p->t.count && good; i++) {
        struct hk_bytes b = p->t.token[i].piece;
        if (p->t.token[i].in_model)
            good = json_object_setn_new(vocab, (const char *)b.p, b.n, json_integer(i)) == 0;
    }
    return good ? HK_OK : hk_fail_nomem(p->t.err);
}

static bool append(json_t *list, struct hk_bytes left, struct hk_bytes right, bool pairs)
{
    if (pairs)
        return json_array_append_new(list, json_pack("[o,o]", hk_put_tok_string(left),
                                                     hk_put_tok_string(right))) == 0;
    struct hk_buf b = {0};
    hk_buf_put(&b, left.p, left.n);
    hk_buf_text(&b, " ");
    hk_buf_put(&b, right.p, right.n);
    bool good = !b.failed &&
                json_array_append_new(list, hk_put_tok_string((struct hk_bytes){b.p, b.n})) == 0;
    hk_buf_free(&b);
    return good;
}

/* The halves of the merge LINE: the first blank behind which both are tokens. Few tokens have
 * blanks, so that only so many are tried as do not add up. */
static bool halves(const struct hk_tok *t, struct hk_bytes line, struct hk_bytes half[2])
{
    enum { MOST_BLANKS = 64 };
    unsigned blanks = 0;
    for (size_t k = 1; k + 1 < line.n && blanks < MOST_BLANKS; k++) {
        if (line.p[k] != ' ')
            continue;
        blanks++;
        half[0] = (struct hk_bytes){line.p, k};
        half[1] = (struct hk_bytes){line.p + k + 1, line.n - k - 1};
        if (hk_tok_id(t, half[0]) >= 0 && hk_tok_id(t, half[1]) >= 0)
            return true;
    }
    return false;
}

static bool wants_pairs(const struct hk_put_tok *p)
{
    return json_is_true(json_object_get(p->form, "pairs"));
}

static enum hk_status put_listed(struct hk_put_tok *p, const struct hk_kv *kv, json_t *list)
{
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &a, p->t.err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++) {
        struct hk_bytes half[2], line = hk_array_string(&a, i);
        if (!halves(&p->t, line, half))
            st = hk_fail(p->t.err, HK_E_FORMAT, kv->offset,
                         "%.*s: merge %u (\"%.*s\") is not of two tokens", HK_STR(kv->key), i,
                         HK_STR(line));
        else if (!append(list, half[0], half[1], wants_pairs(p)))
            st = hk_fail_nomem(p->t.err);
    }
    hk_array_free(&a);
    return st;
}

/* Whether the scores are those of the merges kept under hk.hf.merges: each score is the rank of
 * one of the merges to its piece (or their number, if merging never gets to it), or the merges go
 * by falling scores. */
static enum hk_status fits_scores(const struct hk_put_tok *p, const struct hk_kv *kv, bool *fits)
{
    const struct hk_tok *t = &p->t;
    struct hk_array a;
    bool falling = true, ranks = true;
    bool *seen = calloc(t->count, 2);
    enum hk_status st =
        seen != NULL ? hk_kv_array(kv, HK_ARRAY_STRING, &a, t->err) : hk_fail_nomem(t->err);
    if (st != HK_OK) {
        free(seen);
        return st;
    }
    struct hk_buf joined = {0};
    float last = 0;
    for (uint32_t i = 0; i < a.count && (falling || ranks); i++) {
        struct hk_bytes half[2];
        joined.n = 0;
        int64_t id = -1;
        if (halves(t, hk_array_string(&a, i), half)) {
            hk_buf_put(&joined, half[0].p, half[0].n);
            hk_buf_put(&joined, half[1].p, half[1].n);
            id = hk_tok_id(t, (struct hk_bytes){joined.p, joined.n});
        }
        if (id < 0) {
            falling = ranks = false;
            break;
        }
        float score = t->token[id].score;
        falling &= i == 0 || score <= last;
        last = score;
        seen[id] = true;
        seen[t->count + id] |= score == -(float)i || score == -(float)a.count;
    }
    for (uint32_t i = 0; i < t->count; i++)
        ranks &= !seen[i] || seen[t->count + i];
    *fits = falling || ranks;
    st = joined.failed ? hk_fail_nomem(t->err) : HK_OK;
    hk_buf_free(&joined);
    hk_array_free(&a);
    free(seen);
    return st;
}

/* Equal scores of different pieces, other than runs of blanks, merge from the left in
 * SentencePiece and in the order of the list here. */
static void tell_ties(const struct hk_put_tok *p, const struct hk_tok_merges *m)
{
    for (uint32_t i = 1; i < m->count; i++) {
        const struct hk_tok_token *a = &p->t.token[m->merge[i - 1].id],
                                  *b = &p->t.token[m->merge[i].id];
        bool blanks = a->piece.n > 2 && memcmp(a->piece.p, HK_VOCAB_SPACE, 3) == 0 &&
                      a->piece.p[a->piece.n - 1] == 0x81;
        if (a != b && a->score == b->score && !blanks) {
            hk_lost(p->opt,
                    "%s: pieces with equal scores merge in "
                    "the order of tokenizer.json's list",
                    hk_vocab_key(HK_VOCAB_SCORES));
            return;
        }
    }
}

static enum hk_status put_made(struct hk_put_tok *p, json_t *list)
{
    struct hk_tok_merges m = {0};
    enum hk_status st = hk_tok_make_merges(&p->t, &m);
    if (st == HK_OK)
        tell_ties(p, &m);
    for (uint32_t i = 0; i < m.count && st == HK_OK; i++) {
        if (!append(list, p->t.token[m.merge[i].left].piece, p->t.token[m.merge[i].right].piece,
                    wants_pairs(p)))
            st = hk_fail_nomem(p->t.err);
    }
    free(m.merge);
    return st;
}

static enum hk_status put_merges(struct hk_put_tok *p, json_t *list)
{
    const struct hk_kv *kv =
        hk_vocab_find(p->f, p->t.spm ? HK_VOCAB_STORED_MERGES : HK_VOCAB_MERGES);
    bool fits = true;
    enum hk_status st = HK_OK;
    if (!p->t.spm && kv == NULL)
        return hk_fail(p->t.err, HK_E_MISSING, HK_NO_OFFSET, "key %s is missing",
                       hk_vocab_key(HK_VOCAB_MERGES));
    if (p->t.spm && kv != NULL)
        st = fits_scores(p, kv, &fits);
    if (st != HK_OK)
        return st;
    return kv != NULL && fits ? put_listed(p, kv, list) : put_made(p, list);
}

enum hk_status hk_put_tok_model(struct hk_put_tok *p)
{
    json_t *model = json_object_get(p->t.json, "model"), *list = json_array();
    if (model == NULL) {
        model = json_object();
        if (model == NULL || !hk_put_tok_set(p->t.json, "model", model)) {
            json_decref(list);
            return hk_fail_nomem(p->t.err);
        }
    }
    enum hk_status st = put_vocab(p, model);
    if (!hk_put_tok_set(model, "merges", list))
        return hk_fail_nomem(p->t.err);
    return st == HK_OK ? put_merges(p, list) : st;
}
