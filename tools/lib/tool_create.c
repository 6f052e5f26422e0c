/* tool_create.c: files that programs write; what may not be written over. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/tool.h"

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static bool is_part_of(const char *path, const struct hk_file *f)
{
    for (size_t i = 0; i < hk_file_parts(f); i++) {
        const char *part = hk_file_part_path(f, i);
        if (part != NULL && same_file(path, part))
            return true;
    }
    return false;
}

/* Whether OUTPUT is a file of the model that INPUT leads to, or its index. */
static bool is_file_of_model(const char *output, const char *input)
{
    struct hk_file *model = NULL, *other = NULL;
    struct hk_error err;
    struct stat in, out;
    if (stat(output, &out) != 0 || !S_ISREG(out.st_mode) || stat(input, &in) != 0 ||
        (!S_ISREG(in.st_mode) && !S_ISDIR(in.st_mode)) || hk_open_set(&model, input, &err) != HK_OK)
        return false;
    bool is = is_part_of(output, model);
    if (!is && hk_open_set(&other, output, &err) == HK_OK) {
        const char *first = hk_file_part_path(other, 0);
        is = first != NULL && is_part_of(first, model);
    }
    hk_close(&other);
    hk_close(&model);
    return is;
}

bool tool_is_in_directory(const char *path, const char *dir)
{
    struct stat in, parent;
    char *copy = strdup(path);
    if (copy == NULL)
        tool_nomem();
    char *slash = strrchr(copy, '/');
    if (slash != NULL)
        slash[slash == copy] = '\0';
    const bool inside = stat(dir, &in) == 0 && S_ISDIR(in.st_mode) &&
                        stat(slash != NULL ? copy : ".", &parent) == 0 &&
                        parent.st_dev == in.st_dev && parent.st_ino == in.st_ino;
    free(copy);
    return inside;
}

/* Whether PATH is the file NAME in DIR, or with PATH NULL whether there is one. */
static bool is_named_in(const char *path, const char *dir, size_t dir_length, const char *name)
{
    char *file;
    if (asprintf(&file, "%.*s/%s", (int)dir_length, dir, name) < 0)
        tool_nomem();
    const bool is = path != NULL ? same_file(path, file) : access(file, F_OK) == 0;
    free(file);
    return is;
}

/* Whether OUTPUT, which is there, lies in directory INPUT and that has the form of a Hugging Face
 * model or of a PEFT adapter. */
static bool is_in_model_directory(const char *output, const char *input)
{
    const size_t n = strlen(input);
    char *real = realpath(output, NULL);
    const bool inside = real != NULL && tool_is_in_directory(real, input);
    free(real);
    return inside && (is_named_in(NULL, input, n, "config.json") ||
                      is_named_in(NULL, input, n, "adapter_config.json"));
}

/* Whether OUTPUT belongs to INPUT beside its tensors: anything in a directory of a model or
 * adapter, and of an adapter's file its configuration and its directory. */
static bool is_side_file(const char *output, const char *input)
{
    struct stat out, in;
    if (stat(output, &out) != 0 || stat(input, &in) != 0)
        return false;
    if (S_ISDIR(in.st_mode))
        return S_ISREG(out.st_mode) && is_in_model_directory(output, input);
    const char *slash = strrchr(input, '/'), *dir = slash != NULL ? input : ".";
    const size_t n = slash != NULL ? (size_t)(slash - input) : 1;
    return is_named_in(NULL, dir, n, "adapter_config.json") &&
           (is_named_in(output, dir, n, "adapter_config.json") || is_named_in(output, dir, n, ""));
}

enum hk_status tool_check_output(const char *path, const char *input, struct hk_error *err)
{
    if (tool_is_standard(input))
        input = "/dev/stdin";
    if (same_file(path, input) || is_file_of_model(path, input))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
    if (is_side_file(path, input))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "the output is the input: a file of its directory");
    return HK_OK;
}

static bool is_terminal(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISCHR(st.st_mode))
        return false;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool terminal = fd >= 0 && isatty(fd);
    if (fd >= 0)
        close(fd);
    return terminal;
}

/* A FIFO or device has no temporary file, and may be waited for until it can be opened. */
static bool is_written_directly(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* With the deadly signals blocked: there is no moment at which the file exists and is not known. */
static enum hk_status create_with_known_name(struct hk_out **out, const char *path, bool replace,
                                             struct hk_error *err)
{
    struct hk_out *made;
    enum hk_status status = hk_out_create(&made, path, replace ? HK_OUT_REPLACE : 0, err);
    if (status != HK_OK)
        return status;
    const char *name = hk_out_temporary(made);
    char *copy = name != NULL ? strdup(name) : NULL;
    if (name != NULL && copy == NULL) {
        hk_out_discard(&made);
        return hk_fail_nomem(err);
    }
    tool_remove_at_death(copy);
    *out = made;
    return HK_OK;
}

enum hk_status tool_create(struct hk_out **out, const char *path, const char *input, bool replace,
                           struct hk_error *err)
{
    bool standard = tool_is_standard(path);
    if (standard ? isatty(STDOUT_FILENO) != 0 : is_terminal(path))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "binary data is not written to a terminal: redirect it or name a file");
    if (standard)
        return hk_out_fd(out, STDOUT_FILENO, err);
    enum hk_status status = input != NULL ? tool_check_output(path, input, err) : HK_OK;
    if (status != HK_OK)
        return status;
    if (is_written_directly(path))
        return hk_out_create(out, path, replace ? HK_OUT_REPLACE : 0, err);
    sigset_t before;
    tool_hold_signals(&before);
    status = create_with_known_name(out, path, replace, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
