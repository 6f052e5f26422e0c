/* One encoding: added tokens are found first, the text between them is cut into words, and words
 * become tokens. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/added.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/characters.h"
#include "engine/tokenizer/nfc.h"
#include "engine/tokenizer/spm.h"

struct encoding { /* of a text */
    struct tok_output out;
    struct tok_words words;
    struct tok_splitter splitter;
    struct hke_text escaped; /* SPM: the text with its spaces replaced */
    struct tok_nfc nfc;
    bool special; /* control tokens are taken as such */
};

/* LEVEL 0 is the text as it is, where most added tokens are found; 1 is what lies between those, in
 * the normalisation that the vocabulary asks for, with the added tokens that are found there; 2 is
 * what then remains. PREFIX: a dummy prefix may stand before it. */
static enum hk_status encode_level(struct encoding *e, unsigned level, struct hk_bytes text,
                                   bool prefix);

static enum hk_status encode_plain_text(struct encoding *e, struct hk_bytes text, bool prefix)
{
    return e->out.t->kind == HK_VOCAB_SPM ? hke_encode_spm(&e->words, &e->escaped, text, prefix)
                                          : hke_encode_bpe(&e->splitter, text);
}

/* The text from FROM on up to the added token found at AT, and the token. *TO: where it ends, with
 * the spaces that are its own. */
static enum hk_status encode_up_to_token(struct encoding *e, unsigned level, struct hk_bytes text,
                                         size_t from, size_t at, const struct tok_added_one *found,
                                         bool prefix, size_t *to)
{
    unsigned flags = e->out.t->flags[found->id];
    *to = at + found->text.n;
    if ((flags & HK_ADDED_LSTRIP) != 0)
        at = hke_skip_spaces_back(text, from, at);
    if ((flags & HK_ADDED_RSTRIP) != 0)
        *to = hke_skip_spaces(text, *to);
    enum hk_status st =
        encode_level(e, level + 1, (struct hk_bytes){text.p + from, at - from}, prefix);
    return st == HK_OK ? hke_emit_token(&e->out, found->id) : st;
}

static enum hk_status encode_between_added(struct encoding *e, unsigned level, struct hk_bytes text,
                                           bool prefix)
{
    const struct tok_added *a = &e->out.t->added[level];
    size_t from = 0;
    for (size_t at = 0; at < text.n && a->n > 0;) {
        unsigned first = text.p[at];
        const struct tok_added_one *found =
            a->first[first] == a->first[first + 1]
                ? NULL
                : hke_match_added(e->out.t, a, text, at, e->special, &e->out.work);
        enum hk_status st = hke_check_work(&e->out, "added tokens");
        if (st == HK_OK && found == NULL) {
            at++;
            continue;
        }
        if (st == HK_OK)
            st = encode_up_to_token(e, level, text, from, at, found, prefix, &from);
        if (st != HK_OK)
            return st;
        at = from;
        prefix = !e->out.t->prefix_first;
    }
    return encode_level(e, level + 1, (struct hk_bytes){text.p + from, text.n - from}, prefix);
}

static enum hk_status encode_level(struct encoding *e, unsigned level, struct hk_bytes text,
                                   bool prefix)
{
    if (text.n == 0)
        return HK_OK;
    if (level == 2)
        return encode_plain_text(e, text, prefix);
    if (level == 1 && e->out.t->nfc && !hke_normalise(&e->nfc, text, &text))
        return hk_fail_nomem(e->out.err);
    return encode_between_added(e, level, text, prefix);
}

static bool wants_bos(const struct hke_tokenizer *t, unsigned options)
{
    if ((options & HKE_CONTINUED) != 0)
        return false;
    return (options & HKE_ADD_BOS) != 0 || ((options & HKE_ADD_SPECIAL) != 0 && hke_adds_bos(t));
}

/* IDS from AT on begin with a bos that was added; drop it where the text begins with one too. */
static void drop_second_bos(struct hke_ids *ids, size_t at)
{
    if (ids->n < at + 2 || ids->id[at] != ids->id[at + 1])
        return;
    memmove(ids->id + at, ids->id + at + 1, (ids->n - at - 1) * sizeof *ids->id);
    ids->n--;
}

enum hk_status hke_encode(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                          struct hke_ids *out, struct hk_error *err)
{
    enum { PER_BYTE = 512, ALWAYS = 1 << 20 };
    struct encoding e = {.out = {.t = t, .ids = out, .err = err},
                         .words = {.out = &e.out},
                         .splitter = {.words = &e.words},
                         .special = (options & HKE_PARSE_SPECIAL) != 0};
    size_t before = out->n;
    const bool bos = wants_bos(t, options);
    const bool eos = (options & HKE_ADD_SPECIAL) != 0 && (options & HKE_TO_BE_CONTINUED) == 0;
    e.out.budget = (uint64_t)text.n * PER_BYTE + ALWAYS;
    enum hk_status st = hke_words_prepare(&e.words, text.n) ? HK_OK : hk_fail_nomem(err);
    if (st == HK_OK && bos)
        st = hke_emit_token(&e.out, (uint32_t)t->bos);
    if (st == HK_OK)
        st = encode_level(&e, 0, text, (options & HKE_CONTINUED) == 0);
    if (st == HK_OK && bos && (options & HKE_ONE_BOS) != 0)
        drop_second_bos(out, before);
    if (st == HK_OK && eos && hke_adds_eos(t))
        st = hke_emit_token(&e.out, (uint32_t)t->eos);
    if (st != HK_OK)
        out->n = before;
    hke_words_release(&e.words);
    hke_splitter_release(&e.splitter);
    hke_text_free(&e.escaped);
    hke_nfc_free(&e.nfc);
    return st;
}

void hke_ids_free(struct hke_ids *ids)
{
    free(ids->id);
    *ids = (struct hke_ids){0};
}
