/* A path leads to a model: a directory to the one in it, a Hugging Face model if there is a
 * config.json, else the only file or set; a file or an index to all that belongs to it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/set/set.h"

struct found {
    char *dir; /* with its slash */
    struct hk_names models, indexes;
    struct hk_names indexed; /* what the indexes name, sorted */
};

static enum hk_status read_indexes(struct found *d, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < d->indexes.count; i++) {
        struct hk_set_index x = {0};
        st = hk_set_index_read(&x, d->dir, d->indexes.names[i], err);
        if (st == HK_OK)
            st = hk_set_index_files(&x, &d->indexed, err);
        hk_set_index_free(&x);
    }
    hk_names_sort(&d->indexed);
    return st;
}

/* What a set of shards is known by: the name of its first, which may be missing. */
static char *known_by(const char *name)
{
    struct hk_shard_name n;
    return hk_shard_name_parse(name, &n) ? hk_shard_name_make(name, n.stem, 1, n.count, n.suffix)
                                         : strdup(name);
}

/* One name for each model: its index, the first of its shards, or the only file. */
static enum hk_status name_models(const struct found *d, struct hk_names *out, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < d->models.count; i++)
        if (!hk_names_have(&d->indexed, d->models.names[i]))
            st = hk_names_add(out, known_by(d->models.names[i]), err);
    for (size_t i = 0; st == HK_OK && i < d->indexes.count; i++)
        st = hk_names_add(out, strdup(d->indexes.names[i]), err);
    hk_names_sort(out);
    return st;
}

/* A file that is there of the model that is known by NAME. */
static const char *find_present_file(const struct found *d, const char *name)
{
    for (size_t i = 0; i < d->models.count && !hk_names_have(&d->models, name); i++)
        if (hk_shard_name_kin(d->models.names[i], name))
            return d->models.names[i];
    return name;
}

static enum hk_status refuse_models(const struct hk_names *models, struct hk_error *err)
{
    char list[240] = "";
    if (models->count == 0)
        return hk_fail(err, HK_E_IO, HK_NO_OFFSET,
                       "is a directory without a model (config.json, .hk, .gguf or .safetensors)");
    for (size_t i = 0; i < models->count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", models->names[i]);
    }
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                   "is a directory of %zu models, name one of them: %s", models->count, list);
}

/* A single file gets its name too: which one was used is worth saying. */
static enum hk_status open_only_model(struct hk_file **out, const struct found *d, const char *name,
                                      struct hk_error *err)
{
    char *path = NULL;
    struct hk_file *f = NULL;
    struct hk_error why;
    if (asprintf(&path, "%s%s", d->dir, name) < 0)
        return hk_fail_nomem(err);
    enum hk_status st = hk_open_files(&f, path, &why);
    free(path);
    if (st != HK_OK) {
        hk_fail(err, st, why.offset, "%.100s: %s", name, why.text);
        if (err != NULL)
            err->sys = why.sys;
        return st;
    }
    if (f->parts[0].name == NULL && (f->parts[0].name = strdup(name)) == NULL) {
        hk_close(&f);
        return hk_fail_nomem(err);
    }
    *out = f;
    return HK_OK;
}

/* Name of the one model of D, allocated. */
static enum hk_status find_only_model(char **out, struct found *d, struct hk_error *err)
{
    struct hk_names models = {0};
    enum hk_status st = hk_list_models(d->dir, &d->models, &d->indexes, err);
    if (st == HK_OK)
        st = read_indexes(d, err);
    if (st == HK_OK)
        st = name_models(d, &models, err);
    if (st == HK_OK && models.count != 1)
        st = refuse_models(&models, err);
    if (st == HK_OK && (*out = strdup(find_present_file(d, models.names[0]))) == NULL)
        st = hk_fail_nomem(err);
    hk_names_free(&models);
    return st;
}

static void free_found(struct found *d)
{
    hk_names_free(&d->models);
    hk_names_free(&d->indexes);
    hk_names_free(&d->indexed);
    free(d->dir);
}

static bool has_config(const char *dir)
{
    char *path = NULL;
    struct stat st;
    if (asprintf(&path, "%sconfig.json", dir) < 0)
        return false;
    bool there = stat(path, &st) == 0;
    free(path);
    return there;
}

static bool set_directory_name(struct found *d, const char *path)
{
    size_t n = strlen(path);
    return asprintf(&d->dir, "%s%s", path, n > 0 && path[n - 1] == '/' ? "" : "/") >= 0;
}

static enum hk_status open_directory(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct found d = {0};
    char *name = NULL;
    if (!set_directory_name(&d, path))
        return hk_fail_nomem(err);
    enum hk_status st = HK_OK;
    if (has_config(d.dir))
        st = hk_open_hf(out, path, err);
    else if ((st = find_only_model(&name, &d, err)) == HK_OK)
        st = open_only_model(out, &d, name, err);
    free(name);
    free_found(&d);
    return st;
}

enum hk_status hk_find_in_dir(char **out, const char *path, bool *hf, struct hk_error *err)
{
    struct found d = {0};
    char *name = NULL;
    if (!set_directory_name(&d, path))
        return hk_fail_nomem(err);
    *hf = has_config(d.dir);
    enum hk_status st =
        *hf ? hk_hf_weights_name(&name, path, err) : find_only_model(&name, &d, err);
    if (st == HK_OK && asprintf(out, "%s%s", d.dir, name) < 0)
        st = hk_fail_nomem(err);
    free(name);
    free_found(&d);
    return st;
}

enum hk_status hk_open_set(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? open_directory(out, path, err)
                                                       : hk_open_files(out, path, err);
}

/* ---- the file that is changed ---- */

/* Whether PATH can be nothing but a file of its own; also where it cannot be read, so that whoever
 * changes it says why. */
static bool stands_alone(const char *path)
{
    struct stat st;
    struct hk_shard_name n;
    uint8_t p[HK_HEADER_SIZE];
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    if (stat(path, &st) != 0)
        return true;
    if (!S_ISREG(st.st_mode))
        return !S_ISDIR(st.st_mode);
    if (hk_is_index_name(name))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t size = fd < 0 ? -1 : pread(fd, p, sizeof p, 0);
    if (fd >= 0)
        close(fd);
    if (size < HK_HEADER_SIZE || memcmp(p, HK_MAGIC, 4) != 0)
        return true;
    return le16(p + HK_AT_SPLIT_COUNT) <= 1 && !hk_shard_name_split(name, &n);
}

enum hk_status hk_first_file(char **out, const char *path, struct hk_error *err)
{
    struct hk_file *f = NULL;
    enum hk_status st = stands_alone(path) ? HK_OK : hk_open_set(&f, path, err);
    if (st != HK_OK)
        return st;
    const char *first = f != NULL && (hk_format_traits(f->format) & HK_TRAIT_RECORDS) != 0
                            ? hk_file_part_path(f, 0)
                            : path;
    char *copy = strdup(first);
    hk_close(&f);
    if (copy == NULL)
        return hk_fail_nomem(err);
    *out = copy;
    return HK_OK;
}
