/* New files wait in a hidden directory beside their place until all are whole, and then take their
 * names, in one step as a directory, or one after the other with the way back kept open. Whoever
 * owns such a directory keeps it locked, so one that can be locked is left over from a process that
 * was killed, and goes when the next files are written to its place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/sys.h"
#include "libhkfmt/set/save.h"

/* ---- what was left over ---- */

/* What the name of a stage ends in. */
#define STAGE_END ".new"

enum { RANDOM_DIGITS = 8 };

/* Whether NAME is that of OWN, N bytes of "BEGIN" and random digits and "END", with other digits.
 */
static bool is_other_stage(const char *name, const char *own, size_t n)
{
    const size_t end = strlen(STAGE_END), digits = n - end - RANDOM_DIGITS;
    return strlen(name) == n && memcmp(name, own, digits) == 0 &&
           strspn(name + digits, "0123456789abcdef") == RANDOM_DIGITS &&
           strcmp(name + n - end, STAGE_END) == 0;
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
static void remove_if_unlocked(int at, const char *name)
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
        if (is_other_stage(e->d_name, own, (size_t)(end - own)))
            remove_if_unlocked(dirfd(d), e->d_name);
    closedir(d);
}

/* ---- the directory ---- */

/* A descriptor that keeps the new directory PATH from being removed as stale; -1: it already was.
 */
static int lock_stage(const char *path)
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

static char *join_path(const char *directory, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s%s", directory, name) < 0 ? NULL : path;
}

/* DIRECTORY/.BASE.RANDOM.new/ */
static char *make_stage_name(const char *directory, const char *base)
{
    const uint32_t random = hk_sys_random();
    char *name = NULL;
    return asprintf(&name, "%s/.%.200s.%08x" STAGE_END "/", directory, base, random) < 0 ? NULL
                                                                                         : name;
}

static enum hk_status make_stage_directory(struct hk_stage *s, const char *directory,
                                           const char *base, struct hk_error *err)
{
    enum { TRIES = 16 };
    for (int i = 0; i < TRIES; i++) {
        char *name = make_stage_name(directory, base);
        if (name == NULL)
            return hk_fail_nomem(err);
        const bool made = mkdir(name, 0777) == 0;
        if (made && (s->lock = lock_stage(name)) >= 0) {
            s->temp = name;
            return HK_OK;
        }
        const int sys = made ? EEXIST : errno; /* gone again: another name */
        if (made)
            rmdir(name);
        free(name);
        errno = sys;
        if (sys != EEXIST)
            break;
    }
    return hk_fail_sys(err, errno, "cannot create a directory for new files");
}

enum hk_status hk_stage_new(struct hk_stage *s, const char *path, struct hk_error *err)
{
    char *directory = strdup(path), *base = strdup(path);
    enum hk_status st = HK_OK;
    *s = (struct hk_stage){.lock = -1};
    if (directory == NULL || base == NULL)
        st = hk_fail_nomem(err);
    else
        st = make_stage_directory(s, dirname(directory), basename(base), err);
    if (st == HK_OK) {
        s->target = strchr(path, '/') == NULL ? strdup("") : join_path(directory, "/");
        st = s->target == NULL ? hk_fail_nomem(err) : HK_OK;
    }
    free(directory);
    free(base);
    return st;
}

static void remove_staged(const struct hk_stage *s, const struct hk_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        char *path = join_path(s->temp, names->names[i]);
        if (path != NULL)
            unlink(path);
        free(path);
    }
}

void hk_stage_free(struct hk_stage *s)
{
    if (s->temp != NULL) {
        remove_staged(s, &s->names);
        remove_staged(s, &s->old);
        rmdir(s->temp);
    }
    if (s->lock >= 0)
        close(s->lock);
    free(s->temp);
    free(s->target);
    hk_names_free(&s->names);
    hk_names_free(&s->old);
    *s = (struct hk_stage){.lock = -1};
}

/* ---- files ---- */

enum hk_status hk_stage_create(struct hk_stage *s, const char *name, struct hk_out **out,
                               struct hk_error *err)
{
    enum hk_status st = hk_names_add(&s->names, strdup(name), err);
    char *path = st == HK_OK ? join_path(s->temp, name) : NULL;
    if (st == HK_OK && path == NULL)
        st = hk_fail_nomem(err);
    if (st == HK_OK)
        st = hk_out_create(out, path, 0, err);
    free(path);
    return st;
}

enum hk_status hk_stage_put(struct hk_stage *s, const char *name, const struct hk_buf *bytes,
                            struct hk_error *err)
{
    struct hk_out *out;
    enum hk_status st = hk_stage_create(s, name, &out, err);
    if (st != HK_OK)
        return st;
    st = hk_out_write(out, bytes->p, bytes->n, err);
    if (st == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return st;
}

static enum hk_status sync_whole_directory(const char *path, struct hk_error *err)
{
    int fd = open(path[0] != '\0' ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return HK_OK; /* a directory that may be written but not read cannot be synced */
    bool good = fsync(fd) == 0 || errno == EINVAL;
    int sys = errno;
    close(fd);
    return good ? HK_OK : hk_fail_sys(err, sys, "cannot sync the directory");
}

/* ---- taking names one by one ---- */

enum moved { UNMOVED, MOVED, EXCHANGED };

struct publishing {
    struct hk_stage *s;
    bool replace;
    const volatile sig_atomic_t *stop;
    enum moved *moved; /* of s->names, then of s->old */
};

static enum hk_status exchange_files(const char *from, const char *to, struct hk_error *err)
{
    struct stat st;
    if (lstat(to, &st) != 0 || !S_ISREG(st.st_mode))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "%.200s is there and no regular file, so it is not replaced", to);
    if (chmod(from, st.st_mode & 07777) != 0)
        return hk_fail_sys(err, errno, "cannot keep permissions of %.200s", to);
    if (!hk_sys_exchange(from, to))
        return hk_fail_sys(err, errno, "cannot replace %.200s", to);
    return HK_OK;
}

static enum hk_status move_into_place(const struct publishing *p, const char *from, const char *to,
                                      enum moved *moved, struct hk_error *err)
{
    if (hk_sys_rename_new(from, to)) {
        *moved = MOVED;
        return HK_OK;
    }
    if (errno != EEXIST)
        return hk_fail_sys(err, errno, "cannot name %.200s", to);
    if (!p->replace)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "%.200s exists; use -f to replace it", to);
    enum hk_status st = exchange_files(from, to, err);
    if (st == HK_OK)
        *moved = EXCHANGED;
    return st;
}

/* File I of all: into its place, or out of it. */
static enum hk_status publish_one(const struct publishing *p, size_t i, bool back,
                                  struct hk_error *err)
{
    struct hk_stage *s = p->s;
    const bool comes = i < s->names.count;
    const char *name = comes ? s->names.names[i] : s->old.names[i - s->names.count];
    char *in = join_path(s->temp, name), *there = join_path(s->target, name);
    enum hk_status st = HK_OK;
    if (in == NULL || there == NULL)
        st = hk_fail_nomem(err);
    else if (back && p->moved[i] == EXCHANGED)
        (void)hk_sys_exchange(in, there);
    else if (back)
        (void)hk_sys_rename_new(comes ? there : in, comes ? in : there);
    else
        st = move_into_place(p, comes ? in : there, comes ? there : in, &p->moved[i], err);
    free(in);
    free(there);
    return st;
}

static enum hk_status publish_all(const struct publishing *p, struct hk_error *err)
{
    const size_t all = p->s->names.count + p->s->old.count;
    enum hk_status st = HK_OK;
    size_t i = 0;
    for (; st == HK_OK && i < all; i++) {
        if (p->stop != NULL && *p->stop != 0)
            st = hk_fail_sys(err, EINTR, "given up");
        else
            st = publish_one(p, i, false, err);
    }
    if (st == HK_OK)
        st = sync_whole_directory(p->s->target, err);
    while (st != HK_OK && i-- > 0)
        if (p->moved[i] != UNMOVED)
            publish_one(p, i, true, NULL);
    return st;
}

enum hk_status hk_stage_publish(struct hk_stage *s, bool replace, const volatile sig_atomic_t *stop,
                                struct hk_error *err)
{
    struct publishing p = {s, replace, stop,
                           calloc(s->names.count + s->old.count + 1, sizeof(enum moved))};
    if (p.moved == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = publish_all(&p, err);
    free(p.moved);
    return st;
}

/* ---- as a directory ---- */

enum hk_status hk_stage_become(struct hk_stage *s, const char *path, struct hk_names *old,
                               struct hk_error *err)
{
    enum hk_status st = sync_whole_directory(s->temp, err);
    if (st != HK_OK)
        return st;
    if (old != NULL ? !hk_sys_exchange(s->temp, path) : !hk_sys_rename_new(s->temp, path))
        return hk_fail_sys(err, errno, "cannot take its name");
    hk_names_free(&s->names);
    if (old != NULL) {
        s->names = *old;
        *old = (struct hk_names){0};
    } else {
        free(s->temp);
        s->temp = NULL;
    }
    return sync_whole_directory(s->target, err);
}
