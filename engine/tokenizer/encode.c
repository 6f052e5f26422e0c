/* One encoding: added tokens are found first, the text between them is cut into words, and words
 * that come again are not merged again. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tok.h"

bool hke_tok_grow(void *p, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t bytes, room = need < SIZE_MAX / 2 ? need + need / 2 + 16 : need;
    void *old;
    memcpy(&old, p, sizeof old);
    if (__builtin_mul_overflow(room, size, &bytes))
        return false;
    void *grown = realloc(old, bytes);
    if (grown == NULL)
        return false;
    memcpy(p, &grown, sizeof grown);
    *capacity = room;
    return true;
}

enum hk_status hke_tok_emit(struct tok_run *r, uint32_t id)
{
    struct hke_ids *out = r->out;
    if (!hke_tok_grow(&out->id, &out->capacity, out->n + 1, sizeof *out->id))
        return hk_fail_nomem(r->err);
    out->id[out->n++] = id;
    return HK_OK;
}

enum hk_status hke_tok_emit_bytes(struct tok_run *r, const uint8_t *p, size_t n)
{
    const struct hke_tokenizer *t = r->t;
    for (size_t i = 0; i < n; i++) {
        if (t->byte[p[i]] != TOK_NONE)
            continue;
        if (t->kind == HK_VOCAB_SPM && t->unk >= 0)
            return hke_tok_emit(r, (uint32_t)t->unk);
        return hk_fail(r->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "text: the vocabulary has no token for byte 0x%02x", p[i]);
    }
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < n && st == HK_OK; i++)
        st = hke_tok_emit(r, t->byte[p[i]]);
    return st;
}

enum hk_status hke_tok_check_work(const struct tok_run *r, const char *what)
{
    return r->work <= r->budget ? HK_OK
                                : hk_fail(r->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                                          "%s: too much work for a text of this length", what);
}

/* ---- words seen before: a table where each new word takes the place of an older one ---- */

enum { CACHED_BYTES = 22, CACHED_IDS = 8, CACHE_SIZE = 1 << 14, CACHE_WORTH = 2048 };

struct tok_cached {
    uint8_t n, ids; /* n 0: empty */
    uint8_t word[CACHED_BYTES];
    uint32_t id[CACHED_IDS];
};

static struct tok_cached *cached(struct tok_run *r, const uint8_t *p, size_t n)
{
    if (r->cache == NULL || n > CACHED_BYTES)
        return NULL;
    return &r->cache[hke_tok_hash(0, p, n) & (CACHE_SIZE - 1)];
}

static enum hk_status make_word(struct tok_run *r, const uint8_t *p, size_t n)
{
    if (r->t->ignore_merges) {
        uint32_t id;
        enum hk_status st = hke_tok_bpe_whole(r, p, n, &id);
        if (st != HK_OK || id != TOK_NONE)
            return st == HK_OK ? hke_tok_emit(r, id) : st;
    }
    return hke_tok_merge_word(r, p, n);
}

enum hk_status hke_tok_word(struct tok_run *r, const uint8_t *p, size_t n)
{
    struct tok_cached *c = cached(r, p, n);
    enum hk_status st = HK_OK;
    if (c != NULL && c->n == n && memcmp(c->word, p, n) == 0) {
        for (unsigned i = 0; i < c->ids && st == HK_OK; i++)
            st = hke_tok_emit(r, c->id[i]);
        return st;
    }
    size_t first = r->out->n;
    st = make_word(r, p, n);
    size_t ids = r->out->n - first;
    if (st == HK_OK && c != NULL && ids <= CACHED_IDS) {
        c->n = (uint8_t)n;
        c->ids = (uint8_t)ids;
        memcpy(c->word, p, n);
        memcpy(c->id, r->out->id + first, ids * sizeof *c->id);
    }
    return st;
}

/* ---- the text ---- */

/* LEVEL 0 is the text as it is, where most added tokens are found; 1 is what lies between those, in
 * the normalisation that the vocabulary asks for, with the added tokens that are found there; 2 is
 * what then remains. PREFIX: a dummy prefix may stand before it. */
static enum hk_status encode_level(struct tok_run *r, unsigned level, struct hk_bytes text,
                                   bool prefix);

static enum hk_status plain_text(struct tok_run *r, struct hk_bytes text, bool prefix)
{
    return r->t->kind == HK_VOCAB_SPM ? hke_tok_spm_text(r, text, prefix)
                                      : hke_tok_bpe_text(r, text);
}

/* The text from FROM on up to the added token found at AT, and the token. *TO: where it ends, with
 * the blanks that are its own. */
static enum hk_status up_to_token(struct tok_run *r, unsigned level, struct hk_bytes text,
                                  size_t from, size_t at, const struct tok_added_one *found,
                                  bool prefix, size_t *to)
{
    unsigned flags = r->t->flags[found->id];
    *to = at + found->text.n;
    if ((flags & HK_ADDED_LSTRIP) != 0)
        at = hke_tok_spaces_before(text, from, at);
    if ((flags & HK_ADDED_RSTRIP) != 0)
        *to = hke_tok_spaces_behind(text, *to);
    enum hk_status st =
        encode_level(r, level + 1, (struct hk_bytes){text.p + from, at - from}, prefix);
    return st == HK_OK ? hke_tok_emit(r, found->id) : st;
}

static enum hk_status between_tokens(struct tok_run *r, unsigned level, struct hk_bytes text,
                                     bool prefix)
{
    const struct tok_added *a = &r->t->added[level];
    size_t from = 0;
    for (size_t at = 0; at < text.n && a->n > 0;) {
        unsigned first = text.p[at];
        const struct tok_added_one *found =
            a->first[first] == a->first[first + 1]
                ? NULL
                : hke_tok_added_match(r->t, a, text, at, r->special, &r->work);
        enum hk_status st = hke_tok_check_work(r, "added tokens");
        if (st == HK_OK && found == NULL) {
            at++;
            continue;
        }
        if (st == HK_OK)
            st = up_to_token(r, level, text, from, at, found, prefix, &from);
        if (st != HK_OK)
            return st;
        at = from;
        prefix = !r->t->prefix_first;
    }
    return encode_level(r, level + 1, (struct hk_bytes){text.p + from, text.n - from}, prefix);
}

static enum hk_status encode_level(struct tok_run *r, unsigned level, struct hk_bytes text,
                                   bool prefix)
{
    if (text.n == 0)
        return HK_OK;
    if (level == 2)
        return plain_text(r, text, prefix);
    if (level == 1 && r->t->nfc && !hke_tok_nfc(&r->nfc, text, &text))
        return hk_fail_nomem(r->err);
    return between_tokens(r, level, text, prefix);
}

static bool prepare(struct tok_run *r, struct hk_bytes text)
{
    if (text.n >= CACHE_WORTH) {
        r->cache = calloc(CACHE_SIZE, sizeof *r->cache);
        r->pair = r->t->kind == HK_VOCAB_SPM ? calloc(TOK_PAIRS, sizeof *r->pair) : NULL;
        if (r->cache == NULL || (r->pair == NULL && r->t->kind == HK_VOCAB_SPM))
            return false;
    }
    if (r->t->has_unused)
        r->unused_split = calloc(r->t->piece.n, sizeof *r->unused_split);
    return !r->t->has_unused || r->unused_split != NULL;
}

static void release(struct tok_run *r)
{
    free(r->symbol);
    free(r->heap);
    free(r->unused_split);
    free(r->cache);
    free(r->pair);
    free(r->escaped);
    hke_tok_nfc_free(&r->nfc);
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->context);
    pcre2_jit_stack_free(r->jit_stack);
}

enum hk_status hke_encode(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                          struct hke_ids *out, struct hk_error *err)
{
    enum { PER_BYTE = 512, ALWAYS = 1 << 20 };
    struct tok_run r = {.t = t, .out = out, .err = err};
    size_t before = out->n;
    bool ends = (options & HKE_ADD_SPECIAL) != 0, starts = (options & HKE_CONTINUED) == 0;
    r.budget = (uint64_t)text.n * PER_BYTE + ALWAYS;
    r.special = (options & HKE_PARSE_SPECIAL) != 0;
    enum hk_status st = prepare(&r, text) ? HK_OK : hk_fail_nomem(err);
    if (st == HK_OK && ends && starts && hke_adds_bos(t))
        st = hke_tok_emit(&r, (uint32_t)t->bos);
    if (st == HK_OK)
        st = encode_level(&r, 0, text, starts);
    if (st == HK_OK && ends && (options & HKE_TO_BE_CONTINUED) == 0 && hke_adds_eos(t))
        st = hke_tok_emit(&r, (uint32_t)t->eos);
    if (st != HK_OK)
        out->n = before;
    release(&r);
    return st;
}

void hke_ids_free(struct hke_ids *ids)
{
    free(ids->id);
    *ids = (struct hke_ids){0};
}
