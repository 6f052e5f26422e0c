/* Output that appears whole or not at all. A regular file is written without a name (base/sys.h),
 * so that even a kill leaves nothing behind, and is linked into place at the end; where the file
 * system cannot do that, under a temporary name. */
#include "libhkfmt/base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/hkmodel.h"

enum { BUFFER_SIZE = 1 << 20 };

struct hk_out {
    int fd;
    bool owned;   /* FD is ours to close */
    bool unnamed; /* it has no name yet */
    bool named;   /* written under the temporary name */
    bool replace;
    bool by_read; /* the kernel does not copy between these files */
    char *target; /* final name, NULL where data is written directly */
    char *temporary;
    uint8_t *buffer;
    size_t used;
    uint64_t offset; /* given so far, buffered bytes included */
    uint64_t limit;  /* of OFFSET */
};

static void release_out(struct hk_out *o)
{
    if (o->named)
        unlink(o->temporary);
    if (o->owned && o->fd >= 0)
        close(o->fd);
    free(o->target);
    free(o->temporary);
    free(o->buffer);
    free(o);
}

static struct hk_out *new_out(void)
{
    struct hk_out *o = calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    o->fd = -1;
    o->limit = UINT64_MAX;
    o->buffer = malloc(BUFFER_SIZE);
    if (o->buffer == NULL) {
        free(o);
        return NULL;
    }
    return o;
}

enum hk_status hk_out_fd(struct hk_out **out, int fd, struct hk_error *err)
{
    struct hk_out *o = new_out();
    if (o == NULL)
        return hk_fail_nomem(err);
    o->fd = fd;
    *out = o;
    return HK_OK;
}

enum hk_status hk_out_memory(struct hk_out **out, struct hk_error *err)
{
    struct hk_out *o = new_out();
    if (o == NULL)
        return hk_fail_nomem(err);
    o->fd = hk_sys_open_memory("hk");
    if (o->fd < 0) {
        hk_out_discard(&o);
        return hk_fail_nomem(err);
    }
    o->owned = true;
    *out = o;
    return HK_OK;
}

int hk_out_descriptor(const struct hk_out *o)
{
    return o->fd;
}

/* DIRECTORY/.BASE.RANDOM */
static char *temporary_name(const char *target)
{
    const uint32_t random = hk_sys_random();
    char *directory = strdup(target), *base = strdup(target), *name = NULL;
    if (directory != NULL && base != NULL &&
        asprintf(&name, "%s/.%.200s.%08x", dirname(directory), basename(base), random) < 0)
        name = NULL;
    free(directory);
    free(base);
    return name;
}

static int open_unnamed_file(const char *target)
{
    char *copy = strdup(target);
    int fd = copy != NULL ? hk_sys_open_unnamed(dirname(copy)) : -1;
    free(copy);
    return fd;
}

static enum hk_status open_temporary(struct hk_out *o, mode_t mode, struct hk_error *err)
{
    o->temporary = temporary_name(o->target);
    if (o->temporary == NULL)
        return hk_fail_nomem(err);
    o->fd = open_unnamed_file(o->target);
    o->unnamed = o->fd >= 0;
    if (!o->unnamed) {
        o->fd = open(o->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
        o->named = o->fd >= 0;
    }
    o->owned = true;
    if (o->fd < 0)
        return hk_fail_sys(err, errno, "cannot create");
    if (mode != 0 && fchmod(o->fd, mode & 07777) != 0)
        return hk_fail_sys(err, errno, "cannot keep permissions");
    return HK_OK;
}

/* PATH exists and is no regular file: data goes straight into it. */
static enum hk_status open_special_file(struct hk_out *o, const char *path, struct hk_error *err)
{
    o->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    o->owned = true;
    return o->fd < 0 ? hk_fail_sys(err, errno, "cannot open for writing") : HK_OK;
}

static enum hk_status refuse_existing(struct hk_error *err)
{
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "exists; use -f to replace it");
}

static enum hk_status open_out_target(struct hk_out *o, const char *path, struct hk_error *err)
{
    struct stat st;
    if (path[0] == '\0')
        return hk_fail_sys(err, ENOENT, "cannot create");
    if (stat(path, &st) != 0) {
        struct stat link;
        if (errno != ENOENT)
            return hk_fail_sys(err, errno, "cannot create");
        if (lstat(path, &link) == 0)
            return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is a link to nothing");
        o->target = strdup(path);
        return o->target == NULL ? hk_fail_nomem(err) : open_temporary(o, 0, err);
    }
    if (!S_ISREG(st.st_mode))
        return open_special_file(o, path, err);
    if (!o->replace)
        return refuse_existing(err);
    o->target = realpath(path, NULL); /* a link stays a link */
    return o->target == NULL ? hk_fail_sys(err, errno, "cannot resolve")
                             : open_temporary(o, st.st_mode, err);
}

enum hk_status hk_out_create(struct hk_out **out, const char *path, unsigned options,
                             struct hk_error *err)
{
    struct hk_out *o = new_out();
    if (o == NULL)
        return hk_fail_nomem(err);
    o->replace = options & HK_OUT_REPLACE;
    enum hk_status st = open_out_target(o, path, err);
    if (st != HK_OK) {
        release_out(o);
        return st;
    }
    *out = o;
    return HK_OK;
}

/* ---- data ---- */

static enum hk_status write_out_bytes(struct hk_out *o, const uint8_t *p, size_t n,
                                      struct hk_error *err)
{
    while (n > 0) {
        ssize_t wrote = write(o->fd, p, n);
        if (wrote < 0 && hk_sys_try_again(o->fd, true))
            continue;
        if (wrote <= 0)
            return hk_fail_sys(err, wrote < 0 ? errno : ENOSPC, "cannot write");
        p += wrote;
        n -= (size_t)wrote;
    }
    return HK_OK;
}

static enum hk_status flush_out(struct hk_out *o, struct hk_error *err)
{
    size_t n = o->used;
    o->used = 0;
    return write_out_bytes(o, o->buffer, n, err);
}

void hk_out_limit(struct hk_out *o, uint64_t limit)
{
    o->limit = limit;
}

enum hk_status hk_check_output(uint64_t size, uint64_t limit, struct hk_error *err)
{
    if (size <= limit)
        return HK_OK;
    return hk_fail(
        err, HK_E_RANGE, HK_NO_OFFSET,
        "would write more than %llu bytes, the limit for this input; --max-output raises it",
        (unsigned long long)limit);
}

enum hk_status hk_out_expect(const struct hk_out *o, uint64_t n, struct hk_error *err)
{
    uint64_t size;
    return hk_check_output(add_ok(o->offset, n, &size) ? size : UINT64_MAX, o->limit, err);
}

enum hk_status hk_out_write(struct hk_out *o, const void *p, size_t n, struct hk_error *err)
{
    if (o->limit - o->offset < n)
        return hk_out_expect(o, n, err);
    bool direct = n > BUFFER_SIZE / 2;
    if (direct || n > BUFFER_SIZE - o->used) {
        enum hk_status st = flush_out(o, err);
        if (st != HK_OK)
            return st;
    }
    o->offset += n;
    if (direct)
        return write_out_bytes(o, p, n, err);
    if (n > 0)
        memcpy(o->buffer + o->used, p, n);
    o->used += n;
    return HK_OK;
}

static enum hk_status copy_by_reading(struct hk_out *o, int fd, uint64_t offset, uint64_t n,
                                      struct hk_error *err)
{
    while (n > 0) {
        size_t want = n < BUFFER_SIZE ? (size_t)n : BUFFER_SIZE;
        ssize_t got = pread(fd, o->buffer, want, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hk_fail_sys(err, errno, "cannot read the input");
        if (got == 0)
            return hk_fail(err, HK_E_RANGE, offset, "the input became shorter while it was read");
        enum hk_status st = write_out_bytes(o, o->buffer, (size_t)got, err);
        if (st != HK_OK)
            return st;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return HK_OK;
}

enum hk_status hk_out_copy(struct hk_out *o, int fd, uint64_t offset, uint64_t n,
                           struct hk_error *err)
{
    enum hk_status st = hk_out_expect(o, n, err);
    if (st == HK_OK)
        st = flush_out(o, err);
    if (st != HK_OK)
        return st;
    o->offset += n;
    off_t from = (off_t)offset;
    while (n > 0 && !o->by_read) {
        size_t want = n < (1u << 30) ? (size_t)n : 1u << 30;
        ssize_t got = hk_sys_copy(fd, &from, o->fd, want);
        if (got < 0 && !hk_sys_cannot_copy(errno))
            return hk_fail_sys(err, errno, "cannot write");
        o->by_read = got <= 0; /* 0: at the end of the input, or a file system that cannot say */
        n -= got > 0 ? (uint64_t)got : 0;
    }
    return copy_by_reading(o, fd, (uint64_t)from, n, err);
}

uint64_t hk_out_offset(const struct hk_out *o)
{
    return o->offset;
}

const char *hk_out_temporary(const struct hk_out *o)
{
    return o->temporary;
}

/* ---- the end ---- */

static enum hk_status sync_directory(const char *target, struct hk_error *err)
{
    char *copy = strdup(target);
    if (copy == NULL)
        return hk_fail_nomem(err);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0)
        return HK_OK; /* a directory that may be written but not read cannot be synced */
    bool good = fsync(fd) == 0 || errno == EINVAL;
    int sys = errno;
    close(fd);
    return good ? HK_OK : hk_fail_sys(err, sys, "cannot sync the directory");
}

/* With REPLACE the file takes its temporary name first, since a link cannot replace and a rename
 * needs a name. */
static enum hk_status publish_out(struct hk_out *o, struct hk_error *err)
{
    if (!o->replace) {
        bool good = o->unnamed ? hk_sys_name_file(o->fd, o->target)
                               : hk_sys_rename_new(o->temporary, o->target);
        o->named = o->named && !good;
        if (!good && errno == EEXIST)
            return refuse_existing(err);
        return good ? HK_OK : hk_fail_sys(err, errno, "cannot take its name");
    }
    if (o->unnamed) {
        if (!hk_sys_name_file(o->fd, o->temporary))
            return hk_fail_sys(err, errno, "cannot take a name");
        o->named = true;
    }
    if (rename(o->temporary, o->target) != 0)
        return hk_fail_sys(err, errno, "cannot take its name");
    o->named = false;
    return HK_OK;
}

static enum hk_status finish_out(struct hk_out *o, struct hk_error *err)
{
    enum hk_status st = flush_out(o, err);
    if (st != HK_OK || o->target == NULL)
        return st;
    if (fsync(o->fd) != 0)
        return hk_fail_sys(err, errno, "cannot sync");
    st = publish_out(o, err);
    return st != HK_OK ? st : sync_directory(o->target, err);
}

enum hk_status hk_out_commit(struct hk_out **out, struct hk_error *err)
{
    struct hk_out *o = *out;
    enum hk_status st = finish_out(o, err);
    *out = NULL;
    if (o->owned && o->fd >= 0) {
        int fd = o->fd;
        o->fd = -1;
        if (close(fd) != 0 && st == HK_OK)
            st = hk_fail_sys(err, errno, "cannot close");
    }
    release_out(o);
    return st;
}

void hk_out_discard(struct hk_out **out)
{
    if (*out != NULL)
        release_out(*out);
    *out = NULL;
}
