/* Byte-level BPE vocabularies: a text is split by patterns, and the bytes of each word merge in the
 * order of the file's list of merges. */
#include "engine/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

/* While loading. */
struct loading {
    struct hke_tokenizer *t;
    struct tok_merge *merge;
    uint8_t *joined;       /* room for two pieces */
    uint64_t offset;       /* of the merges in the file */
    uint64_t work, budget; /* bytes of lines, as often as they were tried */
};

static uint32_t find_merge_piece(const struct loading *l, struct hk_bytes b)
{
    return hke_find_string(&l->t->words, &l->t->piece, b.p, b.n);
}

static bool is_piece_of_halves(const struct loading *l, uint32_t id, struct hk_bytes left,
                               struct hk_bytes right)
{
    if (id >= l->t->piece.n)
        return false;
    struct hk_bytes b = tok_string(&l->t->piece, id);
    return b.n == left.n + right.n && memcmp(b.p, left.p, left.n) == 0 &&
           memcmp(b.p + left.n, right.p, right.n) == 0;
}

/* The token that LEFT and RIGHT make. Vocabularies are mostly in the order of their merges, so it
 * is the one of the merge before or the next, and need not be looked up. */
static uint32_t find_joined_piece(const struct loading *l, uint32_t i, struct hk_bytes left,
                                  struct hk_bytes right)
{
    uint32_t last = i > 0 ? l->merge[i - 1].id : 0;
    for (uint32_t id = last; id <= last + 1; id++) {
        if (is_piece_of_halves(l, id, left, right))
            return id;
    }
    memcpy(l->joined, left.p, left.n);
    memcpy(l->joined + left.n, right.p, right.n);
    return find_merge_piece(l, (struct hk_bytes){l->joined, left.n + right.n});
}

/* Fill merge I from its halves; false if one of the three is not in the vocabulary. */
static bool resolve_merge(struct loading *l, uint32_t i, struct hk_bytes left,
                          struct hk_bytes right)
{
    uint32_t a = find_merge_piece(l, left), b = find_merge_piece(l, right);
    if (a == TOK_NONE || b == TOK_NONE)
        return false;
    l->merge[i] = (struct tok_merge){a, b, i, find_joined_piece(l, i, left, right)};
    return l->merge[i].id != TOK_NONE;
}

/* A merge "LEFT RIGHT". Pieces may contain spaces: the split that gives three tokens counts. */
static bool resolve_merge_line(struct loading *l, uint32_t i, struct hk_bytes line)
{
    for (size_t k = 1; k + 1 < line.n; k++) {
        l->work += line.p[k] == ' ' ? line.n : 1;
        if (l->work > l->budget)
            return false;
        if (line.p[k] == ' ' && resolve_merge(l, i, (struct hk_bytes){line.p, k},
                                              (struct hk_bytes){line.p + k + 1, line.n - k - 1}))
            return true;
    }
    return false;
}

/* Look-ups wait for memory: ask early for what merge I needs. */
static void prefetch_merge(const struct loading *l, const struct hk_array *a, bool pairs,
                           uint32_t i)
{
    struct hk_bytes left = hk_array_string(a, pairs ? 2 * i : i), right = left;
    if (pairs) {
        right = hk_array_string(a, 2 * i + 1);
    } else {
        const uint8_t *space = left.n > 1 ? memchr(left.p + 1, ' ', left.n - 1) : NULL;
        if (space == NULL)
            return;
        left.n = (size_t)(space - left.p);
        right = (struct hk_bytes){space + 1, right.n - left.n - 1};
    }
    hke_prefetch_string(&l->t->words, left.p, left.n);
    hke_prefetch_string(&l->t->words, right.p, right.n);
}

static enum hk_status resolve_merge_list(struct loading *l, const struct hk_array *a, bool pairs,
                                         uint32_t n, struct hk_error *err)
{
    enum { AHEAD = 16 };
    enum { PER_BYTE = 64, ALWAYS = 1 << 20 };
    l->budget = ALWAYS;
    for (uint32_t i = 0; i < n; i++) {
        struct hk_bytes b = hk_array_string(a, pairs ? 2 * i : i);
        l->budget += (uint64_t)b.n * PER_BYTE;
        if (n - i > AHEAD)
            prefetch_merge(l, a, pairs, i + AHEAD);
        bool good = pairs ? resolve_merge(l, i, b, hk_array_string(a, 2 * i + 1))
                          : resolve_merge_line(l, i, b);
        if (l->work > l->budget)
            return hk_fail(err, HK_E_UNSUPPORTED, l->offset, "%s: merge %u has too many spaces",
                           hk_vocab_key(HK_VOCAB_MERGES), i);
        if (!good)
            return hk_fail(err, HK_E_FORMAT, l->offset,
                           "%s: merge %u (\"%.*s\") is not of three tokens",
                           hk_vocab_key(HK_VOCAB_MERGES), i, HK_STR(b));
    }
    return HK_OK;
}

static enum hk_status index_merge_list(struct loading *l, const struct hk_array *a, bool pairs,
                                       struct hk_error *err)
{
    uint32_t n = pairs ? a->count / 2 : a->count;
    l->merge = calloc((size_t)n + 1, sizeof *l->merge);
    l->joined = malloc((size_t)l->t->piece.off[l->t->piece.n] * 2 + 1);
    if (l->merge == NULL || l->joined == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = resolve_merge_list(l, a, pairs, n, err);
    return st == HK_OK ? hke_index_merges(&l->t->merges, l->merge, n, err) : st;
}

/* The same list of strings without the inner brackets of a json array of pairs. *PAIRS false: it
 * has none. False: some element is no pair. */
static bool flatten_json_pairs(struct hk_bytes json, uint8_t *out, size_t *n, bool *pairs)
{
    unsigned depth = 0, commas = 0;
    bool text = false, good = true;
    *n = 0;
    *pairs = false;
    for (size_t i = 0; i < json.n; i++) {
        uint8_t c = json.p[i];
        bool drop = false;
        if (text && c == '\\' && i + 1 < json.n) {
            out[(*n)++] = c;
            c = json.p[++i];
        } else if (c == '"') {
            text = !text;
        } else if (!text && c == '[') {
            drop = ++depth == 2;
            commas = 0;
            good &= depth <= 2;
        } else if (!text && c == ']') {
            drop = depth == 2;
            good &= depth > 0 && (!drop || commas == 1);
            depth -= depth > 0;
        } else if (!text && c == ',') {
            commas++;
        }
        *pairs |= drop;
        if (!drop)
            out[(*n)++] = c;
    }
    return good;
}

/* The merges of KV, a json value. A list of pairs comes as one of twice as many strings. */
static enum hk_status read_json_merges(const struct hk_kv *kv, struct hk_array *a, bool *pairs,
                                       struct hk_error *err)
{
    uint8_t *flat = malloc(kv->value.n + 1);
    if (flat == NULL)
        return hk_fail_nomem(err);
    struct hk_kv copy = *kv;
    enum hk_status st;
    copy.value.p = flat;
    if (flatten_json_pairs(kv->value, flat, &copy.value.n, pairs))
        st = hk_kv_array(&copy, HK_ARRAY_STRING, a, err);
    else
        st = hk_fail(err, HK_E_FORMAT, kv->offset, "%s: not a list of pairs",
                     hk_vocab_key(HK_VOCAB_MERGES));
    free(flat);
    return st;
}

static enum hk_status load_merge_list(struct loading *l, const struct hk_file *f,
                                      struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_MERGES);
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "%s: a byte-level BPE vocabulary needs them", hk_vocab_key(HK_VOCAB_MERGES));
    l->offset = kv->offset;
    struct hk_array a;
    bool pairs = false;
    enum hk_status st = kv->type == HK_META_JSON ? read_json_merges(kv, &a, &pairs, err)
                                                 : hk_kv_array(kv, HK_ARRAY_STRING, &a, err);
    if (st != HK_OK)
        return st;
    st = index_merge_list(l, &a, pairs, err);
    hk_array_free(&a);
    return st;
}

/* The token of each byte is the piece of its one character in the byte alphabet. */
static void find_byte_tokens(struct hke_tokenizer *t)
{
    for (uint32_t i = t->text.n; i-- > 0;) {
        struct hk_bytes text = tok_string(&t->text, i), piece = tok_string(&t->piece, i);
        bool letter = t->type[i] == HK_TOKEN_NORMAL && piece.n <= 2;
        letter &= piece.n == 2 || text.p[0] > ' ';
        if (text.n == 1 && (letter || t->type[i] == HK_TOKEN_BYTE))
            t->byte[text.p[0]] = i;
    }
}

enum hk_status hke_load_bpe(struct hke_tokenizer *t, const struct hk_file *f, struct hk_error *err)
{
    struct loading l = {.t = t};
    find_byte_tokens(t);
    enum hk_status st = hke_load_bool(f, HK_VOCAB_IGNORE_MERGES, &t->ignore_merges, err);
    if (st == HK_OK)
        st = hke_index_strings(&t->words, &t->piece, NULL, err);
    if (st == HK_OK)
        st = load_merge_list(&l, f, err);
    free(l.merge);
    free(l.joined);
    if (!t->ignore_merges)
        hke_free_string_index(&t->words);
    return st;
}

/* Well-formed stretches are split by the patterns; what is not UTF-8 is a word between them. */
enum hk_status hke_encode_bpe(struct tok_splitter *x, struct hk_bytes text)
{
    const uint8_t *p = text.p, *end = p + text.n;
    while (p < end) {
        const uint8_t *q = p;
        unsigned n;
        while (q < end && (n = hk_utf8_length(q, end)) > 0)
            q += n;
        enum hk_status st =
            q > p ? hke_split_text(x, (struct hk_bytes){p, (size_t)(q - p)}) : HK_OK;
        for (p = q; q < end && hk_utf8_length(q, end) == 0;)
            q++;
        if (st == HK_OK && q > p)
            st = hke_encode_word(x->words, p, (size_t)(q - p));
        if (st != HK_OK)
            return st;
        p = q;
    }
    return HK_OK;
}
