/* A directory, a model's or an adapter's: written beside its place and put there in one step. A
 * directory that is there is replaced only if all that it holds could have come from here. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/set/save.h"

/* ---- the directory that is there ---- */

static bool is_ours(const struct hk_dir_kind *kind, const char *name)
{
    struct hk_shard_name n;
    for (size_t i = 0; i < kind->name_count; i++)
        if (strcmp(name, kind->names[i]) == 0)
            return true;
    return hk_shard_name_parse(name, &n) && n.stem == strlen(kind->stem) &&
           memcmp(name, kind->stem, n.stem) == 0 && strcmp(n.suffix, ".safetensors") == 0;
}

static enum hk_status check_entry(const struct hk_dir_kind *kind, const char *directory,
                                  const char *name, const struct hk_identities *input,
                                  struct hk_error *err)
{
    struct stat st;
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return hk_fail_nomem(err);
    enum hk_status status = hk_check_not_input(input, path, err);
    if (status == HK_OK && (!is_ours(kind, name) || lstat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        status = hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                         "holds '%.200s', which was not written here, so it is not replaced", name);
    free(path);
    return status;
}

static enum hk_status list(const struct hk_dir_kind *kind, const char *directory,
                           const struct hk_identities *input, struct hk_names *out,
                           struct hk_error *err)
{
    DIR *dir = opendir(directory);
    enum hk_status status = HK_OK;
    if (dir == NULL)
        return hk_fail_sys(err, errno, "cannot open the directory");
    errno = 0;
    for (const struct dirent *e; status == HK_OK && (e = readdir(dir)) != NULL; errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        status = check_entry(kind, directory, e->d_name, input, err);
        if (status == HK_OK)
            status = hk_names_add(out, strdup(e->d_name), err);
    }
    if (status == HK_OK && errno != 0)
        status = hk_fail_sys(err, errno, "cannot read the directory");
    closedir(dir);
    hk_names_sort(out);
    return status;
}

struct place {
    const struct hk_dir_kind *kind;
    char *path; /* without a slash at its end; links resolved if it is there */
    bool there;
    mode_t mode;
    struct hk_names old; /* what is in it */
};

/* Something of that name is there. */
static enum hk_status look_into(struct place *p, bool replace, const struct hk_identities *input,
                                struct hk_error *err)
{
    if (!replace)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "exists already and is not replaced without being forced");
    char *real = realpath(p->path, NULL);
    if (real == NULL)
        return hk_fail_sys(err, errno, "cannot resolve");
    free(p->path);
    p->path = real;
    enum hk_status status = list(p->kind, p->path, input, &p->old, err);
    if (status == HK_OK && p->old.count > 0 && !hk_names_have(&p->old, p->kind->names[0]))
        status = hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                         "is no %s directory (it has no %s), so it is not replaced", p->kind->what,
                         p->kind->names[0]);
    return status;
}

static enum hk_status find_place(struct place *p, const char *path, bool replace,
                                 const struct hk_identities *input, struct hk_error *err)
{
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if ((p->path = strndup(path, n)) == NULL)
        return hk_fail_nomem(err);
    p->there = stat(p->path, &st) == 0;
    if (!p->there && errno != ENOENT)
        return hk_fail_sys(err, errno, "cannot create");
    if (!p->there && lstat(p->path, &st) == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is a link to nothing");
    if (p->there && !S_ISDIR(st.st_mode))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is there and no directory");
    p->mode = p->there ? st.st_mode & 07777 : 0;
    return p->there ? look_into(p, replace, input, err) : HK_OK;
}

static void free_place(struct place *p)
{
    free(p->path);
    hk_names_free(&p->old);
}

/* ---- the new one ---- */

static enum hk_status put_side_files(const struct hk_side_files *side, struct hk_stage *stage,
                                     struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < side->count; i++)
        status = hk_stage_put(stage, side->files[i].name, &side->files[i].bytes, err);
    return status;
}

static enum hk_status read_model_again(const char *path, const struct hk_file *base,
                                       struct hk_error *err)
{
    struct hk_file *f = NULL;
    (void)base;
    enum hk_status status = hk_open_hf(&f, path, err);
    hk_close(&f);
    return status;
}

/* What could not be read again is not put in place: it would be lost, and so would what it
 * replaces. */
static enum hk_status check_readable(const struct hk_dir_kind *kind, const struct hk_stage *stage,
                                     struct hk_error *err)
{
    enum hk_status status = kind->read_again(stage->temp, kind->base, err);
    return status == HK_OK ? HK_OK
                           : hk_hf_about("as a directory it could not be read again", status, err);
}

static enum hk_status put_all(struct hk_saving *s, const struct hk_side_files *side,
                              struct hk_stage *stage, struct place *p, struct hk_error *err)
{
    enum hk_status status = put_side_files(side, stage, err);
    if (status == HK_OK)
        status = hk_save_files(s, stage, err);
    if (status == HK_OK)
        status = check_readable(p->kind, stage, err);
    if (status == HK_OK && p->there && chmod(stage->temp, p->mode) != 0)
        status = hk_fail_sys(err, errno, "cannot keep permissions");
    return status == HK_OK ? hk_stage_become(stage, p->path, p->there ? &p->old : NULL, err)
                           : status;
}

static enum hk_status write_dir(struct hk_view *v, const struct hk_side_files *side,
                                const struct hk_convert_options *opt, struct place *p,
                                struct hk_error *err)
{
    struct hk_stage stage;
    struct hk_saving s = {.whole = v->file,
                          .to = HK_FORMAT_SAFETENSORS,
                          .opt = opt,
                          .stem = p->kind->stem,
                          .stem_size = strlen(p->kind->stem),
                          .suffix = ".safetensors"};
    enum hk_status status = hk_plan_shards(&s.plan, s.whole, s.to, opt->split_size, err);
    if (status != HK_OK)
        return status;
    status = hk_stage_new(&stage, p->path, err);
    if (status == HK_OK)
        hk_stage_remove_stale(&stage);
    if (status == HK_OK)
        status = put_all(&s, side, &stage, p, err);
    hk_stage_free(&stage);
    hk_plan_free(&s.plan);
    return status;
}

static enum hk_status write_model(struct hk_file *f, const struct hk_convert_options *opt,
                                  struct place *p, struct hk_error *err)
{
    struct hk_view *v;
    struct hk_side_files side = {0};
    enum hk_status status = hk_view_new(&v, f, err);
    if (status != HK_OK)
        return status;
    status = hk_hf_export(v, opt, &side, err);
    if (status == HK_OK)
        status = hk_view_ready(v, err);
    if (status == HK_OK)
        status = write_dir(v, &side, opt, p, err);
    hk_side_files_free(&side);
    hk_view_free(&v);
    return status;
}

enum hk_status hk_save_dir(struct hk_file *f, const char *path,
                           const struct hk_convert_options *opt, const struct hk_identities *input,
                           struct hk_error *err)
{
    static const char *const names[] = {
        "config.json",           "generation_config.json",  "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
        "chat_template.json",    "model.safetensors",       "model.safetensors.index.json"};
    static const struct hk_dir_kind kind = {
        .what = "model",
        .names = names,
        .name_count = sizeof names / sizeof *names,
        .stem = "model",
        .read_again = read_model_again,
    };
    struct place p = {.kind = &kind};
    enum hk_status status = find_place(&p, path, opt->replace, input, err);
    if (status == HK_OK)
        status = hk_check_history(f, HK_FORMAT_HF, opt, err);
    if (status == HK_OK)
        status = write_model(f, opt, &p, err);
    free_place(&p);
    return status;
}

enum hk_status hk_save_view_dir(const struct hk_dir_kind *kind, struct hk_view *v,
                                const struct hk_side_files *side, const char *path,
                                const struct hk_convert_options *opt,
                                const struct hk_identities *input, struct hk_error *err)
{
    struct place p = {.kind = kind};
    enum hk_status st = find_place(&p, path, opt->replace, input, err);
    if (st == HK_OK)
        st = write_dir(v, side, opt, &p, err);
    free_place(&p);
    return st;
}
