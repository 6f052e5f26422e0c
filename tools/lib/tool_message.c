/* tool_message.c: what programs say on standard error: messages, how far work is. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

static const char *program = "hk"; /* its name, of tool_begin() */
static enum { PLAIN, QUIET, VERBOSE } talk;

void tool_message_begin(const char *name)
{
    program = name;
}

void tool_be_quiet(void)
{
    talk = QUIET;
}

void tool_be_verbose(void)
{
    talk = VERBOSE;
}

bool tool_quiet(void)
{
    return talk == QUIET;
}

bool tool_verbose(void)
{
    return talk == VERBOSE;
}

bool tool_wants_statistics(void)
{
    return talk != QUIET && (talk == VERBOSE || isatty(STDERR_FILENO) != 0);
}

/* One write for a whole line, so that lines of programs in a pipeline do not mix. */
__attribute__((format(printf, 3, 0))) static void write_message(const char *file, const char *end,
                                                                const char *fmt, va_list ap)
{
    char *text = NULL, *line = NULL;
    size_t size;
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL) {
        static const char text_of_all[] = "out of memory\n";
        (void)tool_write(STDERR_FILENO, text_of_all, sizeof text_of_all - 1);
        free(text);
        return;
    }
    fprintf(out, "%s: ", program);
    if (file != NULL) {
        tool_escape(out, hk_bytes_of(tool_is_standard(file) ? "standard input" : file));
        fputs(": ", out);
    }
    tool_escape(out, hk_bytes_of(text != NULL ? text : fmt));
    fprintf(out, "%s\n", end);
    tool_clear_bar();
    if (fclose(out) == 0)
        (void)tool_write(STDERR_FILENO, line, size);
    free(line);
    free(text);
}

void tool_warn(const char *file, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_message(file, "", fmt, ap);
    va_end(ap);
}

void tool_note(const char *file, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!tool_quiet())
        write_message(file, "", fmt, ap);
    va_end(ap);
}

void tool_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_message(NULL, " (try --help)", fmt, ap);
    va_end(ap);
    exit(TOOL_TROUBLE);
}

void tool_nomem(void)
{
    tool_warn(NULL, "out of memory");
    exit(TOOL_TROUBLE);
}

int tool_error(const char *file, const struct hk_error *err)
{
    if (err->status == HK_E_IO && err->sys == EPIPE)
        return TOOL_OK;
    if (err->offset != HK_NO_OFFSET)
        tool_warn(file, "%s, at 0x%llx", err->text, (unsigned long long)err->offset);
    else
        tool_warn(file, "%s", err->text);
    switch (err->status) {
    case HK_E_IO:
    case HK_E_NOMEM:
    case HK_E_USE:
        return TOOL_TROUBLE;
    default:
        return TOOL_CONTENT;
    }
}

bool tool_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *tool_output_name(const char *path)
{
    return tool_is_standard(path) ? "standard output" : path;
}

void tool_warn_lost(const char *path, const char *text)
{
    tool_note(tool_output_name(path), "lost: %s", text);
}

int tool_worse(int a, int b)
{
    return a > b ? a : b;
}
