/* Stored files beside the keys: they are read as if they came from a directory, and what then
 * differs was changed since. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/export.h"
#include "libhkfmt/hf/tokenizer/export.h"

static const struct {
    enum hk_vocab_key key;
    unsigned part;
    bool by_token; /* has an element for each token */
} keys[] = {
    {HK_VOCAB_TOKENS, HK_PUT_ADDED, true},         {HK_VOCAB_TYPES, HK_PUT_ADDED, true},
    {HK_VOCAB_ADDED_FLAGS, HK_PUT_ADDED, false},   {HK_VOCAB_SPLITS, HK_PUT_SPLIT, false},
    {HK_VOCAB_NORMALIZER, HK_PUT_SPLIT, false},    {HK_VOCAB_ADD_SPACE_PREFIX, HK_PUT_SPLIT, false},
    {HK_VOCAB_PREFIX_SCHEME, HK_PUT_SPLIT, false}, {HK_VOCAB_BOS, HK_PUT_AROUND, false},
    {HK_VOCAB_EOS, HK_PUT_AROUND, false},          {HK_VOCAB_UNK, HK_PUT_AROUND, false},
    {HK_VOCAB_SEP, HK_PUT_AROUND, false},          {HK_VOCAB_PAD, HK_PUT_AROUND, false},
    {HK_VOCAB_CLS, HK_PUT_AROUND, false},          {HK_VOCAB_MASK, HK_PUT_AROUND, false},
    {HK_VOCAB_ADD_BOS, HK_PUT_AROUND, false},      {HK_VOCAB_ADD_EOS, HK_PUT_AROUND, false},
    {HK_VOCAB_IGNORE_MERGES, HK_PUT_MODEL, false},
};

static bool same(const struct hk_kv *a, const struct hk_kv *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->type == b->type && a->value.n == b->value.n &&
           (a->value.n == 0 || memcmp(a->value.p, b->value.p, a->value.n) == 0);
}

/* The tokens before the padding up to the rows of the embedding, of which no file says anything. */
static uint32_t told_tokens(const struct hk_put_tok *p)
{
    uint32_t n = p->t.count;
    while (n > 0 && !p->t.token[n - 1].in_model && !p->t.token[n - 1].added)
        n--;
    return n;
}

static bool same_element(const struct hk_array *a, const struct hk_array *b, uint32_t i)
{
    if (a->kind == HK_ARRAY_I32)
        return hk_array_i32(a, i) == hk_array_i32(b, i);
    const struct hk_bytes x = hk_array_string(a, i), y = hk_array_string(b, i);
    return x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
}

/* Whether A, tokens or their types as the files tell them, is B without its padding. */
static bool same_unpadded(const struct hk_put_tok *p, const struct hk_kv *a, const struct hk_kv *b)
{
    struct hk_array x, y;
    const uint32_t n = told_tokens(p);
    if (a == NULL || b == NULL || a->type != HK_META_BYTES || b->type != HK_META_BYTES ||
        !hk_array_from_blob(a->value, &x) || !hk_array_from_blob(b->value, &y) ||
        x.kind != y.kind || x.kind == HK_ARRAY_F32 || x.count != n || y.count != p->t.count)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!same_element(&x, &y, i))
            return false;
    return true;
}

/* The keys of P's JSON files as they now are. */
static enum hk_status read_again(const struct hk_put_tok *p, struct hk_kvlist *out,
                                 struct hk_error *err)
{
    struct hk_hf_config config = {0};
    struct hk_bytes text;
    enum hk_status st =
        hk_hf_stored_json(p->f, hk_key_text("", HK_KEY_CONFIG).s, &text, &config.json, err);
    if (st == HK_OK)
        st = hk_hf_stored_json(p->f, hk_key_text("", HK_KEY_GENERATION_CONFIG).s, &text,
                               &config.generation, err);
    struct hk_tok t = {
        .dir = "", .config = &config, .out = out, .err = err, .unk = -1, .bos = -1, .eos = -1};
    t.json = json_incref(p->t.json);
    t.settings = json_incref(p->t.settings);
    t.special = json_incref(p->t.special);
    t.kept = true;
    if (st == HK_OK)
        st = hk_tok_put_keys(&t);
    hk_tok_free(&t);
    json_decref(config.json);
    json_decref(config.generation);
    return st;
}

enum hk_status hk_put_tok_compare(const struct hk_put_tok *p, unsigned *parts, struct hk_error *why)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    *parts = 0;
    enum hk_status st = read_again(p, &list, why);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && st == HK_OK; i++) {
        const struct hk_kv *told = hk_kvlist_find(&list, hk_vocab_key(keys[i].key)),
                           *kept = hk_vocab_find(p->f, keys[i].key);
        if (same(told, kept) || (keys[i].by_token && same_unpadded(p, told, kept)))
            continue;
        *parts |= keys[i].part;
        (void)hk_fail(why, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                      "%s: its value cannot be told in tokenizer.json", hk_vocab_key(keys[i].key));
    }
    if (st == HK_OK && list.status != HK_OK)
        st = list.status;
    if (st != HK_OK && st != HK_E_NOMEM) /* the stored files no longer fit the keys at all */
        *parts = HK_PUT_ALL;
    hk_kvlist_free(&list);
    hk_arena_free(&arena);
    return st == HK_E_NOMEM ? hk_fail_nomem(p->t.err) : HK_OK;
}
