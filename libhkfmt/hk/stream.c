/* Bytes of a pipe. */
#include "libhkfmt/hk/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/cursor.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/hk/file.h"

enum { FIRST_READ = 64 * 1024, SKIP_SIZE = 64 * 1024 };

static void free_stream(struct hk_stream *s)
{
    free(s->buf);
    free(s);
}

enum hk_status hk_stream_attach(struct hk_file *f, int fd, struct hk_error *err)
{
    f->stream = calloc(1, sizeof *f->stream);
    if (f->stream == NULL)
        return hk_fail_nomem(err);
    f->stream->fd = fd;
    f->free_stream = free_stream;
    return HK_OK;
}

/* Take up to N bytes, fewer only at the end. */
static enum hk_status read_from_pipe(struct hk_stream *s, void *buf, size_t n, size_t *got,
                                     struct hk_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = read(s->fd, (uint8_t *)buf + done, n - done);
        if (some < 0 && hk_sys_try_again(s->fd, false))
            continue;
        if (some < 0)
            return hk_fail_sys(err, errno, "cannot read");
        if (some == 0)
            break;
        done += (size_t)some;
    }
    s->at += done;
    *got = done;
    return HK_OK;
}

enum hk_status hk_stream_read_more(struct hk_stream *s, bool *ended, struct hk_error *err)
{
    size_t room = s->have == 0 ? FIRST_READ : 2 * (size_t)s->have, got;
    uint8_t *buf = realloc(s->buf, room);
    if (buf == NULL)
        return hk_fail_nomem(err);
    s->buf = buf;
    enum hk_status st = read_from_pipe(s, buf + s->have, room - (size_t)s->have, &got, err);
    if (st != HK_OK)
        return st;
    s->have += got;
    *ended = s->have < room;
    return HK_OK;
}

static enum hk_status fail_ended(const struct hk_stream *s, uint64_t need, struct hk_error *err)
{
    return hk_fail(err, HK_E_RANGE, s->at, "the stream ends at byte %llu, before byte %llu",
                   (unsigned long long)s->at, (unsigned long long)need);
}

/* Drop bytes up to OFFSET. */
static enum hk_status skip_to_offset(struct hk_stream *s, uint64_t offset, struct hk_error *err)
{
    uint8_t scratch[SKIP_SIZE];
    while (s->at < offset) {
        uint64_t left = offset - s->at;
        size_t want = left < sizeof scratch ? (size_t)left : sizeof scratch, got;
        enum hk_status st = read_from_pipe(s, scratch, want, &got, err);
        if (st != HK_OK)
            return st;
        if (got < want)
            return fail_ended(s, offset, err);
    }
    return HK_OK;
}

enum hk_status hk_stream_read(struct hk_file *f, uint64_t offset, void *buf, size_t n,
                              struct hk_error *err)
{
    struct hk_stream *s = f->stream;
    uint64_t end;
    if (s == NULL || offset < s->read || !add_ok(offset, n, &end))
        return hk_fail(err, HK_E_USE, offset, "a stream is read forwards only");
    size_t known = 0;
    if (offset < s->have) {
        uint64_t left = s->have - offset;
        known = left < n ? (size_t)left : n;
        memcpy(buf, s->buf + offset, known);
    }
    s->read = end;
    if (end <= s->have)
        return HK_OK;
    enum hk_status st = skip_to_offset(s, offset + known, err);
    size_t got = 0;
    if (st == HK_OK)
        st = read_from_pipe(s, (uint8_t *)buf + known, n - known, &got, err);
    if (st != HK_OK)
        return st;
    return got < n - known ? fail_ended(s, end, err) : HK_OK;
}

/* The bytes that were read with the head are looked at first. */
enum hk_status hk_stream_finish(struct hk_file *f, uint64_t end, struct hk_error *err)
{
    struct hk_stream *s = f->stream;
    uint8_t next[16];
    size_t n = 0, got = 0;
    enum hk_status st = hk_stream_read(f, end, next, 0, err);
    if (st != HK_OK)
        return st;
    if (end < s->have) {
        n = s->have - end < sizeof next ? (size_t)(s->have - end) : sizeof next;
        memcpy(next, s->buf + end, n);
    }
    st = read_from_pipe(s, next + n, sizeof next - n, &got, err);
    if (st != HK_OK || n + got < sizeof next || !hk_starts_model(next, UINT64_MAX))
        return st;
    return hk_fail(err, HK_E_FORMAT, end, HK_SEVERAL_FILES);
}
