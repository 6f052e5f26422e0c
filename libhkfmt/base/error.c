/* Errors: one line of text, safe for a terminal, with a code and an offset. */
#include "libhkfmt/base/error.h"

#include <stdio.h>
#include <string.h>

#include "libhkfmt/base/sys.h"
#include "libhkfmt/hkmodel.h"

const char *hk_status_name(enum hk_status s)
{
    static const char *const names[] = {
        [HK_OK] = "ok",
        [HK_E_IO] = "io",
        [HK_E_NOMEM] = "memory",
        [HK_E_FORMAT] = "format",
        [HK_E_RANGE] = "range",
        [HK_E_CHECKSUM] = "checksum",
        [HK_E_UNSUPPORTED] = "unsupported",
        [HK_E_USE] = "use",
        [HK_E_MISSING] = "missing",
    };
    return (size_t)s < sizeof names / sizeof *names ? names[s] : "unknown";
}

const char *hk_version(void)
{
    return HK_VERSION;
}

/* Control characters, and what is not UTF-8, are written as \xNN: names come from files and end up
 * on terminals. */
static bool is_plain_character(const unsigned char *s, size_t n)
{
    if (n == 1)
        return s[0] >= 0x20 && s[0] != 0x7f;
    bool c1_control = n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
    return n > 1 && !c1_control;
}

void hk_vline(char *text, size_t size, const char *fmt, va_list ap)
{
    char raw[512];
    int made = vsnprintf(raw, sizeof raw, fmt, ap);
    if (made < 0)
        raw[0] = '\0';
    size_t at = 0;
    const unsigned char *end = (const unsigned char *)raw + strlen(raw);
    for (const unsigned char *s = (const unsigned char *)raw; s < end;) {
        size_t n = hk_utf8_length(s, end);
        bool plain = is_plain_character(s, n);
        size_t need = plain ? n : 4;
        if (at + need >= size)
            break;
        if (plain)
            memcpy(text + at, s, n);
        else
            snprintf(text + at, 5, "\\x%02x", *s);
        at += need;
        s += plain ? n : 1;
    }
    text[at] = '\0';
}

static void fill_error(struct hk_error *err, enum hk_status st, int sys, uint64_t offset)
{
    err->status = st;
    err->sys = sys;
    err->offset = offset;
}

enum hk_status hk_fail(struct hk_error *err, enum hk_status st, uint64_t offset, const char *fmt,
                       ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        fill_error(err, st, 0, offset);
        hk_vline(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return st;
}

enum hk_status hk_fail_sys(struct hk_error *err, int sys, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        fill_error(err, HK_E_IO, sys, HK_NO_OFFSET);
        hk_vline(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        size_t used = strlen(err->text);
        char reason[128];
        const char *text = hk_sys_error_text(sys, reason, sizeof reason);
        snprintf(err->text + used, sizeof err->text - used, "%s%s", used > 0 ? ": " : "", text);
    }
    return HK_E_IO;
}

enum hk_status hk_fail_nomem(struct hk_error *err)
{
    return hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "out of memory");
}
