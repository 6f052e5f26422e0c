/* hk_verify_set(): each file of a model by itself, then what only all of them together can break.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/verify.h"
#include "libhkfmt/set/set.h"

struct verifying {
    struct hk_set set;
    const char *path; /* as it was given */
    char *weights;    /* the file or index that it leads to */
    bool hf;          /* the configuration and tokenizer of a Hugging Face model belong to it */
    struct hk_verify_how how;
    hk_fault_fn *fn;
    void *arg;
    struct hk_verify_report *report;
    const char *file; /* the one that is looked at, where there are several */
    bool readable;    /* nothing so far that keeps hk_open_set() from it */
    struct hk_reporter r;
};

static void count_fault_of_set(void *arg, const struct hk_fault *fault)
{
    struct verifying *v = arg;
    struct hk_fault copy = *fault;
    copy.file = v->set.about != NULL ? v->set.about : v->file;
    if (fault->severity == HK_ERROR)
        v->report->errors++;
    else
        v->report->warnings++;
    v->readable = v->readable && fault->status == HK_OK;
    v->fn(v->arg, &copy);
}

/* The contents are at fault, which a report says; otherwise nothing can be said of them. */
static bool is_fault_of_content(enum hk_status st)
{
    return st != HK_OK && st != HK_E_IO && st != HK_E_NOMEM;
}

static void report_refusal(struct verifying *v, enum hk_status st, const struct hk_error *why)
{
    hk_report(&v->r, st == HK_E_MISSING ? HK_FAULT_SET_MISSING : HK_FAULT_SET, hk_at(why->offset),
              "%s", why->text);
}

/* ---- one file after the other ---- */

static void add_report(struct hk_verify_report *all, const struct hk_verify_report *one)
{
    all->size += one->size;
    all->tensors += one->tensors;
    all->keys += one->keys;
    all->records += one->records;
    all->payload = all->payload && one->payload;
    if (one->lineage > all->lineage)
        all->lineage = one->lineage;
    if (one->seal > all->seal)
        all->seal = one->seal;
    if (one->base > all->base)
        all->base = one->base;
}

static enum hk_status verify_part(struct verifying *v, const char *path, struct hk_error *err)
{
    struct hk_verify_report one;
    struct hk_error why;
    enum hk_status st = hk_verify_path(path, &v->how, count_fault_of_set, v, &one, &why);
    if (st == HK_OK) {
        add_report(v->report, &one);
        return HK_OK;
    }
    hk_fail(err, st, why.offset, "%s%s%s", v->file != NULL ? v->file : "",
            v->file != NULL ? ": " : "", why.text);
    if (err != NULL)
        err->sys = why.sys;
    return st;
}

static enum hk_status verify_named(struct verifying *v, const char *name, struct hk_error *err)
{
    char *path = NULL;
    enum hk_status st = HK_OK;
    if (asprintf(&path, "%s%s", v->set.dir, name) < 0)
        return hk_fail_nomem(err);
    v->file = name;
    if (access(path, F_OK) != 0)
        hk_report(&v->r, HK_FAULT_SET_MISSING, hk_at(HK_NO_OFFSET),
                  "is missing: the model is in %zu files", v->set.names.count);
    else
        st = verify_part(v, path, err);
    v->file = NULL;
    free(path);
    return st;
}

static bool is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static enum hk_status verify_files(struct verifying *v, struct hk_error *err)
{
    const struct hk_names *names = &v->set.names;
    enum hk_status st = HK_OK;
    v->report->payload = v->how.payload;
    v->how.part = names->count > 1;
    for (size_t i = 0; st == HK_OK && i < names->count; i++)
        st = verify_named(v, names->names[i], err);
    if (names->count == 0 && is_regular(v->weights))
        st = verify_part(v, v->weights, err);
    return st;
}

/* ---- all of them ---- */

static enum hk_status verify_whole(struct verifying *v, struct hk_error *err)
{
    struct hk_file *whole = NULL;
    struct hk_error why;
    v->set.r = &v->r;
    enum hk_status st =
        v->hf ? hk_open_set(&whole, v->path, &why) : hk_set_open_files(&whole, &v->set, &why);
    if (st != HK_OK && !is_fault_of_content(st)) {
        hk_fail(err, st, why.offset, "%s", why.text);
        if (err != NULL)
            err->sys = why.sys;
        return st;
    }
    if (st != HK_OK) {
        report_refusal(v, st, &why);
        v->set.about = NULL;
        return HK_OK;
    }
    v->report->tensors = whole->tensor_count;
    v->report->keys = whole->kv_count;
    v->set.about = whole->parts[0].name;
    st = v->how.part ? hk_check_base(whole, &v->r, &v->how, v->report, err) : HK_OK;
    v->set.about = NULL;
    hk_close(&whole);
    return st;
}

static enum hk_status find_model(struct verifying *v, struct hk_error *err)
{
    struct stat st;
    if (stat(v->path, &st) == 0 && S_ISDIR(st.st_mode))
        return hk_find_in_dir(&v->weights, v->path, &v->hf, err);
    v->weights = strdup(v->path);
    return v->weights != NULL ? HK_OK : hk_fail_nomem(err);
}

static enum hk_status verify_model(struct verifying *v, struct hk_error *err)
{
    struct hk_error why = {0};
    enum hk_status st = find_model(v, &why);
    if (st == HK_OK)
        st = hk_set_find(&v->set, v->weights, &why);
    if (st != HK_OK && !is_fault_of_content(st)) {
        if (err != NULL)
            *err = why;
        return st;
    }
    if (st != HK_OK) {
        report_refusal(v, st, &why);
        hk_names_free(&v->set.names); /* which files belong to it is not known */
    }
    st = v->weights != NULL && (v->readable || !hk_is_index_name(v->weights)) ? verify_files(v, err)
                                                                              : HK_OK;
    const bool several = v->set.names.count > 0 || v->hf;
    return st == HK_OK && several && v->readable ? verify_whole(v, err) : st;
}

enum hk_status hk_verify_set(const char *path, unsigned options, const struct hk_work *w,
                             hk_fault_fn *fn, void *arg, struct hk_verify_report *report,
                             struct hk_error *err)
{
    struct verifying v = {.path = path,
                          .how = {.payload = options & HK_VERIFY_PAYLOAD, .work = w},
                          .fn = fn,
                          .arg = arg,
                          .report = report,
                          .readable = true};
    v.r = (struct hk_reporter){count_fault_of_set, &v};
    *report = (struct hk_verify_report){0};
    enum hk_status st = verify_model(&v, err);
    hk_set_free(&v.set);
    free(v.weights);
    return st;
}
