/* An arena: many small allocations that live and die together. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/le.h"

struct hk_arena_block {
    struct hk_arena_block *next;
    size_t used, size;
    max_align_t data[];
};

enum { BLOCK_SIZE = 64 * 1024 };

static bool add_arena_block(struct hk_arena *a, size_t size)
{
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    if (room > SIZE_MAX - sizeof(struct hk_arena_block))
        return false;
    struct hk_arena_block *b = malloc(sizeof *b + room);
    if (b == NULL)
        return false;
    *b = (struct hk_arena_block){.next = a->head, .size = room};
    a->head = b;
    return true;
}

void *hk_arena_alloc(struct hk_arena *a, size_t size)
{
    if (size > SIZE_MAX - 7)
        return NULL;
    size = (size + 7) & ~(size_t)7;
    if ((a->head == NULL || a->head->size - a->head->used < size) && !add_arena_block(a, size))
        return NULL;
    unsigned char *p = (unsigned char *)a->head->data + a->head->used;
    a->head->used += size;
    return p;
}

void *hk_arena_block(struct hk_arena *a, size_t size)
{
    if (size > SIZE_MAX - sizeof(struct hk_arena_block))
        return NULL;
    struct hk_arena_block *b = malloc(sizeof *b + size), *first = a->head;
    if (b == NULL)
        return NULL;
    *b = (struct hk_arena_block){.next = first, .used = size, .size = size};
    a->head = b;
    if (first != NULL) { /* the first has room left */
        a->head = first;
        b->next = first->next;
        first->next = b;
    }
    return b->data;
}

bool hk_arena_keep(struct hk_arena *a, struct hk_bytes b, struct hk_bytes *out)
{
    uint8_t *p = hk_arena_alloc(a, b.n);
    if (p == NULL)
        return false;
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    *out = (struct hk_bytes){p, b.n};
    return true;
}

void hk_arena_free(struct hk_arena *a)
{
    while (a->head != NULL) {
        struct hk_arena_block *b = a->head;
        a->head = b->next;
        free(b);
    }
}

void hk_arena_adopt(struct hk_arena *a, struct hk_arena *from)
{
    struct hk_arena_block **end = &from->head; /* few, where A may be that of a thousand files */
    while (*end != NULL)
        end = &(*end)->next;
    *end = a->head;
    a->head = from->head;
    from->head = NULL;
}
