/* The tokenizer's files of a directory to be written. Files that came from a directory are made
 * again as they were, but for the parts that the keys no longer agree with; all others are made of
 * the keys. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/convert/copying.h"
#include "libhkfmt/hf/export.h"
#include "libhkfmt/hf/tokenizer/export.h"

static enum hk_status load_stored(struct hk_put_tok *p)
{
    struct hk_bytes text;
    struct hk_error *err = p->t.err;
    enum hk_status st =
        hk_hf_stored_json(p->f, hk_vocab_key(HK_VOCAB_STORED_JSON), &text, &p->t.json, err);
    if (st == HK_OK)
        st = hk_hf_stored_json(p->f, hk_vocab_key(HK_VOCAB_STORED_SETTINGS), &text, &p->t.settings,
                               err);
    if (st == HK_OK)
        st = hk_hf_stored_json(p->f, hk_vocab_key(HK_VOCAB_STORED_SPECIAL), &text, &p->t.special,
                               err);
    if (st == HK_OK)
        st = hk_hf_stored_json(p->f, hk_vocab_key(HK_VOCAB_STORED_FORM), &text, &p->form, err);
    p->stored = p->t.json != NULL;
    return st;
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
    enum hk_status st = hk_put_tok_compare(p, &parts, &why);
    if (st != HK_OK || parts == 0)
        return st;
    st = hk_put_tok_parts(p, parts);
    if (st == HK_OK)
        st = hk_put_tok_compare(p, &parts, &why);
    if (st == HK_OK && parts != 0)
        st = hk_fail(p->t.err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "%s", why.text);
    return st;
}

static enum hk_status write_files(struct hk_put_tok *p)
{
    struct hk_error *err = p->t.err;
    enum hk_status st = hk_side_files_json(p->out, "tokenizer.json", p->t.json, err);
    if (st == HK_OK && json_object_size(p->t.settings) > 0)
        st = hk_side_files_json(p->out, "tokenizer_config.json", p->t.settings, err);
    if (st == HK_OK && p->t.special != NULL)
        st = hk_side_files_json(p->out, "special_tokens_map.json", p->t.special, err);
    return st;
}

/* SentencePiece takes unused pieces apart again after merging. */
static void tell_unused(const struct hk_put_tok *p)
{
    bool unused = false;
    for (uint32_t i = 0; i < p->t.count; i++)
        unused |= p->t.token[i].type == HK_TOKEN_UNUSED && p->t.token[i].in_model;
    if (unused && p->t.spm)
        hk_lost(p->opt,
                "%s: unused pieces are pieces like others "
                "in tokenizer.json",
                hk_vocab_key(HK_VOCAB_TYPES));
}

static enum hk_status put_all(struct hk_put_tok *p)
{
    enum hk_status st = load_stored(p);
    if (st == HK_OK)
        st = hk_put_tok_load(p);
    if (st == HK_OK)
        st = make_missing(p);
    if (st == HK_OK)
        st = hk_put_tok_model(p);
    if (st == HK_OK)
        st = p->stored ? update_stored(p) : hk_put_tok_parts(p, HK_PUT_ALL);
    if (st == HK_OK)
        st = hk_put_tok_templates(p);
    if (st != HK_OK)
        return st;
    tell_unused(p);
    return write_files(p);
}

enum hk_status hk_hf_put_tokenizer(const struct hk_file *f, const struct hk_convert_options *opt,
                                   struct hk_side_files *out, struct hk_error *err)
{
    struct hk_put_tok p = {.f = f, .opt = opt, .out = out};
    if (hk_vocab_find(f, HK_VOCAB_TOKENS) == NULL)
        return HK_OK;
    p.t.err = err;
    enum hk_status st = put_all(&p);
    hk_tok_free(&p.t);
    json_decref(p.form);
    hk_array_free(&p.pieces);
    return st;
}

bool hk_hf_tokenizer_tells(struct hk_bytes key)
{
    struct hk_bytes name;
    for (enum hk_vocab_key i = 0; i < HK_VOCAB_KEYS; i++) {
        if (hk_bytes_are(key, hk_vocab_key(i)))
            return i != HK_VOCAB_EOT && i != HK_VOCAB_EOM;
    }
    return hk_vocab_is_template(key, &name);
}
