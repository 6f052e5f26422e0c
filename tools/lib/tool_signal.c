/* tool_signal.c: signals that end a program, which leaves no temporary file and no bar; and that of
 * a mapped file that another program makes shorter, which ends it with a message. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static volatile sig_atomic_t bar; /* one stands on standard error */

void tool_clear_bar(void)
{
    if (bar != 0)
        (void)tool_write(STDERR_FILENO, "\r\033[K", 4);
    bar = 0;
}

static void clean_and_die(int sig)
{
    unlink_temporary();
    tool_clear_bar();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* A signal that was ignored when the program started (nohup) stays ignored. */
static void catch_signal(int sig, void (*handler)(int), int flags, bool caught_too)
{
    struct sigaction act;
    if (sigaction(sig, NULL, &act) == 0 &&
        (act.sa_handler == SIG_IGN || (act.sa_handler != SIG_DFL && !caught_too)))
        return;
    act = (struct sigaction){.sa_handler = handler, .sa_flags = flags};
    sigfillset(&act.sa_mask);
    sigaction(sig, &act, NULL);
}

static void catch_signals(void (*handler)(int), bool caught_too)
{
    for (size_t i = 0; i < DEADLY; i++)
        catch_signal(deadly[i], handler, 0, caught_too);
}

/* Who catches the signals already clears the bar too. */
void tool_mark_bar(void)
{
    if (bar == 0)
        catch_signals(clean_and_die, false);
    bar = 1;
}

void tool_hold_signals(sigset_t *before)
{
    sigset_t block;
    catch_signals(clean_and_die, true);
    sigemptyset(&block);
    for (size_t i = 0; i < DEADLY; i++)
        sigaddset(&block, deadly[i]);
    sigprocmask(SIG_BLOCK, &block, before);
}

void tool_remove_at_death(char *path)
{
    free(temporary);
    temporary = path;
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
    catch_signals(note_stop_signal, true);
    stoppable = 1;
    return &stopped;
}

void tool_die_if_stopped(void)
{
    stoppable = 0;
    if (stopped == 0)
        return;
    tool_clear_bar();
    if (stopped == SIGBUS) /* told by then */
        exit(TOOL_TROUBLE);
    signal(stopped, SIG_DFL);
    raise(stopped);
}

static volatile sig_atomic_t interrupted; /* by this signal */

static void note_interrupt(int sig)
{
    interrupted = sig;
    catch_signals(clean_and_die, true);
}

const volatile sig_atomic_t *tool_catch_interrupt(void)
{
    catch_signal(SIGINT, note_interrupt, SA_RESTART, true);
    catch_signal(SIGTERM, note_interrupt, SA_RESTART, true);
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
    tool_clear_bar();
    (void)tool_write(STDERR_FILENO, line, n);
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
