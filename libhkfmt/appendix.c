/* Appendix records (format section 8), back to back from appendix_offset. A torn tail ends the list
 * and is reported; what stands before it stays readable. */
#include <stdlib.h>

#include "libhkfmt/cursor.h"
#include "libhkfmt/edit.h"
#include "libhkfmt/wire.h"

static void decode(const uint8_t *p, struct hk_record *r)
{
    r->type = p[0];
    r->flags = p[1];
    r->name.n = le16(p + 2);
    r->generation = le32(p + 4);
    r->timestamp = le64(p + 8);
    memcpy(r->parent_hash, p + 16, sizeof r->parent_hash);
    for (size_t i = 0; i < 4; i++)
        r->metrics[i] = le32(p + 48 + 4 * i);
    r->target.n = le16(p + 64);
    r->reserved = le16(p + 66);
    r->data_crc32 = le32(p + 68);
    r->data_size = le64(p + 72);
}

static bool take_record(struct cursor *c, struct hk_record *r)
{
    r->offset = c->at;
    const uint8_t *p = cursor_take(c, HK_RECORD_HEADER_SIZE);
    if (p == NULL)
        return false;
    decode(p, r);
    r->name.p = cursor_take(c, r->name.n);
    r->target.p = r->name.p == NULL ? NULL : cursor_take(c, r->target.n);
    if (r->target.p == NULL)
        return false;
    r->data_offset = c->at;
    return cursor_take(c, r->data_size) != NULL;
}

static void check_record(const struct hk_scan *s, const struct hk_record *r, size_t i)
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
static void take_padding(const struct hk_scan *s, struct cursor *c, const struct hk_record *r,
                         size_t i)
{
    uint64_t want = (8 - c->at % 8) % 8, left = cursor_left(c);
    uint64_t n = want < left ? want : left;
    struct hk_where w = {c->at, HK_SUBJECT_RECORD, r->name, i};
    const uint8_t *p = cursor_take(c, n);
    if (n < want || !hk_all_zero(p, n))
        hk_report(s->r, HK_FAULT_RECORD_PADDING, &w, "record %zu: %s", i,
                  n < want ? "the file ends inside its padding" : "padding is not zero");
}

static enum hk_status room_for(struct hk_file *f, size_t *capacity, struct hk_error *err)
{
    if (f->record_count < *capacity)
        return HK_OK;
    size_t more = *capacity == 0 ? 16 : 2 * *capacity;
    struct hk_record *grown = reallocarray(f->records, more, sizeof *grown);
    if (grown == NULL)
        return hk_fail_nomem(err);
    f->records = grown;
    *capacity = more;
    return HK_OK;
}

static void report_torn(const struct hk_scan *s, const struct cursor *c, size_t i)
{
    uint64_t left = cursor_left(c);
    bool zeros = hk_all_zero(s->map + c->at, left < HK_RECORD_FIRST ? left : HK_RECORD_FIRST);
    struct hk_where w = {.offset = c->at, .subject = HK_SUBJECT_RECORD, .index = i};
    if (left >= HK_STAGING_SIZE && hk_is_staging(s->map + c->at, left))
        hk_report(s->r, HK_FAULT_RECORD_TORN, &w,
                  "%llu bytes of an interrupted metadata edit, which the next one removes",
                  (unsigned long long)left);
    else if (left < HK_RECORD_HEADER_SIZE)
        hk_report(s->r, HK_FAULT_TRAILING, &w, "%llu bytes after the last record are no record",
                  (unsigned long long)left);
    else if (zeros)
        hk_report(s->r, HK_FAULT_RECORD_TORN, &w,
                  "record %zu: its header was never written (an interrupted append)", i);
    else
        hk_report(s->r, HK_FAULT_RECORD_TORN, &w,
                  "record %zu ends past the %llu bytes that are left", i, (unsigned long long)left);
}

enum hk_status hk_scan_appendix(struct hk_scan *s, struct hk_error *err)
{
    struct hk_file *f = s->f;
    uint64_t start = f->header.appendix_offset;
    if (start == 0 || start >= s->size)
        return HK_OK; /* at or past the end: no records, as a rollback may leave it */
    if (start % 8 != 0 || start < HK_HEADER_SIZE)
        hk_report(s->r, HK_FAULT_APPENDIX_OFFSET, hk_at(HK_AT_APPENDIX_OFFSET),
                  "appendix_offset %llu is no place for a record", (unsigned long long)start);
    struct cursor c = {s->map, start, s->appendix_end};
    size_t capacity = 0;
    while (cursor_left(&c) > 0) {
        struct cursor before = c;
        struct hk_record r = {0};
        bool zeros =
            cursor_left(&c) >= HK_RECORD_FIRST && hk_all_zero(s->map + c.at, HK_RECORD_FIRST);
        if (zeros || !take_record(&c, &r)) {
            report_torn(s, &before, f->record_count);
            return HK_OK;
        }
        enum hk_status status = room_for(f, &capacity, err);
        if (status != HK_OK)
            return status;
        size_t i = f->record_count++;
        f->records[i] = r;
        check_record(s, &f->records[i], i);
        take_padding(s, &c, &f->records[i], i);
    }
    return HK_OK;
}
