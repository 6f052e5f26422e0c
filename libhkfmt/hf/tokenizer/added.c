/* Added tokens: those of tokenizer.json, of tokenizer_config.json's added_tokens_decoder, whose
 * flags win as they do in transformers, of added_tokens.json, and those that are special by name.
 */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

/* What one source says of a token. */
struct added {
    const char *source;
    struct hk_bytes text;
    json_int_t id;
    unsigned flags;
    bool special;
};

/* The special token that NAME ("bos_token") holds in O: a string, or an object with its content. */
static struct hk_bytes named(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? hk_tok_string(v) : (struct hk_bytes){0};
}

struct hk_bytes hk_tok_special(const struct hk_tok *t, const char *name)
{
    if (json_object_get(t->settings, name) != NULL)
        return named(t->settings, name);
    return named(t->special, name);
}

static bool is_unknown(const struct hk_tok *t, struct hk_bytes text)
{
    return t->unk >= 0 && hk_tok_id(t, text) == t->unk;
}

/* Whether id and text of A belong together and are free or its own. */
static enum hk_status check_added(const struct hk_tok *t, const struct added *a)
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
static enum hk_status apply(struct hk_tok *t, const struct added *a)
{
    enum hk_status st = check_added(t, a);
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
    if (is_unknown(t, a->text))
        token->type = HK_TOKEN_UNKNOWN;
    return HK_OK;
}

static enum hk_status read_flag(const struct hk_tok *t, const struct added *a, const json_t *o,
                                const char *name, unsigned flag, unsigned *out)
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
static enum hk_status apply_object(struct hk_tok *t, struct added *a, const json_t *o)
{
    static const char *const names[] = {"lstrip", "rstrip", "normalized", "single_word"};
    const json_t *content = json_object_get(o, "content");
    if (!json_is_string(content))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s: an added token has no content that is a string", a->source);
    unsigned special = 0;
    a->text = hk_tok_string(content);
    enum hk_status st = read_flag(t, a, o, "special", 1, &special);
    a->special = special != 0;
    for (unsigned i = 0; i < 4 && st == HK_OK; i++)
        st = read_flag(t, a, o, names[i], 1u << i, &a->flags);
    /* What AddedToken takes for a token that does not say. */
    if (json_object_get(o, "normalized") == NULL && !a->special)
        a->flags |= HK_ADDED_NORMALIZED;
    return st == HK_OK ? apply(t, a) : st;
}

static enum hk_status from_tokenizer(struct hk_tok *t)
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
        enum hk_status st = apply_object(t, &a, o);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* An id that is the key of an object; -1 if it is none. */
static json_int_t key_id(const char *key)
{
    json_int_t id = 0;
    if (key[0] == '\0' || strlen(key) > 9 || key[strspn(key, "0123456789")] != '\0')
        return -1;
    for (; *key != '\0'; key++)
        id = id * 10 + (*key - '0');
    return id;
}

static enum hk_status from_settings(struct hk_tok *t, json_t *decoder)
{
    const char *key;
    json_t *o;
    if (!json_is_object(decoder))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer_config.json: added_tokens_decoder is no object");
    json_object_foreach(decoder, key, o)
    {
        struct added a = {.source = "tokenizer_config.json", .id = key_id(key)};
        enum hk_status st = apply_object(t, &a, o);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* Ordinary added tokens of older directories; T->extra keeps their texts. */
static enum hk_status from_list(struct hk_tok *t)
{
    enum hk_status st = t->kept ? HK_OK : hk_tok_json(t, "added_tokens.json", &t->extra);
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
        st = known ? check_added(t, &a) : apply(t, &a);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* A token that is special because a setting NAMEs it. */
static enum hk_status make_special(struct hk_tok *t, const char *name, struct hk_bytes text)
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
    token->type = is_unknown(t, text) ? HK_TOKEN_UNKNOWN : HK_TOKEN_CONTROL;
    return HK_OK;
}

static enum hk_status from_names(struct hk_tok *t)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < HK_TOK_NAMES && st == HK_OK; i++)
        st = make_special(t, hk_tok_names[i].token, hk_tok_special(t, hk_tok_names[i].token));
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
            st = make_special(t, more, hk_tok_string(o));
    }
    return st;
}

enum hk_status hk_tok_read_added(struct hk_tok *t)
{
    json_t *decoder = json_object_get(t->settings, "added_tokens_decoder");
    enum hk_status st = from_tokenizer(t);
    if (st == HK_OK)
        st = decoder != NULL ? from_settings(t, decoder) : from_list(t);
    return st == HK_OK ? from_names(t) : st;
}
