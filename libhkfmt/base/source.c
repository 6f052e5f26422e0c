/* Copies of a file's bytes: read, not mapped, so that a file that others shorten is an error. */
#include "libhkfmt/base/source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/bytes.h"

static void apply_patch(const struct hk_patch *patch, uint8_t *p, size_t n, uint64_t at)
{
    for (size_t i = 0; i < patch->bytes.n; i++) {
        uint64_t to = patch->at + i;
        if (to >= at && to - at < n)
            p[to - at] = patch->bytes.p[i];
    }
}

static enum hk_status read_descriptor(int fd, void *p, size_t n, uint64_t at, struct hk_error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (uint8_t *)p + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hk_fail_sys(err, errno, "cannot read");
        if (got == 0)
            return hk_fail(err, HK_E_IO, at + done, "it became shorter while it was read");
        done += (size_t)got;
    }
    return HK_OK;
}

enum hk_status hk_source_read(const struct hk_source *s, void *p, size_t n, uint64_t at,
                              struct hk_error *err)
{
    if (s->bytes == NULL) {
        enum hk_status st = read_descriptor(s->fd, p, n, at, err);
        if (st != HK_OK)
            return st;
    } else if (n > 0) {
        memcpy(p, s->bytes + at, n);
    }
    for (size_t i = 0; i < HK_MOST_PATCHES; i++)
        apply_patch(&s->patches[i], p, n, at);
    return HK_OK;
}

enum hk_status hk_source_copy(const struct hk_source *s, struct hk_arena *arena,
                              struct hk_bytes *out, uint64_t at, uint64_t n, struct hk_error *err)
{
    const uint64_t left = at < s->size ? s->size - at : 0;
    n = n < left ? n : left;
    uint8_t *p = n > SIZE_MAX ? NULL : hk_arena_block(arena, (size_t)n);
    if (p == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_source_read(s, p, (size_t)n, at, err);
    if (st == HK_OK)
        *out = (struct hk_bytes){p, (size_t)n};
    return st;
}

bool hk_source_zero(const struct hk_source *s, uint64_t n, uint64_t at)
{
    uint8_t piece[256];
    for (uint64_t done = 0; done < n;) {
        size_t some = n - done < sizeof piece ? (size_t)(n - done) : sizeof piece;
        if (hk_source_read(s, piece, some, at + done, NULL) != HK_OK || !hk_all_zero(piece, some))
            return false;
        done += some;
    }
    return true;
}
