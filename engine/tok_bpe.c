/* Byte-level BPE vocabularies: a text is split by patterns, and the bytes of each word merge in the
 * order of the file's list of merges. */
#include <stdlib.h>
#include <string.h>

#include "engine/tok.h"

/* While loading: all pieces by their spelling. */
struct loading {
    struct hke_tokenizer *t;
    struct tok_table pieces;
    struct tok_merge *merge;
    uint8_t *joined; /* room for two pieces */
    uint64_t offset; /* of the merges in the file */
};

static uint32_t find_piece(const struct loading *l, struct hk_bytes b)
{
    return hke_tok_table_find(&l->pieces, &l->t->piece, b.p, b.n);
}

/* Fill merge I from its halves; false if one of the three is not in the vocabulary. */
static bool resolve(struct loading *l, uint32_t i, struct hk_bytes left, struct hk_bytes right)
{
    uint32_t a = find_piece(l, left), b = find_piece(l, right);
    if (a == TOK_NONE || b == TOK_NONE)
        return false;
    memcpy(l->joined, left.p, left.n);
    memcpy(l->joined + left.n, right.p, right.n);
    uint32_t id = find_piece(l, (struct hk_bytes){l->joined, left.n + right.n});
    l->merge[i] = (struct tok_merge){a, b, i, id};
    return id != TOK_NONE;
}

/* A merge "LEFT RIGHT". Pieces may contain blanks: the split that gives three tokens counts. */
static bool resolve_line(struct loading *l, uint32_t i, struct hk_bytes line)
{
    for (size_t k = 1; k + 1 < line.n; k++) {
        if (line.p[k] == ' ' && resolve(l, i, (struct hk_bytes){line.p, k},
                                        (struct hk_bytes){line.p + k + 1, line.n - k - 1}))
            return true;
    }
    return false;
}

static enum hk_status index_merges(struct loading *l, const struct hk_array *a, bool pairs,
                                   struct hk_error *err)
{
    uint32_t n = pairs ? a->count / 2 : a->count;
    l->merge = calloc((size_t)n + 1, sizeof *l->merge);
    l->joined = malloc((size_t)l->t->piece.off[l->t->piece.n] * 2 + 1);
    if (l->merge == NULL || l->joined == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        struct hk_bytes b = hk_array_string(a, pairs ? 2 * i : i);
        bool good = pairs ? resolve(l, i, b, hk_array_string(a, 2 * i + 1)) : resolve_line(l, i, b);
        if (!good)
            return hk_fail(err, HK_E_FORMAT, l->offset,
                           "tokenizer.ggml.merges: merge %u (\"%.*s\") is not of three tokens", i,
                           HK_STR(b));
    }
    return hke_tok_merges_build(&l->t->merges, l->merge, n, err);
}

/* The same list of strings without the inner brackets of a json array of pairs. *PAIRS false: it
 * has none. False: some element is no pair. */
static bool flatten(struct hk_bytes json, uint8_t *out, size_t *n, bool *pairs)
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
static enum hk_status read_json(const struct hk_kv *kv, struct hk_array *a, bool *pairs,
                                struct hk_error *err)
{
    uint8_t *flat = malloc(kv->value.n + 1);
    if (flat == NULL)
        return hk_fail_nomem(err);
    struct hk_kv copy = *kv;
    enum hk_status s;
    copy.value.p = flat;
    if (flatten(kv->value, flat, &copy.value.n, pairs))
        s = hk_kv_array(&copy, HK_ARRAY_STRING, a, err);
    else
        s = hk_fail(err, HK_E_FORMAT, kv->offset, "tokenizer.ggml.merges: not a list of pairs");
    free(flat);
    return s;
}

static enum hk_status load_merges(struct loading *l, const struct hk_file *f, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "tokenizer.ggml.merges");
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "tokenizer.ggml.merges: a byte-level BPE vocabulary needs them");
    l->offset = kv->offset;
    struct hk_array a;
    bool pairs = false;
    enum hk_status s = kv->type == HK_META_JSON ? read_json(kv, &a, &pairs, err)
                                                : hk_kv_array(kv, HK_ARRAY_STRING, &a, err);
    if (s != HK_OK)
        return s;
    s = index_merges(l, &a, pairs, err);
    hk_array_free(&a);
    return s;
}

/* The token of each byte is the piece of its one character in the byte alphabet. */
static void find_bytes(struct hke_tokenizer *t)
{
    for (uint32_t i = t->text.n; i-- > 0;) {
        struct hk_bytes text = tok_string(&t->text, i), piece = tok_string(&t->piece, i);
        bool letter = t->type[i] == HKE_TOKEN_NORMAL && (piece.n == 2 || text.p[0] > ' ');
        if (text.n == 1 && (letter || t->type[i] == HKE_TOKEN_BYTE))
            t->byte[text.p[0]] = i;
    }
}

static enum hk_status index_words(struct hke_tokenizer *t, struct hk_error *err)
{
    bool *keep = calloc(t->text.n, sizeof *keep);
    if (keep == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < t->text.n; i++)
        keep[i] = t->type[i] == HKE_TOKEN_NORMAL;
    enum hk_status s = hke_tok_table_build(&t->words, &t->text, keep, err);
    free(keep);
    return s;
}

enum hk_status hke_tok_bpe_load(struct hke_tokenizer *t, const struct hk_file *f,
                                struct hk_error *err)
{
    struct loading l = {.t = t};
    find_bytes(t);
    enum hk_status s = hke_tok_table_build(&l.pieces, &t->piece, NULL, err);
    if (s == HK_OK)
        s = load_merges(&l, f, err);
    hke_tok_table_free(&l.pieces);
    free(l.merge);
    free(l.joined);
    if (s == HK_OK)
        s = hke_tok_key_bool(f, "tokenizer.ggml.ignore_merges", &t->ignore_merges, err);
    return s == HK_OK && t->ignore_merges ? index_words(t, err) : s;
}

/* Well-formed stretches are split by the patterns; what is not UTF-8 is a word between them. */
enum hk_status hke_tok_bpe_text(struct tok_run *r, struct hk_bytes text)
{
    const uint8_t *p = text.p, *end = p + text.n;
    while (p < end) {
        const uint8_t *q = p;
        unsigned n;
        while (q < end && (n = hke_tok_utf8_char(q, end)) > 0)
            q += n;
        enum hk_status s =
            q > p ? hke_tok_pre_split(r, (struct hk_bytes){p, (size_t)(q - p)}) : HK_OK;
        for (p = q; q < end && hke_tok_utf8_char(q, end) == 0;)
            q++;
        if (s == HK_OK && q > p)
            s = hke_tok_word(r, p, (size_t)(q - p));
        if (s != HK_OK)
            return s;
        p = q;
    }
    return HK_OK;
}
