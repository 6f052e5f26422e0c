/* Names of shards, STEM-00002-of-00003.EXT, and lists of file names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/set/set.h"

enum { TAIL = 15 }; /* -00001-of-00003 */

static bool parse_five_digits(const char *p, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

bool hk_shard_name_split(const char *name, struct hk_shard_name *out)
{
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot - name < TAIL)
        return false;
    const char *p = dot - TAIL;
    *out = (struct hk_shard_name){.stem = (size_t)(p - name), .suffix = dot};
    return p[0] == '-' && parse_five_digits(p + 1, &out->number) && memcmp(p + 6, "-of-", 4) == 0 &&
           parse_five_digits(p + 10, &out->count);
}

bool hk_shard_name_parse(const char *name, struct hk_shard_name *out)
{
    return hk_shard_name_split(name, out) && out->number > 0 && out->number <= out->count;
}

char *hk_shard_name_make(const char *stem, size_t n, unsigned number, unsigned count,
                         const char *suffix)
{
    char *out = NULL;
    if (asprintf(&out, "%.*s-%05u-of-%05u%s", (int)n, stem, number, count, suffix) < 0)
        return NULL;
    return out;
}

bool hk_shard_name_kin(const char *a, const char *b)
{
    struct hk_shard_name x, y;
    return hk_shard_name_parse(a, &x) && hk_shard_name_parse(b, &y) && x.count == y.count &&
           x.stem == y.stem && memcmp(a, b, x.stem) == 0 && strcmp(x.suffix, y.suffix) == 0;
}

bool hk_plain_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* ---- lists of file names ---- */

enum hk_status hk_names_add(struct hk_names *l, char *name, struct hk_error *err)
{
    if (name == NULL || !hk_grow(&l->names, &l->room, l->count + 1, sizeof *l->names)) {
        free(name);
        return hk_fail_nomem(err);
    }
    l->names[l->count++] = name;
    return HK_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void hk_names_sort(struct hk_names *l)
{
    size_t kept = 0;
    if (l->count > 0)
        qsort(l->names, l->count, sizeof *l->names, compare_names);
    for (size_t i = 0; i < l->count; i++)
        if (kept > 0 && strcmp(l->names[kept - 1], l->names[i]) == 0)
            free(l->names[i]);
        else
            l->names[kept++] = l->names[i];
    l->count = kept;
}

bool hk_names_have(const struct hk_names *sorted, const char *name)
{
    return sorted->count > 0 && bsearch(&name, sorted->names, sorted->count, sizeof *sorted->names,
                                        compare_names) != NULL;
}

enum hk_status hk_names_of_shard(struct hk_names *l, const char *name, struct hk_error *err)
{
    struct hk_shard_name n;
    enum hk_status st = HK_OK;
    if (!hk_shard_name_parse(name, &n))
        return hk_names_add(l, strdup(name), err);
    for (unsigned i = 1; st == HK_OK && i <= n.count; i++)
        st = hk_names_add(l, hk_shard_name_make(name, n.stem, i, n.count, n.suffix), err);
    return st;
}

void hk_names_free(struct hk_names *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    *l = (struct hk_names){0};
}
