/* The streaming writer of .hk: everything is described first, then header, metadata and table are
 * written at once and payload bytes follow in order, so that the output may be a pipe and memory
 * holds descriptions only. */
#include <stdlib.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/base/out.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/tensor/geometry.h"

struct pair {
    struct hk_bytes key, value;
    enum hk_meta_type type;
    bool dropped; /* replaced by a later one */
};

struct entry {
    struct hk_tensor t;
    size_t shared; /* index of the tensor that a shared_ref shares */
};

enum { SECTIONS = 3 };

struct hk_writer {
    struct hk_writer_options opt;
    struct hk_arena arena;
    struct pair *pairs;
    size_t pair_count, pair_room;
    struct entry *entries;
    size_t entry_count, entry_room;
    struct hk_header header;
    struct hk_out *out; /* set by hk_writer_begin() */
    uint64_t base;      /* of OUT when we began */
    uint64_t size;      /* of the whole file */
    size_t at;     /* section being filled: SECTIONS * tensor + section; the appendix is the last */
    uint64_t left; /* bytes missing from it */
};

static bool power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

enum hk_status hk_writer_new(struct hk_writer **out, const struct hk_writer_options *opt,
                             struct hk_error *err)
{
    struct hk_writer_options o;
    enum hk_status st = hk_read_options(&o, sizeof o, opt, err);
    if (st != HK_OK)
        return st;
    o.alignment = o.alignment == 0 ? 128 : o.alignment;
    o.split_count = o.split_count == 0 ? 1 : o.split_count;
    o.flags &= HK_FLAG_HAS_QUANT_TABLE | HK_FLAG_SPARSITY_2_4 | HK_FLAG_RAW_WEIGHT_STORAGE;
    if (!power_of_two(o.alignment) || o.alignment > HK_MAX_ALIGNMENT)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "alignment %u is no power of two up to %d",
                       o.alignment, HK_MAX_ALIGNMENT);
    if (o.split_index >= o.split_count)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "shard %u of %u", o.split_index, o.split_count);
    struct hk_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return hk_fail_nomem(err);
    w->opt = o;
    *out = w;
    return HK_OK;
}

void hk_writer_free(struct hk_writer **writer)
{
    struct hk_writer *w = *writer;
    if (w == NULL)
        return;
    hk_arena_free(&w->arena);
    free(w->pairs);
    free(w->entries);
    free(w);
    *writer = NULL;
}

/* ---- describing ---- */

static enum hk_status append_pair(struct hk_writer *w, struct hk_bytes key, enum hk_meta_type type,
                                  struct hk_bytes value, struct hk_error *err)
{
    struct pair pair = {.type = type};
    if (!hk_grow(&w->pairs, &w->pair_room, w->pair_count + 1, sizeof *w->pairs))
        return hk_fail_nomem(err);
    if (!hk_arena_keep(&w->arena, key, &pair.key) || !hk_arena_keep(&w->arena, value, &pair.value))
        return hk_fail_nomem(err);
    w->pairs[w->pair_count++] = pair;
    return HK_OK;
}

enum hk_status hk_writer_set(struct hk_writer *w, struct hk_bytes key, enum hk_meta_type type,
                             struct hk_bytes value, struct hk_error *err)
{
    size_t fixed = hk_meta_fixed_size(type);
    if (w->out != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "metadata after the table was written");
    if (key.n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "empty metadata key");
    if (key.n > UINT16_MAX || value.n > UINT32_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "key %.*s: key of %zu or value of %zu bytes is too long for .hk",
                       HK_STR(key), key.n, value.n);
    if (hk_meta_type_name(type) == NULL || (fixed != 0 && value.n != fixed))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "key %.*s: value of %zu bytes for type %d",
                       HK_STR(key), value.n, (int)type);
    if (hk_bytes_are(key, "hk.alignment"))
        return HK_OK;
    return append_pair(w, key, type, value, err);
}

static enum hk_status check_shared_tensor(const struct hk_writer *w, const struct hk_tensor *t,
                                          size_t shared, struct hk_error *err)
{
    const struct hk_tensor *target = shared < w->entry_count ? &w->entries[shared].t : NULL;
    if (target == NULL || target->type == HK_TYPE_SHARED_REF || target->type == HK_TYPE_NULL_REF)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "tensor %.*s shares no earlier tensor",
                       HK_STR(t->name));
    if (hk_tensor_elems(target) != hk_tensor_elems(t))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tensor %.*s shares a tensor of another number of elements",
                       HK_STR(t->name));
    return HK_OK;
}

static enum hk_status check_new_tensor(const struct hk_writer *w, const struct hk_tensor *t,
                                       size_t shared, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_geometry g;
    if (w->out != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "tensor after the table was written");
    if (t->name.n == 0 || t->name.n > HK_MAX_NAME)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "tensor %.*s: name of %zu bytes; .hk allows 1 to %d", HK_STR(t->name),
                       t->name.n, HK_MAX_NAME);
    if (t->type > UINT8_MAX || hk_type_info(t->type) == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tensor %.*s: .hk has no storage type %s", HK_STR(t->name),
                       hk_type_info(t->type) != NULL ? hk_type_info(t->type)->name
                                                     : "of that number");
    if (t->ndim > HK_MAX_DIMS)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "tensor %.*s: %u dimensions", HK_STR(t->name),
                       t->ndim);
    if (!hk_geometry(t, w->entry_count, &reporter, &g))
        return capture.status != HK_OK ? capture.status : HK_E_FORMAT;
    return t->type == HK_TYPE_SHARED_REF ? check_shared_tensor(w, t, shared, err) : HK_OK;
}

enum hk_status hk_writer_add(struct hk_writer *w, const struct hk_tensor *t, size_t shared,
                             struct hk_error *err)
{
    enum hk_status st = check_new_tensor(w, t, shared, err);
    if (st != HK_OK)
        return st;
    struct entry e = {.t = *t, .shared = shared};
    if (!hk_grow(&w->entries, &w->entry_room, w->entry_count + 1, sizeof *w->entries))
        return hk_fail_nomem(err);
    if (!hk_arena_keep(&w->arena, t->name, &e.t.name))
        return hk_fail_nomem(err);
    e.t.block_size = t->block_size == 0 ? 32 : t->block_size;
    w->entries[w->entry_count++] = e;
    return HK_OK;
}

/* ---- layout ---- */

static struct hk_bytes pair_name_at(const void *table, size_t i)
{
    return ((const struct pair *)table)[i].key;
}

static struct hk_bytes entry_name_at(const void *table, size_t i)
{
    return ((const struct entry *)table)[i].t.name;
}

static void replace_pair(void *arg, size_t i, size_t first)
{
    struct hk_writer *w = arg;
    w->pairs[first].type = w->pairs[i].type;
    w->pairs[first].value = w->pairs[i].value;
    w->pairs[i].dropped = true;
}

static void note_duplicate(void *arg, size_t i, size_t first)
{
    (void)first;
    *(size_t *)arg = i;
}

static enum hk_status settle_new_names(struct hk_writer *w, struct hk_error *err)
{
    struct hk_index x = {0};
    size_t again = SIZE_MAX;
    if (!hk_index_build(&x, w->pairs, w->pair_count, pair_name_at, replace_pair, w))
        return hk_fail_nomem(err);
    hk_index_free(&x);
    if (!hk_index_build(&x, w->entries, w->entry_count, entry_name_at, note_duplicate, &again))
        return hk_fail_nomem(err);
    hk_index_free(&x);
    if (again != SIZE_MAX)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "tensor %.*s occurs twice",
                       HK_STR(w->entries[again].t.name));
    return HK_OK;
}

static void measure_head(struct hk_writer *w)
{
    struct hk_header *h = &w->header;
    for (size_t i = 0; i < w->pair_count; i++) {
        if (w->pairs[i].dropped)
            continue;
        h->metadata_kv_count++;
        h->metadata_size += HK_KV_FIXED + w->pairs[i].key.n + w->pairs[i].value.n;
    }
    for (size_t i = 0; i < w->entry_count; i++)
        h->tensor_toc_size +=
            HK_ENTRY_FIXED + w->entries[i].t.name.n + 8 * (uint64_t)w->entries[i].t.ndim;
    h->metadata_offset = HK_HEADER_SIZE;
    h->tensor_toc_offset = h->metadata_offset + h->metadata_size;
    h->tensor_count = w->entry_count;
}

/* Place one section behind *END; sections of no bytes have no offset. */
static bool place_section(uint64_t *end, uint64_t alignment, uint64_t size, uint64_t *offset)
{
    *offset = 0;
    if (size == 0)
        return true;
    return align_ok(*end, alignment, offset) && add_ok(*offset, size, end);
}

static bool place_entry(struct hk_writer *w, struct entry *e, uint64_t *end)
{
    struct hk_tensor *t = &e->t;
    if (t->type == HK_TYPE_SHARED_REF) {
        const struct hk_tensor *target = &w->entries[e->shared].t;
        t->data_offset = target->data_offset;
        t->data_size = target->data_size;
        t->scale_offset = target->scale_offset;
        t->scale_size = target->scale_size;
        t->residual_offset = t->residual_size = 0;
        return true;
    }
    uint64_t alignment = w->opt.alignment;
    return place_section(end, alignment, t->data_size, &t->data_offset) &&
           place_section(end, alignment, t->scale_size, &t->scale_offset) &&
           place_section(end, alignment, t->residual_size, &t->residual_offset);
}

/* Bytes of all sections; UINT64_MAX where they are too many. */
static uint64_t weights_size(const struct hk_writer *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->entry_count; i++) {
        const struct hk_tensor *t = &w->entries[i].t;
        if (t->type != HK_TYPE_SHARED_REF &&
            (!add_ok(sum, t->data_size, &sum) || !add_ok(sum, t->scale_size, &sum) ||
             !add_ok(sum, t->residual_size, &sum)))
            return UINT64_MAX;
    }
    return sum;
}

/* Bytes behind the table in which metadata can grow once records stand behind the payloads. */
static uint64_t head_room(const struct hk_writer *w)
{
    enum { SMALL_WEIGHTS = 1 << 20, ROOM = 64 << 10, SMALL_ROOM = 4 << 10 };
    if (w->opt.room == HK_NO_ROOM)
        return 0;
    if (w->opt.room != 0)
        return w->opt.room;
    if (w->entry_count == 0)
        return 0;
    return weights_size(w) < SMALL_WEIGHTS ? SMALL_ROOM : ROOM;
}

static enum hk_status lay_out_file(struct hk_writer *w, struct hk_error *err)
{
    struct hk_header *h = &w->header;
    uint64_t head = h->tensor_toc_offset + h->tensor_toc_size;
    bool good = add_ok(head, head_room(w), &head) &&
                align_ok(head, w->opt.alignment, &h->tensor_data_offset);
    uint64_t end = h->tensor_data_offset;
    for (size_t i = 0; good && i < w->entry_count; i++)
        good = place_entry(w, &w->entries[i], &end);
    if (good && w->opt.appendix_size > 0)
        good = align_ok(end, 8, &h->appendix_offset) &&
               add_ok(h->appendix_offset, w->opt.appendix_size, &end);
    w->size = end;
    return good && end <= INT64_MAX
               ? HK_OK
               : hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the file would be too large");
}

static void fill_new_header(struct hk_writer *w)
{
    struct hk_header *h = &w->header;
    h->version_major = 1;
    h->alignment = w->opt.alignment > 32768 ? 32768 : w->opt.alignment;
    h->split_index = w->opt.split_index;
    h->split_count = w->opt.split_count;
    h->flags = hk_flags_of(h) | w->opt.flags;
}

/* ---- the head ---- */

static enum hk_status write_pair(struct hk_writer *w, const struct pair *pair, struct hk_error *err)
{
    uint8_t fixed[5], key_len[2];
    put16(key_len, (uint16_t)pair->key.n);
    fixed[0] = (uint8_t)pair->type;
    put32(fixed + 1, (uint32_t)pair->value.n);
    const struct hk_bytes pieces[] = {{key_len, 2}, pair->key, {fixed, 5}, pair->value};
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < 4; i++)
        st = hk_out_write(w->out, pieces[i].p, pieces[i].n, err);
    return st;
}

static enum hk_status write_entry(struct hk_writer *w, const struct hk_tensor *t,
                                  struct hk_error *err)
{
    uint8_t raw[HK_ENTRY_FIXED + HK_MAX_NAME + 8 * HK_MAX_DIMS], *p = raw;
    put16(p, (uint16_t)t->name.n);
    memcpy(p + 2, t->name.p, t->name.n);
    p += 2 + t->name.n;
    p[0] = (uint8_t)t->type;
    p[1] = t->layout;
    p[2] = t->sparsity;
    p[3] = t->ndim;
    p += 4;
    for (unsigned i = 0; i < t->ndim; i++, p += 8)
        put64(p, t->shape[i]);
    put64(p, t->data_offset);
    put64(p + 8, t->data_size);
    put64(p + 16, t->residual_offset);
    put64(p + 24, t->residual_size);
    put64(p + 32, t->scale_offset);
    put64(p + 40, t->scale_size);
    put16(p + 48, t->block_size);
    put_f32(p + 50, t->sparsity_ratio);
    return hk_out_write(w->out, raw, (size_t)(p + 54 - raw), err);
}

/* Zeros up to OFFSET of the file. */
static enum hk_status pad_output_to(struct hk_writer *w, uint64_t offset, struct hk_error *err)
{
    static const uint8_t zeros[4096];
    enum hk_status st = HK_OK;
    uint64_t at = hk_out_offset(w->out) - w->base;
    while (st == HK_OK && at < offset) {
        uint64_t n = offset - at < sizeof zeros ? offset - at : sizeof zeros;
        st = hk_out_write(w->out, zeros, (size_t)n, err);
        at += n;
    }
    return st;
}

static enum hk_status write_head(struct hk_writer *w, struct hk_error *err)
{
    uint8_t raw[HK_HEADER_SIZE];
    hk_encode_header(&w->header, raw);
    enum hk_status st = hk_out_write(w->out, raw, sizeof raw, err);
    for (size_t i = 0; st == HK_OK && i < w->pair_count; i++)
        if (!w->pairs[i].dropped)
            st = write_pair(w, &w->pairs[i], err);
    for (size_t i = 0; st == HK_OK && i < w->entry_count; i++)
        st = write_entry(w, &w->entries[i].t, err);
    return st != HK_OK ? st : pad_output_to(w, w->header.tensor_data_offset, err);
}

enum hk_status hk_writer_begin(struct hk_writer *w, struct hk_out *out, struct hk_error *err)
{
    static const char key[] = "hk.alignment";
    uint8_t value[8];
    put64(value, w->opt.alignment);
    enum hk_status st = HK_OK;
    if (w->opt.alignment > 32768) /* does not fit the header's u16 */
        st = append_pair(w, (struct hk_bytes){(const uint8_t *)key, sizeof key - 1}, HK_META_INT64,
                         (struct hk_bytes){value, sizeof value}, err);
    if (st == HK_OK)
        st = settle_new_names(w, err);
    if (st != HK_OK)
        return st;
    measure_head(w);
    st = lay_out_file(w, err);
    if (st == HK_OK)
        st = hk_out_expect(out, w->size, err);
    if (st != HK_OK)
        return st;
    fill_new_header(w);
    w->out = out;
    w->base = hk_out_offset(out);
    w->at = SIZE_MAX; /* no section yet: next_section() steps to the first */
    return write_head(w, err);
}

uint64_t hk_writer_size(const struct hk_writer *w)
{
    return w->size;
}

/* ---- payloads ---- */

/* Offset and size of section number AT. */
static void section_at(const struct hk_writer *w, size_t at, uint64_t *offset, uint64_t *size)
{
    *offset = *size = 0;
    if (at == SECTIONS * w->entry_count) {
        *offset = w->header.appendix_offset;
        *size = w->opt.appendix_size;
        return;
    }
    const struct hk_tensor *t = &w->entries[at / SECTIONS].t;
    if (t->type == HK_TYPE_SHARED_REF)
        return;
    const uint64_t offsets[] = {t->data_offset, t->scale_offset, t->residual_offset};
    const uint64_t sizes[] = {t->data_size, t->scale_size, t->residual_size};
    *offset = offsets[at % SECTIONS];
    *size = sizes[at % SECTIONS];
}

/* Step to the next section that has bytes; false past the last. */
static bool next_section(struct hk_writer *w, uint64_t *offset)
{
    while (w->at == SIZE_MAX || w->at < SECTIONS * w->entry_count) {
        w->at++;
        section_at(w, w->at, offset, &w->left);
        if (w->left > 0)
            return true;
    }
    return false;
}

/* Make the section of the next N bytes current and account for them. */
static enum hk_status claim_payload(struct hk_writer *w, uint64_t n, struct hk_error *err)
{
    if (w->out == NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "payload before hk_writer_begin()");
    if (w->left == 0) {
        uint64_t offset;
        if (!next_section(w, &offset))
            return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "more payload than was described");
        enum hk_status st = pad_output_to(w, offset, err);
        if (st != HK_OK)
            return st;
    }
    if (n > w->left)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "payload runs over the end of its section");
    w->left -= n;
    return HK_OK;
}

enum hk_status hk_writer_put(struct hk_writer *w, const void *p, size_t n, struct hk_error *err)
{
    if (n == 0)
        return HK_OK;
    enum hk_status st = claim_payload(w, n, err);
    return st != HK_OK ? st : hk_out_write(w->out, p, n, err);
}

enum hk_status hk_writer_copy(struct hk_writer *w, int fd, uint64_t offset, uint64_t n,
                              struct hk_error *err)
{
    if (n == 0)
        return HK_OK;
    enum hk_status st = claim_payload(w, n, err);
    return st != HK_OK ? st : hk_out_copy(w->out, fd, offset, n, err);
}

enum hk_status hk_writer_finish(struct hk_writer *w, struct hk_error *err)
{
    uint64_t offset;
    if (w->out == NULL || w->left > 0 || next_section(w, &offset))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "payload bytes are missing");
    return HK_OK;
}
