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
    if (import(&m, dir, &err) == HK_OK && m.list.count > 0)
        t = tokenizer_of(&m.list);
    else
        printf("# %s: %s\n", dir, err.text);
    drop(&m);
    return t;
}

/* ---- stored ids ---- */

static bool shared(char path[PATH], const char *name)
{
    const char *folder = getenv("HK_SHARED");
    struct stat st;
    snprintf(path, PATH, "%s/fixtures/%s", folder != NULL ? folder : "../shared", name);
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
static void stored(const char *name, const char *dir)
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
        ok(t != NULL && encodes_to(t, (struct hk_bytes){0}, HKE_ADD_SPECIAL, before),
           "%s: ids before a text", name);
        hke_tokenizer_free(&t);
    }
    json_decref(texts);
    json_decref(want);
}

static void stored_shared(const char *name, const char *folder)
{
    char dir[PATH];
    (void)shared(dir, folder);
    stored(name, dir);
}

static void stored_package(const char *name, const char *package)
{
    char dir[PATH];
    const char *folder = getenv("HK_VOCABULARIES");
    snprintf(dir, sizeof dir, "%s/%s", folder != NULL ? folder : "no-folder", package);
    stored(name, dir);
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

int main(void)
{
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
    return tap_done();
}
