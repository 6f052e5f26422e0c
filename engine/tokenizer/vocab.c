/* The vocabulary as the file has it: pieces, types, special ids, end tokens; all ids checked. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tok.h"

static enum hk_status copy_strings(struct tok_strings *s, const struct hk_array *a,
                                   struct hk_error *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < a->count; i++)
        total += hk_array_string(a, i).n;
    if (total > UINT32_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "%s: 4 GiB of text",
                       hk_vocab_key(HK_VOCAB_TOKENS));
    s->n = a->count;
    s->p = malloc(total + 1);
    s->off = malloc(((size_t)s->n + 1) * sizeof *s->off);
    if (s->p == NULL || s->off == NULL)
        return hk_fail_nomem(err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct hk_bytes b = hk_array_string(a, i);
        s->off[i] = at;
        if (b.n > 0)
            memcpy(s->p + at, b.p, b.n);
        at += (uint32_t)b.n;
    }
    s->off[s->n] = at;
    return HK_OK;
}

static enum hk_status load_pieces(struct hke_tokenizer *t, const struct hk_file *f,
                                  struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TOKENS);
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "%s: the file has no vocabulary",
                       hk_vocab_key(HK_VOCAB_TOKENS));
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &a, err);
    if (st != HK_OK)
        return st;
    if (a.count == 0 || a.count > INT32_MAX)
        st = hk_fail(err, HK_E_RANGE, kv->offset, "%s: %u tokens", hk_vocab_key(HK_VOCAB_TOKENS),
                     a.count);
    else
        st = copy_strings(&t->piece, &a, err);
    hk_array_free(&a);
    return st;
}

/* Scores are read by the kind that uses them; here only that there is one for each token. */
static enum hk_status check_scores(const struct hke_tokenizer *t, const struct hk_file *f,
                                   struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_SCORES);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_F32, &a, err);
    if (st != HK_OK)
        return st;
    if (a.count != t->piece.n)
        st = hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u scores for %u tokens",
                     hk_vocab_key(HK_VOCAB_SCORES), a.count, t->piece.n);
    hk_array_free(&a);
    return st;
}

static enum hk_status copy_types(struct hke_tokenizer *t, const struct hk_kv *kv,
                                 const struct hk_array *a, struct hk_error *err)
{
    if (a->count != t->piece.n)
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u types for %u tokens",
                       hk_vocab_key(HK_VOCAB_TYPES), a->count, t->piece.n);
    for (uint32_t i = 0; i < a->count; i++) {
        int32_t type = hk_array_i32(a, i);
        if (type < HK_TOKEN_NORMAL || type > HK_TOKEN_BYTE)
            return hk_fail(err, HK_E_RANGE, kv->offset, "%s: type %d of token %u",
                           hk_vocab_key(HK_VOCAB_TYPES), type, i);
        t->type[i] = (uint8_t)type;
    }
    return HK_OK;
}

/* A file without types: what the spelling and the special ids tell. */
static void guess_types(struct hke_tokenizer *t)
{
    for (uint32_t i = 0; i < t->piece.n; i++) {
        bool byte = t->kind == HK_VOCAB_SPM && hk_vocab_byte(tok_string(&t->piece, i)) >= 0;
        t->type[i] = byte ? HK_TOKEN_BYTE : HK_TOKEN_NORMAL;
    }
    if (t->unk >= 0)
        t->type[t->unk] = HK_TOKEN_UNKNOWN;
    if (t->bos >= 0)
        t->type[t->bos] = HK_TOKEN_CONTROL;
    if (t->eos >= 0)
        t->type[t->eos] = HK_TOKEN_CONTROL;
}

static enum hk_status load_types(struct hke_tokenizer *t, const struct hk_file *f,
                                 struct hk_error *err)
{
    t->type = malloc(t->piece.n);
    if (t->type == NULL)
        return hk_fail_nomem(err);
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TYPES);
    if (kv == NULL) {
        guess_types(t);
        return HK_OK;
    }
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    st = copy_types(t, kv, &a, err);
    hk_array_free(&a);
    return st;
}

static enum hk_status load_id(const struct hke_tokenizer *t, const struct hk_file *f,
                              enum hk_vocab_key key, int64_t *id, struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, key);
    if (kv == NULL)
        return HK_OK;
    int64_t v;
    enum hk_status st = hk_kv_int(kv, &v, err);
    if (st != HK_OK)
        return st;
    if (v < 0 || v >= t->piece.n)
        return hk_fail(err, HK_E_RANGE, kv->offset, "%s: %lld is outside the vocabulary of %u",
                       hk_vocab_key(key), (long long)v, t->piece.n);
    *id = v;
    return HK_OK;
}

enum hk_status hke_tok_key_bool(const struct hk_file *f, enum hk_vocab_key key, bool *out,
                                struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, key);
    return kv == NULL ? HK_OK : hk_kv_bool(kv, out, err);
}

/* SentencePiece models that name no special ids use its defaults. */
static void default_ids(struct hke_tokenizer *t)
{
    bool spm = t->kind == HK_VOCAB_SPM;
    t->unk = spm ? 0 : -1;
    t->bos = spm && t->piece.n > 1 ? 1 : -1;
    t->eos = spm && t->piece.n > 2 ? 2 : -1;
}

static bool spelled_as_end(struct hk_bytes piece)
{
    static const char *const spellings[] = {
        "<|im_end|>",    "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>",
        "<end_of_turn>", "</s>",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (hk_bytes_are(piece, spellings[i]))
            return true;
    }
    return false;
}

static enum hk_status mark_listed_ends(struct hke_tokenizer *t, const struct hk_file *f,
                                       struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_END_IDS);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++) {
        int32_t id = hk_array_i32(&a, i);
        if (id < 0 || (uint32_t)id >= t->piece.n)
            st = hk_fail(err, HK_E_RANGE, kv->offset, "%s: %d is outside the vocabulary of %u",
                         hk_vocab_key(HK_VOCAB_END_IDS), id, t->piece.n);
        else
            t->ends[id] = true;
    }
    hk_array_free(&a);
    return st;
}

static enum hk_status mark_ends(struct hke_tokenizer *t, const struct hk_file *f,
                                struct hk_error *err)
{
    t->ends = calloc(t->piece.n, sizeof *t->ends);
    if (t->ends == NULL)
        return hk_fail_nomem(err);
    if (t->eos >= 0)
        t->ends[t->eos] = true;
    static const enum hk_vocab_key keys[] = {HK_VOCAB_EOT, HK_VOCAB_EOM};
    for (size_t i = 0; i < 2; i++) {
        int64_t id = -1;
        enum hk_status st = load_id(t, f, keys[i], &id, err);
        if (st != HK_OK)
            return st;
        if (id >= 0)
            t->ends[id] = true;
    }
    for (uint32_t i = 0; i < t->piece.n; i++) {
        bool special = t->type[i] == HK_TOKEN_CONTROL || t->type[i] == HK_TOKEN_USER;
        if (special && spelled_as_end(tok_string(&t->piece, i)))
            t->ends[i] = true;
    }
    return mark_listed_ends(t, f, err);
}

enum hk_status hke_tok_vocab_load(struct hke_tokenizer *t, const struct hk_file *f,
                                  struct hk_error *err)
{
    enum hk_status st = load_pieces(t, f, err);
    if (st == HK_OK)
        st = check_scores(t, f, err);
    if (st != HK_OK)
        return st;
    default_ids(t);
    if ((st = load_id(t, f, HK_VOCAB_BOS, &t->bos, err)) != HK_OK ||
        (st = load_id(t, f, HK_VOCAB_EOS, &t->eos, err)) != HK_OK ||
        (st = load_id(t, f, HK_VOCAB_UNK, &t->unk, err)) != HK_OK ||
        (st = load_types(t, f, err)) != HK_OK || (st = mark_ends(t, f, err)) != HK_OK)
        return st;
    if ((st = hke_tok_key_bool(f, HK_VOCAB_ADD_BOS, &t->add_bos, err)) != HK_OK)
        return st;
    return hke_tok_key_bool(f, HK_VOCAB_ADD_EOS, &t->add_eos, err);
}
