/* tool_format.c: the format that an output is written in: --to, else what its name says. */
#include <string.h>
#include <sys/stat.h>

#include "tools/lib/tool.h"

static bool is_directory_name(const char *path)
{
    struct stat st;
    const size_t n = strlen(path);
    return (n > 0 && path[n - 1] == '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

enum hk_format tool_format(const char *value, bool *peft)
{
    enum { PEFT = 4 };
    static const char *const names[] = {"hk", "gguf", "safetensors", "hf", [PEFT] = "peft"};
    static const enum hk_format formats[] = {HK_FORMAT_HK, HK_FORMAT_GGUF, HK_FORMAT_SAFETENSORS,
                                             HK_FORMAT_HF, [PEFT] = HK_FORMAT_HF};
    const size_t choice = tool_choice(value, names, PEFT + (peft != NULL));
    if (peft != NULL)
        *peft = choice == PEFT;
    return formats[choice];
}

enum hk_format tool_output_format(const char *path, const enum hk_format *to)
{
    enum hk_format format = HK_FORMAT_HK;
    if (to != NULL)
        return *to;
    if (tool_is_standard(path) || (hk_format_by_extension(path, &format) && format != HK_FORMAT_HK))
        return format;
    return is_directory_name(path) ? HK_FORMAT_HF : HK_FORMAT_HK;
}

/* Whether the last part of PATH has an extension, and nothing else is said about a file: a
 * device or a FIFO is no name that was mistyped. */
static bool has_extension(const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot > name && (stat(path, &st) != 0 || S_ISREG(st.st_mode));
}

void tool_check_format(const char *path, enum hk_format format)
{
    static const char index[] = ".index.json";
    const size_t n = strlen(path), m = sizeof index - 1;
    if (tool_is_standard(path) && (hk_format_traits(format) & HK_TRAIT_DIRECTORY))
        tool_usage("standard output is one file, not several: name a directory");
    if (n >= m && strcmp(path + n - m, index) == 0)
        tool_usage("%s is the name of an index, not of a model", path);
}

void tool_note_format(const char *path, enum hk_format format, bool given)
{
    enum hk_format named;
    if (tool_is_standard(path))
        return;
    if (hk_format_by_extension(path, &named)) {
        if (named != format)
            tool_note(path, "written as %s, not as its extension says", hk_format_name(format));
    } else if (!given && format == HK_FORMAT_HK && has_extension(path))
        tool_note(path, "written as hk: unknown extension; --to names the format");
}
