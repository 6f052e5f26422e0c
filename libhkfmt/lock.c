/* The lock of those who change a file: flock() on the file itself, so that a kill releases it and
 * nothing is left behind. */
#include "libhkfmt/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/internal.h"

static enum hk_status open_file(int *out, const char *path, struct hk_error *err)
{
    /* Not blocking, so that a FIFO is refused instead of waited for. */
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == EISDIR)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "a directory is not edited in place; hk-convert makes a .hk of a model in "
                       "one");
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot open for writing");
    int sys = fstat(fd, &st) != 0 ? errno : 0;
    if (sys == 0 && S_ISREG(st.st_mode)) {
        *out = fd;
        return HK_OK;
    }
    close(fd);
    return sys != 0 ? hk_fail_sys(err, sys, "cannot stat")
                    : hk_fail(err, HK_E_IO, HK_NO_OFFSET, "not a regular file");
}

static bool wait_for(int fd)
{
    int result;
    do
        result = flock(fd, LOCK_EX);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* While we waited, another file may have taken the name. */
static bool still_named(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

enum hk_status hk_lock_open(int *out, const char *path, struct hk_error *err)
{
    for (;;) {
        int fd = -1;
        enum hk_status status = open_file(&fd, path, err);
        if (status != HK_OK)
            return status;
        if (!wait_for(fd)) {
            int sys = errno;
            close(fd);
            return hk_fail_sys(err, sys, "cannot lock");
        }
        if (still_named(fd, path)) {
            *out = fd;
            return HK_OK;
        }
        close(fd);
    }
}

static enum hk_status beside(const char *path, bool *out, struct hk_error *err)
{
    char *name;
    if (asprintf(&name, "%s.hkmeta-journal", path) < 0)
        return hk_fail_nomem(err);
    *out = access(name, F_OK) == 0;
    free(name);
    return HK_OK;
}

enum hk_status hk_has_journal(const char *path, bool *out, struct hk_error *err)
{
    enum hk_status status = beside(path, out, err);
    if (status != HK_OK || *out)
        return status;
    char *real = realpath(path, NULL);
    if (real == NULL)
        return HK_OK; /* nothing there any more */
    status = beside(real, out, err);
    free(real);
    return status;
}
