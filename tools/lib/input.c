/* input.c: standard input as a whole, from files, pipes and terminals alike. */
#include "tools/lib/input.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct buffer {
    uint8_t *p;
    size_t n, room;
};

static bool grow_input(struct buffer *b)
{
    size_t room = b->room == 0 ? 1 << 16 : b->room * 2;
    uint8_t *p = realloc(b->p, room);
    if (p == NULL)
        return false;
    b->p = p;
    b->room = room;
    return true;
}

enum hk_status tool_read_all(uint8_t **out, size_t *n, size_t most, struct hk_error *err)
{
    struct buffer b = {0};
    enum hk_status st = HK_OK;
    while (st == HK_OK) {
        if (b.n == b.room && !grow_input(&b)) {
            st = hk_fail_nomem(err);
            break;
        }
        ssize_t got = read(STDIN_FILENO, b.p + b.n, b.room - b.n);
        if (got == 0)
            break;
        if (got > 0)
            b.n += (size_t)got;
        else if (errno != EINTR)
            st = hk_fail_sys(err, errno, "cannot read");
        if (b.n > most)
            st = hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "more than %zu bytes", most);
    }
    if (st != HK_OK) {
        free(b.p);
        return st;
    }
    *out = b.p;
    *n = b.n;
    return HK_OK;
}
