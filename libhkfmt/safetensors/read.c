/* The head of a safetensors file. Nothing in it is trusted: the tensors' bytes have to cover the
 * rest of the file without overlap or hole before any of them is looked at. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"
#include "libhkfmt/tensor/types.h"

struct reader {
    struct hk_json j;
    struct hk_file *f;
    size_t kv_room, tensor_room;
    bool cut; /* bytes may be missing at the end */
    bool has_metadata, has_types;
    struct hk_bytes types; /* the value of "hk.types" */
    uint64_t types_at;
    const char *kind; /* "tensor" or "key" that is being read, NULL outside */
    struct hk_bytes name;
    enum hk_status status;
    struct hk_error *err;
};

/* Where position AT of the header is in the file. */
static uint64_t offset_in_file(size_t at)
{
    return ST_LENGTH_SIZE + (uint64_t)at;
}

/* Fail with a text that names what is being read; returns false. */
static bool fail_reading(struct reader *r, enum hk_status status, uint64_t offset, const char *fmt,
                         ...) HK_PRINTF(4, 5);

static bool fail_reading(struct reader *r, enum hk_status st, uint64_t offset, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->status = st;
    if (r->kind == NULL)
        hk_fail(r->err, st, offset, "%s", text);
    else
        hk_fail(r->err, st, offset, "%s %.*s: %s", r->kind, HK_STR(r->name), text);
    return false;
}

static bool fail_reading_nomem(struct reader *r)
{
    r->status = hk_fail_nomem(r->err);
    return false;
}

static bool check_token(struct reader *r, enum hk_json_token token, enum hk_json_token wanted,
                        const char *what)
{
    if (token == wanted)
        return true;
    if (token == HK_JSON_ERROR)
        return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.at), "the header is no JSON: %s",
                            r->j.why);
    return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.start), "%s", what);
}

/* The next token, which has to be the one that is WANTED; WHAT says so where it is not. */
static bool expect_token(struct reader *r, enum hk_json_token wanted, const char *what)
{
    return check_token(r, hk_json_next(&r->j), wanted, what);
}

/* The next token is a key or else ends the object; false after failing. */
static bool read_key_or_end(struct reader *r, bool *end)
{
    enum hk_json_token token = hk_json_next(&r->j);
    *end = token == HK_JSON_OBJECT_END;
    return *end || check_token(r, token, HK_JSON_KEY, "");
}

/* What the last key or string means: in the file, or where it has escapes in the arena. */
static bool take_text(struct reader *r, struct hk_bytes *out)
{
    *out = r->j.span;
    if (!r->j.escaped)
        return true;
    uint8_t *p = hk_arena_alloc(&r->f->arena, r->j.span.n);
    if (p == NULL)
        return fail_reading_nomem(r);
    *out = (struct hk_bytes){p, hk_json_decode(&r->j, p)};
    return true;
}

/* Room for one more in the array whose pointer is at TABLE, of entries of SIZE bytes. */
static bool make_entry_room(struct reader *r, void *table, size_t size, size_t used, size_t *room)
{
    return hk_grow(table, room, used + 1, size) || fail_reading_nomem(r);
}

/* ---- metadata ---- */

static bool add_metadata_pair(struct reader *r, const struct hk_kv *kv)
{
    struct hk_file *f = r->f;
    if (hk_bytes_are(kv->key, "hk.types")) {
        if (r->has_types)
            return fail_reading(r, HK_E_FORMAT, kv->offset, "it occurs again");
        r->has_types = true;
        r->types = kv->value;
        r->types_at = kv->offset;
        return true;
    }
    void *table = f->kvs;
    bool good = make_entry_room(r, &table, sizeof *f->kvs, f->kv_count, &r->kv_room);
    f->kvs = table;
    if (good)
        f->kvs[f->kv_count++] = *kv;
    return good;
}

/* The value of the key just read. */
static bool read_metadata_pair(struct reader *r)
{
    struct hk_kv kv = {.type = HK_META_STRING};
    uint64_t at = offset_in_file(r->j.start);
    if (!take_text(r, &kv.key))
        return false;
    r->kind = "key";
    r->name = kv.key;
    if (kv.key.n == 0)
        return fail_reading(r, HK_E_FORMAT, at, "the key is empty");
    if (!expect_token(r, HK_JSON_STRING, "its value in __metadata__ is no string"))
        return false;
    kv.offset = offset_in_file(r->j.start) + 1;
    bool good = take_text(r, &kv.value) && add_metadata_pair(r, &kv);
    r->kind = NULL;
    return good;
}

static bool read_safetensors_metadata(struct reader *r)
{
    struct hk_header *h = &r->f->header;
    if (r->has_metadata)
        return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.start),
                            "__metadata__ occurs again");
    r->has_metadata = true;
    if (!expect_token(r, HK_JSON_OBJECT, "__metadata__ is no object"))
        return false;
    h->metadata_offset = offset_in_file(r->j.start);
    for (bool end = false;;) {
        if (!read_key_or_end(r, &end))
            return false;
        if (end)
            break;
        if (!read_metadata_pair(r))
            return false;
    }
    h->metadata_size = offset_in_file(r->j.at) - h->metadata_offset;
    return true;
}

/* ---- tensors ---- */

enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 }; /* fields of an entry */

struct entry {
    struct hk_tensor t;
    unsigned seen;
    uint64_t begin, end;
};

static bool read_dtype(struct reader *r, struct entry *e)
{
    size_t count;
    const struct hk_dtype *row = hk_dtypes(&count);
    if (!expect_token(r, HK_JSON_STRING, "dtype is no string"))
        return false;
    for (size_t i = 0; i < count; i++)
        if (row[i].dtype != NULL && hk_json_is(&r->j, row[i].dtype)) {
            e->t.type = row[i].type;
            return true;
        }
    return fail_reading(r, HK_E_UNSUPPORTED, offset_in_file(r->j.start), "unknown dtype '%.*s'",
                        HK_STR(r->j.span));
}

/* The next number of an array of at most MOST, or its end. */
static bool read_number_or_end(struct reader *r, unsigned used, unsigned most, const char *what,
                               uint64_t *v, bool *end)
{
    enum hk_json_token token = hk_json_next(&r->j);
    uint64_t at = offset_in_file(r->j.start);
    *end = token == HK_JSON_ARRAY_END;
    if (*end)
        return true;
    if (token == HK_JSON_ERROR)
        return check_token(r, token, HK_JSON_NUMBER, "");
    if (used == most)
        return fail_reading(r, HK_E_RANGE, at, "%s has more than %u numbers", what, most);
    if (token != HK_JSON_NUMBER || !hk_json_u64(r->j.span, v))
        return fail_reading(r, HK_E_FORMAT, at, "%s holds what is no unsigned 64-bit integer",
                            what);
    return true;
}

static bool read_entry_shape(struct reader *r, struct entry *e)
{
    if (!expect_token(r, HK_JSON_ARRAY, "shape is no array"))
        return false;
    for (bool end = false;; e->t.ndim++) {
        uint64_t v = 0;
        if (!read_number_or_end(r, e->t.ndim, HK_MAX_DIMS, "shape", &v, &end))
            return false;
        if (end)
            return true;
        e->t.shape[e->t.ndim] = v;
    }
}

static bool read_data_offsets(struct reader *r, struct entry *e)
{
    uint64_t v[2] = {0};
    if (!expect_token(r, HK_JSON_ARRAY, "data_offsets is no array"))
        return false;
    for (unsigned n = 0;; n++) {
        bool end;
        uint64_t one = 0;
        if (!read_number_or_end(r, n, 2, "data_offsets", &one, &end))
            return false;
        if (end && n < 2)
            return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.start),
                                "data_offsets has %u numbers, not 2", n);
        if (end)
            break;
        v[n] = one;
    }
    e->begin = v[0];
    e->end = v[1];
    return true;
}

/* The value of the field whose key was just read. */
static bool read_entry_field(struct reader *r, struct entry *e)
{
    static const struct {
        const char *name;
        bool (*read)(struct reader *r, struct entry *e);
    } fields[] = {
        {"dtype", read_dtype}, {"shape", read_entry_shape}, {"data_offsets", read_data_offsets}};
    for (unsigned i = 0; i < 3; i++) {
        if (!hk_json_is(&r->j, fields[i].name))
            continue;
        if (e->seen & 1u << i)
            return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.start), "%s occurs again",
                                fields[i].name);
        e->seen |= 1u << i;
        return fields[i].read(r, e);
    }
    return fail_reading(r, HK_E_FORMAT, offset_in_file(r->j.start), "unknown field '%.*s'",
                        HK_STR(r->j.span));
}

static bool check_entry_fields(struct reader *r, const struct entry *e)
{
    const char *missing = !(e->seen & DTYPE)     ? "dtype"
                          : !(e->seen & SHAPE)   ? "shape"
                          : !(e->seen & OFFSETS) ? "data_offsets"
                                                 : NULL;
    return missing == NULL ||
           fail_reading(r, HK_E_FORMAT, e->t.entry_offset, "%s is missing", missing);
}

/* Its bytes against its shape and the bytes there are. */
static bool place_entry_data(struct reader *r, struct entry *e)
{
    const struct hk_header *h = &r->f->header;
    const uint64_t size = r->cut ? INT64_MAX : r->f->parts[0].size; /* no file has more */
    const uint64_t at = e->t.entry_offset, room = size - h->tensor_data_offset;
    const struct hk_type_info *info = hk_type_info(e->t.type);
    uint64_t elems = hk_tensor_elems(&e->t), bytes = 0;
    if (elems == UINT64_MAX || !mul_ok(elems, info->block_bytes, &bytes))
        return fail_reading(r, HK_E_RANGE, at, "its shape overflows");
    if (elems % info->block_elems != 0)
        return fail_reading(r, HK_E_FORMAT, at, "%llu elements of %s are not whole bytes",
                            (unsigned long long)elems, info->name);
    bytes /= info->block_elems;
    if (e->begin > e->end)
        return fail_reading(r, HK_E_FORMAT, at, "data_offsets begin at %llu and end at %llu",
                            (unsigned long long)e->begin, (unsigned long long)e->end);
    if (e->end > room)
        return fail_reading(r, HK_E_RANGE, at,
                            "data_offsets end at %llu, but %llu bytes of data are there",
                            (unsigned long long)e->end, (unsigned long long)room);
    if (e->end - e->begin != bytes)
        return fail_reading(
            r, HK_E_FORMAT, at, "data_offsets give %llu bytes, %s of its shape takes %llu",
            (unsigned long long)(e->end - e->begin), info->name, (unsigned long long)bytes);
    e->t.data_offset = h->tensor_data_offset + e->begin;
    e->t.data_size = bytes;
    return true;
}

/* The entry whose name was just read. */
static bool read_tensor_entry(struct reader *r)
{
    struct hk_file *f = r->f;
    struct entry e = {.t = {.block_size = 32, .entry_offset = offset_in_file(r->j.start)}};
    if (!take_text(r, &e.t.name))
        return false;
    r->kind = "tensor";
    r->name = e.t.name;
    if (e.t.name.n == 0)
        return fail_reading(r, HK_E_FORMAT, e.t.entry_offset, "the name is empty");
    if (!expect_token(r, HK_JSON_OBJECT, "its entry is no object"))
        return false;
    for (bool end = false;;) {
        if (!read_key_or_end(r, &end))
            return false;
        if (end)
            break;
        if (!read_entry_field(r, &e))
            return false;
    }
    if (!check_entry_fields(r, &e) || !place_entry_data(r, &e))
        return false;
    r->kind = NULL;
    void *table = f->tensors;
    bool good = make_entry_room(r, &table, sizeof *f->tensors, f->tensor_count, &r->tensor_room);
    f->tensors = table;
    if (good)
        f->tensors[f->tensor_count++] = e.t;
    return good;
}

/* ---- the whole ---- */

static bool read_header_length(struct reader *r)
{
    const struct hk_part *part = &r->f->parts[0];
    struct hk_header *h = &r->f->header;
    if (part->size < ST_LENGTH_SIZE)
        return fail_reading(r, HK_E_FORMAT, 0, "not a safetensors file");
    uint64_t n = le64(part->map);
    if (n > ST_MAX_HEADER)
        return fail_reading(r, HK_E_RANGE, 0, "a header of %llu bytes, the limit is %d",
                            (unsigned long long)n, ST_MAX_HEADER);
    if (n > part->size - ST_LENGTH_SIZE && !r->cut)
        return fail_reading(
            r, HK_E_RANGE, 0, "a header of %llu bytes does not fit the %llu that follow",
            (unsigned long long)n, (unsigned long long)(part->size - ST_LENGTH_SIZE));
    h->split_count = 1;
    h->tensor_toc_offset = ST_LENGTH_SIZE;
    h->tensor_toc_size = n;
    h->tensor_data_offset = ST_LENGTH_SIZE + n;
    const uint64_t left = part->size - ST_LENGTH_SIZE;
    r->j.text = (struct hk_bytes){part->map + ST_LENGTH_SIZE, (size_t)(n < left ? n : left)};
    return true;
}

static bool read_header_entries(struct reader *r)
{
    if (!expect_token(r, HK_JSON_OBJECT, "the header is no JSON object"))
        return false;
    for (bool end = false;;) {
        if (!read_key_or_end(r, &end))
            return false;
        if (end)
            return expect_token(r, HK_JSON_END, "");
        if (!(hk_json_is(&r->j, "__metadata__") ? read_safetensors_metadata(r)
                                                : read_tensor_entry(r)))
            return false;
    }
}

/* Empty tensors lie before one that begins where they do. */
static int compare_data_places(const void *pa, const void *pb)
{
    const struct hk_tensor *a = pa, *b = pb;
    if (a->data_offset != b->data_offset)
        return a->data_offset < b->data_offset ? -1 : 1;
    if (a->data_size != b->data_size)
        return a->data_size < b->data_size ? -1 : 1;
    int c = memcmp(a->name.p, b->name.p, a->name.n < b->name.n ? a->name.n : b->name.n);
    if (c != 0 || a->name.n != b->name.n)
        return c != 0 ? c : a->name.n < b->name.n ? -1 : 1;
    return a->entry_offset < b->entry_offset ? -1 : a->entry_offset > b->entry_offset;
}

static bool check_data_covered(struct reader *r)
{
    struct hk_file *f = r->f;
    uint64_t at = f->header.tensor_data_offset;
    if (f->tensor_count > 0)
        qsort(f->tensors, f->tensor_count, sizeof *f->tensors, compare_data_places);
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        r->kind = "tensor";
        r->name = t->name;
        if (t->data_offset < at)
            return fail_reading(r, HK_E_FORMAT, t->entry_offset,
                                "its bytes overlap those of '%.*s'", HK_STR(t[-1].name));
        if (t->data_offset > at)
            return fail_reading(r, HK_E_FORMAT, t->entry_offset,
                                "a hole of %llu bytes lies before it",
                                (unsigned long long)(t->data_offset - at));
        at += t->data_size;
    }
    r->kind = NULL;
    if (r->cut)
        return true;
    uint64_t rest = f->parts[0].size - at;
    if (hk_starts_model(f->parts[0].map + at, rest))
        return fail_reading(r, HK_E_FORMAT, at, HK_SEVERAL_FILES);
    return rest == 0 || fail_reading(r, HK_E_FORMAT, at, "%llu bytes follow the last tensor",
                                     (unsigned long long)rest);
}

static void note_counts(struct hk_file *f)
{
    f->header.tensor_count = f->tensor_count;
    f->header.metadata_kv_count = f->kv_count;
}

static enum hk_status parse_whole_header(struct reader *r)
{
    struct hk_file *f = r->f;
    if (!read_header_entries(r) || !check_data_covered(r))
        return r->status;
    note_counts(f);
    return r->has_types ? hk_apply_metadata_types(f, r->types, r->types_at, r->err) : HK_OK;
}

enum hk_status hk_parse_safetensors(struct hk_file *f, struct hk_error *err)
{
    struct reader r = {.f = f, .err = err};
    f->format = HK_FORMAT_SAFETENSORS;
    return read_header_length(&r) ? parse_whole_header(&r) : r.status;
}

enum hk_status hk_parse_safetensors_cut(struct hk_file *f, bool *whole, struct hk_error *err)
{
    struct reader r = {.f = f, .err = err, .cut = true};
    f->format = HK_FORMAT_SAFETENSORS;
    if (!read_header_length(&r))
        return r.status;
    *whole = r.j.text.n == f->header.tensor_toc_size;
    if (*whole)
        return parse_whole_header(&r);
    if (!read_header_entries(&r) && r.status == HK_E_NOMEM)
        return r.status;
    note_counts(f); /* of JSON that ends anywhere */
    if (f->tensor_count + f->kv_count == 0)
        return hk_fail(err, HK_E_RANGE, f->parts[0].size, "nothing of the header is there");
    return HK_OK;
}
