/* Tokenizers of model directories: tokenizer.model, alone and beside tokenizer.json, and where such
 * tokenizers put a blank. */
#include "tests/lib/mk_tokenizer.h"

/* ---- tokenizer.model ---- */

static void put_varint(struct hk_buf *b, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        hk_buf_put(b, &byte, 1);
    } while ((v >>= 7) > 0);
}

static void put_number(struct hk_buf *b, unsigned field, uint64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, v);
}

static void put_field(struct hk_buf *b, unsigned field, const void *p, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    hk_buf_put(b, p, n);
}

static void put_piece(struct hk_buf *b, const char *text, float score, unsigned type)
{
    struct hk_buf piece = {0};
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    put_field(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    hk_buf_u32(&piece, bits);
    if (type != 1)
        put_number(&piece, 3, type);
    put_field(b, 1, piece.p, piece.n);
    hk_buf_free(&piece);
}

/* The pieces of small_spm(), with the settings changed as asked: (field of message 2 or 3, value).
 */
static struct hk_buf small_model(unsigned message, unsigned field, uint64_t value)
{
    struct hk_buf b = {0}, trainer = {0}, normalizer = {0};
    put_piece(&b, "<unk>", 0, 2);
    put_piece(&b, "<s>", 0, 3);
    put_piece(&b, "</s>", 0, 3);
    for (unsigned i = 0; i < 256; i++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", i);
        put_piece(&b, piece, 0, 6);
    }
    static const char *const pieces[] = {BLANK, "a", "b", "ab", BLANK "a", BLANK "ab"};
    static const float scores[] = {-9, -9, -9, -1, -3, -2};
    for (size_t i = 0; i < 6; i++)
        put_piece(&b, pieces[i], scores[i], 1);
    put_number(&trainer, 3, 2);
    put_number(&trainer, 35, 1);
    put_number(&normalizer, 3, 1);
    put_number(&normalizer, 4, 0);
    if (message == 2)
        put_number(&trainer, field, value);
    else if (message == 3 && field != 2)
        put_number(&normalizer, field, value);
    else if (message == 3)
        put_field(&normalizer, field, "map", 3);
    put_field(&b, 2, trainer.p, trainer.n);
    put_field(&b, 3, normalizer.p, normalizer.n);
    hk_buf_free(&trainer);
    hk_buf_free(&normalizer);
    return b;
}

/* "ab a" with a bos. */
static bool is_small(struct hke_tokenizer *t)
{
    json_t *want = json_pack("[i,i,i]", 1, 264, 263);
    bool good = t != NULL && encodes_to(t, str("ab a"), HKE_ADD_SPECIAL, want);
    json_decref(want);
    hke_tokenizer_free(&t);
    return good;
}

static bool imports(void)
{
    struct imported m;
    bool good = import(&m, folder, NULL) == HK_OK;
    drop(&m);
    return good;
}

/* tokenizer.model's keys, written as tokenizer.json. */
static void model_to_json(const char *settings, const char *text, const json_t *want)
{
    struct hk_buf b = small_model(0, 0, 0);
    struct imported m;
    struct hk_error err = {.text = ""};
    int losses = 0;
    clear_folder();
    put_file("tokenizer.model", b.p, b.n);
    put_file("tokenizer_config.json", settings, strlen(settings));
    bool good = import(&m, folder, &err) == HK_OK && export_list(&m, &losses, &err) == HK_OK;
    drop(&m);
    struct hke_tokenizer *t = good ? load(folder) : NULL;
    ok(t != NULL && losses == 0 && encodes_to(t, str(text), HKE_PARSE_SPECIAL, want),
       "tokenizer.model as tokenizer.json: %s", err.text);
    hke_tokenizer_free(&t);
    hk_buf_free(&b);
}

static void model_alone(void)
{
    struct hk_buf b = small_model(0, 0, 0);
    clear_folder();
    put_file("tokenizer.model", b.p, b.n);
    ok(is_small(load(folder)), "tokenizer.model alone");
    put_file("added_tokens.json", "{\"<new>\":265}", 13);
    struct hke_tokenizer *t = load(folder);
    json_t *want = json_pack("[i]", 265);
    ok(t != NULL && encodes_to(t, str("<new>"), 0, want), "added_tokens.json beside it");
    json_decref(want);
    hke_tokenizer_free(&t);
    clear_folder();
    size_t good = 0;
    for (size_t n = 0; n < b.n; n++) {
        put_file("tokenizer.model", b.p, n);
        good += !imports();
    }
    ok(good == b.n, "cut at each length: refused (%zu of %zu)", good, b.n);
    uint32_t random = 7;
    for (int i = 0; i < 3000; i++) {
        struct hk_buf odd = {0};
        hk_buf_put(&odd, b.p, b.n);
        for (int k = 0; k < 1 + i % 4; k++) {
            random = random * 1664525 + 1013904223;
            odd.p[(random >> 8) % (i % 2 == 0 ? odd.n : 40)] = (uint8_t)(random >> 24);
        }
        put_file("tokenizer.model", odd.p, odd.n);
        (void)imports();
        hk_buf_free(&odd);
    }
    ok(true, "3000 with bytes changed: no crash");
    hk_buf_free(&b);
}

static void refuse_models(void)
{
    static const struct {
        unsigned message, field;
        uint64_t value;
        const char *says;
    } rows[] = {
        {2, 3, 1, "type unigram"},      {2, 3, 3, "type word"},
        {2, 3, 4, "type char"},         {2, 24, 1, "treat_whitespace_as_suffix"},
        {2, 35, 0, "byte_fallback"},    {3, 4, 1, "remove_extra_whitespaces"},
        {3, 5, 0, "not escaped"},       {3, 2, 0, "normalisation"},
        {2, 41, 999, "special id 999"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hk_buf b = small_model(rows[i].message, rows[i].field, rows[i].value);
        clear_folder();
        put_file("tokenizer.model", b.p, b.n);
        refuses("tokenizer.model", rows[i].says);
        hk_buf_free(&b);
    }
    struct hk_buf b = small_model(0, 0, 0);
    put_piece(&b, "ab", 0, 1);
    put_file("tokenizer.model", b.p, b.n);
    refuses("tokenizer.model", "\"ab\" is there twice");
    b.n = 0;
    put_piece(&b, "a", (float)0 / (float)strlen(""), 1);
    put_file("tokenizer.model", b.p, b.n);
    refuses("tokenizer.model", "type unigram");
    hk_buf_free(&b);
}

/* Both files: the pieces must be the same, the merges in the order of the scores. */
static void model_and_json(void)
{
    struct hk_buf b = small_model(0, 0, 0);
    json_t *o = small_spm();
    clear_folder();
    put_file("tokenizer.model", b.p, b.n);
    put_json("tokenizer.json", o);
    struct imported m;
    struct hk_error err = {.text = ""};
    bool good = import(&m, folder, &err) == HK_OK;
    const struct hk_kv *kv = hk_kvlist_find(&m.list, "tokenizer.ggml.scores");
    struct hk_array a = {0};
    good = good && kv != NULL && hk_kv_array(kv, HK_ARRAY_F32, &a, &err) == HK_OK;
    ok(good && hk_array_f32(&a, 264) == -2 && hk_array_f32(&a, 263) == -3,
       "tokenizer.json and tokenizer.model: the latter's scores %s", err.text);
    hk_array_free(&a);
    drop(&m);
    put_at(o, "model.merges", "[[\"\xe2\x96\x81\",\"a\"],[\"a\",\"b\"]]");
    put_json("tokenizer.json", o);
    refuses("merges", "not in the order of tokenizer.model's scores");
    put_at(o, "model.vocab.b", NULL);
    put_at(o, "model.vocab.c", "261");
    put_at(o, "model.merges", "[]");
    put_json("tokenizer.json", o);
    refuses("pieces", "disagree: piece 261 is \"b\"");
    json_decref(o);
    hk_buf_free(&b);
}

/* "first" and "always" of Metaspace, where a blank is put. */
static void prefixes(void)
{
    static const char metaspace[] = "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
                                    "\"split\":false,\"prepend_scheme\":\"%s\"}";
    static const struct {
        const char *scheme, *text, *want;
    } rows[] = {
        {"first", "ab", "[264]"},
        {"first", " ab", "[264]"},
        {"first", "  ab", "[259,264]"},
        {"first", "</s>ab", "[2,262]"},
        {"first", "a</s> b", "[263,2,259,261]"},
        {"always", "</s>ab", "[2,264]"},
        {"always", "</s> ab", "[2,264]"},
        {"never", "ab", "[262]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        json_t *o = small_spm(), *want = json_loads(rows[i].want, 0, NULL);
        snprintf(text, sizeof text, metaspace, rows[i].scheme);
        put_at(o, "normalizer", "null");
        put_at(o, "pre_tokenizer", text);
        if (strcmp(rows[i].scheme, "never") == 0)
            json_array_remove(json_object_get(json_object_get(o, "decoder"), "decoders"), 3);
        clear_folder();
        put_json("tokenizer.json", o);
        struct hke_tokenizer *t = load(folder);
        ok(t != NULL && encodes_to(t, str(rows[i].text), HKE_PARSE_SPECIAL, want),
           "Metaspace %s: \"%s\"", rows[i].scheme, rows[i].text);
        hke_tokenizer_free(&t);
        json_decref(want);
        json_decref(o);
    }
    struct hk_buf b = small_model(0, 0, 0);
    json_t *want = json_pack("[i,i]", 2, 262);
    clear_folder();
    put_file("tokenizer.model", b.p, b.n);
    put_file("tokenizer_config.json", "{\"legacy\":false}", 16);
    struct hke_tokenizer *t = load(folder);
    ok(t != NULL && encodes_to(t, str("</s>ab"), HKE_PARSE_SPECIAL, want), "legacy false");
    hke_tokenizer_free(&t);
    model_to_json("{\"legacy\":false}", "</s>ab", want);
    json_decref(want);
    want = json_pack("[i,i,i]", 264, 2, 264);
    model_to_json("{}", "ab</s>ab", want);
    json_decref(want);
    hk_buf_free(&b);
}

int main(void)
{
    make_folder();
    model_alone();
    refuse_models();
    model_and_json();
    prefixes();
    clear_folder();
    rmdir(folder);
    return tap_done();
}
