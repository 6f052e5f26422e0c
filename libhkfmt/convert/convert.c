/* hk_convert(): everything of a file into a new one of the same or another format, its version
 * history too. */

#include "libhkfmt/convert/convert.h"
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/base/error.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/convert/write_hk.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/hkmodel.h"

/* ---- the version history ---- */

/* Records are padded to 8 from the beginning of the appendix, and stand in the first shard. */
static enum hk_status check_history_place(const struct hk_file *f, struct hk_error *err)
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

static enum hk_status check_history_changes(const struct hk_file *f,
                                            const struct hk_convert_options *opt,
                                            struct hk_error *err)
{
    const struct hk_file *origin = hk_origin_of(f);
    const struct hk_record *first = hk_record_at(origin, 0);
    if (!view_changes_tensors(f))
        return HK_OK;
    if (opt->history != HK_HISTORY_KEEP)
        return hk_fail(err, HK_E_UNSUPPORTED, origin->header.appendix_offset,
                       "the appendix of %zu record%s was made for the tensors as they are: "
                       "--no-history leaves it out, --keep-history keeps it",
                       origin->record_count, origin->record_count == 1 ? "" : "s");
    if (first != NULL && !hk_all_zero(first->parent_hash, sizeof first->parent_hash))
        hk_report_loss(opt,
                       "the first record is bound to the tensors as they were, and this base no "
                       "longer holds");
    return HK_OK;
}

enum hk_status hk_check_history(const struct hk_file *f, enum hk_format to,
                                const struct hk_convert_options *opt, struct hk_error *err)
{
    const struct hk_file *origin = hk_origin_of(f);
    bool any = false;
    for (size_t i = 0; i < f->part_count; i++)
        any = any || hk_appendix_bytes(f, i).n > 0;
    if (!any || opt->history == HK_HISTORY_DROP)
        return HK_OK;
    if ((hk_format_traits(to) & HK_TRAIT_RECORDS) == 0)
        return hk_fail(err, HK_E_UNSUPPORTED, origin->header.appendix_offset,
                       "%s cannot hold the appendix of %zu record%s; --no-history leaves it out",
                       hk_format_name(to), origin->record_count,
                       origin->record_count == 1 ? "" : "s");
    enum hk_status st = check_history_place(origin, err);
    return st == HK_OK ? check_history_changes(f, opt, err) : st;
}

/* ---- conversion ---- */

static enum hk_status check_conversion(const struct hk_convert_options *opt, struct hk_error *err)
{
    const uint32_t a = opt->alignment;
    if ((a & (a - 1)) != 0 || a > HK_MAX_ALIGNMENT)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "alignment %u is no power of two up to %d", a,
                       HK_MAX_ALIGNMENT);
    if (opt->dense > HK_TYPE_BF16)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "tensors are decoded to f32, f16 or bf16");
    return HK_OK;
}

enum hk_status hk_prepare(struct hk_view **out, struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *opt, struct hk_error *err)
{
    const struct hk_format_row *row = hk_format_row(to);
    enum hk_status st = check_conversion(opt, err);
    struct hk_view *v = NULL;
    if (st == HK_OK)
        st = hk_refuse_cut(f, err);
    if (st == HK_OK)
        st = hk_check_history(f, to, opt, err);
    if (st == HK_OK && row->view != NULL)
        st = row->view(&v, f, opt, err);
    if (st == HK_OK && v != NULL)
        st = hk_check_history(v->file, to, opt, err);
    if (st != HK_OK)
        hk_view_free(&v);
    else
        *out = v;
    return st;
}

enum hk_status hk_write_as(struct hk_file *f, enum hk_format to,
                           const struct hk_convert_options *opt, struct hk_out *out,
                           struct hk_error *err)
{
    const struct hk_format_row *row = hk_format_row(to);
    uint64_t limit = hk_output_limit(f, opt->max_output);
    const uint64_t room = opt->room != HK_NO_ROOM ? opt->room : 0; /* the caller's own wish */
    if (!add_ok(limit, hk_out_offset(out), &limit) || !add_ok(limit, room, &limit))
        limit = UINT64_MAX;
    hk_out_limit(out, limit);
    return row->write != NULL
               ? row->write(f, opt, out, err)
               : hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a model directory is no single file");
}

enum hk_status hk_convert(struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *given, struct hk_out *out,
                          struct hk_error *err)
{
    struct hk_view *v = NULL;
    struct hk_convert_options opt;
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = hk_prepare(&v, f, to, &opt, err);
    if (st == HK_OK)
        st = hk_write_as(v != NULL ? v->file : f, to, &opt, out, err);
    hk_view_free(&v);
    return st;
}
