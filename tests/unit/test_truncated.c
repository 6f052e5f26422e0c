/* A mapped file that becomes shorter: the message, the exit status, what is unlinked and what is
 * stopped. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tools/lib/tool.h"

enum { SIZE = 1 << 20 };

/* The byte in the middle of a file that was made empty since it was mapped. */
static int read_gone(void)
{
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, SIZE) != 0)
        _exit(9);
    const volatile uint8_t *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || ftruncate(fd, 0) != 0)
        _exit(9);
    return p[SIZE / 2] + p[SIZE - 1];
}

static void with_output(void)
{
    struct hk_out *out;
    if (tool_create(&out, "made", NULL, false, NULL) != HK_OK ||
        hk_out_write(out, "half", 4, NULL) != HK_OK)
        _exit(9);
    read_gone();
}

static void with_stop(void)
{
    const volatile sig_atomic_t *stop = tool_catch_stop();
    if (*stop != 0 || read_gone() != 0 || *stop != SIGBUS)
        _exit(9);
    tool_die_if_stopped();
}

static void with_neither(void)
{
    read_gone();
}

/* Of no file, and not what is handled. */
static void with_raise(void)
{
    raise(SIGBUS);
}

/* The exit status of WORK in a process of its own, or 128 and its signal; its message in TEXT. */
static int outcome_of(void (*work)(void), char *text, size_t n)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        exit(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        tool_catch_truncation("hk-test");
        work();
        _exit(8);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, n - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
    char directory[] = "/tmp/hk-truncated-XXXXXX", expected[400], text[600];
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        return 2;
    snprintf(expected, sizeof expected,
             "hk-test: %s/mapped: another program made it shorter while it was read\n", directory);
    ok(outcome_of(with_neither, text, sizeof text) == 2 && strcmp(text, expected) == 0,
       "a message and status 2: %s", strtok(text, "\n"));
    ok(outcome_of(with_output, text, sizeof text) == 2 && strcmp(text, expected) == 0,
       "the same with an output");
    unlink("mapped");
    ok(rmdir(directory) == 0, "which is gone, under its temporary name too");
    if (mkdir(directory, 0700) != 0 || chdir(directory) != 0)
        return 2;
    ok(outcome_of(with_stop, text, sizeof text) == 2 && strcmp(text, expected) == 0,
       "work that can be stopped is, and ends with status 2");
    ok(outcome_of(with_raise, text, sizeof text) == 128 + SIGBUS && text[0] == '\0',
       "a SIGBUS of another kind is not caught");
    unlink("mapped");
    rmdir(directory);
    return tap_done();
}
