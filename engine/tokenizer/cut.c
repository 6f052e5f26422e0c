/* Where a text may be cut: between a letter or a digit and a space that nothing crosses. */
#include "engine/tokenizer/cut.h"

#include <utf8proc.h>

#include "engine/tokenizer/added.h"
#include "engine/tokenizer/characters.h"
#include "engine/tokenizer/nfc.h"
#include "engine/tokenizer/tokenizer.h"

/* Whether the character that ends at P is a letter or a digit that no normalisation changes: every
 * named pattern ends a match between such a one and a space. */
static bool ends_split_match(const uint8_t *begin, const uint8_t *p)
{
    uint32_t c;
    if (hke_char_before(begin, p, &c) == 0 || !hke_is_stable_char(c))
        return false;
    utf8proc_category_t category = utf8proc_category((int32_t)c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

static bool may_cut_at(const struct hke_tokenizer *t, const uint8_t *begin, const uint8_t *p)
{
    if ((*p != ' ' && *p != '\n') || !ends_split_match(begin, p))
        return false;
    if (t->kind == HK_VOCAB_BPE)
        return true;
    return !(*p == ' ' ? t->joins : t->joins_line)[p[-1]] && !t->before_prefix[p[-1]];
}

/* Whether added token ID reaches over such a cut or looks at what is on the other side. */
static bool crosses_cut(const struct hke_tokenizer *t, uint32_t id)
{
    struct hk_bytes text = tok_string(&t->text, id);
    const uint8_t *end = text.p + text.n;
    for (const uint8_t *p = text.p + 1; p < end; p++) {
        if ((*p == ' ' || *p == '\n') && ends_split_match(text.p, p))
            return true;
    }
    return t->flags[id] != 0 && text.n > 0 &&
           (text.p[0] == ' ' || text.p[0] == '\n' || ends_split_match(text.p, end));
}

/* The text behind a cut has no dummy prefix, but the text behind an added token may have one. */
static void mark_before_prefix(struct hke_tokenizer *t)
{
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < t->added[i].n; k++) {
            struct hk_bytes text = t->added[i].one[k].text;
            t->before_prefix[text.p[text.n - 1]] = true;
        }
    }
}

void hke_find_cuts(struct hke_tokenizer *t)
{
    if (t->kind == HK_VOCAB_SPM && t->space_prefix && !t->prefix_first)
        mark_before_prefix(t);
    t->cuts = t->kind == HK_VOCAB_SPM || t->known_splits;
    for (uint32_t i = 0; i < t->text.n && t->cuts; i++)
        t->cuts = !hke_is_added_type(t->type[i]) || !crosses_cut(t, i);
}

size_t hke_encode_cut(const struct hke_tokenizer *t, struct hk_bytes text)
{
    size_t i = t->cuts ? text.n : 0;
    while (i > 0 && !(i < text.n && may_cut_at(t, text.p, text.p + i)))
        i--;
    return i;
}
