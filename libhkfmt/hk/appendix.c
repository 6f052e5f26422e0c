/* Appendix records (format section 8), back to back from appendix_offset. A torn tail ends the list
 * and is reported; what stands before it stays readable. */
#include <stdlib.h>

#include "libhkfmt/base/bytes.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

/* Records are read with what precedes and follows their headers in one piece: padding, names. */
struct walk {
    const struct hk_scan *s;
    uint64_t at, end;
    uint64_t piece_at;
    size_t piece_n;
    uint8_t piece[512];
    enum hk_status st; /* why there is no piece */
    struct hk_error *err;
};

static uint64_t walk_left(const struct walk *w)
{
    return w->end - w->at;
}

/* The next N bytes, of which so many are left; NULL: they cannot be read. */
static const uint8_t *walk_look(struct walk *w, size_t n)
{
    if (w->at < w->piece_at || w->at - w->piece_at + n > w->piece_n) {
        w->piece_n = walk_left(w) < sizeof w->piece ? (size_t)walk_left(w) : sizeof w->piece;
        w->piece_at = w->at;
        w->st = hk_source_read(w->s->src, w->piece, w->piece_n, w->at, w->err);
    }
    return w->st == HK_OK ? w->piece + (w->at - w->piece_at) : NULL;
}

/* Name and target, which follow each other, to memory of the file's. */
static bool take_record_names(struct walk *w, struct hk_record *r)
{
    const size_t n = r->name.n + r->target.n;
    uint8_t *copy = hk_arena_alloc(&w->s->f->arena, n);
    if (copy == NULL) {
        w->st = hk_fail_nomem(w->err);
        return false;
    }
    const uint8_t *p = n <= sizeof w->piece ? walk_look(w, n) : NULL;
    if (p != NULL)
        memcpy(copy, p, n);
    else if (w->st == HK_OK)
        w->st = hk_source_read(w->s->src, copy, n, w->at, w->err);
    w->at += n;
    r->name.p = copy;
    r->target.p = copy + r->name.n;
    return w->st == HK_OK;
}

/* False where there is none, or with w->st where it cannot be read. */
static bool take_record(struct walk *w, struct hk_record *r)
{
    const uint64_t left = walk_left(w);
    const uint8_t *p = left < HK_RECORD_HEADER_SIZE ? NULL : walk_look(w, HK_RECORD_HEADER_SIZE);
    if (p == NULL || hk_all_zero(p, HK_RECORD_FIRST))
        return false;
    r->offset = w->at;
    hk_decode_record(p, r);
    const uint64_t head = HK_RECORD_HEADER_SIZE + r->name.n + r->target.n;
    if (head > left || r->data_size > left - head)
        return false;
    w->at += HK_RECORD_HEADER_SIZE;
    if (!take_record_names(w, r))
        return false;
    r->data_offset = w->at;
    w->at += r->data_size;
    return true;
}

static void check_stored_record(const struct hk_scan *s, const struct hk_record *r, size_t i)
{
    struct hk_where w = {r->offset, HK_SUBJECT_RECORD, r->name, i};
    if (hk_record_type_name(r->type) == NULL)
        hk_report(s->r, HK_FAULT_RECORD_TYPE, &w, "record %zu: unknown type 0x%02x", i, r->type);
    if ((r->flags & ~(HK_RECORD_ACTIVE | HK_RECORD_COMPRESSED)) != 0)
        hk_report(s->r, HK_FAULT_FLAGS, &w, "record %zu: unknown flags 0x%02x", i, r->flags);
    if (r->reserved != 0)
        hk_report(s->r, HK_FAULT_RESERVED, &w, "record %zu: reserved field is 0x%04x, not 0", i,
                  r->reserved);
    if (i > 0 && r->generation < r[-1].generation)
        hk_report(s->r, HK_FAULT_GENERATION, &w, "record %zu: generation %u follows %u", i,
                  r->generation, r[-1].generation);
}

/* Step over the zeros up to the next multiple of 8. */
static void take_record_padding(struct walk *w, const struct hk_record *r, size_t i)
{
    const size_t want = (size_t)(-w->at % 8);
    const size_t n = want < walk_left(w) ? want : (size_t)walk_left(w);
    struct hk_where where = {w->at, HK_SUBJECT_RECORD, r->name, i};
    const uint8_t *p = n == 0 ? NULL : walk_look(w, n);
    w->at += n;
    if (n < want || (p != NULL && !hk_all_zero(p, n)))
        hk_report(w->s->r, HK_FAULT_RECORD_PADDING, &where, "record %zu: %s", i,
                  n < want ? "the file ends inside its padding" : "padding is not zero");
}

/* Nothing is torn that a writer is writing just now. */
static void report_torn_record(struct walk *w, size_t i)
{
    const struct hk_scan *s = w->s;
    uint64_t left = walk_left(w);
    struct hk_where where = {.offset = w->at, .subject = HK_SUBJECT_RECORD, .index = i};
    size_t first = left < HK_RECORD_HEADER_SIZE ? (size_t)left : HK_RECORD_HEADER_SIZE;
    const uint8_t *p = walk_look(w, first);
    if (p == NULL || hk_has_writer(s->src->fd))
        return;
    if (left >= HK_STAGING_SIZE && hk_is_staging(p, first))
        hk_report(s->r, HK_FAULT_RECORD_TORN, &where,
                  "%llu bytes of an interrupted metadata edit, which the next one removes",
                  (unsigned long long)left);
    else if (left < HK_RECORD_HEADER_SIZE)
        hk_report(s->r, HK_FAULT_TRAILING, &where, "%llu bytes after the last record are no record",
                  (unsigned long long)left);
    else if (hk_all_zero(p, HK_RECORD_FIRST))
        hk_report(s->r, HK_FAULT_RECORD_TORN, &where,
                  "record %zu: its header was never written (an interrupted append)", i);
    else
        hk_report(s->r, HK_FAULT_RECORD_TORN, &where,
                  "record %zu ends past the %llu bytes that are left", i, (unsigned long long)left);
}

/* Another .hk follows the records, which hk_parse() says: its magic is no record's type. */
static bool has_another_file(struct walk *w)
{
    const uint8_t *p = walk_left(w) < HK_HEADER_SIZE ? NULL : walk_look(w, HK_RECORD_FIRST);
    return w->st != HK_OK || (p != NULL && memcmp(p, HK_MAGIC, 4) == 0);
}

static enum hk_status walk_records(struct walk *w)
{
    struct hk_file *f = w->s->f;
    size_t capacity = 0;
    while (walk_left(w) > 0) {
        struct hk_record r = {0};
        if (has_another_file(w))
            return w->st;
        if (!take_record(w, &r)) {
            if (w->st == HK_OK)
                report_torn_record(w, f->record_count);
            return w->st;
        }
        if (!hk_grow(&f->records, &capacity, f->record_count + 1, sizeof *f->records))
            return hk_fail_nomem(w->err);
        size_t i = f->record_count++;
        f->records[i] = r;
        check_stored_record(w->s, &f->records[i], i);
        take_record_padding(w, &f->records[i], i);
        if (w->st != HK_OK)
            return w->st;
    }
    return HK_OK;
}

enum hk_status hk_scan_appendix(struct hk_scan *s, struct hk_error *err)
{
    struct hk_part *part = &s->f->parts[0];
    uint64_t start = s->f->header.appendix_offset;
    if (start == 0 || start >= s->size)
        return HK_OK; /* at or past the end: no records, as a rollback may leave it */
    if (start % 8 != 0 || start < HK_HEADER_SIZE)
        hk_report(s->r, HK_FAULT_APPENDIX_OFFSET, hk_at(HK_AT_APPENDIX_OFFSET),
                  "appendix_offset %llu is no place for a record", (unsigned long long)start);
    if (start >= s->appendix_end)
        return HK_OK;
    struct walk w = {.s = s, .at = start, .end = s->appendix_end, .err = err};
    enum hk_status st = walk_records(&w);
    part->appendix_at = start;
    part->appendix_n = w.at - start;
    return st;
}
