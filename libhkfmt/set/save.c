/* hk_save(): a model as the files that it takes. */
#include <errno.h>
#include <string.h>

#include "libhkfmt/convert/convert.h"
#include "libhkfmt/set/save.h"

#include "libhkfmt/base/magic.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/hk/file.h"

/* STEM of PATH: its last part, without the extension of the format if it has that. */
static void set_stem(struct hk_saving *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    s->stem = slash == NULL ? path : slash + 1;
    s->suffix = hk_format_extension(s->to);
    size_t n = strlen(s->stem), m = strlen(s->suffix);
    s->stem_size = n > m && strcmp(s->stem + n - m, s->suffix) == 0 ? n - m : n;
}

static enum hk_status save_one_file(const struct hk_saving *s, const char *path,
                                    struct hk_error *err)
{
    struct hk_out *out;
    enum hk_status st = hk_out_create(&out, path, s->opt->replace ? HK_OUT_REPLACE : 0, err);
    if (st != HK_OK)
        return st;
    st = hk_write_as(s->whole, s->to, s->opt, out, err);
    if (st == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return st;
}

/* S->plan of a view of F, which is left in *OUT if there are several shards. */
static enum hk_status plan_view(struct hk_saving *s, struct hk_file *f, struct hk_view **out,
                                struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status st = hk_view_new(&v, f, err);
    if (st == HK_OK)
        st = hk_view_ready(v, err);
    if (st == HK_OK)
        st = hk_plan_shards(&s->plan, v->file, s->to, s->opt->split_size, err);
    if (st == HK_OK && s->plan.count > 1) {
        *out = v;
        return HK_OK;
    }
    hk_view_free(&v);
    return st;
}

static enum hk_status save_planned(struct hk_saving *s, const char *path,
                                   const struct hk_identities *input, struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status st = HK_OK;
    if (s->opt->split_size > 0)
        st = plan_view(s, s->whole, &v, err);
    if (st == HK_OK && v != NULL) {
        s->whole = v->file;
        set_stem(s, path);
        st = s->stem_size > 0 ? hk_save_set(s, path, input, err)
                              : hk_fail_sys(err, ENOENT, "cannot create files without a name");
    } else if (st == HK_OK) {
        st = hk_check_not_input(input, path, err);
        if (st == HK_OK)
            st = save_one_file(s, path, err);
    }
    hk_plan_free(&s->plan);
    hk_view_free(&v);
    return st;
}

static enum hk_status save_prepared(struct hk_file *f, const char *path, enum hk_format to,
                                    const struct hk_convert_options *opt,
                                    const struct hk_identities *input, struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status st = hk_prepare(&v, f, to, opt, err);
    if (st != HK_OK)
        return st;
    struct hk_saving s = {.whole = v != NULL ? v->file : f, .to = to, .opt = opt};
    st = save_planned(&s, path, input, err);
    hk_view_free(&v);
    return st;
}

enum hk_status hk_save(struct hk_file *f, const char *path, enum hk_format to,
                       const struct hk_convert_options *given, struct hk_error *err)
{
    struct hk_identities input = {0};
    struct hk_convert_options opt;
    if (f->stream != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "several files are made of a file, a stream will not do");
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = hk_identities_of(f, &input, err);
    if (st == HK_OK)
        st = to == HK_FORMAT_HF ? hk_save_dir(f, path, &opt, &input, err)
                                : save_prepared(f, path, to, &opt, &input, err);
    hk_identities_free(&input);
    return st;
}
