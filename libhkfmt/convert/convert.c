/* hk_convert(): everything of a file into a new one of the same or another format. This file makes
 * .hk; gguf/write.c and safetensors/write.c make the others. */
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/base/error.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

static enum hk_status set_metadata(const struct hk_file *f, struct hk_writer *w,
                                   struct hk_error *err)
{
    enum hk_status status = HK_OK;
    if (f->format == HK_FORMAT_GGUF)
        status = hk_gguf_refuse_keys(f, err);
    for (size_t i = 0; status == HK_OK && i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        /* hk.alignment is the writer's to set. */
        if (!hk_is_shard_key(f, kv) && !hk_bytes_are(kv->key, "hk.alignment"))
            status = hk_writer_set(w, kv->key, (enum hk_meta_type)kv->type, kv->value, err);
    }
    if (status == HK_OK && f->format == HK_FORMAT_GGUF)
        status = hk_gguf_note_source(f, w, err);
    return status;
}

static enum hk_status add_tensors(const struct hk_file *f, struct hk_writer *w,
                                  struct hk_error *err)
{
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i], *target;
        enum hk_status status = hk_tensor_resolve(f, t, &target, err);
        if (status != HK_OK)
            return status;
        size_t shared = (size_t)(target - f->tensors);
        if (shared > i)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s shares a later tensor", HK_STR(t->name));
        if (t->type > UINT8_MAX)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: .hk has no storage type %s", HK_STR(t->name),
                           hk_type_info(t->type)->name);
        status = hk_writer_add(w, t, shared, err);
        if (status != HK_OK)
            return status;
    }
    return HK_OK;
}

static enum hk_status copy_payloads(struct hk_copying *c, struct hk_error *err)
{
    const struct hk_file *f = c->from;
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < f->tensor_count; i++)
        if (f->tensors[i].type != HK_TYPE_SHARED_REF)
            status = hk_copy_tensor(c, i, err);
    return status == HK_OK ? hk_copying_finish(c, err) : status;
}

static enum hk_status write_hk(struct hk_copying *c, struct hk_bytes appendix, struct hk_out *out,
                               struct hk_error *err)
{
    struct hk_file *f = c->from;
    enum hk_status status = set_metadata(f, c->writer, err);
    if (status == HK_OK)
        status = add_tensors(f, c->writer, err);
    if (status == HK_OK)
        status = hk_copying_begin(c, err);
    if (status == HK_OK)
        status = hk_writer_begin(c->writer, out, err);
    if (status == HK_OK)
        status = copy_payloads(c, err);
    if (status == HK_OK && appendix.n > 0)
        status = hk_copy_bytes(c, 0, f->header.appendix_offset, appendix.n, err);
    return status != HK_OK ? status : hk_writer_finish(c->writer, err);
}

/* A shard that becomes a file of its own stays what it is; SPLIT is that of a new set. */
static void choose_split(const struct hk_file *f, const struct hk_writer_options *split,
                         struct hk_writer_options *o)
{
    if (split != NULL) {
        o->split_index = split->split_index;
        o->split_count = split->split_count;
    } else if (f->format == HK_FORMAT_HK && f->part_count == 1) {
        o->split_index = f->header.split_index;
        o->split_count = f->header.split_count;
    }
}

static enum hk_status to_hk(struct hk_file *f, const struct hk_convert_options *opt,
                            const struct hk_writer_options *split, struct hk_out *out,
                            struct hk_error *err)
{
    const struct hk_bytes appendix =
        opt->history == HK_HISTORY_DROP ? (struct hk_bytes){0} : hk_appendix_bytes(f, 0);
    struct hk_writer_options options = {.size = sizeof options,
                                        .alignment = opt->alignment,
                                        .appendix_size = appendix.n,
                                        .room = opt->room};
    if (f->format == HK_FORMAT_HK)
        options.flags = f->header.flags;
    choose_split(f, split, &options);
    struct hk_copying c = {.from = f, .opt = opt, .all = appendix.n};
    enum hk_status status = hk_writer_new(&c.writer, &options, err);
    if (status == HK_OK)
        status = write_hk(&c, appendix, out, err);
    hk_copying_end(&c);
    hk_writer_free(&c.writer);
    return status;
}

void hk_lost(const struct hk_convert_options *opt, const char *fmt, ...)
{
    char text[320];
    va_list ap;
    if (opt->loss == NULL)
        return;
    va_start(ap, fmt);
    hk_vline(text, sizeof text, fmt, ap);
    va_end(ap);
    opt->loss(opt->arg, text);
}

static enum hk_status check_options(const struct hk_convert_options *opt, struct hk_error *err)
{
    const uint32_t a = opt->alignment;
    if ((a & (a - 1)) != 0 || a > HK_MAX_ALIGNMENT)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "alignment %u is no power of two up to %d", a,
                       HK_MAX_ALIGNMENT);
    if (opt->dense > HK_TYPE_BF16)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "tensors are decoded to f32, f16 or bf16");
    return HK_OK;
}

/* Tensors that have another form, decoded to opt->dense. */
static enum hk_status dense_view(struct hk_view **out, struct hk_file *f,
                                 const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status st = hk_view_new(&v, f, err);
    if (st == HK_OK)
        st = hk_st_decode(v, opt, err);
    if (st == HK_OK)
        st = hk_view_ready(v, err);
    if (st != HK_OK)
        hk_view_free(&v);
    *out = v;
    return st;
}

enum hk_status hk_prepare(struct hk_view **out, struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *opt, struct hk_error *err)
{
    enum hk_status status = check_options(opt, err);
    struct hk_view *v = NULL;
    if (status == HK_OK)
        status = hk_check_history(f, to, opt, err);
    if (status == HK_OK && to == HK_FORMAT_GGUF)
        status = hk_gguf_view(&v, f, opt, err);
    else if (status == HK_OK && to == HK_FORMAT_SAFETENSORS)
        status = hk_st_view(&v, f, opt, err);
    else if (status == HK_OK && to == HK_FORMAT_HK && opt->decode)
        status = dense_view(&v, f, opt, err);
    if (status == HK_OK && v != NULL)
        status = hk_check_history(v->file, to, opt, err);
    if (status != HK_OK)
        hk_view_free(&v);
    else
        *out = v;
    return status;
}

enum hk_status hk_write_as(struct hk_file *f, enum hk_format to,
                           const struct hk_convert_options *opt,
                           const struct hk_writer_options *split, struct hk_out *out,
                           struct hk_error *err)
{
    uint64_t limit = hk_output_limit(f, opt->max_output);
    const uint64_t room = opt->room != HK_NO_ROOM ? opt->room : 0; /* the caller's own wish */
    if (!add_ok(limit, hk_out_offset(out), &limit) || !add_ok(limit, room, &limit))
        limit = UINT64_MAX;
    hk_out_limit(out, limit);
    switch (to) {
    case HK_FORMAT_HK:
        return to_hk(f, opt, split, out, err);
    case HK_FORMAT_GGUF:
        return hk_convert_to_gguf(f, opt, out, err);
    case HK_FORMAT_SAFETENSORS:
        return hk_convert_to_safetensors(f, opt, out, err);
    case HK_FORMAT_HF:
        break;
    }
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a model directory is no single file");
}

enum hk_status hk_convert(struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *given, struct hk_out *out,
                          struct hk_error *err)
{
    struct hk_view *v = NULL;
    struct hk_convert_options opt;
    enum hk_status status = hk_read_options(&opt, sizeof opt, given, err);
    if (status == HK_OK)
        status = hk_prepare(&v, f, to, &opt, err);
    if (status == HK_OK)
        status = hk_write_as(v != NULL ? v->file : f, to, &opt, NULL, out, err);
    hk_view_free(&v);
    return status;
}
