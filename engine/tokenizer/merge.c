/* Merging a word: of all neighbouring pairs that the vocabulary knows the best rank first, and of
 * equal ranks the leftmost. A list of symbols and a heap of pairs: n log n for a word of n bytes.
 */
#include <stdlib.h>

#include "engine/tokenizer/tok.h"

static bool heap_push(struct tok_run *r, struct tok_bigram b)
{
    if (!hke_tok_grow(&r->heap, &r->heap_capacity, r->heap_n + 1, sizeof *r->heap))
        return false;
    size_t i = r->heap_n++;
    for (; i > 0 && r->heap[(i - 1) / 2].key > b.key; i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = b;
    return true;
}

static struct tok_bigram heap_pop(struct tok_run *r)
{
    struct tok_bigram top = r->heap[0], last = r->heap[--r->heap_n];
    size_t i = 0;
    for (size_t child = 1; child < r->heap_n; child = 2 * i + 1) {
        if (child + 1 < r->heap_n && r->heap[child + 1].key < r->heap[child].key)
            child++;
        if (r->heap[child].key >= last.key)
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return top;
}

/* SPM: the token of two neighbours' text. Strings are looked up once for each pair of tokens. */
static uint32_t joined_piece(struct tok_run *r, const uint8_t *word, const struct tok_symbol *a,
                             const struct tok_symbol *b)
{
    const struct hke_tokenizer *t = r->t;
    uint32_t n = a->n + b->n;
    if (r->pair == NULL || a->id == TOK_NONE || b->id == TOK_NONE)
        return hke_tok_table_find(&t->words, &t->piece, word + a->start, n);
    uint32_t h = (a->id * 0x9e3779b1u ^ b->id) * 0x85ebca6bu;
    struct tok_pair *p = &r->pair[(h >> 16 ^ h) % TOK_PAIRS];
    if (p->left != a->id + 1 || p->right != b->id) {
        uint32_t id = hke_tok_table_find(&t->words, &t->piece, word + a->start, n);
        *p = (struct tok_pair){a->id + 1, b->id, id};
    }
    return p->id;
}

/* Queue the pair of LEFT and the symbol after it, if the vocabulary has it. */
static bool consider(struct tok_run *r, const uint8_t *word, uint32_t left)
{
    const struct hke_tokenizer *t = r->t;
    const struct tok_symbol *a = &r->symbol[left];
    if (a->next == TOK_NONE)
        return true;
    const struct tok_symbol *b = &r->symbol[a->next];
    uint32_t n = a->n + b->n, rank, id;
    if (t->kind == HK_VOCAB_BPE) {
        const struct tok_merge *m = hke_tok_merges_find(&t->merges, a->id, b->id);
        if (m == NULL)
            return true;
        rank = m->rank;
        id = m->id;
    } else {
        id = joined_piece(r, word, a, b);
        if (id == TOK_NONE)
            return true;
        rank = t->rank[id];
        if (r->unused_split != NULL && t->type[id] == HK_TOKEN_UNUSED)
            r->unused_split[id] = a->n;
    }
    return heap_push(r, (struct tok_bigram){(uint64_t)rank << 32 | left, n, id});
}

/* The symbol at P: a byte (BPE) or a character (SPM; an invalid byte is one). */
static struct tok_symbol first_symbol(const struct hke_tokenizer *t, const uint8_t *p,
                                      const uint8_t *end)
{
    if (t->kind == HK_VOCAB_BPE)
        return (struct tok_symbol){.n = 1, .id = t->byte[*p]};
    if (*p < 0x80)
        return (struct tok_symbol){.n = 1, .id = t->letter[*p]};
    unsigned n = hk_utf8_length(p, end);
    n = n == 0 ? 1 : n;
    return (struct tok_symbol){.n = n, .id = hke_tok_table_find(&t->words, &t->piece, p, n)};
}

static bool make_symbols(struct tok_run *r, const uint8_t *p, size_t n)
{
    if (!hke_tok_grow(&r->symbol, &r->symbols, n, sizeof *r->symbol))
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; count++) {
        struct tok_symbol s = first_symbol(r->t, p + i, p + n);
        s.start = i;
        s.prev = count - 1; /* of the first: TOK_NONE */
        s.next = count + 1;
        r->symbol[count] = s;
        i += s.n;
    }
    r->symbol[count - 1].next = TOK_NONE;
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (!consider(r, p, i))
            return false;
    }
    return true;
}

static bool merge_all(struct tok_run *r, const uint8_t *word)
{
    while (r->heap_n > 0) {
        struct tok_bigram b = heap_pop(r);
        struct tok_symbol *left = &r->symbol[(uint32_t)b.key];
        /* Stale if either half was merged since: the two lengths then no longer add up. */
        if (left->n == 0 || left->next == TOK_NONE || left->n + r->symbol[left->next].n != b.n)
            continue;
        struct tok_symbol *right = &r->symbol[left->next];
        left->n = b.n;
        left->id = b.id;
        left->next = right->next;
        right->n = 0;
        if (left->next != TOK_NONE)
            r->symbol[left->next].prev = (uint32_t)b.key;
        if ((left->prev != TOK_NONE && !consider(r, word, left->prev)) ||
            !consider(r, word, (uint32_t)b.key))
            return false;
    }
    return true;
}

/* The part of an unused piece that begins at AT: SentencePiece takes such a piece apart again, into
 * the halves it was last made of, until no part is unused. */
static struct tok_symbol unused_part(struct tok_run *r, const uint8_t *p, struct tok_symbol s,
                                     uint32_t at)
{
    const struct hke_tokenizer *t = r->t;
    while (s.id != TOK_NONE && t->type[s.id] == HK_TOKEN_UNUSED && r->unused_split[s.id] != 0) {
        uint32_t left = r->unused_split[s.id];
        r->work++;
        if (at < s.start + left) {
            s.n = left;
        } else {
            s.start += left;
            s.n -= left;
        }
        s.id = hke_tok_table_find(&t->words, &t->piece, p + s.start, s.n);
    }
    return s;
}

static enum hk_status emit_symbol(struct tok_run *r, const uint8_t *p, struct tok_symbol s)
{
    if (s.id != TOK_NONE)
        return hke_tok_emit(r, s.id);
    return hke_tok_emit_bytes(r, p + s.start, s.n);
}

static enum hk_status emit_unused(struct tok_run *r, const uint8_t *p, struct tok_symbol s)
{
    for (uint32_t at = s.start; at < s.start + s.n;) {
        struct tok_symbol part = unused_part(r, p, s, at);
        enum hk_status st = hke_tok_check_work(r, "unused tokens");
        if (st == HK_OK)
            st = emit_symbol(r, p, part);
        if (st != HK_OK)
            return st;
        at = part.start + part.n;
    }
    return HK_OK;
}

enum hk_status hke_tok_merge_word(struct tok_run *r, const uint8_t *p, size_t n)
{
    if (n > INT32_MAX)
        return hk_fail(r->err, HK_E_RANGE, HK_NO_OFFSET, "text: a word of %zu bytes", n);
    r->heap_n = 0;
    if (!make_symbols(r, p, n) || !merge_all(r, p))
        return hk_fail_nomem(r->err);
    enum hk_status st = HK_OK;
    for (uint32_t i = 0; i != TOK_NONE && st == HK_OK; i = r->symbol[i].next) {
        struct tok_symbol sym = r->symbol[i];
        st = r->unused_split != NULL ? emit_unused(r, p, sym) : emit_symbol(r, p, sym);
    }
    return st;
}
