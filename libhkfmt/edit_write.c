/* The order of writes of an edit. New metadata are always written where nothing is that counts, and
 * synced, before the header names their place, and the header is synced before anything is written
 * over the old ones:
 *
 *   stage    head, metadata and table behind the end of the file; sync; header; sync
 *   settle   metadata and table to where they belong; sync; header; sync
 *   cut      what was staged; sync
 *
 * The header is one write within the first sector, which is written whole or not at all. Where they
 * belong is before the payloads, if they fit there, else directly behind the last section. If
 * nothing that counts is there, they need not be staged. Whatever is dead behind the last section
 * at any time begins with a head (edit.h), by which the next edit knows it for what it is. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/edit.h"
#include "libhkfmt/le.h"
#include "libhkfmt/wire.h"

enum { ZEROED = 1 << 20 }; /* cleared behind new metadata and table at least */

struct writing {
    int fd;
    const struct hk_tail *tail;
    uint64_t size;                  /* of the file by now */
    uint8_t header[HK_HEADER_SIZE]; /* as it is in the file */
    uint64_t count, metadata_size;
    struct hk_buf block; /* a head, metadata and, where it moves, the table; then what clears */
    size_t n;            /* bytes of metadata and table */
    bool table_moves;
    bool home;     /* there is room before the payloads */
    bool switched; /* the new metadata stand */
    bool shared;   /* another program writes to the file */
    uint64_t low;  /* where the head of a block directly behind the last section begins */
    uint64_t old_at[2], old_size[2]; /* metadata and table that count so far */
    struct hk_error *err;
};

static bool fail_io(struct writing *w, const char *what)
{
    hk_fail_sys(w->err, errno, "%s%s",
                w->switched ? "the new metadata stand, but are not in their place yet: " : "",
                what);
    return false;
}

static bool put_at(struct writing *w, const uint8_t *p, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t wrote = pwrite(w->fd, p, n, (off_t)at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            errno = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        p += wrote;
        n -= (size_t)wrote;
        at += (uint64_t)wrote;
        if (at > w->size)
            w->size = at;
    }
    return true;
}

static bool write_at(struct writing *w, const uint8_t *p, size_t n, uint64_t at)
{
    return put_at(w, p, n, at) || fail_io(w, "cannot write");
}

static bool sync_all(struct writing *w)
{
    return fdatasync(w->fd) == 0 || fail_io(w, "cannot sync");
}

static bool cut(struct writing *w, uint64_t size)
{
    if (w->size <= size)
        return true;
    if (ftruncate(w->fd, (off_t)size) != 0)
        return fail_io(w, "cannot cut the file");
    w->size = size;
    return sync_all(w);
}

/* Another program that does not know our lock may have changed the file. */
static bool check_unchanged(struct writing *w)
{
    struct stat st;
    uint8_t header[HK_HEADER_SIZE];
    if (fstat(w->fd, &st) != 0 || pread(w->fd, header, sizeof header, 0) != sizeof header)
        return fail_io(w, "cannot read");
    if ((uint64_t)st.st_size == w->size && memcmp(header, w->header, sizeof header) == 0)
        return true;
    w->shared = true;
    hk_fail(w->err, HK_E_IO, HK_NO_OFFSET, "another program changed the file during the edit");
    return false;
}

/* The seal covered the old contents. */
static void break_seal(uint8_t *header)
{
    uint32_t flags = le32(header + HK_AT_FLAGS);
    if ((flags & HK_FLAG_HAS_SHA256_CHECKSUM) == 0)
        return;
    put32(header + HK_AT_FLAGS, flags & ~(uint32_t)HK_FLAG_HAS_SHA256_CHECKSUM);
    put64(header + HK_AT_CHECKSUM, 0);
    memset(header + HK_AT_RESERVED, 0, HK_HEADER_SIZE - HK_AT_RESERVED);
}

/* Let the header name the block at AT. A write that fails half way is taken back. */
static bool switch_to(struct writing *w, uint64_t at)
{
    uint8_t header[HK_HEADER_SIZE];
    memcpy(header, w->header, sizeof header);
    break_seal(header);
    put64(header + HK_AT_KV_COUNT, w->count);
    put64(header + HK_AT_METADATA_OFFSET, at);
    put64(header + HK_AT_METADATA_SIZE, w->metadata_size);
    if (w->table_moves)
        put64(header + HK_AT_TOC_OFFSET, at + w->metadata_size);
    if (!check_unchanged(w))
        return false;
    if (!put_at(w, header, sizeof header, 0)) {
        int sys = errno;
        put_at(w, w->header, sizeof w->header, 0);
        errno = sys;
        return fail_io(w, "cannot write");
    }
    memcpy(w->header, header, sizeof header);
    w->switched = true;
    return sync_all(w);
}

/* ---- places ---- */

static bool touches_old(const struct writing *w, uint64_t start, uint64_t end)
{
    for (int i = 0; i < 2; i++)
        if (w->old_size[i] > 0 && w->old_at[i] < end && start < w->old_at[i] + w->old_size[i])
            return true;
    return false;
}

/* End of what is cleared behind a block at home: nothing of what is old stays there. */
static uint64_t cleared_end(const struct writing *w)
{
    const uint64_t limit = w->tail->limit;
    uint64_t end = HK_HEADER_SIZE + w->n + ZEROED;
    for (int i = 0; i < 2; i++)
        if (w->old_at[i] < limit && w->old_at[i] + w->old_size[i] > end)
            end = w->old_at[i] + w->old_size[i];
    return end < limit ? end : limit;
}

/* The block's metadata at AT, its head before them. By a head at MARK, which comes first, all that
 * is written behind it is known for ours. */
static bool write_marked(struct writing *w, uint64_t mark, uint64_t at)
{
    return write_at(w, w->block.p, HK_STAGING_SIZE, mark) && sync_all(w) &&
           write_at(w, w->block.p, HK_STAGING_SIZE + w->n, at - HK_STAGING_SIZE) && sync_all(w);
}

static bool write_home(struct writing *w)
{
    return write_at(w, w->block.p + HK_STAGING_SIZE, w->block.n - HK_STAGING_SIZE,
                    HK_HEADER_SIZE) &&
           sync_all(w);
}

/* What lies at AT and behind is going to be dead, and is to be known for ours until it is cut. */
static bool mark(struct writing *w, uint64_t at)
{
    uint8_t padded[7 + HK_STAGING_SIZE] = {0};
    size_t n = (8 - at % 8) % 8;
    memcpy(padded + n, w->block.p, HK_STAGING_SIZE);
    return w->size <= at || write_at(w, padded, n + HK_STAGING_SIZE, at);
}

static bool settle(struct writing *w)
{
    const uint64_t behind = w->low + HK_STAGING_SIZE, end = behind + w->n;
    if (w->home)
        return mark(w, w->tail->base) && write_home(w) && switch_to(w, HK_HEADER_SIZE) &&
               cut(w, w->tail->keep);
    if (!mark(w, end))
        return false;
    hk_staging_head(w->block.p, w->tail->base, true);
    return write_marked(w, w->low, behind) && switch_to(w, behind) && cut(w, end);
}

/* Of a block directly behind the last section and the mark behind it, rounded up. */
static uint64_t settled_end(const struct writing *w)
{
    return w->low + HK_STAGING_SIZE + w->n + 8 + HK_STAGING_SIZE;
}

/* Behind everything that counts, and behind where they are going to be. */
static bool stage(struct writing *w)
{
    uint64_t head = w->size + (8 - w->size % 8) % 8, at = head + HK_STAGING_SIZE;
    if (!w->home && at < settled_end(w) + HK_STAGING_SIZE)
        at = settled_end(w) + HK_STAGING_SIZE;
    return write_marked(w, head, at) && switch_to(w, at);
}

static bool write_all(struct writing *w)
{
    const uint64_t live = w->tail->live;
    bool direct = w->home ? !touches_old(w, HK_HEADER_SIZE, cleared_end(w)) &&
                                !touches_old(w, w->tail->base, w->low + HK_STAGING_SIZE)
                          : !touches_old(w, w->low, settled_end(w));
    bool good = check_unchanged(w) && cut(w, live) && (direct || stage(w)) && settle(w);
    if (!good && !w->switched && !w->shared && w->size > live && ftruncate(w->fd, (off_t)live) == 0)
        w->size = live;
    return good;
}

/* ---- the plan ---- */

static enum hk_status no_room(uint64_t needed, uint64_t room, struct hk_error *err)
{
    return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                   "metadata and tensor table would take %llu bytes; there are %llu before the "
                   "payloads, and behind them is the appendix: hk-convert --room SIZE makes room",
                   (unsigned long long)needed, (unsigned long long)room);
}

static enum hk_status fill_block(struct writing *w, const struct hk_file *f,
                                 const struct hk_new_metadata *m, struct hk_error *err)
{
    const struct hk_header *h = &f->header;
    uint8_t *head = hk_buf_room(&w->block, HK_STAGING_SIZE);
    if (head != NULL)
        hk_staging_head(head, w->tail->base, false);
    hk_buf_put(&w->block, m->bytes.p, m->bytes.n);
    if (w->table_moves)
        hk_buf_put(&w->block, f->parts[0].map + h->tensor_toc_offset, (size_t)h->tensor_toc_size);
    if (w->block.failed)
        return hk_fail_nomem(err);
    w->n = w->block.n - HK_STAGING_SIZE;
    size_t clear = w->home ? (size_t)(cleared_end(w) - HK_HEADER_SIZE - w->n) : 0;
    uint8_t *zeros = hk_buf_room(&w->block, clear);
    if (zeros == NULL)
        return hk_fail_nomem(err);
    memset(zeros, 0, clear);
    return HK_OK;
}

static enum hk_status plan(struct writing *w, const struct hk_file *f,
                           const struct hk_new_metadata *m, struct hk_error *err)
{
    const struct hk_header *h = &f->header;
    const uint64_t limit = w->tail->limit, table = h->tensor_toc_size;
    uint64_t room = limit > HK_HEADER_SIZE ? limit - HK_HEADER_SIZE : 0, end;
    w->home = m->bytes.n <= room && table <= room - m->bytes.n;
    w->table_moves = w->home || (table > 0 && h->tensor_toc_offset >= w->tail->base);
    if (!w->home && w->tail->appendix)
        return no_room(m->bytes.n + table, room, err);
    enum hk_status status = fill_block(w, f, m, err);
    if (status != HK_OK)
        return status;
    if (!align_ok(w->tail->base, 8, &w->low) || !add_ok(w->size, 2 * (uint64_t)w->block.n, &end) ||
        end > INT64_MAX - ZEROED)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the file would be too large");
    return HK_OK;
}

enum hk_status hk_write_metadata(const struct hk_file *f, int fd, const struct hk_tail *tail,
                                 const struct hk_new_metadata *m, struct hk_error *err)
{
    const struct hk_header *h = &f->header;
    struct hk_error own;
    struct writing w = {
        .fd = fd,
        .tail = tail,
        .size = f->parts[0].size,
        .count = m->count,
        .metadata_size = m->bytes.n,
        .old_at = {h->metadata_offset, h->tensor_toc_offset},
        .old_size = {h->metadata_size, h->tensor_toc_size},
        .err = err != NULL ? err : &own,
    };
    memcpy(w.header, f->parts[0].map, sizeof w.header);
    enum hk_status status = plan(&w, f, m, err);
    if (status == HK_OK && !write_all(&w))
        status = w.err->status;
    hk_buf_free(&w.block);
    return status;
}
