/* The tokenizer of a model directory as keys. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/foreign/hf_tok.h"

/* tokenizer.json as it was but for the vocabulary, which has keys of its own. */
static enum hk_status keep_json(const struct hk_tok *t)
{
    json_t *model = json_object_get(t->json, "model");
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    return hk_tok_put_json(t, "hk.hf.tokenizer", t->json);
}

static enum hk_status keep_settings(const struct hk_tok *t)
{
    json_object_del(t->settings, "chat_template");
    enum hk_status s = hk_tok_put_json(t, "hk.hf.tokenizer_config", t->settings);
    if (s == HK_OK && t->special != NULL)
        s = hk_tok_put_json(t, "hk.hf.special_tokens_map", t->special);
    return s;
}

/* Byte-level vocabularies split and map a text by the pre-tokenizer, the others have byte tokens.
 */
static enum hk_status read_json_kind(struct hk_tok *t)
{
    const json_t *model = json_object_get(t->json, "model");
    bool bpe = hk_tok_is(model, "BPE") ||
               (json_object_get(model, "type") == NULL && json_object_get(model, "merges") != NULL);
    if (!bpe)
        return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tokenizer.json: a model of type %s is not supported",
                       hk_tok_text(model, "type"));
    enum hk_status s = hk_tok_check_bpe(t);
    if (s == HK_OK)
        s = hk_tok_read_vocab(t);
    t->spm = hk_tok_has_bytes(t);
    if (s != HK_OK)
        return s;
    return t->spm ? hk_tok_read_spm(t) : hk_tok_read_bpe(t);
}

static enum hk_status read_files(struct hk_tok *t)
{
    enum hk_status s = hk_tok_json(t, "tokenizer.json", &t->json);
    if (s == HK_OK)
        s = hk_tok_json(t, "tokenizer_config.json", &t->settings);
    if (s == HK_OK)
        s = hk_tok_json(t, "special_tokens_map.json", &t->special);
    if (s == HK_OK)
        s = hk_hf_read(t->dir, "tokenizer.model", HK_TOK_FILE, &t->model, &t->model_size, t->err);
    return s;
}

static enum hk_status read_all(struct hk_tok *t)
{
    enum hk_status s = read_files(t);
    if (s != HK_OK || (t->json == NULL && t->model == NULL))
        return s;
    if (t->json != NULL)
        s = read_json_kind(t);
    if (s == HK_OK)
        s = hk_tok_put_ids(t);
    if (s == HK_OK)
        s = hk_tok_put_templates(t);
    if (s == HK_OK && t->json != NULL)
        s = keep_json(t);
    if (s == HK_OK && t->settings != NULL)
        s = keep_settings(t);
    return s;
}

enum hk_status hk_hf_read_tokenizer(const char *dir, const struct hk_hf_config *c,
                                    struct hk_kvlist *out, struct hk_error *err)
{
    struct hk_tok t = {.dir = dir, .config = c, .out = out, .err = err};
    enum hk_status s = read_all(&t);
    json_decref(t.ids);
    json_decref(t.json);
    json_decref(t.settings);
    json_decref(t.special);
    json_decref(t.extra);
    free(t.model);
    free(t.token);
    return s;
}
