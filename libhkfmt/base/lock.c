/* Locks between those who use one file: ranges of bytes that no file has, locked by open file
 * description (lock.h). */
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libhkfmt/base/sys.h"

enum range { WRITER, RECORDS, GATE, HEADS };

enum { READER_MS = 10000, WRITER_MS = 30, NOTICE_MS = 1000, LONGEST_NAP_MS = 10 };

/* ---- one range ---- */

static off_t place_of_range(enum range range)
{
    return (off_t)(INT64_C(1) << 62) + (off_t)range;
}

/* 0 or errno; EAGAIN where another has it. */
static int set_lock_range(int fd, enum range range, int type)
{
    return hk_sys_lock_byte(fd, place_of_range(range), type);
}

static void drop_lock_range(int fd, enum range range)
{
    (void)set_lock_range(fd, range, F_UNLCK);
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Longer from time to time: what is waited for takes microseconds, or long. */
static void sleep_longer(unsigned *us)
{
    const struct timespec t = {.tv_nsec = (long)*us * 1000};
    nanosleep(&t, NULL);
    if (*us < LONGEST_NAP_MS * 1000)
        *us *= 2;
}

/* Try until END (of clock_ms()). */
static int take_lock_range(int fd, enum range range, int type, uint64_t end)
{
    unsigned us = 50;
    int sys;
    while ((sys = set_lock_range(fd, range, type)) == EAGAIN && monotonic_ms() < end)
        sleep_longer(&us);
    return sys;
}

/* ---- readers ---- */

/* Anything but another's lock means that there are none here. */
static enum hk_status share_lock_range(int fd, enum range range, bool *locked, struct hk_error *err)
{
    int sys = take_lock_range(fd, range, F_RDLCK, monotonic_ms() + READER_MS);
    *locked = sys == 0;
    if (sys != EAGAIN)
        return HK_OK;
    return hk_fail(err, HK_E_IO, HK_NO_OFFSET,
                   "another program has kept it locked for %d seconds while changing it",
                   READER_MS / 1000);
}

enum hk_status hk_lock_heads(int fd, bool *locked, struct hk_error *err)
{
    bool gate;
    enum hk_status st = share_lock_range(fd, GATE, &gate, err);
    if (st == HK_OK && gate)
        st = share_lock_range(fd, HEADS, locked, err);
    else
        *locked = false;
    if (gate)
        drop_lock_range(fd, GATE);
    return st;
}

void hk_unlock_heads(int fd)
{
    drop_lock_range(fd, HEADS);
}

enum hk_status hk_lock_payloads(int fd, struct hk_error *err)
{
    bool locked;
    return share_lock_range(fd, RECORDS, &locked, err);
}

void hk_unlock_payloads(int fd)
{
    drop_lock_range(fd, RECORDS);
}

bool hk_has_writer(int fd)
{
    return hk_sys_is_locked(fd, place_of_range(WRITER));
}

/* ---- writers ---- */

static enum hk_status fail_lock(int sys, const char *whom, struct hk_error *err)
{
    if (sys == EAGAIN)
        hk_fail(err, HK_E_IO, HK_NO_OFFSET, "%s, and it is not to be waited for", whom);
    if (sys == EAGAIN && err != NULL)
        err->sys = EWOULDBLOCK;
    return sys == EAGAIN ? HK_E_IO : hk_fail_sys(err, sys, "cannot lock");
}

/* Wait as long as it takes for WHOM; whoever cares is told after a second. */
static enum hk_status wait_for_lock_range(const struct hk_lock *lock, enum range range,
                                          const char *whom, struct hk_error *err)
{
    const struct hk_wait *w = &lock->wait;
    const uint64_t start = monotonic_ms();
    int sys = take_lock_range(lock->fd, range, F_WRLCK, w->no_wait ? start : start + NOTICE_MS);
    if (sys == EAGAIN && !w->no_wait) {
        if (w->notice != NULL)
            w->notice(w->arg, lock->fd, whom);
        sys = take_lock_range(lock->fd, range, F_WRLCK, UINT64_MAX);
    }
    return sys == 0 ? HK_OK : fail_lock(sys, whom, err);
}

enum hk_status hk_lock_records(const struct hk_lock *lock, struct hk_error *err)
{
    return wait_for_lock_range(lock, RECORDS, "another program is using its records", err);
}

/* Nobody new is let in while those inside leave, but for a moment only: one of them may stay for
 * long, and others need not wait for that one. */
static int try_to_enter(int fd, uint64_t end)
{
    int sys = take_lock_range(fd, GATE, F_WRLCK, end);
    if (sys != 0)
        return sys;
    uint64_t soon = monotonic_ms() + WRITER_MS;
    sys = take_lock_range(fd, HEADS, F_WRLCK, soon);
    drop_lock_range(fd, GATE);
    return sys;
}

enum hk_status hk_lock_enter(const struct hk_lock *lock, struct hk_error *err)
{
    static const char whom[] = "another program is reading all of it";
    const struct hk_wait *w = &lock->wait;
    const uint64_t start = monotonic_ms();
    unsigned us = 50;
    bool told = false;
    for (;;) {
        int sys = try_to_enter(lock->fd, UINT64_MAX);
        bool late = monotonic_ms() >= start + NOTICE_MS;
        if (sys == 0)
            return HK_OK;
        if (sys != EAGAIN || (late && w->no_wait))
            return fail_lock(sys, whom, err);
        if (late && !told && w->notice != NULL)
            w->notice(w->arg, lock->fd, whom);
        told = told || late;
        sleep_longer(&us);
    }
}

void hk_lock_leave(const struct hk_lock *lock)
{
    drop_lock_range(lock->fd, HEADS);
}

static enum hk_status open_for_writing(int *out, const char *path, struct hk_error *err)
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

/* While we waited, another file may have taken the name. */
static bool is_still_named(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

enum hk_status hk_lock_open(struct hk_lock *out, const char *path, const struct hk_wait *wait,
                            struct hk_error *err)
{
    struct hk_lock lock = {.fd = -1};
    enum hk_status st = hk_read_options(&lock.wait, sizeof lock.wait, wait, err);
    if (st != HK_OK)
        return st;
    for (;;) {
        st = open_for_writing(&lock.fd, path, err);
        if (st != HK_OK)
            return st;
        st = wait_for_lock_range(&lock, WRITER, "another program is writing to it", err);
        if (st == HK_OK && is_still_named(lock.fd, path)) {
            *out = lock;
            return HK_OK;
        }
        close(lock.fd);
        if (st != HK_OK)
            return st;
    }
}

static enum hk_status has_journal_beside(const char *path, bool *out, struct hk_error *err)
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
    enum hk_status st = has_journal_beside(path, out, err);
    if (st != HK_OK || *out)
        return st;
    char *real = realpath(path, NULL);
    if (real == NULL)
        return HK_OK; /* nothing there any more */
    st = has_journal_beside(real, out, err);
    free(real);
    return st;
}
