/* A .hk whose end is to be changed: its lock, the writes that others order, and cutting its history
 * back. */
#include "libhkfmt/hk/history.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/open.h"
#include "libhkfmt/hk/outcome.h"

static enum hk_status lock_history(struct hk_history *h, const char *path,
                                   const struct hk_wait *wait, struct hk_error *err)
{
    bool journal;
    enum hk_status st = hk_lock_open(&h->lock, path, wait, err);
    if (st == HK_OK)
        st = hk_has_journal(path, &journal, err);
    if (st == HK_OK && journal)
        st = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                     "a journal lies beside it (.hkmeta-journal): an edit of its metadata was "
                     "broken off, which only the program that began it can end");
    return st;
}

static enum hk_status check_history_kind(const struct hk_file *f, struct hk_error *err)
{
    if (f->format != HK_FORMAT_HK)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "is %s: only a .hk has a version history; hk-convert makes one",
                       hk_format_name(f->format));
    if (f->header.split_index > 0)
        return hk_fail(err, HK_E_USE, HK_AT_SPLIT_INDEX,
                       "is shard %u of %u: records belong to the first", f->header.split_index + 1u,
                       f->header.split_count);
    return HK_OK;
}

enum hk_status hk_history_open(struct hk_history *h, const char *path, bool write,
                               const struct hk_wait *wait, struct hk_error *err)
{
    *h = (struct hk_history){.lock.fd = -1};
    enum hk_status st =
        write ? lock_history(h, path, wait, err) : hk_open_path(&h->lock.fd, path, err);
    if (st == HK_OK)
        st = hk_open_fd(&h->f, h->lock.fd, err);
    if (st == HK_OK)
        st = check_history_kind(h->f, err);
    if (st == HK_OK)
        st = hk_ends_check(h->f, err);
    if (st == HK_OK && h->f->ends.head_behind)
        st = hk_fail(err, HK_E_FORMAT, h->f->header.appendix_offset,
                     "metadata or tensor table lie behind the appendix records: hk-convert puts "
                     "them in order");
    if (st == HK_OK)
        memcpy(h->header, h->f->parts[0].header, sizeof h->header);
    return st;
}

void hk_history_close(struct hk_history *h)
{
    hk_close(&h->f);
    if (h->lock.fd >= 0)
        close(h->lock.fd);
    h->lock.fd = -1;
}

enum hk_status hk_history_check_tail(const struct hk_history *h, struct hk_error *err)
{
    const struct hk_ends *l = &h->f->ends;
    if (l->tail <= HK_TAIL_PADDING)
        return HK_OK;
    return hk_fail(err, HK_E_FORMAT, l->live,
                   "the file ends in bytes that are no record (an interrupted append?); "
                   "hk-rollback --repair removes them");
}

enum hk_status hk_history_write(const struct hk_history *h, const void *p, size_t n,
                                uint64_t offset, struct hk_error *err)
{
    const uint8_t *from = p;
    while (n > 0) {
        ssize_t wrote = pwrite(h->lock.fd, from, n, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return hk_fail_sys(err, wrote < 0 ? errno : ENOSPC, "cannot write");
        from += wrote;
        n -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return HK_OK;
}

enum hk_status hk_history_sync(const struct hk_history *h, struct hk_error *err)
{
    return fdatasync(h->lock.fd) == 0 ? HK_OK : hk_fail_sys(err, errno, "cannot sync");
}

enum hk_status hk_history_cut(const struct hk_history *h, uint64_t size, struct hk_error *err)
{
    return ftruncate(h->lock.fd, (off_t)size) == 0 ? HK_OK
                                                   : hk_fail_sys(err, errno, "cannot truncate");
}

void hk_history_header(const struct hk_history *h, uint64_t appendix_offset,
                       uint8_t out[HK_HEADER_SIZE])
{
    memcpy(out, h->header, HK_HEADER_SIZE);
    hk_break_seal(out);
    hk_put_appendix(out, appendix_offset);
}

enum hk_status hk_history_put_header(struct hk_history *h, const uint8_t header[HK_HEADER_SIZE],
                                     struct hk_error *err)
{
    if (memcmp(header, h->header, sizeof h->header) == 0)
        return HK_OK;
    memset(h->header, 0, sizeof h->header); /* half of it may be written */
    enum hk_status st = hk_history_write(h, header, sizeof h->header, 0, err);
    if (st == HK_OK)
        memcpy(h->header, header, sizeof h->header);
    return st == HK_OK ? hk_history_sync(h, err) : st;
}

/* ---- cutting back: the header lets go of records before they are cut off, so that no instant has
 * it point at half of them ---- */

struct cut {
    size_t kept;
    uint64_t size; /* of the file afterwards */
    uint64_t appendix_offset;
};

/* How many leading records stay. */
static enum hk_status count_kept_records(const struct hk_file *f, uint32_t generation, size_t *kept,
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
static struct cut cut_after_record(const struct hk_file *f, size_t kept)
{
    const struct hk_ends *l = &f->ends;
    if (kept == 0)
        return (struct cut){.size = l->bare};
    const uint64_t end = kept < f->record_count ? f->records[kept].offset : l->records_end;
    return (struct cut){kept, end, l->records};
}

static enum hk_status plan_cut(const struct hk_history *h, uint32_t generation, bool repair,
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
        st = count_kept_records(f, generation, &kept, err);
    if (st == HK_OK && (!repair || f->ends.tail > HK_TAIL_PADDING))
        *cut = cut_after_record(f, kept);
    return st;
}

static enum hk_status check_cut(const struct hk_history *h, const struct cut *cut,
                                const uint8_t *header, struct hk_error *err)
{
    const struct hk_outcome o = {
        .old = h->f,
        .then = {.fd = h->lock.fd, .size = cut->size, .patches = {{0, {header, HK_HEADER_SIZE}}}},
        .metadata = h->f->metadata,
        .pairs = h->f->header.metadata_kv_count,
        .kept = cut->kept,
        .settled = true,
    };
    return hk_check_outcome(&o, err);
}

/* Readers see both changes or none. */
static enum hk_status apply_cut(struct hk_history *h, const struct cut *cut, struct hk_error *err)
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
        st = plan_cut(&h, generation, options & HK_ROLLBACK_REPAIR, &cut, err);
    if (st == HK_OK && !dry)
        st = apply_cut(&h, &cut, err);
    if (st == HK_OK && report != NULL)
        *report = (struct hk_rollback_report){cut.kept, h.f->record_count - cut.kept,
                                              h.f->ends.size, cut.size};
    hk_history_close(&h);
    return st;
}
