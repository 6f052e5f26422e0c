/* Tokenizers of model directories: what they become gives the ids that their sources give, and can
 * be written as the files that it was, whatever has been edited since. */
#include <sys/stat.h>

#include "tests/lib/mk_tokenizer.h"

/* ---- the way back ---- */

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
    bool good = export_file(f, NULL, &losses, &err) == HK_OK;
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
