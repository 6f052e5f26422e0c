/* A directory, a model's or an adapter's: written beside its place and put there in one step. A
 * directory that is there is replaced only if all that it holds could have come from here. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libhkfmt/base/magic.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/hf/raw.h"
#include "libhkfmt/safetensors/st.h"
#include "libhkfmt/set/save.h"

/* ---- the directory that is there ---- */

static bool is_known_file(const struct hk_dir_kind *kind, const char *name)
{
    struct hk_shard_name n;
    for (size_t i = 0; i < kind->name_count; i++)
        if (strcmp(name, kind->names[i]) == 0)
            return true;
    return hk_shard_name_parse(name, &n) && n.stem == strlen(kind->stem) &&
           memcmp(name, kind->stem, n.stem) == 0 &&
           strcmp(n.suffix, hk_format_extension(HK_FORMAT_SAFETENSORS)) == 0;
}

static enum hk_status check_old_entry(const struct hk_dir_kind *kind, const char *directory,
                                      const char *name, const struct hk_identities *input,
                                      struct hk_error *err)
{
    struct stat there;
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return hk_fail_nomem(err);
    enum hk_status st = hk_check_not_input(input, path, err);
    if (st == HK_OK &&
        (!is_known_file(kind, name) || lstat(path, &there) != 0 || !S_ISREG(there.st_mode)))
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                     "holds '%.200s', which was not written here, so it is not replaced", name);
    free(path);
    return st;
}

static enum hk_status list_old_files(const struct hk_dir_kind *kind, const char *directory,
                                     const struct hk_identities *input, struct hk_names *out,
                                     struct hk_error *err)
{
    DIR *dir = opendir(directory);
    enum hk_status st = HK_OK;
    if (dir == NULL)
        return hk_fail_sys(err, errno, "cannot open the directory");
    errno = 0;
    for (const struct dirent *e; st == HK_OK && (e = readdir(dir)) != NULL; errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        st = check_old_entry(kind, directory, e->d_name, input, err);
        if (st == HK_OK)
            st = hk_names_add(out, strdup(e->d_name), err);
    }
    if (st == HK_OK && errno != 0)
        st = hk_fail_sys(err, errno, "cannot read the directory");
    closedir(dir);
    hk_names_sort(out);
    return st;
}

struct place {
    const struct hk_dir_kind *kind;
    char *path; /* without a slash at its end; links resolved if it is there */
    bool there;
    mode_t mode;
    struct hk_names old; /* what is in it */
};

/* Something of that name is there. */
static enum hk_status check_old_directory(struct place *p, bool replace,
                                          const struct hk_identities *input, struct hk_error *err)
{
    if (!replace)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "exists; use -f to replace it");
    char *real = realpath(p->path, NULL);
    if (real == NULL)
        return hk_fail_sys(err, errno, "cannot resolve");
    free(p->path);
    p->path = real;
    enum hk_status st = list_old_files(p->kind, p->path, input, &p->old, err);
    if (st == HK_OK && p->old.count > 0 && !hk_names_have(&p->old, p->kind->names[0]))
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                     "is no %s directory (it has no %s), so it is not replaced", p->kind->what,
                     p->kind->names[0]);
    return st;
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
    return p->there ? check_old_directory(p, replace, input, err) : HK_OK;
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
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < side->count; i++)
        st = hk_stage_put(stage, side->files[i].name, &side->files[i].bytes, err);
    return st;
}

static enum hk_status read_model_again(const char *path, const struct hk_file *base,
                                       struct hk_error *err)
{
    struct hk_file *f = NULL;
    (void)base;
    enum hk_status st = hk_open_hf(&f, path, err);
    hk_close(&f);
    return st;
}

static enum hk_status read_raw_again(const char *path, const struct hk_file *base,
                                     struct hk_error *err)
{
    struct hk_file *f = NULL;
    (void)base;
    enum hk_status st = hk_open_raw(&f, path, NULL, NULL, err);
    hk_close(&f);
    return st;
}

/* What could not be read again is not put in place: it would be lost, and so would what it
 * replaces. */
static enum hk_status check_readable(const struct hk_dir_kind *kind, const struct hk_stage *stage,
                                     struct hk_error *err)
{
    enum hk_status st = kind->read_again(stage->temp, kind->base, err);
    return st == HK_OK ? HK_OK : hk_hf_about("as a directory it could not be read again", st, err);
}

static enum hk_status fill_and_publish(struct hk_saving *s, const struct hk_side_files *side,
                                       struct hk_stage *stage, struct place *p,
                                       struct hk_error *err)
{
    enum hk_status st = put_side_files(side, stage, err);
    if (st == HK_OK)
        st = hk_save_files(s, stage, err);
    if (st == HK_OK)
        st = check_readable(p->kind, stage, err);
    if (st == HK_OK && p->there && chmod(stage->temp, p->mode) != 0)
        st = hk_fail_sys(err, errno, "cannot keep permissions");
    return st == HK_OK ? hk_stage_become(stage, p->path, p->there ? &p->old : NULL, err) : st;
}

static enum hk_status write_directory(struct hk_view *v, const struct hk_side_files *side,
                                      const struct hk_convert_options *opt, struct place *p,
                                      struct hk_error *err)
{
    struct hk_stage stage;
    struct hk_saving s = {.whole = v->file,
                          .to = HK_FORMAT_SAFETENSORS,
                          .opt = opt,
                          .stem = p->kind->stem,
                          .stem_size = strlen(p->kind->stem),
                          .suffix = hk_format_extension(HK_FORMAT_SAFETENSORS)};
    enum hk_status st = hk_plan_shards(&s.plan, s.whole, s.to, opt->split_size, err);
    if (st != HK_OK)
        return st;
    st = hk_stage_new(&stage, p->path, err);
    if (st == HK_OK)
        hk_stage_remove_stale(&stage);
    if (st == HK_OK)
        st = fill_and_publish(&s, side, &stage, p, err);
    hk_stage_free(&stage);
    hk_plan_free(&s.plan);
    return st;
}

static enum hk_status write_model_directory(struct hk_file *f, const struct hk_convert_options *opt,
                                            struct place *p, struct hk_error *err)
{
    struct hk_view *v;
    struct hk_side_files side = {0};
    enum hk_status st = hk_view_new(&v, f, err);
    if (st != HK_OK)
        return st;
    st = hk_is_raw(f) ? hk_raw_export(v, &side, err) : HK_OK;
    if (st == HK_OK && hk_is_raw(f))
        st = hk_decode_for_safetensors(v, opt, err);
    else if (st == HK_OK)
        st = hk_hf_export(v, opt, &side, err);
    if (st == HK_OK)
        st = hk_view_ready(v, err);
    if (st == HK_OK)
        st = write_directory(v, &side, opt, p, err);
    hk_side_files_free(&side);
    hk_view_free(&v);
    return st;
}

enum hk_status hk_save_dir(struct hk_file *f, const char *path,
                           const struct hk_convert_options *opt, const struct hk_identities *input,
                           struct hk_error *err)
{
    static const char *const names[] = {
        "config.json",           "generation_config.json",  "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
        "chat_template.json",    "model.safetensors",       "model.safetensors.index.json"};
    const struct hk_dir_kind kind = {
        .what = "model",
        .names = names,
        .name_count = sizeof names / sizeof *names,
        .stem = "model",
        .read_again = hk_is_raw(f) ? read_raw_again : read_model_again,
    };
    struct place p = {.kind = &kind};
    enum hk_status st = find_place(&p, path, opt->replace, input, err);
    if (st == HK_OK)
        st = hk_check_history(f, HK_FORMAT_HF, opt, err);
    if (st == HK_OK)
        st = write_model_directory(f, opt, &p, err);
    free_place(&p);
    return st;
}

enum hk_status hk_save_view_dir(const struct hk_dir_kind *kind, struct hk_view *v,
                                const struct hk_side_files *side, const char *path,
                                const struct hk_convert_options *opt,
                                const struct hk_identities *input, struct hk_error *err)
{
    struct place p = {.kind = kind};
    enum hk_status st = find_place(&p, path, opt->replace, input, err);
    if (st == HK_OK)
        st = write_directory(v, side, opt, &p, err);
    free_place(&p);
    return st;
}
