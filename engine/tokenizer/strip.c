/* What tokenizer.hk.added_flags says of added tokens: which blanks around one belong to it, and
 * whether it may stand inside a word. */
#include <stdlib.h>
#include <utf8proc.h>

#include "engine/tokenizer/tok.h"

static enum hk_status check_pair(const struct hke_tokenizer *t, const struct hk_kv *kv, int32_t id,
                                 int32_t flags, struct hk_error *err)
{
    if (id < 0 || (uint32_t)id >= t->piece.n)
        return hk_fail(err, HK_E_RANGE, kv->offset, "%s: %d is outside the vocabulary of %u",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id, t->piece.n);
    if (!hke_tok_is_added(t->type[id]))
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: token %d is of type %u, no added token",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id, t->type[id]);
    if (flags < 0 || flags > HK_ADDED_ALL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown flags %d of token %d",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), flags, id);
    return HK_OK;
}

static enum hk_status copy_flags(struct hke_tokenizer *t, const struct hk_kv *kv,
                                 const struct hk_array *a, struct hk_error *err)
{
    if (a->count % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u values are not pairs of id and flags",
                       hk_vocab_key(HK_VOCAB_ADDED_FLAGS), a->count);
    for (uint32_t i = 0; i < a->count; i += 2) {
        int32_t id = hk_array_i32(a, i), flags = hk_array_i32(a, i + 1);
        enum hk_status st = check_pair(t, kv, id, flags, err);
        if (st != HK_OK)
            return st;
        if (i > 0 && id <= hk_array_i32(a, i - 2))
            return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: token %d is not in rising order",
                           hk_vocab_key(HK_VOCAB_ADDED_FLAGS), id);
        t->flags[id] = (uint8_t)flags;
    }
    return HK_OK;
}

enum hk_status hke_tok_flags_load(struct hke_tokenizer *t, const struct hk_file *f,
                                  struct hk_error *err)
{
    t->flags = calloc(t->piece.n, sizeof *t->flags);
    if (t->flags == NULL)
        return hk_fail_nomem(err);
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_ADDED_FLAGS);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    st = copy_flags(t, kv, &a, err);
    hk_array_free(&a);
    return st;
}

/* ---- characters beside a token ---- */

/* The White_Space property. */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* What \w is in Unicode's regular expressions: alphabetic characters, marks, decimal digits,
 * connecting punctuation and the two joiners. */
static bool is_word(uint32_t c)
{
    if (c == 0x200c || c == 0x200d)
        return true;
    /* Alphabetic though symbols: letters in circles and squares. */
    if ((c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
        (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189))
        return true;
    switch (utf8proc_category((int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

/* Length of the character at P, or that ends at P, and its code; 0 where there is none. */
static unsigned char_at(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    unsigned n = p < end ? hk_utf8_length(p, end) : 0;
    *code = n > 0 ? hk_utf8_code(p, n) : 0;
    return n;
}

static unsigned char_before(const uint8_t *begin, const uint8_t *p, uint32_t *code)
{
    for (unsigned n = 1; n <= 4 && n <= (size_t)(p - begin); n++) {
        if (hk_utf8_length(p - n, p) == n) {
            *code = hk_utf8_code(p - n, n);
            return n;
        }
    }
    return 0;
}

bool hke_tok_inside_word(struct hk_bytes text, size_t from, size_t to)
{
    const uint8_t *begin = text.p, *end = begin + text.n;
    uint32_t c;
    return (char_before(begin, begin + from, &c) > 0 && is_word(c)) ||
           (char_at(begin + to, end, &c) > 0 && is_word(c));
}

size_t hke_tok_spaces_before(struct hk_bytes text, size_t least, size_t at)
{
    uint32_t c;
    for (unsigned n; (n = char_before(text.p + least, text.p + at, &c)) > 0 && is_space(c);)
        at -= n;
    return at;
}

size_t hke_tok_spaces_behind(struct hk_bytes text, size_t at)
{
    uint32_t c;
    for (unsigned n; (n = char_at(text.p + at, text.p + text.n, &c)) > 0 && is_space(c);)
        at += n;
    return at;
}

/* ---- where a text may be cut ---- */

/* Whether the character that ends at P is a letter or a digit that no normalisation changes: every
 * named pattern ends a match between such a one and a blank. */
static bool ends_match(const uint8_t *begin, const uint8_t *p)
{
    uint32_t c;
    if (char_before(begin, p, &c) == 0 || !hke_tok_is_stable(c))
        return false;
    utf8proc_category_t category = utf8proc_category((int32_t)c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

static bool is_cut(const struct hke_tokenizer *t, const uint8_t *begin, const uint8_t *p)
{
    if ((*p != ' ' && *p != '\n') || !ends_match(begin, p))
        return false;
    if (t->kind == HK_VOCAB_BPE)
        return true;
    return !(*p == ' ' ? t->joins : t->joins_line)[p[-1]] && !t->before_prefix[p[-1]];
}

/* Whether added token ID reaches over such a cut or looks at what is on the other side. */
static bool crosses(const struct hke_tokenizer *t, uint32_t id)
{
    struct hk_bytes text = tok_string(&t->text, id);
    const uint8_t *end = text.p + text.n;
    for (const uint8_t *p = text.p + 1; p < end; p++) {
        if ((*p == ' ' || *p == '\n') && ends_match(text.p, p))
            return true;
    }
    return t->flags[id] != 0 && text.n > 0 &&
           (text.p[0] == ' ' || text.p[0] == '\n' || ends_match(text.p, end));
}

/* The text behind a cut has no dummy prefix, but the text behind an added token may have one. */
static void mark_prefixes(struct hke_tokenizer *t)
{
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < t->added[i].n; k++) {
            struct hk_bytes text = t->added[i].one[k].text;
            t->before_prefix[text.p[text.n - 1]] = true;
        }
    }
}

void hke_tok_find_cuts(struct hke_tokenizer *t)
{
    if (t->kind == HK_VOCAB_SPM && t->space_prefix && !t->prefix_first)
        mark_prefixes(t);
    t->cuts = t->kind == HK_VOCAB_SPM || t->pre.named;
    for (uint32_t i = 0; i < t->text.n && t->cuts; i++)
        t->cuts = !hke_tok_is_added(t->type[i]) || !crosses(t, i);
}

size_t hke_encode_cut(const struct hke_tokenizer *t, struct hk_bytes text)
{
    size_t i = t->cuts ? text.n : 0;
    while (i > 0 && !(i < text.n && is_cut(t, text.p, text.p + i)))
        i--;
    return i;
}
