/* A model as several files: which tensors go into which, what metadata each has, their index, and
 * where they go. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/set/save.h"

/* ---- the files that a model was read from: whatever an output is called, it must be none of them
 * ---- */

static int compare_identities(const void *pa, const void *pb)
{
    const struct hk_identity *a = pa, *b = pb;
    int c = (a->dev > b->dev) - (a->dev < b->dev);
    return c != 0 ? c : (a->ino > b->ino) - (a->ino < b->ino);
}

enum hk_status hk_identities_of(const struct hk_file *f, struct hk_identities *out,
                                struct hk_error *err)
{
    out->list = calloc(f->part_count + 1, sizeof *out->list);
    if (out->list == NULL)
        return hk_fail_nomem(err);
    out->count = f->part_count;
    for (size_t i = 0; i < f->part_count; i++)
        out->list[i] = (struct hk_identity){f->parts[i].dev, f->parts[i].ino};
    qsort(out->list, out->count, sizeof *out->list, compare_identities);
    return HK_OK;
}

enum hk_status hk_check_not_input(const struct hk_identities *input, const char *path,
                                  struct hk_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return HK_OK;
    const struct hk_identity is = {(uint64_t)st.st_dev, (uint64_t)st.st_ino};
    if (bsearch(&is, input->list, input->count, sizeof is, compare_identities) == NULL)
        return HK_OK;
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
}

void hk_identities_free(struct hk_identities *x)
{
    free(x->list);
    *x = (struct hk_identities){0};
}

/* ---- shards ---- */

static uint64_t tensor_bytes(const struct hk_tensor *t)
{
    return t->data_size + t->scale_size + t->residual_size;
}

/* Call it with FIRST NULL to count only. */
static size_t divide_tensors(const struct hk_file *f, uint64_t split_size, size_t *first)
{
    size_t count = 1;
    uint64_t size = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        uint64_t more = tensor_bytes(&f->tensors[i]);
        if (i > 0 && split_size > 0 && (size > split_size || more > split_size - size)) {
            if (first != NULL)
                first[count] = i;
            count++;
            size = 0;
        }
        size += more;
    }
    return count;
}

enum hk_status hk_plan_shards(struct hk_plan *out, const struct hk_file *f, enum hk_format to,
                              uint64_t split_size, struct hk_error *err)
{
    const size_t max = hk_format_row(to)->shards->max;
    size_t count = divide_tensors(f, split_size, NULL);
    if (count > max)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "would take %zu shards; %s has up to %zu",
                       count, hk_format_name(to), max);
    out->first = calloc(count + 1, sizeof *out->first);
    if (out->first == NULL)
        return hk_fail_nomem(err);
    out->count = count;
    out->first[count] = f->tensor_count;
    divide_tensors(f, split_size, out->first);
    return HK_OK;
}

void hk_plan_free(struct hk_plan *p)
{
    free(p->first);
    *p = (struct hk_plan){0};
}

/* ---- a shard ---- */

static void set_shard_number(struct hk_kvlist *l, const char *key, size_t value, const char *type)
{
    hk_kvlist_int(l, key, (int64_t)value);
    for (size_t i = 0; i < l->count; i++)
        if (hk_bytes_are(l->kvs[i].key, key))
            l->kvs[i].gguf_type = type;
}

/* All but the first have their tensors and what R keeps. */
static void drop_metadata(struct hk_view *v, const struct hk_shard_rules *r, enum hk_format to)
{
    const struct hk_kv *kept = r->kept_key != NULL ? hk_kvlist_find(&v->kvs, r->kept_key) : NULL;
    if (kept != NULL)
        v->kvs.kvs[0] = *kept;
    v->kvs.count = kept != NULL;
    v->file->format = to; /* nothing is left to say of where it came from */
}

/* Where V belongs, which the header of .hk says and keys of GGUF. */
static void mark_shard(struct hk_view *v, const struct hk_shard_rules *r, const struct hk_plan *p,
                       size_t number, size_t tensors)
{
    v->file->header.split_index = (uint16_t)number;
    v->file->header.split_count = (uint16_t)p->count;
    if (r->types[0] == NULL)
        return;
    set_shard_number(&v->kvs, r->number_key, number, r->types[0]);
    set_shard_number(&v->kvs, r->count_key, p->count, r->types[1]);
    set_shard_number(&v->kvs, r->total_key, tensors, r->types[2]);
}

/* Shard NUMBER (from 0) of P as a view of WHOLE with the metadata that it has. */
static enum hk_status view_shard(struct hk_view **out, struct hk_file *whole, enum hk_format to,
                                 const struct hk_plan *p, size_t number, struct hk_error *err)
{
    const struct hk_shard_rules *rules = hk_format_row(to)->shards;
    struct hk_view *v;
    enum hk_status st =
        hk_view_range(&v, whole, p->first[number], p->first[number + 1] - p->first[number], err);
    if (st != HK_OK)
        return st;
    v->file->without_appendix = v->file->without_appendix || number > 0;
    if (number > 0)
        drop_metadata(v, rules, to);
    mark_shard(v, rules, p, number, whole->tensor_count);
    st = hk_view_ready(v, err);
    if (st != HK_OK) {
        hk_view_free(&v);
        return st;
    }
    *out = v;
    return HK_OK;
}

/* ---- the index: which file each tensor is in, in the order of the files ---- */

static enum hk_status check_index_names(const struct hk_saving *s, struct hk_error *err)
{
    const struct hk_file *f = s->whole;
    const struct hk_bytes stem = {(const uint8_t *)s->stem, s->stem_size};
    if (!hk_utf8_valid(stem))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "shards of the name '%.*s', which is not UTF-8, cannot stand in an index",
                       HK_STR(stem));
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (!hk_utf8_valid(t->name) || memchr(t->name.p, '\0', t->name.n) != NULL)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: its name is no text that an index can have",
                           HK_STR(t->name));
    }
    return HK_OK;
}

/* Name of file NUMBER (from 0) of S; allocated, NULL when out of memory. */
static char *saved_name(const struct hk_saving *s, size_t number)
{
    char *name = NULL;
    if (s->plan.count > 1)
        return hk_shard_name_make(s->stem, s->stem_size, (unsigned)number + 1,
                                  (unsigned)s->plan.count, s->suffix);
    return asprintf(&name, "%.*s%s", (int)s->stem_size, s->stem, s->suffix) < 0 ? NULL : name;
}

static void put_index_number(struct hk_buf *b, const char *key, uint64_t v)
{
    char text[64];
    snprintf(text, sizeof text, "    \"%s\": %" PRIu64, key, v);
    hk_buf_text(b, text);
}

static void put_index_metadata(struct hk_buf *b, const struct hk_saving *s)
{
    hk_buf_text(b, "{\n  \"metadata\": {\n");
    put_index_number(b, "total_size", hk_payload_size(s->whole));
    if (hk_format_row(s->to)->shards->index_totals) {
        hk_buf_text(b, ",\n");
        put_index_number(b, "total_tensors", s->whole->tensor_count);
        hk_buf_text(b, ",\n");
        put_index_number(b, "split_count", s->plan.count);
        hk_buf_text(b, ",\n    \"format\": \"hk\",\n    \"version\": \"1.0.0\"");
    }
    hk_buf_text(b, "\n  },\n  \"weight_map\": {");
}

static void put_index_tensors(struct hk_buf *b, const struct hk_saving *s, size_t shard,
                              const char *file)
{
    const struct hk_bytes name = hk_bytes_of(file);
    for (size_t i = s->plan.first[shard]; i < s->plan.first[shard + 1]; i++) {
        hk_buf_text(b, i > 0 ? ",\n    " : "\n    ");
        hk_json_quote(b, s->whole->tensors[i].name);
        hk_buf_text(b, ": ");
        hk_json_quote(b, name);
    }
}

static enum hk_status put_index(struct hk_buf *b, const struct hk_saving *s, struct hk_error *err)
{
    put_index_metadata(b, s);
    for (size_t i = 0; i < s->plan.count; i++) {
        char *file = saved_name(s, i);
        if (file == NULL)
            return hk_fail_nomem(err);
        put_index_tensors(b, s, i, file);
        free(file);
    }
    hk_buf_text(b, "\n  }\n}\n");
    return b->failed ? hk_fail_nomem(err) : HK_OK;
}

/* ---- writing ---- */

struct watching { /* one progress for all files */
    const struct hk_convert_options *opt;
    uint64_t before, all;
};

static void report_set_progress(void *arg, uint64_t done, uint64_t all)
{
    const struct watching *w = arg;
    (void)all;
    w->opt->progress(w->opt->arg, w->before + done, w->all);
}

static void pass_loss_on(void *arg, const char *text)
{
    const struct watching *w = arg;
    w->opt->loss(w->opt->arg, text);
}

static enum hk_status write_shard(const struct hk_saving *s, size_t number,
                                  const struct hk_convert_options *opt, struct hk_out *out,
                                  struct hk_error *err)
{
    if (s->plan.count == 1)
        return hk_write_as(s->whole, s->to, opt, out, err);
    struct hk_view *v;
    enum hk_status st = view_shard(&v, s->whole, s->to, &s->plan, number, err);
    if (st != HK_OK)
        return st;
    st = hk_write_as(v->file, s->to, opt, out, err);
    hk_view_free(&v);
    return st;
}

/* Bytes of OUT but for the room that was asked for, which is the caller's own wish in each file. */
static uint64_t written_without_room(const struct hk_out *out, const struct hk_convert_options *opt)
{
    const uint64_t room = opt->room != HK_NO_ROOM ? opt->room : 0, size = hk_out_offset(out);
    return size > room ? size - room : 0;
}

/* OPT->max_output is what the files may still have. */
static enum hk_status save_shard(const struct hk_saving *s, size_t number,
                                 struct hk_convert_options *opt, struct hk_stage *stage,
                                 struct hk_error *err)
{
    struct hk_out *out;
    char *name = saved_name(s, number);
    if (name == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_stage_create(stage, name, &out, err);
    free(name);
    if (st != HK_OK)
        return st;
    st = write_shard(s, number, opt, out, err);
    if (st == HK_OK && written_without_room(out, opt) >= opt->max_output)
        opt->max_output = 1;
    else if (st == HK_OK)
        opt->max_output -= written_without_room(out, opt);
    if (st == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return st;
}

static uint64_t shard_payload(const struct hk_saving *s, size_t number)
{
    uint64_t size = 0;
    for (size_t i = s->plan.first[number]; i < s->plan.first[number + 1]; i++) {
        const struct hk_tensor *t = &s->whole->tensors[i];
        size += t->data_size + t->scale_size + t->residual_size;
    }
    return size;
}

static char *set_index_name(const struct hk_saving *s)
{
    char *name = NULL;
    if (asprintf(&name, "%.*s%s.index.json", (int)s->stem_size, s->stem, s->suffix) < 0)
        return NULL;
    return name;
}

static enum hk_status stage_index(const struct hk_saving *s, struct hk_stage *stage,
                                  struct hk_error *err)
{
    struct hk_buf b = {0};
    char *name = set_index_name(s);
    enum hk_status st = name == NULL ? hk_fail_nomem(err) : put_index(&b, s, err);
    if (st == HK_OK)
        st = hk_stage_put(stage, name, &b, err);
    hk_buf_free(&b);
    free(name);
    return st;
}

enum hk_status hk_save_files(const struct hk_saving *s, struct hk_stage *stage,
                             struct hk_error *err)
{
    struct watching w = {.opt = s->opt, .all = hk_payload_size(s->whole)};
    struct hk_convert_options opt = *s->opt;
    opt.arg = &w;
    opt.progress = opt.progress != NULL ? report_set_progress : NULL;
    opt.loss = opt.loss != NULL ? pass_loss_on : NULL;
    opt.max_output = hk_output_limit(s->whole, opt.max_output);
    const bool indexed = s->plan.count > 1 && hk_format_row(s->to)->shards->indexed;
    enum hk_status st = hk_check_output(w.all, opt.max_output, err);
    if (st == HK_OK && indexed)
        st = check_index_names(s, err);
    for (size_t i = 0; st == HK_OK && i < s->plan.count; i++) {
        st = save_shard(s, i, &opt, stage, err);
        w.before += shard_payload(s, i);
        if (st == HK_OK && s->opt->stop != NULL && *s->opt->stop != 0)
            st = hk_fail_sys(err, EINTR, "given up");
    }
    return st == HK_OK && indexed ? stage_index(s, stage, err) : st;
}

/* ---- the place ---- */

static bool is_in_target(const struct hk_stage *stage, const char *name, char **path)
{
    *path = NULL;
    return asprintf(path, "%s%s", stage->target, name) >= 0 && access(*path, F_OK) == 0;
}

static enum hk_status check_target_name(const struct hk_stage *stage, const char *name,
                                        bool replace, const struct hk_identities *input,
                                        struct hk_error *err)
{
    char *path;
    enum hk_status st = HK_OK;
    if (is_in_target(stage, name, &path)) {
        st = hk_check_not_input(input, path, err);
        if (st == HK_OK && !replace)
            st = hk_fail(err, HK_E_USE, HK_NO_OFFSET, "%.200s exists; use -f to replace it", name);
    }
    free(path);
    return st;
}

/* Another division of the same set: its files go when its index is replaced. */
static bool is_of_older_set(const struct hk_saving *s, const char *name)
{
    struct hk_shard_name n;
    return hk_shard_name_parse(name, &n) && n.stem == s->stem_size &&
           memcmp(name, s->stem, n.stem) == 0 && strcmp(n.suffix, s->suffix) == 0 &&
           n.count != s->plan.count;
}

static enum hk_status note_older_files(const struct hk_saving *s, struct hk_stage *stage,
                                       const struct hk_names *files,
                                       const struct hk_identities *input, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < files->count; i++) {
        char *path;
        bool there = is_in_target(stage, files->names[i], &path);
        if (there)
            st = hk_check_not_input(input, path, err);
        if (there && st == HK_OK && is_of_older_set(s, files->names[i]))
            st = hk_names_add(&stage->old, strdup(files->names[i]), err);
        free(path);
    }
    return st;
}

/* The set whose index is replaced goes with it, unless it is the input. What can't be read as an
 * index belongs to no set. */
static enum hk_status check_target_index(const struct hk_saving *s, struct hk_stage *stage,
                                         const struct hk_identities *input, struct hk_error *err)
{
    struct hk_set_index x = {0};
    struct hk_names files = {0};
    char *name = set_index_name(s);
    enum hk_status st = name == NULL ? hk_fail_nomem(err) : HK_OK;
    if (st == HK_OK)
        st = check_target_name(stage, name, s->opt->replace, input, err);
    if (st == HK_OK && hk_set_index_read(&x, stage->target, name, NULL) == HK_OK &&
        hk_set_index_files(&x, &files, NULL) == HK_OK)
        st = note_older_files(s, stage, &files, input, err);
    hk_names_free(&files);
    hk_set_index_free(&x);
    free(name);
    return st;
}

static enum hk_status check_target(const struct hk_saving *s, struct hk_stage *stage,
                                   const struct hk_identities *input, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < s->plan.count; i++) {
        char *name = saved_name(s, i);
        st = name == NULL ? hk_fail_nomem(err)
                          : check_target_name(stage, name, s->opt->replace, input, err);
        free(name);
    }
    if (st == HK_OK && hk_format_row(s->to)->shards->indexed)
        st = check_target_index(s, stage, input, err);
    return st;
}

enum hk_status hk_save_set(struct hk_saving *s, const char *path, const struct hk_identities *input,
                           struct hk_error *err)
{
    struct hk_stage stage;
    enum hk_status st = hk_stage_new(&stage, path, err);
    if (st == HK_OK)
        st = check_target(s, &stage, input, err);
    if (st == HK_OK) {
        hk_stage_remove_stale(&stage);
        st = hk_save_files(s, &stage, err);
    }
    if (st == HK_OK)
        st = hk_stage_publish(&stage, s->opt->replace, s->opt->stop, err);
    hk_stage_free(&stage);
    return st;
}
