/* The head of a GGUF: header, metadata, tensor table. Nothing in it is trusted, and all ranges are
 * checked before any payload byte is looked at. */
#include <stdarg.h>
#include <stdlib.h>

#include "libhkfmt/base/magic.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"

static bool check_gguf_version(struct gguf_reader *r, uint32_t version)
{
    if (version == 2 || version == 3)
        return true;
    if (version != 0 && (version & 0xffff) == 0)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, 4,
                            "a big-endian GGUF (version %u read the other way round)",
                            version >> 24 | (version >> 8 & 0xff00));
    return hk_gguf_fail(r, HK_E_UNSUPPORTED, 4, "GGUF version %u; versions 2 and 3 are read%s",
                        version, version == 1 ? ", version 1 had 32-bit lengths" : "");
}

/* A count of the header against the least that so many entries take. In a stream the bytes to come
 * are unknown, so there the entries' storage grows with what was really read. */
static bool check_entry_count(struct gguf_reader *r, const char *what, uint64_t count,
                              uint64_t least, uint64_t offset)
{
    uint64_t size, left = cursor_left(&r->c);
    if (mul_ok(count, least, &size) && count < UINT32_MAX && (r->stream || size <= left))
        return true;
    return hk_gguf_fail(r, HK_E_RANGE, offset,
                        "%s is %llu, more than the %llu bytes that follow hold", what,
                        (unsigned long long)count, (unsigned long long)left);
}

static bool read_gguf_header(struct gguf_reader *r, struct hk_header *h)
{
    const uint8_t *p = hk_gguf_take(r, 8, "header");
    if (p == NULL)
        return false;
    if (memcmp(p, "GGUF", 4) != 0)
        return hk_gguf_fail(r, HK_E_FORMAT, 0, "not a GGUF file");
    if (!check_gguf_version(r, le32(p + 4)))
        return false;
    h->version_major = (uint16_t)le32(p + 4);
    if (!hk_gguf_take_u64(r, &h->tensor_count, "tensor count") ||
        !hk_gguf_take_u64(r, &h->metadata_kv_count, "metadata count"))
        return false;
    h->split_count = 1;
    h->metadata_offset = r->c.at;
    return check_entry_count(r, "metadata_kv_count", h->metadata_kv_count, GGUF_LEAST_KV, 16) &&
           check_entry_count(r, "tensor_count", h->tensor_count, GGUF_LEAST_TENSOR, 8);
}

/* Room for entry number USED of a table of entries of SIZE bytes. It doubles as entries are read,
 * so that a hostile count reserves nothing. */
static bool make_table_room(void **table, size_t size, size_t used)
{
    bool full = used == 0 || (used >= 64 && (used & (used - 1)) == 0);
    if (!full)
        return true;
    void *p = reallocarray(*table, used == 0 ? 64 : 2 * used, size);
    if (p == NULL)
        return false;
    *table = p;
    return true;
}

static bool read_gguf_pair(struct gguf_reader *r, struct hk_kv *kv)
{
    uint64_t at = r->c.at;
    r->name = (struct hk_bytes){0};
    if (!hk_gguf_take_string(r, &kv->key, "key"))
        return false;
    if (kv->key.n == 0)
        return hk_gguf_fail(r, HK_E_FORMAT, at, "the key is empty");
    r->name = kv->key;
    return hk_gguf_take_value(r, kv);
}

static bool set_gguf_alignment(struct gguf_reader *r, struct hk_header *h, const struct hk_kv *kv)
{
    bool unsigned_int = strcmp(kv->gguf_type, "u32") == 0 || strcmp(kv->gguf_type, "u64") == 0;
    if (!unsigned_int || kv->type != HK_META_INT64)
        return hk_gguf_fail(r, HK_E_FORMAT, kv->offset, "the alignment is of type %s, not u32",
                            kv->gguf_type);
    uint64_t a = le64(kv->value.p);
    if (a == 0 || (a & (a - 1)) != 0 || a > UINT32_MAX)
        return hk_gguf_fail(r, HK_E_FORMAT, kv->offset, "alignment %llu is no power of two%s",
                            (unsigned long long)a, a > UINT32_MAX ? " of 32 bits" : "");
    h->alignment = (uint32_t)a;
    return true;
}

static bool read_gguf_metadata(struct gguf_reader *r, struct hk_file *f)
{
    struct hk_header *h = &f->header;
    bool aligned = false;
    h->alignment = GGUF_ALIGNMENT;
    r->kind = "key";
    for (uint64_t i = 0; i < h->metadata_kv_count; i++) {
        void *table = f->kvs;
        bool room = make_table_room(&table, sizeof *f->kvs, f->kv_count);
        f->kvs = table;
        if (!room)
            return hk_gguf_fail_nomem(r);
        struct hk_kv *kv = &f->kvs[i];
        *kv = (struct hk_kv){0};
        r->index = i;
        if (!read_gguf_pair(r, kv))
            return false;
        if (!aligned && hk_bytes_are(kv->key, "general.alignment")) {
            if (!set_gguf_alignment(r, h, kv))
                return false;
            aligned = true;
        }
        f->kv_count++;
    }
    h->metadata_size = r->c.at - h->metadata_offset;
    return true;
}

static bool read_tensor_name(struct gguf_reader *r, struct hk_tensor *t)
{
    uint64_t at = r->c.at;
    r->name = (struct hk_bytes){0};
    if (!hk_gguf_take_string(r, &t->name, "name"))
        return false;
    if (t->name.n == 0)
        return hk_gguf_fail(r, HK_E_FORMAT, at, "the name is empty");
    r->name = t->name;
    if (t->name.n >= GGUF_NAME_LIMIT)
        return hk_gguf_fail(r, HK_E_RANGE, at, "the name has %zu bytes, GGUF allows fewer than %d",
                            t->name.n, GGUF_NAME_LIMIT);
    return true;
}

/* Dimensions are stored innermost first. */
static bool read_gguf_shape(struct gguf_reader *r, struct hk_tensor *t)
{
    uint64_t at = r->c.at;
    uint32_t ndim;
    if (!hk_gguf_take_u32(r, &ndim, "n_dims"))
        return false;
    if (ndim > GGUF_MAX_DIMS)
        return hk_gguf_fail(r, HK_E_RANGE, at, "n_dims is %u, GGUF allows %d", ndim, GGUF_MAX_DIMS);
    t->ndim = (uint8_t)ndim;
    for (uint32_t i = ndim; i-- > 0;)
        if (!hk_gguf_take_u64(r, &t->shape[i], "dimension"))
            return false;
    return true;
}

/* Names of the tensor types that once had a number, for the message. */
static const char *removed_type_name(uint32_t type)
{
    static const char *const names[] = {
        [4] = "q4_2",      [5] = "q4_3",        [31] = "q4_0_4_4",   [32] = "q4_0_4_8",
        [33] = "q4_0_8_8", [36] = "iq4_nl_4_4", [37] = "iq4_nl_4_8", [38] = "iq4_nl_8_8",
    };
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

static bool read_gguf_tensor_type(struct gguf_reader *r, struct hk_tensor *t,
                                  const struct hk_type_info **info)
{
    uint64_t at = r->c.at;
    uint32_t type;
    if (!hk_gguf_take_u32(r, &type, "type"))
        return false;
    *info = hk_type_by_gguf(type);
    if (*info == NULL && removed_type_name(type) != NULL)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "type %u (%s) was removed from GGUF", type,
                            removed_type_name(type));
    if (*info == NULL)
        return hk_gguf_fail(r, HK_E_UNSUPPORTED, at, "unknown tensor type %u", type);
    t->type = (*info)->type;
    return true;
}

/* Bytes of T. The product is checked without its zeros, so that none of them hides an overflow. */
static bool set_tensor_size(struct gguf_reader *r, struct hk_tensor *t,
                            const struct hk_type_info *info)
{
    uint64_t elems = 1, bytes;
    bool empty = false;
    for (unsigned i = 0; i < t->ndim; i++) {
        empty = empty || t->shape[i] == 0;
        if (t->shape[i] != 0 && !mul_ok(elems, t->shape[i], &elems))
            return hk_gguf_fail(r, HK_E_RANGE, t->entry_offset,
                                "the dimensions' product overflows");
    }
    uint64_t cols = t->ndim == 0 ? 1 : t->shape[t->ndim - 1];
    if (cols % info->block_elems != 0)
        return hk_gguf_fail(r, HK_E_FORMAT, t->entry_offset,
                            "rows of %llu elements are no whole blocks of %u (%s)",
                            (unsigned long long)cols, info->block_elems, info->name);
    /* A row length of 0 leaves the others' product, which need not be whole blocks. */
    if (!mul_ok(elems / info->block_elems, info->block_bytes, &bytes) || bytes > INT64_MAX ||
        elems > INT64_MAX)
        return hk_gguf_fail(r, HK_E_RANGE, t->entry_offset,
                            "%llu elements of %s are too many bytes", (unsigned long long)elems,
                            info->name);
    t->data_size = empty ? 0 : bytes;
    return true;
}

static bool read_gguf_tensor(struct gguf_reader *r, const struct hk_header *h, struct hk_tensor *t)
{
    const struct hk_type_info *info;
    t->entry_offset = r->c.at;
    t->block_size = 32;
    if (!read_tensor_name(r, t) || !read_gguf_shape(r, t) || !read_gguf_tensor_type(r, t, &info) ||
        !set_tensor_size(r, t, info))
        return false;
    uint64_t at = r->c.at;
    if (!hk_gguf_take_u64(r, &t->data_offset, "offset"))
        return false;
    if (t->data_offset % h->alignment != 0)
        return hk_gguf_fail(r, HK_E_FORMAT, at, "offset %llu is no multiple of the alignment %u",
                            (unsigned long long)t->data_offset, h->alignment);
    return true;
}

static bool read_gguf_tensors(struct gguf_reader *r, struct hk_file *f)
{
    struct hk_header *h = &f->header;
    h->tensor_toc_offset = r->c.at;
    r->kind = "tensor";
    for (uint64_t i = 0; i < h->tensor_count; i++) {
        void *table = f->tensors;
        bool room = make_table_room(&table, sizeof *f->tensors, f->tensor_count);
        f->tensors = table;
        if (!room)
            return hk_gguf_fail_nomem(r);
        struct hk_tensor *t = &f->tensors[i];
        *t = (struct hk_tensor){0};
        r->index = i;
        if (!read_gguf_tensor(r, h, t))
            return false;
        f->tensor_count++;
    }
    h->tensor_toc_size = r->c.at - h->tensor_toc_offset;
    return true;
}

/* Offsets count from the aligned end of the table. Every tensor lies in the file together with the
 * padding behind it: GGUF writers pad the last one too, so that a file cut anywhere is noticed. */
static bool place_gguf_tensor(struct gguf_reader *r, const struct hk_header *h, struct hk_tensor *t)
{
    uint64_t first, padded, end;
    bool fits = add_ok(h->tensor_data_offset, t->data_offset, &first) &&
                align_ok(t->data_size, h->alignment, &padded) && add_ok(first, padded, &end) &&
                end <= INT64_MAX;
    if (!fits || (!r->stream && end > r->c.end))
        return hk_gguf_fail(
            r, HK_E_RANGE, t->entry_offset,
            "%llu bytes at offset %llu of the data at 0x%llx, padded to %u, end past "
            "the end of the file",
            (unsigned long long)t->data_size, (unsigned long long)t->data_offset,
            (unsigned long long)h->tensor_data_offset, h->alignment);
    t->data_offset = first;
    return true;
}

static int compare_gguf_offsets(const void *pa, const void *pb, void *tensors)
{
    const struct hk_tensor *t = tensors;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (t[a].data_offset != t[b].data_offset)
        return t[a].data_offset < t[b].data_offset ? -1 : 1;
    if (t[a].data_size != t[b].data_size)
        return t[a].data_size < t[b].data_size ? -1 : 1;
    return (a > b) - (a < b);
}

static bool check_no_overlap(struct gguf_reader *r, struct hk_file *f)
{
    size_t n = f->tensor_count;
    uint32_t *order = malloc((n + 1) * sizeof *order);
    if (order == NULL)
        return hk_gguf_fail_nomem(r);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, compare_gguf_offsets, f->tensors);
    bool good = true;
    for (size_t i = 1; i < n && good; i++) {
        const struct hk_tensor *a = &f->tensors[order[i - 1]], *b = &f->tensors[order[i]];
        if (a->data_size <= b->data_offset - a->data_offset)
            continue;
        r->index = order[i];
        r->name = b->name;
        good = hk_gguf_fail(r, HK_E_FORMAT, b->entry_offset,
                            "its bytes at 0x%llx overlap those of tensor %u '%.*s'",
                            (unsigned long long)b->data_offset, order[i - 1], HK_STR(a->name));
    }
    free(order);
    return good;
}

static bool place_gguf_tensors(struct gguf_reader *r, struct hk_file *f)
{
    struct hk_header *h = &f->header;
    if (!align_ok(r->c.at, h->alignment, &h->tensor_data_offset))
        return hk_gguf_fail(r, HK_E_RANGE, r->c.at,
                            "the tensor data begin past the end of the file");
    for (size_t i = 0; i < f->tensor_count; i++) {
        r->index = i;
        r->name = f->tensors[i].name;
        if (!place_gguf_tensor(r, h, &f->tensors[i]))
            return false;
    }
    return check_no_overlap(r, f);
}

static bool part_has_model(const struct hk_part *part, uint64_t at)
{
    return at < part->size && hk_starts_model(part->map + at, part->size - at);
}

/* Where in the file of F another model follows; 0 where none does. */
static uint64_t find_next_model(const struct hk_file *f)
{
    const struct hk_header *h = &f->header;
    uint64_t end = h->tensor_toc_offset + h->tensor_toc_size, padded;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->data_offset + t->data_size > end)
            end = t->data_offset + t->data_size;
    }
    if (part_has_model(&f->parts[0], end))
        return end;
    return align_ok(end, h->alignment, &padded) && part_has_model(&f->parts[0], padded) ? padded
                                                                                        : 0;
}

/* STREAM: more bytes may follow. */
static enum hk_status parse_gguf_head(struct hk_file *f, bool stream, bool *short_of,
                                      struct hk_error *err)
{
    const struct hk_part *part = &f->parts[0];
    struct gguf_reader r = {
        .c = {.base = part->map, .end = part->size},
        .stream = stream,
        .arena = &f->arena,
        .err = err,
    };
    f->format = HK_FORMAT_GGUF;
    bool good = read_gguf_header(&r, &f->header) && read_gguf_metadata(&r, f) &&
                read_gguf_tensors(&r, f) && place_gguf_tensors(&r, f);
    *short_of = r.short_of;
    return good ? HK_OK : r.status;
}

enum hk_status hk_parse_gguf(struct hk_file *f, struct hk_error *err)
{
    bool short_of;
    enum hk_status st = parse_gguf_head(f, false, &short_of, err);
    const uint64_t next = st == HK_OK ? find_next_model(f) : 0;
    return next == 0 ? st : hk_fail(err, HK_E_FORMAT, next, HK_SEVERAL_FILES);
}

enum hk_status hk_parse_gguf_start(struct hk_file *f, bool *short_of, struct hk_error *err)
{
    return parse_gguf_head(f, true, short_of, err);
}

enum hk_status hk_parse_gguf_cut(struct hk_file *f, bool *whole, struct hk_error *err)
{
    bool short_of;
    enum hk_status st = parse_gguf_head(f, true, &short_of, err);
    *whole = st == HK_OK;
    if (st == HK_OK || !short_of || f->header.metadata_offset == 0)
        return st;
    for (size_t i = 0; i < f->tensor_count; i++) /* they count from the end of the table */
        f->tensors[i].data_offset = HK_NO_OFFSET;
    return HK_OK;
}
