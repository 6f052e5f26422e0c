/* diff_appendix.c: appendix records. Two are the same record where generation, type and name are;
 * several of those belong together in their order. */
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

enum { TARGET, TIMESTAMP, FLAGS, METRICS, PARENT_HASH, CRC32, SIZE, PAYLOAD };
const char *const diff_fields[DIFF_FIELDS] = {
    [TARGET] = "target",   [TIMESTAMP] = "timestamp",     [FLAGS] = "flags",
    [METRICS] = "metrics", [PARENT_HASH] = "parent_hash", [CRC32] = "crc32",
    [SIZE] = "size",       [PAYLOAD] = "payload",
};

static struct diff_key *keys_of(const struct hk_file *f)
{
    struct diff_key *keys = calloc(hk_record_count(f) + 1, sizeof *keys);
    if (keys == NULL)
        tool_nomem();
    for (size_t i = 0; i < hk_record_count(f); i++) {
        const struct hk_record *r = hk_record_at(f, i);
        keys[i] = (struct diff_key){r->name, (uint64_t)r->generation << 8 | r->type};
    }
    return keys;
}

static bool same_bytes(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static unsigned compare(const struct diff *d, const struct hk_record *a, const struct hk_record *b)
{
    const bool differs[DIFF_FIELDS] = {
        [TARGET] = !same_bytes(a->target, b->target),
        [TIMESTAMP] = a->timestamp != b->timestamp,
        [FLAGS] = a->flags != b->flags,
        [METRICS] = memcmp(a->metrics, b->metrics, sizeof a->metrics) != 0,
        [PARENT_HASH] = memcmp(a->parent_hash, b->parent_hash, sizeof a->parent_hash) != 0,
        [CRC32] = a->data_crc32 != b->data_crc32,
        [SIZE] = a->data_size != b->data_size,
        [PAYLOAD] = !same_bytes(hk_record_data(d->a, a), hk_record_data(d->b, b)),
    };
    unsigned bits = 0;
    for (unsigned i = 0; i < DIFF_FIELDS; i++)
        bits |= (unsigned)differs[i] << i;
    return bits;
}

static void take_pair(struct diff *d, const struct diff_pair *p)
{
    struct diff_record r = {.a = p->a != DIFF_NONE ? hk_record_at(d->a, p->a) : NULL,
                            .b = p->b != DIFF_NONE ? hk_record_at(d->b, p->b) : NULL};
    bool both = r.a != NULL && r.b != NULL;
    r.differs = both ? compare(d, r.a, r.b) : 0;
    if (!both || r.differs != 0)
        d->records[d->record_count++] = r;
}

void diff_appendix(struct diff *d)
{
    size_t count;
    struct diff_key *a = keys_of(d->a), *b = keys_of(d->b);
    struct diff_pair *pairs = diff_join(a, hk_record_count(d->a), b, hk_record_count(d->b), &count);
    d->records = calloc(count + 1, sizeof *d->records);
    if (d->records == NULL)
        tool_nomem();
    for (size_t i = 0; i < count; i++)
        take_pair(d, &pairs[i]);
    d->differ = d->differ || d->record_count > 0;
    free(a);
    free(b);
    free(pairs);
}
