/* tool_io.c: files of the command line: standard input and output, outputs that a signal removes.
 */
#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- standard output ---- */

/* stdio does not keep the reason of an earlier failure; a pipe without a reader shows as an error
 * condition of the descriptor. */
static bool reader_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    struct stat st;
    bool pipe = fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    return pipe && poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

int tool_end(int status)
{
    bool failed = ferror(stdout) != 0;
    int reason = 0;
    if (fflush(stdout) != 0) {
        failed = true;
        reason = errno;
    }
    bool left = failed && reason == 0 && reader_left();
    if (fclose(stdout) != 0 && !failed) {
        failed = true;
        reason = errno;
    }
    if (!failed || reason == EPIPE || left)
        return status;
    tool_warn("standard output", "%s", reason != 0 ? strerror(reason) : "write error");
    return TOOL_TROUBLE;
}

/* ---- standard input ---- */

enum hk_status tool_temporary(int *out, struct hk_error *err)
{
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || dir[0] == '\0')
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* a file system without unnamed files */
        char *name;
        if (asprintf(&name, "%s/hk-XXXXXX", dir) < 0)
            return hk_fail_nomem(err);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
        free(name);
    }
    if (fd < 0)
        return hk_fail_sys(err, errno, "temporary file in %s", dir);
    *out = fd;
    return HK_OK;
}

static bool write_whole(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Read until N bytes are there or the input ends; -1 with errno. */
static ssize_t read_up_to(char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = read(STDIN_FILENO, p + done, n - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return -1;
        if (some == 0)
            break;
        done += (size_t)some;
    }
    return (ssize_t)done;
}

/* .hk, GGUF, or the length and the brace of a safetensors header, which is at most 100 MB. */
static bool begins_as_model(const char *p)
{
    bool small = memcmp(p + 4, "\0\0\0\0{", 5) == 0 && (unsigned char)p[3] < 6;
    return small || memcmp(p, "HKNT", 4) == 0 || memcmp(p, "GGUF", 4) == 0;
}

/* What does not begin as a model is copied no further than it takes to say what it is: it may be
 * without end. */
static enum hk_status spool_standard_input(int to, struct hk_error *err)
{
    enum { CHUNK = 1 << 18 };
    char *buffer = malloc(CHUNK);
    if (buffer == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = HK_OK;
    bool model = true;
    for (bool first = true; model && status == HK_OK; first = false) {
        ssize_t n = read_up_to(buffer, CHUNK);
        if (n < 0)
            status = hk_fail_sys(err, errno, "read");
        else if (!write_whole(to, buffer, (size_t)n))
            status = hk_fail_sys(err, errno, "temporary copy");
        if (n < CHUNK)
            break;
        if (first)
            model = begins_as_model(buffer);
    }
    free(buffer);
    return status;
}

enum hk_status tool_stdin(int *fd, struct hk_error *err)
{
    static int spooled = -1;
    struct stat st;
    if (fstat(STDIN_FILENO, &st) != 0)
        return hk_fail_sys(err, errno, "cannot read");
    if (S_ISREG(st.st_mode)) {
        *fd = STDIN_FILENO;
        return HK_OK;
    }
    if (isatty(STDIN_FILENO))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is a terminal, not a model");
    if (spooled < 0) {
        int copy = -1;
        enum hk_status status = tool_temporary(&copy, err);
        if (status == HK_OK && (status = spool_standard_input(copy, err)) != HK_OK)
            close(copy);
        if (status != HK_OK)
            return status;
        spooled = copy;
    }
    *fd = spooled;
    return HK_OK;
}

static enum hk_status open_model_operand(struct hk_file **out, const char *path,
                                         struct hk_error *err)
{
    if (strcmp(path, "-") != 0)
        return hk_open_set(out, path, err);
    int fd;
    enum hk_status status = tool_stdin(&fd, err);
    return status == HK_OK ? hk_open_fd(out, fd, err) : status;
}

/* A file that is changed between the two is opened again: it is one that is changed all the time if
 * that happens so often. */
enum hk_status tool_open_kept(struct hk_file **out, const char *path, unsigned keep,
                              struct hk_error *err)
{
    enum { ATTEMPTS = 1000 };
    struct hk_error own;
    struct hk_error *why = err != NULL ? err : &own;
    for (unsigned i = 0;; i++) {
        enum hk_status st = open_model_operand(out, path, why);
        if (st != HK_OK || keep == 0 || (st = hk_file_keep(*out, keep, why)) == HK_OK)
            return st;
        hk_close(out);
        if (why->sys != ESTALE || i >= ATTEMPTS)
            return st;
    }
}

enum hk_status tool_open(struct hk_file **out, const char *path, struct hk_error *err)
{
    return tool_open_kept(out, path, HK_KEEP_RECORDS, err);
}

static void warn_default(void *arg, const char *text)
{
    tool_warn(arg, "note: %s", text);
}

void tool_tell_defaults(const char *file, const struct hk_file *f)
{
    hk_defaults(f, warn_default, (void *)(uintptr_t)file);
}

/* ---- outputs ---- */

static const int deadly[] = {SIGHUP, SIGINT, SIGTERM};
enum { DEADLY = sizeof deadly / sizeof *deadly };
static char *temporary; /* changed only while the deadly signals are blocked */

void tool_unlink_temporary(void)
{
    if (temporary != NULL)
        unlink(temporary);
}

static void remove_and_die(int sig)
{
    tool_unlink_temporary();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* A signal that was ignored when the program started (nohup) stays ignored. */
static void catch_signals(void (*handler)(int))
{
    for (size_t i = 0; i < DEADLY; i++) {
        struct sigaction act;
        if (sigaction(deadly[i], NULL, &act) == 0 && act.sa_handler == SIG_IGN)
            continue;
        act = (struct sigaction){.sa_handler = handler};
        sigfillset(&act.sa_mask);
        sigaction(deadly[i], &act, NULL);
    }
}

static volatile sig_atomic_t stopped; /* by this signal */
static volatile sig_atomic_t stoppable;

static void note_stop_signal(int sig)
{
    stopped = sig;
}

bool tool_stop_for(int sig)
{
    if (stoppable != 0)
        stopped = sig;
    return stoppable != 0;
}

const volatile sig_atomic_t *tool_catch_stop(void)
{
    catch_signals(note_stop_signal);
    stoppable = 1;
    return &stopped;
}

void tool_die_if_stopped(void)
{
    stoppable = 0;
    if (stopped == 0)
        return;
    if (stopped == SIGBUS) /* told by then */
        exit(TOOL_TROUBLE);
    signal(stopped, SIG_DFL);
    raise(stopped);
}

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
    free(temporary);
    temporary = copy;
    *out = made;
    return HK_OK;
}

enum hk_status tool_create(struct hk_out **out, const char *path, const char *input, bool replace,
                           struct hk_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    if (standard ? isatty(STDOUT_FILENO) != 0 : is_terminal(path))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "binary data is not written to a terminal");
    if (standard)
        return hk_out_fd(out, STDOUT_FILENO, err);
    if (input != NULL && strcmp(input, "-") == 0)
        input = "/dev/stdin";
    if (input != NULL && (same_file(path, input) || is_file_of_model(path, input)))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
    if (is_written_directly(path))
        return hk_out_create(out, path, replace ? HK_OUT_REPLACE : 0, err);
    catch_signals(remove_and_die);
    sigset_t block, before;
    sigemptyset(&block);
    for (size_t i = 0; i < DEADLY; i++)
        sigaddset(&block, deadly[i]);
    sigprocmask(SIG_BLOCK, &block, &before);
    enum hk_status status = create_with_known_name(out, path, replace, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
