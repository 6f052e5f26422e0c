/* A word's tokens: those that were found for it before, the token that it is as a whole, or what
 * its bytes or characters merge to.
 *
 * Merging takes of all neighbouring pairs that the vocabulary knows the best rank first, and of
 * equal ranks the leftmost. A list of symbols and a heap of pairs: n log n for a word of n bytes.
 */
#include "engine/tokenizer/words.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/grow.h"

enum { PAIRS = 1 << 15 };

/* ---- merging ---- */

static bool push_bigram(struct tok_words *w, struct tok_bigram b)
{
    if (!hk_grow(&w->heap, &w->heap_capacity, w->heap_n + 1, sizeof *w->heap))
        return false;
    size_t i = w->heap_n++;
    for (; i > 0 && w->heap[(i - 1) / 2].key > b.key; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = b;
    return true;
}

static struct tok_bigram pop_bigram(struct tok_words *w)
{
    struct tok_bigram top = w->heap[0], last = w->heap[--w->heap_n];
    size_t i = 0;
    for (size_t child = 1; child < w->heap_n; child = 2 * i + 1) {
        if (child + 1 < w->heap_n && w->heap[child + 1].key < w->heap[child].key)
            child++;
        if (w->heap[child].key >= last.key)
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* SPM: the token of two neighbours' text. Strings are looked up once for each pair of tokens. */
static uint32_t find_joined_token(struct tok_words *w, const uint8_t *word,
                                  const struct tok_symbol *a, const struct tok_symbol *b)
{
    const struct hke_tokenizer *t = w->out->t;
    uint32_t n = a->n + b->n;
    if (w->pair == NULL || a->id == TOK_NONE || b->id == TOK_NONE)
        return hke_find_string(&t->words, &t->piece, word + a->start, n);
    uint32_t h = (a->id * 0x9e3779b1u ^ b->id) * 0x85ebca6bu;
    struct tok_pair *p = &w->pair[(h >> 16 ^ h) % PAIRS];
    if (p->left != a->id + 1 || p->right != b->id) {
        uint32_t id = hke_find_string(&t->words, &t->piece, word + a->start, n);
        *p = (struct tok_pair){a->id + 1, b->id, id};
    }
    return p->id;
}

/* Queue the pair of LEFT and the symbol after it, if the vocabulary has it. */
static bool queue_pair(struct tok_words *w, const uint8_t *word, uint32_t left)
{
    const struct hke_tokenizer *t = w->out->t;
    const struct tok_symbol *a = &w->symbol[left];
    if (a->next == TOK_NONE)
        return true;
    const struct tok_symbol *b = &w->symbol[a->next];
    uint32_t n = a->n + b->n, rank, id;
    if (t->kind == HK_VOCAB_BPE) {
        const struct tok_merge *m = hke_find_merge(&t->merges, a->id, b->id);
        if (m == NULL)
            return true;
        rank = m->rank;
        id = m->id;
    } else {
        id = find_joined_token(w, word, a, b);
        if (id == TOK_NONE)
            return true;
        rank = t->rank[id];
        if (w->unused_split != NULL && t->type[id] == HK_TOKEN_UNUSED)
            w->unused_split[id] = a->n;
    }
    return push_bigram(w, (struct tok_bigram){(uint64_t)rank << 32 | left, n, id});
}

/* The symbol at P: a byte (BPE) or a character (SPM; an invalid byte is one). */
static struct tok_symbol make_symbol(const struct hke_tokenizer *t, const uint8_t *p,
                                     const uint8_t *end)
{
    if (t->kind == HK_VOCAB_BPE)
        return (struct tok_symbol){.n = 1, .id = t->byte[*p]};
    if (*p < 0x80)
        return (struct tok_symbol){.n = 1, .id = t->letter[*p]};
    unsigned n = hk_utf8_length(p, end);
    n = n == 0 ? 1 : n;
    return (struct tok_symbol){.n = n, .id = hke_find_string(&t->words, &t->piece, p, n)};
}

static bool make_symbols(struct tok_words *w, const uint8_t *p, size_t n)
{
    if (!hk_grow(&w->symbol, &w->symbols, n, sizeof *w->symbol))
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; count++) {
        struct tok_symbol s = make_symbol(w->out->t, p + i, p + n);
        s.start = i;
        s.prev = count - 1; /* of the first: TOK_NONE */
        s.next = count + 1;
        w->symbol[count] = s;
        i += s.n;
    }
    w->symbol[count - 1].next = TOK_NONE;
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (!queue_pair(w, p, i))
            return false;
    }
    return true;
}

static bool merge_queued_pairs(struct tok_words *w, const uint8_t *word)
{
    while (w->heap_n > 0) {
        struct tok_bigram b = pop_bigram(w);
        struct tok_symbol *left = &w->symbol[(uint32_t)b.key];
        /* Stale if either half was merged since: the two lengths then no longer add up. */
        if (left->n == 0 || left->next == TOK_NONE || left->n + w->symbol[left->next].n != b.n)
            continue;
        struct tok_symbol *right = &w->symbol[left->next];
        left->n = b.n;
        left->id = b.id;
        left->next = right->next;
        right->n = 0;
        if (left->next != TOK_NONE)
            w->symbol[left->next].prev = (uint32_t)b.key;
        if ((left->prev != TOK_NONE && !queue_pair(w, word, left->prev)) ||
            !queue_pair(w, word, (uint32_t)b.key))
            return false;
    }
    return true;
}

/* The part of an unused piece that begins at AT: SentencePiece takes such a piece apart again, into
 * the halves it was last made of, until no part is unused. */
static struct tok_symbol unused_part(struct tok_words *w, const uint8_t *p, struct tok_symbol s,
                                     uint32_t at)
{
    const struct hke_tokenizer *t = w->out->t;
    while (s.id != TOK_NONE && t->type[s.id] == HK_TOKEN_UNUSED && w->unused_split[s.id] != 0) {
        uint32_t left = w->unused_split[s.id];
        w->out->work++;
        if (at < s.start + left) {
            s.n = left;
        } else {
            s.start += left;
            s.n -= left;
        }
        s.id = hke_find_string(&t->words, &t->piece, p + s.start, s.n);
    }
    return s;
}

static enum hk_status emit_symbol(struct tok_words *w, const uint8_t *p, struct tok_symbol s)
{
    if (s.id != TOK_NONE)
        return hke_emit_token(w->out, s.id);
    return hke_emit_bytes(w->out, p + s.start, s.n);
}

static enum hk_status emit_unused_parts(struct tok_words *w, const uint8_t *p, struct tok_symbol s)
{
    for (uint32_t at = s.start; at < s.start + s.n;) {
        struct tok_symbol part = unused_part(w, p, s, at);
        enum hk_status st = hke_check_work(w->out, "unused tokens");
        if (st == HK_OK)
            st = emit_symbol(w, p, part);
        if (st != HK_OK)
            return st;
        at = part.start + part.n;
    }
    return HK_OK;
}

static enum hk_status merge_word(struct tok_words *w, const uint8_t *p, size_t n)
{
    if (n > INT32_MAX)
        return hk_fail(w->out->err, HK_E_RANGE, HK_NO_OFFSET, "text: a word of %zu bytes", n);
    w->heap_n = 0;
    if (!make_symbols(w, p, n) || !merge_queued_pairs(w, p))
        return hk_fail_nomem(w->out->err);
    enum hk_status st = HK_OK;
    for (uint32_t i = 0; i != TOK_NONE && st == HK_OK; i = w->symbol[i].next) {
        struct tok_symbol sym = w->symbol[i];
        st = w->unused_split != NULL ? emit_unused_parts(w, p, sym) : emit_symbol(w, p, sym);
    }
    return st;
}

/* ---- whole words ---- */

/* The word in the byte alphabet is looked up among the pieces: for whole words before merging. */
static enum hk_status find_whole_word(struct tok_words *w, const uint8_t *p, size_t n, uint32_t *id)
{
    const struct hke_tokenizer *t = w->out->t;
    *id = TOK_NONE;
    if (n > SIZE_MAX / 2 || !hk_grow(&w->spelled, &w->spelled_capacity, 2 * n, 1))
        return hk_fail_nomem(w->out->err);
    uint8_t *q = w->spelled;
    for (size_t i = 0; i < n; i++) {
        uint32_t byte = t->byte[p[i]];
        if (byte == TOK_NONE || t->type[byte] != HK_TOKEN_NORMAL)
            return HK_OK;
        struct hk_bytes letter = tok_string(&t->piece, byte);
        memcpy(q, letter.p, letter.n);
        q += letter.n;
    }
    uint32_t found = hke_find_string(&t->words, &t->piece, w->spelled, (size_t)(q - w->spelled));
    if (found != TOK_NONE && t->type[found] == HK_TOKEN_NORMAL)
        *id = found;
    return HK_OK;
}

/* ---- words seen before: a table where each new word takes the place of an older one ---- */

enum { CACHED_BYTES = 22, CACHED_IDS = 8, CACHE_SIZE = 1 << 14, CACHE_WORTH = 2048 };

struct tok_cached {
    uint8_t n, ids; /* n 0: empty */
    uint8_t word[CACHED_BYTES];
    uint32_t id[CACHED_IDS];
};

static struct tok_cached *find_cached_word(struct tok_words *w, const uint8_t *p, size_t n)
{
    if (w->cache == NULL || n > CACHED_BYTES)
        return NULL;
    return &w->cache[hke_hash_bytes(0, p, n) & (CACHE_SIZE - 1)];
}

static enum hk_status encode_new_word(struct tok_words *w, const uint8_t *p, size_t n)
{
    if (w->out->t->ignore_merges) {
        uint32_t id;
        enum hk_status st = find_whole_word(w, p, n, &id);
        if (st != HK_OK || id != TOK_NONE)
            return st == HK_OK ? hke_emit_token(w->out, id) : st;
    }
    return merge_word(w, p, n);
}

enum hk_status hke_encode_word(struct tok_words *w, const uint8_t *p, size_t n)
{
    struct tok_cached *c = find_cached_word(w, p, n);
    enum hk_status st = HK_OK;
    if (c != NULL && c->n == n && memcmp(c->word, p, n) == 0) {
        for (unsigned i = 0; i < c->ids && st == HK_OK; i++)
            st = hke_emit_token(w->out, c->id[i]);
        return st;
    }
    size_t first = w->out->ids->n;
    st = encode_new_word(w, p, n);
    size_t ids = w->out->ids->n - first;
    if (st == HK_OK && c != NULL && ids <= CACHED_IDS) {
        c->n = (uint8_t)n;
        c->ids = (uint8_t)ids;
        memcpy(c->word, p, n);
        memcpy(c->id, w->out->ids->id + first, ids * sizeof *c->id);
    }
    return st;
}

bool hke_words_prepare(struct tok_words *w, size_t size)
{
    const struct hke_tokenizer *t = w->out->t;
    if (size >= CACHE_WORTH) {
        w->cache = calloc(CACHE_SIZE, sizeof *w->cache);
        w->pair = t->kind == HK_VOCAB_SPM ? calloc(PAIRS, sizeof *w->pair) : NULL;
        if (w->cache == NULL || (w->pair == NULL && t->kind == HK_VOCAB_SPM))
            return false;
    }
    if (t->has_unused)
        w->unused_split = calloc(t->piece.n, sizeof *w->unused_split);
    return !t->has_unused || w->unused_split != NULL;
}

void hke_words_release(struct tok_words *w)
{
    free(w->symbol);
    free(w->heap);
    free(w->unused_split);
    free(w->cache);
    free(w->pair);
    free(w->spelled);
}
