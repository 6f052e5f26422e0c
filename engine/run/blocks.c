/* Blocks of a KV cache: taken, shared, dropped. Those that are dropped are taken again first. */
#include "engine/run/blocks.h"

#include "libhkfmt/base/grow.h"

static enum hk_status fail_full_cache(const struct hke_blocks *b, struct hk_error *err)
{
    return hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET,
                   "the KV cache is full: all %zu blocks of %d positions are in use", b->most,
                   (int)HKE_BLOCK);
}

/* One block more, which is free. */
static enum hk_status make_block(struct hke_blocks *b, size_t cache, struct hk_error *err)
{
    const size_t n = b->cache[cache].n;
    if (n >= b->most || n >= UINT32_MAX)
        return fail_full_cache(b, err);
    if (!hk_grow(&b->cache[cache].block, &b->cache[cache].room, n + 1, sizeof(struct hke_block)))
        return hk_fail_nomem(err);
    enum hk_status st = b->device->backend->add_block(b->device, cache, err);
    if (st != HK_OK)
        return st;
    b->cache[cache].block[n] = (struct hke_block){0};
    b->cache[cache].first_free = (uint32_t)n;
    b->cache[cache].n++;
    return HK_OK;
}

enum hk_status hke_take_block(struct hke_blocks *b, size_t cache, uint32_t *number,
                              struct hk_error *err)
{
    if (b->cache[cache].used == b->cache[cache].n) {
        enum hk_status st = make_block(b, cache, err);
        if (st != HK_OK)
            return st;
    }
    *number = b->cache[cache].first_free;
    struct hke_block *taken = &b->cache[cache].block[*number];
    b->cache[cache].first_free = taken->next_free;
    b->cache[cache].used++;
    taken->users = 1;
    return HK_OK;
}

void hke_share_block(struct hke_blocks *b, size_t cache, uint32_t number)
{
    b->cache[cache].block[number].users++;
}

void hke_drop_block(struct hke_blocks *b, size_t cache, uint32_t number)
{
    struct hke_block *dropped = &b->cache[cache].block[number];
    if (--dropped->users > 0)
        return;
    dropped->next_free = b->cache[cache].first_free;
    b->cache[cache].first_free = number;
    b->cache[cache].used--;
}

bool hke_is_shared_block(const struct hke_blocks *b, size_t cache, uint32_t number)
{
    return b->cache[cache].block[number].users > 1;
}

void hke_free_blocks(struct hke_blocks *b)
{
    for (size_t i = 0; i < HKE_MAX_CACHES; i++)
        free(b->cache[i].block);
}
