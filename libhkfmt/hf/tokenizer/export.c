/* The tokenizer's files of a directory to be written. Files that came from a directory are made
 * again as they were, but for the parts that the keys no longer agree with; all others are made of
 * the keys. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/convert/copying.h"
#include "libhkfmt/hf/export.h"
#include "libhkfmt/hf/tokenizer/export_parts.h"
#include "libhkfmt/hf/tokenizer/import.h"
#include "libhkfmt/hf/tokenizer/templates.h"
#include "libhkfmt/hf/tokenizer/tokenizer.h"

static enum hk_status load_stored_files(struct hk_tok_export *p)
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
static enum hk_status make_missing_files(struct hk_tok_export *p)
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

/* ---- stored files beside the keys: they are read as if they came from a directory, and what then
 * differs was changed since ---- */

static const struct {
    enum hk_vocab_key key;
    unsigned part;
    bool by_token; /* has an element for each token */
} keys[] = {
    {HK_VOCAB_TOKENS, HK_EXPORT_ADDED, true},
    {HK_VOCAB_TYPES, HK_EXPORT_ADDED, true},
    {HK_VOCAB_ADDED_FLAGS, HK_EXPORT_ADDED, false},
    {HK_VOCAB_SPLITS, HK_EXPORT_SPLIT, false},
    {HK_VOCAB_NORMALIZER, HK_EXPORT_SPLIT, false},
    {HK_VOCAB_ADD_SPACE_PREFIX, HK_EXPORT_SPLIT, false},
    {HK_VOCAB_PREFIX_SCHEME, HK_EXPORT_SPLIT, false},
    {HK_VOCAB_BOS, HK_EXPORT_AROUND, false},
    {HK_VOCAB_EOS, HK_EXPORT_AROUND, false},
    {HK_VOCAB_UNK, HK_EXPORT_AROUND, false},
    {HK_VOCAB_SEP, HK_EXPORT_AROUND, false},
    {HK_VOCAB_PAD, HK_EXPORT_AROUND, false},
    {HK_VOCAB_CLS, HK_EXPORT_AROUND, false},
    {HK_VOCAB_MASK, HK_EXPORT_AROUND, false},
    {HK_VOCAB_ADD_BOS, HK_EXPORT_AROUND, false},
    {HK_VOCAB_ADD_EOS, HK_EXPORT_AROUND, false},
    {HK_VOCAB_IGNORE_MERGES, HK_EXPORT_MODEL, false},
};

static bool is_same_pair(const struct hk_kv *a, const struct hk_kv *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->type == b->type && a->value.n == b->value.n &&
           (a->value.n == 0 || memcmp(a->value.p, b->value.p, a->value.n) == 0);
}

/* The tokens before the padding up to the rows of the embedding, of which no file says anything. */
static uint32_t count_stored_tokens(const struct hk_tok_export *p)
{
    uint32_t n = p->t.count;
    while (n > 0 && !p->t.token[n - 1].in_model && !p->t.token[n - 1].added)
        n--;
    return n;
}

static bool is_same_array_element(const struct hk_array *a, const struct hk_array *b, uint32_t i)
{
    if (a->kind == HK_ARRAY_I32)
        return hk_array_i32(a, i) == hk_array_i32(b, i);
    const struct hk_bytes x = hk_array_string(a, i), y = hk_array_string(b, i);
    return x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
}

/* Whether A, tokens or their types as the files say, is B without its padding. */
static bool is_same_but_padding(const struct hk_tok_export *p, const struct hk_kv *a,
                                const struct hk_kv *b)
{
    struct hk_array x, y;
    const uint32_t n = count_stored_tokens(p);
    if (a == NULL || b == NULL || a->type != HK_META_BYTES || b->type != HK_META_BYTES ||
        !hk_array_from_blob(a->value, &x) || !hk_array_from_blob(b->value, &y) ||
        x.kind != y.kind || x.kind == HK_ARRAY_F32 || x.count != n || y.count != p->t.count)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!is_same_array_element(&x, &y, i))
            return false;
    return true;
}

/* The keys of P's JSON files as they now are. */
static enum hk_status read_stored_again(const struct hk_tok_export *p, struct hk_kvlist *out,
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

static enum hk_status compare_stored_files(const struct hk_tok_export *p, unsigned *parts,
                                           struct hk_error *why)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    *parts = 0;
    enum hk_status st = read_stored_again(p, &list, why);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && st == HK_OK; i++) {
        const struct hk_kv *stored = hk_kvlist_find(&list, hk_vocab_key(keys[i].key)),
                           *kept = hk_vocab_find(p->f, keys[i].key);
        if (is_same_pair(stored, kept) ||
            (keys[i].by_token && is_same_but_padding(p, stored, kept)))
            continue;
        *parts |= keys[i].part;
        (void)hk_fail(why, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                      "%s: tokenizer.json has no place for its value", hk_vocab_key(keys[i].key));
    }
    if (st == HK_OK && list.status != HK_OK)
        st = list.status;
    if (st != HK_OK && st != HK_E_NOMEM) /* the stored files no longer fit the keys at all */
        *parts = HK_EXPORT_ALL;
    hk_kvlist_free(&list);
    hk_arena_free(&arena);
    return st == HK_E_NOMEM ? hk_fail_nomem(p->t.err) : HK_OK;
}

/* ---- the whole ---- */

/* What is stored, brought up to date; and that it then says what the keys say. */
static enum hk_status update_stored_files(struct hk_tok_export *p)
{
    unsigned parts;
    struct hk_error why = {.text = ""};
    enum hk_status st = compare_stored_files(p, &parts, &why);
    if (st != HK_OK || parts == 0)
        return st;
    st = hk_tok_export_parts(p, parts);
    if (st == HK_OK)
        st = compare_stored_files(p, &parts, &why);
    if (st == HK_OK && parts != 0)
        st = hk_fail(p->t.err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "%s", why.text);
    return st;
}

static enum hk_status write_tokenizer_files(struct hk_tok_export *p)
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
static void report_unused_pieces(const struct hk_tok_export *p)
{
    bool unused = false;
    for (uint32_t i = 0; i < p->t.count; i++)
        unused |= p->t.token[i].type == HK_TOKEN_UNUSED && p->t.token[i].in_model;
    if (unused && p->t.spm)
        hk_report_loss(p->opt, "%s: unused pieces are pieces like others in tokenizer.json",
                       hk_vocab_key(HK_VOCAB_TYPES));
}

static enum hk_status export_files(struct hk_tok_export *p)
{
    enum hk_status st = load_stored_files(p);
    if (st == HK_OK)
        st = hk_tok_export_load(p);
    if (st == HK_OK)
        st = make_missing_files(p);
    if (st == HK_OK)
        st = hk_tok_export_model(p);
    if (st == HK_OK)
        st = p->stored ? update_stored_files(p) : hk_tok_export_parts(p, HK_EXPORT_ALL);
    if (st == HK_OK)
        st = hk_tok_export_templates(p);
    if (st != HK_OK)
        return st;
    report_unused_pieces(p);
    return write_tokenizer_files(p);
}

enum hk_status hk_hf_export_tokenizer(const struct hk_file *f, const struct hk_convert_options *opt,
                                      struct hk_side_files *out, struct hk_error *err)
{
    struct hk_tok_export p = {.f = f, .opt = opt, .out = out};
    if (hk_vocab_find(f, HK_VOCAB_TOKENS) == NULL)
        return HK_OK;
    p.t.err = err;
    enum hk_status st = export_files(&p);
    hk_tok_free(&p.t);
    json_decref(p.form);
    hk_array_free(&p.pieces);
    return st;
}

bool hk_hf_tokenizer_covers(struct hk_bytes key)
{
    struct hk_bytes name;
    for (enum hk_vocab_key i = 0; i < HK_VOCAB_KEYS; i++) {
        if (hk_bytes_are(key, hk_vocab_key(i)))
            return i != HK_VOCAB_EOT && i != HK_VOCAB_EOM;
    }
    return hk_vocab_is_template(key, &name);
}
