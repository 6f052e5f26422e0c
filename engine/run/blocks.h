/* blocks.h: the blocks of a KV cache, by number: how many sequences have each, and which are free.
 * Their memory is the device's. */
#ifndef HKE_BLOCKS_H
#define HKE_BLOCKS_H

#include "engine/backend.h"

struct hke_block {
    uint32_t users;     /* sequences that have it; 0: it is free */
    uint32_t next_free; /* number of the next that is free */
};

struct hke_blocks {
    struct hke_device *device;
    size_t most; /* of each class; SIZE_MAX: no bound */
    struct {
        struct hke_block *block;
        size_t n, room;
        size_t used;         /* that sequences have */
        uint32_t first_free; /* where not all are used */
    } cache[HKE_MAX_CACHES];
};

/* A block of class CACHE that no sequence has, for one. HK_E_NOMEM: all are in use. */
HK_MUST enum hk_status hke_take_block(struct hke_blocks *b, size_t cache, uint32_t *number,
                                      struct hk_error *err);
/* One sequence more, or less, has it. */
void hke_share_block(struct hke_blocks *b, size_t cache, uint32_t number);
void hke_drop_block(struct hke_blocks *b, size_t cache, uint32_t number);
bool hke_is_shared_block(const struct hke_blocks *b, size_t cache, uint32_t number);
void hke_free_blocks(struct hke_blocks *b);

#endif
