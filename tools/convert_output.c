/* convert_output.c: what hk-convert writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/convert.h"

bool convert_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *convert_shown(const char *path, const char *standard)
{
    return convert_is_standard(path) ? standard : path;
}

/* A failure in the middle lies in the input unless writing failed. */
int convert_failed(const struct convert_job *j, const struct hk_error *err)
{
    bool reading = err->status != HK_E_USE &&
                   (err->status != HK_E_IO || strncmp(err->text, "cannot read", 11) == 0);
    if (!reading && convert_is_standard(j->out) && err->sys == EPIPE)
        return TOOL_OK; /* the reader has seen enough */
    return tool_error(reading ? convert_shown(j->in, "standard input")
                              : convert_shown(j->out, "standard output"),
                      err);
}

/* ---- to what is written straight on: standard output, pipes, devices, or from a stream ---- */

/* tool_create() looks at named outputs; standard output may be the input too. */
static bool writes_over_input(const struct convert_job *j)
{
    struct stat in, out;
    const char *path = convert_is_standard(j->in) ? "/dev/stdin" : j->in;
    return convert_is_standard(j->out) && stat(path, &in) == 0 && S_ISREG(in.st_mode) &&
           fstat(STDOUT_FILENO, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static enum hk_status create_output(struct hk_out **out, const struct convert_job *j,
                                    struct hk_error *err)
{
    if (writes_over_input(j))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
    return tool_create(out, j->out, j->in, j->force, err);
}

static int write_through(const struct convert_job *j, struct hk_file *f)
{
    struct hk_out *out;
    struct hk_error err;
    if (create_output(&out, j, &err) != HK_OK)
        return tool_error(convert_shown(j->out, "standard output"), &err);
    if (hk_convert(f, j->to, &j->options, out, &err) != HK_OK) {
        hk_out_discard(&out);
        return convert_failed(j, &err);
    }
    return hk_out_commit(&out, &err) == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

/* ---- to files ---- */

/* What stands in the directory that is converted is part of the input, also what is no file of
 * tensors; and further tensors would make it another model. */
static bool is_in_input(const struct convert_job *j)
{
    struct stat in, out, parent;
    char *copy = strdup(j->out);
    if (copy == NULL)
        tool_nomem();
    char *slash = strrchr(copy, '/');
    if (slash != NULL)
        slash[slash == copy] = '\0';
    bool inside = stat(j->in, &in) == 0 && S_ISDIR(in.st_mode) &&
                  stat(slash != NULL ? copy : ".", &parent) == 0 && parent.st_dev == in.st_dev &&
                  parent.st_ino == in.st_ino;
    free(copy);
    return inside &&
           (j->to == HK_FORMAT_SAFETENSORS || (stat(j->out, &out) == 0 && !S_ISDIR(out.st_mode)));
}

static int save(const struct convert_job *j, struct hk_file *f)
{
    struct hk_convert_options options = j->options;
    struct hk_error err;
    options.replace = j->force;
    options.stop = tool_catch_stop();
    enum hk_status status = is_in_input(j)
                                ? hk_fail(&err, HK_E_USE, HK_NO_OFFSET,
                                          "the output is the input: a file of its directory")
                                : hk_save(f, j->out, j->to, &options, &err);
    tool_die_if_stopped();
    return status == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

/* A place that one file, several or a directory can take. */
static bool is_place(const struct convert_job *j)
{
    struct stat st;
    if (convert_is_standard(j->out))
        return false;
    return j->to == HK_FORMAT_HF || j->options.split_size > 0 || stat(j->out, &st) != 0 ||
           S_ISREG(st.st_mode);
}

int convert_write(const struct convert_job *j, struct hk_file *f)
{
    return is_place(j) && !hk_file_is_stream(f) ? save(j, f) : write_through(j, f);
}
