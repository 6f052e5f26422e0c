/* Numbers of a table's entries in order of their names. */
#ifndef HK_NAME_INDEX_H
#define HK_NAME_INDEX_H

#include "libhkfmt/hkfmt.h"

struct hk_index {
    uint32_t *order;
    size_t count;
};
typedef struct hk_bytes hk_name_fn(const void *table, size_t i);
/* Index COUNT names. A name that occurs again is left out and its number passed to DUPLICATE (may
 * be NULL). */
bool hk_index_build(struct hk_index *x, const void *table, size_t count, hk_name_fn *name,
                    void (*duplicate)(void *arg, size_t i, size_t first), void *arg);
/* Number of the entry called KEY, or SIZE_MAX. */
size_t hk_index_find(const struct hk_index *x, const void *table, hk_name_fn *name,
                     struct hk_bytes key);
void hk_index_free(struct hk_index *x);

#endif
