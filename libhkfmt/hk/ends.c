/* Where each part of a .hk ends. */
#include "libhkfmt/hk/ends.h"

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"

/* ---- what an edit left that was broken off ---- */

enum { AT_MARK = 16, AT_BASE = 48, AT_SETTLED = 56, AT_SIZE = 72 };

void hk_staging_head(uint8_t p[HK_STAGING_SIZE], uint64_t base, bool settled)
{
    static const char mark[] = "metadata edit in progress (hk)";
    memset(p, 0, HK_STAGING_SIZE);
    memcpy(p + AT_MARK, mark, sizeof mark);
    put64(p + AT_BASE, base);
    p[AT_SETTLED] = settled;
    put64(p + AT_SIZE, INT64_MAX);
}

bool hk_is_staging(const uint8_t *p, uint64_t n)
{
    uint8_t head[HK_STAGING_SIZE];
    hk_staging_head(head, 0, false);
    return n > 0 && memcmp(p, head, n < AT_BASE ? (size_t)n : AT_BASE) == 0 &&
           (n < sizeof head || memcmp(p + AT_SIZE, head + AT_SIZE, 8) == 0);
}

/* The same of the bytes at AT up to the end of the file. */
static bool is_staging_at(const struct hk_source *src, uint64_t at)
{
    uint8_t head[HK_STAGING_SIZE];
    const uint64_t left = src->size - at;
    const size_t n = left < sizeof head ? (size_t)left : sizeof head;
    return hk_source_read(src, head, n, at, NULL) == HK_OK && hk_is_staging(head, n);
}

/* The head directly before OFFSET, if there is one. */
static bool read_staging_head(const struct hk_source *src, uint64_t offset,
                              uint8_t head[HK_STAGING_SIZE])
{
    return offset >= HK_HEADER_SIZE + HK_STAGING_SIZE && offset <= src->size &&
           hk_source_read(src, head, HK_STAGING_SIZE, offset - HK_STAGING_SIZE, NULL) == HK_OK &&
           hk_is_staging(head, HK_STAGING_SIZE) && le64(head + AT_BASE) <= offset - HK_STAGING_SIZE;
}

uint64_t hk_staging_start(const struct hk_source *src, uint64_t offset)
{
    uint8_t head[HK_STAGING_SIZE];
    return read_staging_head(src, offset, head) ? le64(head + AT_BASE) : offset;
}

bool hk_staged_before(const struct hk_source *src, uint64_t offset)
{
    uint8_t head[HK_STAGING_SIZE];
    return read_staging_head(src, offset, head) && head[AT_SETTLED] == 0;
}

/* ---- ends ---- */

static uint64_t lower_offset(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t higher_offset(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Up to the next multiple of 8, but not past SIZE. */
static uint64_t padded_to_8(uint64_t at, uint64_t size)
{
    return lower_offset(at + (8 - at % 8) % 8, size);
}

struct extent { /* of sections with bytes, inside the file */
    uint64_t first, end, size;
};

static void take_extent(struct extent *e, uint64_t offset, uint64_t size)
{
    if (size == 0 || !range_ok(offset, size, e->size)) /* reported by then */
        return;
    e->first = lower_offset(e->first, offset);
    e->end = higher_offset(e->end, offset + size);
}

static struct extent extent_of_payloads(const struct hk_file *f, uint64_t size)
{
    struct extent e = {UINT64_MAX, 0, size};
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        take_extent(&e, t->data_offset, t->data_size);
        take_extent(&e, t->scale_offset, t->scale_size);
        take_extent(&e, t->residual_offset, t->residual_size);
    }
    return e;
}

static struct extent extent_of_head(const struct hk_file *f, uint64_t size)
{
    struct extent e = {UINT64_MAX, 0, size};
    take_extent(&e, f->header.metadata_offset, f->header.metadata_size);
    take_extent(&e, f->header.tensor_toc_offset, f->header.tensor_toc_size);
    return e;
}

/* End of what is neither head nor record: payloads or, where there are none, what was padded. */
static uint64_t end_of_fixed(const struct hk_file *f, const struct extent *payloads, uint64_t limit)
{
    const uint64_t padding = f->header.tensor_data_offset;
    uint64_t end = higher_offset(HK_HEADER_SIZE, payloads->end);
    return payloads->end == 0 && padding <= limit ? higher_offset(end, padding) : end;
}

static uint64_t end_of_room(const struct hk_file *f, const struct extent *payloads,
                            uint64_t records)
{
    const uint64_t data = f->header.tensor_data_offset;
    uint64_t end = payloads->first;
    if (payloads->end > 0 && data >= HK_HEADER_SIZE)
        end = lower_offset(end, data);
    return records > 0 ? lower_offset(end, records) : end;
}

/* Where the first part of the head behind BASE begins, 0 where there is none. */
static uint64_t start_of_head_behind(const struct hk_file *f, uint64_t base, uint64_t size)
{
    const struct hk_header *h = &f->header;
    struct extent behind = {UINT64_MAX, 0, size};
    if (h->metadata_offset >= base)
        take_extent(&behind, h->metadata_offset, h->metadata_size);
    if (h->tensor_toc_offset >= base)
        take_extent(&behind, h->tensor_toc_offset, h->tensor_toc_size);
    return behind.end > 0 ? behind.first : 0;
}

static uint64_t end_of_records(const struct hk_file *f, uint64_t size)
{
    const struct hk_record *last = &f->records[f->record_count - 1];
    return padded_to_8(last->data_offset + last->data_size, size);
}

static enum hk_tail_kind kind_of_tail(const struct hk_ends *l, const struct hk_source *src)
{
    const uint64_t left = l->size - l->live, mark = padded_to_8(l->live, l->size);
    if (left == 0)
        return HK_TAIL_NONE;
    if (left < 8 + HK_STAGING_SIZE && hk_source_zero(src, left, l->live))
        return left < 8 && l->size % 8 == 0 ? HK_TAIL_PADDING : HK_TAIL_ZEROS;
    bool edit = hk_source_zero(src, mark - l->live, l->live) && is_staging_at(src, mark);
    return edit ? HK_TAIL_EDIT : HK_TAIL_STRAY;
}

struct hk_ends hk_ends_of(const struct hk_file *f, const struct hk_source *src)
{
    const struct extent payloads = extent_of_payloads(f, src->size),
                        head = extent_of_head(f, src->size);
    const bool any = f->record_count > 0;
    struct hk_ends l = {.size = src->size};
    l.records = any ? f->header.appendix_offset : 0;
    const uint64_t limit = any ? l.records : l.size;
    const uint64_t fixed = end_of_fixed(f, &payloads, limit);
    l.room_end = end_of_room(f, &payloads, l.records);
    l.bare = higher_offset(fixed, head.end);
    l.records_end = any ? end_of_records(f, l.size) : 0;
    l.base = any ? higher_offset(l.records_end, fixed) : fixed;
    l.live = higher_offset(l.base, head.end);
    l.head_behind = any && head.end > l.records;
    l.payload_behind = any && payloads.end > l.records;
    l.staged = hk_staged_before(src, start_of_head_behind(f, l.base, l.size));
    l.tail = kind_of_tail(&l, src);
    return l;
}

enum hk_status hk_ends_check(const struct hk_file *f, struct hk_error *err)
{
    const struct hk_ends *l = &f->ends;
    const uint64_t appendix = f->header.appendix_offset;
    if (appendix < l->size && appendix % 8 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_AT_APPENDIX_OFFSET,
                       "appendix_offset %llu is no place for records: it is no multiple of 8",
                       (unsigned long long)appendix);
    if (l->payload_behind)
        return hk_fail(err, HK_E_FORMAT, l->records,
                       "payloads lie behind the appendix records: hk-convert puts them in order");
    return HK_OK;
}

/* ---- another model ---- */

static bool source_has_model(const struct hk_source *src, uint64_t at)
{
    uint8_t p[HK_MODEL_START];
    return at > 0 && at < src->size && src->size - at >= HK_MODEL_START &&
           hk_source_read(src, p, HK_MODEL_START, at, NULL) == HK_OK &&
           hk_starts_model(p, src->size - at);
}

uint64_t hk_next_in_hk(const struct hk_file *f, const struct hk_source *src)
{
    if (source_has_model(src, f->ends.bare))
        return f->ends.bare;
    return source_has_model(src, f->ends.live) ? f->ends.live : 0;
}
