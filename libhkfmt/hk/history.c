/* A .hk whose end is to be changed: its lock, and the writes that others order. */
#include "libhkfmt/hk/history.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/open_hk.h"

static enum hk_status open_locked(struct hk_history *h, const char *path,
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

static enum hk_status check_kind(const struct hk_file *f, struct hk_error *err)
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
        write ? open_locked(h, path, wait, err) : hk_open_path(&h->lock.fd, path, err);
    if (st == HK_OK)
        st = hk_open_fd(&h->f, h->lock.fd, err);
    if (st == HK_OK)
        st = check_kind(h->f, err);
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
