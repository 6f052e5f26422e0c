/* An open file as GGUF version 3. What GGUF has no place for is refused by name before the first
 * byte is written. */
#include "libhkfmt/base/out.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/tensor/geometry.h"

struct making {
    struct hk_file *f;
    const struct hk_convert_options *opt;
    json_t *types; /* hk.gguf.types, or NULL */
    uint32_t alignment;
    struct hk_buf head;
    uint64_t data; /* bytes behind the head */
};

/* ---- metadata ---- */

/* Keys that only tell of a shard or how a .hk was made, or are .hk's own. */
static bool is_dropped_from_gguf(const struct making *m, const struct hk_kv *kv)
{
    if (hk_is_shard_key(m->f, kv))
        return true;
    if (m->f->format == HK_FORMAT_GGUF)
        return false;
    struct hk_bytes source;
    bool of_reader = hk_bytes_are(kv->key, "hk.source.format") &&
                     hk_kv_string(kv, &source, NULL) == HK_OK &&
                     (hk_bytes_are(source, "gguf") || hk_bytes_are(source, "safetensors"));
    return of_reader || hk_bytes_are(kv->key, "hk.source.gguf_version") ||
           hk_bytes_are(kv->key, "hk.gguf.types") || hk_bytes_are(kv->key, "hk.alignment");
}

static enum hk_status choose_gguf_alignment(struct making *m, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(m->f, "general.alignment");
    int64_t v;
    m->alignment = m->opt->alignment;
    if (m->alignment != 0)
        return HK_OK;
    m->alignment = GGUF_ALIGNMENT;
    if (kv == NULL)
        return HK_OK;
    if (hk_kv_int(kv, &v, NULL) != HK_OK || v <= 0 || v > UINT32_MAX || (v & (v - 1)) != 0)
        return hk_fail(err, HK_E_FORMAT, kv->offset,
                       "key general.alignment: no power of two of 32 bits");
    m->alignment = (uint32_t)v;
    return HK_OK;
}

static enum hk_status put_gguf_pair(struct making *m, const struct hk_kv *kv, struct hk_error *err)
{
    hk_buf_u64(&m->head, kv->key.n);
    hk_buf_put(&m->head, kv->key.p, kv->key.n);
    if (m->opt->alignment != 0 && hk_bytes_are(kv->key, "general.alignment")) {
        hk_buf_u32(&m->head, GGUF_U32);
        hk_buf_u32(&m->head, m->alignment);
        return HK_OK;
    }
    const char *type = kv->gguf_type;
    enum hk_status st = HK_OK;
    if (type == NULL)
        st = hk_gguf_recorded_type(m->types, kv->key, &type, err);
    if (type == NULL)
        type = hk_gguf_default_type(kv);
    if (st == HK_OK && type == NULL)
        st = hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                     "key %.*s: GGUF has no type for bytes that are no array", HK_STR(kv->key));
    return st != HK_OK ? st : hk_gguf_put_value(&m->head, kv, type, err);
}

/* The count is filled in at COUNT_AT. */
static enum hk_status put_gguf_metadata(struct making *m, size_t count_at, struct hk_error *err)
{
    static const char alignment_key[] = "general.alignment";
    uint64_t count = 0;
    bool aligned = false;
    for (size_t i = 0; i < m->f->kv_count; i++) {
        const struct hk_kv *kv = &m->f->kvs[i];
        if (is_dropped_from_gguf(m, kv))
            continue;
        enum hk_status st = put_gguf_pair(m, kv, err);
        if (st != HK_OK)
            return st;
        aligned = aligned || hk_bytes_are(kv->key, alignment_key);
        count++;
    }
    if (!aligned && m->alignment != GGUF_ALIGNMENT) {
        hk_buf_u64(&m->head, sizeof alignment_key - 1);
        hk_buf_text(&m->head, alignment_key);
        hk_buf_u32(&m->head, GGUF_U32);
        hk_buf_u32(&m->head, m->alignment);
        count++;
    }
    if (m->head.failed)
        return hk_fail_nomem(err);
    put64(m->head.p + count_at, count);
    return HK_OK;
}

/* ---- tensors ---- */

static enum hk_status refuse_for_gguf(const struct hk_tensor *t, const char *why, const char *what,
                                      struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset, "tensor %.*s: %s%s", HK_STR(t->name),
                   why, what);
}

/* Whether the bytes of T are what GGUF means by its type. */
static enum hk_status check_gguf_bytes(const struct hk_tensor *t, uint64_t index,
                                       struct hk_error *err)
{
    const struct hk_type_info *info = hk_type_info(t->type);
    struct hk_geometry g;
    if (info == NULL || info->gguf < 0)
        return refuse_for_gguf(t, "GGUF has no tensor type ",
                               info == NULL ? "of that number" : info->name, err);
    if (t->sparsity != HK_SPARSITY_NONE)
        return refuse_for_gguf(t, "GGUF has no sparsity ", hk_sparsity_name(t->sparsity), err);
    if (t->layout != HK_LAYOUT_ROW_MAJOR)
        return refuse_for_gguf(t, "GGUF has no layout ", hk_layout_name(t->layout), err);
    if (t->scale_size != 0 || t->residual_size != 0)
        return refuse_for_gguf(t, "GGUF has no scale or residual section", "", err);
    if (!hk_geometry(t, index, NULL, &g) || g.mislabelled ||
        (g.form != HK_FORM_DENSE && g.form != HK_FORM_BLOCKS))
        return refuse_for_gguf(t, "its bytes are not those of type ", info->name, err);
    return HK_OK;
}

static enum hk_status put_gguf_tensor(struct making *m, const struct hk_tensor *t, uint64_t *offset,
                                      struct hk_error *err)
{
    const struct hk_tensor *bytes;
    enum hk_status st = hk_tensor_resolve(m->f, t, &bytes, err);
    if (st == HK_OK && bytes != t)
        st = check_gguf_bytes(bytes, (uint64_t)(bytes - m->f->tensors), err);
    else if (st == HK_OK)
        st = check_gguf_bytes(t, (uint64_t)(t - m->f->tensors), err);
    if (st != HK_OK)
        return st;
    if (t->name.n >= GGUF_NAME_LIMIT)
        return hk_fail(err, HK_E_RANGE, t->entry_offset,
                       "tensor %.*s: the name has %zu bytes, GGUF allows fewer than %d",
                       HK_STR(t->name), t->name.n, GGUF_NAME_LIMIT);
    if (t->ndim > GGUF_MAX_DIMS)
        return refuse_for_gguf(t, "GGUF allows no more than 4 dimensions", "", err);
    hk_buf_u64(&m->head, t->name.n);
    hk_buf_put(&m->head, t->name.p, t->name.n);
    hk_buf_u32(&m->head, t->ndim);
    for (unsigned i = t->ndim; i-- > 0;)
        hk_buf_u64(&m->head, t->shape[i]);
    hk_buf_u32(&m->head, (uint32_t)hk_type_info(bytes->type)->gguf);
    hk_buf_u64(&m->head, *offset);
    return align_ok(*offset + bytes->data_size, m->alignment, offset) && *offset <= INT64_MAX / 2
               ? HK_OK
               : hk_fail(err, HK_E_RANGE, t->entry_offset, "the file would be too large");
}

static enum hk_status put_gguf_tensors(struct making *m, struct hk_error *err)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < m->f->tensor_count; i++) {
        enum hk_status st = put_gguf_tensor(m, &m->f->tensors[i], &offset, err);
        if (st != HK_OK)
            return st;
    }
    m->data = offset;
    return m->head.failed ? hk_fail_nomem(err) : HK_OK;
}

static enum hk_status make_gguf_head(struct making *m, struct hk_error *err)
{
    hk_buf_text(&m->head, "GGUF");
    hk_buf_u32(&m->head, 3);
    hk_buf_u64(&m->head, m->f->tensor_count);
    size_t count_at = m->head.n;
    hk_buf_u64(&m->head, 0);
    enum hk_status st = put_gguf_metadata(m, count_at, err);
    return st != HK_OK ? st : put_gguf_tensors(m, err);
}

/* ---- payloads ---- */

/* Zeros from N bytes on to a multiple of the alignment. */
static enum hk_status pad_gguf(const struct making *m, struct hk_out *out, uint64_t n,
                               struct hk_error *err)
{
    static const uint8_t zeros[4096];
    uint64_t left = (m->alignment - n % m->alignment) % m->alignment;
    enum hk_status st = HK_OK;
    while (st == HK_OK && left > 0) {
        size_t some = left < sizeof zeros ? (size_t)left : sizeof zeros;
        st = hk_out_write(out, zeros, some, err);
        left -= some;
    }
    return st;
}

static enum hk_status copy_gguf_payloads(const struct making *m, struct hk_copying *c,
                                         struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < m->f->tensor_count; i++) {
        const struct hk_tensor *bytes = NULL;
        st = hk_tensor_resolve(m->f, &m->f->tensors[i], &bytes, err);
        if (st == HK_OK)
            st = hk_copy_tensor(c, i, err);
        if (st == HK_OK)
            st = pad_gguf(m, c->out, bytes->data_size, err);
    }
    return st == HK_OK ? hk_copying_finish(c, err) : st;
}

static enum hk_status write_gguf_parts(struct making *m, struct hk_copying *c, struct hk_error *err)
{
    uint64_t size;
    enum hk_status st = hk_copying_begin(c, err);
    if (st == HK_OK && align_ok(m->head.n, m->alignment, &size))
        st = hk_out_expect(c->out, size + m->data, err);
    if (st == HK_OK)
        st = hk_out_write(c->out, m->head.p, m->head.n, err);
    if (st == HK_OK)
        st = pad_gguf(m, c->out, m->head.n, err);
    return st != HK_OK ? st : copy_gguf_payloads(m, c, err);
}

enum hk_status hk_write_gguf(struct hk_file *f, const struct hk_convert_options *opt,
                             struct hk_out *out, struct hk_error *err)
{
    struct making m = {.f = f, .opt = opt};
    struct hk_copying c = {.from = f, .opt = opt, .out = out};
    enum hk_status st = choose_gguf_alignment(&m, err);
    if (st == HK_OK)
        st = hk_gguf_types_read(f, &m.types, err);
    if (st == HK_OK)
        st = make_gguf_head(&m, err);
    if (st == HK_OK)
        st = write_gguf_parts(&m, &c, err);
    hk_copying_end(&c);
    hk_buf_free(&m.head);
    json_decref(m.types);
    return st;
}
