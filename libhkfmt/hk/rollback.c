/* Cutting the version history back. The header lets go of records before they are cut off, so that
 * no instant has it point at half of them. */
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/history.h"
#include "libhkfmt/hk/outcome.h"

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

/* Of a file without records the offset of records says nothing, and goes. */
static struct cut cut_after(const struct hk_file *f, size_t kept)
{
    const struct hk_ends *l = &f->ends;
    if (kept == 0)
        return (struct cut){.size = l->bare};
    const uint64_t end = kept < f->record_count ? f->records[kept].offset : l->records_end;
    return (struct cut){kept, end, l->records};
}

static enum hk_status plan(const struct hk_history *h, uint32_t generation, bool repair,
                           struct cut *cut, struct hk_error *err)
{
    const struct hk_file *f = h->f;
    size_t kept = f->record_count;
    /* Nothing to repair, and padding is no fault. */
    *cut = (struct cut){kept, f->ends.size, f->header.appendix_offset};
    enum hk_status st = HK_OK;
    if (!repair)
        st = hk_history_check_tail(h, err);
    if (st == HK_OK && !repair)
        st = count_kept(f, generation, &kept, err);
    if (st == HK_OK && (!repair || f->ends.tail > HK_TAIL_PADDING))
        *cut = cut_after(f, kept);
    return st;
}

static enum hk_status check_cut(const struct hk_history *h, const struct cut *cut,
                                const uint8_t *header, struct hk_error *err)
{
    const struct hk_outcome o = {
        .old = h->f,
        .then = {h->lock.fd, cut->size, {{0, {header, HK_HEADER_SIZE}}}},
        .metadata = h->f->metadata,
        .pairs = h->f->header.metadata_kv_count,
        .kept = cut->kept,
        .settled = true,
    };
    return hk_check_outcome(&o, err);
}

/* Readers see both changes or none. */
static enum hk_status apply(struct hk_history *h, const struct cut *cut, struct hk_error *err)
{
    uint8_t header[HK_HEADER_SIZE];
    const struct hk_file *f = h->f;
    const bool shorter = cut->size < f->ends.size;
    if (!shorter && cut->appendix_offset == f->header.appendix_offset)
        return HK_OK;
    hk_history_header(h, cut->appendix_offset, header);
    enum hk_status st = check_cut(h, cut, header, err);
    if (st == HK_OK && cut->kept < f->record_count)
        st = hk_lock_records(&h->lock, err);
    if (st == HK_OK)
        st = hk_lock_enter(&h->lock, err);
    if (st != HK_OK)
        return st;
    st = hk_history_put_header(h, header, err);
    if (st == HK_OK && shorter)
        st = hk_history_cut(h, cut->size, err);
    hk_lock_leave(&h->lock);
    return st == HK_OK ? hk_history_sync(h, err) : st;
}

enum hk_status hk_rollback(const char *path, uint32_t generation, unsigned options,
                           const struct hk_wait *wait, struct hk_rollback_report *report,
                           struct hk_error *err)
{
    struct hk_history h;
    struct cut cut = {0};
    const bool dry = options & HK_ROLLBACK_DRY_RUN;
    enum hk_status st = hk_history_open(&h, path, !dry, wait, err);
    if (st == HK_OK)
        st = plan(&h, generation, options & HK_ROLLBACK_REPAIR, &cut, err);
    if (st == HK_OK && !dry)
        st = apply(&h, &cut, err);
    if (st == HK_OK && report != NULL)
        *report = (struct hk_rollback_report){cut.kept, h.f->record_count - cut.kept,
                                              h.f->ends.size, cut.size};
    hk_history_close(&h);
    return st;
}
