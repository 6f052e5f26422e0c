/* tool_open.c: models that programs open, and what they say while they wait for others to let go of
 * one. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

static enum hk_status open_model_operand(struct hk_file **out, const char *path,
                                         struct hk_error *err)
{
    struct tool_input in;
    enum hk_status st = tool_input(&in, path, TOOL_NEED_MODEL, err);
    if (st != HK_OK)
        return st;
    return in.fd < 0 ? hk_open_set(out, in.path, err) : hk_open_fd(out, in.fd, err);
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
    tool_note(arg, "note: %s", text);
}

void tool_tell_defaults(const char *file, const struct hk_file *f)
{
    hk_defaults(f, warn_default, (void *)(uintptr_t)file);
}

/* ---- waiting ---- */

/* The first N bytes of a small file of /proc as text; false where there is none. */
static bool read_proc_file(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : -1;
    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Whether descriptor NAME of process PID is FILE and holds a lock. */
static bool holds_lock(const char *pid, const char *name, const struct stat *file)
{
    char path[600], info[4096];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%.20s/fd/%.255s", pid, name);
    if (stat(path, &st) != 0 || st.st_dev != file->st_dev || st.st_ino != file->st_ino)
        return false;
    snprintf(path, sizeof path, "/proc/%.20s/fdinfo/%.255s", pid, name);
    return read_proc_file(path, info, sizeof info) && strstr(info, "OFDLCK") != NULL;
}

static bool process_holds_lock(const char *pid, const struct stat *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (const struct dirent *e; dir != NULL && !found && (e = readdir(dir)) != NULL;)
        found = e->d_name[0] != '.' && holds_lock(pid, e->d_name, file);
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* " (hk-run, process 123)" of the first process that has the file locked, as far as we may know. */
static void find_lock_holder(int fd, char *out, size_t n)
{
    struct stat file;
    DIR *dir = fstat(fd, &file) == 0 ? opendir("/proc") : NULL;
    out[0] = '\0';
    for (const struct dirent *e; dir != NULL && out[0] == '\0' && (e = readdir(dir)) != NULL;) {
        char path[64], name[64];
        if (!isdigit((unsigned char)e->d_name[0]) || atol(e->d_name) == (long)getpid() ||
            !process_holds_lock(e->d_name, &file))
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/comm", e->d_name);
        if (!read_proc_file(path, name, sizeof name))
            continue;
        name[strcspn(name, "\n")] = '\0';
        snprintf(out, n, " (%s, process %.20s)", name, e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
}

static void warn_waiting(void *path, int fd, const char *whom)
{
    char holder[128];
    find_lock_holder(fd, holder, sizeof holder);
    tool_note((const char *)path, "waiting: %s%s", whom, holder);
}

struct hk_wait tool_wait(const char *path, bool no_wait)
{
    return (struct hk_wait){.size = sizeof(struct hk_wait),
                            .no_wait = no_wait,
                            .notice = warn_waiting,
                            .arg = (void *)(uintptr_t)path};
}
