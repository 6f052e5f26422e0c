/* A sequence: lists of blocks, shared with its forks as long as none writes to them. */
#include <stdlib.h>

#include "engine/run/runner.h"

static size_t cache_classes(const struct hke_sequence *s)
{
    return s->runner->model->plan->caches;
}

static enum hk_status prepare_adapters(struct hke_runner *r, const struct hke_adapters *adapters,
                                       struct hk_error *err)
{
    if (adapters == NULL)
        return HK_OK;
    if (adapters->plan != r->model->plan)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "adapters of another model");
    return r->device->backend->add_adapters(r->device, adapters, err);
}

enum hk_status hke_sequence_new(struct hke_sequence **out, struct hke_runner *r,
                                const struct hke_adapters *adapters, struct hk_error *err)
{
    enum hk_status st = prepare_adapters(r, adapters, err);
    if (st != HK_OK)
        return st;
    struct hke_sequence *s = calloc(1, sizeof *s);
    bool good = s != NULL;
    if (good)
        *s = (struct hke_sequence){.runner = r, .adapters = adapters};
    for (size_t i = 0; good && i < cache_classes(s); i++) {
        s->cache[i].number = calloc(hke_blocks_for(r->positions), sizeof *s->cache[i].number);
        good = s->cache[i].number != NULL;
    }
    if (!good) {
        hke_sequence_free(&s);
        return hk_fail_nomem(err);
    }
    *out = s;
    return HK_OK;
}

enum hk_status hke_sequence_fork(struct hke_sequence **out, const struct hke_sequence *s,
                                 struct hk_error *err)
{
    struct hke_sequence *fork;
    enum hk_status st = hke_sequence_new(&fork, s->runner, s->adapters, err);
    if (st != HK_OK)
        return st;
    fork->used = s->used;
    for (size_t i = 0; i < cache_classes(s); i++) {
        fork->cache[i].first = s->cache[i].first;
        fork->cache[i].n = s->cache[i].n;
        for (size_t k = s->cache[i].first; k < s->cache[i].n; k++) {
            fork->cache[i].number[k] = s->cache[i].number[k];
            hke_share_block(&s->runner->blocks, i, s->cache[i].number[k]);
        }
    }
    *out = fork;
    return HK_OK;
}

static const struct hke_cache_class *class_of(const struct hke_sequence *s, size_t cache)
{
    return &s->runner->model->plan->cache[cache];
}

/* Whether what the token at POSITION sees is there. */
static bool can_go_on_from(const struct hke_sequence *s, size_t position)
{
    for (size_t i = 0; i < cache_classes(s); i++)
        if (hke_first_visible(class_of(s, i), position) < s->cache[i].first * HKE_BLOCK)
            return false;
    return true;
}

static void drop_all_blocks(struct hke_sequence *s)
{
    s->used = 0;
    for (size_t i = 0; i < cache_classes(s); i++) {
        struct hke_block_list *list = &s->cache[i];
        while (list->n > list->first)
            hke_drop_block(&s->runner->blocks, i, list->number[--list->n]);
        list->first = list->n = 0;
    }
}

void hke_sequence_free(struct hke_sequence **s)
{
    if (*s == NULL)
        return;
    drop_all_blocks(*s);
    for (size_t i = 0; i < HKE_MAX_CACHES; i++)
        free((*s)->cache[i].number);
    free(*s);
    *s = NULL;
}

void hke_sequence_trim(struct hke_sequence *s)
{
    for (size_t i = 0; i < cache_classes(s); i++)
        while (s->cache[i].n > hke_blocks_for(s->used))
            hke_drop_block(&s->runner->blocks, i, s->cache[i].number[--s->cache[i].n]);
}

size_t hke_sequence_rewind(struct hke_sequence *s, size_t positions)
{
    if (positions >= s->used)
        return s->used;
    s->used = positions;
    if (can_go_on_from(s, positions))
        hke_sequence_trim(s);
    else
        drop_all_blocks(s);
    return s->used;
}

void hke_sequence_slide(struct hke_sequence *s)
{
    const size_t back = s->used > HKE_REWIND ? s->used - HKE_REWIND : 0;
    for (size_t i = 0; i < cache_classes(s); i++) {
        struct hke_block_list *list = &s->cache[i];
        const size_t seen = hke_first_visible(class_of(s, i), back) / HKE_BLOCK;
        for (; list->first < seen; list->first++) {
            const uint32_t number = list->number[list->first];
            if (list->n < list->needed && !hke_is_shared_block(&s->runner->blocks, i, number))
                list->number[list->n++] = number;
            else
                hke_drop_block(&s->runner->blocks, i, number);
        }
    }
}

size_t hke_sequence_used(const struct hke_sequence *s)
{
    return s->used;
}

/* ---- room for what comes ---- */

/* Have the block NUMBER of class CACHE, which others have too, alone. */
static enum hk_status copy_shared_block(struct hke_runner *r, size_t cache, uint32_t *number,
                                        struct hk_error *err)
{
    uint32_t own;
    enum hk_status st = hke_take_block(&r->blocks, cache, &own, err);
    if (st != HK_OK)
        return st;
    r->device->backend->copy_block(r->device, cache, *number, own);
    hke_drop_block(&r->blocks, cache, *number);
    *number = own;
    return HK_OK;
}

static enum hk_status reserve_blocks(struct hke_sequence *s, size_t cache, size_t n,
                                     struct hk_error *err)
{
    struct hke_blocks *b = &s->runner->blocks;
    struct hke_block_list *list = &s->cache[cache];
    enum hk_status st = HK_OK;
    uint32_t *begun = &list->number[s->used / HKE_BLOCK];
    const struct hke_cache_class *c = class_of(s, cache);
    const size_t at_once = hke_blocks_for(s->used) + hke_window_blocks(c, s->runner->batch);
    list->needed = hke_blocks_for(s->used + n);
    const size_t now = c->window > 0 ? hke_min_size(list->needed, at_once) : list->needed;
    if (s->used % HKE_BLOCK != 0 && hke_is_shared_block(b, cache, *begun))
        st = copy_shared_block(s->runner, cache, begun, err);
    while (st == HK_OK && list->n < now) {
        st = hke_take_block(b, cache, &list->number[list->n], err);
        list->n += st == HK_OK;
    }
    return st;
}

enum hk_status hke_sequence_reserve(struct hke_sequence *s, size_t n, struct hk_error *err)
{
    struct hke_device *d = s->runner->device;
    enum hk_status st = d->backend->add_positions(d, s->used + n, err);
    for (size_t i = 0; st == HK_OK && i < cache_classes(s); i++)
        st = reserve_blocks(s, i, n, err);
    return st;
}
