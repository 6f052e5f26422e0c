/* Cutting the version history back. The header lets go of records before they are cut off, so that
 * no instant has it point at half of them. */
#include "libhkfmt/history.h"

struct cut {
    size_t kept;
    uint64_t size; /* of the file afterwards */
    uint64_t appendix_offset;
};

/* How many leading records stay. */
static enum hk_status count_kept(const struct hk_file *f, uint32_t generation, size_t *kept,
                                 struct hk_error *err)
{
    size_t n = 0;
    while (n < f->record_count && f->records[n].generation <= generation)
        n++;
    for (size_t i = n; i < f->record_count; i++)
        if (f->records[i].generation <= generation)
            return hk_fail(err, HK_E_UNSUPPORTED, f->records[i].offset,
                           "record %zu is of generation %u, but stands behind generation %u: "
                           "generations are out of order",
                           i, f->records[i].generation, f->records[n].generation);
    *kept = n;
    return HK_OK;
}

static struct cut cut_after(const struct hk_history *h, size_t kept)
{
    const struct hk_file *f = h->f;
    if (kept == 0)
        return (struct cut){.size = h->sections_end};
    uint64_t end = kept < f->record_count ? f->records[kept].offset : h->records_end;
    if (end > h->size) /* the last padding was cut */
        end = h->size;
    return (struct cut){kept, end, f->header.appendix_offset};
}

static enum hk_status plan(const struct hk_history *h, uint32_t generation, bool repair,
                           struct cut *cut, struct hk_error *err)
{
    size_t kept = h->f->record_count;
    if (h->torn && !repair)
        return hk_fail(err, HK_E_FORMAT, h->records_end > 0 ? h->records_end : h->sections_end,
                       "the file ends in bytes that are no record (an interrupted append?); "
                       "hk-rollback --repair removes them");
    if (repair) {
        *cut = cut_after(h, kept);
        if (!h->torn) /* nothing to repair, and padding is no fault */
            *cut = (struct cut){kept, h->size, h->f->header.appendix_offset};
        return HK_OK;
    }
    enum hk_status status = count_kept(h->f, generation, &kept, err);
    if (status == HK_OK)
        *cut = cut_after(h, kept);
    return status;
}

static enum hk_status apply(const struct hk_history *h, const struct cut *cut, struct hk_error *err)
{
    if (cut->size == h->size && cut->appendix_offset == h->f->header.appendix_offset)
        return HK_OK;
    enum hk_status status = hk_history_header(h, cut->appendix_offset, err);
    if (status == HK_OK && cut->size < h->size)
        status = hk_history_cut(h, cut->size, err);
    return status == HK_OK ? hk_history_sync(h, err) : status;
}

enum hk_status hk_rollback(const char *path, uint32_t generation, unsigned options,
                           struct hk_rollback_report *report, struct hk_error *err)
{
    struct hk_history h;
    struct cut cut = {0};
    const bool dry = options & HK_ROLLBACK_DRY_RUN;
    enum hk_status status = hk_history_open(&h, path, !dry, err);
    if (status == HK_OK)
        status = plan(&h, generation, options & HK_ROLLBACK_REPAIR, &cut, err);
    if (status == HK_OK && !dry)
        status = apply(&h, &cut, err);
    if (status == HK_OK && report != NULL)
        *report =
            (struct hk_rollback_report){cut.kept, h.f->record_count - cut.kept, h.size, cut.size};
    hk_history_close(&h);
    return status;
}
