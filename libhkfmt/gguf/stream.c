/* A GGUF from a pipe: the head is held in memory and parsed again each time it turns out longer
 * than what was read, with twice the bytes, so that all attempts together cost no more than two. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"

enum { FIRST_READ = 64 * 1024, SKIP_SIZE = 64 * 1024 };

struct hk_stream {
    int fd;
    uint8_t *buf; /* the first HAVE bytes of the file; keys and strings point into it */
    uint64_t have;
    uint64_t at;   /* bytes taken from FD */
    uint64_t read; /* end of what hk_stream_read() gave last */
};

static void free_stream(struct hk_stream *s)
{
    free(s->buf);
    free(s);
}

/* Read up to N bytes, fewer only at the end. */
static enum hk_status read_full(struct hk_stream *s, void *buf, size_t n, size_t *got,
                                struct hk_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = read(s->fd, (uint8_t *)buf + done, n - done);
        if (some < 0 && errno == EINTR)
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

/* Twice as many bytes as before. *ENDED: there were no more. */
static enum hk_status read_more(struct hk_stream *s, bool *ended, struct hk_error *err)
{
    size_t room = s->have == 0 ? FIRST_READ : 2 * (size_t)s->have, got;
    uint8_t *buf = realloc(s->buf, room);
    if (buf == NULL)
        return hk_fail_nomem(err);
    s->buf = buf;
    enum hk_status st = read_full(s, buf + s->have, room - (size_t)s->have, &got, err);
    if (st != HK_OK)
        return st;
    s->have += got;
    *ended = s->have < room;
    return HK_OK;
}

static void forget(struct hk_file *f)
{
    free(f->kvs);
    free(f->tensors);
    hk_arena_free(&f->arena);
    f->kvs = NULL;
    f->tensors = NULL;
    f->kv_count = f->tensor_count = 0;
    f->header = (struct hk_header){0};
}

static enum hk_status check_magic(const struct hk_stream *s, struct hk_error *err)
{
    if (s->have >= 4 && memcmp(s->buf, "GGUF", 4) == 0)
        return HK_OK;
    if (s->have == 0)
        return hk_fail(err, HK_E_FORMAT, 0, "not a GGUF file: it is empty");
    const char *what = hk_sniff(s->buf, s->have);
    return hk_fail(err, HK_E_FORMAT, 0, "not a GGUF file: %s%s",
                   what != NULL ? "this is " : "no known magic", what != NULL ? what : "");
}

static enum hk_status read_head(struct hk_file *f, struct hk_error *err)
{
    struct hk_stream *s = f->stream;
    for (;;) {
        bool ended = false, short_of = false;
        uint64_t head;
        enum hk_status st = read_more(s, &ended, err);
        if (st == HK_OK)
            st = check_magic(s, err);
        if (st != HK_OK)
            return st;
        forget(f);
        f->parts[0].map = s->buf;
        f->parts[0].size = s->have;
        st = hk_parse_gguf(f, true, &short_of, &head, err);
        f->parts[0].map = NULL;
        f->parts[0].size = 0;
        if (st == HK_OK || !short_of || ended)
            return st;
        if (s->have >= GGUF_MAX_STREAM_HEAD)
            return hk_fail(err, HK_E_RANGE, s->have,
                           "the head of a stream has to end within %d MiB",
                           GGUF_MAX_STREAM_HEAD >> 20);
    }
}

static enum hk_status index_names(struct hk_file *f, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_build_indexes(f, &reporter, err);
    return st != HK_OK ? st : capture.status;
}

enum hk_status hk_open_stream(struct hk_file **out, int fd, struct hk_error *err)
{
    struct hk_part none = {.fd = -1};
    struct hk_file *f = hk_file_of(&none);
    struct hk_stream *s = calloc(1, sizeof *s);
    if (f == NULL || s == NULL) {
        free(s);
        hk_close(&f);
        return hk_fail_nomem(err);
    }
    s->fd = fd;
    f->stream = s;
    f->free_stream = free_stream;
    enum hk_status st = read_head(f, err);
    if (st == HK_OK)
        st = index_names(f, err);
    if (st != HK_OK) {
        hk_close(&f);
        return st;
    }
    *out = f;
    return HK_OK;
}

static enum hk_status ended(const struct hk_stream *s, uint64_t need, struct hk_error *err)
{
    return hk_fail(err, HK_E_RANGE, s->at, "the stream ends at byte %llu, before byte %llu",
                   (unsigned long long)s->at, (unsigned long long)need);
}

/* Drop bytes up to OFFSET. */
static enum hk_status skip_to(struct hk_stream *s, uint64_t offset, struct hk_error *err)
{
    uint8_t scratch[SKIP_SIZE];
    while (s->at < offset) {
        uint64_t left = offset - s->at;
        size_t want = left < sizeof scratch ? (size_t)left : sizeof scratch, got;
        enum hk_status st = read_full(s, scratch, want, &got, err);
        if (st != HK_OK)
            return st;
        if (got < want)
            return ended(s, offset, err);
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
    enum hk_status st = skip_to(s, offset + known, err);
    size_t got = 0;
    if (st == HK_OK)
        st = read_full(s, (uint8_t *)buf + known, n - known, &got, err);
    if (st != HK_OK)
        return st;
    return got < n - known ? ended(s, end, err) : HK_OK;
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
    st = read_full(s, next + n, sizeof next - n, &got, err);
    if (st != HK_OK || n + got < sizeof next || !hk_starts_model(next, UINT64_MAX))
        return st;
    return hk_fail(err, HK_E_FORMAT, end, HK_SEVERAL_FILES);
}
