/* The tokens of a tokenizer to be written, read from the keys; model.vocab and model.merges of its
 * tokenizer.json. */
#include "libhkfmt/hf/tokenizer/export_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/convert/copying.h"
#include "libhkfmt/hf/tokenizer/merges.h"

/* ---- from the keys ---- */

enum hk_status hk_tok_export_int(const struct hk_tok_export *p, enum hk_vocab_key key, int64_t *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    return kv == NULL ? HK_OK : hk_kv_int(kv, out, p->t.err);
}

enum hk_status hk_tok_export_bool(const struct hk_tok_export *p, enum hk_vocab_key key, bool *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    return kv == NULL ? HK_OK : hk_kv_bool(kv, out, p->t.err);
}

static enum hk_status load_exported_kind(struct hk_tok_export *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_MODEL);
    struct hk_bytes name = {0};
    if (kv == NULL)
        return hk_fail(p->t.err, HK_E_MISSING, HK_NO_OFFSET, "key %s is missing",
                       hk_vocab_key(HK_VOCAB_MODEL));
    enum hk_status st = hk_kv_string(kv, &name, p->t.err);
    p->t.spm = st == HK_OK && hk_vocab_kind(name) == HK_VOCAB_SPM;
    if (st == HK_OK && hk_vocab_kind(name) == HK_VOCAB_OTHER)
        st = hk_fail(p->t.err, HK_E_UNSUPPORTED, kv->offset,
                     "%s: a tokenizer of kind \"%.*s\" cannot be written as tokenizer.json",
                     hk_vocab_key(HK_VOCAB_MODEL), HK_STR(name));
    return st;
}

static enum hk_status load_exported_pieces(struct hk_tok_export *p)
{
    struct hk_tok *t = &p->t;
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_TOKENS);
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &p->pieces, t->err);
    if (st == HK_OK)
        st = hk_tok_make_room(t, p->pieces.count);
    if (st == HK_OK && (t->ids = json_object()) == NULL)
        st = hk_fail_nomem(t->err);
    for (uint32_t i = 0; i < t->count && st == HK_OK; i++) {
        struct hk_bytes piece = hk_array_string(&p->pieces, i);
        if (piece.p == NULL)
            piece.p = (const uint8_t *)"";
        if (hk_tok_id(t, piece) >= 0)
            st = hk_fail(t->err, HK_E_UNSUPPORTED, kv->offset,
                         "%s: token %u, \"%.*s\", is there twice, which tokenizer.json cannot say",
                         hk_vocab_key(HK_VOCAB_TOKENS), i, HK_STR(piece));
        else if (json_object_setn_new(t->ids, (const char *)piece.p, piece.n, json_integer(i)) != 0)
            st = hk_fail(t->err, HK_E_UNSUPPORTED, kv->offset,
                         "%s: token %u is not UTF-8, which tokenizer.json cannot say",
                         hk_vocab_key(HK_VOCAB_TOKENS), i);
        t->token[i].piece = piece;
        t->token[i].type = HK_TOKEN_NORMAL;
    }
    return st;
}

static enum hk_vocab_kind vocab_kind_of(const struct hk_tok_export *p)
{
    return p->t.spm ? HK_VOCAB_SPM : HK_VOCAB_BPE;
}

static enum hk_status load_exported_types(struct hk_tok_export *p)
{
    struct hk_tok *t = &p->t;
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_TYPES);
    struct hk_array a;
    if (kv == NULL) {
        for (uint32_t i = 0; i < t->count; i++)
            t->token[i].type = (uint8_t)hk_vocab_default_type(vocab_kind_of(p), t->token[i].piece,
                                                              i, t->bos, t->eos, t->unk);
        return HK_OK;
    }
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, p->t.err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i < a.count && i < p->t.count && st == HK_OK; i++) {
        int32_t type = hk_array_i32(&a, i);
        p->t.token[i].type = (uint8_t)type;
        if (type < HK_TOKEN_NORMAL || type > HK_TOKEN_BYTE)
            st = hk_fail(p->t.err, HK_E_RANGE, kv->offset, "%s: type %d of token %u",
                         hk_vocab_key(HK_VOCAB_TYPES), type, i);
    }
    if (st == HK_OK && a.count != p->t.count)
        st = hk_fail(p->t.err, HK_E_FORMAT, kv->offset, "%s: %u types for %u tokens",
                     hk_vocab_key(HK_VOCAB_TYPES), a.count, p->t.count);
    hk_array_free(&a);
    return st;
}

static enum hk_status load_exported_scores(struct hk_tok_export *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_SCORES);
    struct hk_array a;
    if (!p->t.spm)
        return HK_OK;
    if (kv == NULL)
        return hk_fail(p->t.err, HK_E_MISSING, HK_NO_OFFSET, "key %s is missing",
                       hk_vocab_key(HK_VOCAB_SCORES));
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_F32, &a, p->t.err);
    if (st != HK_OK)
        return st;
    if (a.count != p->t.count)
        st = hk_fail(p->t.err, HK_E_FORMAT, kv->offset, "%s: %u scores for %u tokens",
                     hk_vocab_key(HK_VOCAB_SCORES), a.count, p->t.count);
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++)
        p->t.token[i].score = hk_array_f32(&a, i);
    hk_array_free(&a);
    return st;
}

static enum hk_status load_exported_flags(struct hk_tok_export *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_ADDED_FLAGS);
    struct hk_array a;
    if (kv == NULL)
        return HK_OK;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, p->t.err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i + 1 < a.count && st == HK_OK; i += 2) {
        int32_t id = hk_array_i32(&a, i), flags = hk_array_i32(&a, i + 1);
        if (id < 0 || (uint32_t)id >= p->t.count || flags < 0 || flags > HK_ADDED_ALL)
            st = hk_fail(p->t.err, HK_E_RANGE, kv->offset, "%s: token %d, flags %d",
                         hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id, flags);
        else
            p->t.token[id].flags = (uint8_t)flags;
    }
    hk_array_free(&a);
    return st;
}

/* A special id, which must be a token. */
static enum hk_status load_exported_id(struct hk_tok_export *p, enum hk_vocab_key key, int64_t *out)
{
    *out = hk_vocab_default_id(vocab_kind_of(p), key, p->t.count);
    enum hk_status st = hk_tok_export_int(p, key, out);
    if (st == HK_OK && *out >= (int64_t)p->t.count)
        st = hk_fail(p->t.err, HK_E_RANGE, HK_NO_OFFSET, "%s: %lld is outside the vocabulary of %u",
                     hk_vocab_key(key), (long long)*out, p->t.count);
    return st;
}

/* Padding up to the rows of the embedding, and ids that had no token: neither is a piece. */
static bool is_vocab_hole(uint32_t i, const struct hk_tok_token *t)
{
    char unused[24];
    snprintf(unused, sizeof unused, "[UNUSED_%u]", i);
    return t->type == HK_TOKEN_UNUSED &&
           (hk_bytes_are(t->piece, unused) || hk_vocab_is_padding(t->piece, i));
}

/* Which tokens are pieces of the model: all but holes and those that the stored files had only
 * among the added tokens. */
static void mark_model_pieces(struct hk_tok_export *p)
{
    const json_t *list = p->stored ? json_object_get(p->form, "outside") : NULL, *o;
    size_t k;
    for (uint32_t i = 0; i < p->t.count; i++) {
        struct hk_tok_token *t = &p->t.token[i];
        t->added =
            t->type == HK_TOKEN_CONTROL || t->type == HK_TOKEN_USER || t->type == HK_TOKEN_UNKNOWN;
        t->in_model = !is_vocab_hole(i, t);
    }
    json_array_foreach(list, k, o)
    {
        json_int_t id = json_integer_value(o);
        if (json_is_integer(o) && id >= 0 && id < p->t.count && p->t.token[id].added)
            p->t.token[id].in_model = false;
    }
}

enum hk_status hk_tok_export_load(struct hk_tok_export *p)
{
    enum hk_status st = load_exported_kind(p);
    if (st == HK_OK)
        st = load_exported_pieces(p);
    if (st == HK_OK)
        st = load_exported_id(p, HK_VOCAB_UNK, &p->t.unk);
    if (st == HK_OK)
        st = load_exported_id(p, HK_VOCAB_BOS, &p->t.bos);
    if (st == HK_OK)
        st = load_exported_id(p, HK_VOCAB_EOS, &p->t.eos);
    if (st == HK_OK)
        st = load_exported_types(p);
    if (st == HK_OK)
        st = load_exported_scores(p);
    if (st == HK_OK)
        st = load_exported_flags(p);
    if (st == HK_OK)
        mark_model_pieces(p);
    return st;
}

/* ---- model.vocab, model.merges ---- */

static enum hk_status export_vocab(struct hk_tok_export *p, json_t *model)
{
    json_t *vocab = json_object();
    bool good = vocab != NULL && hk_json_set_new(model, "vocab", vocab);
    for (uint32_t i = 0; i < p->t.count && good; i++) {
        struct hk_bytes b = p->t.token[i].piece;
        if (p->t.token[i].in_model)
            good = json_object_setn_new(vocab, (const char *)b.p, b.n, json_integer(i)) == 0;
    }
    return good ? HK_OK : hk_fail_nomem(p->t.err);
}

static bool append_merge(json_t *list, struct hk_bytes left, struct hk_bytes right, bool pairs)
{
    if (pairs)
        return json_array_append_new(list, json_pack("[o,o]", hk_json_new_string(left),
                                                     hk_json_new_string(right))) == 0;
    struct hk_buf b = {0};
    hk_buf_put(&b, left.p, left.n);
    hk_buf_text(&b, " ");
    hk_buf_put(&b, right.p, right.n);
    bool good = !b.failed &&
                json_array_append_new(list, hk_json_new_string((struct hk_bytes){b.p, b.n})) == 0;
    hk_buf_free(&b);
    return good;
}

/* The halves of the merge LINE: the first space behind which both are tokens. Few tokens have
 * spaces, so that only so many are tried as do not add up. */
static bool find_merge_halves(const struct hk_tok *t, struct hk_bytes line, struct hk_bytes half[2])
{
    enum { MAX_SPACES = 64 };
    unsigned spaces = 0;
    for (size_t k = 1; k + 1 < line.n && spaces < MAX_SPACES; k++) {
        if (line.p[k] != ' ')
            continue;
        spaces++;
        half[0] = (struct hk_bytes){line.p, k};
        half[1] = (struct hk_bytes){line.p + k + 1, line.n - k - 1};
        if (hk_tok_id(t, half[0]) >= 0 && hk_tok_id(t, half[1]) >= 0)
            return true;
    }
    return false;
}

static bool wants_merge_pairs(const struct hk_tok_export *p)
{
    return json_is_true(json_object_get(p->form, "pairs"));
}

static enum hk_status export_listed_merges(struct hk_tok_export *p, const struct hk_kv *kv,
                                           json_t *list)
{
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &a, p->t.err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++) {
        struct hk_bytes half[2], line = hk_array_string(&a, i);
        if (!find_merge_halves(&p->t, line, half))
            st = hk_fail(p->t.err, HK_E_FORMAT, kv->offset,
                         "%.*s: merge %u (\"%.*s\") is not of two tokens", HK_STR(kv->key), i,
                         HK_STR(line));
        else if (!append_merge(list, half[0], half[1], wants_merge_pairs(p)))
            st = hk_fail_nomem(p->t.err);
    }
    hk_array_free(&a);
    return st;
}

/* Whether the scores are those of the merges kept under hk.hf.merges: each score is the rank of
 * one of the merges to its piece (or their number, if merging never gets to it), or the merges go
 * by falling scores. */
static enum hk_status check_merges_fit_scores(const struct hk_tok_export *p, const struct hk_kv *kv,
                                              bool *fits)
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
        if (find_merge_halves(t, hk_array_string(&a, i), half)) {
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

/* Equal scores of different pieces, other than runs of spaces, merge from the left in
 * SentencePiece and in the order of the list here. */
static void report_score_ties(const struct hk_tok_export *p, const struct hk_tok_merges *m)
{
    for (uint32_t i = 1; i < m->count; i++) {
        const struct hk_tok_token *a = &p->t.token[m->merge[i - 1].id],
                                  *b = &p->t.token[m->merge[i].id];
        bool spaces = a->piece.n > 2 && memcmp(a->piece.p, HK_VOCAB_SPACE, 3) == 0 &&
                      a->piece.p[a->piece.n - 1] == 0x81;
        if (a != b && a->score == b->score && !spaces) {
            hk_report_loss(
                p->opt, "%s: pieces with equal scores merge in the order of tokenizer.json's list",
                hk_vocab_key(HK_VOCAB_SCORES));
            return;
        }
    }
}

static enum hk_status export_made_merges(struct hk_tok_export *p, json_t *list)
{
    struct hk_tok_merges m = {0};
    enum hk_status st = hk_tok_make_merges(&p->t, &m);
    if (st == HK_OK)
        report_score_ties(p, &m);
    for (uint32_t i = 0; i < m.count && st == HK_OK; i++) {
        if (!append_merge(list, p->t.token[m.merge[i].left].piece,
                          p->t.token[m.merge[i].right].piece, wants_merge_pairs(p)))
            st = hk_fail_nomem(p->t.err);
    }
    free(m.merge);
    return st;
}

static enum hk_status export_merges(struct hk_tok_export *p, json_t *list)
{
    const struct hk_kv *kv =
        hk_vocab_find(p->f, p->t.spm ? HK_VOCAB_STORED_MERGES : HK_VOCAB_MERGES);
    bool fits = true;
    enum hk_status st = HK_OK;
    if (!p->t.spm && kv == NULL)
        return hk_fail(p->t.err, HK_E_MISSING, HK_NO_OFFSET, "key %s is missing",
                       hk_vocab_key(HK_VOCAB_MERGES));
    if (p->t.spm && kv != NULL)
        st = check_merges_fit_scores(p, kv, &fits);
    if (st != HK_OK)
        return st;
    return kv != NULL && fits ? export_listed_merges(p, kv, list) : export_made_merges(p, list);
}

enum hk_status hk_tok_export_model(struct hk_tok_export *p)
{
    json_t *model = json_object_get(p->t.json, "model"), *list = json_array();
    if (model == NULL) {
        model = json_object();
        if (model == NULL || !hk_json_set_new(p->t.json, "model", model)) {
            json_decref(list);
            return hk_fail_nomem(p->t.err);
        }
    }
    enum hk_status st = export_vocab(p, model);
    if (!hk_json_set_new(model, "merges", list))
        return hk_fail_nomem(p->t.err);
    return st == HK_OK ? export_merges(p, list) : st;
}
