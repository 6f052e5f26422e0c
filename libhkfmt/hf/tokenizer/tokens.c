/* The tokens of a vocabulary by their ids: the pieces of its model, and added tokens.
 *
 * Added tokens are those of tokenizer.json, of tokenizer_config.json's added_tokens_decoder, whose
 * flags win as they do in transformers, of added_tokens.json, and those that are special by name.
 */
#include "libhkfmt/hf/tokenizer/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 27 };

const struct hk_tok_name hk_tok_names[HK_TOK_NAMES] = {
    [HK_TOK_BOS] = {"bos_token", "bos_token_id", HK_VOCAB_BOS},
    [HK_TOK_EOS] = {"eos_token", "eos_token_id", HK_VOCAB_EOS},
    [HK_TOK_UNK] = {"unk_token", "unk_token_id", HK_VOCAB_UNK},
    {"sep_token", "sep_token_id", HK_VOCAB_SEP},
    {"pad_token", "pad_token_id", HK_VOCAB_PAD},
    {"cls_token", "cls_token_id", HK_VOCAB_CLS},
    {"mask_token", "mask_token_id", HK_VOCAB_MASK},
};

void hk_tok_free(struct hk_tok *t)
{
    json_decref(t->ids);
    json_decref(t->json);
    json_decref(t->settings);
    json_decref(t->special);
    json_decref(t->extra);
    free(t->model);
    free(t->token);
}

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
static enum hk_status size_vocabulary(struct hk_tok *t)
{
    const char *piece;
    json_t *id;
    json_int_t most = -1;
    json_int_t limit = 2 * (json_int_t)json_object_size(t->ids) + (1 << 16);
    json_object_foreach(t->ids, piece, id)
    {
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v >= limit || v >= MAX_TOKENS)
            return hk_fail(
                t->err, HK_E_RANGE, HK_NO_OFFSET,
                "tokenizer.json: model.vocab: the id of \"%s\" is no integer from 0 to %lld", piece,
                (long long)limit - 1);
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
    enum hk_status st = size_vocabulary(t);
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
static bool fill_vocab_holes(struct hk_tok *t)
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

static void put_token_pieces(struct hk_tok *t, struct hk_bytes *piece)
{
    for (uint32_t i = 0; i < t->count; i++)
        piece[i] = t->token[i].piece;
    hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_TOKENS), piece, t->count);
}

static void put_token_types(struct hk_tok *t, int32_t *word)
{
    for (uint32_t i = 0; i < t->count; i++)
        word[i] = t->token[i].type;
    hk_kvlist_i32s(t->out, hk_vocab_key(HK_VOCAB_TYPES), word, t->count);
}

static void put_added_flags(struct hk_tok *t, int32_t *word)
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

static void put_token_scores(struct hk_tok *t, float *score)
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
    bool good = piece != NULL && word != NULL && score != NULL && fill_vocab_holes(t);
    if (good) {
        put_token_pieces(t, piece);
        if (t->spm)
            put_token_scores(t, score);
        put_token_types(t, word);
        put_added_flags(t, word);
    }
    free(piece);
    free(word);
    free(score);
    return good ? HK_OK : hk_fail_nomem(t->err);
}

/* ---- added tokens ---- */

/* What one source says of a token. */
struct added {
    const char *source;
    struct hk_bytes text;
    json_int_t id;
    unsigned flags;
    bool special;
};

/* The special token that NAME ("bos_token") holds in O: a string, or an object with its content. */
static struct hk_bytes find_named_text(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? hk_json_string_bytes(v) : (struct hk_bytes){0};
}

struct hk_bytes hk_tok_special_text(const struct hk_tok *t, const char *name)
{
    if (json_object_get(t->settings, name) != NULL)
        return find_named_text(t->settings, name);
    return find_named_text(t->special, name);
}

static bool is_unknown_token(const struct hk_tok *t, struct hk_bytes text)
{
    return t->unk >= 0 && hk_tok_id(t, text) == t->unk;
}

/* Whether id and text of A belong together and are free or its own. */
static enum hk_status check_added_token(const struct hk_tok *t, const struct added *a)
{
    json_int_t limit = 2 * (json_int_t)json_object_size(t->ids) + (1 << 16);
    if (a->id < 0 || a->id >= limit)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "%s: the id of \"%.*s\" is no integer from 0 to %lld", a->source,
                       HK_STR(a->text), (long long)limit - 1);
    int64_t id = hk_tok_id(t, a->text);
    if (id >= 0 && id != a->id)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s: \"%.*s\" has the id %lld, elsewhere %lld", a->source, HK_STR(a->text),
                       (long long)a->id, (long long)id);
    if (id < 0 && a->id < t->count && t->token[a->id].piece.p != NULL)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s: \"%.*s\" has the id %lld, which is that of \"%.*s\"", a->source,
                       HK_STR(a->text), (long long)a->id, HK_STR(t->token[a->id].piece));
    return HK_OK;
}

/* The token's text must outlive T->token: it lies in one of the parsed files. */
static enum hk_status apply_added(struct hk_tok *t, const struct added *a)
{
    enum hk_status st = check_added_token(t, a);
    if (st == HK_OK)
        st = hk_tok_make_room(t, (uint32_t)a->id + 1);
    if (st != HK_OK)
        return st;
    struct hk_tok_token *token = &t->token[a->id];
    if (token->piece.p == NULL) {
        token->piece = a->text;
        if (json_object_setn_new(t->ids, (const char *)a->text.p, a->text.n, json_integer(a->id)) !=
            0)
            return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "%s: the token \"%.*s\" cannot be kept", a->source, HK_STR(a->text));
    }
    token->added = true;
    token->flags = (uint8_t)a->flags;
    token->type = a->special ? HK_TOKEN_CONTROL : HK_TOKEN_USER;
    if (is_unknown_token(t, a->text))
        token->type = HK_TOKEN_UNKNOWN;
    return HK_OK;
}

static enum hk_status read_added_flag(const struct hk_tok *t, const struct added *a,
                                      const json_t *o, const char *name, unsigned flag,
                                      unsigned *out)
{
    const json_t *v = json_object_get(o, name);
    if (v != NULL && !json_is_boolean(v))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "%s: %s of \"%.*s\" is no boolean",
                       a->source, name, HK_STR(a->text));
    if (json_is_true(v))
        *out |= flag;
    return HK_OK;
}

/* Fill A, whose id is known, from O and apply it. */
static enum hk_status apply_added_object(struct hk_tok *t, struct added *a, const json_t *o)
{
    static const char *const names[] = {"lstrip", "rstrip", "normalized", "single_word"};
    const json_t *content = json_object_get(o, "content");
    if (!json_is_string(content))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s: an added token has no content that is a string", a->source);
    unsigned special = 0;
    a->text = hk_json_string_bytes(content);
    enum hk_status st = read_added_flag(t, a, o, "special", 1, &special);
    a->special = special != 0;
    for (unsigned i = 0; i < 4 && st == HK_OK; i++)
        st = read_added_flag(t, a, o, names[i], 1u << i, &a->flags);
    /* What AddedToken takes for a token that does not say. */
    if (json_object_get(o, "normalized") == NULL && !a->special)
        a->flags |= HK_ADDED_NORMALIZED;
    return st == HK_OK ? apply_added(t, a) : st;
}

static enum hk_status read_added_list(struct hk_tok *t)
{
    const json_t *list = json_object_get(t->json, "added_tokens"), *o;
    size_t i;
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer.json: added_tokens is no list");
    json_array_foreach(list, i, o)
    {
        const json_t *id = json_object_get(o, "id");
        struct added a = {.source = "tokenizer.json",
                          .id = json_is_integer(id) ? json_integer_value(id) : -1};
        enum hk_status st = apply_added_object(t, &a, o);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* An id that is the key of an object; -1 if it is none. */
static json_int_t parse_id_key(const char *key)
{
    json_int_t id = 0;
    if (key[0] == '\0' || strlen(key) > 9 || key[strspn(key, "0123456789")] != '\0')
        return -1;
    for (; *key != '\0'; key++)
        id = id * 10 + (*key - '0');
    return id;
}

static enum hk_status read_added_decoder(struct hk_tok *t, json_t *decoder)
{
    const char *key;
    json_t *o;
    if (!json_is_object(decoder))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer_config.json: added_tokens_decoder is no object");
    json_object_foreach(decoder, key, o)
    {
        struct added a = {.source = "tokenizer_config.json", .id = parse_id_key(key)};
        enum hk_status st = apply_added_object(t, &a, o);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* Ordinary added tokens of older directories; T->extra keeps their texts. */
static enum hk_status read_added_file(struct hk_tok *t)
{
    enum hk_status st =
        t->kept ? HK_OK : hk_tok_read_json(t->dir, "added_tokens.json", &t->extra, t->err);
    const char *text;
    size_t n;
    json_t *id;
    if (st != HK_OK || t->extra == NULL)
        return st;
    json_object_keylen_foreach(t->extra, text, n, id)
    {
        struct added a = {.source = "added_tokens.json",
                          .text = {(const uint8_t *)text, n},
                          .id = json_is_integer(id) ? json_integer_value(id) : -1,
                          .flags = HK_ADDED_NORMALIZED};
        bool known = a.id >= 0 && a.id < t->count && t->token[a.id].added;
        st = known ? check_added_token(t, &a) : apply_added(t, &a);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* A token that is special because a setting NAMEs it. */
static enum hk_status make_special_token(struct hk_tok *t, const char *name, struct hk_bytes text)
{
    if (text.p == NULL)
        return HK_OK;
    int64_t id = hk_tok_id(t, text);
    if (id < 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer_config.json: %s \"%.*s\" is not in the vocabulary", name,
                       HK_STR(text));
    struct hk_tok_token *token = &t->token[id];
    if (!token->added)
        token->flags = 0;
    token->added = true;
    token->type = is_unknown_token(t, text) ? HK_TOKEN_UNKNOWN : HK_TOKEN_CONTROL;
    return HK_OK;
}

static enum hk_status mark_named_special(struct hk_tok *t)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < HK_TOK_NAMES && st == HK_OK; i++)
        st = make_special_token(t, hk_tok_names[i].token,
                                hk_tok_special_text(t, hk_tok_names[i].token));
    const char *more = "additional_special_tokens";
    const json_t *list = json_object_get(t->settings, more), *o;
    if (list == NULL)
        list = json_object_get(t->special, more);
    size_t i;
    json_array_foreach(list, i, o)
    {
        if (json_is_object(o))
            o = json_object_get(o, "content");
        if (st == HK_OK && json_is_string(o))
            st = make_special_token(t, more, hk_json_string_bytes(o));
    }
    return st;
}

enum hk_status hk_tok_read_added(struct hk_tok *t)
{
    json_t *decoder = json_object_get(t->settings, "added_tokens_decoder");
    enum hk_status st = read_added_list(t);
    if (st == HK_OK)
        st = decoder != NULL ? read_added_decoder(t, decoder) : read_added_file(t);
    return st == HK_OK ? mark_named_special(t) : st;
}
