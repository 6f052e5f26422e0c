/* Byte-level BPE vocabularies: model settings, normalizer, pre-tokenizer, decoder, merges.
 *
 * The pre-tokenizer becomes a list of split patterns, each of which means the same to the engine's
 * PCRE2 as to Oniguruma, by which tokenizers go. */
#include "libhkfmt/hf/tokenizer/byte_level.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/merges.h"
#include "libhkfmt/model/pre_patterns.h"

/* ---- the model's settings ---- */

static enum hk_status refuse_model_setting(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: %s", what);
}

static bool is_empty_setting(const json_t *model, const char *key)
{
    const json_t *v = json_object_get(model, key);
    return v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0);
}

/* A boolean of the model, false where there is none. */
static enum hk_status read_model_bool(const struct hk_tok *t, const json_t *model, const char *key,
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
        return refuse_model_setting(t, "model.dropout: merging at random");
    if (!is_empty_setting(model, "continuing_subword_prefix"))
        return refuse_model_setting(t, "model.continuing_subword_prefix");
    if (!is_empty_setting(model, "end_of_word_suffix"))
        return refuse_model_setting(t, "model.end_of_word_suffix");
    return read_model_bool(t, model, "ignore_merges", &t->ignore_merges);
}

struct patterns {
    struct hk_bytes p[HK_PRE_MAX_PATTERNS];
    size_t n;
    struct hk_arena *arena;
    bool byte_level; /* bytes became letters: nothing may follow */
};

static enum hk_status refuse_pre_tokenizer(const struct hk_tok *t, const char *what,
                                           const char *name)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: %s: %s", what, name);
}

/* ---- normalizer ---- */

static enum hk_status read_normal_form(const struct hk_tok *t, const json_t *o, bool *nfc)
{
    if (!hk_json_has_type(o, "NFC"))
        return refuse_pre_tokenizer(t, "a normalizer that is not known here",
                                    hk_json_text(o, "type"));
    *nfc = true;
    return HK_OK;
}

static enum hk_status read_byte_level_normalizer(const struct hk_tok *t, const json_t *o, bool *nfc)
{
    const json_t *list = json_object_get(o, "normalizers"), *one;
    size_t i;
    if (o == NULL || json_is_null(o))
        return HK_OK;
    if (!hk_json_has_type(o, "Sequence"))
        return read_normal_form(t, o, nfc);
    json_array_foreach(list, i, one)
    {
        enum hk_status st = read_normal_form(t, one, nfc);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* ---- patterns ---- */

/* Length of the escape at P (not its end) if it means the same to both, else 0. */
static size_t measure_common_escape(const char *p, const char *end, bool in_class)
{
    if (end - p < 2)
        return 0;
    if (memchr("rntfsdD", p[1], 7) != NULL || (p[1] == 'S' && !in_class))
        return 2;
    if (p[1] == 'p' || p[1] == 'P') {
        const char *close = end - p > 2 && p[2] == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
        return close != NULL ? (size_t)(close - p) + 1 : 0;
    }
    bool letter = (p[1] >= '0' && p[1] <= '9') || (p[1] >= 'A' && p[1] <= 'Z') ||
                  (p[1] >= 'a' && p[1] <= 'z');
    return letter || (p[1] & 0x80) != 0 ? 0 : 2;
}

/* Length of the group's opening at P, or 0. */
static size_t measure_group_opening(const char *p, const char *end)
{
    static const char *const openings[] = {"(?i:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        size_t n = strlen(openings[i]);
        if ((size_t)(end - p) >= n && memcmp(p, openings[i], n) == 0)
            return n;
    }
    return end - p > 1 && p[1] != '?' && p[1] != '*' ? 1 : 0;
}

/* Length of {2}, {2,} or {2,3} at P, or 0. */
static size_t measure_repeat_count(const char *p, const char *end)
{
    const char *q = p + 1;
    while (q < end && *q >= '0' && *q <= '9')
        q++;
    if (q == p + 1)
        return 0;
    if (q < end && *q == ',')
        q++;
    while (q < end && *q >= '0' && *q <= '9')
        q++;
    bool good = q < end && *q == '}' && !(end - q > 1 && q[1] == '+');
    return good ? (size_t)(q - p) + 1 : 0;
}

/* Length of what begins at P if it means the same to both libraries, else 0. */
static size_t measure_pattern_item(const char *p, const char *end, bool *in_class)
{
    if (*p == '\\')
        return measure_common_escape(p, end, *in_class);
    if (*in_class) {
        *in_class = *p != ']';
        bool set = *p == '[' || (*p == '&' && end - p > 1 && p[1] == '&');
        return set ? 0 : 1;
    }
    if (*p == '(')
        return measure_group_opening(p, end);
    if (*p == '{')
        return measure_repeat_count(p, end);
    if (*p == '[') {
        size_t n = end - p > 1 && p[1] == '^' ? 2 : 1;
        *in_class = true;
        return (size_t)(end - p) > n && p[n] != ']' ? n : 0;
    }
    return *p == '^' || *p == '$' || *p == '\0' ? 0 : 1;
}

static enum hk_status check_common_pattern(const struct hk_tok *t, struct hk_bytes b)
{
    const char *begin = (const char *)b.p, *p = begin, *end = begin + b.n;
    bool in_class = false;
    while (p < end) {
        size_t n = measure_pattern_item(p, end, &in_class);
        if (n == 0)
            return hk_fail(
                t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "tokenizer.json: pre_tokenizer: byte %zu of the pattern \"%.*s\" is of a kind "
                "that is not known to mean the same here",
                (size_t)(p - begin), HK_STR(b));
        p += n;
    }
    return HK_OK;
}

static enum hk_status add_pattern(const struct hk_tok *t, struct patterns *x,
                                  struct hk_bytes pattern)
{
    if (x->n == HK_PRE_MAX_PATTERNS)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "tokenizer.json: pre_tokenizer: more than %d patterns", HK_PRE_MAX_PATTERNS);
    x->p[x->n++] = pattern;
    return HK_OK;
}

static enum hk_status add_text_pattern(const struct hk_tok *t, struct patterns *x,
                                       const char *pattern)
{
    return add_pattern(t, x, (struct hk_bytes){(const uint8_t *)pattern, strlen(pattern)});
}

/* A text that is looked for as it is. */
static enum hk_status add_literal_pattern(const struct hk_tok *t, struct patterns *x,
                                          struct hk_bytes b)
{
    uint8_t *p = hk_arena_alloc(x->arena, 2 * b.n + 1);
    size_t n = 0;
    if (p == NULL)
        return hk_fail_nomem(t->err);
    for (size_t i = 0; i < b.n; i++) {
        if (memchr("\\^$.[]|()?*+{}-", b.p[i], 15) != NULL)
            p[n++] = '\\';
        p[n++] = b.p[i];
    }
    return add_pattern(t, x, (struct hk_bytes){p, n});
}

/* ---- pre-tokenizers ---- */

/* Whether O cuts at the matches and leaves nothing out: so it is, too, where only the matches stay
 * of a pattern that matches everything, as those do that are known. */
static bool isolates_matches(const json_t *o, const json_t *regex)
{
    const char *behavior = hk_json_text(o, "behavior");
    struct hk_bytes pattern = hk_json_string_bytes(regex);
    return strcmp(behavior, "Isolated") == 0 ||
           (strcmp(behavior, "Removed") == 0 && json_is_true(json_object_get(o, "invert")) &&
            json_is_string(regex) && hk_pre_covers(pattern));
}

static enum hk_status read_split_pattern(const struct hk_tok *t, const json_t *o,
                                         struct patterns *x)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *text = json_object_get(pattern, "String");
    if (!isolates_matches(o, regex))
        return refuse_pre_tokenizer(t, "pre_tokenizer: Split with behavior",
                                    hk_json_text(o, "behavior"));
    if (json_is_string(text) && json_string_length(text) > 0)
        return add_literal_pattern(t, x, hk_json_string_bytes(text));
    if (!json_is_string(regex))
        return refuse_pre_tokenizer(t, "pre_tokenizer", "Split without a pattern");
    return add_pattern(t, x, hk_json_string_bytes(regex));
}

static enum hk_status read_byte_level_pattern(const struct hk_tok *t, const json_t *o,
                                              struct patterns *x)
{
    const json_t *regex = json_object_get(o, "use_regex");
    /* Where they say nothing, tokenizers put a space before the text and use the pattern. */
    if (!json_is_false(json_object_get(o, "add_prefix_space")))
        return refuse_pre_tokenizer(t, "pre_tokenizer", "ByteLevel with add_prefix_space");
    x->byte_level = true;
    return json_is_false(regex) ? HK_OK : add_text_pattern(t, x, hk_pre_gpt2());
}

static enum hk_status read_pre_tokenizer(const struct hk_tok *t, const json_t *o,
                                         struct patterns *x)
{
    if (x->byte_level)
        return refuse_pre_tokenizer(t, "pre_tokenizer: after ByteLevel", hk_json_text(o, "type"));
    if (hk_json_has_type(o, "Split"))
        return read_split_pattern(t, o, x);
    if (hk_json_has_type(o, "ByteLevel"))
        return read_byte_level_pattern(t, o, x);
    if (hk_json_has_type(o, "Digits"))
        return add_text_pattern(
            t, x, json_is_true(json_object_get(o, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
    return refuse_pre_tokenizer(t, "a pre-tokenizer that is not known here",
                                hk_json_text(o, "type"));
}

static enum hk_status read_pre_tokenizers(const struct hk_tok *t, const json_t *o,
                                          struct patterns *x)
{
    const json_t *list = json_object_get(o, "pretokenizers"), *one;
    size_t i;
    if (!hk_json_has_type(o, "Sequence"))
        return read_pre_tokenizer(t, o, x);
    json_array_foreach(list, i, one)
    {
        enum hk_status st = read_pre_tokenizer(t, one, x);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* Patterns that a name is known for mean the same, whatever they are made of. */
static enum hk_status check_common_patterns(const struct hk_tok *t, const struct patterns *x)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < x->n && st == HK_OK && hk_pre_tokenizer_of(x->p, x->n) == NULL; i++)
        st = check_common_pattern(t, x->p[i]);
    return st;
}

static enum hk_status put_split_patterns(struct hk_tok *t)
{
    struct patterns x = {.arena = t->out->arena};
    bool nfc = false;
    enum hk_status st = read_byte_level_normalizer(t, json_object_get(t->json, "normalizer"), &nfc);
    if (st == HK_OK)
        st = read_pre_tokenizers(t, json_object_get(t->json, "pre_tokenizer"), &x);
    if (st == HK_OK)
        st = check_common_patterns(t, &x);
    if (st != HK_OK)
        return st;
    if (!x.byte_level)
        return refuse_pre_tokenizer(t, "pre_tokenizer", "a BPE vocabulary without ByteLevel");
    if (nfc)
        hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_NORMALIZER), "nfc");
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer_for(x.p, x.n, t->ignore_merges);
    if (row != NULL)
        hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_PRE), row->name);
    hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_SPLITS), x.p, (uint32_t)x.n);
    return HK_OK;
}

/* ---- the whole ---- */

/* The engine has one way back from ids, and so must the file. */
static enum hk_status check_byte_decoder(const struct hk_tok *t)
{
    const json_t *o = json_object_get(t->json, "decoder");
    const json_t *list = hk_json_has_type(o, "Sequence") ? json_object_get(o, "decoders") : NULL;
    if (json_array_size(list) == 1)
        o = json_array_get(list, 0);
    return hk_json_has_type(o, "ByteLevel")
               ? HK_OK
               : hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                         "tokenizer.json: a decoder %s that does not fit the pre-tokenizer",
                         hk_json_text(o, "type"));
}

enum hk_status hk_tok_read_bpe(struct hk_tok *t)
{
    struct hk_tok_merges m = {0};
    hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_MODEL), hk_vocab_kind_name(HK_VOCAB_BPE));
    enum hk_status st = put_split_patterns(t);
    if (st == HK_OK)
        st = check_byte_decoder(t);
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
