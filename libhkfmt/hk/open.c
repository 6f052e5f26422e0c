/* Opening files. A .hk others may be changing: its head is copied under the readers' lock or, where
 * there are no locks, until it was the same before and after. */
#include "libhkfmt/hk/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/base/out.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/stream.h"
#include "libhkfmt/hk/wire.h"

enum { ATTEMPTS = 1000, PAUSE_NS = 10 * 1000 * 1000 };

/* Whether the head of F is still what was copied. */
static bool is_head_unchanged(const struct hk_file *f)
{
    const struct hk_part *part = &f->parts[0];
    struct stat st;
    uint8_t now[HK_HEADER_SIZE];
    const size_t n = part->size < sizeof now ? (size_t)part->size : sizeof now;
    return fstat(part->fd, &st) == 0 && (uint64_t)st.st_size >= part->size &&
           pread(part->fd, now, n, 0) == (ssize_t)n && memcmp(now, part->header, n) == 0;
}

/* *AGAIN: it changed meanwhile. */
static enum hk_status copy_head_once(struct hk_file **out, int fd, hk_copy_fn *copy, void *arg,
                                     bool locked, bool *again, struct hk_error *err)
{
    struct hk_part part;
    enum hk_status st = hk_map_fd(&part, fd, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = hk_file_of(&part);
    if (f == NULL)
        return hk_fail_nomem(err);
    const struct hk_source src = {.fd = f->parts[0].fd, .size = f->parts[0].size};
    st = copy(arg, f, &src, err);
    *again = !locked && !is_head_unchanged(f);
    if (st != HK_OK || *again)
        hk_close(&f);
    else
        *out = f;
    return st;
}

static enum hk_status copy_head_unlocked(struct hk_file **out, int fd, hk_copy_fn *copy, void *arg,
                                         struct hk_error *err)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        bool again = false;
        enum hk_status st = copy_head_once(out, fd, copy, arg, false, &again, err);
        if (!again)
            return st;
        if (i > 3)
            nanosleep(&pause, NULL);
    }
    return hk_fail(err, HK_E_IO, HK_NO_OFFSET,
                   "another program keeps changing it, and its file system has no locks");
}

enum hk_status hk_open_hk(struct hk_file **out, int fd, unsigned keep, hk_copy_fn *copy, void *arg,
                          struct hk_error *err)
{
    bool locked, again = false;
    enum hk_status st = (keep & HK_KEEP_RECORDS) != 0 ? hk_lock_payloads(fd, err) : HK_OK;
    if (st == HK_OK)
        st = hk_lock_heads(fd, &locked, err);
    if (st != HK_OK)
        return st;
    if (!locked)
        return copy_head_unlocked(out, fd, copy, arg, err);
    st = copy_head_once(out, fd, copy, arg, true, &again, err);
    if (st != HK_OK || (keep & HK_KEEP_FILE) == 0)
        hk_unlock_heads(fd);
    return st;
}

/* ---- any format ---- */

enum hk_format hk_format_of_fd(int fd)
{
    uint8_t first[HK_MODEL_START] = {0};
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || pread(fd, first, sizeof first, 0) < 9)
        return HK_FORMAT_HK;
    return hk_format_of(first, (uint64_t)st.st_size);
}

enum hk_status hk_open_path(int *out, const char *path, struct hk_error *err)
{
    /* Not blocking, so that a FIFO is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot open");
    *out = fd;
    return HK_OK;
}

enum hk_status hk_reopen_fd(int *out, int fd, struct hk_error *err)
{
    int own = hk_sys_reopen(fd);
    if (own < 0)
        return hk_fail_sys(err, errno, "cannot open");
    *out = own;
    return HK_OK;
}

/* Build F's indexes, the first name that occurs again being an error. */
static enum hk_status index_strictly(struct hk_file *f, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_build_indexes(f, &reporter, err);
    return st != HK_OK ? st : capture.status;
}

static enum hk_status parse_opened_hk(void *arg, struct hk_file *f, const struct hk_source *src,
                                      struct hk_error *err)
{
    (void)arg;
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_parse(f, src, false, &reporter, err);
    return st != HK_OK ? st : capture.status;
}

/* Open PART, which nobody changes, as FORMAT. */
static enum hk_status open_unchanged_part(struct hk_file **out, struct hk_part *part,
                                          enum hk_format format, struct hk_error *err)
{
    const struct hk_format_row *row = hk_format_row(format);
    struct hk_file *f = hk_file_of(part);
    if (f == NULL)
        return hk_fail_nomem(err);
    const struct hk_source src = {.fd = -1, .bytes = f->parts[0].map, .size = f->parts[0].size};
    enum hk_status st =
        row->parse == NULL ? parse_opened_hk(NULL, f, &src, err) : row->parse(f, err);
    if (st == HK_OK && row->parse != NULL)
        st = index_strictly(f, err);
    if (st != HK_OK) {
        hk_close(&f);
        return st;
    }
    *out = f;
    return HK_OK;
}

/* FD is our own, and closed; what the file needs of it is duplicated. */
static enum hk_status open_own_fd(struct hk_file **out, int fd, struct hk_error *err)
{
    const enum hk_format format = hk_format_of_fd(fd);
    const bool changes = hk_format_row(format)->parse == NULL;
    struct hk_part part;
    enum hk_status st =
        changes ? hk_open_hk(out, fd, 0, parse_opened_hk, NULL, err) : hk_map_fd(&part, fd, err);
    close(fd);
    return changes || st != HK_OK ? st : open_unchanged_part(out, &part, format, err);
}

enum hk_status hk_open(struct hk_file **out, const char *path, struct hk_error *err)
{
    int fd = -1;
    enum hk_status st = hk_open_path(&fd, path, err);
    return st == HK_OK ? open_own_fd(out, fd, err) : st;
}

enum hk_status hk_open_fd(struct hk_file **out, int fd, struct hk_error *err)
{
    int own = -1;
    enum hk_status st = hk_reopen_fd(&own, fd, err);
    return st == HK_OK ? open_own_fd(out, own, err) : st;
}

enum hk_status hk_open_bytes(struct hk_file **out, struct hk_bytes bytes, struct hk_error *err)
{
    struct hk_part part = {.map = bytes.p, .size = bytes.n, .fd = -1, .borrowed = true};
    struct hk_file *f = NULL;
    enum hk_status st = open_unchanged_part(&f, &part, hk_format_of(bytes.p, bytes.n), err);
    if (st == HK_OK && f->header.split_count > 1) {
        st = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                     "one shard of %u, and nothing in memory leads to the others",
                     f->header.split_count);
        hk_close(&f);
    }
    if (st == HK_OK)
        *out = f;
    return st;
}

/* What was written to may be closed by the commit. */
enum hk_status hk_out_open(struct hk_out **out, struct hk_file **file, struct hk_error *err)
{
    const int fd = fcntl(hk_out_descriptor(*out), F_DUPFD_CLOEXEC, 3);
    const int sys = errno;
    enum hk_status st = hk_out_commit(out, err);
    if (fd < 0)
        return st != HK_OK ? st : hk_fail_sys(err, sys, "cannot duplicate descriptor");
    if (st == HK_OK)
        st = hk_open_fd(file, fd, err);
    close(fd);
    return st;
}

/* ---- a pipe ----
 * The head is held in memory and parsed again each time it turns out longer than what was read,
 * with twice the bytes, so that all attempts together cost no more than two. */

static void forget_head(struct hk_file *f)
{
    free(f->kvs);
    free(f->tensors);
    hk_arena_free(&f->arena);
    f->kvs = NULL;
    f->tensors = NULL;
    f->kv_count = f->tensor_count = 0;
    f->header = (struct hk_header){0};
}

/* The row of what S begins with, if that is read from a pipe. */
static enum hk_status find_stream_format(const struct hk_stream *s,
                                         const struct hk_format_row **out, struct hk_error *err)
{
    *out = hk_format_row(hk_format_of(s->buf, s->have));
    if ((*out)->parse_start != NULL)
        return HK_OK;
    if (s->have == 0)
        return hk_fail(err, HK_E_FORMAT, 0, "not a GGUF file: it is empty");
    const char *what = hk_sniff(s->buf, s->have);
    return hk_fail(err, HK_E_FORMAT, 0, "not a GGUF file: %s%s",
                   what != NULL ? "this is " : "no known magic", what != NULL ? what : "");
}

static enum hk_status read_stream_head(struct hk_file *f, struct hk_error *err)
{
    struct hk_stream *s = f->stream;
    const struct hk_format_row *row = NULL;
    for (;;) {
        bool ended = false, short_of = false;
        enum hk_status st = hk_stream_read_more(s, &ended, err);
        if (st == HK_OK)
            st = find_stream_format(s, &row, err);
        if (st != HK_OK)
            return st;
        forget_head(f);
        f->parts[0].map = s->buf;
        f->parts[0].size = s->have;
        st = row->parse_start(f, &short_of, err);
        f->parts[0].map = NULL;
        f->parts[0].size = 0;
        if (st == HK_OK || !short_of || ended)
            return st;
        if (s->have >= HK_MAX_STREAM_HEAD)
            return hk_fail(err, HK_E_RANGE, s->have,
                           "the head of a stream has to end within %d MiB",
                           HK_MAX_STREAM_HEAD >> 20);
    }
}

enum hk_status hk_open_stream(struct hk_file **out, int fd, struct hk_error *err)
{
    struct hk_part none = {.fd = -1};
    struct hk_file *f = hk_file_of(&none);
    if (f == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_stream_attach(f, fd, err);
    if (st == HK_OK)
        st = read_stream_head(f, err);
    if (st == HK_OK)
        st = index_strictly(f, err);
    if (st != HK_OK) {
        hk_close(&f);
        return st;
    }
    *out = f;
    return HK_OK;
}

/* ---- keeping what was opened as it is ---- */

/* Whether PART, the N-th of F, still begins as it did, and the records of the first are there. */
static bool is_part_as_opened(const struct hk_file *f, size_t n)
{
    const struct hk_part *part = &f->parts[n];
    const struct hk_source src = {.fd = part->fd, .size = part->size};
    uint8_t now[HK_HEADER_SIZE], was[HK_RECORD_HEADER_SIZE];
    struct stat st;
    if (part->size < sizeof now || fstat(part->fd, &st) != 0 || (uint64_t)st.st_size < part->size ||
        hk_source_read(&src, now, sizeof now, 0, NULL) != HK_OK ||
        memcmp(now, part->header, sizeof now) != 0)
        return false;
    for (size_t i = 0; n == 0 && i < f->record_count; i++) {
        hk_encode_record(&f->records[i], was);
        if (hk_source_read(&src, now, sizeof was, f->records[i].offset, NULL) != HK_OK ||
            memcmp(now, was, sizeof was) != 0)
            return false;
    }
    return true;
}

static enum hk_status keep_part_as_opened(const struct hk_file *f, size_t n, unsigned what,
                                          struct hk_error *err)
{
    const int fd = f->parts[n].fd;
    bool locked;
    enum hk_status st = (what & HK_KEEP_RECORDS) != 0 ? hk_lock_payloads(fd, err) : HK_OK;
    if (st == HK_OK)
        st = hk_lock_heads(fd, &locked, err);
    if (st != HK_OK)
        return st;
    bool same = is_part_as_opened(f, n);
    if ((what & HK_KEEP_FILE) == 0 || !same)
        hk_unlock_heads(fd);
    return same ? HK_OK
                : hk_fail_sys(err, ESTALE, "another program changed it after it was opened");
}

enum hk_status hk_file_keep(struct hk_file *f, unsigned what, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && f->format == HK_FORMAT_HK && i < f->part_count; i++)
        if (f->parts[i].fd >= 0)
            st = keep_part_as_opened(f, i, what, err);
    if (st != HK_OK)
        hk_file_release(f);
    return st;
}

void hk_file_release(struct hk_file *f)
{
    for (size_t i = 0; f != NULL && f->format == HK_FORMAT_HK && i < f->part_count; i++)
        if (f->parts[i].fd >= 0) {
            hk_unlock_heads(f->parts[i].fd);
            hk_unlock_payloads(f->parts[i].fd);
        }
}
