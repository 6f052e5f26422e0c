/* Flags of added tokens, normalisation form C, and where texts may be cut, over vocabularies made
 * here. What is expected follows from hk(5). */
#include <utf8proc.h>

#include "tests/lib/vocabulary.h"

/* Byte tokens are numbered as their bytes; then the added tokens. */
enum { LETTERS = 256, STRIP = LETTERS, LEFT, RIGHT, BOTH, WORD, NORMAL, CAFE, CONTROL, SIZE };

static const char *const added[] = {"<p>",  "<l>", "<r>",          "<b>",
                                    "word", "abc", "cafe\xcc\x81", "<c>"};
static const char *tokens[SIZE];
static int32_t types[SIZE];

/* In GPT-2's alphabet. */
static void make_letters(void)
{
    static char letter[LETTERS][3];
    unsigned next = 0x100;
    for (unsigned b = 0; b < LETTERS; b++) {
        bool visible = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        unsigned c = visible ? b : next++;
        utf8proc_encode_char((int32_t)c, (uint8_t *)letter[b]);
        tokens[b] = letter[b];
        types[b] = HK_TOKEN_NORMAL;
    }
    for (size_t i = LETTERS; i < SIZE; i++) {
        tokens[i] = added[i - LETTERS];
        types[i] = i == CONTROL ? HK_TOKEN_CONTROL : HK_TOKEN_USER;
    }
}

static struct hk_writer *vocabulary(const char *pre)
{
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("gpt2"));
    set(w, "tokenizer.ggml.pre", HK_META_STRING, str(pre));
    set_strings(w, "tokenizer.ggml.tokens", tokens, SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SIZE);
    set_strings(w, "tokenizer.ggml.merges", NULL, 0);
    return w;
}

static void set_flags(struct hk_writer *w, const int32_t *pairs, uint32_t n)
{
    set_words(w, "tokenizer.hk.added_flags", HK_ARRAY_I32, pairs, n);
}

/* WANT is a text in which {N} stands for added token N; the other bytes are tokens. */
static void encodes(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                    const char *want, const char *title)
{
    struct hke_ids ids = {0};
    size_t n = 0;
    bool good = t != NULL && hke_encode(t, text, options, &ids, NULL) == HK_OK;
    for (const char *w = want; good && *w != '\0'; n++) {
        uint32_t id = (uint8_t)*w;
        if (*w == '{') {
            id = LETTERS + (uint32_t)(w[1] - '0');
            w += 2;
        }
        w++;
        good = n < ids.n && ids.id[n] == id;
    }
    ok(good && n == ids.n, "%s: \"%s\"", title, want);
    hke_ids_free(&ids);
}

static void flags(void)
{
    static const int32_t pairs[] = {LEFT, 1, RIGHT, 2, BOTH, 3, WORD, 8, NORMAL, 4, CONTROL, 3};
    static const struct {
        const char *text, *want;
    } row[] = {
        {"a <p> b", "a {0} b"},
        {"a  <l> b", "a{1} b"},
        {"a <r>  b", "a {2}b"},
        {"a \t\n<b> \r\n b", "a{3}b"},
        {" <b> ", "{3}"},
        {"<r> <l>", "{2}{1}"},
        {"<p> <l>", "{0}{1}"},
        {"<r>  <p>", "{2}{0}"},
        {"a\xe3\x80\x80\xc2\xa0<b>\xe2\x80\x83\x62", "a{3}b"}, /* U+3000 U+00A0, U+2003 */
        {"a\xe1\xa0\x8e<b>", "a\xe1\xa0\x8e{3}"},              /* U+180E is no white space */
        {"a \xff <b>", "a \xff{3}"},
        {"a word b", "a {4} b"},
        {"word", "{4}"},
        {"swords", "swords"},
        {"word_", "word_"},
        {"word9 9word", "word9 9word"},
        {"(word)-word", "({4})-{4}"},
        {"wordword word", "wordword {4}"},
        {"\xc3\xa9word", "\xc3\xa9word"},
        {"word\xcc\x81", "word\xcc\x81"},         /* a mark belongs to the word */
        {"word\xe2\x80\x8d", "word\xe2\x80\x8d"}, /* so does a joiner */
        {"word\xe2\x93\x90", "word\xe2\x93\x90"}, /* and a letter in a circle */
        {"word\xe2\x82\xac", "{4}\xe2\x82\xac"},
        {"word\xff", "{4}\xff"},
        {"xabcx", "x{5}x"},
    };
    struct hk_writer *w = vocabulary("gpt-2");
    set_flags(w, pairs, sizeof pairs / sizeof *pairs);
    struct hke_tokenizer *t = made(w);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        encodes(t, str(row[i].text), 0, row[i].want, "flags");
    encodes(t, str("a <c> b"), 0, "a <c> b", "a control token is text");
    encodes(t, str("a <c> b"), HKE_PARSE_SPECIAL, "a{7}b", "with its blanks if asked for");
    hke_tokenizer_free(&t);
    t = made(vocabulary("gpt-2"));
    encodes(t, str("a <b> words"), 0, "a {3} {4}s", "without the key");
    hke_tokenizer_free(&t);
}

/* Tokens found in the text as it is come before those found once it is normalised. */
static void normalized(void)
{
    static const int32_t pairs[] = {CAFE, 4};
    struct hk_writer *w = vocabulary("gpt-2");
    set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfc"));
    set_flags(w, pairs, 2);
    struct hke_tokenizer *t = made(w);
    encodes(t, str("caf\xc3\xa9!"), 0, "{6}!", "a normalized token in another form");
    encodes(t, str("cafe\xcc\x81!"), 0, "{6}!", "in its own form");
    encodes(t, str("abcafe\xcc\x81"), 0, "{5}af\xc3\xa9", "the token of the text as it is wins");
    hke_tokenizer_free(&t);
    w = vocabulary("gpt-2");
    set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfc"));
    t = made(w);
    encodes(t, str("caf\xc3\xa9"), 0, "caf\xc3\xa9", "without the flag only as spelled");
    encodes(t, str("cafe\xcc\x81"), 0, "{6}", "as spelled");
    encodes(t, str("e<p>\xcc\x81"), 0, "e{0}\xcc\x81", "nothing combines across a token");
    hke_tokenizer_free(&t);
    t = made(vocabulary("gpt-2"));
    encodes(t, str("e\xcc\x81"), 0, "e\xcc\x81", "no key, no normalisation");
    hke_tokenizer_free(&t);
}

/* ---- normalisation ---- */

static struct hke_tokenizer *nfc_tokenizer(void)
{
    struct hk_writer *w = vocabulary("gpt-2");
    set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfc"));
    return made(w);
}

static bool normalises_to(const struct hke_tokenizer *t, struct hk_bytes text, struct hk_bytes want)
{
    struct hke_ids ids = {0};
    struct hke_text x = {0};
    bool good = hke_encode(t, text, 0, &ids, NULL) == HK_OK &&
                hke_decode(t, ids.id, ids.n, 0, &x, NULL) == HK_OK && x.n == want.n &&
                (x.n == 0 || memcmp(x.p, want.p, x.n) == 0);
    hke_ids_free(&ids);
    hke_text_free(&x);
    return good;
}

/* Every character, alone and with neighbours that may combine, as utf8proc has it. */
static void every_character(const struct hke_tokenizer *t)
{
    static const char *const behind[] = {"", "\xcc\x81", "\xcc\xa3\xcc\x82", "\xe1\x85\xa1",
                                         "\xe3\x82\x99"};
    size_t wrong = 0;
    for (int32_t c = 1; c <= 0x10ffff; c += c < 0x3200 || c > 0xe000 ? 1 : 17) {
        if ((c >= 0xd800 && c < 0xe000) || (c > 0x1f200 && c % 251 != 0))
            continue;
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            uint8_t text[32];
            size_t n = (size_t)utf8proc_encode_char(c, text + 1) + 1;
            text[0] = 'e';
            memcpy(text + n, behind[i], strlen(behind[i]) + 1);
            uint8_t *want = utf8proc_NFC(text);
            struct hk_bytes b = {text, n + strlen(behind[i])};
            wrong += want == NULL || !normalises_to(t, b, str((char *)want));
            free(want);
        }
    }
    ok(wrong == 0, "nfc: characters with others around them (%zu wrong)", wrong);
}

static void invalid(const struct hke_tokenizer *t)
{
    encodes(t, str("e\xcc\xcc\x81"), 0, "e\xcc\xcc\x81", "nfc: an invalid byte stays");
    encodes(t,
            str("\xff"
                "e\xcc\x81\xc3"),
            0, "\xff\xc3\xa9\xc3", "nfc: around it");
}

/* Marks of alternating classes, which an ordering one step at a time takes hours for. */
static void many_marks(const struct hke_tokenizer *t)
{
    enum { MARKS = 1 << 19 };
    uint8_t *text = malloc(2 * MARKS), *want = malloc(2 * MARKS);
    for (size_t i = 0; i < MARKS; i++) { /* U+0301 of class 230, U+0316 of class 220 */
        memcpy(text + 2 * i, i % 2 == 0 ? "\xcc\x81" : "\xcc\x96", 2);
        memcpy(want + 2 * i, i < MARKS / 2 ? "\xcc\x96" : "\xcc\x81", 2);
    }
    ok(normalises_to(t, (struct hk_bytes){text, 2 * MARKS}, (struct hk_bytes){want, 2 * MARKS}),
       "nfc: a megabyte of marks");
    free(text);
    free(want);
}

/* ---- refusals and cuts ---- */

static void refused(enum hk_status want, const int32_t *pairs, uint32_t n, const char *text)
{
    struct hk_writer *w = vocabulary("gpt-2");
    struct hke_tokenizer *t = NULL;
    struct hk_error err = {0};
    set_flags(w, pairs, n);
    ok(finish(w, &t, &err) == want && strstr(err.text, text) != NULL, "refused: %s", err.text);
    hke_tokenizer_free(&t);
}

static void refusals(void)
{
    refused(HK_E_FORMAT, (const int32_t[]){LEFT, 1, RIGHT}, 3, "pairs");
    refused(HK_E_RANGE, (const int32_t[]){SIZE, 1}, 2, "outside");
    refused(HK_E_RANGE, (const int32_t[]){-1, 1}, 2, "outside");
    refused(HK_E_FORMAT, (const int32_t[]){'a', 1}, 2, "no added token");
    refused(HK_E_UNSUPPORTED, (const int32_t[]){LEFT, 16}, 2, "unknown flags");
    refused(HK_E_UNSUPPORTED, (const int32_t[]){LEFT, -1}, 2, "unknown flags");
    refused(HK_E_FORMAT, (const int32_t[]){RIGHT, 1, LEFT, 1}, 4, "rising");
    refused(HK_E_FORMAT, (const int32_t[]){LEFT, 1, LEFT, 1}, 4, "rising");
    struct hk_writer *w = vocabulary("gpt-2");
    struct hke_tokenizer *t = NULL;
    struct hk_error err = {0};
    set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfkc"));
    ok(finish(w, &t, &err) == HK_E_UNSUPPORTED && strstr(err.text, "\"nfkc\"") != NULL,
       "refused: %s", err.text);
}

static size_t cut_of(const int32_t *pairs, uint32_t n, const char *text)
{
    struct hk_writer *w = vocabulary("gpt-2");
    set_flags(w, pairs, n);
    struct hke_tokenizer *t = made(w);
    size_t at = hke_encode_cut(t, str(text));
    hke_tokenizer_free(&t);
    return at;
}

static void cuts(void)
{
    ok(cut_of(NULL, 0, "one two") == 3, "cut: between a letter and a blank");
    ok(cut_of(NULL, 0, "one ") == 3 && cut_of(NULL, 0, "one") == 0, "cut: only where a blank is");
    ok(cut_of(NULL, 0, "\xe5\xad\x97\nx") == 3, "cut: before a line's end");
    ok(cut_of(NULL, 0, "a. b") == 0 && cut_of(NULL, 0, "a  b") == 1, "cut: not elsewhere");
    ok(cut_of(NULL, 0, "\xe0\xa5\x98 b") == 0, "cut: not behind what normalises to a mark");
    ok(cut_of((const int32_t[]){RIGHT, 2}, 2, "one two") == 3, "cut: <r> ends in no letter");
    ok(cut_of((const int32_t[]){WORD, 2}, 2, "one two") == 0,
       "cut: a token that may take the blank forbids it");
    struct hk_writer *w = vocabulary("gpt-2");
    set_strings(w, "tokenizer.hk.pre_regex", (const char *const[]){"\\S+ \\S+"}, 1);
    struct hke_tokenizer *t = made(w);
    ok(hke_encode_cut(t, str("one two")) == 0, "cut: not with a pattern of the file's own");
    hke_tokenizer_free(&t);
}

int main(void)
{
    make_letters();
    flags();
    normalized();
    struct hke_tokenizer *t = nfc_tokenizer();
    every_character(t);
    invalid(t);
    many_marks(t);
    hke_tokenizer_free(&t);
    refusals();
    cuts();
    return tap_done();
}
