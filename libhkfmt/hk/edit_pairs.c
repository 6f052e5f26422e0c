/* The metadata that a file is to have: its pairs with each change where its key stands, new keys at
 * the end. */
#include <stdlib.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/edit.h"

enum hk_status hk_add_change(struct hk_changes *c, const struct hk_kv *kv, struct hk_error *err)
{
    if (c->count == c->room) {
        size_t more = c->room == 0 ? 64 : c->room * 2;
        struct hk_change *list = reallocarray(c->list, more, sizeof *list);
        if (list == NULL)
            return hk_fail_nomem(err);
        c->list = list;
        c->room = more;
    }
    c->list[c->count++] = (struct hk_change){.kv = *kv};
    return HK_OK;
}

bool hk_change_stays(const struct hk_change *change)
{
    return !change->merged && change->kv.type != 0;
}

static struct hk_bytes name_of(const void *table, size_t i)
{
    return ((const struct hk_change *)table)[i].kv.key;
}

/* Changes of one key come in their order, so that the last holds. */
static void merge(void *arg, size_t i, size_t first)
{
    struct hk_changes *c = arg;
    c->list[first].kv.type = c->list[i].kv.type;
    c->list[first].kv.value = c->list[i].kv.value;
    c->list[first].touched = true;
    c->list[i].merged = true;
}

static enum hk_status merge_all(struct hk_changes *c, struct hk_error *err)
{
    struct hk_index x = {0};
    for (size_t i = c->old; i < c->count; i++)
        c->list[i].touched = true;
    if (!hk_index_build(&x, c->list, c->count, name_of, merge, c))
        return hk_fail_nomem(err);
    hk_index_free(&x);
    return HK_OK;
}

enum hk_status hk_settle_changes(struct hk_changes *c, const struct hk_file *f,
                                 struct hk_arena *arena, struct hk_error *err)
{
    enum hk_status status = merge_all(c, err);
    size_t before = c->count;
    if (status == HK_OK)
        status = hk_settle_types(c, f, arena, err);
    return status == HK_OK && c->count > before ? merge_all(c, err) : status;
}
