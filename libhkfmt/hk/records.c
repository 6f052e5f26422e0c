/* The records of a history: which are in effect, and the chain through them, in which record n
 * holds the SHA-256 of record n-1 (format section 8, "Lineage hash"). */
#include "libhkfmt/hk/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"

/* ---- the chain ---- */

enum hk_status hk_record_hash(const struct hk_file *f, size_t i, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    const struct hk_bytes pieces[] = {r->name, r->target, hk_record_data(f, r)};
    return hk_sha256_of(pieces, 3, out, err);
}

static enum hk_status compare_parent(const struct hk_file *f, size_t i, enum hk_lineage *out,
                                     struct hk_error *err)
{
    const uint8_t *parent = f->records[i].parent_hash;
    uint8_t digest[HK_SHA256_SIZE];
    enum hk_status st = hk_record_hash(f, i - 1, digest, err);
    if (st != HK_OK)
        return st;
    if (memcmp(digest, parent, sizeof digest) == 0) {
        *out = HK_LINEAGE_OK;
        return HK_OK;
    }
    struct hk_bytes payload = hk_record_data(f, &f->records[i - 1]);
    st = hk_sha256_of(&payload, 1, digest, err);
    if (st == HK_OK)
        *out = memcmp(digest, parent, sizeof digest) == 0 ? HK_LINEAGE_LEGACY : HK_LINEAGE_BROKEN;
    return st;
}

enum hk_status hk_record_lineage(const struct hk_file *f, size_t i, enum hk_lineage *out,
                                 struct hk_error *err)
{
    static const uint8_t zero[HK_SHA256_SIZE];
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    if (i > 0 && memcmp(r->parent_hash, zero, sizeof zero) != 0)
        return compare_parent(f, i, out, err);
    *out = i == 0 ? HK_LINEAGE_FIRST : HK_LINEAGE_ZERO;
    return HK_OK;
}

enum hk_crc hk_record_crc(const struct hk_file *f, size_t i)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL || r->data_crc32 == 0)
        return HK_CRC_ABSENT;
    struct hk_bytes data = hk_record_data(f, r);
    return crc32_z(0, data.p, data.n) == r->data_crc32 ? HK_CRC_OK : HK_CRC_BAD;
}

/* ---- states: later records without data switch those of their type, name and target on or off
 * ---- */

static int compare_switches(const struct hk_record *a, const struct hk_record *b)
{
    int order = hk_bytes_compare(a->name, b->name);
    if (order == 0)
        order = (a->type > b->type) - (a->type < b->type);
    return order != 0 ? order : hk_bytes_compare(a->target, b->target);
}

bool hk_same_switch(const struct hk_record *a, const struct hk_record *b)
{
    return compare_switches(a, b) == 0;
}

static int compare_records(const void *pa, const void *pb)
{
    const struct hk_record *a = *(const struct hk_record *const *)pa,
                           *b = *(const struct hk_record *const *)pb;
    const int order = compare_switches(a, b);
    return order != 0 ? order : (a > b) - (a < b);
}

const struct hk_record **hk_sort_records(const struct hk_file *f)
{
    const struct hk_record **sorted = calloc(f->record_count + 1, sizeof *sorted);
    if (sorted == NULL)
        return NULL;
    for (size_t i = 0; i < f->record_count; i++)
        sorted[i] = &f->records[i];
    if (f->record_count > 0)
        qsort(sorted, f->record_count, sizeof *sorted, compare_records);
    return sorted;
}

/* Of the COUNT records at GROUP, all of one type, name and target, from the last one back. */
static void settle_group(const struct hk_file *f, const struct hk_record *const *group,
                         size_t count, struct hk_record_state *out)
{
    const bool on = (group[count - 1]->flags & HK_RECORD_ACTIVE) != 0;
    bool switched = false, to = false;
    for (size_t i = count; i-- > 0;) {
        const struct hk_record *r = group[i];
        const bool active = (r->flags & HK_RECORD_ACTIVE) != 0;
        struct hk_record_state *s = &out[r - f->records];
        s->is_switch = r->data_size == 0 && i > 0;
        if (s->is_switch && !switched) {
            switched = true;
            to = active;
        }
        s->effective = on && (switched ? to : active);
    }
}

enum hk_status hk_record_states(const struct hk_file *f, struct hk_record_state *out,
                                struct hk_error *err)
{
    const struct hk_record **sorted = hk_sort_records(f);
    if (sorted == NULL)
        return hk_fail_nomem(err);
    for (size_t first = 0, end; first < f->record_count; first = end) {
        for (end = first + 1; end < f->record_count; end++)
            if (!hk_same_switch(sorted[first], sorted[end]))
                break;
        settle_group(f, sorted + first, end - first, out);
    }
    free(sorted);
    return HK_OK;
}

enum hk_status hk_no_record(const struct hk_file *f, const struct hk_record *const *sorted,
                            struct hk_bytes name, struct hk_error *err)
{
    char list[200] = "";
    size_t used = 0;
    bool cut = false;
    if (f->record_count == 0)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "no record %.*s: the file has none, hk-append adds them", HK_STR(name));
    for (size_t i = 0; i < f->record_count && !cut; i++) {
        if (i > 0 && hk_bytes_compare(sorted[i]->name, sorted[i - 1]->name) == 0)
            continue;
        cut = sorted[i]->name.n > sizeof list - sizeof ", ..." - used;
        if (!cut)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s",
                                     used > 0 ? ", " : "", HK_STR(sorted[i]->name));
    }
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %.*s; there are: %s%s", HK_STR(name),
                   list, cut ? ", ..." : "");
}

enum hk_status hk_record_find(const struct hk_file *f, struct hk_bytes name, size_t *out,
                              struct hk_error *err)
{
    const struct hk_record **sorted = hk_sort_records(f), *last = NULL;
    if (sorted == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < f->record_count; i++) {
        const struct hk_record *r = sorted[i];
        const bool is_switch = r->data_size == 0 && i > 0 && hk_same_switch(sorted[i - 1], r);
        if (!is_switch && hk_bytes_compare(r->name, name) == 0 && (last == NULL || r > last))
            last = r;
    }
    enum hk_status st = last != NULL ? HK_OK : hk_no_record(f, sorted, name, err);
    if (st == HK_OK)
        *out = (size_t)(last - f->records);
    free(sorted);
    return st;
}
