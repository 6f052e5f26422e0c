/* Normalizer and pre-tokenizer of a byte-level vocabulary: a list of split patterns, each of which
 * means the same to the engine's PCRE2 as to Oniguruma, by which tokenizers go. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/model/pre_patterns.h"

enum { MOST_PATTERNS = 16 };

struct patterns {
    struct hk_bytes p[MOST_PATTERNS];
    size_t n;
    struct hk_arena *arena;
    bool byte_level; /* bytes became letters: nothing may follow */
};

static enum hk_status unsupported(const struct hk_tok *t, const char *what, const char *name)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: %s: %s", what, name);
}

/* ---- normalizer ---- */

static enum hk_status read_form(const struct hk_tok *t, const json_t *o, bool *nfc)
{
    if (!hk_tok_is(o, "NFC"))
        return unsupported(t, "a normalizer that is not known here", hk_tok_text(o, "type"));
    *nfc = true;
    return HK_OK;
}

static enum hk_status read_normalizer(const struct hk_tok *t, const json_t *o, bool *nfc)
{
    const json_t *list = json_object_get(o, "normalizers"), *one;
    size_t i;
    if (o == NULL || json_is_null(o))
        return HK_OK;
    if (!hk_tok_is(o, "Sequence"))
        return read_form(t, o, nfc);
    json_array_foreach(list, i, one)
    {
        enum hk_status st = read_form(t, one, nfc);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* ---- patterns ---- */

/* Length of the escape at P (not its end) if it means the same to both, else 0. */
static size_t escape_length(const char *p, const char *end, bool in_class)
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
static size_t group_length(const char *p, const char *end)
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
static size_t count_length(const char *p, const char *end)
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
static size_t item_length(const char *p, const char *end, bool *in_class)
{
    if (*p == '\\')
        return escape_length(p, end, *in_class);
    if (*in_class) {
        *in_class = *p != ']';
        bool set = *p == '[' || (*p == '&' && end - p > 1 && p[1] == '&');
        return set ? 0 : 1;
    }
    if (*p == '(')
        return group_length(p, end);
    if (*p == '{')
        return count_length(p, end);
    if (*p == '[') {
        size_t n = end - p > 1 && p[1] == '^' ? 2 : 1;
        *in_class = true;
        return (size_t)(end - p) > n && p[n] != ']' ? n : 0;
    }
    return *p == '^' || *p == '$' || *p == '\0' ? 0 : 1;
}

static enum hk_status check_pattern(const struct hk_tok *t, struct hk_bytes b)
{
    const char *begin = (const char *)b.p, *p = begin, *end = begin + b.n;
    bool in_class = false;
    while (p < end) {
        size_t n = item_length(p, end, &in_class);
        if (n == 0)
            return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "tokenizer.json: pre_tokenizer: byte %zu of the pattern \"%.*s\" is of "
                           "a kind that is not known to mean the same here",
                           (size_t)(p - begin), HK_STR(b));
        p += n;
    }
    return HK_OK;
}

static enum hk_status add(const struct hk_tok *t, struct patterns *x, struct hk_bytes pattern)
{
    if (x->n == MOST_PATTERNS)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "tokenizer.json: pre_tokenizer: more than %d patterns", MOST_PATTERNS);
    x->p[x->n++] = pattern;
    return HK_OK;
}

static enum hk_status add_text(const struct hk_tok *t, struct patterns *x, const char *pattern)
{
    return add(t, x, (struct hk_bytes){(const uint8_t *)pattern, strlen(pattern)});
}

/* A text that is looked for as it is. */
static enum hk_status add_literal(const struct hk_tok *t, struct patterns *x, struct hk_bytes b)
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
    return add(t, x, (struct hk_bytes){p, n});
}

/* ---- pre-tokenizers ---- */

/* Whether O cuts at the matches and leaves nothing out: so it is, too, where only the matches stay
 * of a pattern that matches everything, as those do that are known. */
static bool isolates(const json_t *o, const json_t *regex)
{
    const char *behavior = hk_tok_text(o, "behavior");
    struct hk_bytes pattern = hk_tok_string(regex);
    return strcmp(behavior, "Isolated") == 0 ||
           (strcmp(behavior, "Removed") == 0 && json_is_true(json_object_get(o, "invert")) &&
            json_is_string(regex) && hk_pre_covers(pattern));
}

static enum hk_status read_split(const struct hk_tok *t, const json_t *o, struct patterns *x)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *text = json_object_get(pattern, "String");
    if (!isolates(o, regex))
        return unsupported(t, "pre_tokenizer: Split with behavior", hk_tok_text(o, "behavior"));
    if (json_is_string(text) && json_string_length(text) > 0)
        return add_literal(t, x, hk_tok_string(text));
    if (!json_is_string(regex))
        return unsupported(t, "pre_tokenizer", "Split without a pattern");
    return add(t, x, hk_tok_string(regex));
}

static enum hk_status read_byte_level(const struct hk_tok *t, const json_t *o, struct patterns *x)
{
    const json_t *regex = json_object_get(o, "use_regex");
    /* Where they say nothing, tokenizers put a blank before the text and use the pattern. */
    if (!json_is_false(json_object_get(o, "add_prefix_space")))
        return unsupported(t, "pre_tokenizer", "ByteLevel with add_prefix_space");
    x->byte_level = true;
    return json_is_false(regex) ? HK_OK : add_text(t, x, hk_pre_gpt2());
}

static enum hk_status read_one(const struct hk_tok *t, const json_t *o, struct patterns *x)
{
    if (x->byte_level)
        return unsupported(t, "pre_tokenizer: after ByteLevel", hk_tok_text(o, "type"));
    if (hk_tok_is(o, "Split"))
        return read_split(t, o, x);
    if (hk_tok_is(o, "ByteLevel"))
        return read_byte_level(t, o, x);
    if (hk_tok_is(o, "Digits"))
        return add_text(
            t, x, json_is_true(json_object_get(o, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
    return unsupported(t, "a pre-tokenizer that is not known here", hk_tok_text(o, "type"));
}

static enum hk_status read_pre(const struct hk_tok *t, const json_t *o, struct patterns *x)
{
    const json_t *list = json_object_get(o, "pretokenizers"), *one;
    size_t i;
    if (!hk_tok_is(o, "Sequence"))
        return read_one(t, o, x);
    json_array_foreach(list, i, one)
    {
        enum hk_status st = read_one(t, one, x);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

/* Patterns that a name is known for mean the same, whatever they are made of. */
static enum hk_status check_patterns(const struct hk_tok *t, const struct patterns *x)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < x->n && st == HK_OK && hk_pre_tokenizer_of(x->p, x->n) == NULL; i++)
        st = check_pattern(t, x->p[i]);
    return st;
}

enum hk_status hk_tok_put_pre(struct hk_tok *t)
{
    struct patterns x = {.arena = t->out->arena};
    bool nfc = false;
    enum hk_status st = read_normalizer(t, json_object_get(t->json, "normalizer"), &nfc);
    if (st == HK_OK)
        st = read_pre(t, json_object_get(t->json, "pre_tokenizer"), &x);
    if (st == HK_OK)
        st = check_patterns(t, &x);
    if (st != HK_OK)
        return st;
    if (!x.byte_level)
        return unsupported(t, "pre_tokenizer", "a BPE vocabulary without ByteLevel");
    if (nfc)
        hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_NORMALIZER), "nfc");
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer_for(x.p, x.n, t->ignore_merges);
    if (row != NULL)
        hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_PRE), row->name);
    hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_SPLITS), x.p, (uint32_t)x.n);
    return HK_OK;
}
