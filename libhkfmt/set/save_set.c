/* The files of a set, one after the other, and where they go. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/set/save.h"

/* ---- writing ---- */

struct watching { /* one progress for all files */
    const struct hk_convert_options *opt;
    uint64_t before, all;
};

static void progress(void *arg, uint64_t done, uint64_t all)
{
    const struct watching *w = arg;
    (void)all;
    w->opt->progress(w->opt->arg, w->before + done, w->all);
}

static void loss(void *arg, const char *text)
{
    const struct watching *w = arg;
    w->opt->loss(w->opt->arg, text);
}

static enum hk_status write_shard(const struct hk_saving *s, size_t number,
                                  const struct hk_convert_options *opt, struct hk_out *out,
                                  struct hk_error *err)
{
    const struct hk_writer_options split = {.split_index = (uint16_t)number,
                                            .split_count = (uint16_t)s->plan.count};
    if (s->plan.count == 1)
        return hk_write_as(s->whole, s->to, opt, NULL, out, err);
    struct hk_view *v;
    enum hk_status status = hk_plan_view(&v, s->whole, s->to, &s->plan, number, err);
    if (status != HK_OK)
        return status;
    status = hk_write_as(v->file, s->to, opt, &split, out, err);
    hk_view_free(&v);
    return status;
}

/* Bytes of OUT but for the room that was asked for, which is the caller's own wish in each file. */
static uint64_t written(const struct hk_out *out, const struct hk_convert_options *opt)
{
    const uint64_t room = opt->room != HK_NO_ROOM ? opt->room : 0, size = hk_out_offset(out);
    return size > room ? size - room : 0;
}

/* OPT->max_output is what the files may still have. */
static enum hk_status save_file(const struct hk_saving *s, size_t number,
                                struct hk_convert_options *opt, struct hk_stage *stage,
                                struct hk_error *err)
{
    struct hk_out *out;
    char *name = hk_saved_name(s, number);
    if (name == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = hk_stage_create(stage, name, &out, err);
    free(name);
    if (status != HK_OK)
        return status;
    status = write_shard(s, number, opt, out, err);
    if (status == HK_OK && written(out, opt) >= opt->max_output)
        opt->max_output = 1;
    else if (status == HK_OK)
        opt->max_output -= written(out, opt);
    if (status == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return status;
}

static uint64_t payload(const struct hk_saving *s, size_t number)
{
    uint64_t size = 0;
    for (size_t i = s->plan.first[number]; i < s->plan.first[number + 1]; i++) {
        const struct hk_tensor *t = &s->whole->tensors[i];
        size += t->data_size + t->scale_size + t->residual_size;
    }
    return size;
}

static char *index_name(const struct hk_saving *s)
{
    char *name = NULL;
    if (asprintf(&name, "%.*s%s.index.json", (int)s->stem_size, s->stem, s->suffix) < 0)
        return NULL;
    return name;
}

static enum hk_status save_index(const struct hk_saving *s, struct hk_stage *stage,
                                 struct hk_error *err)
{
    struct hk_buf b = {0};
    char *name = index_name(s);
    enum hk_status status = name == NULL ? hk_fail_nomem(err) : hk_put_index(&b, s, err);
    if (status == HK_OK)
        status = hk_stage_put(stage, name, &b, err);
    hk_buf_free(&b);
    free(name);
    return status;
}

enum hk_status hk_save_files(const struct hk_saving *s, struct hk_stage *stage,
                             struct hk_error *err)
{
    struct watching w = {.opt = s->opt, .all = hk_payload_size(s->whole)};
    struct hk_convert_options opt = *s->opt;
    opt.arg = &w;
    opt.progress = opt.progress != NULL ? progress : NULL;
    opt.loss = opt.loss != NULL ? loss : NULL;
    opt.max_output = hk_output_limit(s->whole, opt.max_output);
    const bool indexed = s->plan.count > 1 && s->to != HK_FORMAT_GGUF;
    enum hk_status status = hk_check_output(w.all, opt.max_output, err);
    if (status == HK_OK && indexed)
        status = hk_check_index_names(s, err);
    for (size_t i = 0; status == HK_OK && i < s->plan.count; i++) {
        status = save_file(s, i, &opt, stage, err);
        w.before += payload(s, i);
        if (status == HK_OK && s->opt->stop != NULL && *s->opt->stop != 0)
            status = hk_fail_sys(err, EINTR, "given up");
    }
    return status == HK_OK && indexed ? save_index(s, stage, err) : status;
}

/* ---- the place ---- */

static bool is_at(const struct hk_stage *stage, const char *name, char **path)
{
    *path = NULL;
    return asprintf(path, "%s%s", stage->target, name) >= 0 && access(*path, F_OK) == 0;
}

static enum hk_status check_name(const struct hk_stage *stage, const char *name, bool replace,
                                 const struct hk_identities *input, struct hk_error *err)
{
    char *path;
    enum hk_status status = HK_OK;
    if (is_at(stage, name, &path)) {
        status = hk_check_not_input(input, path, err);
        if (status == HK_OK && !replace)
            status =
                hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                        "%.200s exists already and is not replaced without being forced", name);
    }
    free(path);
    return status;
}

/* Another division of the same set: its files go when its index is replaced. */
static bool is_older(const struct hk_saving *s, const char *name)
{
    struct hk_shard_name n;
    return hk_shard_name_parse(name, &n) && n.stem == s->stem_size &&
           memcmp(name, s->stem, n.stem) == 0 && strcmp(n.suffix, s->suffix) == 0 &&
           n.count != s->plan.count;
}

static enum hk_status note_older(const struct hk_saving *s, struct hk_stage *stage,
                                 const struct hk_names *files, const struct hk_identities *input,
                                 struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < files->count; i++) {
        char *path;
        bool there = is_at(stage, files->names[i], &path);
        if (there)
            status = hk_check_not_input(input, path, err);
        if (there && status == HK_OK && is_older(s, files->names[i]))
            status = hk_names_add(&stage->old, strdup(files->names[i]), err);
        free(path);
    }
    return status;
}

/* The set whose index is replaced goes with it, unless it is the input. What can't be read as an
 * index belongs to no set. */
static enum hk_status check_index(const struct hk_saving *s, struct hk_stage *stage,
                                  const struct hk_identities *input, struct hk_error *err)
{
    struct hk_set_index x = {0};
    struct hk_names files = {0};
    char *name = index_name(s);
    enum hk_status status = name == NULL ? hk_fail_nomem(err) : HK_OK;
    if (status == HK_OK)
        status = check_name(stage, name, s->opt->replace, input, err);
    if (status == HK_OK && hk_set_index_read(&x, stage->target, name, NULL) == HK_OK &&
        hk_set_index_files(&x, &files, NULL) == HK_OK)
        status = note_older(s, stage, &files, input, err);
    hk_names_free(&files);
    hk_set_index_free(&x);
    free(name);
    return status;
}

static enum hk_status check_place(const struct hk_saving *s, struct hk_stage *stage,
                                  const struct hk_identities *input, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < s->plan.count; i++) {
        char *name = hk_saved_name(s, i);
        status = name == NULL ? hk_fail_nomem(err)
                              : check_name(stage, name, s->opt->replace, input, err);
        free(name);
    }
    if (status == HK_OK && s->to != HK_FORMAT_GGUF)
        status = check_index(s, stage, input, err);
    return status;
}

enum hk_status hk_save_set(struct hk_saving *s, const char *path, const struct hk_identities *input,
                           struct hk_error *err)
{
    struct hk_stage stage;
    enum hk_status status = hk_stage_new(&stage, path, err);
    if (status == HK_OK)
        status = check_place(s, &stage, input, err);
    if (status == HK_OK) {
        hk_stage_remove_stale(&stage);
        status = hk_save_files(s, &stage, err);
    }
    if (status == HK_OK)
        status = hk_stage_publish(&stage, s->opt->replace, s->opt->stop, err);
    hk_stage_free(&stage);
    return status;
}
