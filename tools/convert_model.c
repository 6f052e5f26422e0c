/* convert_model.c: what hk-convert reads and writes where IN is a model. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/convert.h"

/* ---- opening ---- */

/* Copy what PIPE begins with, which stays in it. */
static ssize_t look_at_pipe(int pipe, const int copy[2], char *start, size_t n)
{
    struct pollfd more = {.fd = pipe, .events = POLLIN};
    ssize_t got;
    do
        got = tee(pipe, copy[1], n, 0);
    while (got < 0 && (errno == EINTR || (errno == EAGAIN && poll(&more, 1, -1) >= 0)));
    return got > 0 ? read(copy[0], start, (size_t)got) : got;
}

/* Whether PIPE begins as a format that is read from one. Fewer bytes than a magic may become
 * anything yet. */
static bool is_streamed_pipe(int pipe)
{
    int copy[2];
    char start[16];
    enum hk_format format;
    if (pipe < 0 || pipe2(copy, O_CLOEXEC) != 0)
        return false;
    const ssize_t n = look_at_pipe(pipe, copy, start, sizeof start);
    const bool streamed = n > 0 && hk_format_by_start(start, (size_t)n, &format) &&
                          (hk_format_traits(format) & HK_TRAIT_STREAMED) != 0;
    close(copy[0]);
    close(copy[1]);
    return streamed;
}

/* Only these two are written in the order of the input's bytes, and to one file. */
static bool can_convert_stream(const struct convert_job *j)
{
    const bool alike = j->to == HK_FORMAT_GGUF || (j->to == HK_FORMAT_HK && !j->options.decode);
    return alike && j->options.split_size == 0;
}

static void note_left_out(void *in, const char *name)
{
    tool_note(in, "note: left out: %s", name);
}

enum hk_status convert_open(struct hk_file **out, const struct convert_job *j, struct hk_error *err)
{
    if (j->raw)
        return hk_open_raw(out, j->in, note_left_out, (void *)(uintptr_t)j->in, err);
    int pipe = -1;
    enum hk_status status = can_convert_stream(j) ? tool_input_pipe(&pipe, j->in, err) : HK_OK;
    if (status == HK_OK && is_streamed_pipe(pipe))
        return hk_open_stream(out, pipe, err);
    struct hk_file *f;
    if (status == HK_OK)
        status = tool_open(&f, j->in, err);
    if (status != HK_OK)
        return status;
    const unsigned shards = hk_file_header(f)->split_count;
    if (shards > 1 && hk_file_parts(f) == 1) {
        hk_close(&f);
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "is one of %u shards: the others are needed too", shards);
    }
    *out = f;
    return HK_OK;
}

void convert_hint(const struct convert_job *j, const struct hk_file *f)
{
    const char *slash = strrchr(j->in, '/');
    struct stat st;
    char *config;
    if (hk_file_format(f) != HK_FORMAT_SAFETENSORS || stat(j->in, &st) != 0 ||
        !S_ISREG(st.st_mode) || tool_is_standard_input(j->in))
        return;
    if (asprintf(&config, "%.*sconfig.json", slash != NULL ? (int)(slash - j->in) + 1 : 0, j->in) <
        0)
        tool_nomem();
    if (stat(config, &st) == 0)
        tool_note(j->in, "only its tensors are converted: the model is its directory, with the "
                         "config.json");
    free(config);
}

/* ---- writing ---- */

/* A failure in the middle lies in the input unless writing failed. */
int convert_failed(const struct convert_job *j, const struct hk_error *err)
{
    bool reading = err->status != HK_E_USE &&
                   (err->status != HK_E_IO || strncmp(err->text, "cannot read", 11) == 0);
    if (!reading && tool_is_standard(j->out) && err->sys == EPIPE)
        return TOOL_OK; /* the reader has seen enough */
    return tool_error(reading ? j->in : tool_output_name(j->out), err);
}

/* ---- to what is written straight on: standard output, pipes, devices, or from a stream ---- */

/* tool_create() looks at named outputs; standard output may be the input too. */
static bool stdout_is_input(const struct convert_job *j)
{
    struct stat in, out;
    const char *path = tool_is_standard_input(j->in) ? "/dev/stdin" : j->in;
    return tool_is_standard(j->out) && stat(path, &in) == 0 && S_ISREG(in.st_mode) &&
           fstat(STDOUT_FILENO, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static enum hk_status create_converted(struct hk_out **out, const struct convert_job *j,
                                       struct hk_error *err)
{
    if (stdout_is_input(j))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
    return tool_create(out, j->out, j->in, j->force, err);
}

static int write_converted_stream(const struct convert_job *j, struct hk_file *f)
{
    struct hk_out *out;
    struct hk_error err;
    if (create_converted(&out, j, &err) != HK_OK)
        return tool_error(tool_output_name(j->out), &err);
    if (hk_convert(f, j->to, &j->options, out, &err) != HK_OK) {
        hk_out_discard(&out);
        return convert_failed(j, &err);
    }
    return hk_out_commit(&out, &err) == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

/* ---- to files ---- */

/* What stands in the directory that is converted is part of the input, also what is no file of
 * tensors; and further tensors would make it another model. */
static bool is_in_input_directory(const struct convert_job *j)
{
    struct stat out;
    return tool_is_in_directory(j->out, j->in) &&
           (j->to == HK_FORMAT_SAFETENSORS || (stat(j->out, &out) == 0 && !S_ISDIR(out.st_mode)));
}

static int save_model_files(const struct convert_job *j, struct hk_file *f)
{
    struct hk_convert_options options = j->options;
    struct hk_error err;
    options.replace = j->force;
    options.stop = tool_catch_stop();
    enum hk_status status = is_in_input_directory(j)
                                ? hk_fail(&err, HK_E_USE, HK_NO_OFFSET,
                                          "the output is the input: a file in its directory")
                                : hk_save(f, j->out, j->to, &options, &err);
    tool_die_if_stopped();
    return status == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

/* A place that one file, several or a directory can take. */
static bool takes_files(const struct convert_job *j)
{
    struct stat st;
    if (tool_is_standard(j->out))
        return false;
    return (hk_format_traits(j->to) & HK_TRAIT_DIRECTORY) || j->options.split_size > 0 ||
           stat(j->out, &st) != 0 || S_ISREG(st.st_mode);
}

int convert_write(const struct convert_job *j, struct hk_file *f)
{
    return takes_files(j) && !hk_file_is_stream(f) ? save_model_files(j, f)
                                                   : write_converted_stream(j, f);
}
