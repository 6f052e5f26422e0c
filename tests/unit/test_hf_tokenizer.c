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
    if (good)
        stored(name, folder, prefix);
}

int main(void)
{
    make_folder();
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
