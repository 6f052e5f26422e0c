/* output.c: text and numbers onto standard output. */
#include "tools/lib/output.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/lib/tool.h"

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
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "binary data is not written to a terminal");
    return HK_OK;
}
