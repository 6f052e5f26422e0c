/* Special ids, what is put before and behind a text, and the tokens that end a generation.
 *
 * bos, eos and the others are the tokenizer's own (tokenizer_config.json), which also fill chat
 * templates; where it names none, the model's (config.json, the first of a list). A bos or eos is
 * put around a text if tokenizer_config.json says so in add_bos_token or add_eos_token; where it
 * does not, as the post-processor of tokenizer.json has it: so does transformers. */
#include "libhkfmt/hf/tokenizer/ids.h"

#include <stdlib.h>

struct around { /* tokens put around a text, -1 for none */
    int64_t before, behind;
};

/* ---- the post-processor ---- */

static enum hk_status refuse_post_processor(const struct hk_tok *t, const char *what,
                                            const char *name)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: post_processor: %s: %s",
                   what, name);
}

/* The id that the template TP gives to its special token NAME. */
static enum hk_status read_template_id(const struct hk_tok *t, const json_t *tp, const char *name,
                                       int64_t *out)
{
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(tp, "special_tokens"), name), "ids");
    const json_t *id = json_array_get(ids, 0);
    if (*out >= 0 || json_array_size(ids) != 1)
        return refuse_post_processor(t, "more than one token on a side of the text", name);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= t->count)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "tokenizer.json: post_processor: the id of \"%s\" is not in the vocabulary",
                       name);
    *out = json_integer_value(id);
    return HK_OK;
}

static enum hk_status read_template_processing(const struct hk_tok *t, const json_t *tp,
                                               struct around *a)
{
    const json_t *single = json_object_get(tp, "single"), *part;
    bool text = false;
    size_t i;
    if (!json_is_array(single))
        return refuse_post_processor(t, "TemplateProcessing", "single is no list");
    json_array_foreach(single, i, part)
    {
        const json_t *token = json_object_get(part, "SpecialToken");
        enum hk_status st = HK_OK;
        if (token != NULL)
            st = read_template_id(t, tp, hk_json_text(token, "id"), text ? &a->behind : &a->before);
        else if (text || json_object_get(part, "Sequence") == NULL)
            st = refuse_post_processor(t, "TemplateProcessing",
                                       "single does not have the text once");
        else
            text = true;
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

static enum hk_status read_post_processor(const struct hk_tok *t, const json_t *o, struct around *a)
{
    if (hk_json_has_type(o, "TemplateProcessing"))
        return read_template_processing(t, o, a);
    if (hk_json_has_type(o, "ByteLevel")) /* moves offsets, and no ids */
        return HK_OK;
    return refuse_post_processor(t, "not known here", hk_json_text(o, "type"));
}

static enum hk_status read_post_processors(const struct hk_tok *t, struct around *a)
{
    const json_t *post = json_object_get(t->json, "post_processor"), *one;
    size_t i;
    if (t->json == NULL) /* as the classes have it that read tokenizer.model */
        a->before = t->bos;
    if (post == NULL || json_is_null(post))
        return HK_OK;
    if (!hk_json_has_type(post, "Sequence"))
        return read_post_processor(t, post, a);
    json_array_foreach(json_object_get(post, "processors"), i, one)
    {
        enum hk_status st = read_post_processor(t, one, a);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* ---- ids ---- */

/* An id of config.json or generation_config.json; -1 stands for none there, too. */
static enum hk_status check_config_id(const struct hk_tok *t, const char *name, const json_t *v,
                                      int64_t *out)
{
    if (v == NULL || json_is_null(v))
        return HK_OK;
    if (!json_is_integer(v))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "config.json: %s is no integer", name);
    json_int_t id = json_integer_value(v);
    if (id < -1 || id >= t->count)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "config.json: %s %lld is outside the vocabulary of %u", name, (long long)id,
                       t->count);
    *out = id;
    return HK_OK;
}

static enum hk_status find_special_id(const struct hk_tok *t, const struct hk_tok_name *k,
                                      int64_t *out)
{
    struct hk_bytes text = hk_tok_special_text(t, k->token);
    *out = text.p != NULL ? hk_tok_id(t, text) : -1;
    if (*out >= 0)
        return HK_OK;
    const json_t *v = json_object_get(t->config->json, k->id);
    *out = k->key == HK_VOCAB_UNK   ? t->unk
           : k->key == HK_VOCAB_BOS ? t->bos
           : k->key == HK_VOCAB_EOS ? t->eos
                                    : -1;
    return check_config_id(t, k->id, json_is_array(v) ? json_array_get(v, 0) : v, out);
}

/* bos or eos, from what the post-processor puts there and what the settings ask for. */
static enum hk_status put_token_around(struct hk_tok *t, const char *setting, enum hk_vocab_key key,
                                       enum hk_vocab_key id_key, int64_t put, int64_t *id)
{
    const json_t *asked = json_object_get(t->settings, setting);
    if (asked != NULL && !json_is_boolean(asked) && !json_is_null(asked))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "tokenizer_config.json: %s is no boolean",
                       setting);
    bool add = json_is_boolean(asked) ? json_is_true(asked) && *id >= 0 : put >= 0;
    if (!json_is_boolean(asked) && put >= 0 && *id < 0)
        *id = put;
    if (!json_is_boolean(asked) && put >= 0 && put != *id)
        return hk_fail(
            t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "tokenizer.json: post_processor puts token %lld around a text, and %s is %lld",
            (long long)put, hk_vocab_key(id_key), (long long)*id);
    hk_kvlist_bool(t->out, hk_vocab_key(key), add);
    return HK_OK;
}

/* ---- end tokens ---- */

static enum hk_status mark_config_ends(const struct hk_tok *t, const json_t *config, bool *ends)
{
    const json_t *v = json_object_get(config, "eos_token_id");
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        int64_t id = -1;
        enum hk_status st =
            check_config_id(t, "eos_token_id", json_is_array(v) ? json_array_get(v, i) : v, &id);
        if (st != HK_OK)
            return st;
        if (id >= 0)
            ends[id] = true;
    }
    return HK_OK;
}

static enum hk_status put_end_ids(const struct hk_tok *t, int64_t eos)
{
    bool *ends = calloc(t->count, sizeof *ends);
    int32_t *id = reallocarray(NULL, t->count, sizeof *id);
    enum hk_status st = HK_OK;
    uint32_t n = 0;
    if (ends == NULL || id == NULL)
        st = hk_fail_nomem(t->err);
    if (st == HK_OK)
        st = mark_config_ends(t, t->config->json, ends);
    if (st == HK_OK)
        st = mark_config_ends(t, t->config->generation, ends);
    for (uint32_t i = 0; i < t->count && st == HK_OK; i++)
        if (ends[i] || i == eos)
            id[n++] = (int32_t)i;
    if (st == HK_OK && n > 0)
        hk_kvlist_i32s(t->out, hk_vocab_key(HK_VOCAB_END_IDS), id, n);
    free(ends);
    free(id);
    return st;
}

enum hk_status hk_tok_put_ids(struct hk_tok *t)
{
    int64_t id[HK_TOK_NAMES];
    struct around a = {-1, -1};
    enum hk_status st = read_post_processors(t, &a);
    for (size_t i = 0; i < HK_TOK_NAMES && st == HK_OK; i++)
        st = find_special_id(t, &hk_tok_names[i], &id[i]);
    if (st == HK_OK)
        st = put_token_around(t, "add_bos_token", HK_VOCAB_ADD_BOS, HK_VOCAB_BOS, a.before,
                              &id[HK_TOK_BOS]);
    if (st == HK_OK)
        st = put_token_around(t, "add_eos_token", HK_VOCAB_ADD_EOS, HK_VOCAB_EOS, a.behind,
                              &id[HK_TOK_EOS]);
    if (st != HK_OK)
        return st;
    for (size_t i = 0; i < HK_TOK_NAMES; i++) {
        if (id[i] >= 0)
            hk_kvlist_int(t->out, hk_vocab_key(hk_tok_names[i].key), id[i]);
    }
    return put_end_ids(t, id[HK_TOK_EOS]);
}
