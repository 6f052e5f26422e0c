/* Arrays that grow. This header depends on nothing, so that engine and tools use it too. */
#ifndef HK_GROW_H
#define HK_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Make the array whose pointer is at LIST, with room for *ROOM elements of SIZE bytes, hold NEED of
 * them: half as many again are allocated when it has to grow, so that growing by one costs constant
 * time on average. False when out of memory; the array is then as it was. */
static inline bool hk_grow(void *list, size_t *room, size_t need, size_t size)
{
    void *old, *grown;
    if (need <= *room)
        return true;
    const size_t more = need < SIZE_MAX / 2 ? need + need / 2 + 16 : need;
    size_t bytes;
    if (__builtin_mul_overflow(more, size, &bytes))
        return false;
    memcpy(&old, list, sizeof old); /* a pointer to elements of any type */
    if ((grown = realloc(old, bytes)) == NULL)
        return false;
    memcpy(list, &grown, sizeof grown);
    *room = more;
    return true;
}

#endif
