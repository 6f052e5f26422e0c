/* The index of a set, {"metadata":{"total_size":N, ...},"weight_map":{tensor: file}}: written by
 * whoever, so its names must be plain, and what it says must be what the files hold, both ways. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/set.h"

enum { MAX_INDEX = 256 << 20 };

bool hk_is_index_name(const char *name)
{
    static const char suffix[] = ".index.json";
    size_t n = strlen(name);
    return n >= sizeof suffix && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

/* ---- finding ---- */

static bool is_model_name(const char *name)
{
    enum hk_format format;
    return hk_format_by_extension(name, &format);
}

static bool is_index_of_model(const char *name)
{
    char model[NAME_MAX + 1];
    if (!hk_is_index_name(name) || strlen(name) >= sizeof model)
        return false;
    snprintf(model, sizeof model, "%.*s", (int)(strlen(name) - strlen(".index.json")), name);
    return is_model_name(model);
}

static enum hk_status note_entry(struct hk_names *models, struct hk_names *indexes,
                                 const char *name, struct hk_error *err)
{
    if (name[0] == '.')
        return HK_OK;
    if (is_model_name(name))
        return hk_names_add(models, strdup(name), err);
    return is_index_of_model(name) ? hk_names_add(indexes, strdup(name), err) : HK_OK;
}

enum hk_status hk_list_models(const char *path, struct hk_names *models, struct hk_names *indexes,
                              struct hk_error *err)
{
    enum hk_status st = HK_OK;
    DIR *dir = opendir(*path == '\0' ? "." : path);
    if (dir == NULL)
        return hk_fail_sys(err, errno, "cannot open the directory");
    errno = 0;
    for (const struct dirent *e; st == HK_OK && (e = readdir(dir)) != NULL; errno = 0)
        st = note_entry(models, indexes, e->d_name, err);
    if (st == HK_OK && errno != 0)
        st = hk_fail_sys(err, errno, "cannot read the directory");
    closedir(dir);
    hk_names_sort(models);
    hk_names_sort(indexes);
    return st;
}

/* ---- reading ---- */

static enum hk_status parse_index(json_t **out, const struct hk_part *part, struct hk_error *err)
{
    json_error_t why;
    if (part->size > MAX_INDEX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "is larger than an index can be");
    *out = hk_json_load((struct hk_bytes){part->map, (size_t)part->size}, JSON_REJECT_DUPLICATES,
                        &why);
    if (*out != NULL)
        return HK_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return hk_fail_nomem(err);
    return hk_fail(err, HK_E_FORMAT, (uint64_t)why.position, "is no valid JSON: %s", why.text);
}

static enum hk_status check_weight_map(const struct hk_set_index *x, struct hk_error *err)
{
    const char *tensor;
    json_t *file;
    if (!json_is_object(x->map))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "has no object \"weight_map\"");
    if (json_object_size(x->map) == 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "names no file");
    json_object_foreach(x->map, tensor, file)
    {
        if (!json_is_string(file))
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "the file of tensor %.128s is no text",
                           tensor);
        if (!hk_plain_name(json_string_value(file)))
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tensor %.100s: '%.100s' is no name of a file beside the index", tensor,
                           json_string_value(file));
    }
    return HK_OK;
}

static enum hk_status read_index_json(struct hk_set_index *x, const char *path,
                                      struct hk_error *err)
{
    struct hk_part part;
    enum hk_status st = hk_map_path(&part, path, err);
    if (st != HK_OK)
        return st;
    st = parse_index(&x->json, &part, err);
    hk_unmap(&part);
    x->map = json_object_get(x->json, "weight_map");
    return st != HK_OK ? st : check_weight_map(x, err);
}

enum hk_status hk_set_index_read(struct hk_set_index *x, const char *dir, const char *name,
                                 struct hk_error *err)
{
    char *path = NULL;
    struct hk_error why;
    if ((x->name = strdup(name)) == NULL || asprintf(&path, "%s%s", dir, name) < 0)
        return hk_fail_nomem(err);
    enum hk_status st = read_index_json(x, path, &why);
    free(path);
    if (st != HK_OK) {
        hk_fail(err, st, why.offset, "%s: %s", name, why.text);
        if (err != NULL)
            err->sys = why.sys;
    }
    return st;
}

void hk_set_index_free(struct hk_set_index *x)
{
    free(x->name);
    json_decref(x->json);
    *x = (struct hk_set_index){0};
}

/* ---- its files ---- */

enum hk_status hk_set_index_files(const struct hk_set_index *x, struct hk_names *out,
                                  struct hk_error *err)
{
    const char *tensor;
    json_t *file;
    const char *last = "";
    json_object_foreach(x->map, tensor, file)
    {
        if (strcmp(json_string_value(file), last) == 0)
            continue;
        last = json_string_value(file);
        enum hk_status st = hk_names_add(out, strdup(last), err);
        if (st != HK_OK)
            return st;
    }
    hk_names_sort(out);
    return HK_OK;
}

/* ---- agreement ---- */

static enum hk_status check_indexed_tensor(const struct hk_set_index *x,
                                           const struct hk_file *whole, const struct hk_tensor *t,
                                           struct hk_error *err)
{
    const char *file = whole->parts[t->part].name;
    const json_t *says = json_object_getn(x->map, (const char *)t->name.p, t->name.n);
    if (says == NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "tensor %.*s is in %.80s, but not in %.80s",
                       HK_STR(t->name), file, x->name);
    if (strcmp(json_string_value(says), file) != 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tensor %.*s is in %.60s, not in %.60s as %.60s says", HK_STR(t->name), file,
                       json_string_value(says), x->name);
    return HK_OK;
}

/* Every tensor of the files is in the map, so the map has more only if it has one too many. */
static enum hk_status check_no_absent_tensor(const struct hk_set_index *x,
                                             const struct hk_file *whole, struct hk_error *err)
{
    const char *tensor;
    json_t *file;
    if (json_object_size(x->map) == whole->tensor_count)
        return HK_OK;
    json_object_foreach(
        x->map, tensor,
        file) if (hk_tensor_find(whole, tensor) ==
                  NULL) return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                                       "tensor %.128s is not in %.80s, though %.80s says so",
                                       tensor, json_string_value(file), x->name);
    return HK_OK;
}

/* A count, which some writers give as 40.0. */
static bool is_count(const json_t *v, uint64_t n)
{
    if (json_is_integer(v))
        return json_integer_value(v) >= 0 && (uint64_t)json_integer_value(v) == n;
    return json_is_real(v) && json_real_value(v) == (double)n;
}

uint64_t hk_payload_size(const struct hk_file *f)
{
    uint64_t size = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->type != HK_TYPE_SHARED_REF) /* sections lie in files, so no sum wraps */
            size += t->data_size + t->scale_size + t->residual_size;
    }
    return size;
}

/* The reference does not say whether total_size of a .hk counts its files or its tensors. That of
 * safetensors is wrong in many published models, and no reader looks at it. */
static enum hk_status check_index_totals(const struct hk_set_index *x, const struct hk_file *whole,
                                         struct hk_error *err)
{
    const json_t *metadata = json_object_get(x->json, "metadata");
    const struct {
        const char *key;
        uint64_t is, or ;
    } totals[] = {
        {"total_size", hk_payload_size(whole), hk_file_size(whole)},
        {"total_tensors", whole->tensor_count, whole->tensor_count},
        {"split_count", whole->part_count, whole->part_count},
    };
    for (size_t i = hk_format_row(whole->format)->shards->index_totals ? 0 : 1;
         i < sizeof totals / sizeof *totals; i++) {
        const json_t *v = json_object_get(metadata, totals[i].key);
        if (v != NULL && !is_count(v, totals[i].is) && !is_count(v, totals[i].or))
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%.100s: %s is not %llu as in the files",
                           x->name, totals[i].key, (unsigned long long)totals[i].is);
    }
    return HK_OK;
}

enum hk_status hk_set_index_check(const struct hk_set_index *x, const struct hk_file *whole,
                                  struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < whole->tensor_count; i++)
        st = check_indexed_tensor(x, whole, &whole->tensors[i], err);
    if (st == HK_OK)
        st = check_no_absent_tensor(x, whole, err);
    return st != HK_OK ? st : check_index_totals(x, whole, err);
}
