/* SentencePiece BPE vocabularies: scores order the merges, spaces are spelled U+2581, characters
 * without a piece fall back to bytes. */
#include "engine/tokenizer/spm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/grow.h"

static bool is_escaped_space(const uint8_t *p, const uint8_t *end)
{
    return end - p >= 3 && memcmp(p, HK_VOCAB_SPACE, 3) == 0;
}

struct scored {
    float score;
    uint32_t id;
};

static int compare_scored(const void *pa, const void *pb)
{
    const struct scored *a = pa, *b = pb;
    int c = (a->score < b->score) - (a->score > b->score);
    return c != 0 ? c : (a->id > b->id) - (a->id < b->id);
}

static enum hk_status rank_tokens_by_score(struct hke_tokenizer *t, const struct hk_kv *kv,
                                           const struct hk_array *a, struct scored *order,
                                           struct hk_error *err)
{
    for (uint32_t i = 0; i < a->count; i++) {
        order[i] = (struct scored){hk_array_f32(a, i), i};
        if (isnan(order[i].score))
            return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: score of token %u is not a number",
                           hk_vocab_key(HK_VOCAB_SCORES), i);
    }
    qsort(order, a->count, sizeof *order, compare_scored);
    for (uint32_t i = 0, rank = 0; i < a->count; i++) {
        if (i > 0 && order[i].score < order[i - 1].score)
            rank = i;
        t->rank[order[i].id] = rank;
    }
    return HK_OK;
}

static enum hk_status load_score_ranks(struct hke_tokenizer *t, const struct hk_file *f,
                                       struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_SCORES);
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "%s: a SentencePiece vocabulary needs them",
                       hk_vocab_key(HK_VOCAB_SCORES));
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_F32, &a, err);
    if (st != HK_OK)
        return st;
    struct scored *order = calloc(a.count, sizeof *order);
    t->rank = calloc(a.count, sizeof *t->rank);
    if (order == NULL || t->rank == NULL)
        st = hk_fail_nomem(err);
    else
        st = rank_tokens_by_score(t, kv, &a, order, err);
    free(order);
    hk_array_free(&a);
    return st;
}

/* Mark the characters of PIECE, other than a space, that a space or a line's end follows. */
static void mark_piece_joins(struct hke_tokenizer *t, struct hk_bytes piece)
{
    const uint8_t *end = piece.p + piece.n;
    for (size_t i = 1; i < piece.n; i++) {
        if (is_escaped_space(piece.p + i, end) &&
            !(i >= 3 && is_escaped_space(piece.p + i - 3, end)))
            t->joins[piece.p[i - 1]] = true;
        if (piece.p[i] == '\n')
            t->joins_line[piece.p[i - 1]] = true;
    }
}

static enum hk_status index_mergeable_pieces(struct hke_tokenizer *t, struct hk_error *err)
{
    bool *keep = calloc(t->piece.n, sizeof *keep);
    if (keep == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < t->piece.n; i++) {
        unsigned type = t->type[i];
        keep[i] = type == HK_TOKEN_NORMAL || type == HK_TOKEN_USER || type == HK_TOKEN_UNUSED;
        t->has_unused |= type == HK_TOKEN_UNUSED;
        if (keep[i])
            mark_piece_joins(t, tok_string(&t->piece, i));
    }
    enum hk_status st = hke_index_strings(&t->words, &t->piece, keep, err);
    free(keep);
    for (unsigned c = 0; c < 128 && st == HK_OK; c++) {
        uint8_t letter = (uint8_t)c;
        t->letter[c] = hke_find_string(&t->words, &t->piece, &letter, 1);
    }
    return st;
}

/* tokenizer.hk.space_prefix. */
static enum hk_status load_space_prefix(struct hke_tokenizer *t, const struct hk_file *f,
                                        struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_PREFIX_SCHEME);
    struct hk_bytes name;
    t->space_prefix = true;
    enum hk_status st = hke_load_bool(f, HK_VOCAB_ADD_SPACE_PREFIX, &t->space_prefix, err);
    if (st != HK_OK || kv == NULL)
        return st;
    if ((st = hk_kv_string(kv, &name, err)) != HK_OK)
        return st;
    t->prefix_single = true;
    t->prefix_first = hk_bytes_are(name, "first");
    if (!t->prefix_first && !hk_bytes_are(name, "always"))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown prefix \"%.*s\"",
                       hk_vocab_key(HK_VOCAB_PREFIX_SCHEME), HK_STR(name));
    return HK_OK;
}

enum hk_status hke_load_spm(struct hke_tokenizer *t, const struct hk_file *f, struct hk_error *err)
{
    enum hk_status st = load_score_ranks(t, f, err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = t->piece.n; i-- > 0;) {
        if (t->type[i] == HK_TOKEN_BYTE)
            t->byte[hk_vocab_byte(tok_string(&t->piece, i))] = i;
    }
    st = load_space_prefix(t, f, err);
    return st == HK_OK ? index_mergeable_pieces(t, err) : st;
}

/* TEXT with U+2581 for its spaces and for the dummy prefix, in OUT. */
static bool escape_spaces(struct hke_text *out, struct hk_bytes text, bool prefix)
{
    size_t spaces = prefix;
    for (size_t i = 0; i < text.n; i++)
        spaces += text.p[i] == ' ';
    out->n = text.n + 2 * spaces + prefix;
    if (!hk_grow(&out->p, &out->capacity, out->n, 1))
        return false;
    uint8_t *q = out->p;
    if (prefix) {
        memcpy(q, HK_VOCAB_SPACE, 3);
        q += 3;
    }
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == ' ') {
            memcpy(q, HK_VOCAB_SPACE, 3);
            q += 3;
        } else {
            *q++ = text.p[i];
        }
    }
    return true;
}

/* Length of the word at P: up to a space that no piece has behind the character before it, so that
 * nothing merges across. */
static size_t measure_spm_word(const bool joins[256], const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p;
    while (is_escaped_space(q, end))
        q += 3;
    while (q < end) {
        q = memchr(q, HK_VOCAB_SPACE[0], (size_t)(end - q));
        if (q == NULL)
            break;
        bool inner = q >= p + 3 && is_escaped_space(q - 3, end);
        if (is_escaped_space(q, end) && !inner && q > p && !joins[q[-1]])
            return (size_t)(q - p);
        q++;
    }
    return (size_t)(end - p);
}

enum hk_status hke_encode_spm(struct tok_words *w, struct hke_text *escaped, struct hk_bytes text,
                              bool prefix)
{
    const struct hke_tokenizer *t = w->out->t;
    bool begun = text.n > 0 && (text.p[0] == ' ' || is_escaped_space(text.p, text.p + text.n));
    prefix = prefix && t->space_prefix && !(t->prefix_single && begun);
    if (!escape_spaces(escaped, text, prefix))
        return hk_fail_nomem(w->out->err);
    const uint8_t *p = escaped->p, *end = p + escaped->n;
    enum hk_status st = HK_OK;
    while (p < end && st == HK_OK) {
        size_t n = measure_spm_word(t->joins, p, end);
        st = hke_encode_word(w, p, n);
        p += n;
    }
    return st;
}
