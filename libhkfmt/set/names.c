/* Lists of file names. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/set/set.h"

enum hk_status hk_names_add(struct hk_names *l, char *name, struct hk_error *err)
{
    if (name != NULL && l->count == l->room) {
        size_t more = l->room == 0 ? 16 : l->room * 2;
        char **names = reallocarray(l->names, more, sizeof *names);
        if (names == NULL) {
            free(name);
            return hk_fail_nomem(err);
        }
        l->names = names;
        l->room = more;
    }
    if (name == NULL)
        return hk_fail_nomem(err);
    l->names[l->count++] = name;
    return HK_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void hk_names_sort(struct hk_names *l)
{
    size_t kept = 0;
    if (l->count > 0)
        qsort(l->names, l->count, sizeof *l->names, compare);
    for (size_t i = 0; i < l->count; i++)
        if (kept > 0 && strcmp(l->names[kept - 1], l->names[i]) == 0)
            free(l->names[i]);
        else
            l->names[kept++] = l->names[i];
    l->count = kept;
}

bool hk_names_have(const struct hk_names *sorted, const char *name)
{
    return sorted->count > 0 &&
           bsearch(&name, sorted->names, sorted->count, sizeof *sorted->names, compare) != NULL;
}

enum hk_status hk_names_of_shard(struct hk_names *l, const char *name, struct hk_error *err)
{
    struct hk_shard_name n;
    enum hk_status status = HK_OK;
    if (!hk_shard_name_parse(name, &n))
        return hk_names_add(l, strdup(name), err);
    for (unsigned i = 1; status == HK_OK && i <= n.count; i++)
        status = hk_names_add(l, hk_shard_name_make(name, n.stem, i, n.count, n.suffix), err);
    return status;
}

void hk_names_free(struct hk_names *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    *l = (struct hk_names){0};
}
