/* Appending records. Names and payloads are written and synced first, with zeros where the records'
 * headers belong; then the headers but for their first eight bytes, then those, the first record's
 * last of all, and for the first record of a file its header's appendix_offset. Readers take a
 * record that begins with eight zeros for the end of the list, so all records of a call appear in
 * one eight-byte write, which no kill divides. */
#include <stdlib.h>
#include <zlib.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/compress.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/history.h"
#include "libhkfmt/hk/outcome.h"
#include "libhkfmt/hk/records.h"
#include "libhkfmt/hk/wire.h"

struct pending { /* a record whose header is not written yet */
    uint64_t offset;
    uint8_t header[HK_RECORD_HEADER_SIZE];
};

struct hk_appender {
    struct hk_history h;
    uint8_t header[HK_HEADER_SIZE]; /* as it was found */
    uint64_t appendix_offset;       /* of the header afterwards */
    bool entered;                   /* readers are kept out */
    uint64_t end;                   /* of what was written so far */
    uint32_t generation;
    uint8_t parent[HK_SHA256_SIZE]; /* for the next record */
    struct pending *records;
    size_t count, room;
    struct hk_sha256 *hash; /* of the record that is open, NULL between records */
    uint32_t crc;
    uint64_t data_size;
    struct hk_deflater *deflater; /* of a compressed record */
    enum hk_status failed;        /* of an earlier call: nothing can be committed then */
};

static void free_appender(struct hk_appender **appender)
{
    struct hk_appender *a = *appender;
    hk_sha256_free(&a->hash);
    hk_deflater_free(&a->deflater);
    hk_history_close(&a->h);
    free(a->records);
    free(a);
    *appender = NULL;
}

/* ---- opening ---- */

/* A rollback of the reference leaves an offset at or past the end: bytes that grow over it must not
 * be taken for a record. */
static enum hk_status drop_stale_offset(struct hk_appender *a, struct hk_error *err)
{
    uint8_t header[HK_HEADER_SIZE];
    if (a->h.f->ends.records > 0 || a->h.f->header.appendix_offset == 0)
        return HK_OK;
    hk_history_header(&a->h, 0, header);
    enum hk_status st = hk_lock_enter(&a->h.lock, err);
    if (st != HK_OK)
        return st;
    st = hk_history_put_header(&a->h, header, err);
    hk_lock_leave(&a->h.lock);
    return st;
}

static enum hk_status check_append_place(struct hk_appender *a, struct hk_error *err)
{
    const struct hk_ends *l = &a->h.f->ends;
    enum hk_status st = hk_history_check_tail(&a->h, err);
    if (st != HK_OK)
        return st;
    if (!align_ok(l->size, 8, &a->end))
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the file is too large to grow");
    a->appendix_offset = l->records > 0 ? l->records : a->end;
    return HK_OK;
}

static bool is_same_inode(const struct hk_part *a, const struct hk_part *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}

enum hk_status hk_append_bind(struct hk_appender *a, const struct hk_file *whole,
                              const struct hk_work *w, struct hk_error *err)
{
    const struct hk_file *f = a->h.f;
    if (f->record_count + a->count > 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "only the first record can bind the base, and there are %zu already",
                       f->record_count + a->count);
    if (whole->part_count < whole->header.split_count)
        return hk_fail(err, HK_E_USE, HK_AT_SPLIT_COUNT,
                       "one of %u shards, and the base is all of them", whole->header.split_count);
    if (!is_same_inode(&whole->parts[0], &f->parts[0]))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "another file has taken its name since it was looked at");
    const struct hk_hashes h = {.size = sizeof h, .base = a->parent, .work = w};
    return hk_hash(whole, &h, err);
}

static enum hk_status choose_first_parent(struct hk_appender *a, unsigned options,
                                          struct hk_error *err)
{
    const struct hk_file *f = a->h.f;
    if ((options & HK_APPEND_BIND_BASE) != 0)
        return hk_append_bind(a, f, NULL, err);
    if (f->record_count == 0)
        return HK_OK;
    a->generation = f->records[f->record_count - 1].generation;
    return hk_record_hash(f, f->record_count - 1, a->parent, err);
}

enum hk_status hk_append_open(struct hk_appender **out, const char *path, unsigned options,
                              const struct hk_wait *wait, struct hk_error *err)
{
    struct hk_appender *a = calloc(1, sizeof *a);
    if (a == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_history_open(&a->h, path, true, wait, err);
    if (st == HK_OK) {
        memcpy(a->header, a->h.header, sizeof a->header);
        st = check_append_place(a, err);
    }
    if (st == HK_OK)
        st = choose_first_parent(a, options, err);
    if (st != HK_OK) {
        free_appender(&a);
        return st;
    }
    *out = a;
    return HK_OK;
}

uint32_t hk_append_generation(const struct hk_appender *a)
{
    return a->generation;
}

/* ---- records ---- */

static enum hk_status keep_failure(struct hk_appender *a, enum hk_status st)
{
    if (st != HK_OK && a->failed == HK_OK)
        a->failed = st;
    return st;
}

static enum hk_status put_record_bytes(struct hk_appender *a, const void *p, size_t n,
                                       struct hk_error *err)
{
    uint64_t end;
    if (!add_ok(a->end, n, &end) || end > INT64_MAX - HK_RECORD_HEADER_SIZE - 8)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the file would be too large");
    enum hk_status st = hk_history_write(&a->h, p, n, a->end, err);
    if (st == HK_OK && n > 0)
        st = hk_sha256_add(a->hash, p, n, err);
    if (st == HK_OK)
        a->end = end;
    return st;
}

/* Bytes of the payload as they are stored. */
static enum hk_status put_stored_bytes(void *appender, const uint8_t *p, size_t n,
                                       struct hk_error *err)
{
    struct hk_appender *a = appender;
    enum hk_status st = put_record_bytes(a, p, n, err);
    if (st == HK_OK) {
        a->crc = (uint32_t)crc32_z(a->crc, p, n);
        a->data_size += n;
    }
    return st;
}

/* The open record has all of its bytes: complete its header, and zeros up to a multiple of 8. */
static enum hk_status close_record(struct hk_appender *a, struct hk_error *err)
{
    static const uint8_t zeros[8];
    if (a->hash == NULL)
        return HK_OK;
    enum hk_status st = HK_OK;
    if (a->deflater != NULL)
        st = hk_deflater_end(&a->deflater, err);
    if (st != HK_OK)
        return st;
    uint8_t *p = a->records[a->count - 1].header;
    put32(p + 68, a->crc);
    put64(p + 72, a->data_size);
    st = hk_sha256_done(&a->hash, a->parent, err);
    const size_t padding = (size_t)(-a->end % 8);
    if (st == HK_OK)
        st = hk_history_write(&a->h, zeros, padding, a->end, err);
    a->end += padding;
    return st;
}

static void encode_new_record(const struct hk_new_record *r, const uint8_t *parent, uint8_t *p)
{
    memset(p, 0, HK_RECORD_HEADER_SIZE);
    p[0] = (uint8_t)r->type;
    p[1] = r->flags;
    put16(p + 2, (uint16_t)r->name.n);
    put32(p + 4, r->generation);
    put64(p + 8, r->timestamp);
    memcpy(p + 16, parent, HK_SHA256_SIZE);
    for (size_t i = 0; i < 4; i++)
        put_f32(p + 48 + 4 * i, r->metrics[i]);
    put16(p + 64, (uint16_t)r->target.n);
}

static enum hk_status check_new_record(const struct hk_appender *a, const struct hk_new_record *r,
                                       struct hk_error *err)
{
    if (a->failed != HK_OK)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "an earlier record failed");
    if (hk_record_type_name(r->type) == NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "unknown record type %d", (int)r->type);
    if (r->name.n > UINT16_MAX || r->target.n > UINT16_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "name of %zu or target of %zu bytes: at most 65535 fit", r->name.n,
                       r->target.n);
    if (r->generation < a->generation)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "generation %u lies before the last one: --generation takes %u or more",
                       r->generation, a->generation);
    return HK_OK;
}

/* Its header stays zero for now. */
static enum hk_status begin_record(struct hk_appender *a, const struct hk_new_record *r,
                                   struct hk_error *err)
{
    static const uint8_t zeros[HK_RECORD_HEADER_SIZE];
    struct pending *p = &a->records[a->count++];
    p->offset = a->end;
    encode_new_record(r, a->parent, p->header);
    enum hk_status st = hk_history_write(&a->h, zeros, sizeof zeros, a->end, err);
    a->end += sizeof zeros;
    a->generation = r->generation;
    a->crc = 0;
    a->data_size = 0;
    if (st == HK_OK)
        st = put_record_bytes(a, r->name.p, r->name.n, err);
    if (st == HK_OK)
        st = put_record_bytes(a, r->target.p, r->target.n, err);
    if (st == HK_OK && (r->flags & HK_RECORD_COMPRESSED) != 0)
        st = hk_deflater_new(&a->deflater, r->plain_size, put_stored_bytes, a, err);
    return st;
}

enum hk_status hk_append_record(struct hk_appender *a, const struct hk_new_record *given,
                                struct hk_error *err)
{
    struct hk_new_record record, *r = &record;
    enum hk_status st = hk_read_options(r, sizeof *r, given, err);
    if (st == HK_OK)
        st = check_new_record(a, r, err);
    if (st == HK_OK)
        st = close_record(a, err);
    if (st == HK_OK)
        st = hk_grow(&a->records, &a->room, a->count + 1, sizeof *a->records) ? HK_OK
                                                                              : hk_fail_nomem(err);
    if (st == HK_OK)
        st = hk_sha256_new(&a->hash, err);
    if (st == HK_OK && a->count == 0)
        st = drop_stale_offset(a, err);
    if (st == HK_OK)
        st = begin_record(a, r, err);
    return keep_failure(a, st);
}

enum hk_status hk_append_write(struct hk_appender *a, const void *p, size_t n, struct hk_error *err)
{
    if (a->hash == NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "payload without a record");
    enum hk_status st = a->deflater != NULL ? hk_deflater_write(a->deflater, p, n, err)
                                            : put_stored_bytes(a, p, n, err);
    return keep_failure(a, st);
}

static enum hk_status append_one_switch(struct hk_appender *a, const struct hk_new_record *like,
                                        const struct hk_record *of, struct hk_error *err)
{
    struct hk_new_record r = *like;
    r.type = (enum hk_record_type)of->type;
    r.target = of->target;
    r.flags = like->flags & HK_RECORD_ACTIVE;
    return hk_append_record(a, &r, err);
}

enum hk_status hk_append_switch(struct hk_appender *a, const struct hk_new_record *given,
                                struct hk_error *err)
{
    struct hk_new_record record, *r = &record;
    const struct hk_file *f = a->h.f;
    const struct hk_record **sorted = hk_sort_records(f);
    enum hk_status st =
        sorted == NULL ? hk_fail_nomem(err) : hk_read_options(r, sizeof *r, given, err);
    bool found = false;
    for (size_t i = 0; st == HK_OK && i < f->record_count; i++) {
        const struct hk_bytes name = sorted[i]->name;
        if (!hk_bytes_equal(name, r->name) || (i > 0 && hk_same_switch(sorted[i - 1], sorted[i])))
            continue;
        found = true;
        st = append_one_switch(a, r, sorted[i], err);
    }
    if (st == HK_OK && !found)
        st = hk_no_record(f, sorted, r->name, err);
    free(sorted);
    return keep_failure(a, st);
}

/* ---- making them count ---- */

static enum hk_status write_record_headers(const struct hk_appender *a, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < a->count; i++)
        st = hk_history_write(&a->h, a->records[i].header + HK_RECORD_FIRST,
                              HK_RECORD_HEADER_SIZE - HK_RECORD_FIRST,
                              a->records[i].offset + HK_RECORD_FIRST, err);
    for (size_t i = 1; st == HK_OK && i < a->count; i++)
        st = hk_history_write(&a->h, a->records[i].header, HK_RECORD_FIRST, a->records[i].offset,
                              err);
    return st;
}

/* The file once all is written. */
static enum hk_status check_appended(const struct hk_appender *a,
                                     const uint8_t header[HK_HEADER_SIZE], struct hk_error *err)
{
    const struct hk_file *f = a->h.f;
    struct hk_outcome_record *added = reallocarray(NULL, a->count, sizeof *added);
    if (added == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < a->count; i++)
        added[i] = (struct hk_outcome_record){a->records[i].offset, a->records[i].header};
    const struct hk_outcome o = {
        .old = f,
        .then = {.fd = a->h.lock.fd,
                 .size = a->end,
                 .patches = {{0, {header, HK_HEADER_SIZE}},
                             {a->records[0].offset, {a->records[0].header, HK_RECORD_FIRST}}}},
        .metadata = f->metadata,
        .pairs = f->header.metadata_kv_count,
        .kept = f->record_count,
        .added = added,
        .added_count = a->count,
        .settled = true,
    };
    enum hk_status st = hk_check_outcome(&o, err);
    free(added);
    return st;
}

/* A seal goes before anything counts; what the header tells last is where the first record is. */
static enum hk_status publish_records(struct hk_appender *a, const uint8_t header[HK_HEADER_SIZE],
                                      struct hk_error *err)
{
    struct hk_history *h = &a->h;
    uint8_t unsealed[HK_HEADER_SIZE];
    memcpy(unsealed, h->header, sizeof unsealed);
    hk_break_seal(unsealed);
    enum hk_status st = hk_history_put_header(h, unsealed, err);
    if (st == HK_OK)
        st = hk_history_write(h, a->records[0].header, HK_RECORD_FIRST, a->records[0].offset, err);
    if (st == HK_OK)
        st = hk_history_sync(h, err);
    return st == HK_OK ? hk_history_put_header(h, header, err) : st;
}

static enum hk_status commit_records(struct hk_appender *a, struct hk_error *err)
{
    uint8_t header[HK_HEADER_SIZE];
    if (a->failed != HK_OK)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a record failed, nothing is appended");
    enum hk_status st = close_record(a, err);
    if (st != HK_OK || a->count == 0)
        return st;
    st = write_record_headers(a, err);
    if (st == HK_OK)
        st = hk_history_sync(&a->h, err);
    hk_history_header(&a->h, a->appendix_offset, header);
    if (st == HK_OK)
        st = check_appended(a, header, err);
    if (st == HK_OK)
        st = hk_lock_enter(&a->h.lock, err);
    if (st != HK_OK)
        return st;
    a->entered = true;
    return publish_records(a, header, err);
}

enum hk_status hk_append_commit(struct hk_appender **a, struct hk_error *err)
{
    enum hk_status st = commit_records(*a, err);
    if (st != HK_OK) {
        hk_append_discard(a);
        return st;
    }
    free_appender(a);
    return HK_OK;
}

/* What the file was: a record's place may be in its header, or a seal gone from it, and no header
 * may name records that are gone. While it is as it was, what was written counts nowhere, and goes
 * also beside who reads all of the file and is not to be waited for. */
static void take_back_records(const struct hk_appender *a)
{
    const bool same = memcmp(a->header, a->h.header, sizeof a->header) == 0;
    if (same && a->count == 0)
        return;
    if (!a->entered && hk_lock_enter(&a->h.lock, NULL) != HK_OK && !same)
        return;
    if (same || hk_history_write(&a->h, a->header, sizeof a->header, 0, NULL) == HK_OK)
        (void)!hk_history_cut(&a->h, a->h.f->ends.size, NULL);
}

void hk_append_discard(struct hk_appender **appender)
{
    if (*appender == NULL)
        return;
    take_back_records(*appender);
    free_appender(appender);
}
