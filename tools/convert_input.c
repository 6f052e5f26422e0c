/* convert_input.c: what hk-convert reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/convert.h"

/* Whether a pipe at standard input begins as a GGUF; what was looked at stays in it. Fewer bytes
 * than the magic may become anything yet. */
static bool is_gguf_pipe(void)
{
    static const char magic[4] = "GGUF";
    struct stat st;
    int copy[2];
    char start[sizeof magic];
    if (fstat(STDIN_FILENO, &st) != 0 || !S_ISFIFO(st.st_mode) || pipe2(copy, O_CLOEXEC) != 0)
        return false;
    ssize_t n;
    do
        n = tee(STDIN_FILENO, copy[1], sizeof start, 0);
    while (n < 0 && errno == EINTR);
    bool same = n == sizeof start && read(copy[0], start, sizeof start) == n &&
                memcmp(start, magic, sizeof start) == 0;
    close(copy[0]);
    close(copy[1]);
    return same;
}

/* Only these two are written in the order of the input's bytes, and to one file. */
static bool takes_stream(const struct convert_job *j)
{
    const bool alike = j->to == HK_FORMAT_GGUF || (j->to == HK_FORMAT_HK && !j->options.decode);
    return alike && j->options.split_size == 0;
}

enum hk_status convert_open(struct hk_file **out, const struct convert_job *j, struct hk_error *err)
{
    if (convert_is_standard(j->in) && takes_stream(j) && is_gguf_pipe())
        return hk_open_stream(out, STDIN_FILENO, err);
    struct hk_file *f;
    enum hk_status status = tool_open(&f, j->in, err);
    if (status != HK_OK)
        return status;
    const unsigned shards = hk_file_header(f)->split_count;
    if (convert_is_standard(j->in) && shards > 1) {
        hk_close(&f);
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "one of %u shards, which are converted together", shards);
    }
    *out = f;
    return HK_OK;
}

void convert_hint(const struct convert_job *j, const struct hk_file *f)
{
    const char *slash = strrchr(j->in, '/');
    struct stat st;
    char *config;
    if (convert_is_standard(j->in) || hk_file_format(f) != HK_FORMAT_SAFETENSORS ||
        (stat(j->in, &st) == 0 && S_ISDIR(st.st_mode)))
        return;
    if (asprintf(&config, "%.*sconfig.json", slash != NULL ? (int)(slash - j->in) + 1 : 0, j->in) <
        0)
        tool_nomem();
    if (stat(config, &st) == 0)
        tool_warn(j->in, "only its tensors are converted; with the config.json beside it, the "
                         "directory is a model");
    free(config);
}
