/* A text that is encoded in parts, as hke_encode_cut() divides it, has the ids of the whole: over
 * random vocabularies of each kind and random texts, cut at every place. And what a vocabulary may
 * cost. */
#include "tests/lib/vocabulary.h"

enum { BYTES = 256, PIECES = 40, ADDED = 4, FIRST = 3, SIZE = FIRST + BYTES + PIECES + ADDED };

static uint64_t state = 1;

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

/* COUNT parts drawn from ALPHABET, which ends in NULL. */
static void draw_text(char *out, const char *const *alphabet, size_t count)
{
    size_t all = 0;
    while (alphabet[all] != NULL)
        all++;
    *out = '\0';
    for (size_t i = 0; i < count; i++)
        out = stpcpy(out, alphabet[draw(all)]);
}

static char spelling[SIZE][48];
static const char *tokens[SIZE];
static int32_t types[SIZE];
static float scores[SIZE];

static const char *const added_texts[] = {"U",  "<x>", "ab",  " c", "a b", "USER",  "1",
                                          ".a", "\n",  "b\n", "é",  "<y>", " <z> ", NULL};

/* Three tokens, the bytes, pieces that BLANK may be part of, and added tokens. */
static void draw_vocabulary(const char *const *alphabet)
{
    static const char *const control[FIRST] = {"<unk>", "<s>", "</s>"};
    for (size_t i = 0; i < SIZE; i++) {
        tokens[i] = spelling[i];
        types[i] = HK_TOKEN_NORMAL;
        scores[i] = -(float)draw(1000);
    }
    for (size_t i = 0; i < FIRST; i++) {
        strcpy(spelling[i], control[i]);
        types[i] = i == 0 ? HK_TOKEN_UNKNOWN : HK_TOKEN_CONTROL;
    }
    for (size_t i = 0; i < BYTES; i++) {
        snprintf(spelling[FIRST + i], sizeof spelling[0], "<0x%02X>", (unsigned)i);
        types[FIRST + i] = HK_TOKEN_BYTE;
    }
    for (size_t i = 0; i < PIECES; i++)
        draw_text(spelling[FIRST + BYTES + i], alphabet, i < 12 ? 1 : 2 + draw(3));
    size_t all = sizeof added_texts / sizeof *added_texts - 1;
    for (size_t i = 0; i < ADDED; i++) {
        strcpy(spelling[SIZE - ADDED + i], added_texts[draw(all)]);
        types[SIZE - ADDED + i] = draw(3) > 0 ? HK_TOKEN_USER : HK_TOKEN_CONTROL;
    }
}

static void set_flags(struct hk_writer *w)
{
    int32_t pairs[2 * ADDED];
    for (int32_t i = 0; i < ADDED; i++) {
        pairs[2 * i] = SIZE - ADDED + i;
        pairs[2 * i + 1] = draw(2) == 0 ? 0 : (int32_t)draw(16);
    }
    set_words(w, "tokenizer.hk.added_flags", HK_ARRAY_I32, pairs, 2 * ADDED);
}

static struct hke_tokenizer *draw_spm(void)
{
    static const char *const alphabet[] = {"a", "b",  "c", "1", BLANK, BLANK,
                                           "U", "\n", "é", ".", NULL};
    static const char *const prefixes[] = {"first", "always"};
    struct hk_writer *w = begin();
    draw_vocabulary(alphabet);
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("llama"));
    set_strings(w, "tokenizer.ggml.tokens", tokens, SIZE);
    set_words(w, "tokenizer.ggml.scores", HK_ARRAY_F32, scores, SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SIZE);
    if (draw(2) == 0)
        set(w, "tokenizer.hk.space_prefix", HK_META_STRING, str(prefixes[draw(2)]));
    set_bool(w, "tokenizer.ggml.add_space_prefix", draw(4) > 0);
    if (draw(2) == 0)
        set_flags(w);
    if (draw(2) == 0)
        set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfc"));
    return made(w);
}

static struct hke_tokenizer *draw_bpe(void)
{
    static const char *const pre[] = {"default", "gpt-2", "llama-bpe", "qwen2", "gpt-4o", "dbrx"};
    static const char *const alphabet[] = {"a", "b", "c", "1", "U", ".", NULL};
    struct hk_writer *w = begin();
    draw_vocabulary(alphabet);
    for (size_t i = 0; i < BYTES; i++) { /* in GPT-2's alphabet, where the letters are visible */
        bool visible = i > 0x20 && i < 0x7f;
        if (visible)
            snprintf(spelling[FIRST + i], sizeof spelling[0], "%c", (char)i);
        types[FIRST + i] = visible ? HK_TOKEN_NORMAL : HK_TOKEN_BYTE;
    }
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("gpt2"));
    set(w, "tokenizer.ggml.pre", HK_META_STRING, str(pre[draw(sizeof pre / sizeof *pre)]));
    set_strings(w, "tokenizer.ggml.tokens", tokens, SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SIZE);
    set_strings(w, "tokenizer.ggml.merges", NULL, 0);
    if (draw(2) == 0)
        set_flags(w);
    if (draw(2) == 0)
        set(w, "tokenizer.hk.normalizer", HK_META_STRING, str("nfc"));
    return made(w);
}

static struct hk_bytes part(struct hk_bytes b, size_t from, size_t to)
{
    return (struct hk_bytes){b.p + from, to - from};
}

/* Whether TEXT, cut where its first N bytes allow, has the ids of the whole. */
static bool same_in_parts(const struct hke_tokenizer *t, struct hk_bytes text, size_t n,
                          unsigned options, bool *cut)
{
    struct hke_ids whole = {0}, parts = {0};
    size_t at = hke_encode_cut(t, part(text, 0, n));
    *cut = at > 0;
    if (at == 0)
        return true;
    bool good =
        hke_encode(t, text, options, &whole, NULL) == HK_OK &&
        hke_encode(t, part(text, 0, at), options | HKE_TO_BE_CONTINUED, &parts, NULL) == HK_OK &&
        hke_encode(t, part(text, at, text.n), options | HKE_CONTINUED, &parts, NULL) == HK_OK &&
        whole.n == parts.n && memcmp(whole.id, parts.id, whole.n * sizeof *whole.id) == 0;
    if (!good)
        printf("# \"%.*s|%.*s\": %zu ids and %zu\n", (int)at, (const char *)text.p,
               (int)(text.n - at), (const char *)text.p + at, whole.n, parts.n);
    hke_ids_free(&whole);
    hke_ids_free(&parts);
    return good;
}

static void random_cuts(const char *title, struct hke_tokenizer *(*make)(void))
{
    static const char *const alphabet[] = {
        "a",     "b",    "c",     "1",   " ",   " ", "\n",        "U",
        "USER ", "<x>",  " <z> ", ".",   BLANK, "é", "e\xcc\x81", "\xe5\xad\x97",
        "\xff",  "\xe2", "\t",    "ab ", NULL};
    size_t cuts = 0, wrong = 0;
    const size_t rounds = getenv("HK_FULL") != NULL ? 20000 : 600;
    for (size_t i = 0; i < rounds && wrong == 0; i++) {
        struct hke_tokenizer *t = make();
        if (t == NULL) {
            wrong++;
            break;
        }
        char text[512];
        draw_text(text, alphabet, 1 + draw(30));
        unsigned options = (unsigned)draw(4); /* HKE_ADD_SPECIAL, HKE_PARSE_SPECIAL */
        for (size_t n = 1; n < strlen(text) && wrong == 0; n++) {
            bool cut;
            wrong += !same_in_parts(t, str(text), n, options, &cut);
            cuts += cut;
        }
        hke_tokenizer_free(&t);
    }
    ok(wrong == 0 && cuts > rounds, "%s: %zu cuts leave the ids as they are", title, cuts);
}

/* ---- costs ---- */

static enum hk_status encode_runs(struct hk_writer *w, size_t n, const char *last,
                                  struct hk_error *err)
{
    struct hke_tokenizer *t = NULL;
    struct hke_ids ids = {0};
    char *text = malloc(n + 8);
    if (text == NULL || finish(w, &t, err) != HK_OK) {
        free(text);
        return HK_E_NOMEM;
    }
    memset(text, 'a', n);
    strcpy(text + n, last);
    enum hk_status st = hke_encode(t, str(text), 0, &ids, err);
    hke_ids_free(&ids);
    hke_tokenizer_free(&t);
    free(text);
    return st;
}

/* Added tokens that agree with a text of one letter for long, but for their last. */
static void long_added_token(void)
{
    static char text[8001];
    static const char *const alphabet[] = {"a", "b", NULL};
    struct hk_error err = {.text = ""};
    draw_vocabulary(alphabet);
    memset(text, 'a', sizeof text - 2);
    text[sizeof text - 2] = 'b';
    tokens[SIZE - 1] = text;
    types[SIZE - 1] = HK_TOKEN_USER;
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("llama"));
    set_strings(w, "tokenizer.ggml.tokens", tokens, SIZE);
    set_words(w, "tokenizer.ggml.scores", HK_ARRAY_F32, scores, SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SIZE);
    ok(encode_runs(w, 1 << 20, "", &err) == HK_E_UNSUPPORTED &&
           strstr(err.text, "added tokens: too much work") != NULL,
       "long added tokens: %s", err.text);
}

static enum hk_status with_pattern(const char *pattern, size_t n, struct hk_error *err)
{
    static const char *const alphabet[] = {"a", "b", NULL};
    draw_vocabulary(alphabet);
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str("gpt2"));
    set_strings(w, "tokenizer.hk.pre_regex", &pattern, 1);
    set_strings(w, "tokenizer.ggml.tokens", tokens, SIZE);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, SIZE);
    set_strings(w, "tokenizer.ggml.merges", NULL, 0);
    return encode_runs(w, n, "b", err);
}

static void patterns(void)
{
    static const char *const slow[] = {
        "a(?=.*+c)|a",    /* each match looks to the end */
        "(?:a+)+c|a",     /* every way to divide a run */
        "a*+c|a",         /* each place looks to the end of the run */
        "(?<=a)(?=a*+c)", /* without a letter */
        "[^b]*c|.",       /* and back */
    };
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        struct hk_error err = {.text = ""};
        ok(with_pattern(slow[i], 1 << 20, &err) == HK_E_UNSUPPORTED &&
               strstr(err.text, "too much work") != NULL,
           "%s: %s", slow[i], err.text);
    }
    /* These count an item often without a callout, each time that they are tried. */
    static const char *const repeated[] = {"a{60000}|a", "\\w{60000}|a", "[a\\\\]{60000}|a",
                                           "\\x{61}{60000}|a", "\\c\\x{60000}|a"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        struct hk_error err = {.text = ""};
        ok(with_pattern(repeated[i], 59000, &err) == HK_E_UNSUPPORTED &&
               strstr(err.text, "too much work") != NULL,
           "%s: %s", repeated[i], err.text);
    }
    struct hk_error err = {.text = ""};
    ok(with_pattern("(a+)b\\1", 10, &err) != HK_OK &&
           strstr(err.text, "has a back reference") != NULL,
       "back references: %s", err.text);
    static const char *const good[] = {"a{1,3}|b", "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\s+(?!\\S)|\\s+",
                                       "\\p{L}{1,3}(?=b|a)", "[\\x{61}-\\x{9fa5}]+"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ok(with_pattern(good[i], 1 << 20, &err) == HK_OK, "%s is used", good[i]);
}

int main(void)
{
    random_cuts("SentencePiece", draw_spm);
    random_cuts("byte-level", draw_bpe);
    long_added_token();
    patterns();
    return tap_done();
}
