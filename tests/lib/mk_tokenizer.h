/* mk_tokenizer.h: tokenizers of model directories for the tests: a folder to write directories
 * into, the keys that they become and the engine's tokenizer of those, small ones of each kind, and
 * the way back. */
#ifndef MK_TOKENIZER_H
#define MK_TOKENIZER_H

#include <jansson.h>

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hf/tokenizer/tokenizer.h"
#include "tests/lib/vocabulary.h"

enum { PATH = 4096 };

/* ---- a directory's keys, and the engine's tokenizer of them ---- */

struct imported {
    struct hk_arena arena;
    struct hk_kvlist list;
    json_t *config, *generation;
};

/* As the directory's reader keeps it. */
static inline void keep(struct hk_kvlist *list, const char *key, const json_t *o)
{
    char *text = o != NULL ? json_dumps(o, 0) : NULL;
    if (text != NULL)
        hk_kvlist_json(list, key, str(text));
    free(text);
}

static inline enum hk_status import(struct imported *m, const char *dir, struct hk_error *err)
{
    char path[2 * PATH];
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
    return hk_hf_import_tokenizer(dir, &c, &m->list, err);
}

static inline void drop(struct imported *m)
{
    json_decref(m->config);
    json_decref(m->generation);
    hk_kvlist_free(&m->list);
    hk_arena_free(&m->arena);
}

static inline int file_of(const struct hk_kvlist *list)
{
    struct hk_writer *w = begin();
    struct hk_error err;
    for (size_t i = 0; i < list->count; i++) {
        const struct hk_kv *kv = &list->kvs[i];
        check(hk_writer_set(w, kv->key, kv->type, kv->value, &err), &err);
    }
    return finish_fd(w);
}

static inline struct hke_tokenizer *tokenizer_of(const struct hk_kvlist *list)
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

static inline struct hke_tokenizer *load(const char *dir)
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

static inline bool encodes_to(const struct hke_tokenizer *t, struct hk_bytes text, unsigned options,
                              const json_t *want)
{
    struct hke_ids ids = {0};
    bool good = hke_encode(t, text, options, &ids, NULL) == HK_OK && ids.n == json_array_size(want);
    for (size_t i = 0; good && i < ids.n; i++)
        good = ids.id[i] == (uint64_t)json_integer_value(json_array_get(want, i));
    hke_ids_free(&ids);
    return good;
}

/* ---- directories in the making ---- */

static char folder[PATH]; /* of this program, for one directory after the other */

static inline void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hk-tokenizer.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) {
        puts("Bail out! no folder for temporary files");
        exit(1);
    }
}

static inline void clear_folder(void)
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

static inline void put_file(const char *name, const void *p, size_t n)
{
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
        puts("Bail out! cannot write a temporary file");
        exit(1);
    }
}

static inline void put_json(const char *name, const json_t *o)
{
    char *text = o != NULL ? json_dumps(o, 0) : NULL;
    if (text != NULL)
        put_file(name, text, strlen(text));
    free(text);
}

/* ---- the way back ---- */

static inline void count_loss(void *arg, const char *text)
{
    printf("# loss: %s\n", text);
    ++*(int *)arg;
}

/* The files that F's keys make, in the folder, with M's configs. */
static inline enum hk_status export_file(const struct hk_file *f, const struct imported *m,
                                         int *losses, struct hk_error *err)
{
    struct hk_side_files files = {0};
    struct hk_convert_options opt = {.size = sizeof opt, .loss = count_loss, .arg = losses};
    enum hk_status s = hk_hf_export_tokenizer(f, &opt, &files, err);
    clear_folder();
    for (size_t i = 0; i < files.count && s == HK_OK; i++)
        put_file(files.files[i].name, files.files[i].bytes.p, files.files[i].bytes.n);
    if (m != NULL) {
        put_json("config.json", m->config);
        put_json("generation_config.json", m->generation);
    }
    hk_side_files_free(&files);
    return s;
}

static inline enum hk_status export_list(const struct imported *m, int *losses,
                                         struct hk_error *err)
{
    int fd = file_of(&m->list);
    struct hk_file *f = NULL;
    check(hk_open_fd(&f, fd, err), err);
    enum hk_status s = export_file(f, m, losses, err);
    hk_close(&f);
    close(fd);
    return s;
}

/* ---- small tokenizers ---- */

/* A small tokenizer.json of each kind; the rows below put something else in one place. */
static inline json_t *small_bpe(void)
{
    return json_loads(
        "{\"added_tokens\":[{\"id\":6,\"content\":\"<e>\",\"special\":true}],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"d\":5},"
        "\"merges\":[\"a b\",\"ab c\"]}}",
        0, NULL);
}

static inline json_t *small_spm(void)
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
static inline void put_at(json_t *o, const char *path, const char *value)
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

/* The folder is refused, and the message has SAYS. */
static inline void refuses(const char *what, const char *says)
{
    struct imported m;
    struct hk_error err = {.text = ""};
    enum hk_status s = import(&m, folder, &err);
    ok(s != HK_OK && strstr(err.text, says) != NULL, "refuses %s: %s", what, err.text);
    drop(&m);
}

#endif
