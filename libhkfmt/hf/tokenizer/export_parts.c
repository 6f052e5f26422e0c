/* The parts of tokenizer.json and tokenizer_config.json that the keys settle. */
#include "libhkfmt/hf/tokenizer/export_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum hk_status finish_part(const struct hk_tok_export *p, bool good)
{
    return good ? HK_OK : hk_fail_nomem(p->t.err);
}

/* ---- added tokens ---- */

static json_t *make_added_token(const struct hk_tok_token *t)
{
    return json_pack("{s:o, s:b, s:b, s:b, s:b, s:b}", "content", hk_json_new_string(t->piece),
                     "single_word", (t->flags & HK_ADDED_SINGLE_WORD) != 0, "lstrip",
                     (t->flags & HK_ADDED_LSTRIP) != 0, "rstrip", (t->flags & HK_ADDED_RSTRIP) != 0,
                     "normalized", (t->flags & HK_ADDED_NORMALIZED) != 0, "special",
                     t->type != HK_TOKEN_USER);
}

static enum hk_status export_added(struct hk_tok_export *p)
{
    json_t *list = json_array(), *decoder = json_object();
    const bool listed = hk_json_set_new(p->t.json, "added_tokens", list);
    bool good = hk_json_set_new(p->t.settings, "added_tokens_decoder", decoder) && listed;
    for (uint32_t i = 0; i < p->t.count && good; i++) {
        char key[16];
        if (!p->t.token[i].added)
            continue;
        snprintf(key, sizeof key, "%u", i);
        json_t *token = make_added_token(&p->t.token[i]);
        good = token != NULL && json_object_set(decoder, key, token) == 0;
        json_t *here = json_pack("{s:I}", "id", (json_int_t)i);
        good &= here != NULL && json_object_update(here, token) == 0;
        json_decref(token);
        good &= json_array_append_new(list, here) == 0;
    }
    return finish_part(p, good);
}

/* ---- normalizer, pre-tokenizer, decoder ---- */

static json_t *make_split(struct hk_bytes pattern)
{
    return json_pack("{s:s, s:{s:o}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                     hk_json_new_string(pattern), "behavior", "Isolated", "invert", 0);
}

static bool append_own_splits(const struct hk_tok_export *p, const struct hk_kv *kv, json_t *list,
                              enum hk_status *st)
{
    struct hk_array a;
    bool good = true;
    *st = hk_kv_array(kv, HK_ARRAY_STRING, &a, p->t.err);
    if (*st != HK_OK)
        return true;
    for (uint32_t i = 0; i < a.count && good; i++)
        good = json_array_append_new(list, make_split(hk_array_string(&a, i))) == 0;
    hk_array_free(&a);
    return good;
}

static bool append_named_splits(const struct hk_pre_tokenizer *row, json_t *list)
{
    bool good = true;
    for (size_t i = 0; i < HK_PRE_PATTERNS && row->pattern[i] != NULL && good; i++)
        good = json_array_append_new(list,
                                     make_split((struct hk_bytes){(const uint8_t *)row->pattern[i],
                                                                  strlen(row->pattern[i])})) == 0;
    return good;
}

static enum hk_status export_byte_level(struct hk_tok_export *p)
{
    const struct hk_kv *own = hk_vocab_find(p->f, HK_VOCAB_SPLITS),
                       *form = hk_vocab_find(p->f, HK_VOCAB_NORMALIZER);
    const struct hk_pre_tokenizer *row = NULL;
    enum hk_status st = own == NULL ? hk_pre_tokenizer_of_file(&row, p->f, p->t.err) : HK_OK;
    if (st != HK_OK)
        return st;
    json_t *list = json_array();
    bool good = own != NULL ? append_own_splits(p, own, list, &st) : append_named_splits(row, list);
    good &= json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                                  "add_prefix_space", 0, "trim_offsets", 1,
                                                  "use_regex", 0)) == 0;
    json_t *json = p->t.json;
    good &= hk_json_set_new(json, "pre_tokenizer",
                            json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list));
    good &= hk_json_set_new(json, "normalizer",
                            form != NULL ? json_pack("{s:s}", "type", "NFC") : json_null());
    good &= hk_json_set_new(json, "decoder",
                            json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                      "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1));
    return st == HK_OK ? finish_part(p, good) : st;
}

static json_t *make_replace(const char *from, const char *to)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content",
                     to);
}

/* What spells spaces U+2581: SCHEME's Metaspace, or a normalizer, which puts one space more before
 * each part of a text if PREFIX. */
static bool export_space_spelling(json_t *json, bool prefix, const struct hk_bytes *scheme)
{
    json_t *normalizer = json_null(), *pre = json_null();
    if (scheme != NULL)
        pre = json_pack("{s:s, s:s, s:o, s:b}", "type", "Metaspace", "replacement", HK_VOCAB_SPACE,
                        "prepend_scheme", hk_json_new_string(*scheme), "split", 0);
    else if (prefix)
        normalizer =
            json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type",
                      "Prepend", "prepend", HK_VOCAB_SPACE, make_replace(" ", HK_VOCAB_SPACE));
    else
        normalizer = make_replace(" ", HK_VOCAB_SPACE);
    const bool normal = hk_json_set_new(json, "normalizer", normalizer);
    return hk_json_set_new(json, "pre_tokenizer", pre) && normal;
}

static bool export_piece_decoder(json_t *json, bool prefix)
{
    json_t *list = json_pack("[o, {s:s}, {s:s}]", make_replace(HK_VOCAB_SPACE, " "), "type",
                             "ByteFallback", "type", "Fuse");
    bool good = !prefix ||
                json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                                      "content", " ", "start", 1, "stop", 0)) == 0;
    json_t *decoder = json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
    return hk_json_set_new(json, "decoder", decoder) && good;
}

static enum hk_status export_spaces(struct hk_tok_export *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_PREFIX_SCHEME);
    struct hk_bytes scheme;
    bool prefix = true;
    enum hk_status st = hk_tok_export_bool(p, HK_VOCAB_ADD_SPACE_PREFIX, &prefix);
    if (st == HK_OK && kv != NULL)
        st = hk_kv_string(kv, &scheme, p->t.err);
    if (st != HK_OK)
        return st;
    const bool spelt =
        export_space_spelling(p->t.json, prefix, kv != NULL && prefix ? &scheme : NULL);
    return finish_part(p, export_piece_decoder(p->t.json, prefix) && spelt);
}

/* ---- special ids ---- */

static enum hk_status export_special_names(struct hk_tok_export *p)
{
    bool good = true;
    for (size_t i = 0; i < HK_TOK_NAMES && good; i++) {
        const struct hk_tok_name *name = &hk_tok_names[i];
        const int64_t own[3] = {p->t.bos, p->t.eos, p->t.unk};
        int64_t id = i < 3 ? own[i] : -1;
        enum hk_status st = i < 3 ? HK_OK : hk_tok_export_int(p, name->key, &id);
        if (st != HK_OK)
            return st;
        if (id >= (int64_t)p->t.count)
            return hk_fail(p->t.err, HK_E_RANGE, HK_NO_OFFSET,
                           "%s: %lld is outside the vocabulary of %u", hk_vocab_key(name->key),
                           (long long)id, p->t.count);
        if (id < 0 && json_object_get(p->t.settings, name->token) == NULL)
            continue;
        json_t *v = id >= 0 ? hk_json_new_string(p->t.token[id].piece) : json_null();
        good = hk_json_set_new(p->t.settings, name->token, v);
        if (id >= 0 && p->t.special != NULL)
            good &= json_object_set(p->t.special, name->token, v) == 0;
        else
            json_object_del(p->t.special, name->token);
    }
    return finish_part(p, good);
}

static bool append_special_token(json_t *single, json_t *table, const struct hk_tok *t, int64_t id)
{
    struct hk_bytes piece = t->token[id].piece;
    json_t *entry = json_pack("{s:o, s:[I], s:[o]}", "id", hk_json_new_string(piece), "ids",
                              (json_int_t)id, "tokens", hk_json_new_string(piece));
    return json_object_setn_new(table, (const char *)piece.p, piece.n, entry) == 0 &&
           json_array_append_new(single, json_pack("{s:{s:o, s:i}}", "SpecialToken", "id",
                                                   hk_json_new_string(piece), "type_id", 0)) == 0;
}

static bool append_template_text(json_t *list, const char *id)
{
    return json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", id, "type_id",
                                                 id[0] == 'B')) == 0;
}

static json_t *make_template(const struct hk_tok_export *p, bool bos, bool eos)
{
    json_t *single = json_array(), *pair = json_array(), *table = json_object();
    const struct hk_tok *t = &p->t;
    bool good = true;
    for (size_t i = 0; i < 3 && good; i++) { /* the text alone, then the first and second of two */
        json_t *list = i == 0 ? single : pair;
        if (bos)
            good &= append_special_token(list, table, t, t->bos);
        good &= append_template_text(list, i == 2 ? "B" : "A");
        if (eos)
            good &= append_special_token(list, table, t, t->eos);
    }
    json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single,
                          "pair", pair, "special_tokens", table);
    if (good)
        return o;
    json_decref(o);
    return NULL;
}

/* What the engine adds where the file does not say. */
static bool adds_bos_by_default(const struct hk_tok_export *p)
{
    const struct hk_pre_tokenizer *row = NULL;
    if (p->t.spm)
        return true;
    if (hk_vocab_find(p->f, HK_VOCAB_SPLITS) != NULL ||
        hk_pre_tokenizer_of_file(&row, p->f, p->t.err) != HK_OK)
        return false;
    return row->bos;
}

static enum hk_status export_around(struct hk_tok_export *p)
{
    bool bos = adds_bos_by_default(p), eos = false;
    enum hk_status st = hk_tok_export_bool(p, HK_VOCAB_ADD_BOS, &bos);
    if (st == HK_OK)
        st = hk_tok_export_bool(p, HK_VOCAB_ADD_EOS, &eos);
    if (st != HK_OK)
        return st;
    bos = bos && p->t.bos >= 0;
    eos = eos && p->t.eos >= 0;
    json_t *post = bos || eos ? make_template(p, bos, eos) : json_null();
    const bool good = hk_json_set_new(p->t.json, "post_processor", post) &&
                      hk_json_set_new(p->t.settings, "add_bos_token", json_boolean(bos)) &&
                      hk_json_set_new(p->t.settings, "add_eos_token", json_boolean(eos));
    return good ? export_special_names(p) : hk_fail_nomem(p->t.err);
}

/* ---- the model ---- */

static enum hk_status check_byte_pieces(const struct hk_tok_export *p)
{
    for (unsigned b = 0; b < 256 && p->t.spm; b++) {
        char piece[HK_VOCAB_BYTE_SIZE];
        hk_vocab_put_byte((uint8_t)b, piece);
        if (hk_tok_id(&p->t, (struct hk_bytes){(const uint8_t *)piece, sizeof piece - 1}) < 0)
            return hk_fail(p->t.err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "%s: no token %s, without which tokenizer.json does not do the same",
                           hk_vocab_key(HK_VOCAB_TOKENS), piece);
    }
    return HK_OK;
}

static enum hk_status export_model_settings(struct hk_tok_export *p)
{
    const struct hk_pre_tokenizer *row = NULL;
    bool spm = p->t.spm, whole = false;
    enum hk_status st = check_byte_pieces(p);
    if (st == HK_OK && !spm && hk_vocab_find(p->f, HK_VOCAB_SPLITS) == NULL)
        st = hk_pre_tokenizer_of_file(&row, p->f, p->t.err);
    whole = row != NULL && row->whole_words;
    if (st == HK_OK && !spm)
        st = hk_tok_export_bool(p, HK_VOCAB_IGNORE_MERGES, &whole);
    if (st != HK_OK)
        return st;
    json_t *model = json_object_get(p->t.json, "model");
    json_t *unknown =
        spm && p->t.unk >= 0 ? hk_json_new_string(p->t.token[p->t.unk].piece) : json_null();
    json_t *o = json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout",
                          "unk_token", unknown, "continuing_subword_prefix", "end_of_word_suffix",
                          "fuse_unk", spm, "byte_fallback", spm, "ignore_merges", whole);
    bool good = o != NULL && json_object_update(o, model) == 0; /* vocab and merges */
    if (good && p->stored)
        good = hk_json_set_new(o, "ignore_merges", json_boolean(whole));
    if (good)
        good = json_object_set(p->t.json, "model", o) == 0;
    json_decref(o);
    return finish_part(p, good);
}

enum hk_status hk_tok_export_parts(struct hk_tok_export *p, unsigned parts)
{
    enum hk_status st = HK_OK;
    if ((parts & HK_EXPORT_ADDED) != 0)
        st = export_added(p);
    if (st == HK_OK && (parts & HK_EXPORT_SPLIT) != 0)
        st = p->t.spm ? export_spaces(p) : export_byte_level(p);
    if (st == HK_OK && (parts & HK_EXPORT_AROUND) != 0)
        st = export_around(p);
    if (st == HK_OK && (parts & HK_EXPORT_MODEL) != 0)
        st = export_model_settings(p);
    return st;
}
