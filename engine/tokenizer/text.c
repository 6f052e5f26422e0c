/* What each token stands for in a text: the way back from the three spellings of vocabularies. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tok.h"

/* GPT-2's byte alphabet: bytes with a visible Latin-1 character are that character; the others are
 * the characters from U+0100 on, in order. */
static bool is_visible(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

static void alphabet(int16_t byte_of[0x144])
{
    for (unsigned c = 0; c < 0x144; c++)
        byte_of[c] = c < 0x100 && is_visible(c) ? (int16_t)c : (int16_t)-1;
    unsigned next = 0x100;
    for (unsigned b = 0; b < 0x100; b++) {
        if (!is_visible(b))
            byte_of[next++] = (int16_t)b;
    }
}

/* Blanks for U+2581. Returns the length written, which is at most that of the piece. */
static size_t unescape_blanks(struct hk_bytes piece, uint8_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.n;) {
        if (piece.n - i >= 3 && memcmp(piece.p + i, "\xe2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = piece.p[i++];
        }
    }
    return n;
}

/* Bytes of a piece in the byte alphabet; a piece with any other character stands for itself. */
static size_t unmap_bytes(struct hk_bytes piece, const int16_t byte_of[0x144], uint8_t *out)
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

static size_t token_text(const struct hke_tokenizer *t, uint32_t id, const int16_t *byte_of,
                         uint8_t *out)
{
    struct hk_bytes piece = tok_string(&t->piece, id);
    enum hk_token_type type = t->type[id];
    if (type == HK_TOKEN_BYTE) {
        out[0] = (uint8_t)hk_vocab_byte(piece);
        return 1;
    }
    if (t->kind == HK_VOCAB_BPE && type == HK_TOKEN_NORMAL)
        return unmap_bytes(piece, byte_of, out);
    if (t->kind == HK_VOCAB_SPM && (type == HK_TOKEN_NORMAL || type == HK_TOKEN_USER))
        return unescape_blanks(piece, out);
    if (piece.n > 0)
        memcpy(out, piece.p, piece.n);
    return piece.n;
}

enum hk_status hke_tok_text_build(struct hke_tokenizer *t, struct hk_error *err)
{
    uint32_t n = t->piece.n;
    struct tok_strings *text = &t->text;
    text->n = n;
    text->off = malloc(((size_t)n + 1) * sizeof *text->off);
    text->p = malloc((size_t)t->piece.off[n] + 1);
    if (text->off == NULL || text->p == NULL)
        return hk_fail_nomem(err);
    int16_t byte_of[0x144];
    alphabet(byte_of);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hk_bytes piece = tok_string(&t->piece, i);
        if (t->type[i] == HK_TOKEN_BYTE && hk_vocab_byte(piece) < 0)
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: byte token %u is spelled \"%.*s\"",
                           hk_vocab_key(HK_VOCAB_TOKENS), i, HK_STR(piece));
        text->off[i] = at;
        at += (uint32_t)token_text(t, i, byte_of, text->p + at);
    }
    text->off[n] = at;
    return HK_OK;
}
