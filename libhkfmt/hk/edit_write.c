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

#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/outcome.h"
#include "libhkfmt/hk/wire.h"

enum { ZEROED = 1 << 20 }; /* cleared behind new metadata and table at least */

struct writing {
    const struct hk_lock *lock;
    const struct hk_file *old;
    const struct hk_ends *ends;     /* of the old file */
    uint64_t size;                  /* of the file by now */
    uint8_t header[HK_HEADER_SIZE]; /* as it is in the file */
    struct hk_bytes metadata;
    uint64_t count;
    struct hk_buf block; /* a head, metadata and, where it moves, the table; then what clears */
    size_t n;            /* bytes of metadata and table */
    bool table_moves;
    bool home;     /* there is room before the payloads */
    bool switched; /* the new metadata stand */
    bool shared;   /* another program writes to the file */
    uint64_t low;  /* where the head of a block directly behind the last section begins */
    uint64_t dead; /* what begins here is dead once the block is in its place */
    struct hk_error *err;
};

static bool fail_edit_io(struct writing *w, const char *what)
{
    hk_fail_sys(w->err, errno, "%s%s",
                w->switched ? "the new metadata stand, but are not in their place yet: " : "",
                what);
    return false;
}

static bool put_bytes_at(struct writing *w, const uint8_t *p, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t wrote = pwrite(w->lock->fd, p, n, (off_t)at);
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

static bool write_bytes_at(struct writing *w, const uint8_t *p, size_t n, uint64_t at)
{
    return put_bytes_at(w, p, n, at) || fail_edit_io(w, "cannot write");
}

static bool sync_edited(struct writing *w)
{
    return fdatasync(w->lock->fd) == 0 || fail_edit_io(w, "cannot sync");
}

/* Whether the file would be what was asked with HEADER and of SIZE. */
static bool check_edit_outcome(struct writing *w, const uint8_t *header, uint64_t size,
                               bool settled)
{
    const struct hk_outcome o = {
        .old = w->old,
        .then = {.fd = w->lock->fd, .size = size, .patches = {{0, {header, HK_HEADER_SIZE}}}},
        .metadata = w->metadata,
        .pairs = w->count,
        .kept = w->old->record_count,
        .settled = settled,
    };
    return hk_check_outcome(&o, w->err) == HK_OK;
}

static bool cut_file_to(struct writing *w, uint64_t size)
{
    if (hk_lock_enter(w->lock, w->err) != HK_OK)
        return false;
    bool good = ftruncate(w->lock->fd, (off_t)size) == 0 || fail_edit_io(w, "cannot cut the file");
    hk_lock_leave(w->lock);
    if (good)
        w->size = size;
    return good;
}

/* Drop what an edit left that was broken off. */
static bool cut_earlier_edit(struct writing *w, uint64_t size)
{
    return w->size <= size || (cut_file_to(w, size) && sync_edited(w));
}

/* The block is in its place: nothing that is dead stays. */
static bool cut_dead_end(struct writing *w, uint64_t size)
{
    if (w->size > size && (!check_edit_outcome(w, w->header, size, true) || !cut_file_to(w, size)))
        return false;
    return sync_edited(w);
}

/* Another program that does not know our lock may have changed the file. */
static bool check_unchanged(struct writing *w)
{
    struct stat st;
    uint8_t header[HK_HEADER_SIZE];
    if (fstat(w->lock->fd, &st) != 0 ||
        pread(w->lock->fd, header, sizeof header, 0) != sizeof header)
        return fail_edit_io(w, "cannot read");
    if ((uint64_t)st.st_size == w->size && memcmp(header, w->header, sizeof header) == 0)
        return true;
    w->shared = true;
    hk_fail(w->err, HK_E_IO, HK_NO_OFFSET, "another program changed the file during the edit");
    return false;
}

/* The block at AT; an offset of records that are not there would lead to it one day. */
static void fill_edited_header(const struct writing *w, uint8_t *header, uint64_t at)
{
    memcpy(header, w->header, HK_HEADER_SIZE);
    hk_break_seal(header);
    put64(header + HK_AT_KV_COUNT, w->count);
    put64(header + HK_AT_METADATA_OFFSET, at);
    put64(header + HK_AT_METADATA_SIZE, w->metadata.n);
    if (w->table_moves)
        put64(header + HK_AT_TOC_OFFSET, at + w->metadata.n);
    if (w->ends->records == 0)
        hk_put_appendix(header, 0);
}

/* Let the header name the block at AT. A write that fails half way is taken back. */
static bool switch_header_to(struct writing *w, uint64_t at)
{
    uint8_t header[HK_HEADER_SIZE];
    fill_edited_header(w, header, at);
    if (!check_unchanged(w) || !check_edit_outcome(w, header, w->size, false) ||
        hk_lock_enter(w->lock, w->err) != HK_OK)
        return false;
    bool good = put_bytes_at(w, header, sizeof header, 0);
    if (!good) {
        int sys = errno;
        put_bytes_at(w, w->header, sizeof w->header, 0);
        errno = sys;
    }
    hk_lock_leave(w->lock);
    if (!good)
        return fail_edit_io(w, "cannot write");
    memcpy(w->header, header, sizeof header);
    w->switched = true;
    return sync_edited(w);
}

/* ---- places ---- */

static bool touches_old_head(const struct writing *w, uint64_t start, uint64_t end)
{
    const struct hk_header *h = &w->old->header;
    const uint64_t at[2] = {h->metadata_offset, h->tensor_toc_offset};
    const uint64_t size[2] = {h->metadata_size, h->tensor_toc_size};
    for (int i = 0; i < 2; i++)
        if (size[i] > 0 && at[i] < end && start < at[i] + size[i])
            return true;
    return false;
}

static uint64_t aligned_to_8(uint64_t at)
{
    return at + (8 - at % 8) % 8;
}

/* End of what is cleared behind a block at home: nothing of what is old stays there. */
static uint64_t cleared_end(const struct writing *w)
{
    const struct hk_ends *l = w->ends;
    const struct hk_header *h = &w->old->header;
    const uint64_t at[2] = {h->metadata_offset, h->tensor_toc_offset};
    const uint64_t size[2] = {h->metadata_size, h->tensor_toc_size};
    const uint64_t block = HK_HEADER_SIZE + w->n;
    /* Where nothing limits the room the file ends with the block. */
    const uint64_t limit = l->room_end != UINT64_MAX ? l->room_end
                           : l->base > block         ? l->base
                                                     : block;
    uint64_t end = block + ZEROED;
    for (int i = 0; i < 2; i++)
        if (size[i] > 0 && at[i] < limit && at[i] + size[i] > end)
            end = at[i] + size[i];
    return end < limit ? end : limit;
}

/* The block's metadata at AT, its head before them. By a head at MARK, which comes first, all that
 * is written behind it is known for ours. */
static bool write_marked_block(struct writing *w, uint64_t mark, uint64_t at)
{
    return write_bytes_at(w, w->block.p, HK_STAGING_SIZE, mark) && sync_edited(w) &&
           write_bytes_at(w, w->block.p, HK_STAGING_SIZE + w->n, at - HK_STAGING_SIZE) &&
           sync_edited(w);
}

static bool write_block_home(struct writing *w)
{
    return write_bytes_at(w, w->block.p + HK_STAGING_SIZE, w->block.n - HK_STAGING_SIZE,
                          HK_HEADER_SIZE) &&
           sync_edited(w);
}

/* What is going to be dead is to be known for ours until it is cut. */
static bool mark_dead_end(struct writing *w)
{
    uint8_t padded[7 + HK_STAGING_SIZE] = {0};
    size_t n = (size_t)(aligned_to_8(w->dead) - w->dead);
    memcpy(padded + n, w->block.p, HK_STAGING_SIZE);
    return w->size <= w->dead || write_bytes_at(w, padded, n + HK_STAGING_SIZE, w->dead);
}

/* Where the file ends with the block at home. */
static uint64_t end_of_file_at_home(const struct writing *w)
{
    const uint64_t end = HK_HEADER_SIZE + w->n, base = w->ends->base;
    return base > end ? base : end;
}

static bool settle_block(struct writing *w)
{
    const uint64_t behind = w->low + HK_STAGING_SIZE;
    if (!mark_dead_end(w))
        return false;
    if (w->home)
        return write_block_home(w) && switch_header_to(w, HK_HEADER_SIZE) &&
               cut_dead_end(w, end_of_file_at_home(w));
    hk_staging_head(w->block.p, w->ends->base, true);
    return write_marked_block(w, w->low, behind) && switch_header_to(w, behind) &&
           cut_dead_end(w, w->dead);
}

/* Of the block in its place and the mark behind it. */
static uint64_t end_of_settled_block(const struct writing *w)
{
    return aligned_to_8(w->dead) + HK_STAGING_SIZE;
}

/* Behind everything that counts, and behind where they are going to be. */
static bool stage_block(struct writing *w)
{
    const uint64_t head = aligned_to_8(w->size);
    uint64_t at = head + HK_STAGING_SIZE;
    if (head != aligned_to_8(w->dead) && at < end_of_settled_block(w) + HK_STAGING_SIZE)
        at = end_of_settled_block(w) + HK_STAGING_SIZE;
    return write_marked_block(w, head, at) && switch_header_to(w, at);
}

static bool write_edit(struct writing *w)
{
    const uint64_t live = w->ends->live;
    const uint64_t left = w->ends->tail == HK_TAIL_PADDING ? w->size : live;
    bool direct = !touches_old_head(w, w->home ? HK_HEADER_SIZE : w->low,
                                    w->home ? cleared_end(w) : w->dead) &&
                  !touches_old_head(w, w->dead, end_of_settled_block(w));
    bool good = check_unchanged(w) && cut_earlier_edit(w, left) && (direct || stage_block(w)) &&
                settle_block(w);
    if (!good && !w->switched && !w->shared && w->size > left &&
        ftruncate(w->lock->fd, (off_t)left) == 0)
        w->size = left;
    return good;
}

/* ---- the plan ---- */

static enum hk_status refuse_for_room(uint64_t needed, uint64_t room, struct hk_error *err)
{
    return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                   "metadata and tensor table would take %llu bytes; there are %llu before the "
                   "payloads, and behind them is the appendix: hk-convert --room SIZE makes room",
                   (unsigned long long)needed, (unsigned long long)room);
}

static enum hk_status fill_block(struct writing *w, struct hk_error *err)
{
    uint8_t *head = hk_buf_room(&w->block, HK_STAGING_SIZE);
    if (head != NULL)
        hk_staging_head(head, w->ends->base, false);
    hk_buf_put(&w->block, w->metadata.p, w->metadata.n);
    if (w->table_moves)
        hk_buf_put(&w->block, w->old->table.p, w->old->table.n);
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

static enum hk_status plan_places(struct writing *w, struct hk_error *err)
{
    const struct hk_ends *l = w->ends;
    const uint64_t table = w->old->table.n, needed = w->metadata.n + table;
    const uint64_t room = l->room_end > HK_HEADER_SIZE ? l->room_end - HK_HEADER_SIZE : 0;
    const bool fits = needed <= room;
    w->table_moves = fits || (table > 0 && w->old->header.tensor_toc_offset >= l->base);
    w->home = fits || (w->metadata.n == 0 && !w->table_moves); /* what is nothing fits anywhere */
    if (!w->home && l->records > 0)
        return refuse_for_room(needed, room, err);
    enum hk_status st = fill_block(w, err);
    if (st != HK_OK)
        return st;
    uint64_t end;
    if (l->size > INT64_MAX / 2 || !add_ok(l->size, 4 * (uint64_t)w->block.n, &end) ||
        end > INT64_MAX - ZEROED)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the file would be too large");
    w->low = aligned_to_8(l->base);
    w->dead = w->low + HK_STAGING_SIZE + w->n;
    if (w->home)
        w->dead = cleared_end(w) > l->base ? cleared_end(w) : l->base;
    return HK_OK;
}

enum hk_status hk_write_metadata(const struct hk_file *f, const struct hk_lock *lock,
                                 const struct hk_new_metadata *m, struct hk_error *err)
{
    struct hk_error own;
    struct writing w = {
        .lock = lock,
        .old = f,
        .ends = &f->ends,
        .size = f->parts[0].size,
        .metadata = {m->bytes.p, m->bytes.n},
        .count = m->count,
        .err = err != NULL ? err : &own,
    };
    memcpy(w.header, f->parts[0].header, sizeof w.header);
    enum hk_status st = plan_places(&w, w.err);
    if (st == HK_OK && !write_edit(&w))
        st = w.err->status;
    hk_buf_free(&w.block);
    return st;
}
