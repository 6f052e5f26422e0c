/* What is asked of the system beyond POSIX. (qsort_r(), asprintf() and reallocarray() are in its
 * edition of 2024.) */
#include "libhkfmt/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/random.h>
#endif

/* ---- locks ---- */

int hk_sys_lock_byte(int fd, off_t at, int type)
{
#ifdef F_OFD_SETLK
    struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int result;
    do
        result = fcntl(fd, F_OFD_SETLK, &l);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
#else
    (void)fd, (void)at, (void)type;
    return ENOLCK;
#endif
}

bool hk_sys_is_locked(int fd, off_t at)
{
#ifdef F_OFD_GETLK
    struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
#else
    (void)fd, (void)at;
    return false;
#endif
}

/* ---- files without a name ---- */

int hk_sys_open_unnamed(const char *directory)
{
#ifdef O_TMPFILE
    if (access("/proc/self/fd", X_OK) == 0) /* by which it is named later */
        return open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
#else
    (void)directory;
#endif
    return -1;
}

bool hk_sys_name_file(int fd, const char *name)
{
    char self[40];
    hk_sys_path_of_fd(self, fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

int hk_sys_open_memory(const char *name)
{
#ifdef MFD_CLOEXEC
    return memfd_create(name, MFD_CLOEXEC);
#else
    FILE *file = tmpfile();
    int fd = file != NULL ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 3) : -1;
    (void)name;
    if (file != NULL)
        fclose(file);
    return fd;
#endif
}

/* ---- names ---- */

void hk_sys_path_of_fd(char path[40], int fd)
{
#ifdef __linux__
    snprintf(path, 40, "/proc/self/fd/%d", fd);
#else
    snprintf(path, 40, "/dev/fd/%d", fd);
#endif
}

int hk_sys_reopen(int fd)
{
#ifdef __linux__ /* elsewhere such a path may give a duplicate, which shares FD's position */
    char path[40];
    hk_sys_path_of_fd(path, fd);
    int own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (own >= 0)
        return own;
#endif
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

bool hk_sys_rename_new(const char *from, const char *to)
{
#ifdef RENAME_NOREPLACE
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
#else
    return link(from, to) == 0 && unlink(from) == 0;
#endif
}

bool hk_sys_exchange(const char *a, const char *b)
{
#ifdef RENAME_EXCHANGE
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a, (void)b;
    errno = ENOSYS;
    return false;
#endif
}

/* ---- bytes ---- */

bool hk_sys_try_again(int fd, bool writing)
{
    struct pollfd p = {.fd = fd, .events = writing ? POLLOUT : POLLIN};
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN)
        return false;
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

ssize_t hk_sys_copy(int from, off_t *from_at, int to, size_t n)
{
#ifdef __linux__
    ssize_t done;
    do
        done = copy_file_range(from, from_at, to, NULL, n, 0);
    while (done < 0 && errno == EINTR);
    return done;
#else
    (void)from, (void)from_at, (void)to, (void)n;
    errno = ENOSYS;
    return -1;
#endif
}

bool hk_sys_cannot_copy(int sys)
{
    return sys == EXDEV || sys == EINVAL || sys == ENOSYS || sys == EOPNOTSUPP || sys == EBADF ||
           sys == EPERM || sys == ETXTBSY;
}

#ifdef MADV_DONTNEED
static void advise_pages(const void *p, size_t n, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)p + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)p + n) / page * page;
    if (from < to)
        (void)madvise((void *)from, to - from, advice);
}
#endif

bool hk_sys_is_resident(const void *p)
{
#ifdef MADV_DONTNEED
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char state = 1;
    return mincore((void *)((uintptr_t)p / page * page), 1, &state) != 0 || (state & 1) != 0;
#else
    (void)p;
    return true;
#endif
}

void hk_sys_read_ahead(const void *p, size_t n)
{
#ifdef MADV_DONTNEED
    advise_pages(p, n, MADV_WILLNEED);
#else
    (void)p, (void)n;
#endif
}

void hk_sys_let_go(const void *p, size_t n)
{
#ifdef MADV_DONTNEED
    advise_pages(p, n, MADV_DONTNEED);
#else
    (void)p, (void)n;
#endif
}

void hk_sys_expect_random(const void *p, size_t n)
{
#ifdef MADV_DONTNEED
    advise_pages(p, n, MADV_RANDOM);
#else
    (void)p, (void)n;
#endif
}

void hk_sys_forget(int fd, off_t at, off_t n)
{
#ifdef POSIX_FADV_DONTNEED
    (void)posix_fadvise(fd, at, n, POSIX_FADV_DONTNEED);
#else
    (void)fd, (void)at, (void)n;
#endif
}

/* ---- others ---- */

uint32_t hk_sys_random(void)
{
    uint32_t random = 0;
#ifdef __linux__
    if (getrandom(&random, sizeof random, 0) == sizeof random)
        return random;
#endif
    random = (uint32_t)getpid();
    return random;
}

const char *hk_sys_error_text(int sys, char *text, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(sys, text, size);
#else
    return strerror_r(sys, text, size) == 0 ? text : "unknown error";
#endif
}
