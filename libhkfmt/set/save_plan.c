/* Which tensors go into which shard, and what metadata each shard has. */
#include <stdlib.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/save.h"

static size_t most_shards(enum hk_format to)
{
    /* header fields of .hk and keys of GGUF are u16, and names have five digits */
    return to == HK_FORMAT_SAFETENSORS ? HK_MAX_SHARDS : UINT16_MAX;
}

static uint64_t size_of(const struct hk_tensor *t)
{
    return t->data_size + t->scale_size + t->residual_size;
}

/* Call it with FIRST NULL to count only. */
static size_t divide(const struct hk_file *f, uint64_t split_size, size_t *first)
{
    size_t count = 1;
    uint64_t size = 0;
    for (size_t i = 0; i < f->tensor_count; i++) {
        uint64_t more = size_of(&f->tensors[i]);
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
    size_t count = divide(f, split_size, NULL);
    if (count > most_shards(to))
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "would take %zu shards; %s has up to %zu",
                       count, hk_format_name(to), most_shards(to));
    out->first = calloc(count + 1, sizeof *out->first);
    if (out->first == NULL)
        return hk_fail_nomem(err);
    out->count = count;
    out->first[count] = f->tensor_count;
    divide(f, split_size, out->first);
    return HK_OK;
}

void hk_plan_free(struct hk_plan *p)
{
    free(p->first);
    *p = (struct hk_plan){0};
}

/* ---- a shard ---- */

static void set_number(struct hk_kvlist *l, const char *key, size_t value, const char *type)
{
    hk_kvlist_int(l, key, (int64_t)value);
    for (size_t i = 0; i < l->count; i++)
        if (hk_bytes_are(l->kvs[i].key, key))
            l->kvs[i].gguf_type = type;
}

/* All but the first have their tensors only: their header says where they belong. */
static void mark_hk(struct hk_view *v, size_t number)
{
    if (number == 0)
        return;
    v->kvs.count = 0;
    v->file->format = HK_FORMAT_HK; /* nothing is left to say of where it came from */
    v->file->without_appendix = true;
}

/* All but the first say only where they belong: what llama.cpp's own tool writes, in its types. */
static void mark_gguf(struct hk_view *v, const struct hk_plan *p, size_t number, size_t tensors)
{
    if (number > 0)
        v->kvs.count = 0;
    set_number(&v->kvs, "split.no", number, "u16");
    set_number(&v->kvs, "split.count", p->count, "u16");
    set_number(&v->kvs, "split.tensors.count", tensors, "i32");
}

/* All but the first say only whose tensors they are, which transformers wants of every file. */
static void mark_safetensors(struct hk_view *v, size_t number)
{
    const struct hk_kv *format = hk_kvlist_find(&v->kvs, "format");
    if (number == 0)
        return;
    if (format != NULL)
        v->kvs.kvs[0] = *format;
    v->kvs.count = format != NULL;
    v->file->format = HK_FORMAT_SAFETENSORS; /* nothing is left to say of where it came from */
}

enum hk_status hk_plan_view(struct hk_view **out, struct hk_file *whole, enum hk_format to,
                            const struct hk_plan *p, size_t number, struct hk_error *err)
{
    struct hk_view *v;
    enum hk_status status =
        hk_view_range(&v, whole, p->first[number], p->first[number + 1] - p->first[number], err);
    if (status != HK_OK)
        return status;
    v->file->without_appendix = v->file->without_appendix || number > 0;
    if (to == HK_FORMAT_HK)
        mark_hk(v, number);
    else if (to == HK_FORMAT_GGUF)
        mark_gguf(v, p, number, whole->tensor_count);
    else if (to == HK_FORMAT_SAFETENSORS)
        mark_safetensors(v, number);
    status = hk_view_ready(v, err);
    if (status != HK_OK) {
        hk_view_free(&v);
        return status;
    }
    *out = v;
    return HK_OK;
}
