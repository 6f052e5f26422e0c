/* An arena: many small allocations that are freed together. */
#ifndef HK_ARENA_H
#define HK_ARENA_H

#include "libhkfmt/hkfmt.h"

struct hk_arena {
    struct hk_arena_block *head;
};
/* SIZE bytes, aligned to 8, uninitialised; NULL when out of memory. */
void *hk_arena_alloc(struct hk_arena *a, size_t size);
/* A block of its own, of exactly SIZE bytes, so that a sanitizer sees where it ends. */
void *hk_arena_block(struct hk_arena *a, size_t size);
/* Copy B; false when out of memory. */
bool hk_arena_keep(struct hk_arena *a, struct hk_bytes b, struct hk_bytes *out);
void hk_arena_free(struct hk_arena *a);
/* Everything of FROM becomes A's. */
void hk_arena_adopt(struct hk_arena *a, struct hk_arena *from);

#endif
