/* Tokenizers of model directories: what they become gives the ids that their sources give, and what
 * cannot be done exactly is refused. */
#include <jansson.h>
#include <sys/stat.h>

#include "libhkfmt/foreign/hf.h"
#include "tests/unit/vocabulary.h"

enum { PATH = 4096 };

/* ---- a directory's keys, and the engine's tokenizer of them ---- */

struct imported {
    struct hk_arena arena;
    struct hk_kvlist list;
    json_t *config, *generation;
};

/* As the directory's reader keeps it. */
static void keep(struct hk_kvlist *list, const char *key, const json_t *o)
{
    char *text = o != NULL ? json_dumps(o, 0) : NULL;
    if (text != NULL)
        hk_kvlist_json(list, key, str(text));
    free(text);
}

static enum hk_status import(struct imported *m, const char *dir, struct hk_error *err)
{
    char path[PATH];
    *m = (struct imported){0};
    m->list.arena = &m->arena;
    snprintf(path, sizeof path, "%s/config.json", dir);
    m->config = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    m->generation = json_load_file(path, 0, NULL);
    if (m->config == NULL)
        m->config = json_object();
    keep(&m->list, "hk.hf.config", m->config);
    keep(&m->list, "hk.hf.generation_config", m->generation);
    struct hk_hf_config c = {.json = m->config, .generation = m->generation};
    return hk_hf_read_tokenizer(dir, &c, &m->list, err);
}

static void drop(struct imported *m)
{
    json_decref(m->config);
    json_decref(m->generation);
    hk_kvlist_free(&m->list);
    hk_arena_free(&m->arena);
}

static int file_of(const struct hk_kvlist *list)
{
    struct hk_writer *w = begin();
    struct hk_error err;
    for (size_t i = 0; i < list->count; i++) {
        const struct hk_kv *kv = &list->kvs[i];
        check(hk_writer_set(w, kv->key, kv->type, kv->value, &err), &err);
    }
    return finish_fd(w);
}

static struct hke_tokenizer *tokenizer_of(const struct hk_kvlist *list)
{
    int fd = file_of(list);
    struct hk_file *f = NULL;
    struct hke_tokenizer *t = NULL;
    struct hk_error err;
    check(hk_open_fd(&f, fd, &err), &err);
    if (hke_tokenizer_new(&t, f, &err) != HK_OK)
        printf("# %s\n", err.text);
    hk_close(&f);
    close(fd);
    return t;
}

static struct hke_tokenizer *load(const char *dir)
{
    struct imported m;
    struct hk_error err = {.text = ""};
    struct hke_tokenizer *t = NULL;
    if (import(&m, dir, &err) == HK_OK)
        t = tokenizer_of(&m.list);
    else
        printf("# %s: %s\n", dir, err.text);
    drop(&m);
    return t;
}

/* ---- directories in the making ---- */

static char folder[PATH]; /* of this program, for one directory after the other */

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hk-tokenizer.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) {
        puts("Bail out! no folder for temporary files");
        exit(1);
    }
}

static void clear_folder(void)
{
    static const char *const names[] = {
        "tokenizer.json",    "tokenizer_config.json",  "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja",    "chat_template.json",
        "config.json",       "generation_config.json", "tokenizer.model"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[2 * PATH];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

static void put_file(const char *name, const void *p, size_t n)
{
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
        puts("Bail out! cannot write a temporary file");
        exit(1);
    }
}

static void put_json(const char *name, const json_t *o)
{
    char *text = o != NULL ? json_dumps(o, 0) : NULL;
    if (text != NULL)
        put_file(name, text, strlen(text));
    free(text);
}

/* ---- the way back ---- */

static void count_loss(void *arg, const char *text)
{
    printf("# loss: %s\n", text);
    ++*(int *)arg;
}

/* The files that F's keys make, in the folder, with M's configs. */
static enum hk_status export(const struct hk_file *f, const struct imported *m, int *losses,
                             struct hk_error *err) {
    struct hk_side_files files = {0};
    struct hk_convert_options opt = {.loss = count_loss, .arg = losses};
    enum hk_status s = hk_hf_put_tokenizer(f, &opt, &files, err); clear_folder();
    for (size_t i = 0; i < files.count && s == HK_OK; i++)
        put_file(files.files[i].name, files.files[i].bytes.p, files.files[i].bytes.n);
    if (m != NULL){put_json("config.json", m->config);
                   put_json("generation_config.json", m->generation);}
hk_side_files_free(&files);
return s;
}

static enum hk_status export_list(const struct imported *m, int *losses, struct hk_error *err)
{
    int fd = file_of(&m->list);
    struct hk_file *f = NULL;
    check(hk_open_fd(&f, fd, err), err);
    enum hk_status s = export(f, m, losses, err);
    hk_close(&f);
    close(fd);
    return s;
}

/* DIR/NAME holds the same JSON as the folder's, or neither is there. */
static bool same_json(const char *dir, const char *name)
{
    char path[2 * PATH];
    const size_t how = JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *a = json_load_file(path, how, NULL);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *b = json_load_file(path, how, NULL);
    bool good = (a == NULL && b == NULL) || json_equal(a, b);
    if (!good)
        printf("# %s differs\n", name);
    json_decref(a);
    json_decref(b);
    return good;
}

static bool same_keys(const struct hk_kvlist *a, const struct hk_kvlist *b)
{
    bool good = a->count == b->count;
    for (size_t i = 0; i < a->count; i++) {
        char key[256];
        snprintf(key, sizeof key, "%.*s", HK_STR(a->kvs[i].key));
        const struct hk_kv *kv = hk_kvlist_find(b, key);
        bool same = kv != NULL && kv->type == a->kvs[i].type && kv->value.n == a->kvs[i].value.n &&
                    memcmp(kv->value.p, a->kvs[i].value.p, kv->value.n) == 0;
        if (!same)
            printf("# %s differs\n", key);
        good &= same;
    }
    return good;
}

/* DIR becomes keys, which become the files of DIR, which become the keys. */
static void there_and_back(const char *name, const char *dir)
{
    struct imported m, again;
    struct hk_error err = {.text = ""};
    struct stat st;
    int losses = 0;
    if (stat(dir, &st) != 0) {
        tap_skip(name, "SKIPPED: the directory is not there (HK_SHARED, HK_VOCABULARIES)");
        return;
    }
    bool good = import(&m, dir, &err) == HK_OK && export_list(&m, &losses, &err) == HK_OK;
    ok(good && losses == 0, "%s: written again: %s", name, err.text);
    ok(same_json(dir, "tokenizer.json") && same_json(dir, "tokenizer_config.json") &&
           same_json(dir, "special_tokens_map.json"),
       "%s: the same files", name);
    good = import(&again, folder, &err) == HK_OK;
    ok(good && same_keys(&m.list, &again.list), "%s: the same keys: %s", name, err.text);
    drop(&again);
    drop(&m);
}

/* ---- stored ids ---- */

static bool shared(char path[PATH], const char *name)
{
    const char *where = getenv("HK_SHARED");
    struct stat st;
    snprintf(path, PATH, "%s/fixtures/%s", where != NULL ? where : "../shared", name);
    return stat(path, &st) == 0;
}

static json_t *shared_json(const char *name)
{
    char path[PATH];
    return shared(path, name) ? json_load_file(path, JSON_ALLOW_NUL, NULL) : NULL;
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

static bool decodes_to(const struct hke_tokenizer *t, const json_t *list, struct hk_bytes want)
{
    struct hke_ids ids = {0};
    struct hke_text x = {0};
    ids.n = json_array_size(list);
    ids.id = calloc(ids.n + 1, sizeof *ids.id);
    for (size_t i = 0; i < ids.n; i++)
        ids.id[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    bool good = hke_decode(t, ids.id, ids.n, HKE_SHOW_SPECIAL, &x, NULL) == HK_OK &&
                x.n == want.n && (x.n == 0 || memcmp(x.p, want.p, x.n) == 0);
    hke_text_free(&x);
    hke_ids_free(&ids);
    return good;
}

/* How many of CASES T encodes and decodes as stored. */
static size_t count_good(const struct hke_tokenizer *t, const json_t *texts, const json_t *cases)
{
    size_t i, good = 0;
    json_t *c;
    json_array_foreach(cases, i, c)
    {
        size_t id = (size_t)json_integer_value(json_object_get(c, "id"));
        struct hk_bytes text = text_of(json_object_get(json_array_get(texts, id), "text"));
        const json_t *ids = json_object_get(c, "ids"), *plain = json_object_get(c, "plain"),
                     *decoded = json_object_get(c, "decoded");
        bool same = encodes_to(t, text, 0, plain != NULL ? plain : ids);
        same &= ids == NULL || (encodes_to(t, text, HKE_PARSE_SPECIAL, ids) &&
                                decodes_to(t, ids, decoded != NULL ? text_of(decoded) : text));
        good += same;
        if (!same)
            printf("# case %zu differs\n", id);
    }
    return good;
}

/* The 260 texts; DIR is under the fixtures, or (OWN) under HK_VOCABULARIES. */
static void stored(const char *name, const char *dir, bool prefix)
{
    char path[PATH];
    snprintf(path, sizeof path, "tokenizers/expected/%s.json", name);
    json_t *texts = shared_json("tokenizers/texts.json"), *want = shared_json(path);
    struct stat st;
    if (texts == NULL || want == NULL || stat(dir, &st) != 0) {
        tap_skip(name, "SKIPPED: the directory or its ids are not there (HK_SHARED, "
                       "HK_VOCABULARIES)");
    } else {
        struct hke_tokenizer *t = load(dir);
        json_t *cases = json_object_get(want, "cases");
        size_t n = json_array_size(cases);
        ok(t != NULL && n == 260 && count_good(t, texts, cases) == n, "%s: all %zu texts", name, n);
        const json_t *before = json_object_get(want, "prefix_ids");
        if (prefix)
            ok(t != NULL && encodes_to(t, (struct hk_bytes){0}, HKE_ADD_SPECIAL, before),
               "%s: ids before a text", name);
        hke_tokenizer_free(&t);
    }
    json_decref(texts);
    json_decref(want);
}

static void stored_shared(const char *name, const char *path)
{
    char dir[PATH];
    (void)shared(dir, path);
    stored(name, dir, true);
}

static void stored_package(const char *name, const char *package)
{
    char dir[PATH];
    const char *packages = getenv("HK_VOCABULARIES");
    snprintf(dir, sizeof dir, "%s/%s", packages != NULL ? packages : "no-folder", package);
    stored(name, dir, true);
}

/* The cases that a trained model's directory brings along. */
static void trained(const char *name)
{
    char path[PATH], dir[PATH];
    snprintf(path, sizeof path, "trained/%s/tokenize.json", name);
    json_t *cases = shared_json(path), *c;
    snprintf(path, sizeof path, "trained/%s", name);
    if (cases == NULL || !shared(dir, path)) {
        tap_skip(name, "SKIPPED: the model is not there (HK_SHARED)");
        json_decref(cases);
        return;
    }
    struct hke_tokenizer *t = load(dir);
    size_t i, good = 0;
    json_array_foreach(cases, i, c)
    {
        struct hk_bytes text = text_of(json_object_get(c, "text"));
        good += t != NULL && encodes_to(t, text, HKE_PARSE_SPECIAL, json_object_get(c, "ids")) &&
                encodes_to(t, text, HKE_PARSE_SPECIAL | HKE_ADD_SPECIAL,
                           json_object_get(c, "ids_special")) &&
                decodes_to(t, json_object_get(c, "ids"), text_of(json_object_get(c, "decoded")));
    }
    ok(good == i && i > 0, "%s: %zu of %zu cases", name, good, i);
    hke_tokenizer_free(&t);
    json_decref(cases);
}

/* ---- what is refused ---- */

/* A small tokenizer.json of each kind; the rows below put something else in one place. */
static json_t *small_bpe(void)
{
    return json_loads(
        "{\"added_tokens\":[{\"id\":6,\"content\":\"<e>\",\"special\":true}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"d\":5},"
        "\"merges\":[\"a b\",\"ab c\"]}}",
        0, NULL);
}

static json_t *small_spm(void)
{
    json_t *o = json_loads(
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
        "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":2,\"content\":\"</s>\",\"special\":true}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
        "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},"
        "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,"
        "\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,"
        "\"\xe2\x96\x81\":259,\"a\":260,\"b\":261,\"ab\":262,\"\xe2\x96\x81\x61\":263,"
        "\"\xe2\x96\x81\x61\x62\":264},"
        "\"merges\":[[\"a\",\"b\"],[\"\xe2\x96\x81\x61\",\"b\"],[\"\xe2\x96\x81\",\"ab\"],"
        "[\"\xe2\x96\x81\",\"a\"]]}}",
        0, NULL);
    json_t *vocab = json_object_get(json_object_get(o, "model"), "vocab");
    for (int b = 0; b < 256; b++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", b);
        json_object_set_new(vocab, piece, json_integer(3 + b));
    }
    return o;
}

/* Put VALUE (JSON; NULL deletes) at PATH ("model.vocab") of O. */
static void put_at(json_t *o, const char *path, const char *value)
{
    char key[64];
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        o = json_object_get(o, key);
        path = dot + 1;
    }
    if (value == NULL)
        json_object_del(o, path);
    else
        json_object_set_new(o, path, json_loads(value, JSON_DECODE_ANY, NULL));
}

static const struct refusal {
    char kind; /* b: byte-level; s: SentencePiece-like */
    const char *path, *value;
    const char *says;
} refusals[] = {
    {'b', "model.type", "\"WordPiece\"", "type WordPiece is not supported"},
    {'b', "model.type", "\"Unigram\"", "type Unigram is not supported"},
    {'b', "model.vocab", "{}", "model.vocab"},
    {'b', "model.vocab", "[]", "model.vocab"},
    {'b', "model.vocab", NULL, "model.vocab"},
    {'b', "model.vocab.d", "-1", "the id of \"d\""},
    {'b', "model.vocab.d", "1.5", "the id of \"d\""},
    {'b', "model.vocab.d", "9000000", "the id of \"d\""},
    {'b', "model.vocab.d", "4", "have the same id"},
    {'b', "model.merges", NULL, "model.merges is no list"},
    {'b', "model.merges", "[1]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"ab\"]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"a b c\"]", "merge 0 is no pair"},
    {'b', "model.merges", "[[\"a\"]]", "merge 0 is no pair"},
    {'b', "model.merges", "[[\"a\",1]]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"a b\",\"a x\"]", "merge 1 (\"a\" and \"x\")"},
    {'b', "model.merges", "[\"a b\",\"b c\"]", "merge 1 (\"b\" and \"c\")"},
    {'b', "model.merges", "[\"a b\",\"ab c\",\"a b\"]", "is there twice"},
    {'b', "model.dropout", "0.1", "model.dropout"},
    {'b', "model.continuing_subword_prefix", "\"##\"", "continuing_subword_prefix"},
    {'b', "model.end_of_word_suffix", "\"</w>\"", "end_of_word_suffix"},
    {'b', "model.ignore_merges", "1", "model.ignore_merges is no boolean"},
    {'b', "normalizer", "{\"type\":\"NFKC\"}", "NFKC"},
    {'b', "normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}",
     "Lowercase"},
    {'b', "pre_tokenizer", "null", "pre-tokenizer that is not known"},
    {'b', "pre_tokenizer", "{\"type\":\"Whitespace\"}", "Whitespace"},
    {'b', "pre_tokenizer", "{\"type\":\"ByteLevel\"}", "add_prefix_space"},
    {'b', "pre_tokenizer", "{\"type\":\"Digits\"}", "without ByteLevel"},
    {'b', "pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
     "false},{\"type\":\"Digits\"}]}",
     "after ByteLevel: Digits"},
    {'b', "pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Removed\",\"invert\":true}",
     "behavior: Removed"},
    {'b', "pre_tokenizer", "{\"type\":\"Split\",\"behavior\":\"Isolated\"}", "without a pattern"},
    {'b', "added_tokens", "{}", "added_tokens is no list"},
    {'b', "added_tokens", "[{\"id\":7}]", "no content"},
    {'b', "added_tokens", "[{\"content\":\"x\"}]", "the id of \"x\""},
    {'b', "added_tokens", "[{\"id\":900000,\"content\":\"x\"}]", "the id of \"x\""},
    {'b', "added_tokens", "[{\"id\":1,\"content\":\"a\"}]", "\"a\" has the id 1, elsewhere 0"},
    {'b', "added_tokens", "[{\"id\":1,\"content\":\"x\"}]", "which is that of \"b\""},
    {'b', "added_tokens", "[{\"id\":6,\"content\":\"x\",\"lstrip\":1}]", "lstrip of \"x\""},
    {'b', "post_processor", "{\"type\":\"BertProcessing\"}", "BertProcessing"},
    {'b', "post_processor", "{\"type\":\"TemplateProcessing\"}", "single is no list"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},"
     "{\"Sequence\":{}}]}",
     "the text once"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
     "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[99]}}}",
     "the id of \"x\" is not in the vocabulary"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
     "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[1,2]}}}",
     "more than one token"},
    {'b', "decoder", "{\"type\":\"WordPiece\"}", "decoder"},
    {'s', "model.ignore_merges", "true", "ignore_merges"},
    {'s', "model.vocab.<0x41>", NULL, "<0x41>"},
    {'s', "normalizer", "null", "blanks stay blanks"},
    {'s', "normalizer", "{\"type\":\"NFC\"}", "NFC"},
    {'s', "normalizer", "{\"type\":\"Prepend\",\"prepend\":\"x\"}", "Prepend"},
    {'s', "pre_tokenizer", "{\"type\":\"Whitespace\"}", "Whitespace"},
    {'s', "model.merges", "[[\"a\",\"b\"],[\"\xe2\x96\x81\",\"a\"]]",
     "no merge makes \"\xe2\x96\x81\x61\x62\""},
    {'s', "added_tokens", "[{\"id\":265,\"content\":\"x\xe2\x96\x81\"}]",
     "would be changed by the normalizer"},
    {'s', "added_tokens", "[{\"id\":265,\"content\":\"x\",\"normalized\":true}]",
     "would be changed by the normalizer"},
    {'s', "decoder", "{\"type\":\"ByteLevel\"}", "decoder"},
};

static void refuses(const char *what, const char *says)
{
    struct imported m;
    struct hk_error err = {.text = ""};
    enum hk_status s = import(&m, folder, &err);
    ok(s != HK_OK && strstr(err.text, says) != NULL, "refuses %s: %s", what, err.text);
    drop(&m);
}

static void refuse_all(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        json_t *o = r->kind == 'b' ? small_bpe() : small_spm();
        clear_folder();
        put_at(o, r->path, r->value);
        put_json("tokenizer.json", o);
        refuses(r->path, r->says);
        json_decref(o);
    }
}

/* Patterns that the two libraries of regular expressions may understand in different ways. */
static void refuse_patterns(void)
{
    static const char *const odd[] = {
        "\\w+", "a\\b", "^a",    "a$",   "[a[b]]",  "[a&&b]", "(?i)a", "(?m:a)", "a{,3}", "a{2}+",
        "\\h",  "\\R",  "\\x41", "[]a]", "(?<n>a)", "\\1",    "[\\S]", "(*F)",   "\\p",   "a\\"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        json_t *o = small_bpe();
        clear_folder();
        json_object_set_new(o, "pre_tokenizer",
                            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex",
                                      odd[i], "behavior", "Isolated"));
        put_json("tokenizer.json", o);
        refuses(odd[i], "not known to mean the same");
        json_decref(o);
    }
}

static const struct beside { /* a file beside the small tokenizer.json */
    const char *name, *text, *says;
} besides[] = {
    {"tokenizer.json", "[", "tokenizer.json"},
    {"tokenizer.json", "[]", "no JSON object"},
    {"tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"\\u0061\":1}}}", "uplicate"},
    {"tokenizer_config.json", "{\"a\":1,\"a\":2}", "uplicate"},
    {"tokenizer_config.json", "{\"bos_token\":\"<x>\"}", "bos_token \"<x>\" is not in the"},
    {"tokenizer_config.json", "{\"add_bos_token\":1}", "add_bos_token is no boolean"},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":[]}", "added_tokens_decoder is no object"},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
     "the id of \"y\""},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":{\"3\":{\"content\":\"y\"}}}",
     "which is that of \"ab\""},
    {"tokenizer_config.json", "{\"chat_template\":1}", "neither a string nor a list"},
    {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"a\"}]}", "no template"},
    {"tokenizer_config.json",
     "{\"chat_template\":[{\"name\":\"a\",\"template\":\"\"},{\"name\":\"a\",\"template\":\"\"}]}",
     "the same name"},
    {"added_tokens.json", "{\"<new>\":1}", "which is that of \"b\""},
    {"chat_template.json", "{}", "has none"},
    {"config.json", "{\"eos_token_id\":7}", "eos_token_id 7 is outside the vocabulary of 7"},
    {"config.json", "{\"eos_token_id\":[1,-2]}", "eos_token_id -2"},
    {"config.json", "{\"bos_token_id\":\"1\"}", "bos_token_id is no integer"},
    {"generation_config.json", "{\"eos_token_id\":[1,70]}", "eos_token_id 70"},
};

static void refuse_besides(void)
{
    for (size_t i = 0; i < sizeof besides / sizeof besides[0]; i++) {
        json_t *o = small_bpe();
        clear_folder();
        put_json("tokenizer.json", o);
        put_file(besides[i].name, besides[i].text, strlen(besides[i].text));
        refuses(besides[i].name, besides[i].says);
        json_decref(o);
    }
}

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

/* ---- templates and edits ---- */

static struct hk_bytes string_of(const struct imported *m, const char *key)
{
    const struct hk_kv *kv = hk_kvlist_find(&m->list, key);
    return kv != NULL ? kv->value : (struct hk_bytes){0};
}

static bool has_template(const char *key, const char *text)
{
    struct imported m;
    bool good = import(&m, folder, NULL) == HK_OK && hk_bytes_are(string_of(&m, key), text);
    drop(&m);
    return good;
}

static void templates(void)
{
    static const char both[] = "{\"chat_template\":[{\"name\":\"default\",\"template\":\"one\"},"
                               "{\"name\":\"tool_use\",\"template\":\"two\"}]}";
    json_t *o = small_bpe();
    clear_folder();
    put_json("tokenizer.json", o);
    put_file("chat_template.json", "{\"chat_template\":\"json\"}", 24);
    ok(has_template("tokenizer.chat_template", "json"), "chat_template.json where there is none");
    struct imported m;
    struct hk_error err = {.text = ""};
    int losses = 0;
    bool good = import(&m, folder, &err) == HK_OK && export_list(&m, &losses, &err) == HK_OK;
    drop(&m);
    ok(good && losses == 0 && has_template("tokenizer.chat_template", "json"),
       "and is written there again: %s", err.text);
    put_file("chat_template.json", "{\"chat_template\":\"json\"}", 24);
    put_file("tokenizer_config.json", both, strlen(both));
    ok(has_template("tokenizer.chat_template", "one") &&
           has_template("tokenizer.chat_template.tool_use", "two"),
       "a list of templates wins over it");
    (void)import(&m, folder, NULL);
    struct hk_array a = {0};
    ok(hk_array_from_blob(string_of(&m, "tokenizer.chat_templates"), &a) && a.count == 1 &&
           hk_bytes_are(hk_array_string(&a, 0), "tool_use"),
       "the names of a list of templates");
    drop(&m);
    put_file("chat_template.jinja", "jinja\n", 6);
    ok(has_template("tokenizer.chat_template", "jinja\n"), "chat_template.jinja wins over both");
    json_decref(o);
}

/* Keys changed since win over the files that are kept. */
static void edits(void)
{
    struct imported m, again;
    struct hk_error err = {.text = ""};
    json_t *o = small_bpe();
    int losses = 0;
    clear_folder();
    put_json("tokenizer.json", o);
    static const char settings[] = "{\"x\":1000000000000000019884624838656,\"bos_token\":\"<e>\","
                                   "\"chat_template\":\"t\"}";
    put_file("tokenizer_config.json", settings, strlen(settings));
    (void)import(&m, folder, &err);
    hk_kvlist_int(&m.list, "tokenizer.ggml.bos_token_id", 3);
    hk_kvlist_bool(&m.list, "tokenizer.ggml.add_bos_token", true);
    hk_kvlist_text(&m.list, "tokenizer.chat_template", "other");
    hk_kvlist_text(&m.list, "tokenizer.hk.normalizer", "nfc");
    hk_kvlist_i32s(&m.list, "tokenizer.ggml.token_type", (const int32_t[]){1, 1, 1, 3, 1, 4, 3}, 7);
    bool good = export_list(&m, &losses, &err) == HK_OK && import(&again, folder, &err) == HK_OK;
    ok(good && losses == 0, "edited keys are written: %s", err.text);
    static const char *const keys[] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.chat_template",
        "tokenizer.hk.normalizer",     "tokenizer.ggml.token_type",    "tokenizer.ggml.tokens"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && good; i++) {
        struct hk_bytes a = string_of(&m, keys[i]), b = string_of(&again, keys[i]);
        ok(a.n > 0 && a.n == b.n && memcmp(a.p, b.p, a.n) == 0, "%s as edited", keys[i]);
    }
    drop(&again);
    hk_kvlist_text(&m.list, "tokenizer.ggml.model", "t5");
    ok(export_list(&m, &losses, &err) == HK_E_UNSUPPORTED && strstr(err.text, "t5") != NULL,
       "a kind that cannot be written: %s", err.text);
    hk_kvlist_text(&m.list, "tokenizer.ggml.model", "gpt2");
    hk_kvlist_remove(&m.list, "tokenizer.hk.pre_regex");
    hk_kvlist_remove(&m.list, "hk.hf.tokenizer");
    hk_kvlist_text(&m.list, "tokenizer.ggml.pre", "no-such");
    ok(export_list(&m, &losses, &err) == HK_E_UNSUPPORTED && strstr(err.text, "no-such") != NULL,
       "patterns that are not known: %s", err.text);
    drop(&m);
    json_decref(o);
}

static void back_shared(const char *name, const char *path)
{
    char dir[PATH];
    (void)shared(dir, path);
    there_and_back(name, dir);
}

static void back_package(const char *name)
{
    char dir[PATH];
    const char *packages = getenv("HK_VOCABULARIES");
    snprintf(dir, sizeof dir, "%s/%s", packages != NULL ? packages : "no-folder", name);
    there_and_back(name, dir);
}

/* What another program's reader makes of the folder: check.mjs, with the npm package that
 * tests/tokenizers/README.md names. */
static void ask_node(const char *name)
{
    const char *modules = getenv("HK_NODE_MODULES");
    char texts[PATH], expected[PATH], path[256], command[6 * PATH];
    snprintf(path, sizeof path, "tokenizers/expected/%s.json", name);
    if (modules == NULL || !shared(texts, "tokenizers/texts.json") || !shared(expected, path)) {
        tap_skip(name, "SKIPPED: no @huggingface/tokenizers to compare with (HK_NODE_MODULES)");
        return;
    }
    snprintf(command, sizeof command, "node tests/tokenizers/check.mjs '%s' '%s' '%s' '%s'",
             modules, folder, texts, expected);
    fflush(stdout);
    ok(system(command) == 0, "%s: another reader of tokenizer.json gives the ids", name);
}

/* A GGUF's vocabulary as a directory gives the same ids. */
static void from_gguf(const char *name, const char *file, bool prefix)
{
    char path[PATH];
    struct hk_file *f = NULL;
    struct hk_error err = {.text = ""};
    int losses = 0;
    if (!shared(path, file)) {
        tap_skip(name, "SKIPPED: the vocabulary is not there (HK_SHARED)");
        return;
    }
    check(hk_open(&f, path, &err), &err);
    bool good = export(f, NULL, &losses, &err) == HK_OK;
    ok(good, "%s: a GGUF's vocabulary as a directory: %s", name, err.text);
    hk_close(&f);
    if (good) {
        stored(name, folder, prefix);
        ask_node(name);
    }
}

int main(void)
{
    make_folder();
    refuse_all();
    refuse_patterns();
    refuse_besides();
    model_alone();
    refuse_models();
    model_and_json();
    prefixes();
    templates();
    edits();
    trained("tiny-llama");
    trained("tiny-qwen3");
    stored_shared("stories260K", "models/stories260K-hf");
    stored_shared("stories260K", "models/stories260K-hf-bf16-sharded");
    stored_shared("gpt2", "tokenizers/gpt2");
    stored_package("llama3_1", "llama3_1");
    stored_package("qwen3", "qwen3");
    stored_package("gpt4o", "gpt4o");
    stored_package("gemma3", "gemma3");
    stored_package("mistral_v1", "llama2");
    back_shared("tiny-llama", "trained/tiny-llama");
    back_shared("tiny-qwen3", "trained/tiny-qwen3");
    back_shared("stories260K", "models/stories260K-hf");
    back_shared("gpt2", "tokenizers/gpt2");
    back_package("llama3_1");
    back_package("qwen3");
    back_package("gpt4o");
    back_package("gemma3");
    back_package("llama2");
    from_gguf("gpt2", "tokenizers/gpt2/gpt2-vocab.gguf", true);
    from_gguf("stories260K", "models/stories260K-vocab.gguf", true);
    from_gguf("mistral_v1", "tokenizers/mistral_v1/mistral_v1-vocab.gguf",
              false); /* its add_bos_token is */
    clear_folder();
    rmdir(folder);
    return tap_done();
}
