/* The vocabulary as the file has it: pieces, types, special ids, end tokens; all ids checked. And
 * what each token stands for in a text: the way back from the three spellings of vocabularies. */
#include "engine/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tokenizer.h"

static enum hk_status copy_pieces(struct tok_strings *s, const struct hk_array *a,
                                  struct hk_error *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < a->count; i++)
        total += hk_array_string(a, i).n;
    if (total > UINT32_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "%s: 4 GiB of text",
                       hk_vocab_key(HK_VOCAB_TOKENS));
    s->n = a->count;
    s->p = malloc(total + 1);
    s->off = malloc(((size_t)s->n + 1) * sizeof *s->off);
    if (s->p == NULL || s->off == NULL)
        return hk_fail_nomem(err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct hk_bytes b = hk_array_string(a, i);
        s->off[i] = at;
        if (b.n > 0)
            memcpy(s->p + at, b.p, b.n);
        at += (uint32_t)b.n;
    }
    s->off[s->n] = at;
    return HK_OK;
}

static enum hk_status load_token_pieces(struct hke_tokenizer *t, const struct hk_file *f,
                                        struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TOKENS);
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "%s: the file has no vocabulary",
                       hk_vocab_key(HK_VOCAB_TOKENS));
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &a, err);
    if (st != HK_OK)
        return st;
    if (a.count == 0 || a.count > INT32_MAX)
        st = hk_fail(err, HK_E_RANGE, kv->offset, "%s: %u tokens", hk_vocab_key(HK_VOCAB_TOKENS),
                     a.count);
    else
        st = copy_pieces(&t->piece, &a, err);
    hk_array_free(&a);
    return st;
}

/* Scores are read by the kind that uses them; here only that there is one for each token. */
static enum hk_status check_score_count(const struct hke_tokenizer *t, const struct hk_file *f,
                                        struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_SCORES);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_F32, &a, err);
    if (st != HK_OK)
        return st;
    if (a.count != t->piece.n)
        st = hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u scores for %u tokens",
                     hk_vocab_key(HK_VOCAB_SCORES), a.count, t->piece.n);
    hk_array_free(&a);
    return st;
}

static enum hk_status copy_token_types(struct hke_tokenizer *t, const struct hk_kv *kv,
                                       const struct hk_array *a, struct hk_error *err)
{
    if (a->count != t->piece.n)
        return hk_fail(err, HK_E_FORMAT, kv->offset, "%s: %u types for %u tokens",
                       hk_vocab_key(HK_VOCAB_TYPES), a->count, t->piece.n);
    for (uint32_t i = 0; i < a->count; i++) {
        int32_t type = hk_array_i32(a, i);
        if (type < HK_TOKEN_NORMAL || type > HK_TOKEN_BYTE)
            return hk_fail(err, HK_E_RANGE, kv->offset, "%s: type %d of token %u",
                           hk_vocab_key(HK_VOCAB_TYPES), type, i);
        t->type[i] = (uint8_t)type;
    }
    return HK_OK;
}

static enum hk_status load_token_types(struct hke_tokenizer *t, const struct hk_file *f,
                                       struct hk_error *err)
{
    t->type = malloc(t->piece.n);
    if (t->type == NULL)
        return hk_fail_nomem(err);
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TYPES);
    if (kv == NULL) {
        for (uint32_t i = 0; i < t->piece.n; i++)
            t->type[i] = (uint8_t)hk_vocab_default_type(t->kind, tok_string(&t->piece, i), i,
                                                        t->bos, t->eos, t->unk);
        return HK_OK;
    }
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    st = copy_token_types(t, kv, &a, err);
    hk_array_free(&a);
    return st;
}

static enum hk_status load_special_id(const struct hke_tokenizer *t, const struct hk_file *f,
                                      enum hk_vocab_key key, int64_t *id, struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, key);
    if (kv == NULL)
        return HK_OK;
    int64_t v;
    enum hk_status st = hk_kv_int(kv, &v, err);
    if (st != HK_OK)
        return st;
    if (v < 0 || v >= t->piece.n)
        return hk_fail(err, HK_E_RANGE, kv->offset, "%s: %lld is outside the vocabulary of %u",
                       hk_vocab_key(key), (long long)v, t->piece.n);
    *id = v;
    return HK_OK;
}

enum hk_status hke_load_bool(const struct hk_file *f, enum hk_vocab_key key, bool *out,
                             struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, key);
    return kv == NULL ? HK_OK : hk_kv_bool(kv, out, err);
}

static bool spelled_as_end(struct hk_bytes piece)
{
    static const char *const spellings[] = {
        "<|im_end|>",    "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>",
        "<end_of_turn>", "</s>",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (hk_bytes_are(piece, spellings[i]))
            return true;
    }
    return false;
}

static enum hk_status mark_listed_end_tokens(struct hke_tokenizer *t, const struct hk_file *f,
                                             struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_END_IDS);
    if (kv == NULL)
        return HK_OK;
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_I32, &a, err);
    if (st != HK_OK)
        return st;
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++) {
        int32_t id = hk_array_i32(&a, i);
        if (id < 0 || (uint32_t)id >= t->piece.n)
            st = hk_fail(err, HK_E_RANGE, kv->offset, "%s: %d is outside the vocabulary of %u",
                         hk_vocab_key(HK_VOCAB_END_IDS), id, t->piece.n);
        else
            t->ends[id] = true;
    }
    hk_array_free(&a);
    return st;
}

static enum hk_status mark_end_tokens(struct hke_tokenizer *t, const struct hk_file *f,
                                      struct hk_error *err)
{
    t->ends = calloc(t->piece.n, sizeof *t->ends);
    if (t->ends == NULL)
        return hk_fail_nomem(err);
    if (t->eos >= 0)
        t->ends[t->eos] = true;
    static const enum hk_vocab_key keys[] = {HK_VOCAB_EOT, HK_VOCAB_EOM};
    for (size_t i = 0; i < 2; i++) {
        int64_t id = -1;
        enum hk_status st = load_special_id(t, f, keys[i], &id, err);
        if (st != HK_OK)
            return st;
        if (id >= 0)
            t->ends[id] = true;
    }
    for (uint32_t i = 0; i < t->piece.n; i++) {
        bool special = t->type[i] == HK_TOKEN_CONTROL || t->type[i] == HK_TOKEN_USER;
        if (special && spelled_as_end(tok_string(&t->piece, i)))
            t->ends[i] = true;
    }
    return mark_listed_end_tokens(t, f, err);
}

enum hk_status hke_load_vocabulary(struct hke_tokenizer *t, const struct hk_file *f,
                                   struct hk_error *err)
{
    enum hk_status st = load_token_pieces(t, f, err);
    if (st == HK_OK)
        st = check_score_count(t, f, err);
    if (st != HK_OK)
        return st;
    t->bos = hk_vocab_default_id(t->kind, HK_VOCAB_BOS, t->piece.n);
    t->eos = hk_vocab_default_id(t->kind, HK_VOCAB_EOS, t->piece.n);
    t->unk = hk_vocab_default_id(t->kind, HK_VOCAB_UNK, t->piece.n);
    if ((st = load_special_id(t, f, HK_VOCAB_BOS, &t->bos, err)) != HK_OK ||
        (st = load_special_id(t, f, HK_VOCAB_EOS, &t->eos, err)) != HK_OK ||
        (st = load_special_id(t, f, HK_VOCAB_UNK, &t->unk, err)) != HK_OK ||
        (st = load_token_types(t, f, err)) != HK_OK || (st = mark_end_tokens(t, f, err)) != HK_OK)
        return st;
    if ((st = hke_load_bool(f, HK_VOCAB_ADD_BOS, &t->add_bos, err)) != HK_OK)
        return st;
    return hke_load_bool(f, HK_VOCAB_ADD_EOS, &t->add_eos, err);
}

/* ---- what tokens stand for ---- */

/* GPT-2's byte alphabet: bytes with a visible Latin-1 character are that character; the others are
 * the characters from U+0100 on, in order. */
static bool is_visible_byte(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

static void fill_byte_alphabet(int16_t byte_of[0x144])
{
    for (unsigned c = 0; c < 0x144; c++)
        byte_of[c] = c < 0x100 && is_visible_byte(c) ? (int16_t)c : (int16_t)-1;
    unsigned next = 0x100;
    for (unsigned b = 0; b < 0x100; b++) {
        if (!is_visible_byte(b))
            byte_of[next++] = (int16_t)b;
    }
}

/* Blanks for U+2581. Returns the length written, which is at most that of the piece. */
static size_t unescape_spaces(struct hk_bytes piece, uint8_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.n;) {
        if (piece.n - i >= 3 && memcmp(piece.p + i, HK_VOCAB_SPACE, 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = piece.p[i++];
        }
    }
    return n;
}

/* Bytes of a piece in the byte alphabet; a piece with any other character stands for itself. */
static size_t unmap_byte_alphabet(struct hk_bytes piece, const int16_t byte_of[0x144], uint8_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.n;) {
        const uint8_t *p = piece.p + i;
        unsigned len = hk_utf8_length(p, piece.p + piece.n);
        unsigned c = len == 2 ? (unsigned)(p[0] & 0x1f) << 6 | (p[1] & 0x3f) : p[0];
        if (len == 0 || len > 2 || c >= 0x144 || byte_of[c] < 0) {
            memcpy(out, piece.p, piece.n);
            return piece.n;
        }
        out[n++] = (uint8_t)byte_of[c];
        i += len;
    }
    return n;
}

static size_t write_token_text(const struct hke_tokenizer *t, uint32_t id, const int16_t *byte_of,
                               uint8_t *out)
{
    struct hk_bytes piece = tok_string(&t->piece, id);
    enum hk_token_type type = t->type[id];
    if (type == HK_TOKEN_BYTE) {
        out[0] = (uint8_t)hk_vocab_byte(piece);
        return 1;
    }
    if (t->kind == HK_VOCAB_BPE && type == HK_TOKEN_NORMAL)
        return unmap_byte_alphabet(piece, byte_of, out);
    if (t->kind == HK_VOCAB_SPM && (type == HK_TOKEN_NORMAL || type == HK_TOKEN_USER))
        return unescape_spaces(piece, out);
    if (piece.n > 0)
        memcpy(out, piece.p, piece.n);
    return piece.n;
}

enum hk_status hke_load_token_texts(struct hke_tokenizer *t, struct hk_error *err)
{
    uint32_t n = t->piece.n;
    struct tok_strings *text = &t->text;
    text->n = n;
    text->off = malloc(((size_t)n + 1) * sizeof *text->off);
    text->p = malloc((size_t)t->piece.off[n] + 1);
    if (text->off == NULL || text->p == NULL)
        return hk_fail_nomem(err);
    int16_t byte_of[0x144];
    fill_byte_alphabet(byte_of);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hk_bytes piece = tok_string(&t->piece, i);
        if (t->type[i] == HK_TOKEN_BYTE && hk_vocab_byte(piece) < 0)
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: byte token %u is spelled \"%.*s\"",
                           hk_vocab_key(HK_VOCAB_TOKENS), i, HK_STR(piece));
        text->off[i] = at;
        at += (uint32_t)write_token_text(t, i, byte_of, text->p + at);
    }
    text->off[n] = at;
    return HK_OK;
}

/* ---- for everyone ---- */

uint32_t hke_vocab_size(const struct hke_tokenizer *t)
{
    return t->piece.n;
}

int64_t hke_bos(const struct hke_tokenizer *t)
{
    return t->bos;
}

int64_t hke_eos(const struct hke_tokenizer *t)
{
    return t->eos;
}

bool hke_adds_bos(const struct hke_tokenizer *t)
{
    return t->add_bos && t->bos >= 0;
}

bool hke_adds_eos(const struct hke_tokenizer *t)
{
    return t->add_eos && t->eos >= 0;
}

bool hke_is_end_token(const struct hke_tokenizer *t, uint32_t id)
{
    return id < t->piece.n && t->ends[id];
}

enum hk_token_type hke_token_type(const struct hke_tokenizer *t, uint32_t id)
{
    return t->type[id];
}

struct hk_bytes hke_token_piece(const struct hke_tokenizer *t, uint32_t id)
{
    return tok_string(&t->piece, id);
}

struct hk_bytes hke_token_bytes(const struct hke_tokenizer *t, uint32_t id)
{
    return tok_string(&t->text, id);
}
