/* Stored files beside the keys: they are read as if they came from a directory, and what then
 * differs was changed since. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/foreign/hf_put_tok.h"
#include "libhkfmt/foreign/hf_write.h"

static const struct {
    const char *key;
    unsigned part;
} keys[] = {
    {"tokenizer.ggml.tokens", HK_PUT_ADDED},
    {"tokenizer.ggml.token_type", HK_PUT_ADDED},
    {"tokenizer.hk.added_flags", HK_PUT_ADDED},
    {"tokenizer.hk.pre_regex", HK_PUT_SPLIT},
    {"tokenizer.hk.normalizer", HK_PUT_SPLIT},
    {"tokenizer.ggml.add_space_prefix", HK_PUT_SPLIT},
    {"tokenizer.hk.space_prefix", HK_PUT_SPLIT},
    {"tokenizer.ggml.bos_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.eos_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.unknown_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.seperator_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.padding_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.cls_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.mask_token_id", HK_PUT_AROUND},
    {"tokenizer.ggml.add_bos_token", HK_PUT_AROUND},
    {"tokenizer.ggml.add_eos_token", HK_PUT_AROUND},
    {"tokenizer.ggml.ignore_merges", HK_PUT_MODEL},
};

static bool same(const struct hk_kv *a, const struct hk_kv *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->type == b->type && a->value.n == b->value.n &&
           (a->value.n == 0 || memcmp(a->value.p, b->value.p, a->value.n) == 0);
}

/* The keys of P's JSON files as they now are. */
static enum hk_status read_again(const struct hk_put_tok *p, struct hk_kvlist *out,
                                 struct hk_error *err)
{
    struct hk_hf_config config = {0};
    struct hk_bytes text;
    enum hk_status s = hk_hf_told_json(p->f, "hk.hf.config", &text, &config.json, err);
    if (s == HK_OK)
        s = hk_hf_told_json(p->f, "hk.hf.generation_config", &text, &config.generation, err);
    struct hk_tok t = {
        .dir = "", .config = &config, .out = out, .err = err, .unk = -1, .bos = -1, .eos = -1};
    t.json = json_incref(p->t.json);
    t.settings = json_incref(p->t.settings);
    t.special = json_incref(p->t.special);
    t.kept = true;
    if (s == HK_OK)
        s = hk_tok_put_keys(&t);
    hk_tok_free(&t);
    json_decref(config.json);
    json_decref(config.generation);
    return s;
}

enum hk_status hk_put_tok_compare(const struct hk_put_tok *p, unsigned *parts, struct hk_error *why)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    *parts = 0;
    enum hk_status s = read_again(p, &list, why);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && s == HK_OK; i++) {
        if (same(hk_kvlist_find(&list, keys[i].key), hk_kv_find(p->f, keys[i].key)))
            continue;
        *parts |= keys[i].part;
        (void)hk_fail(why, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                      "%s: its value cannot be told in tokenizer.json", keys[i].key);
    }
    if (s == HK_OK && list.status != HK_OK)
        s = list.status;
    if (s != HK_OK && s != HK_E_NOMEM) /* the stored files no longer fit the keys at all */
        *parts = HK_PUT_ALL;
    hk_kvlist_free(&list);
    hk_arena_free(&arena);
    return s == HK_E_NOMEM ? hk_fail_nomem(p->t.err) : HK_OK;
}
