/* A file or an index leads to the whole model that it belongs to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/set.h"

/* PATH in two: its directory, empty or with the last slash, and the name. */
static char *split_directory(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    *name = path + n;
    return strndup(path, n);
}

static bool is_file_in(const char *dir, const char *name)
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
static char *make_index_name(const char *name)
{
    struct hk_shard_name n;
    char *out = NULL;
    if (!hk_shard_name_split(name, &n) ||
        asprintf(&out, "%.*s%s.index.json", (int)n.stem, name, n.suffix) < 0)
        return NULL;
    return out;
}

/* What the reference's saver notes in key index_file. */
static char *read_index_key(const struct hk_file *f)
{
    const char *key = hk_format_row(f->format)->shards->index_key;
    const struct hk_kv *kv = key != NULL ? hk_kv_find(f, key) : NULL;
    struct hk_bytes b;
    if (kv == NULL || hk_kv_string(kv, &b, NULL) != HK_OK)
        return NULL;
    char *name = strndup((const char *)b.p, b.n);
    if (name != NULL && hk_plain_name(name) && hk_is_index_name(name))
        return name;
    free(name);
    return NULL;
}

/* The name of the index beside NAME, or NULL. F is what is in NAME, NULL where that is not read. */
static char *find_index_name(const struct hk_file *f, const char *dir, const char *name)
{
    const char *usual = f != NULL ? hk_format_row(f->format)->shards->usual_index : NULL;
    char *candidates[] = {make_index_name(name), f != NULL ? read_index_key(f) : NULL,
                          usual != NULL ? strdup(usual) : NULL};
    char *found = NULL;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (candidates[i] != NULL && found == NULL && is_file_in(dir, candidates[i]))
            found = candidates[i];
        else
            free(candidates[i]);
    return found;
}

static enum hk_status read_index_files(struct hk_set *s, const char *name, struct hk_error *err)
{
    hk_set_index_free(&s->index);
    hk_names_free(&s->names);
    enum hk_status st = hk_set_index_read(&s->index, s->dir, name, err);
    if (st == HK_OK)
        st = hk_set_index_files(&s->index, &s->names, err);
    return st;
}

/* An index of another name that has NAME. */
static enum hk_status search_indexes(struct hk_set *s, const char *name, struct hk_error *err)
{
    struct hk_names all = {0}, models = {0};
    enum hk_status st = hk_list_models(s->dir, &models, &all, err);
    for (size_t i = 0; st == HK_OK && i < all.count && !hk_names_have(&s->names, name); i++)
        if (read_index_files(s, all.names[i], NULL) != HK_OK)
            hk_names_free(&s->names); /* an index of others, and broken: not ours to tell of */
    if (!hk_names_have(&s->names, name)) {
        hk_names_free(&s->names);
        hk_set_index_free(&s->index);
    }
    hk_names_free(&models);
    hk_names_free(&all);
    return st;
}

/* ---- the files of a set ---- */

/* NAME says that it is a shard, or is said to be one by its name alone. */
static enum hk_status add_named_shards(struct hk_set *s, const char *name, struct hk_place is,
                                       struct hk_error *err)
{
    struct hk_shard_name n;
    if (is.count > 1 &&
        (!hk_shard_name_parse(name, &n) || n.count != is.count || n.number != is.number))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "is shard %u of %u, and no index names it, so its name should end in "
                       "-%05u-of-%05u and an extension",
                       is.number, is.count, is.number, is.count);
    return hk_names_of_shard(&s->names, name, err);
}

/* Whether F, called NAME, is one of several by what it says or, of a kind of file that cannot say,
 * by its name. */
static bool is_one_of_several(const struct hk_file *f, const char *name, struct hk_place is)
{
    struct hk_shard_name n;
    return is.count > 1 || (hk_format_row(f->format)->shards->number_key == NULL &&
                            hk_shard_name_split(name, &n) && n.count > 1);
}

/* The files that belong to F; none if it is a whole model. */
static enum hk_status find_files_of_set(struct hk_set *s, const struct hk_file *f, const char *name,
                                        struct hk_error *err)
{
    struct hk_place is;
    struct hk_shard_name n;
    enum hk_status st = hk_place_of(f, name, &is, err);
    if (st != HK_OK)
        return st;
    char *index = find_index_name(f, s->dir, name);
    if (index != NULL)
        st = read_index_files(s, index, err);
    if (st == HK_OK && is_one_of_several(f, name, is) && !hk_names_have(&s->names, name) &&
        (index != NULL || !hk_shard_name_parse(name, &n)))
        st = search_indexes(s, name, err);
    if (st == HK_OK && !hk_names_have(&s->names, name)) {
        hk_names_free(&s->names);
        hk_set_index_free(&s->index);
        if (is_one_of_several(f, name, is))
            st = index == NULL ? add_named_shards(s, name, is, err)
                               : hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                                         "is a shard, but not in %.100s", index);
    }
    free(index);
    return st;
}

/* The same for a file that cannot be read: what its name says, if others are there. */
static enum hk_status find_files_by_name(struct hk_set *s, const char *name, struct hk_error *err)
{
    struct hk_shard_name n;
    enum hk_status st = HK_OK;
    char *index = find_index_name(NULL, s->dir, name);
    if (index != NULL)
        st = read_index_files(s, index, err);
    free(index);
    if (st != HK_OK || hk_names_have(&s->names, name))
        return st;
    hk_names_free(&s->names);
    hk_set_index_free(&s->index);
    return hk_shard_name_parse(name, &n) && n.count > 1 ? hk_names_of_shard(&s->names, name, err)
                                                        : HK_OK;
}

/* ---- opening ---- */

/* *LONE is the file at PATH where that is all; *UNREAD says that it was none to be read. */
static enum hk_status find_in_place(struct hk_set *s, const char *path, const char *name,
                                    struct hk_file **lone, bool *unread, struct hk_error *err)
{
    struct hk_file *f;
    *unread = false;
    if (hk_is_index_name(name))
        return read_index_files(s, name, err);
    enum hk_status st = hk_open(&f, path, err);
    *unread = st != HK_OK && st != HK_E_IO && st != HK_E_NOMEM;
    if (st != HK_OK)
        return st;
    st = find_files_of_set(s, f, name, err);
    if (st == HK_OK && s->names.count == 0 && (f->parts[0].path = strdup(path)) == NULL)
        st = hk_fail_nomem(err);
    if (st == HK_OK && s->names.count == 0)
        *lone = f;
    else
        hk_close(&f);
    return st;
}

void hk_set_free(struct hk_set *s)
{
    hk_set_index_free(&s->index);
    hk_names_free(&s->names);
    free(s->dir);
    *s = (struct hk_set){0};
}

enum hk_status hk_set_find(struct hk_set *s, const char *path, struct hk_error *err)
{
    const char *name;
    struct hk_file *lone = NULL;
    *s = (struct hk_set){.dir = split_directory(path, &name)};
    if (s->dir == NULL)
        return hk_fail_nomem(err);
    bool unread;
    enum hk_status st = find_in_place(s, path, name, &lone, &unread, err);
    hk_close(&lone);
    return unread ? find_files_by_name(s, name, err) : st;
}

enum hk_status hk_open_files(struct hk_file **out, const char *path, struct hk_error *err)
{
    const char *name;
    struct hk_set s = {.dir = split_directory(path, &name)};
    if (s.dir == NULL)
        return hk_fail_nomem(err);
    struct hk_file *lone = NULL;
    bool unread;
    enum hk_status st = find_in_place(&s, path, name, &lone, &unread, err);
    if (st == HK_OK && lone == NULL)
        st = hk_set_open_files(&lone, &s, err);
    if (st == HK_OK)
        *out = lone;
    hk_set_free(&s);
    return st;
}
