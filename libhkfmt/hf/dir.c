/* A model directory's files: the small ones as bytes and as JSON, and which ones are the weights.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/buf.h"
#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"

char *hk_hf_path(const char *dir, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

enum hk_status hk_hf_about(const char *name, enum hk_status st, struct hk_error *err)
{
    if (st == HK_OK || st == HK_E_NOMEM || err == NULL)
        return st;
    struct hk_error was = *err;
    hk_fail(err, st, was.offset, "%s: %s", name, was.text);
    err->sys = was.sys;
    return st;
}

/* ---- bytes ---- */

static enum hk_status read_whole_fd(int fd, uint8_t *p, size_t n, struct hk_error *err)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = pread(fd, p + at, n - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hk_fail_sys(err, errno, "cannot read");
        if (got == 0)
            return hk_fail(err, HK_E_RANGE, at, "it became shorter while it was read");
        at += (size_t)got;
    }
    return HK_OK;
}

static enum hk_status read_part(const struct hk_part *part, size_t most, uint8_t **out, size_t *n,
                                struct hk_error *err)
{
    if (part->size > most)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "%llu bytes, of which at most %zu are read",
                       (unsigned long long)part->size, most);
    uint8_t *p = malloc((size_t)part->size + 1);
    if (p == NULL)
        return hk_fail_nomem(err);
    p[part->size] = '\0';
    enum hk_status st = read_whole_fd(part->fd, p, (size_t)part->size, err);
    if (st != HK_OK) {
        free(p);
        return st;
    }
    *out = p;
    *n = (size_t)part->size;
    return HK_OK;
}

enum hk_status hk_hf_read(const char *dir, const char *name, size_t most, uint8_t **out, size_t *n,
                          struct hk_error *err)
{
    struct hk_error why;
    struct hk_part part;
    char *path = hk_hf_path(dir, name);
    if (path == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_map_path(&part, path, &why);
    free(path);
    if (st == HK_E_IO && why.sys == ENOENT) {
        *out = NULL;
        *n = 0;
        return HK_OK;
    }
    if (st == HK_OK) {
        st = read_part(&part, most, out, n, &why);
        hk_unmap(&part);
    }
    if (st != HK_OK && err != NULL)
        *err = why;
    return hk_hf_about(name, st, err);
}

/* ---- JSON ---- */

enum { SAFE_DIGITS = 18 }; /* of an integer that surely fits 64 bits */

/* Where the number at P, of which N bytes are left, ends; *WHOLE: it is written as an integer. */
static size_t json_number_length(const uint8_t *p, size_t n, bool *whole)
{
    size_t at = 0;
    *whole = true;
    for (; at < n && p[at] != '\0' && strchr("0123456789+-.eE", p[at]) != NULL; at++)
        if (p[at] == '.' || p[at] == 'e' || p[at] == 'E')
            *whole = false;
    return at;
}

/* TEXT, in which integers of more digits get an exponent, so that the parser takes them as reals:
 * "model_max_length" may have thirty digits. */
static void spell_big_integers_as_reals(struct hk_buf *b, struct hk_bytes text)
{
    bool quoted = false, whole;
    size_t copied = 0;
    for (size_t i = 0; i < text.n; i++) {
        const uint8_t c = text.p[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        if (quoted || !((c >= '0' && c <= '9') || c == '-'))
            continue;
        size_t length = json_number_length(text.p + i, text.n - i, &whole);
        i += length - 1;
        if (!whole || length <= SAFE_DIGITS)
            continue;
        hk_buf_put(b, text.p + copied, i + 1 - copied);
        hk_buf_text(b, "e0");
        copied = i + 1;
    }
    if (copied < text.n)
        hk_buf_put(b, text.p + copied, text.n - copied);
}

enum hk_status hk_hf_parse(const char *name, struct hk_bytes text, json_t **out,
                           struct hk_error *err)
{
    struct hk_buf b = {0};
    json_error_t why;
    spell_big_integers_as_reals(&b, text);
    if (b.failed) {
        hk_buf_free(&b);
        return hk_fail_nomem(err);
    }
    json_t *json =
        hk_json_load((struct hk_bytes){b.p, b.n}, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    hk_buf_free(&b);
    if (json == NULL && json_error_code(&why) == json_error_out_of_memory)
        return hk_fail_nomem(err);
    if (json == NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no JSON: line %d: %s", name, why.line,
                       why.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no JSON object", name);
    }
    *out = json;
    return HK_OK;
}

enum hk_status hk_hf_json(const char *dir, const char *name, size_t most, json_t **out,
                          struct hk_error *err)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum hk_status st = hk_hf_read(dir, name, most, &p, &n, err);
    if (st == HK_OK && p == NULL)
        *out = NULL;
    else if (st == HK_OK)
        st = hk_hf_parse(name, (struct hk_bytes){p, n}, out, err);
    free(p);
    return st;
}

/* ---- weights ---- */

static const char whole_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

static bool name_ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* model-00001-of-00003.safetensors */
static bool is_weights_shard(const char *name)
{
    return strncmp(name, "model-", 6) == 0 && strstr(name, "-of-") != NULL &&
           name_ends_in(name, ".safetensors");
}

/* Weights that are not read from a model directory, though something else may read them. */
bool hk_hf_is_other_weights(const char *name)
{
    static const char *const kinds[] = {".safetensors", ".bin", ".pth",     ".pt",  ".gguf",
                                        ".hk",          ".h5",  ".msgpack", ".npz", ".onnx"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name_ends_in(name, kinds[i]))
            return true;
    return false;
}

bool hk_hf_is_own_weights(const char *name)
{
    return strcmp(name, index_name) == 0 || strcmp(name, whole_name) == 0 || is_weights_shard(name);
}

struct listing {
    struct hk_hf_weights *w;
    size_t room;
    char other[256]; /* the first of other weights */
};

static bool keep_weights_name(struct listing *l, const char *name)
{
    struct hk_hf_weights *w = l->w;
    if (!hk_grow(&w->names, &l->room, w->count + 1, sizeof *w->names))
        return false;
    w->names[w->count] = strdup(name);
    return w->names[w->count] != NULL && ++w->count > 0;
}

static bool take_weights_entry(struct listing *l, const char *name)
{
    if (strcmp(name, index_name) == 0)
        l->w->index = true;
    else if (strcmp(name, whole_name) == 0)
        return l->w->whole = true, keep_weights_name(l, name);
    else if (is_weights_shard(name))
        return keep_weights_name(l, name);
    else if (hk_hf_is_other_weights(name) && (l->other[0] == '\0' || strcmp(name, l->other) < 0))
        snprintf(l->other, sizeof l->other, "%s", name);
    return true;
}

static enum hk_status walk_directory(DIR *d, struct listing *l, struct hk_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL)
            return errno == 0 ? HK_OK : hk_fail_sys(err, errno, "cannot read the directory");
        if (!take_weights_entry(l, entry->d_name))
            return hk_fail_nomem(err);
    }
}

static enum hk_status choose_weights(const struct listing *l, struct hk_error *err)
{
    const struct hk_hf_weights *w = l->w;
    if (w->index || (w->whole && w->count == 1))
        return HK_OK;
    if (w->whole)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "ambiguous weights: both '%s' and '%s', and no %s", whole_name, w->names[0],
                       index_name);
    if (w->count > 0)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no %s that tells what '%s' is part of",
                       index_name, w->names[0]);
    if (l->other[0] != '\0')
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "no %s or %s, and '%s' is not read in their place", whole_name, index_name,
                       l->other);
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no %s and no %s", whole_name, index_name);
}

static int compare_weights_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum hk_status hk_hf_list(const char *dir, struct hk_hf_weights *out, struct hk_error *err)
{
    struct hk_hf_weights w = {0};
    struct listing l = {.w = &w};
    DIR *d = opendir(dir);
    if (d == NULL)
        return hk_fail_sys(err, errno, "cannot open");
    enum hk_status st = walk_directory(d, &l, err);
    closedir(d);
    if (w.count > 0)
        qsort(w.names, w.count, sizeof *w.names, compare_weights_names);
    if (st == HK_OK)
        st = choose_weights(&l, err);
    if (st == HK_OK)
        *out = w;
    else
        hk_hf_list_free(&w);
    return st;
}

void hk_hf_list_free(struct hk_hf_weights *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->names[i]);
    free(w->names);
    *w = (struct hk_hf_weights){0};
}

enum hk_status hk_hf_weights_name(char **out, const char *dir, struct hk_error *err)
{
    struct hk_hf_weights w;
    enum hk_status st = hk_hf_list(dir, &w, err);
    if (st != HK_OK)
        return st;
    *out = strdup(w.index ? "model.safetensors.index.json" : "model.safetensors");
    hk_hf_list_free(&w);
    return *out != NULL ? HK_OK : hk_fail_nomem(err);
}
