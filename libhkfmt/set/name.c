/* Names of shards: STEM-00002-of-00003.EXT. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/set/set.h"

enum { TAIL = 15 }; /* -00001-of-00003 */

static bool five_digits(const char *p, unsigned *out)
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
    return p[0] == '-' && five_digits(p + 1, &out->number) && memcmp(p + 6, "-of-", 4) == 0 &&
           five_digits(p + 10, &out->count);
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
