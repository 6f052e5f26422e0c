/* tool_create.c: files that programs write, which a signal removes; and the signal of a mapped file
 * that another program makes shorter, which ends this one with a message. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/tool.h"

/* ---- signals ---- */

static const int deadly[] = {SIGHUP, SIGINT, SIGTERM};
enum { DEADLY = sizeof deadly / sizeof *deadly };
static char *temporary; /* changed only while the deadly signals are blocked */

static void unlink_temporary(void)
{
    if (temporary != NULL)
        unlink(temporary);
}

static void remove_and_die(int sig)
{
    unlink_temporary();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* A signal that was ignored when the program started (nohup) stays ignored. */
static void catch_signals(void (*handler)(int), int flags, const int *sig, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sigaction act;
        if (sigaction(sig[i], NULL, &act) == 0 && act.sa_handler == SIG_IGN)
            continue;
        act = (struct sigaction){.sa_handler = handler, .sa_flags = flags};
        sigfillset(&act.sa_mask);
        sigaction(sig[i], &act, NULL);
    }
}

static volatile sig_atomic_t stopped; /* by this signal */
static volatile sig_atomic_t stoppable;

static void note_stop_signal(int sig)
{
    stopped = sig;
}

static bool stop_for_signal(int sig)
{
    if (stoppable != 0)
        stopped = sig;
    return stoppable != 0;
}

const volatile sig_atomic_t *tool_catch_stop(void)
{
    catch_signals(note_stop_signal, 0, deadly, DEADLY);
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

static volatile sig_atomic_t interrupted; /* by this signal */

static void note_interrupt(int sig)
{
    interrupted = sig;
    catch_signals(remove_and_die, 0, deadly, DEADLY);
}

const volatile sig_atomic_t *tool_catch_interrupt(void)
{
    static const int gentle[] = {SIGINT, SIGTERM};
    catch_signals(note_interrupt, SA_RESTART, gentle, sizeof gentle / sizeof *gentle);
    return &interrupted;
}

int tool_interrupted(int sig)
{
    return 128 + sig;
}

/* ---- a file made shorter: what happens in the handler is made of system calls only ---- */

static char whose[64]; /* "hk-inspect: " */

struct mapping {
    uintptr_t start, end;
    char path[1024]; /* empty: of no file */
};

static uintptr_t read_hex_address(const char **p)
{
    uintptr_t v = 0;
    for (;; (*p)++) {
        int digit = **p >= '0' && **p <= '9'   ? **p - '0'
                    : **p >= 'a' && **p <= 'f' ? **p - 'a' + 10
                                               : -1;
        if (digit < 0)
            return v;
        v = v * 16 + (uintptr_t)digit;
    }
}

/* START-END PERMISSIONS OFFSET DEVICE INODE PATH: the path is what begins with a slash. */
static bool read_mapping_line(const char *line, uintptr_t at, struct mapping *m)
{
    const char *p = line;
    m->start = read_hex_address(&p);
    p += *p == '-';
    m->end = read_hex_address(&p);
    if (at < m->start || at >= m->end)
        return false;
    while (*p != '\0' && *p != '/')
        p++;
    size_t n = 0;
    for (; p[n] != '\0' && n + 1 < sizeof m->path; n++)
        m->path[n] = (unsigned char)p[n] < ' ' || p[n] == 0x7f ? '?' : p[n];
    m->path[n] = '\0';
    return true;
}

/* The mapping of this process that AT is in. Lines that are longer than any path are cut. */
static bool find_mapping(uintptr_t at, struct mapping *m)
{
    char buffer[512], line[1200];
    size_t used = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool found = false;
    for (ssize_t n; fd >= 0 && !found && (n = read(fd, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < n && !found; i++) {
            if (buffer[i] != '\n') {
                if (used + 1 < sizeof line)
                    line[used++] = buffer[i];
                continue;
            }
            line[used] = '\0';
            used = 0;
            found = read_mapping_line(line, at, m);
        }
    if (fd >= 0)
        close(fd);
    return found;
}

static void say_truncated(const char *path)
{
    static const char text[] = ": another program made it shorter while it was read\n";
    char line[sizeof whose + sizeof((struct mapping *)0)->path + sizeof text];
    size_t n = 0;
    const char *const parts[] = {whose, path, text};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *p = parts[i]; *p != '\0' && n < sizeof line; p++)
            line[n++] = *p;
    (void)!write(STDERR_FILENO, line, n);
}

/* Zeros in place of what is gone, so that work that is told to stop can end as it does. */
static bool fill_gone(const struct mapping *m, uintptr_t at)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = at - at % page;
    void *p = mmap((void *)from, m->end - from, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    return p != MAP_FAILED;
}

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t said; /* by the first of several threads */
    const uintptr_t at = (uintptr_t)info->si_addr;
    struct mapping m;
    (void)context;
    if (info->si_code != BUS_ADRERR || !find_mapping(at, &m) || m.path[0] == '\0') {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    if (__sync_lock_test_and_set(&said, 1) == 0)
        say_truncated(m.path);
    if (stop_for_signal(sig) && fill_gone(&m, at))
        return;
    unlink_temporary();
    _exit(TOOL_TROUBLE);
}

void tool_catch_truncation(const char *program)
{
    struct sigaction act = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const size_t n = strnlen(program, sizeof whose - 3);
    memcpy(whose, program, n);
    memcpy(whose + n, ": ", 3);
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, NULL);
}

/* ---- outputs ---- */

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
        return hk_fail_sys(err, errno, "cannot create a temporary file in %s", dir);
    *out = fd;
    return HK_OK;
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
    free(temporary);
    temporary = copy;
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
    catch_signals(remove_and_die, 0, deadly, DEADLY);
    sigset_t block, before;
    sigemptyset(&block);
    for (size_t i = 0; i < DEADLY; i++)
        sigaddset(&block, deadly[i]);
    sigprocmask(SIG_BLOCK, &block, &before);
    status = create_with_known_name(out, path, replace, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
