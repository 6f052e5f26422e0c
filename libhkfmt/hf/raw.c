/* Directories of models that are not known here: tensors under their own names, and each small file
 * beside them as a value under "hk.raw.NAME", byte for byte; and the way back. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/hf/raw.h"
#include "libhkfmt/hk/file.h"

static const char prefix[] = "hk.raw.", source_key[] = "hk.source.format", source[] = "raw";

enum { MAX_RAW_FILE = 64 << 20, MAX_RAW_NAME = 255, PREFIX = sizeof prefix - 1 };

struct raw_opening {
    const char *dir;
    struct hk_file *f;
    struct hk_kvlist kvs;
    struct hk_arena arena;
    char **names; /* of the directory's entries, sorted */
    size_t count, room;
    void (*left_out)(void *arg, const char *what);
    void *arg;
    struct hk_error *err;
};

/* ---- from a directory ---- */

static int compare_raw_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum hk_status add_raw_name(struct raw_opening *o, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return HK_OK;
    if (!hk_grow(&o->names, &o->room, o->count + 1, sizeof *o->names) ||
        (o->names[o->count] = strdup(name)) == NULL)
        return hk_fail_nomem(o->err);
    o->count++;
    return HK_OK;
}

static enum hk_status list_raw_names(struct raw_opening *o)
{
    DIR *d = opendir(o->dir);
    enum hk_status st = HK_OK;
    if (d == NULL)
        return hk_fail_sys(o->err, errno, "cannot open");
    errno = 0;
    for (const struct dirent *e; st == HK_OK && (e = readdir(d)) != NULL; errno = 0)
        st = add_raw_name(o, e->d_name);
    if (st == HK_OK && errno != 0)
        st = hk_fail_sys(o->err, errno, "cannot read the directory");
    closedir(d);
    if (o->count > 0)
        qsort(o->names, o->count, sizeof *o->names, compare_raw_names);
    return st;
}

/* A file that a directory of a model is not whole without: text, or a vocabulary. */
static bool is_kept_file(const char *name, struct hk_bytes b)
{
    static const char *const ends[] = {".model", ".spm", ".vocab", ".tiktoken"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return hk_utf8_valid(b) && (b.n == 0 || memchr(b.p, '\0', b.n) == NULL);
}

static void set_raw_file(struct raw_opening *o, const char *name, struct hk_bytes b)
{
    char key[PREFIX + MAX_RAW_NAME + 1] = "";
    const size_t n = strlen(name);
    memcpy(key, prefix, PREFIX);
    memcpy(key + PREFIX, name, n);
    hk_kvlist_set(&o->kvs, (struct hk_bytes){(const uint8_t *)key, PREFIX + n},
                  hk_utf8_valid(b) ? HK_META_STRING : HK_META_BYTES, b);
}

static bool is_small_file(const struct raw_opening *o, const char *name, enum hk_status *st)
{
    struct stat s;
    char *path = hk_hf_path(o->dir, name);
    const bool there = path != NULL && stat(path, &s) == 0;
    *st = path != NULL ? HK_OK : hk_fail_nomem(o->err);
    free(path);
    return there && S_ISREG(s.st_mode) && s.st_size <= MAX_RAW_FILE && strlen(name) <= MAX_RAW_NAME;
}

static enum hk_status take_raw_file(struct raw_opening *o, const char *name)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum hk_status st = HK_OK;
    bool kept = false;
    if (hk_hf_is_own_weights(name))
        return HK_OK;
    if (!hk_hf_is_other_weights(name) && is_small_file(o, name, &st))
        st = hk_hf_read(o->dir, name, MAX_RAW_FILE, &p, &n, o->err);
    if (st == HK_OK && p != NULL) {
        kept = is_kept_file(name, (struct hk_bytes){p, n});
        if (kept)
            set_raw_file(o, name, (struct hk_bytes){p, n});
    }
    if (st == HK_OK && !kept && o->left_out != NULL)
        o->left_out(o->arg, name);
    free(p);
    return st;
}

static bool is_raw_key(struct hk_bytes key)
{
    return key.n > PREFIX && memcmp(key.p, prefix, PREFIX) == 0;
}

/* What the weights' own metadata say stays; it must not pass for a file. */
static enum hk_status take_raw_metadata(struct raw_opening *o)
{
    for (size_t i = 0; i < o->f->kv_count; i++) {
        const struct hk_kv *kv = &o->f->kvs[i];
        if (is_raw_key(kv->key) || hk_bytes_are(kv->key, source_key))
            return hk_fail(o->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "key %.*s of the weights' __metadata__ stands for something else here",
                           HK_STR(kv->key));
        if (!hk_is_shard_key(o->f, kv))
            hk_kvlist_set(&o->kvs, kv->key, (enum hk_meta_type)kv->type, kv->value);
    }
    return HK_OK;
}

static enum hk_status read_raw_directory(struct raw_opening *o)
{
    enum hk_status st = hk_hf_open_weights(&o->f, o->dir, o->err);
    if (st == HK_OK)
        st = list_raw_names(o);
    hk_kvlist_text(&o->kvs, source_key, source);
    for (size_t i = 0; st == HK_OK && i < o->count; i++)
        st = take_raw_file(o, o->names[i]);
    if (st == HK_OK)
        st = take_raw_metadata(o);
    if (st == HK_OK)
        st = hk_kvlist_take(&o->kvs, o->f, o->err);
    if (st != HK_OK)
        return st;
    hk_arena_adopt(&o->f->arena, &o->arena);
    o->f->format = HK_FORMAT_HF;
    return hk_hf_rebuild_indexes(o->f, o->err);
}

enum hk_status hk_open_raw(struct hk_file **out, const char *path,
                           void (*left_out)(void *arg, const char *what), void *arg,
                           struct hk_error *err)
{
    struct raw_opening o = {.dir = path, .left_out = left_out, .arg = arg, .err = err};
    o.kvs.arena = &o.arena;
    enum hk_status st = read_raw_directory(&o);
    hk_kvlist_free(&o.kvs);
    hk_arena_free(&o.arena);
    for (size_t i = 0; i < o.count; i++)
        free(o.names[i]);
    free(o.names);
    if (st == HK_OK)
        *out = o.f;
    else
        hk_close(&o.f);
    return st;
}

/* ---- to a directory ---- */

bool hk_is_raw(const struct hk_file *f)
{
    const struct hk_kv *kv = hk_kv_find(f, source_key);
    return kv != NULL && kv->type == HK_META_STRING && hk_bytes_are(kv->value, source);
}

/* A name of one file in the directory itself, and none of the weights'. */
static enum hk_status check_raw_name(const char *name, size_t n, struct hk_error *err)
{
    const bool sound = n > 0 && n <= MAX_RAW_NAME && strlen(name) == n &&
                       strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
                       strcmp(name, "..") != 0;
    if (!sound || hk_hf_is_own_weights(name) || hk_hf_is_other_weights(name))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "key %s%s: no file of that name is written", prefix, name);
    return HK_OK;
}

static enum hk_status put_raw_file(struct hk_view *v, const struct hk_kv *kv,
                                   struct hk_side_files *out, struct hk_error *err)
{
    const size_t n = kv->key.n - PREFIX;
    struct hk_buf b = {0};
    char *name = hk_arena_alloc(&v->file->arena, n + 1);
    if (name == NULL)
        return hk_fail_nomem(err);
    memcpy(name, kv->key.p + PREFIX, n);
    name[n] = '\0';
    enum hk_status st = check_raw_name(name, n, err);
    if (st == HK_OK && kv->type != HK_META_STRING && kv->type != HK_META_JSON &&
        kv->type != HK_META_BYTES)
        st = hk_fail(err, HK_E_FORMAT, kv->offset, "key %.*s holds no file's bytes",
                     HK_STR(kv->key));
    if (st != HK_OK)
        return st;
    hk_buf_put(&b, kv->value.p, kv->value.n);
    return hk_side_files_add(out, name, &b, err);
}

enum hk_status hk_raw_export(struct hk_view *v, struct hk_side_files *out, struct hk_error *err)
{
    struct hk_kvlist *l = &v->kvs;
    enum hk_status st = HK_OK;
    size_t kept = 0;
    for (size_t i = 0; st == HK_OK && i < l->count; i++) {
        const struct hk_kv kv = l->kvs[i];
        if (is_raw_key(kv.key))
            st = put_raw_file(v, &kv, out, err);
        else if (!hk_bytes_are(kv.key, source_key))
            l->kvs[kept++] = kv;
    }
    if (st == HK_OK)
        l->count = kept;
    return st;
}
