/* An open file as .hk: metadata, table and payloads, and the records of the .hk that it was. */

#include "libhkfmt/convert/write_hk.h"
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/base/error.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

const struct hk_file *hk_origin_of(const struct hk_file *f)
{
    return f->origin != NULL ? f->origin : f;
}

struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part)
{
    if (f->without_appendix)
        return (struct hk_bytes){0};
    f = hk_origin_of(f);
    const struct hk_part *p = &f->parts[part];
    if (f->format != HK_FORMAT_HK || p->appendix_n == 0)
        return (struct hk_bytes){0};
    return (struct hk_bytes){p->map + p->appendix_at, (size_t)p->appendix_n};
}

/* Tensors that have another form, decoded to opt->dense. */
enum hk_status hk_view_for_hk(struct hk_view **out, struct hk_file *f,
                              const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_view *v = NULL;
    *out = NULL;
    if (!opt->decode)
        return HK_OK;
    enum hk_status st = hk_view_new(&v, f, err);
    if (st == HK_OK)
        st = hk_decode_for_safetensors(v, opt, err);
    if (st == HK_OK)
        st = hk_view_ready(v, err);
    if (st != HK_OK)
        hk_view_free(&v);
    *out = v;
    return st;
}

static enum hk_status set_hk_metadata(const struct hk_file *f, struct hk_writer *w,
                                      struct hk_error *err)
{
    enum hk_status st = HK_OK;
    if (f->format == HK_FORMAT_GGUF)
        st = hk_gguf_refuse_keys(f, err);
    for (size_t i = 0; st == HK_OK && i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        /* hk.alignment is the writer's to set. */
        if (!hk_is_shard_key(f, kv) && !hk_bytes_are(kv->key, "hk.alignment"))
            st = hk_writer_set(w, kv->key, (enum hk_meta_type)kv->type, kv->value, err);
    }
    if (st == HK_OK && f->format == HK_FORMAT_GGUF)
        st = hk_gguf_note_source(f, w, err);
    return st;
}

static enum hk_status add_hk_tensors(const struct hk_file *f, struct hk_writer *w,
                                     struct hk_error *err)
{
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i], *target;
        enum hk_status st = hk_tensor_resolve(f, t, &target, err);
        if (st != HK_OK)
            return st;
        size_t shared = (size_t)(target - f->tensors);
        if (shared > i)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s shares a later tensor", HK_STR(t->name));
        if (t->type > UINT8_MAX)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: .hk has no storage type %s", HK_STR(t->name),
                           hk_type_info(t->type)->name);
        st = hk_writer_add(w, t, shared, err);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

static enum hk_status copy_hk_payloads(struct hk_copying *c, struct hk_error *err)
{
    const struct hk_file *f = c->from;
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < f->tensor_count; i++)
        if (f->tensors[i].type != HK_TYPE_SHARED_REF)
            st = hk_copy_tensor(c, i, err);
    return st == HK_OK ? hk_copying_finish(c, err) : st;
}

static enum hk_status write_hk_parts(struct hk_copying *c, struct hk_bytes appendix,
                                     struct hk_out *out, struct hk_error *err)
{
    struct hk_file *f = c->from;
    enum hk_status st = set_hk_metadata(f, c->writer, err);
    if (st == HK_OK)
        st = add_hk_tensors(f, c->writer, err);
    if (st == HK_OK)
        st = hk_copying_begin(c, err);
    if (st == HK_OK)
        st = hk_writer_begin(c->writer, out, err);
    if (st == HK_OK)
        st = copy_hk_payloads(c, err);
    if (st == HK_OK && appendix.n > 0)
        st = hk_copy_bytes(c, 0, f->header.appendix_offset, appendix.n, err);
    return st != HK_OK ? st : hk_writer_finish(c->writer, err);
}

enum hk_status hk_write_hk(struct hk_file *f, const struct hk_convert_options *opt,
                           struct hk_out *out, struct hk_error *err)
{
    const struct hk_bytes appendix =
        opt->history == HK_HISTORY_DROP ? (struct hk_bytes){0} : hk_appendix_bytes(f, 0);
    struct hk_writer_options options = {.size = sizeof options,
                                        .alignment = opt->alignment,
                                        .appendix_size = appendix.n,
                                        .room = opt->room};
    if (f->format == HK_FORMAT_HK)
        options.flags = f->header.flags;
    /* A view is the shard that its header says; a shard that becomes a file of its own stays one.
     */
    if (f->how != NULL || (f->format == HK_FORMAT_HK && f->part_count == 1)) {
        options.split_index = f->header.split_index;
        options.split_count = f->header.split_count;
    }
    struct hk_copying c = {.from = f, .opt = opt, .all = appendix.n};
    enum hk_status st = hk_writer_new(&c.writer, &options, err);
    if (st == HK_OK)
        st = write_hk_parts(&c, appendix, out, err);
    hk_copying_end(&c);
    hk_writer_free(&c.writer);
    return st;
}
