/* Stages whose process was killed: whoever owns one keeps it locked, so one that can be locked is
 * nobody's, and goes when the next files are written to its place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/set/save.h"

enum { RANDOM_DIGITS = 8 };

/* Whether NAME is that of OWN, N bytes of "BEGIN" and random digits and "END", with other digits.
 */
static bool is_alike(const char *name, const char *own, size_t n)
{
    const size_t end = strlen(HK_STAGE_END), digits = n - end - RANDOM_DIGITS;
    return strlen(name) == n && memcmp(name, own, digits) == 0 &&
           strspn(name + digits, "0123456789abcdef") == RANDOM_DIGITS &&
           strcmp(name + n - end, HK_STAGE_END) == 0;
}

/* Unlink what is in directory FD, which is closed. DEPTH more levels may be in it. */
static void empty_directory(int fd, int depth)
{
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            unlinkat(dirfd(d), e->d_name, 0) == 0 || depth == 0)
            continue;
        int inner = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0)
            continue;
        empty_directory(inner, depth - 1);
        unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    }
    closedir(d);
}

/* Remove NAME in directory AT if it is this user's and nobody has it locked. */
static void remove_unowned(int at, const char *name)
{
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    int copy = -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) {
        empty_directory(copy, 1);
        unlinkat(at, name, AT_REMOVEDIR);
    }
    close(fd);
}

void hk_stage_remove_stale(const struct hk_stage *s)
{
    const char *end = s->temp + strlen(s->temp) - 1, *own = end; /* at its last slash */
    while (own > s->temp && own[-1] != '/')
        own--;
    DIR *d = opendir(s->target[0] != '\0' ? s->target : ".");
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (is_alike(e->d_name, own, (size_t)(end - own)))
            remove_unowned(dirfd(d), e->d_name);
    closedir(d);
}

int hk_stage_lock(const char *path)
{
    struct stat held, there;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* or cannot be */
    if (locked && fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino)
        return fd;
    close(fd);
    return -1;
}
