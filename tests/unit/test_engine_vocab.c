/* Tokenizers over vocabularies made here: every check of the loader has a row; what the keys of a
 * file change. */
#include "tests/lib/vocabulary.h"

/* ---- the two vocabularies ---- */

enum { LETTERS = 256, BPE_SIZE = LETTERS + 9 };

static const char *const bpe_rest[] = {"he",      "ll",     "hell", "hello",        "xyz",
                                       "<think>", "<t><u>", "<t>",  "<|endoftext|>"};
static const int32_t bpe_rest_type[] = {1, 1, 1, 1, 1, 4, 4, 4, 3};
static const char *const bpe_merges[] = {"h e", "l l", "he ll", "hell o"};
static const char *bpe_tokens[BPE_SIZE];
static int32_t bpe_types[BPE_SIZE];

/* GPT-2's letter for each byte. */
static void make_letters(void)
{
    static char letter[LETTERS][3];
    unsigned next = 0x100;
    for (unsigned b = 0; b < LETTERS; b++) {
        bool visible = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        unsigned c = visible ? b : next++;
        char *p = letter[b];
        if (c >= 0x80) {
            *p++ = (char)(0xc0 | c >> 6);
            c = 0x80 | (c & 0x3f);
        }
        *p = (char)c;
        bpe_tokens[b] = letter[b];
        bpe_types[b] = HK_TOKEN_NORMAL;
    }
    for (size_t i = LETTERS; i < BPE_SIZE; i++) {
        bpe_tokens[i] = bpe_rest[i - LETTERS];
        bpe_types[i] = bpe_rest_type[i - LETTERS];
    }
}

static struct hk_writer *begin_bpe(void)
{
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("gpt2"));
    set(w, "tokenizer.ggml.pre", HK_META_STRING, str("gpt-2"));
    set_strings(w, "tokenizer.ggml.tokens", bpe_tokens, BPE_SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, bpe_types, BPE_SIZE);
    set_strings(w, "tokenizer.ggml.merges", bpe_merges, 4);
    return w;
}

static const char *const spm_tokens[] = {"<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", BLANK,
                                         "a",     "b",   "ab",   "ba",     "abab",   BLANK "a"};
static const int32_t spm_types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 5, 1};
static const float spm_scores[] = {0, 0, 0, 0, 0, -9, -8, -7, -1, -1, -2, -3};
enum { SPM_SIZE = 12 };

static struct hk_writer *begin_spm(void)
{
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("llama"));
    set_strings(w, "tokenizer.ggml.tokens", spm_tokens, SPM_SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, spm_types, SPM_SIZE);
    set_words(w, "tokenizer.ggml.scores", HK_ARRAY_F32, spm_scores, SPM_SIZE);
    return w;
}

/* ---- what a loader must refuse ---- */

enum how { STRING, INT, WORDS, STRINGS, JSON };

struct row {
    const char *what;
    bool spm;
    const char *key;
    enum how how;
    const char *text; /* string, or json; of strings: repeated to fill NUMBER */
    int64_t number;   /* integer; count of an array */
    enum hk_status status;
    const char *says;
};

static const struct row rows[] = {
    {"an unknown model", true, "model", STRING, "t5", 0, HK_E_UNSUPPORTED, "\"t5\""},
    {"an unknown pre-tokenizer", false, "pre", STRING, "no-such", 0, HK_E_UNSUPPORTED, "no-such"},
    {"no tokens", false, "tokens", STRINGS, "", 0, HK_E_RANGE, "0 tokens"},
    {"tokens that are no strings", false, "tokens", WORDS, "", 4, HK_E_FORMAT, "tokens"},
    {"too few types", false, "token_type", WORDS, "", 4, HK_E_FORMAT, "4 types"},
    {"a type of 0", true, "token_type", WORDS, "", SPM_SIZE, HK_E_RANGE, "type 0 of token 0"},
    {"types that are strings", true, "token_type", STRINGS, "1", SPM_SIZE, HK_E_FORMAT, "type"},
    {"too many scores", false, "scores", WORDS, "f", BPE_SIZE + 1, HK_E_FORMAT, "scores"},
    {"too few scores", true, "scores", WORDS, "f", SPM_SIZE - 1, HK_E_FORMAT, "scores"},
    {"a score that is no number", true, "scores", WORDS, "n", SPM_SIZE, HK_E_FORMAT, "number"},
    {"bos past the end", false, "bos_token_id", INT, NULL, BPE_SIZE, HK_E_RANGE, "bos"},
    {"eos below 0", true, "eos_token_id", INT, NULL, -1, HK_E_RANGE, "eos"},
    {"unknown past the end", true, "unknown_token_id", INT, NULL, 1 << 30, HK_E_RANGE, "unknown"},
    {"eot past the end", false, "eot_token_id", INT, NULL, INT64_MAX, HK_E_RANGE, "eot"},
    {"eom past the end", false, "eom_token_id", INT, NULL, BPE_SIZE, HK_E_RANGE, "eom"},
    {"bos that is a string", false, "bos_token_id", STRING, "1", 0, HK_E_FORMAT, "bos"},
    {"add_bos that is no bool", false, "add_bos_token", INT, NULL, 1, HK_E_FORMAT, "add_bos"},
    {"a merge of no tokens", false, "merges", STRINGS, "he xx", 1, HK_E_FORMAT, "merge 0"},
    {"a merge without a token", false, "merges", STRINGS, "h h", 1, HK_E_FORMAT, "merge 0"},
    {"a merge of one half", false, "merges", STRINGS, "he", 1, HK_E_FORMAT, "merge 0"},
    {"merges that are numbers", false, "merges", WORDS, "", 2, HK_E_FORMAT, "merges"},
    {"a merge of three", false, "merges", JSON, "[[\"h\",\"e\",\"l\"]]", 0, HK_E_FORMAT, "pairs"},
    {"merges too deep", false, "merges", JSON, "[[[\"h\",\"e\"]]]", 0, HK_E_FORMAT, "pairs"},
    {"too many patterns", false, "#pre_regex", STRINGS, "a", 17, HK_E_RANGE, "pre_regex"},
    {"a pattern that is none", false, "#pre_regex", STRINGS, "(", 1, HK_E_UNSUPPORTED, "pre_regex"},
    {"an end past the end", false, "#eog_ids", WORDS, "9", 2, HK_E_RANGE, "eog_ids"},
};

static void set_row(struct hk_writer *w, const struct row *r)
{
    char key[64];
    bool own = r->key[0] == '#';
    snprintf(key, sizeof key, "tokenizer.%s.%s", own ? "hk" : "ggml", r->key + own);
    const char *s[BPE_SIZE + 1];
    uint32_t words[BPE_SIZE + 1] = {0};
    for (int64_t i = 0; r->how >= WORDS && i < r->number; i++) {
        s[i] = r->text;
        words[i] = r->text[0] == '9' ? 999 : r->text[0] == 'n' ? 0x7fc00000 : 0;
    }
    bool f32 = r->how == WORDS && (r->text[0] == 'f' || r->text[0] == 'n');
    if (r->how == STRING || r->how == JSON)
        set(w, key, r->how == JSON ? HK_META_JSON : HK_META_STRING, str(r->text));
    else if (r->how == INT)
        set_int(w, key, r->number);
    else if (r->how == WORDS)
        set_words(w, key, f32 ? HK_ARRAY_F32 : HK_ARRAY_I32, words, (uint32_t)r->number);
    else
        set_strings(w, key, s, (uint32_t)r->number);
}

static void refusals(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct hk_writer *w = r->spm ? begin_spm() : begin_bpe();
        struct hke_tokenizer *t = NULL;
        struct hk_error err = {0};
        set_row(w, r);
        enum hk_status s = finish(w, &t, &err);
        ok(s == r->status && t == NULL && strstr(err.text, r->says) != NULL, "refuses %s", r->what);
        if (s != r->status)
            printf("# status %d, expected %d: %s\n", s, r->status, err.text);
        hke_tokenizer_free(&t);
    }
}

/* A file without one of the keys that it needs. */
static void missing(void)
{
    static const char *const bare[] = {"a"};
    struct hke_tokenizer *t = NULL;
    struct hk_error err;
    struct hk_writer *w = begin();
    ok(finish(w, &t, &err) == HK_E_MISSING && strstr(err.text, "tokens") != NULL, "no vocabulary");
    w = begin();
    set_strings(w, "tokenizer.ggml.tokens", bare, 1);
    ok(finish(w, &t, &err) == HK_E_MISSING && strstr(err.text, "model") != NULL, "no model");
    w = begin();
    set_strings(w, "tokenizer.ggml.tokens", bare, 1);
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("llama"));
    ok(finish(w, &t, &err) == HK_E_MISSING && strstr(err.text, "scores") != NULL, "no scores");
    w = begin();
    set_strings(w, "tokenizer.ggml.tokens", bare, 1);
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("gpt2"));
    ok(finish(w, &t, &err) == HK_E_MISSING && strstr(err.text, "merges") != NULL, "no merges");
    w = begin_spm();
    int32_t types[SPM_SIZE];
    memcpy(types, spm_types, sizeof types);
    types[6] = HK_TOKEN_BYTE;
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SPM_SIZE);
    ok(finish(w, &t, &err) == HK_E_FORMAT && strstr(err.text, "\"a\"") != NULL,
       "refuses a byte token that names no byte");
}

/* ---- what they do ---- */

/* Whether TEXT becomes the ids listed, up to a negative one. */
static bool gives(const struct hke_tokenizer *t, const char *text, unsigned options,
                  const int64_t *want)
{
    struct hke_ids ids = {0};
    size_t n = 0;
    bool good = t != NULL && hke_encode(t, str(text), options, &ids, NULL) == HK_OK;
    for (; want[n] >= 0; n++)
        good = good && n < ids.n && ids.id[n] == want[n];
    good = good && n == ids.n;
    if (!good) {
        printf("# \"%s\":", text);
        for (size_t i = 0; i < ids.n; i++)
            printf(" %u", ids.id[i]);
        putchar('\n');
    }
    hke_ids_free(&ids);
    return good;
}
#define IDS(...) ((const int64_t[]){__VA_ARGS__, -1})

enum { HE = LETTERS, LL, HELL, HELLO, XYZ, THINK, T_U, T, END };

static void bpe(void)
{
    struct hke_tokenizer *t = made(begin_bpe());
    ok(gives(t, "hello hell", 0, IDS(HELLO, ' ', HELL)), "merges in the order of the list");
    ok(gives(t, "xyz", 0, IDS('x', 'y', 'z')), "a word without merges stays apart");
    ok(gives(t, "a<t><u><t><think>", 0, IDS('a', T_U, T, THINK)),
       "added tokens first, the longest first");
    ok(gives(t, "<|endoftext|>", HKE_PARSE_SPECIAL, IDS(END)), "a control token when asked");
    ok(!gives(t, "<|endoftext|>", 0, IDS(END)), "no control token unasked");
    ok(hke_bos(t) == -1 && !hke_adds_bos(t), "no bos where the file names none");
    ok(hke_is_end_token(t, END) && !hke_is_end_token(t, THINK) && !hke_is_end_token(t, BPE_SIZE),
       "an end of text is known by its spelling");
    ok(hke_token_type(t, THINK) == HK_TOKEN_USER && hke_token_piece(t, ' ').n == 2 &&
           hke_token_bytes(t, ' ').n == 1 && hke_token_bytes(t, ' ').p[0] == ' ',
       "piece, bytes and type of a token");
    hke_tokenizer_free(&t);

    struct hk_writer *w = begin_bpe();
    set_bool(w, "tokenizer.ggml.ignore_merges", true);
    set_int(w, "tokenizer.ggml.bos_token_id", END);
    set_bool(w, "tokenizer.ggml.add_bos_token", true);
    set_bool(w, "tokenizer.ggml.add_eos_token", true);
    set_int(w, "tokenizer.ggml.eos_token_id", 'e');
    set_int(w, "tokenizer.ggml.eot_token_id", 't');
    set_words(w, "tokenizer.hk.eog_ids", HK_ARRAY_I32, (const int32_t[]){'g', 'h'}, 2);
    t = made(w);
    ok(gives(t, "xyz", HKE_ADD_SPECIAL, IDS(END, XYZ, 'e')), "ignore_merges takes whole words");
    ok(hke_is_end_token(t, 'e') && hke_is_end_token(t, 't') && hke_is_end_token(t, 'g') &&
           hke_is_end_token(t, 'h') && !hke_is_end_token(t, 'm'),
       "end tokens from eos, eot and the list");
    hke_tokenizer_free(&t);

    w = begin_bpe();
    set(w, "tokenizer.ggml.pre", HK_META_STRING, str("llama-bpe"));
    set_int(w, "tokenizer.ggml.bos_token_id", END);
    t = made(w);
    ok(gives(t, "xyz", HKE_ADD_SPECIAL, IDS(END, XYZ)), "llama-bpe: whole words and a bos");
    hke_tokenizer_free(&t);

    w = begin_bpe();
    set(w, "tokenizer.ggml.merges", HK_META_JSON,
        str("[ [\"h\", \"e\"], [\"l\",\"l\"],[\"\\u0068e\",\"ll\"],[\"hell\",\"o\"]]"));
    t = made(w);
    ok(gives(t, "hello", 0, IDS(HELLO)), "merges as json pairs");
    hke_tokenizer_free(&t);

    w = begin_bpe();
    set(w, "tokenizer.ggml.merges", HK_META_JSON, str("[\"h e\",\"l l\",\"he ll\"]"));
    t = made(w);
    ok(gives(t, "hello", 0, IDS(HELL, 'o')), "merges as json strings");
    hke_tokenizer_free(&t);
}

static void patterns(void)
{
    static const char *const two[] = {"ll", "\\s"};
    struct hk_writer *w = begin_bpe();
    set(w, "tokenizer.ggml.pre", HK_META_STRING, str("no-such"));
    set_strings(w, "tokenizer.hk.pre_regex", two, 2);
    struct hke_tokenizer *t = made(w);
    ok(gives(t, "hello", 0, IDS(HE, LL, 'o')), "a pattern in the file is used, and .pre is not");
    hke_tokenizer_free(&t);

    /* \s is White_Space: U+0085 is, U+180E is not, whatever PCRE2 says of it. */
    static const char *const space[] = {"[\\S]*?\\s"};
    w = begin_bpe();
    set_bool(w, "tokenizer.ggml.ignore_merges", true);
    set_strings(w, "tokenizer.hk.pre_regex", space, 1);
    t = made(w);
    ok(gives(t, "xyz\xc2\x85xyz", 0, IDS('x', 'y', 'z', 0xc2, 0x85, XYZ)), "U+0085 is a blank");
    ok(gives(t, "\xe1\xa0\x8exyz", 0, IDS(0xe1, 0xa0, 0x8e, 'x', 'y', 'z')), "U+180E is none");
    hke_tokenizer_free(&t);

    /* Exponential without a limit. */
    static const char *const slow[] = {"(?:a|aa)+$"};
    static char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    w = begin_bpe();
    set_strings(w, "tokenizer.hk.pre_regex", slow, 1);
    t = made(w);
    struct hke_ids ids = {0};
    struct hk_error err;
    ok(t != NULL && hke_encode(t, str(text), 0, &ids, &err) == HK_E_UNSUPPORTED && ids.n == 0,
       "a pattern that would never end is stopped");
    hke_ids_free(&ids);
    hke_tokenizer_free(&t);
}

enum { UNK, BOS, EOS, C3, A9, SPACE, A, B_, AB, BA, ABAB, SPACE_A };

static void spm(void)
{
    struct hke_tokenizer *t = made(begin_spm());
    ok(gives(t, "a b", HKE_ADD_SPECIAL, IDS(BOS, SPACE_A, SPACE, B_)),
       "a dummy prefix, a bos by default");
    ok(gives(t, "", HKE_ADD_SPECIAL, IDS(BOS)), "no prefix before nothing");
    ok(gives(t, "bab", 0, IDS(SPACE, BA, B_)), "equal scores: the leftmost");
    ok(gives(t, "\xc3\xa9", 0, IDS(SPACE, C3, A9)), "bytes where there is no piece");
    ok(gives(t, "\xc3\xa8", 0, IDS(SPACE, UNK)), "unknown where there are no bytes");
    ok(gives(t, "</s>a", HKE_PARSE_SPECIAL, IDS(EOS, SPACE_A)), "a prefix behind a control token");
    ok(hke_bos(t) == BOS && hke_eos(t) == EOS && hke_is_end_token(t, EOS), "default ids");
    /* " abab": ab ab, then abab (unused, so taken apart), which leaves no " a". */
    ok(gives(t, "abab", 0, IDS(SPACE, AB, AB)), "an unused piece is taken apart");
    uint32_t odd = SPM_SIZE;
    struct hke_text x = {0};
    ok(hke_decode(t, &odd, 1, 0, &x, NULL) == HK_E_RANGE && x.n == 0, "an id past the end");
    static const uint32_t ids[] = {BOS, SPACE_A, SPACE, B_, EOS};
    ok(hke_decode(t, ids, 5, 0, &x, NULL) == HK_OK && x.n == 3 && memcmp(x.p, "a b", 3) == 0,
       "control tokens hidden, the prefix gone");
    x.n = 0;
    ok(hke_decode(t, ids + 1, 3, HKE_CONTINUE, &x, NULL) == HK_OK && x.n == 4, "continued");
    x.n = 0;
    ok(hke_decode(t, ids, 5, HKE_SHOW_SPECIAL, &x, NULL) == HK_OK && x.n == 11 &&
           memcmp(x.p, "<s> a b</s>", 11) == 0,
       "control tokens shown");
    hke_text_free(&x);
    hke_tokenizer_free(&t);

    struct hk_writer *w = begin_spm();
    set_bool(w, "tokenizer.ggml.add_space_prefix", false);
    set_bool(w, "tokenizer.ggml.add_bos_token", false);
    t = made(w);
    ok(gives(t, "a", HKE_ADD_SPECIAL, IDS(A)), "no prefix, no bos where the file says so");
    hke_tokenizer_free(&t);
}

/* A character in two tokens is given out with the second; what never gets whole at the end. */
static void stream(void)
{
    struct hke_tokenizer *t = made(begin_spm());
    struct hke_stream s;
    struct hke_text x = {0};
    hke_stream_start(&s, t, 0);
    bool good = hke_stream_push(&s, C3, &x, NULL) == HK_OK && x.n == 0 &&
                hke_stream_push(&s, A9, &x, NULL) == HK_OK && x.n == 2 &&
                hke_stream_push(&s, C3, &x, NULL) == HK_OK && x.n == 2 &&
                hke_stream_push(&s, A, &x, NULL) == HK_OK && x.n == 4 &&
                hke_stream_push(&s, C3, &x, NULL) == HK_OK && x.n == 4 &&
                hke_stream_end(&s, &x, NULL) == HK_OK && x.n == 5;
    ok(good && memcmp(x.p, "\xc3\xa9\xc3\x61\xc3", 5) == 0, "streaming holds back half characters");
    hke_text_free(&x);
    hke_tokenizer_free(&t);
}

int main(void)
{
    make_letters();
    refusals();
    missing();
    bpe();
    patterns();
    spm();
    stream();
    return tap_done();
}
