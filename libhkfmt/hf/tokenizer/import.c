/* The tokenizer of a model directory as keys. */
#include "libhkfmt/hf/tokenizer/import.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/byte_level.h"
#include "libhkfmt/hf/tokenizer/ids.h"
#include "libhkfmt/hf/tokenizer/sentencepiece.h"
#include "libhkfmt/hf/tokenizer/templates.h"
#include "libhkfmt/hf/tokenizer/tokenizer.h"

static enum hk_status store_json(const struct hk_tok *t, enum hk_vocab_key key, const json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT);
    if (text == NULL)
        return hk_fail_nomem(t->err);
    hk_kvlist_json(t->out, hk_vocab_key(key),
                   (struct hk_bytes){(const uint8_t *)text, strlen(text)});
    free(text);
    return HK_OK;
}

/* tokenizer.json as it was but for the vocabulary, which has keys of its own. */
static enum hk_status store_tokenizer_json(const struct hk_tok *t)
{
    json_t *model = json_object_get(t->json, "model");
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    return store_json(t, HK_VOCAB_STORED_JSON, t->json);
}

/* What the keys leave out of how the files said it: "outside" are tokens that model.vocab does
 * not have. */
static enum hk_status store_form(const struct hk_tok *t)
{
    json_t *form = json_pack("{s:b, s:[]}", "pairs", t->pairs, "outside"),
           *outside = json_object_get(form, "outside");
    bool good = form != NULL;
    if (t->templates != NULL)
        good &= json_object_set_new(form, "template", json_string(t->templates)) == 0;
    if (t->spm && t->model != NULL)
        good &= json_object_set_new(form, "scores", json_string("tokenizer.model")) == 0;
    for (uint32_t i = 0; i < t->count && good; i++)
        if (t->token[i].added && !t->token[i].in_model)
            good = json_array_append_new(outside, json_integer(i)) == 0;
    enum hk_status st = good ? store_json(t, HK_VOCAB_STORED_FORM, form) : hk_fail_nomem(t->err);
    json_decref(form);
    return st;
}

static enum hk_status store_settings(const struct hk_tok *t)
{
    if (t->templates != NULL && strcmp(t->templates, "tokenizer_config.json") == 0)
        json_object_del(t->settings, "chat_template");
    return store_json(t, HK_VOCAB_STORED_SETTINGS, t->settings);
}

static enum hk_status store_files(const struct hk_tok *t)
{
    enum hk_status st = store_form(t);
    if (st == HK_OK && t->json != NULL)
        st = store_tokenizer_json(t);
    if (st == HK_OK && t->settings != NULL)
        st = store_settings(t);
    if (st == HK_OK && t->special != NULL)
        st = store_json(t, HK_VOCAB_STORED_SPECIAL, t->special);
    return st;
}

/* Byte-level vocabularies split and map a text by the pre-tokenizer, the others have byte tokens.
 */
static enum hk_status read_json_tokenizer(struct hk_tok *t)
{
    const json_t *model = json_object_get(t->json, "model");
    bool bpe = hk_json_has_type(model, "BPE") ||
               (json_object_get(model, "type") == NULL && json_object_get(model, "merges") != NULL);
    if (!bpe)
        return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tokenizer.json: a model of type %s is not supported",
                       hk_json_text(model, "type"));
    enum hk_status st = hk_tok_check_bpe(t);
    if (st == HK_OK)
        st = hk_tok_read_vocab(t);
    if (st != HK_OK)
        return st;
    t->spm = json_is_true(json_object_get(model, "byte_fallback"));
    const json_t *unknown = json_object_get(model, "unk_token");
    if (json_is_string(unknown))
        t->unk = hk_tok_id(t, hk_json_string_bytes(unknown));
    return t->spm ? hk_tok_read_spm(t) : hk_tok_read_bpe(t);
}

static enum hk_status read_tokenizer_files(struct hk_tok *t)
{
    enum hk_status st = hk_tok_read_json(t->dir, "tokenizer.json", &t->json, t->err);
    if (st == HK_OK)
        st = hk_tok_read_json(t->dir, "tokenizer_config.json", &t->settings, t->err);
    if (st == HK_OK)
        st = hk_tok_read_json(t->dir, "special_tokens_map.json", &t->special, t->err);
    if (st == HK_OK)
        st = hk_hf_read(t->dir, "tokenizer.model", HK_TOK_FILE, &t->model, &t->model_size, t->err);
    return st;
}

enum hk_status hk_tok_put_keys(struct hk_tok *t)
{
    t->spm = t->json == NULL;
    enum hk_status st = t->spm ? hk_tok_read_spm_file(t) : read_json_tokenizer(t);
    return st == HK_OK ? hk_tok_put_ids(t) : st;
}

static enum hk_status import_files(struct hk_tok *t)
{
    enum hk_status st = read_tokenizer_files(t);
    if (st != HK_OK || (t->json == NULL && t->model == NULL))
        return st;
    st = hk_tok_put_keys(t);
    if (st == HK_OK)
        st = hk_tok_put_templates(t);
    return st == HK_OK ? store_files(t) : st;
}

enum hk_status hk_hf_import_tokenizer(const char *dir, const struct hk_hf_config *c,
                                      struct hk_kvlist *out, struct hk_error *err)
{
    struct hk_tok t = {
        .dir = dir, .config = c, .out = out, .err = err, .unk = -1, .bos = -1, .eos = -1};
    enum hk_status st = import_files(&t);
    hk_tok_free(&t);
    return st;
}
