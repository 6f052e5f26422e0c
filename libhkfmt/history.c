/* A .hk whose end is to be changed: its lock, where its parts end, and the writes that others
 * order. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "libhkfmt/history.h"
#include "libhkfmt/le.h"
#include "libhkfmt/lock.h"
#include "libhkfmt/wire.h"

static enum hk_status open_locked(struct hk_history *h, const char *path, struct hk_error *err)
{
    bool journal;
    enum hk_status status = hk_lock_open(&h->fd, path, err);
    if (status == HK_OK)
        status = hk_has_journal(path, &journal, err);
    if (status == HK_OK && journal)
        status = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                         "a journal lies beside it (.hkmeta-journal): an edit of its metadata was "
                         "broken off, which only the program that began it can end");
    return status;
}

static enum hk_status open_to_look(struct hk_history *h, const char *path, struct hk_error *err)
{
    h->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return h->fd >= 0 ? HK_OK : hk_fail_sys(err, errno, "cannot open");
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

static void raise_to(uint64_t *end, uint64_t offset, uint64_t size)
{
    if (size > 0 && offset + size > *end) /* the reader has checked the sum */
        *end = offset + size;
}

/* Where head and payloads end, and whether any of it lies behind the records. */
static void measure_sections(struct hk_history *h, bool *behind)
{
    const struct hk_header *head = &h->f->header;
    uint64_t end = HK_HEADER_SIZE;
    raise_to(&end, head->metadata_offset, head->metadata_size);
    raise_to(&end, head->tensor_toc_offset, head->tensor_toc_size);
    for (size_t i = 0; i < h->f->tensor_count; i++) {
        const struct hk_tensor *t = &h->f->tensors[i];
        raise_to(&end, t->data_offset, t->data_size);
        raise_to(&end, t->scale_offset, t->scale_size);
        raise_to(&end, t->residual_offset, t->residual_size);
    }
    if (head->tensor_data_offset > end && head->tensor_data_offset <= h->size)
        end = head->tensor_data_offset;
    h->sections_end = end;
    *behind = head->appendix_offset != 0 && head->appendix_offset < h->size &&
              end > head->appendix_offset;
}

/* Padding up to a multiple of 8 is no torn tail. */
static void measure_records(struct hk_history *h)
{
    const struct hk_file *f = h->f;
    uint64_t end = h->sections_end;
    if (f->record_count > 0) {
        const struct hk_record *last = &f->records[f->record_count - 1];
        (void)align_ok(last->data_offset + last->data_size, 8, &end);
        h->records_end = end;
    } else if (f->header.appendix_offset > end) {
        end = f->header.appendix_offset;
    }
    const uint64_t left = h->size > end ? h->size - end : 0;
    const bool padding = left < 8 && h->size % 8 == 0 && hk_all_zero(f->parts[0].map + end, left);
    h->torn = left > 0 && !padding;
}

static enum hk_status measure(struct hk_history *h, struct hk_error *err)
{
    bool behind;
    h->size = h->f->parts[0].size;
    measure_sections(h, &behind);
    if (behind)
        return hk_fail(
            err, HK_E_FORMAT, h->f->header.appendix_offset,
            "metadata or payloads lie behind the appendix records: hk-convert puts them in "
            "order");
    measure_records(h);
    return HK_OK;
}

enum hk_status hk_history_open(struct hk_history *h, const char *path, bool write,
                               struct hk_error *err)
{
    *h = (struct hk_history){.fd = -1};
    enum hk_status status = write ? open_locked(h, path, err) : open_to_look(h, path, err);
    if (status == HK_OK)
        status = hk_open_fd(&h->f, h->fd, err);
    if (status == HK_OK)
        status = check_kind(h->f, err);
    return status == HK_OK ? measure(h, err) : status;
}

void hk_history_close(struct hk_history *h)
{
    hk_close(&h->f);
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

enum hk_status hk_history_write(const struct hk_history *h, const void *p, size_t n,
                                uint64_t offset, struct hk_error *err)
{
    const uint8_t *from = p;
    while (n > 0) {
        ssize_t wrote = pwrite(h->fd, from, n, (off_t)offset);
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
    return fdatasync(h->fd) == 0 ? HK_OK : hk_fail_sys(err, errno, "cannot sync");
}

enum hk_status hk_history_cut(const struct hk_history *h, uint64_t size, struct hk_error *err)
{
    return ftruncate(h->fd, (off_t)size) == 0 ? HK_OK : hk_fail_sys(err, errno, "cannot truncate");
}

/* A seal would be stale from here on (format-notes 1.1). */
static void drop_seal(uint8_t *p)
{
    const uint32_t flags = le32(p + HK_AT_FLAGS);
    if ((flags & HK_FLAG_HAS_SHA256_CHECKSUM) == 0)
        return;
    put32(p + HK_AT_FLAGS, flags & ~(uint32_t)HK_FLAG_HAS_SHA256_CHECKSUM);
    memset(p + HK_AT_CHECKSUM, 0, 8);
    memset(p + HK_AT_RESERVED, 0, HK_HEADER_SIZE - HK_AT_RESERVED);
}

enum hk_status hk_history_header(const struct hk_history *h, uint64_t appendix_offset,
                                 struct hk_error *err)
{
    uint8_t p[HK_HEADER_SIZE];
    memcpy(p, h->f->parts[0].map, sizeof p);
    drop_seal(p);
    uint32_t flags = le32(p + HK_AT_FLAGS) & ~(uint32_t)HK_FLAG_HAS_APPENDIX;
    put32(p + HK_AT_FLAGS, flags | (appendix_offset != 0 ? HK_FLAG_HAS_APPENDIX : 0));
    put64(p + HK_AT_APPENDIX_OFFSET, appendix_offset);
    if (memcmp(p, h->f->parts[0].map, sizeof p) == 0)
        return HK_OK;
    enum hk_status status = hk_history_write(h, p, sizeof p, 0, err);
    return status != HK_OK ? status : hk_history_sync(h, err);
}
