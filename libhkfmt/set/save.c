/* hk_save(): a model as the files that it takes. */
#include <errno.h>
#include <string.h>

#include "libhkfmt/set/save.h"

#include "libhkfmt/hk/file.h"

static const char *suffix_of(enum hk_format to)
{
    return to == HK_FORMAT_HK ? ".hk" : to == HK_FORMAT_GGUF ? ".gguf" : ".safetensors";
}

/* STEM of PATH: its last part, without the extension of the format if it has that. */
static void set_names(struct hk_saving *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    s->stem = slash == NULL ? path : slash + 1;
    s->suffix = suffix_of(s->to);
    size_t n = strlen(s->stem), m = strlen(s->suffix);
    s->stem_size = n > m && strcmp(s->stem + n - m, s->suffix) == 0 ? n - m : n;
}

static enum hk_status save_one(const struct hk_saving *s, const char *path, struct hk_error *err)
{
    struct hk_out *out;
    enum hk_status status = hk_out_create(&out, path, s->opt->replace ? HK_OUT_REPLACE : 0, err);
    if (status != HK_OK)
        return status;
    status = hk_write_as(s->whole, s->to, s->opt, NULL, out, err);
    if (status == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return status;
}

/* S->plan of a view of F, which is left in *OUT if there are several shards. */
static enum hk_status plan(struct hk_saving *s, struct hk_file *f, struct hk_view **out,
                           struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status status = hk_view_new(&v, f, err);
    if (status == HK_OK)
        status = hk_view_ready(v, err);
    if (status == HK_OK)
        status = hk_plan_shards(&s->plan, v->file, s->to, s->opt->split_size, err);
    if (status == HK_OK && s->plan.count > 1) {
        *out = v;
        return HK_OK;
    }
    hk_view_free(&v);
    return status;
}

static enum hk_status save_divided(struct hk_saving *s, const char *path,
                                   const struct hk_identities *input, struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status status = HK_OK;
    if (s->opt->split_size > 0)
        status = plan(s, s->whole, &v, err);
    if (status == HK_OK && v != NULL) {
        s->whole = v->file;
        set_names(s, path);
        status = s->stem_size > 0 ? hk_save_set(s, path, input, err)
                                  : hk_fail_sys(err, ENOENT, "cannot create files without a name");
    } else if (status == HK_OK) {
        status = hk_check_not_input(input, path, err);
        if (status == HK_OK)
            status = save_one(s, path, err);
    }
    hk_plan_free(&s->plan);
    hk_view_free(&v);
    return status;
}

static enum hk_status save_files(struct hk_file *f, const char *path, enum hk_format to,
                                 const struct hk_convert_options *opt,
                                 const struct hk_identities *input, struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status status = hk_prepare(&v, f, to, opt, err);
    if (status != HK_OK)
        return status;
    struct hk_saving s = {.whole = v != NULL ? v->file : f, .to = to, .opt = opt};
    status = save_divided(&s, path, input, err);
    hk_view_free(&v);
    return status;
}

enum hk_status hk_save(struct hk_file *f, const char *path, enum hk_format to,
                       const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_identities input = {0};
    if (f->stream != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "several files are made of a file, a stream will not do");
    enum hk_status status = hk_identities_of(f, &input, err);
    if (status == HK_OK)
        status = to == HK_FORMAT_HF ? hk_save_dir(f, path, opt, &input, err)
                                    : save_files(f, path, to, opt, &input, err);
    hk_identities_free(&input);
    return status;
}
