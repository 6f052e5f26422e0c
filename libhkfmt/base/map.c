/* Read-only mappings of regular files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/map.h"

#include "libhkfmt/hk/file.h"

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
                            : "no regular file";
}

enum hk_status hk_map_fd(struct hk_part *out, int fd, struct hk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hk_fail_sys(err, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return hk_fail(err, HK_E_IO, HK_NO_OFFSET, "not a regular file but %s",
                       kind_of(st.st_mode));
    struct hk_part part = {.size = (uint64_t)st.st_size,
                           .dev = (uint64_t)st.st_dev,
                           .ino = (uint64_t)st.st_ino,
                           .fd = -1};
    if ((uint64_t)st.st_size > SIZE_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "file too large to map");
    if (part.size > 0) {
        void *p = mmap(NULL, (size_t)part.size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            return hk_fail_sys(err, errno, "cannot map");
        part.map = p;
    }
    part.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (part.fd < 0) {
        int sys = errno;
        hk_unmap(&part);
        return hk_fail_sys(err, sys, "cannot duplicate descriptor");
    }
    *out = part;
    return HK_OK;
}

enum hk_status hk_map_path(struct hk_part *out, const char *path, struct hk_error *err)
{
    /* Not blocking, so that a FIFO is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot open");
    enum hk_status st = hk_map_fd(out, fd, err);
    close(fd);
    return st;
}

void hk_unmap(struct hk_part *part)
{
    if (part->map != NULL && !part->borrowed)
        munmap((void *)(uintptr_t)part->map, (size_t)part->size);
    if (part->fd >= 0)
        close(part->fd);
    free(part->name);
    free(part->path);
    *part = (struct hk_part){.fd = -1};
}
