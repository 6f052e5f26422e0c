/* hk-convert: a model file as .hk or GGUF, whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

enum { OPT_ALIGN, OPT_FORCE, OPT_TO };

static const struct tool_option options[] = {
    [OPT_ALIGN] = {"align", 0, "N", "let payloads begin at multiples of N bytes (a power of two)"},
    [OPT_FORCE] = {"force", 'f', NULL, "replace OUT if it exists"},
    [OPT_TO] = {"to", 0, "FORMAT", "write FORMAT, hk or gguf, whatever OUT is called"},
};

static const struct tool tool = {
    .name = "hk-convert",
    .operands = "IN OUT",
    .about = "Convert a model file between .hk and GGUF; - is standard input or output.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *in, *out;
    enum hk_format to;
    bool to_given, force;
    struct hk_convert_options options;
};

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static enum hk_format format_option(const char *value)
{
    if (strcmp(value, "hk") == 0)
        return HK_FORMAT_HK;
    if (strcmp(value, "gguf") != 0)
        tool_usage("--to takes hk or gguf, not '%s'", value);
    return HK_FORMAT_GGUF;
}

static uint32_t align_option(const char *value)
{
    uint64_t n = tool_uint("align", value, 1, HK_MAX_ALIGNMENT);
    if ((n & (n - 1)) != 0)
        tool_usage("--align takes a power of two, not %llu", (unsigned long long)n);
    return (uint32_t)n;
}

static enum hk_format format_of_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".safetensors") == 0)
        tool_usage("safetensors is not written; --to hk gives %s another format than its name",
                   path);
    return dot != NULL && strcmp(dot, ".gguf") == 0 ? HK_FORMAT_GGUF : HK_FORMAT_HK;
}

/* The first byte of a pipe at standard input, which stays in it; 0 where there is none. */
static char peek_pipe(void)
{
    struct stat st;
    int copy[2];
    char first = 0;
    if (fstat(STDIN_FILENO, &st) != 0 || !S_ISFIFO(st.st_mode) || pipe2(copy, O_CLOEXEC) != 0)
        return 0;
    ssize_t n;
    do
        n = tee(STDIN_FILENO, copy[1], 1, 0);
    while (n < 0 && errno == EINTR);
    if (n != 1 || read(copy[0], &first, 1) != 1)
        first = 0;
    close(copy[0]);
    close(copy[1]);
    return first;
}

/* A GGUF from a pipe is taken as it comes; a .hk has to be mapped. */
static enum hk_status open_input(struct hk_file **out, const char *path, struct hk_error *err)
{
    if (is_standard(path) && peek_pipe() == 'G')
        return hk_open_stream(out, STDIN_FILENO, err);
    return tool_open(out, path, err);
}

/* tool_create() looks at named outputs; standard output may be the input too. */
static bool writes_over_input(const struct job *j)
{
    struct stat in, out;
    const char *path = is_standard(j->in) ? "/dev/stdin" : j->in;
    return is_standard(j->out) && stat(path, &in) == 0 && S_ISREG(in.st_mode) &&
           fstat(STDOUT_FILENO, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static enum hk_status create_output(struct hk_out **out, const struct job *j, struct hk_error *err)
{
    if (writes_over_input(j))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
    return tool_create(out, j->out, is_standard(j->in) ? "/dev/stdin" : j->in, j->force, err);
}

static void show_progress(void *arg, uint64_t done, uint64_t all)
{
    (void)arg;
    tool_progress("converting", done, all);
}

static const char *shown(const char *path, const char *standard)
{
    return is_standard(path) ? standard : path;
}

/* A failure in the middle lies in the input unless writing failed. */
static int failed(const struct job *j, const struct hk_error *err)
{
    bool reading = err->status != HK_E_IO || strncmp(err->text, "cannot read", 11) == 0;
    if (!reading && is_standard(j->out) && err->sys == EPIPE)
        return TOOL_OK; /* the reader has seen enough */
    return tool_error(reading ? shown(j->in, "standard input") : shown(j->out, "standard output"),
                      err);
}

static int convert(const struct job *j, struct hk_file *f)
{
    struct hk_out *out;
    struct hk_error err;
    if (create_output(&out, j, &err) != HK_OK)
        return tool_error(shown(j->out, "standard output"), &err);
    if (hk_convert(f, j->to, &j->options, out, &err) != HK_OK) {
        hk_out_discard(&out);
        return failed(j, &err);
    }
    return hk_out_commit(&out, &err) == HK_OK ? TOOL_OK : failed(j, &err);
}

static int run(const struct job *j)
{
    struct hk_file *f;
    struct hk_error err;
    if (open_input(&f, j->in, &err) != HK_OK)
        return tool_error(shown(j->in, "standard input"), &err);
    int status = convert(j, f);
    hk_close(&f);
    return status;
}

int main(int argc, char **argv)
{
    struct job j = {.options = {.progress = show_progress}};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        if (o == OPT_FORCE)
            j.force = true;
        else if (o == OPT_ALIGN)
            j.options.alignment = align_option(value);
        else {
            j.to = format_option(value);
            j.to_given = true;
        }
    }
    if (args.operand_count != 2)
        tool_usage("IN and OUT are needed, %d given", args.operand_count);
    j.in = args.operands[0];
    j.out = args.operands[1];
    if (!j.to_given)
        j.to = format_of_name(j.out);
    return tool_end(run(&j));
}
