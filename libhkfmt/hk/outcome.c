/* Before a change in place is made, the file that it would lead to is parsed and compared with what
 * was asked. */
#include "libhkfmt/hk/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

struct tally {
    enum hk_status status; /* of the first fault that prevents opening */
    char text[256];
};

static void tally_fault(void *arg, const struct hk_fault *fault)
{
    struct tally *t = arg;
    if (fault->status == HK_OK || t->status != HK_OK)
        return;
    t->status = fault->status;
    memcpy(t->text, fault->text, sizeof t->text);
}

/* SRC parsed into *OUT, which hk_close() frees. */
static enum hk_status parse_outcome(struct hk_file **out, const struct hk_source *src,
                                    struct tally *t, struct hk_error *err)
{
    struct hk_part none = {.fd = -1, .size = src->size};
    const struct hk_reporter r = {tally_fault, t};
    struct hk_file *f = hk_file_of(&none);
    if (f == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_parse(f, src, false, &r, err);
    if (st != HK_OK)
        hk_close(&f);
    else
        *out = f;
    return st;
}

static bool is_same_record(const struct hk_record *r, uint64_t offset, const uint8_t *header)
{
    uint8_t is[HK_RECORD_HEADER_SIZE];
    hk_encode_record(r, is);
    return r->offset == offset && memcmp(is, header, sizeof is) == 0;
}

static bool has_asked_records(const struct hk_outcome *o, const struct hk_file *now)
{
    uint8_t was[HK_RECORD_HEADER_SIZE];
    bool same = now->record_count == o->kept + o->added_count;
    for (size_t i = 0; same && i < o->kept; i++) {
        const struct hk_record *old = &o->old->records[i];
        hk_encode_record(old, was);
        same = is_same_record(&now->records[i], old->offset, was) &&
               hk_bytes_equal(now->records[i].name, old->name) &&
               hk_bytes_equal(now->records[i].target, old->target);
    }
    for (size_t i = 0; same && i < o->added_count; i++)
        same = is_same_record(&now->records[o->kept + i], o->added[i].offset, o->added[i].header);
    return same;
}

/* What differs, or NULL. */
static const char *name_difference(const struct hk_outcome *o, const struct hk_file *now)
{
    const struct hk_header *h = &now->header, *was = &o->old->header;
    if (h->metadata_kv_count != o->pairs || !hk_bytes_equal(now->metadata, o->metadata))
        return "its metadata would not be what was asked for";
    if (h->tensor_count != was->tensor_count || !hk_bytes_equal(now->table, o->old->table) ||
        h->alignment != was->alignment || h->tensor_data_offset != was->tensor_data_offset)
        return "its tensor table would not be the same";
    if (!has_asked_records(o, now))
        return "its records would not be what was asked for";
    if (o->settled && (now->ends.tail > HK_TAIL_PADDING || now->ends.head_behind))
        return "its end would belong to nothing";
    return NULL;
}

enum hk_status hk_check_outcome(const struct hk_outcome *o, struct hk_error *err)
{
    struct hk_file *now = NULL;
    struct tally tally = {0};
    enum hk_status st = parse_outcome(&now, &o->then, &tally, err);
    if (st != HK_OK)
        return st;
    const char *what = tally.status != HK_OK          ? tally.text
                       : now->errors > o->old->errors ? "it would have a new fault"
                                                      : name_difference(o, now);
    if (what != NULL)
        st = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "the change is not made: %s", what);
    hk_close(&now);
    return st;
}
