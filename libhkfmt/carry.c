/* The version history of a file that is converted: which bytes of it are records, and whether they
 * go along. */
#include "libhkfmt/convert.h"
#include "libhkfmt/edit.h"
#include "libhkfmt/le.h"
#include "libhkfmt/view.h"
#include "libhkfmt/wire.h"

/* The open file that a view was made from. */
static const struct hk_file *origin_of(const struct hk_file *f)
{
    return f->origin != NULL ? f->origin : f;
}

/* SIZE bytes at OFFSET that are no record: what begins behind START ends the records there. */
static void end_before(uint64_t start, uint64_t *end, uint64_t offset, uint64_t size)
{
    if (size > 0 && offset >= start && offset < *end)
        *end = offset;
}

/* What an interrupted metadata edit left behind the records is none of them, nor is what lies
 * behind that. */
static void end_before_staging(const struct hk_file *f, const uint8_t *map, uint64_t start,
                               uint64_t *end)
{
    uint64_t at = start;
    if (f->record_count > 0) {
        const struct hk_record *last = &f->records[f->record_count - 1];
        at = last->data_offset + last->data_size;
        at += (8 - at % 8) % 8;
    }
    uint64_t first = hk_staging_start(map, *end);
    if (first >= start)
        *end = first;
    if (at < *end && hk_is_staging(map + at, *end - at))
        *end = at;
}

/* Sections may be anywhere: an old metadata edit of the reference put metadata behind the
 * records. */
struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part)
{
    if (f->without_appendix)
        return (struct hk_bytes){0};
    f = origin_of(f);
    const struct hk_part *p = &f->parts[part];
    if (f->format != HK_FORMAT_HK || p->size < HK_HEADER_SIZE)
        return (struct hk_bytes){0};
    const uint8_t *h = p->map;
    uint64_t start = le64(h + HK_AT_APPENDIX_OFFSET), end = p->size;
    end_before(start, &end, le64(h + HK_AT_METADATA_OFFSET), le64(h + HK_AT_METADATA_SIZE));
    end_before(start, &end, le64(h + HK_AT_TOC_OFFSET), le64(h + HK_AT_TOC_SIZE));
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->part != part)
            continue;
        end_before(start, &end, t->data_offset, t->data_size);
        end_before(start, &end, t->scale_offset, t->scale_size);
        end_before(start, &end, t->residual_offset, t->residual_size);
    }
    if (f->part_count == 1)
        end_before_staging(f, p->map, start, &end);
    if (start == 0 || start >= end)
        return (struct hk_bytes){0};
    return (struct hk_bytes){h + start, (size_t)(end - start)};
}

/* ---- whether it goes along ---- */

/* Records are padded to 8 from the beginning of the appendix, and stand in the first shard. */
static enum hk_status check_place(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 1; i < f->part_count; i++)
        if (hk_appendix_bytes(f, i).n > 0)
            return hk_fail(err, HK_E_UNSUPPORTED, HK_AT_APPENDIX_OFFSET,
                           "shard %zu has records, which belong to the first; --no-history leaves "
                           "all records out",
                           i + 1);
    if (f->header.appendix_offset % 8 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_AT_APPENDIX_OFFSET,
                       "appendix_offset %llu is no multiple of 8; --no-history leaves the records "
                       "out",
                       (unsigned long long)f->header.appendix_offset);
    return HK_OK;
}

static bool view_changes_tensors(const struct hk_file *f)
{
    for (size_t i = 0; f->how != NULL && i < f->tensor_count; i++)
        if (f->how[i].made != NULL || f->how[i].decoded || f->how[i].order != HK_ROWS_KEPT)
            return true;
    return false;
}

static enum hk_status check_changes(const struct hk_file *f, const struct hk_convert_options *opt,
                                    struct hk_error *err)
{
    const struct hk_file *origin = origin_of(f);
    const struct hk_record *first = hk_record_at(origin, 0);
    if (!view_changes_tensors(f))
        return HK_OK;
    if (opt->history != HK_HISTORY_KEEP)
        return hk_fail(err, HK_E_UNSUPPORTED, origin->header.appendix_offset,
                       "the appendix of %zu record%s was made for the tensors as they are: "
                       "--no-history leaves it out, --keep-history keeps it",
                       origin->record_count, origin->record_count == 1 ? "" : "s");
    if (first != NULL && !hk_all_zero(first->parent_hash, sizeof first->parent_hash))
        hk_lost(opt, "the first record is bound to the tensors as they were, and this base no "
                     "longer holds");
    return HK_OK;
}

enum hk_status hk_check_history(const struct hk_file *f, enum hk_format to,
                                const struct hk_convert_options *opt, struct hk_error *err)
{
    const struct hk_file *origin = origin_of(f);
    bool any = false;
    for (size_t i = 0; i < f->part_count; i++)
        any = any || hk_appendix_bytes(f, i).n > 0;
    if (!any || opt->history == HK_HISTORY_DROP)
        return HK_OK;
    if (to != HK_FORMAT_HK)
        return hk_fail(err, HK_E_UNSUPPORTED, origin->header.appendix_offset,
                       "%s cannot hold the appendix of %zu record%s; --no-history leaves it out",
                       hk_format_name(to), origin->record_count,
                       origin->record_count == 1 ? "" : "s");
    enum hk_status st = check_place(origin, err);
    return st == HK_OK ? check_changes(f, opt, err) : st;
}
