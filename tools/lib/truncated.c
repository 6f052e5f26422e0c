/* truncated.c: a mapped file that another program makes shorter ends this one with a message. What
 * happens in the signal's handler is made of system calls only. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/lib/tool.h"

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
    if (tool_stop_for(sig) && fill_gone(&m, at))
        return;
    tool_unlink_temporary();
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
