/* A file, an index or a directory leads to the whole model that it belongs to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/set.h"

/* PATH in two: its directory, empty or with the last slash, and the name. */
static char *directory_of(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    *name = path + n;
    return strndup(path, n);
}

static bool exists(const char *dir, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s", dir, name) < 0)
        return false;
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* ---- the index that a file may be in ---- */

/* STEM.EXT.index.json of a shard. */
static char *index_of_shard(const char *name)
{
    struct hk_shard_name n;
    char *out = NULL;
    if (!hk_shard_name_parse(name, &n) ||
        asprintf(&out, "%.*s%s.index.json", (int)n.stem, name, n.suffix) < 0)
        return NULL;
    return out;
}

/* What the reference's saver notes in key index_file. */
static char *index_in_key(const struct hk_file *f)
{
    const struct hk_kv *kv = hk_kv_find(f, "index_file");
    struct hk_bytes b;
    if (f->format != HK_FORMAT_HK || kv == NULL || hk_kv_string(kv, &b, NULL) != HK_OK)
        return NULL;
    char *name = strndup((const char *)b.p, b.n);
    if (name != NULL && hk_plain_name(name) && hk_is_index_name(name))
        return name;
    free(name);
    return NULL;
}

/* The name of the index beside NAME, or NULL. */
static char *find_index(const struct hk_file *f, const char *dir, const char *name)
{
    char *candidates[] = {
        index_of_shard(name), index_in_key(f),
        f->format == HK_FORMAT_SAFETENSORS ? strdup("model.safetensors.index.json") : NULL};
    char *found = NULL;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (candidates[i] != NULL && found == NULL && exists(dir, candidates[i]))
            found = candidates[i];
        else
            free(candidates[i]);
    return found;
}

/* ---- opening ---- */

static enum hk_status use_index(struct hk_set *s, const char *name, struct hk_error *err)
{
    enum hk_status status = hk_set_index_read(&s->index, s->dir, name, err);
    return status != HK_OK ? status : hk_set_index_files(&s->index, &s->names, err);
}

/* NAME says that it is a shard, or is said to be one by its name alone. */
static enum hk_status use_name(struct hk_set *s, const char *name, struct hk_place is,
                               struct hk_error *err)
{
    struct hk_shard_name n;
    if (is.count > 1 &&
        (!hk_shard_name_parse(name, &n) || n.count != is.count || n.number != is.number))
        return hk_fail(
            err, HK_E_FORMAT, HK_NO_OFFSET,
            "is shard %u of %u, so its name should end in -%05u-of-%05u and an extension",
            is.number, is.count, is.number, is.count);
    return hk_names_of_shard(&s->names, name, err);
}

/* Whether F, called NAME, is one of several by what it says or, of a kind of file that cannot say,
 * by its name. */
static bool is_shard(const struct hk_file *f, const char *name, struct hk_place is)
{
    struct hk_shard_name n;
    return is.count > 1 ||
           (f->format == HK_FORMAT_SAFETENSORS && hk_shard_name_parse(name, &n) && n.count > 1);
}

/* The files that belong to F; none if it is a whole model. */
static enum hk_status find_files(struct hk_set *s, const struct hk_file *f, const char *name,
                                 struct hk_error *err)
{
    struct hk_place is;
    enum hk_status status = hk_place_of(f, name, &is, err);
    if (status != HK_OK)
        return status;
    bool shard = is_shard(f, name, is);
    char *index = find_index(f, s->dir, name);
    if (index != NULL)
        status = use_index(s, index, err);
    free(index);
    if (status != HK_OK || hk_names_have(&s->names, name))
        return status;
    if (shard && s->index.name != NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is a shard, but not in %.100s",
                       s->index.name);
    hk_names_free(&s->names);
    return shard ? use_name(s, name, is, err) : HK_OK;
}

static enum hk_status open_file(struct hk_file **out, struct hk_set *s, const char *path,
                                const char *name, struct hk_error *err)
{
    struct hk_file *f;
    enum hk_status status = hk_open(&f, path, err);
    if (status != HK_OK)
        return status;
    status = find_files(s, f, name, err);
    if (status == HK_OK && s->names.count == 0) {
        *out = f;
        return HK_OK;
    }
    hk_close(&f);
    return status != HK_OK ? status : hk_set_open_files(out, s, err);
}

static enum hk_status open_index(struct hk_file **out, struct hk_set *s, const char *name,
                                 struct hk_error *err)
{
    enum hk_status status = use_index(s, name, err);
    return status != HK_OK ? status : hk_set_open_files(out, s, err);
}

enum hk_status hk_open_set(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct stat st;
    const char *name;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return hk_open_dir(out, path, err);
    char *dir = directory_of(path, &name);
    if (dir == NULL)
        return hk_fail_nomem(err);
    struct hk_set s = {.dir = dir};
    enum hk_status status = hk_is_index_name(name) ? open_index(out, &s, name, err)
                                                   : open_file(out, &s, path, name, err);
    hk_set_index_free(&s.index);
    hk_names_free(&s.names);
    free(dir);
    return status;
}
