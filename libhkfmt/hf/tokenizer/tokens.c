/* The pieces of a vocabulary by their ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

enum { MOST_TOKENS = 1 << 27 };

const struct hk_tok_name hk_tok_names[HK_TOK_NAMES] = {
    [HK_TOK_BOS] = {"bos_token", "bos_token_id", HK_VOCAB_BOS},
    [HK_TOK_EOS] = {"eos_token", "eos_token_id", HK_VOCAB_EOS},
    [HK_TOK_UNK] = {"unk_token", "unk_token_id", HK_VOCAB_UNK},
    {"sep_token", "sep_token_id", HK_VOCAB_SEP},
    {"pad_token", "pad_token_id", HK_VOCAB_PAD},
    {"cls_token", "cls_token_id", HK_VOCAB_CLS},
    {"mask_token", "mask_token_id", HK_VOCAB_MASK},
};

enum hk_status hk_tok_make_room(struct hk_tok *t, uint32_t count)
{
    if (count <= t->count)
        return HK_OK;
    struct hk_tok_token *token = reallocarray(t->token, count, sizeof *token);
    if (token == NULL)
        return hk_fail_nomem(t->err);
    memset(token + t->count, 0, (count - t->count) * sizeof *token);
    t->token = token;
    t->count = count;
    return HK_OK;
}

int64_t hk_tok_id(const struct hk_tok *t, struct hk_bytes piece)
{
    json_t *id = json_object_getn(t->ids, (const char *)piece.p, piece.n);
    return id != NULL ? json_integer_value(id) : -1;
}

/* The tokens up to the largest id of model.vocab. Ids may have holes, but not so large ones that a
 * small file asks for much memory. */
static enum hk_status size_vocab(struct hk_tok *t)
{
    const char *piece;
    json_t *id;
    json_int_t most = -1;
    json_int_t limit = 2 * (json_int_t)json_object_size(t->ids) + (1 << 16);
    json_object_foreach(t->ids, piece, id)
    {
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v >= limit || v >= MOST_TOKENS)
            return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                           "tokenizer.json: model.vocab: the id of \"%s\" is no integer from 0 to "
                           "%lld",
                           piece, (long long)limit - 1);
        most = v > most ? v : most;
    }
    return hk_tok_make_room(t, (uint32_t)(most + 1));
}

enum hk_status hk_tok_read_vocab(struct hk_tok *t)
{
    json_t *vocab = json_object_get(json_object_get(t->json, "model"), "vocab");
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer.json: model.vocab is no object with pieces");
    t->ids = json_copy(vocab); /* added tokens come to it */
    if (t->ids == NULL)
        return hk_fail_nomem(t->err);
    enum hk_status st = size_vocab(t);
    const char *piece;
    size_t n;
    json_t *id;
    json_object_keylen_foreach(t->ids, piece, n, id)
    {
        if (st != HK_OK)
            return st;
        struct hk_tok_token *token = &t->token[json_integer_value(id)];
        if (token->piece.p != NULL)
            return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tokenizer.json: model.vocab: \"%.*s\" and \"%s\" have the same id",
                           HK_STR(token->piece), piece);
        token->piece = (struct hk_bytes){(const uint8_t *)piece, n};
        token->type = HK_TOKEN_NORMAL;
        token->in_model = true;
    }
    return st;
}

/* Ids without a token get one that no text becomes. */
static bool fill_holes(struct hk_tok *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->token[i].piece.p != NULL)
            continue;
        char *name = hk_arena_alloc(t->out->arena, 24);
        if (name == NULL)
            return false;
        int n = snprintf(name, 24, "[UNUSED_%u]", i);
        t->token[i].piece = (struct hk_bytes){(const uint8_t *)name, (size_t)n};
        t->token[i].type = HK_TOKEN_UNUSED;
    }
    return true;
}

static void put_pieces(struct hk_tok *t, struct hk_bytes *piece)
{
    for (uint32_t i = 0; i < t->count; i++)
        piece[i] = t->token[i].piece;
    hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_TOKENS), piece, t->count);
}

static void put_types(struct hk_tok *t, int32_t *word)
{
    for (uint32_t i = 0; i < t->count; i++)
        word[i] = t->token[i].type;
    hk_kvlist_i32s(t->out, hk_vocab_key(HK_VOCAB_TYPES), word, t->count);
}

static void put_flags(struct hk_tok *t, int32_t *word)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->token[i].added && t->token[i].flags != 0) {
            word[n++] = (int32_t)i;
            word[n++] = t->token[i].flags;
        }
    }
    if (n > 0)
        hk_kvlist_i32s(t->out, hk_vocab_key(HK_VOCAB_ADDED_FLAGS), word, n);
}

static void put_scores(struct hk_tok *t, float *score)
{
    for (uint32_t i = 0; i < t->count; i++)
        score[i] = t->token[i].score;
    hk_kvlist_f32s(t->out, hk_vocab_key(HK_VOCAB_SCORES), score, t->count);
}

enum hk_status hk_tok_put_vocab(struct hk_tok *t)
{
    if (t->count == 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "the tokenizer has no tokens");
    struct hk_bytes *piece = reallocarray(NULL, t->count, sizeof *piece);
    int32_t *word = reallocarray(NULL, t->count, 2 * sizeof *word);
    float *score = reallocarray(NULL, t->count, sizeof *score);
    bool good = piece != NULL && word != NULL && score != NULL && fill_holes(t);
    if (good) {
        put_pieces(t, piece);
        if (t->spm)
            put_scores(t, score);
        put_types(t, word);
        put_flags(t, word);
    }
    free(piece);
    free(word);
    free(score);
    return good ? HK_OK : hk_fail_nomem(t->err);
}
