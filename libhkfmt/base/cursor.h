/* A cursor over bytes of a file that can only take what is proven to be there, and knows its offset
 * for messages. */
#ifndef HK_CURSOR_H
#define HK_CURSOR_H

#include "libhkfmt/base/le.h"

struct cursor {
    const uint8_t *base; /* offset START of the file */
    uint64_t at, end;    /* offsets in the file */
    uint64_t start;
};

static inline uint64_t cursor_left(const struct cursor *c)
{
    return c->end - c->at;
}

/* The next N bytes, or NULL (and no step) where fewer are left. */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t n)
{
    if (n > cursor_left(c))
        return NULL;
    const uint8_t *p = c->base + (c->at - c->start);
    c->at += n;
    return p;
}

#endif
