/* Tokenizers of any vocabulary, and texts through them. The input is a line of options, lines of
 * tokens (a character for the type, one for the score or the flags, the rest is the token), lines
 * of merges, what names the split patterns ("/" and lines of them, or a name), and the text, which
 * is repeated as often as the last option says.
 *
 * Whatever comes out as ids comes back as text, also piece by piece and cut in two. */
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_TOKENS = 4096, MAX_TEXT = 1 << 15, SHORT_TEXT = 3000 };

enum { /* of the first byte */
       BPE = 1,
       ADD_BOS = 2,
       ADD_EOS = 4,
       BYTES = 8, /* tokens of all bytes come first */
       IGNORE_MERGES = 16,
       NO_SPACE_PREFIX = 32,
       NFC = 64,
       SPACE_PREFIX = 128,
};

struct strings {
    struct hk_bytes one[MAX_TOKENS];
    uint32_t n;
};

struct vocabulary {
    uint8_t options;
    struct strings token, merge, pattern;
    int32_t type[MAX_TOKENS], flags[2 * MAX_TOKENS];
    float score[MAX_TOKENS];
    uint32_t flag_count;
    struct hk_writer *w;
};

/* ---- a vocabulary of bytes ---- */

static void put32(uint8_t *p, uint32_t v)
{
    for (size_t i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void set(struct vocabulary *v, const char *key, enum hk_meta_type type,
                struct hk_bytes value)
{
    struct hk_error err;
    struct hk_bytes name = {(const uint8_t *)key, strlen(key)};
    fuzz_must(hk_writer_set(v->w, name, type, value, &err), &err, "a key is set");
}

static void set_text(struct vocabulary *v, const char *key, const char *text)
{
    set(v, key, HK_META_STRING, (struct hk_bytes){(const uint8_t *)text, strlen(text)});
}

static void set_truth(struct vocabulary *v, const char *key, bool truth)
{
    const uint8_t byte = truth;
    set(v, key, HK_META_BOOL, (struct hk_bytes){&byte, 1});
}

static void set_int(struct vocabulary *v, const char *key, int64_t number)
{
    struct hk_error err;
    fuzz_must(hk_writer_set_int(v->w, key, number, &err), &err, "a key is set");
}

static void set_strings(struct vocabulary *v, const char *key, const struct strings *s)
{
    size_t head = 8 + 4 * ((size_t)s->n + 1), n = head;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->one[i].n;
    uint8_t *blob = malloc(n);
    fuzz_require(blob != NULL, "memory");
    put32(blob, HK_ARRAY_STRING);
    put32(blob + 4, s->n);
    size_t at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        put32(blob + 8 + 4 * (size_t)i, (uint32_t)at);
        if (s->one[i].n > 0)
            memcpy(blob + head + at, s->one[i].p, s->one[i].n);
        at += s->one[i].n;
    }
    put32(blob + head - 4, (uint32_t)at);
    set(v, key, HK_META_BYTES, (struct hk_bytes){blob, n});
    free(blob);
}

static void set_words(struct vocabulary *v, const char *key, enum hk_array_kind kind,
                      const void *words, uint32_t n)
{
    uint8_t *blob = malloc(8 + 4 * (size_t)n);
    fuzz_require(blob != NULL, "memory");
    put32(blob, kind);
    put32(blob + 4, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, (const uint8_t *)words + 4 * (size_t)i, sizeof bits);
        put32(blob + 8 + 4 * (size_t)i, bits);
    }
    set(v, key, HK_META_BYTES, (struct hk_bytes){blob, 8 + 4 * (size_t)n});
    free(blob);
}

static void add(struct vocabulary *v, struct hk_bytes text, int32_t type, uint8_t weight)
{
    if (v->token.n == MAX_TOKENS)
        return;
    uint32_t id = v->token.n++;
    v->token.one[id] = text;
    v->type[id] = type;
    v->score[id] = -(float)(weight % 32);
    if (type == HK_TOKEN_CONTROL || type == HK_TOKEN_USER) {
        v->flags[v->flag_count++] = (int32_t)id;
        v->flags[v->flag_count++] = weight & 15;
    }
}

/* <0x00>, or GPT-2's letter for each byte. */
static void add_bytes(struct vocabulary *v)
{
    static char text[256][8];
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        bool visible = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        unsigned c = visible ? b : next++;
        if (!(v->options & BPE))
            snprintf(text[b], sizeof text[b], "<0x%02X>", b);
        else if (c < 0x80)
            snprintf(text[b], sizeof text[b], "%c", (int)c);
        else
            snprintf(text[b], sizeof text[b], "%c%c", (int)(0xc0 | c >> 6),
                     (int)(0x80 | (c & 0x3f)));
        add(v, (struct hk_bytes){(const uint8_t *)text[b], strlen(text[b])},
            v->options & BPE ? HK_TOKEN_NORMAL : HK_TOKEN_BYTE, 0);
    }
}

static void lines(struct hk_bytes part, struct strings *out)
{
    out->n = 0;
    while (out->n < MAX_TOKENS && fuzz_line(&part, &out->one[out->n]))
        out->n++;
}

static void set_pre(struct vocabulary *v, struct hk_bytes part)
{
    if (part.n > 0 && part.p[0] == '/') {
        lines((struct hk_bytes){part.p + 1, part.n - 1}, &v->pattern);
        set_strings(v, "tokenizer.hk.pre_regex", &v->pattern);
    } else if (part.n > 0) {
        set(v, "tokenizer.ggml.pre", HK_META_STRING, part);
    }
}

static void describe(struct vocabulary *v, struct hk_bytes options, struct hk_bytes *rest)
{
    struct hk_bytes tokens = fuzz_part(rest), line;
    v->options = fuzz_byte(&options);
    v->token.n = v->flag_count = 0;
    if (v->options & BYTES)
        add_bytes(v);
    while (fuzz_line(&tokens, &line)) {
        int32_t type = fuzz_byte(&line) % 7;
        uint8_t weight = fuzz_byte(&line);
        add(v, line, type, weight);
    }
    lines(fuzz_part(rest), &v->merge);
    set_text(v, "tokenizer.ggml.model", v->options & BPE ? "gpt2" : "llama");
    set_strings(v, "tokenizer.ggml.tokens", &v->token);
    set_words(v, "tokenizer.ggml.token_type", HK_ARRAY_I32, v->type, v->token.n);
    set_words(v, "tokenizer.ggml.scores", HK_ARRAY_F32, v->score, v->token.n);
    set_words(v, "tokenizer.hk.added_flags", HK_ARRAY_I32, v->flags, v->flag_count);
    if (v->merge.n > 0)
        set_strings(v, "tokenizer.ggml.merges", &v->merge);
    set_pre(v, fuzz_part(rest));
    set_truth(v, "tokenizer.ggml.add_bos_token", v->options & ADD_BOS);
    set_truth(v, "tokenizer.ggml.add_eos_token", v->options & ADD_EOS);
    set_truth(v, "tokenizer.ggml.ignore_merges", v->options & IGNORE_MERGES);
    set_truth(v, "tokenizer.ggml.add_space_prefix", !(v->options & NO_SPACE_PREFIX));
    if (v->options & NFC)
        set_text(v, "tokenizer.hk.normalizer", "nfc");
    if (v->options & SPACE_PREFIX)
        set_text(v, "tokenizer.hk.space_prefix", fuzz_byte(&options) % 2 ? "always" : "first");
    static const char *const special[] = {"bos", "eos", "unknown"};
    for (size_t i = 0; i < 3; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", special[i]);
        uint8_t id = fuzz_byte(&options);
        if (id != 0xff)
            set_int(v, key, id);
    }
}

static struct hke_tokenizer *tokenizer_of(struct vocabulary *v, struct hk_bytes options,
                                          struct hk_bytes *rest)
{
    struct hk_out *out;
    struct hk_file *f;
    struct hk_error err;
    struct hke_tokenizer *t = NULL;
    const struct hk_writer_options plain = {.size = sizeof plain, .room = HK_NO_ROOM};
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_writer_new(&v->w, &plain, &err), &err, "a writer");
    describe(v, options, rest);
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    fuzz_must(hk_writer_begin(v->w, out, &err), &err, "a head");
    fuzz_must(hk_writer_finish(v->w, &err), &err, "a file");
    fuzz_must(hk_out_commit(&out, &err), &err, "a file is written");
    hk_writer_free(&v->w);
    fuzz_must(hk_open_fd(&f, fd, &err), &err, "a file of a vocabulary opens");
    if (!fuzz_may(hke_tokenizer_new(&t, f, &err), &err))
        t = NULL;
    hk_close(&f);
    close(fd);
    return t;
}

/* ---- what must hold ---- */

static void check_decoding(const struct hke_tokenizer *t, const struct hke_ids *ids,
                           unsigned options, struct hke_text *out)
{
    struct hke_text pieces = {0};
    struct hke_stream s;
    struct hk_error err;
    for (size_t i = 0; i < ids->n; i++)
        fuzz_require(ids->id[i] < hke_vocab_size(t), "ids are of the vocabulary");
    fuzz_must(hke_decode(t, ids->id, ids->n, options, out, &err), &err, "ids are decoded");
    hke_stream_start(&s, t, options);
    for (size_t i = 0; i < ids->n; i++)
        fuzz_must(hke_stream_push(&s, ids->id[i], &pieces, &err), &err, "an id is decoded");
    fuzz_must(hke_stream_end(&s, &pieces, &err), &err, "a stream ends");
    fuzz_require(pieces.n == out->n && (out->n == 0 || memcmp(pieces.p, out->p, out->n) == 0),
                 "pieces are the text");
    hke_text_free(&pieces);
}

static void check_cut(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                      const struct hke_ids *whole)
{
    struct hke_ids ids = {0};
    struct hk_error err;
    size_t half = text.n / 2, cut = hke_encode_cut(t, (struct hk_bytes){text.p, half});
    fuzz_require(cut <= half, "a cut lies in the text");
    if (cut == 0)
        return;
    fuzz_must(
        hke_encode(t, (struct hk_bytes){text.p, cut}, options | HKE_TO_BE_CONTINUED, &ids, &err),
        &err, "the part before a cut is encoded");
    fuzz_must(hke_encode(t, (struct hk_bytes){text.p + cut, text.n - cut}, options | HKE_CONTINUED,
                         &ids, &err),
              &err, "the part behind a cut is encoded");
    fuzz_require(ids.n == whole->n && memcmp(ids.id, whole->id, ids.n * sizeof *ids.id) == 0,
                 "the ids of both parts are those of the whole");
    hke_ids_free(&ids);
}

static void try_text(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                     bool exact)
{
    struct hke_ids ids = {0};
    struct hke_text back = {0};
    struct hk_error err;
    if (fuzz_may(hke_encode(t, text, options, &ids, &err), &err)) {
        check_decoding(t, &ids, HKE_SHOW_SPECIAL, &back);
        if (exact)
            fuzz_require(back.n == text.n && (text.n == 0 || memcmp(back.p, text.p, text.n) == 0),
                         "the text comes back");
        check_cut(t, text, options, &ids);
    }
    hke_ids_free(&ids);
    hke_text_free(&back);
}

void fuzz_one(struct hk_bytes input)
{
    static struct vocabulary v;
    static uint8_t text[MAX_TEXT];
    struct hk_bytes options = fuzz_part(&input);
    uint8_t times = options.n > 0 ? options.p[options.n - 1] : 0;
    struct hke_tokenizer *t = tokenizer_of(&v, options, &input);
    if (t == NULL)
        return;
    size_t n = 0, most = times == 0xff ? MAX_TEXT : SHORT_TEXT;
    input.n = input.n < most ? input.n : most;
    for (unsigned i = 0; i <= times && input.n > 0 && input.n <= most - n; i++, n += input.n)
        memcpy(text + n, input.p, input.n);
    bool plain = (v.options & (BPE | BYTES | NFC)) == (BPE | BYTES);
    for (uint32_t i = 0; i < v.token.n; i++)
        plain = plain && v.type[i] == HK_TOKEN_NORMAL;
    try_text(t, (struct hk_bytes){text, n}, HKE_ADD_SPECIAL | HKE_PARSE_SPECIAL, false);
    try_text(t, (struct hk_bytes){text, n}, 0, plain);
    hke_tokenizer_free(&t);
}
