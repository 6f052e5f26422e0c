/* Byte-level BPE vocabularies: what the engine does of the model's settings, and the merges. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

static enum hk_status unsupported(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: %s", what);
}

static bool is_empty(const json_t *model, const char *key)
{
    const json_t *v = json_object_get(model, key);
    return v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0);
}

/* A boolean of the model, false where there is none. */
static enum hk_status read_bool(const struct hk_tok *t, const json_t *model, const char *key,
                                bool *out)
{
    const json_t *v = json_object_get(model, key);
    if (v != NULL && !json_is_boolean(v) && !json_is_null(v))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "tokenizer.json: model.%s is no boolean",
                       key);
    *out = json_is_true(v);
    return HK_OK;
}

enum hk_status hk_tok_check_bpe(struct hk_tok *t)
{
    const json_t *model = json_object_get(t->json, "model");
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return unsupported(t, "model.dropout: merging at random");
    if (!is_empty(model, "continuing_subword_prefix"))
        return unsupported(t, "model.continuing_subword_prefix");
    if (!is_empty(model, "end_of_word_suffix"))
        return unsupported(t, "model.end_of_word_suffix");
    return read_bool(t, model, "ignore_merges", &t->ignore_merges);
}

bool hk_tok_has_bytes(const struct hk_tok *t)
{
    return json_is_true(json_object_get(json_object_get(t->json, "model"), "byte_fallback"));
}

enum hk_status hk_tok_read_bpe(struct hk_tok *t)
{
    struct hk_tok_merges m = {0};
    hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_MODEL), hk_vocab_kind_name(HK_VOCAB_BPE));
    enum hk_status st = hk_tok_put_pre(t);
    if (st == HK_OK)
        st = hk_tok_check_decoder(t);
    if (st == HK_OK)
        st = hk_tok_read_merges(t, &m);
    if (st == HK_OK)
        st = hk_tok_read_added(t);
    if (st == HK_OK)
        st = hk_tok_put_vocab(t);
    if (st == HK_OK)
        st = hk_tok_put_merges(t, HK_VOCAB_MERGES, &m);
    if (st == HK_OK)
        hk_kvlist_bool(t->out, hk_vocab_key(HK_VOCAB_IGNORE_MERGES), t->ignore_merges);
    free(m.merge);
    return st;
}
