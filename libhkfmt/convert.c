/* hk_convert(): everything of a file into a new one of the same or another format. This file makes
 * .hk; foreign/gguf_write.c and foreign/st_write.c make the others. */
#include "libhkfmt/convert.h"
#include "libhkfmt/edit.h"
#include "libhkfmt/foreign/st.h"
#include "libhkfmt/le.h"
#include "libhkfmt/view.h"
#include "libhkfmt/wire.h"

/* SIZE bytes at OFFSET that are no record: what begins behind START ends the records there. */
static void end_before(uint64_t start, uint64_t *end, uint64_t offset, uint64_t size)
{
    if (size > 0 && offset >= start && offset < *end)
        *end = offset;
}

/* What an interrupted metadata edit left behind the records is none of them, nor is what lies
 * behind that. */
static void end_before_staging(const struct hk_file *f, const uint8_t *map, uint64_t start,
                               uint64_t *end)
{
    uint64_t at = start;
    if (f->record_count > 0) {
        const struct hk_record *last = &f->records[f->record_count - 1];
        at = last->data_offset + last->data_size;
        at += (8 - at % 8) % 8;
    }
    uint64_t first = hk_staging_start(map, *end);
    if (first >= start)
        *end = first;
    if (at < *end && hk_is_staging(map + at, *end - at))
        *end = at;
}

/* Sections may be anywhere: an old metadata edit of the reference put metadata behind the
 * records. */
struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part)
{
    const struct hk_part *p = &f->parts[part];
    if (f->format != HK_FORMAT_HK || f->without_appendix || p->size < HK_HEADER_SIZE)
        return (struct hk_bytes){0};
    const uint8_t *h = p->map;
    uint64_t start = le64(h + HK_AT_APPENDIX_OFFSET), end = p->size;
    end_before(start, &end, le64(h + HK_AT_METADATA_OFFSET), le64(h + HK_AT_METADATA_SIZE));
    end_before(start, &end, le64(h + HK_AT_TOC_OFFSET), le64(h + HK_AT_TOC_SIZE));
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->part != part)
            continue;
        end_before(start, &end, t->data_offset, t->data_size);
        end_before(start, &end, t->scale_offset, t->scale_size);
        end_before(start, &end, t->residual_offset, t->residual_size);
    }
    if (f->part_count == 1)
        end_before_staging(f, p->map, start, &end);
    if (start == 0 || start >= end)
        return (struct hk_bytes){0};
    return (struct hk_bytes){h + start, (size_t)(end - start)};
}

/* Only a whole file has an appendix that can be carried on, and records are padded to 8 from its
 * beginning. */
static enum hk_status check_appendix(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 0; i < f->part_count && f->part_count > 1; i++)
        if (hk_appendix_bytes(f, i).n > 0)
            return hk_fail(err, HK_E_UNSUPPORTED, HK_AT_APPENDIX_OFFSET,
                           "shard %zu has appendix records, which a whole file cannot take over",
                           i + 1);
    if (hk_appendix_bytes(f, 0).n > 0 && f->header.appendix_offset % 8 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_AT_APPENDIX_OFFSET,
                       "appendix_offset %llu is no multiple of 8",
                       (unsigned long long)f->header.appendix_offset);
    return HK_OK;
}

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
                           "tensor '%.*s' shares a later tensor", HK_STR(t->name));
        if (t->type > UINT8_MAX)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor '%.*s': .hk has no storage type %s", HK_STR(t->name),
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
    enum hk_status status = check_appendix(f, err);
    if (status != HK_OK)
        return status;
    struct hk_bytes appendix = hk_appendix_bytes(f, 0);
    struct hk_writer_options options = {
        .alignment = opt->alignment, .appendix_size = appendix.n, .room = opt->room};
    if (f->format == HK_FORMAT_HK)
        options.flags = f->header.flags;
    choose_split(f, split, &options);
    struct hk_copying c = {.from = f, .opt = opt, .all = appendix.n};
    status = hk_writer_new(&c.writer, &options, err);
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

enum hk_status hk_prepare(struct hk_view **out, struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *opt, struct hk_error *err)
{
    enum hk_status status = check_options(opt, err);
    struct hk_view *v = NULL;
    if (status == HK_OK && to == HK_FORMAT_GGUF)
        status = hk_gguf_view(&v, f, opt, err);
    else if (status == HK_OK && to == HK_FORMAT_SAFETENSORS)
        status = hk_st_view(&v, f, opt, err);
    if (status == HK_OK)
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
                          const struct hk_convert_options *opt, struct hk_out *out,
                          struct hk_error *err)
{
    struct hk_view *v = NULL;
    enum hk_status status = hk_prepare(&v, f, to, opt, err);
    if (status == HK_OK)
        status = hk_write_as(v != NULL ? v->file : f, to, opt, NULL, out, err);
    hk_view_free(&v);
    return status;
}
