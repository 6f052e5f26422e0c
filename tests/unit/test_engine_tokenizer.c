/* Tokenizers against stored ids: every case of every vocabulary that is at hand, both ways; then
 * time, stack and exactness on texts of our own. */
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/tokenizer/tokenizer.h"
#include "tests/lib/tap.h"

enum { PATH = 4096 };

/* Path of NAME: in the repository's fixtures, in the shared ones, or in HK_VOCABULARIES, where
 * tests/tokenizers/fetch puts those that are too large to keep. False if in none. */
static bool find(char path[PATH], const char *name)
{
    const char *own = getenv("HK_FIXTURES"), *shared = getenv("HK_SHARED");
    const char *folder[] = {own != NULL ? own : "tests/fixtures", shared,
                            getenv("HK_VOCABULARIES")};
    for (size_t i = 0; i < 3; i++) {
        if (folder[i] == NULL)
            continue;
        snprintf(path, PATH, "%s%s/%s", folder[i], i == 1 ? "/fixtures" : "", name);
        FILE *f = fopen(path, "rb");
        if (f != NULL) {
            fclose(f);
            return true;
        }
    }
    return false;
}

static json_t *load_json(const char *name)
{
    char path[PATH];
    return find(path, name) ? json_load_file(path, JSON_ALLOW_NUL, NULL) : NULL;
}

/* The tokenizer of a file, or NULL (a message then says why, unless the file is not there). */
static struct hke_tokenizer *load(const char *name)
{
    char path[PATH];
    struct hk_error err;
    struct hk_file *f = NULL;
    struct hke_tokenizer *t = NULL;
    if (!find(path, name))
        return NULL;
    if (hk_open(&f, path, &err) != HK_OK || hke_tokenizer_new(&t, f, &err) != HK_OK)
        printf("# %s: %s\n", path, err.text);
    hk_close(&f);
    return t;
}

static struct hk_bytes text_of(const json_t *s)
{
    return (struct hk_bytes){(const uint8_t *)json_string_value(s), json_string_length(s)};
}

static bool encodes_to(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                       const json_t *want)
{
    struct hke_ids ids = {0};
    bool good = hke_encode(t, text, options, &ids, NULL) == HK_OK && ids.n == json_array_size(want);
    for (size_t i = 0; good && i < ids.n; i++)
        good = ids.id[i] == (uint64_t)json_integer_value(json_array_get(want, i));
    hke_ids_free(&ids);
    return good;
}

static bool is_text(const struct hke_text *x, struct hk_bytes want)
{
    return x->n == want.n && (want.n == 0 || memcmp(x->p, want.p, want.n) == 0);
}

/* One id after the other gives the text of all, and each step whole characters if WHOLE. */
static bool streams(const struct hke_tokenizer *t, const struct hke_ids *ids, unsigned options,
                    struct hk_bytes want, bool whole)
{
    struct hke_stream s;
    struct hke_text all = {0};
    hke_stream_start(&s, t, options);
    bool good = true;
    for (size_t i = 0; good && i < ids->n; i++) {
        size_t before = all.n;
        good = hke_stream_push(&s, ids->id[i], &all, NULL) == HK_OK;
        if (good && whole && all.n > before) {
            json_t *piece = json_stringn((char *)all.p + before, all.n - before);
            good = piece != NULL; /* jansson takes only UTF-8 */
            json_decref(piece);
        }
    }
    good = good && hke_stream_end(&s, &all, NULL) == HK_OK && is_text(&all, want);
    hke_text_free(&all);
    return good;
}

static bool decodes_to(const struct hke_tokenizer *t, const json_t *list, struct hk_bytes want)
{
    struct hke_ids ids = {0};
    struct hke_text x = {0};
    ids.n = json_array_size(list);
    ids.id = calloc(ids.n + 1, sizeof *ids.id);
    for (size_t i = 0; i < ids.n; i++)
        ids.id[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    bool good = hke_decode(t, ids.id, ids.n, HKE_SHOW_SPECIAL, &x, NULL) == HK_OK &&
                is_text(&x, want) && streams(t, &ids, HKE_SHOW_SPECIAL, want, true);
    hke_text_free(&x);
    hke_ids_free(&ids);
    return good;
}

/* decode(encode(TEXT)) is WANT, control tokens taken as text. */
static bool comes_back_as(const struct hke_tokenizer *t, struct hk_bytes text, struct hk_bytes want)
{
    struct hke_ids ids = {0};
    struct hke_text x = {0};
    bool good = hke_encode(t, text, 0, &ids, NULL) == HK_OK &&
                hke_decode(t, ids.id, ids.n, 0, &x, NULL) == HK_OK && is_text(&x, want) &&
                streams(t, &ids, 0, want, false);
    hke_text_free(&x);
    hke_ids_free(&ids);
    return good;
}

static bool comes_back(const struct hke_tokenizer *t, struct hk_bytes text)
{
    return comes_back_as(t, text, text);
}

/* The ids of N bytes of TEXT and of the rest of it are those of the whole. */
static bool parts_agree(const struct hke_tokenizer *t, struct hk_bytes text, size_t n,
                        const struct hke_ids *whole)
{
    struct hke_ids ids = {0};
    struct hk_bytes rest = {text.p + n, text.n - n};
    unsigned first = HKE_ADD_SPECIAL | HKE_PARSE_SPECIAL | HKE_TO_BE_CONTINUED;
    unsigned second = HKE_ADD_SPECIAL | HKE_PARSE_SPECIAL | HKE_CONTINUED;
    bool good = hke_encode(t, (struct hk_bytes){text.p, n}, first, &ids, NULL) == HK_OK &&
                hke_encode(t, rest, second, &ids, NULL) == HK_OK && ids.n == whole->n &&
                memcmp(ids.id, whole->id, ids.n * sizeof *ids.id) == 0;
    hke_ids_free(&ids);
    return good;
}

/* All texts as one, cut wherever hke_encode_cut() does. */
static void cut(const char *name, const struct hke_tokenizer *t, const json_t *texts)
{
    static uint8_t all[1 << 18];
    struct hk_bytes text = {all, 0};
    size_t i, cuts = 0, good = 0, last = 0;
    json_t *item;
    json_array_foreach(texts, i, item)
    {
        struct hk_bytes b = text_of(json_object_get(item, "text"));
        if (text.n + b.n + 1 > 6000)
            continue;
        memcpy(all + text.n, b.p, b.n);
        text.n += b.n;
        all[text.n++] = i % 3 == 0 ? '\n' : ' ';
    }
    struct hke_ids whole = {0};
    bool encoded = hke_encode(t, text, HKE_ADD_SPECIAL | HKE_PARSE_SPECIAL, &whole, NULL) == HK_OK;
    for (size_t n = 1; encoded && n <= text.n; n++) {
        size_t at = hke_encode_cut(t, (struct hk_bytes){all, n});
        if (at == last)
            continue;
        last = at;
        cuts++;
        good += parts_agree(t, text, at, &whole);
    }
    ok(cuts > 100 && good == cuts, "%s: parts encode as the whole (%zu of %zu)", name, good, cuts);
    hke_ids_free(&whole);
}

struct tally {
    size_t cases, parsed, ids, plain, decoded, back;
};

enum { PREFIX = 1, NFC = 2 };

static void one_case(const struct hke_tokenizer *t, struct hk_bytes text, const json_t *c,
                     unsigned how, struct tally *n)
{
    const json_t *ids = json_object_get(c, "ids"), *plain = json_object_get(c, "plain");
    const json_t *decoded = json_object_get(c, "decoded");
    bool good_ids = ids == NULL || encodes_to(t, text, HKE_PARSE_SPECIAL, ids);
    bool good_plain = encodes_to(t, text, 0, plain != NULL ? plain : ids);
    bool good_text = ids == NULL || decodes_to(t, ids, decoded != NULL ? text_of(decoded) : text);
    struct hk_bytes back = (how & NFC) != 0 && decoded != NULL ? text_of(decoded) : text;
    /* A literal U+2581 is a blank to SentencePiece. */
    bool good_back =
        comes_back_as(t, text, back) || memmem(text.p, text.n, "\xe2\x96\x81", 3) != NULL;
    n->cases++;
    n->parsed += ids != NULL; /* some sources store only what they make of plain text */
    n->ids += good_ids;
    n->plain += good_plain;
    n->decoded += good_text;
    n->back += good_back;
    if (!good_ids || !good_plain || !good_text || !good_back)
        printf("# case %lld differs: ids %d, plain %d, decoded %d, back %d\n",
               (long long)json_integer_value(json_object_get(c, "id")), good_ids, good_plain,
               good_text, good_back);
}

/* BEFORE: the ids that the source puts before a text. */
static void before_a_text(const struct hke_tokenizer *t, const char *name, json_t *before,
                          unsigned how)
{
    if (before == NULL)
        return;
    json_t *none = json_array();
    ok(encodes_to(t, (struct hk_bytes){0}, HKE_ADD_SPECIAL, (how & PREFIX) != 0 ? before : none),
       "%s: ids before a text", name);
    ok(json_array_size(before) == 0 || hke_bos(t) == json_integer_value(json_array_get(before, 0)),
       "%s: bos", name);
    json_decref(none);
}

/* PREFIX: the vocabulary's file itself asks for the ids that stand before a text. NFC: it asks for
 * normalisation, so that some texts come back otherwise. */
static void stored(const char *name, const char *vocabulary, unsigned how)
{
    char path[256];
    snprintf(path, sizeof path, "tokenizers/expected/%s.json", name);
    json_t *texts = load_json("tokenizers/texts.json"), *want = load_json(path);
    struct hke_tokenizer *t = load(vocabulary);
    if (texts == NULL || want == NULL || t == NULL) {
        tap_skip(name, "vocabulary or expected ids are not there (HK_SHARED, HK_VOCABULARIES)");
    } else {
        struct tally n = {0};
        size_t i;
        json_t *c, *cases = json_object_get(want, "cases");
        json_array_foreach(cases, i, c)
        {
            size_t id = (size_t)json_integer_value(json_object_get(c, "id"));
            one_case(t, text_of(json_object_get(json_array_get(texts, id), "text")), c, how, &n);
        }
        ok(n.cases == json_array_size(texts), "%s: %zu cases", name, n.cases);
        if (n.parsed > 0)
            ok(n.ids == n.cases, "%s: ids, special tokens parsed (%zu)", name, n.parsed);
        ok(n.plain == n.cases, "%s: ids, special tokens as text (%zu)", name, n.plain);
        if (n.parsed > 0)
            ok(n.decoded == n.cases, "%s: decoded (%zu)", name, n.parsed);
        ok(n.back == n.cases, "%s: what is encoded comes back (%zu)", name, n.back);
        before_a_text(t, name, json_object_get(want, "prefix_ids"), how);
        cut(name, t, texts);
    }
    hke_tokenizer_free(&t);
    json_decref(texts);
    json_decref(want);
}

/* The trained models' cases. Those in NFC, which a GGUF cannot ask for, are counted apart. */
static void trained(const char *name, const char *vocabulary, size_t needs_nfc)
{
    char path[256];
    snprintf(path, sizeof path, "trained/%s/tokenize.json", name);
    json_t *cases = load_json(path), *c;
    struct hke_tokenizer *t = load(vocabulary);
    if (cases == NULL || t == NULL) {
        tap_skip(name, "model or cases are not there (HK_SHARED)");
    } else {
        size_t i, good = 0, special = 0, nfc = 0, back = 0;
        json_array_foreach(cases, i, c)
        {
            struct hk_bytes text = text_of(json_object_get(c, "text"));
            struct hk_bytes decoded = text_of(json_object_get(c, "decoded"));
            bool normalised =
                !is_text(&(struct hke_text){(uint8_t *)(uintptr_t)text.p, text.n, 0}, decoded);
            nfc += normalised;
            good += normalised || encodes_to(t, text, HKE_PARSE_SPECIAL, json_object_get(c, "ids"));
            special += normalised || encodes_to(t, text, HKE_PARSE_SPECIAL | HKE_ADD_SPECIAL,
                                                json_object_get(c, "ids_special"));
            back += decodes_to(t, json_object_get(c, "ids"), decoded) && comes_back(t, text);
        }
        ok(good == i && i > 0, "%s: ids (%zu of %zu)", name, good, i);
        ok(special == i, "%s: ids with special tokens added (%zu)", name, special);
        ok(back == i, "%s: there and back (%zu)", name, back);
        ok(nfc == needs_nfc, "%s: %zu cases need NFC", name, nfc);
        if (nfc > 0)
            tap_skip(name, "cases that need NFC: the file does not ask for it");
    }
    hke_tokenizer_free(&t);
    json_decref(cases);
}

/* The first 8192 ids of real text. */
static void long_text(const char *name, const char *vocabulary)
{
    char text_name[256], ids_name[256], text_path[PATH], ids_path[PATH];
    snprintf(text_name, sizeof text_name, "trained/%s/val.txt", name);
    snprintf(ids_name, sizeof ids_name, "trained/%s/val.tokens.u32", name);
    struct hke_tokenizer *t = load(vocabulary);
    if (t == NULL || !find(text_path, text_name) || !find(ids_path, ids_name)) {
        tap_skip(name, "model or text is not there (HK_SHARED)");
        hke_tokenizer_free(&t);
        return;
    }
    static uint8_t text[1 << 20];
    static uint32_t want[8192];
    FILE *f = fopen(text_path, "rb"), *g = fopen(ids_path, "rb");
    size_t n = fread(text, 1, sizeof text, f), m = fread(want, 4, 8192, g);
    fclose(f);
    fclose(g);
    struct hke_ids ids = {0};
    enum hk_status s = hke_encode(t, (struct hk_bytes){text, n}, 0, &ids, NULL);
    ok(s == HK_OK && m > 1000 && ids.n >= m && memcmp(ids.id, want, m * 4) == 0,
       "%s: %zu ids of %zu bytes of prose", name, m, n);
    hke_ids_free(&ids);
    hke_tokenizer_free(&t);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A megabyte of one character, repeated, in little time; main() has made the stack small. */
static void repeated(const struct hke_tokenizer *t, const char *name, const char *unit)
{
    static uint8_t text[1 << 20];
    size_t n = strlen(unit), m = sizeof text / n * n;
    for (size_t i = 0; i < m; i++)
        text[i] = (uint8_t)unit[i % n];
    double start = seconds();
    bool good = comes_back(t, (struct hk_bytes){text, m});
    double took = seconds() - start;
    ok(good && took < 20, "%s: a megabyte of 0x%02x", name, text[0]);
    printf("# %.3f s\n", took);
}

/* Bytes that are not UTF-8, and NUL, are kept. */
static void odd_bytes(const struct hke_tokenizer *t, const char *name)
{
    static const struct {
        const char *p;
        size_t n;
    } row[] = {
        {"\0", 1},
        {"a\0b", 3},
        {"\xff", 1},
        {"a\xc3", 2},
        {"\xc3 (", 3},
        {"\xed\xa0\x80", 3},
        {"\xf4\x90\x80\x80", 4},
        {"\xe2\x96", 2},
        {"x\xe2\x96 y", 5},
        {"\xc0\x80", 2},
        {"\x80\xbf\x80", 3},
        {"ok \xf0\x9f\x98 ok", 9},
    };
    size_t good = 0, rows = sizeof row / sizeof row[0];
    for (size_t i = 0; i < rows; i++)
        good += comes_back(t, (struct hk_bytes){(const uint8_t *)row[i].p, row[i].n});
    ok(good == rows, "%s: invalid UTF-8 and NUL come back (%zu of %zu)", name, good, rows);
    uint8_t all[768];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)(i * 7 + i / 256);
    ok(comes_back(t, (struct hk_bytes){all, sizeof all}), "%s: every byte comes back", name);
}

static void own_texts(const char *name, const char *vocabulary)
{
    struct hke_tokenizer *t = load(vocabulary);
    if (t == NULL) {
        tap_skip(name, "the vocabulary is not there");
        return;
    }
    static const char *const units[] = {"a", " ",        "\n",           "1",
                                        "!", "\xc3\xa9", "\xe2\x96\x82", "\xff"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        repeated(t, name, units[i]);
    odd_bytes(t, name);
    hke_tokenizer_free(&t);
}

int main(int argc, char **argv)
{
    (void)argc;
    struct rlimit small = {64 << 10, 64 << 10}, now;
    if (getenv("SAN") == NULL || getenv("SAN")[0] == '\0') {
        /* The limit holds for a program that starts under it. */
        getrlimit(RLIMIT_STACK, &now);
        if (now.rlim_cur != small.rlim_cur && setrlimit(RLIMIT_STACK, &small) == 0)
            execv("/proc/self/exe", argv);
    }
    stored("stories260K", "tokenizers/stories260K/stories260K-vocab.gguf", PREFIX);
    stored("gpt2", "tokenizers/gpt2/gpt2-vocab.gguf", PREFIX);
    /* This file's add_bos_token is false, unlike the source's. */
    stored("mistral_v1", "tokenizers/mistral_v1/mistral_v1-vocab.gguf", 0);
    stored("llama3_1", "llama3_1-vocab.gguf", PREFIX);
    stored("qwen3", "qwen3-vocab.gguf", PREFIX | NFC);
    stored("gpt4o", "gpt4o-vocab.gguf", PREFIX);
    stored("cl100k", "cl100k-vocab.gguf", PREFIX);
    stored("gemma3", "gemma3-vocab.gguf", PREFIX);
    stored("llama2", "llama2-vocab.gguf", PREFIX);
    trained("tiny-llama", "trained/tiny-llama/tiny-llama-f16.gguf", 0);
    trained("tiny-qwen3", "trained/tiny-qwen3/tiny-qwen3-f16.gguf", 1);
    long_text("tiny-llama", "trained/tiny-llama/tiny-llama-f16.gguf");
    long_text("tiny-qwen3", "trained/tiny-qwen3/tiny-qwen3-f16.gguf");
    own_texts("stories260K", "tokenizers/stories260K/stories260K-vocab.gguf");
    own_texts("gpt2", "tokenizers/gpt2/gpt2-vocab.gguf");
    return tap_done();
}
