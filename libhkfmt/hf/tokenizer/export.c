/* The tokenizer's files of a directory to be written. Files that came from a directory are made
 * again as they were, but for the parts that the keys no longer agree with; all others are made of
 * the keys. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/export.h"
#include "libhkfmt/hf/write.h"

static enum hk_status load_stored(struct hk_put_tok *p)
{
    struct hk_bytes text;
    struct hk_error *err = p->t.err;
    enum hk_status s = hk_hf_told_json(p->f, "hk.hf.tokenizer", &text, &p->t.json, err);
    if (s == HK_OK)
        s = hk_hf_told_json(p->f, "hk.hf.tokenizer_config", &text, &p->t.settings, err);
    if (s == HK_OK)
        s = hk_hf_told_json(p->f, "hk.hf.special_tokens_map", &text, &p->t.special, err);
    if (s == HK_OK)
        s = hk_hf_told_json(p->f, "hk.hf.tokenizer_form", &text, &p->form, err);
    p->stored = p->t.json != NULL;
    return s;
}

/* Empty files where there are none. */
static enum hk_status make_missing(struct hk_put_tok *p)
{
    if (p->t.json == NULL)
        p->t.json = json_pack("{s:s, s:n, s:n, s:[]}", "version", "1.0", "truncation", "padding",
                              "added_tokens");
    if (p->t.settings == NULL)
        p->t.settings = p->stored ? json_object()
                                  : json_pack("{s:b, s:s}", "clean_up_tokenization_spaces", 0,
                                              "tokenizer_class", "PreTrainedTokenizerFast");
    if (p->t.special == NULL && !p->stored)
        p->t.special = json_object();
    bool good = p->t.json != NULL && p->t.settings != NULL && (p->t.special != NULL || p->stored);
    return good ? HK_OK : hk_fail_nomem(p->t.err);
}

/* What is stored, brought up to date; and that it then says what the keys say. */
static enum hk_status update_stored(struct hk_put_tok *p)
{
    unsigned parts;
    struct hk_error why = {.text = ""};
    enum hk_status s = hk_put_tok_compare(p, &parts, &why);
    if (s != HK_OK || parts == 0)
        return s;
    s = hk_put_tok_parts(p, parts);
    if (s == HK_OK)
        s = hk_put_tok_compare(p, &parts, &why);
    if (s == HK_OK && parts != 0)
        s = hk_fail(p->t.err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "%s", why.text);
    return s;
}

static enum hk_status write_files(struct hk_put_tok *p)
{
    struct hk_error *err = p->t.err;
    enum hk_status s = hk_side_files_json(p->out, "tokenizer.json", p->t.json, err);
    if (s == HK_OK && json_object_size(p->t.settings) > 0)
        s = hk_side_files_json(p->out, "tokenizer_config.json", p->t.settings, err);
    if (s == HK_OK && p->t.special != NULL)
        s = hk_side_files_json(p->out, "special_tokens_map.json", p->t.special, err);
    return s;
}

/* SentencePiece takes unused pieces apart again after merging. */
static void tell_unused(const struct hk_put_tok *p)
{
    bool unused = false;
    for (uint32_t i = 0; i < p->t.count; i++)
        unused |= p->t.token[i].type == HK_TOK_UNUSED && p->t.token[i].in_model;
    if (unused && p->t.spm && p->opt->loss != NULL)
        p->opt->loss(p->opt->arg, "tokenizer.ggml.token_type: unused pieces are pieces like others "
                                  "in tokenizer.json");
}

static enum hk_status put_all(struct hk_put_tok *p)
{
    enum hk_status s = load_stored(p);
    if (s == HK_OK)
        s = hk_put_tok_load(p);
    if (s == HK_OK)
        s = make_missing(p);
    if (s == HK_OK)
        s = hk_put_tok_model(p);
    if (s == HK_OK)
        s = p->stored ? update_stored(p) : hk_put_tok_parts(p, HK_PUT_ALL);
    if (s == HK_OK)
        s = hk_put_tok_templates(p);
    if (s != HK_OK)
        return s;
    tell_unused(p);
    return write_files(p);
}

enum hk_status hk_hf_put_tokenizer(const struct hk_file *f, const struct hk_convert_options *opt,
                                   struct hk_side_files *out, struct hk_error *err)
{
    struct hk_put_tok p = {.f = f, .opt = opt, .out = out};
    if (hk_kv_find(f, "tokenizer.ggml.tokens") == NULL)
        return HK_OK;
    p.t.err = err;
    enum hk_status s = put_all(&p);
    hk_tok_free(&p.t);
    json_decref(p.form);
    hk_array_free(&p.pieces);
    return s;
}

bool hk_hf_tokenizer_tells(struct hk_bytes key)
{
    static const char *const told[] = {
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.ignore_merges",
        "tokenizer.ggml.add_space_prefix",
        "tokenizer.ggml.add_bos_token",
        "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id",
        "tokenizer.ggml.seperator_token_id",
        "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.cls_token_id",
        "tokenizer.ggml.mask_token_id",
        "tokenizer.hk.pre_regex",
        "tokenizer.hk.normalizer",
        "tokenizer.hk.added_flags",
        "tokenizer.hk.space_prefix",
        "tokenizer.hk.eog_ids",
        "tokenizer.chat_template",
        "tokenizer.chat_templates",
        "hk.hf.tokenizer",
        "hk.hf.tokenizer_config",
        "hk.hf.tokenizer_form",
        "hk.hf.special_tokens_map",
        "hk.hf.merges",
    };
    static const char templates[] = "tokenizer.chat_template.";
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (hk_bytes_are(key, told[i]))
            return true;
    }
    return key.n > sizeof templates - 1 && memcmp(key.p, templates, sizeof templates - 1) == 0;
}
