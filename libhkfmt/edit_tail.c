/* Where a file ends: what stays, what metadata lie behind it, and what an edit that was broken off
 * has left there. */
#include "libhkfmt/edit.h"
#include "libhkfmt/le.h"
#include "libhkfmt/wire.h"

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

uint64_t hk_staging_start(const uint8_t *map, uint64_t offset)
{
    if (offset < HK_HEADER_SIZE + HK_STAGING_SIZE)
        return offset;
    const uint8_t *head = map + offset - HK_STAGING_SIZE;
    uint64_t base = le64(head + AT_BASE);
    return hk_is_staging(head, HK_STAGING_SIZE) && base <= offset - HK_STAGING_SIZE ? base : offset;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void take_section(struct hk_tail *t, uint64_t offset, uint64_t size)
{
    if (size == 0)
        return;
    t->base = most(t->base, offset + size);
    t->limit = least(t->limit, offset);
}

/* Sections and the gap before them; all were checked against the file when it was opened. */
static void take_sections(const struct hk_file *f, struct hk_tail *t)
{
    const struct hk_header *h = &f->header;
    const uint64_t size = f->parts[0].size;
    t->base = HK_HEADER_SIZE;
    t->limit = least(h->tensor_data_offset, size);
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *x = &f->tensors[i];
        take_section(t, x->data_offset, x->data_size);
        take_section(t, x->scale_offset, x->scale_size);
        take_section(t, x->residual_offset, x->residual_size);
    }
    /* The head is padded even where no payload follows. */
    if (h->tensor_data_offset <= size)
        t->base = most(t->base, h->tensor_data_offset);
}

static enum hk_status take_appendix(const struct hk_file *f, struct hk_tail *t,
                                    struct hk_error *err)
{
    const uint64_t start = f->header.appendix_offset, size = f->parts[0].size;
    t->appendix = start != 0;
    if (!t->appendix)
        return HK_OK;
    if (start % 8 != 0 || start < t->base || start > size)
        return hk_fail(err, HK_E_FORMAT, HK_AT_APPENDIX_OFFSET,
                       "appendix_offset %llu is no place for records: %s",
                       (unsigned long long)start,
                       start < t->base ? "sections lie behind it"
                       : start > size  ? "the file ends before"
                                       : "it is no multiple of 8");
    t->limit = least(t->limit, start);
    t->base = start;
    if (f->record_count > 0) {
        const struct hk_record *last = &f->records[f->record_count - 1];
        uint64_t end = last->data_offset + last->data_size;
        t->base = least(end + (8 - end % 8) % 8, size);
    }
    return HK_OK;
}

static uint64_t aligned(uint64_t at, uint64_t size)
{
    return least(at + (8 - at % 8) % 8, size);
}

/* Step over metadata or table at *AT, with padding before them. */
static bool take_live(const struct hk_file *f, uint64_t *at, uint64_t offset, uint64_t size)
{
    const struct hk_part *p = &f->parts[0];
    if (size == 0 || offset < *at || offset > aligned(*at, p->size) ||
        !hk_all_zero(p->map + *at, offset - *at))
        return false;
    *at = offset + size;
    return true;
}

/* Where metadata or table begin behind BASE and behind the head of an edit: what is before them is
 * that edit's, or was what counted until then. Else BASE. */
static uint64_t behind_staging(const struct hk_file *f, uint64_t base)
{
    const struct hk_header *h = &f->header;
    uint64_t start = h->metadata_size > 0 ? h->metadata_offset : h->tensor_toc_offset;
    bool inside = start > base && start <= f->parts[0].size;
    return inside && hk_staging_start(f->parts[0].map, start) == base ? start : base;
}

/* Whether what counts is still where it was staged. */
static bool is_staged(const struct hk_file *f, uint64_t base)
{
    uint64_t start = behind_staging(f, base);
    return start != base && f->parts[0].map[start - HK_STAGING_SIZE + AT_SETTLED] == 0;
}

/* Every byte behind BASE is accounted for: metadata and table, with what an edit has written before
 * or behind them. */
static enum hk_status account(const struct hk_file *f, struct hk_tail *t, struct hk_error *err)
{
    const struct hk_part *p = &f->parts[0];
    const struct hk_header *h = &f->header;
    uint64_t at = behind_staging(f, t->base);
    while (take_live(f, &at, h->metadata_offset, h->metadata_size) ||
           take_live(f, &at, h->tensor_toc_offset, h->tensor_toc_size))
        continue;
    uint64_t left = p->size - at, start = aligned(at, p->size);
    bool zeros = left < 8 + HK_STAGING_SIZE && hk_all_zero(p->map + at, left);
    /* What a rollback leaves of padding is not ours to take away. */
    if (zeros && left < 8 && at == t->base)
        t->keep = p->size;
    if (zeros ||
        (hk_all_zero(p->map + at, start - at) && hk_is_staging(p->map + start, p->size - start)))
        return HK_OK;
    return hk_fail(err, HK_E_FORMAT, at,
                   "%llu bytes at the end of the file belong to nothing and would be lost (a torn "
                   "append?)",
                   (unsigned long long)left);
}

enum hk_status hk_find_tail(const struct hk_file *f, struct hk_tail *out, struct hk_error *err)
{
    const struct hk_header *h = &f->header;
    struct hk_tail t = {0};
    take_sections(f, &t);
    enum hk_status status = take_appendix(f, &t, err);
    if (status != HK_OK)
        return status;
    t.keep = t.base;
    status = account(f, &t, err);
    if (status != HK_OK)
        return status;
    uint64_t behind = most(h->metadata_size > 0 ? h->metadata_offset + h->metadata_size : 0,
                           h->tensor_toc_size > 0 ? h->tensor_toc_offset + h->tensor_toc_size : 0);
    t.live = most(t.keep, behind);
    t.untidy = f->parts[0].size > t.live || (t.appendix && behind > t.base) || is_staged(f, t.base);
    *out = t;
    return HK_OK;
}
