/* The version history of a file that is converted: which bytes of it are records, and whether they
 * go along. */
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/convert.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"

/* The open file that a view was made from. */
static const struct hk_file *origin_of(const struct hk_file *f)
{
    return f->origin != NULL ? f->origin : f;
}

struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part)
{
    if (f->without_appendix)
        return (struct hk_bytes){0};
    f = origin_of(f);
    const struct hk_part *p = &f->parts[part];
    if (f->format != HK_FORMAT_HK || p->appendix_n == 0)
        return (struct hk_bytes){0};
    return (struct hk_bytes){p->map + p->appendix_at, (size_t)p->appendix_n};
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
