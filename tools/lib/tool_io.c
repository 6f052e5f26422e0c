/* tool_io.c: standard input and output. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/tool.h"

/* ---- standard output ---- */

/* stdio does not keep the reason of an earlier failure; a pipe without a reader shows as an error
 * condition of the descriptor. */
static bool reader_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    struct stat st;
    bool pipe = fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    return pipe && poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

int tool_end(int status)
{
    bool failed = ferror(stdout) != 0;
    int reason = 0;
    if (fflush(stdout) != 0) {
        failed = true;
        reason = errno;
    }
    bool left = failed && reason == 0 && reader_left();
    if (fclose(stdout) != 0 && !failed) {
        failed = true;
        reason = errno;
    }
    if (!failed || reason == EPIPE || left)
        return status;
    tool_warn("standard output", "%s", reason != 0 ? strerror(reason) : "write error");
    return TOOL_TROUBLE;
}

void tool_print_text(struct hk_bytes text)
{
    if (isatty(STDOUT_FILENO) == 0) {
        fwrite(text.p, 1, text.n, stdout);
        return;
    }
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t code = 0;
        n = tool_utf8(text.p + at, text.n - at, &code);
        n = n > 0 ? n : 1;
        if (text.p[at] == '\n' || text.p[at] == '\t')
            putchar(text.p[at]);
        else
            tool_escape(stdout, (struct hk_bytes){text.p + at, n});
    }
}

void tool_print_uint(uint32_t v, char end)
{
    char digits[11];
    size_t at = sizeof digits - 1;
    digits[at] = end;
    do
        digits[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    fwrite(digits + at, 1, sizeof digits - at, stdout);
}

enum hk_status tool_flush(struct hk_error *err)
{
    /* After a failure while printing, errno still has its reason: then nothing is left to flush. */
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return HK_OK;
    int reason = errno != 0 ? errno : EIO;
    clearerr(stdout);
    return hk_fail_sys(err, reason, "cannot write");
}

enum hk_status tool_no_terminal(struct hk_error *err)
{
    if (isatty(STDOUT_FILENO) != 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "binary data is not written to a terminal: redirect it");
    return HK_OK;
}

/* ---- standard input ---- */

static bool write_whole(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Read until N bytes are there or the input ends; -1 with errno. */
static ssize_t read_up_to(char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = read(STDIN_FILENO, p + done, n - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return -1;
        if (some == 0)
            break;
        done += (size_t)some;
    }
    return (ssize_t)done;
}

/* What does not begin as a model is copied no further than it takes to say what it is: it may be
 * without end. */
static enum hk_status spool_standard_input(int to, struct hk_error *err)
{
    enum { CHUNK = 1 << 18 };
    char *buffer = malloc(CHUNK);
    if (buffer == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = HK_OK;
    bool model = true;
    enum hk_format format;
    for (bool first = true; model && status == HK_OK; first = false) {
        ssize_t n = read_up_to(buffer, CHUNK);
        if (n < 0)
            status = hk_fail_sys(err, errno, "cannot read");
        else if (!write_whole(to, buffer, (size_t)n))
            status = hk_fail_sys(err, errno, "cannot write a temporary copy");
        if (n < CHUNK)
            break;
        if (first)
            model = hk_format_by_start(buffer, (size_t)n, &format);
    }
    free(buffer);
    return status;
}

enum hk_status tool_stdin(int *fd, struct hk_error *err)
{
    static int spooled = -1;
    struct stat st;
    if (fstat(STDIN_FILENO, &st) != 0)
        return hk_fail_sys(err, errno, "cannot read");
    if (S_ISREG(st.st_mode)) {
        *fd = STDIN_FILENO;
        return HK_OK;
    }
    if (isatty(STDIN_FILENO))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is a terminal, not a model");
    if (spooled < 0) {
        int copy = -1;
        enum hk_status status = tool_temporary(&copy, err);
        if (status == HK_OK && (status = spool_standard_input(copy, err)) != HK_OK)
            close(copy);
        if (status != HK_OK)
            return status;
        spooled = copy;
    }
    *fd = spooled;
    return HK_OK;
}

void tool_tell_reading(const char *what)
{
    if (isatty(STDIN_FILENO) != 0)
        tool_note(NULL, "reading %s from the terminal; Ctrl-D on a line of its own ends it", what);
}

struct buffer {
    uint8_t *p;
    size_t n, room;
};

static bool grow_input(struct buffer *b)
{
    size_t room = b->room == 0 ? 1 << 16 : b->room * 2;
    uint8_t *p = realloc(b->p, room);
    if (p == NULL)
        return false;
    b->p = p;
    b->room = room;
    return true;
}

enum hk_status tool_read_all(uint8_t **out, size_t *n, size_t most, struct hk_error *err)
{
    struct buffer b = {0};
    enum hk_status st = HK_OK;
    while (st == HK_OK) {
        if (b.n == b.room && !grow_input(&b)) {
            st = hk_fail_nomem(err);
            break;
        }
        ssize_t got = read(STDIN_FILENO, b.p + b.n, b.room - b.n);
        if (got == 0)
            break;
        if (got > 0)
            b.n += (size_t)got;
        else if (errno != EINTR)
            st = hk_fail_sys(err, errno, "cannot read");
        if (b.n > most)
            st = hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "more than %zu bytes", most);
    }
    if (st != HK_OK) {
        free(b.p);
        return st;
    }
    *out = b.p;
    *n = b.n;
    return HK_OK;
}
