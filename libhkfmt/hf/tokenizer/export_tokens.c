/* The keys of a tokenizer that is to be written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/export.h"

enum hk_status hk_put_tok_int(const struct hk_put_tok *p, enum hk_vocab_key key, int64_t *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    return kv == NULL ? HK_OK : hk_kv_int(kv, out, p->t.err);
}

enum hk_status hk_put_tok_bool(const struct hk_put_tok *p, enum hk_vocab_key key, bool *out)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, key);
    return kv == NULL ? HK_OK : hk_kv_bool(kv, out, p->t.err);
}

json_t *hk_put_tok_string(struct hk_bytes b)
{
    return json_stringn(b.n > 0 ? (const char *)b.p : "", b.n);
}

bool hk_put_tok_set(json_t *o, const char *key, json_t *value)
{
    return json_object_set_new(o, key, value) == 0;
}

static enum hk_status load_kind(struct hk_put_tok *p)
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
                     "%s: a tokenizer of kind \"%.*s\" cannot be written as "
                     "tokenizer.json",
                     hk_vocab_key(HK_VOCAB_MODEL), HK_STR(name));
    return st;
}

static enum hk_status load_pieces(struct hk_put_tok *p)
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
                         "%s: token %u, \"%.*s\", is there twice, which "
                         "tokenizer.json cannot say",
                         hk_vocab_key(HK_VOCAB_TOKENS), i, HK_STR(piece));
        else if (json_object_setn_new(t->ids, (const char *)piece.p, piece.n, json_integer(i)) != 0)
            st = hk_fail(t->err, HK_E_UNSUPPORTED, kv->offset,
                         "%s: token %u is not UTF-8, which tokenizer.json "
                         "cannot say",
                         hk_vocab_key(HK_VOCAB_TOKENS), i);
        t->token[i].piece = piece;
        t->token[i].type = HK_TOKEN_NORMAL;
    }
    return st;
}

/* Without types, as the engine has it: what spelling and special ids tell. */
static void guess_types(struct hk_put_tok *p)
{
    const int64_t id[3] = {p->t.unk, p->t.bos, p->t.eos};
    for (uint32_t i = 0; i < p->t.count; i++)
        if (p->t.spm && hk_vocab_byte(p->t.token[i].piece) >= 0)
            p->t.token[i].type = HK_TOKEN_BYTE;
    for (size_t i = 0; i < 3; i++)
        if (id[i] >= 0)
            p->t.token[id[i]].type = i == 0 ? HK_TOKEN_UNKNOWN : HK_TOKEN_CONTROL;
}

static enum hk_status load_types(struct hk_put_tok *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_TYPES);
    struct hk_array a;
    if (kv == NULL) {
        guess_types(p);
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

static enum hk_status load_scores(struct hk_put_tok *p)
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

static enum hk_status load_flags(struct hk_put_tok *p)
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

/* A special id, which must be a token; DEFAULTS as the engine has them. */
static enum hk_status load_id(struct hk_put_tok *p, enum hk_vocab_key key, int64_t def,
                              int64_t *out)
{
    *out = p->t.spm && def < p->t.count ? def : -1;
    enum hk_status st = hk_put_tok_int(p, key, out);
    if (st == HK_OK && *out >= (int64_t)p->t.count)
        st = hk_fail(p->t.err, HK_E_RANGE, HK_NO_OFFSET, "%s: %lld is outside the vocabulary of %u",
                     hk_vocab_key(key), (long long)*out, p->t.count);
    return st;
}

/* Padding up to the rows of the embedding, and ids that had no token: neither is a piece. */
static bool is_hole(uint32_t i, const struct hk_tok_token *t)
{
    char unused[24];
    snprintf(unused, sizeof unused, "[UNUSED_%u]", i);
    return t->type == HK_TOKEN_UNUSED &&
           (hk_bytes_are(t->piece, unused) || hk_vocab_is_padding(t->piece, i));
}

/* Which tokens are pieces of the model: all but holes and those that the stored files had only
 * among the added tokens. */
static void mark_pieces(struct hk_put_tok *p)
{
    const json_t *list = p->stored ? json_object_get(p->form, "outside") : NULL, *o;
    size_t k;
    for (uint32_t i = 0; i < p->t.count; i++) {
        struct hk_tok_token *t = &p->t.token[i];
        t->added =
            t->type == HK_TOKEN_CONTROL || t->type == HK_TOKEN_USER || t->type == HK_TOKEN_UNKNOWN;
        t->in_model = !is_hole(i, t);
    }
    json_array_foreach(list, k, o)
    {
        json_int_t id = json_integer_value(o);
        if (json_is_integer(o) && id >= 0 && id < p->t.count && p->t.token[id].added)
            p->t.token[id].in_model = false;
    }
}

enum hk_status hk_put_tok_load(struct hk_put_tok *p)
{
    enum hk_status st = load_kind(p);
    if (st == HK_OK)
        st = load_pieces(p);
    if (st == HK_OK)
        st = load_id(p, HK_VOCAB_UNK, 0, &p->t.unk);
    if (st == HK_OK)
        st = load_id(p, HK_VOCAB_BOS, 1, &p->t.bos);
    if (st == HK_OK)
        st = load_id(p, HK_VOCAB_EOS, 2, &p->t.eos);
    if (st == HK_OK)
        st = load_types(p);
    if (st == HK_OK)
        st = load_scores(p);
    if (st == HK_OK)
        st = load_flags(p);
    if (st == HK_OK)
        mark_pieces(p);
    return st;
}
