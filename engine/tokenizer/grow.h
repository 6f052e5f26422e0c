/* Arrays that grow. */
#ifndef HKE_GROW_H
#define HKE_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Make room for NEED items of SIZE bytes in the array that P points to, keeping what is there.
 * False: out of memory. */
static inline bool hke_grow(void *p, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t bytes, room = need < SIZE_MAX / 2 ? need + need / 2 + 16 : need;
    void *old;
    memcpy(&old, p, sizeof old);
    if (__builtin_mul_overflow(room, size, &bytes))
        return false;
    void *grown = realloc(old, bytes);
    if (grown == NULL)
        return false;
    memcpy(p, &grown, sizeof grown);
    *capacity = room;
    return true;
}

#endif
