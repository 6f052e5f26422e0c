/* tool_io.c: standard output. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

static int output_error; /* errno of what failed first */

static ssize_t write_output(void *unused, const char *p, size_t n)
{
    (void)unused;
    if (tool_write(STDOUT_FILENO, p, n))
        return (ssize_t)n;
    if (output_error == 0)
        output_error = errno;
    return 0;
}

static int close_output(void *unused)
{
    (void)unused;
    if (close(STDOUT_FILENO) == 0)
        return 0;
    if (output_error == 0)
        output_error = errno;
    return EOF;
}

/* stdio's own stream loses what a descriptor that does not block does not take at once, and the
 * reason of a failure. */
void tool_output_begin(void)
{
    static char buffer[1 << 16];
    static bool begun;
    if (begun)
        return;
    begun = true;
    fflush(stdout);
    FILE *out = fopencookie(NULL, "w",
                            (cookie_io_functions_t){.write = write_output, .close = close_output});
    if (out == NULL)
        tool_nomem();
    setvbuf(out, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
    stdout = out;
}

int tool_end(int status)
{
    tool_progress_end();
    const bool printed = fflush(stdout) == 0 && ferror(stdout) == 0;
    const bool closed = fclose(stdout) == 0;
    if ((printed && closed) || output_error == EPIPE)
        return status;
    tool_warn("standard output", "cannot write: %s",
              output_error != 0 ? strerror(output_error) : "unknown error");
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
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return HK_OK;
    const int reason = output_error != 0 ? output_error : EIO;
    output_error = 0;
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

void tool_tell_reading(const char *what)
{
    if (isatty(STDIN_FILENO) != 0)
        tool_note(NULL, "reading %s from the terminal; Ctrl-D on a line of its own ends it", what);
}
