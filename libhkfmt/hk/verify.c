/* hk_verify(): the parser with every fault reported, then what only reading records and payloads
 * can tell. */
#include "libhkfmt/hk/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/sha256.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/open.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

struct counting { /* passes faults on and counts them */
    hk_fault_fn *fn;
    void *arg;
    struct hk_verify_report *report;
    bool readable; /* nothing so far that keeps hk_open() from it */
};

static void count_fault(void *arg, const struct hk_fault *fault)
{
    struct counting *c = arg;
    if (fault->severity == HK_ERROR)
        c->report->errors++;
    else
        c->report->warnings++;
    c->readable = c->readable && fault->status == HK_OK;
    c->fn(c->arg, fault);
}

static void report_lineage(const struct hk_reporter *r, const struct hk_record *record, size_t i,
                           enum hk_lineage lineage, struct hk_verify_report *report)
{
    struct hk_where w = {record->offset + 16, HK_SUBJECT_RECORD, record->name, i};
    if (lineage == HK_LINEAGE_BROKEN)
        hk_report(r, HK_FAULT_LINEAGE_BROKEN, &w,
                  "record %zu: parent_hash is not the hash of record %zu", i, i - 1);
    else if (lineage == HK_LINEAGE_ZERO)
        hk_report(r, HK_FAULT_LINEAGE_ZERO, &w,
                  "record %zu: parent_hash is all zero: the chain is not closed here", i);
    else
        return;
    report->lineage = HK_CHAIN_BROKEN;
}

static enum hk_status check_records(const struct hk_file *f, const struct hk_reporter *r,
                                    struct hk_verify_report *report, struct hk_error *err)
{
    report->lineage = f->record_count > 0 ? HK_CHAIN_OK : HK_CHAIN_NONE;
    for (size_t i = 0; i < f->record_count; i++) {
        const struct hk_record *record = &f->records[i];
        enum hk_lineage lineage;
        enum hk_status st = hk_record_lineage(f, i, &lineage, err);
        if (st != HK_OK)
            return st;
        report_lineage(r, record, i, lineage, report);
        struct hk_where w = {record->offset + 68, HK_SUBJECT_RECORD, record->name, i};
        if (hk_record_crc(f, i) == HK_CRC_BAD)
            hk_report(r, HK_FAULT_CRC, &w, "record %zu: payload does not have its crc32 0x%08x", i,
                      record->data_crc32);
    }
    return HK_OK;
}

enum hk_status hk_check_base(const struct hk_file *f, const struct hk_reporter *r,
                             const struct hk_verify_how *how, struct hk_verify_report *report,
                             struct hk_error *err)
{
    static const uint8_t zero[HK_SHA256_SIZE];
    const struct hk_record *first = hk_record_at(f, 0);
    report->base = HK_BASE_UNBOUND;
    if (first == NULL || memcmp(first->parent_hash, zero, sizeof zero) == 0)
        return HK_OK;
    report->base = HK_BASE_UNCHECKED;
    if (!how->payload)
        return HK_OK;
    uint8_t digest[HK_SHA256_SIZE];
    const struct hk_hashes h = {.size = sizeof h, .base = digest, .work = how->work};
    enum hk_status st = hk_hash(f, &h, err);
    if (st == HK_E_FORMAT)
        return HK_OK; /* a reference that leads nowhere is reported with its tensor */
    if (st != HK_OK)
        return st;
    if (memcmp(digest, first->parent_hash, sizeof digest) == 0) {
        report->base = HK_BASE_BOUND;
        return HK_OK;
    }
    report->base = HK_BASE_CHANGED;
    struct hk_where w = {first->offset + 16, HK_SUBJECT_RECORD, first->name, 0};
    hk_report(r, HK_FAULT_BASE_CHANGED, &w, "record 0: parent_hash is not the digest of %s tensors",
              f->part_count > 1 ? "the set's" : "this file's");
    return HK_OK;
}

/* PATH is NULL where the file has no place of its own. */
static enum hk_status report_journal(const char *path, const struct hk_reporter *r,
                                     struct hk_error *err)
{
    bool journal = false;
    enum hk_status st = path != NULL ? hk_has_journal(path, &journal, err) : HK_OK;
    if (st == HK_OK && journal)
        hk_report(
            r, HK_FAULT_DEFECT, hk_at(0),
            "a metadata journal of the reference lies beside the file: an edit was interrupted");
    return st;
}

/* ---- the seal ---- */

struct place { /* where the 32 bytes may stand: one or two pieces of the header */
    size_t first, first_size, second;
};

static const struct place places[] = {
    {HK_AT_RESERVED, HK_SHA256_SIZE, 0},
    {0x60, HK_SHA256_SIZE, 0},
    {HK_AT_CHECKSUM, 8, HK_AT_RESERVED},
};

static enum hk_status is_sealed_at(const struct hk_part *part, const struct place *place,
                                   bool *match, struct hk_error *err)
{
    uint8_t header[HK_HEADER_SIZE], stored[HK_SHA256_SIZE], digest[HK_SHA256_SIZE];
    size_t rest = HK_SHA256_SIZE - place->first_size;
    memcpy(header, part->map, sizeof header);
    memcpy(stored, header + place->first, place->first_size);
    memcpy(stored + place->first_size, header + place->second, rest);
    memset(header + place->first, 0, place->first_size);
    memset(header + place->second, 0, rest);
    const struct hk_bytes pieces[] = {
        {header, sizeof header},
        {part->map + HK_HEADER_SIZE, (size_t)(part->size - HK_HEADER_SIZE)},
    };
    enum hk_status st = hk_sha256_of(pieces, 2, digest, err);
    if (st == HK_OK)
        *match = memcmp(digest, stored, sizeof digest) == 0;
    return st;
}

/* It holds if the file's digest stands in any place that it may have (format-notes section 1.1).
 * Without PAYLOAD only its presence is noted. */
static enum hk_status check_seal(const struct hk_file *f, const struct hk_reporter *r, bool payload,
                                 struct hk_verify_report *report, struct hk_error *err)
{
    if ((f->header.flags & HK_FLAG_HAS_SHA256_CHECKSUM) == 0)
        return HK_OK;
    report->seal = HK_SEAL_UNCHECKED;
    if (!payload)
        return HK_OK;
    bool match = false;
    for (size_t i = 0; !match && i < sizeof places / sizeof *places; i++) {
        enum hk_status st = is_sealed_at(&f->parts[0], &places[i], &match, err);
        if (st != HK_OK)
            return st;
    }
    report->seal = match ? HK_SEAL_OK : HK_SEAL_UNKNOWN;
    if (!match)
        hk_report(r, HK_FAULT_SEAL, hk_at(HK_AT_CHECKSUM),
                  "sealed, but no known place of the seal holds the file's digest");
    return HK_OK;
}

/* ---- files ---- */

static enum hk_status verify_hk_file(struct hk_file *f, const char *path,
                                     const struct hk_verify_how *how, const struct hk_reporter *r,
                                     const struct counting *counting, struct hk_error *err)
{
    struct hk_verify_report *report = counting->report;
    const bool payload = how->payload;
    enum hk_status st = report_journal(path, r, err);
    if (st != HK_OK)
        return st;
    bool readable = counting->readable;
    report->payload = payload && readable;
    st = check_records(f, r, report, err);
    if (st == HK_OK)
        st = check_seal(f, r, payload, report, err);
    if (st == HK_OK && readable && !how->part)
        st = hk_check_base(f, r, how, report, err);
    if (st == HK_OK && payload && readable)
        st = hk_check_payloads(f, r, err);
    return st;
}

/* A foreign file is sound if it opens; otherwise its one error is what opening says. */
static enum hk_status verify_foreign_file(struct hk_file *f, enum hk_format format,
                                          const struct hk_verify_how *how,
                                          const struct hk_reporter *r,
                                          const struct counting *counting, struct hk_error *err)
{
    struct hk_error why = {0};
    enum hk_status st = hk_format_row(format)->parse(f, &why);
    if (st == HK_E_NOMEM || st == HK_E_IO)
        return hk_fail(err, st, why.offset, "%s", why.text);
    if (st != HK_OK) {
        hk_report(r, HK_FAULT_FOREIGN, hk_at(why.offset), "%s", why.text);
        return HK_OK;
    }
    st = hk_build_indexes(f, r, err);
    counting->report->payload = how->payload && counting->readable;
    return st == HK_OK && counting->report->payload ? hk_check_payloads(f, r, err) : st;
}

/* Faults that are told later. */
struct hk_fault_list {
    struct hk_fault *list;
    size_t count, room;
    bool lost; /* for want of memory */
};

static void note_fault(void *list, const struct hk_fault *fault)
{
    struct hk_fault_list *l = list;
    if (hk_grow(&l->list, &l->room, l->count + 1, sizeof *l->list))
        l->list[l->count++] = *fault;
    else
        l->lost = true;
}

static enum hk_status parse_thoroughly(void *arg, struct hk_file *f, const struct hk_source *src,
                                       struct hk_error *err)
{
    struct hk_fault_list *faults = arg;
    const struct hk_reporter r = {note_fault, faults};
    faults->count = 0;
    enum hk_status st = hk_parse(f, src, true, &r, err);
    return st == HK_OK && faults->lost ? hk_fail_nomem(err) : st;
}

/* A seal covers all bytes, which have to stay as they are; otherwise records' payloads do, which
 * are hashed. */
static unsigned locks_to_keep(int fd, const struct hk_verify_how *how)
{
    uint8_t header[HK_HEADER_SIZE];
    bool sealed = pread(fd, header, sizeof header, 0) == sizeof header &&
                  (le32(header + HK_AT_FLAGS) & HK_FLAG_HAS_SHA256_CHECKSUM) != 0;
    return HK_KEEP_RECORDS | (sealed && how->payload ? HK_KEEP_FILE : 0);
}

/* What is checked, and what looking at its head has found. */
struct subject {
    struct hk_file *f; /* parsed if it is a .hk */
    enum hk_format format;
    struct hk_fault_list faults;
};

/* FD is our own, and closed. */
static enum hk_status take_descriptor(struct subject *s, int fd, const struct hk_verify_how *how,
                                      struct hk_error *err)
{
    struct hk_part part;
    enum hk_status st;
    s->format = hk_format_of_fd(fd);
    if (s->format == HK_FORMAT_HK)
        st = hk_open_hk(&s->f, fd, locks_to_keep(fd, how), parse_thoroughly, &s->faults, err);
    else if ((st = hk_map_fd(&part, fd, err)) == HK_OK && (s->f = hk_file_of(&part)) == NULL)
        st = hk_fail_nomem(err);
    close(fd);
    return st;
}

static enum hk_status take_memory(struct subject *s, const struct hk_part *of, struct hk_error *err)
{
    struct hk_part part = {.map = of->map, .size = of->size, .fd = -1, .borrowed = true};
    const struct hk_source src = {.fd = -1, .bytes = part.map, .size = part.size};
    s->format = hk_format_of(part.map, part.size);
    s->f = hk_file_of(&part);
    if (s->f == NULL)
        return hk_fail_nomem(err);
    return s->format == HK_FORMAT_HK ? parse_thoroughly(&s->faults, s->f, &src, err) : HK_OK;
}

static enum hk_status verify_subject(const struct subject *s, const char *path,
                                     const struct hk_verify_how *how, hk_fault_fn *fn, void *arg,
                                     struct hk_verify_report *report, struct hk_error *err)
{
    struct hk_file *f = s->f;
    *report = (struct hk_verify_report){.size = hk_file_size(f)};
    struct counting counting = {fn, arg, report, true};
    const struct hk_reporter r = {count_fault, &counting};
    for (size_t i = 0; i < s->faults.count; i++)
        count_fault(&counting, &s->faults.list[i]);
    enum hk_status st = s->format == HK_FORMAT_HK
                            ? verify_hk_file(f, path, how, &r, &counting, err)
                            : verify_foreign_file(f, s->format, how, &r, &counting, err);
    report->keys = f->kv_count;
    report->tensors = f->tensor_count;
    report->records = f->record_count;
    return st;
}

static void free_subject(struct subject *s)
{
    free(s->faults.list);
    hk_close(&s->f);
}

enum hk_status hk_verify_path(const char *path, const struct hk_verify_how *how, hk_fault_fn *fn,
                              void *arg, struct hk_verify_report *report, struct hk_error *err)
{
    struct subject s = {0};
    int fd;
    enum hk_status st = hk_open_path(&fd, path, err);
    if (st == HK_OK)
        st = take_descriptor(&s, fd, how, err);
    if (st == HK_OK)
        st = verify_subject(&s, path, how, fn, arg, report, err);
    free_subject(&s);
    return st;
}

enum hk_status hk_verify(const char *path, unsigned options, hk_fault_fn *fn, void *arg,
                         struct hk_verify_report *report, struct hk_error *err)
{
    const struct hk_verify_how how = {.payload = options & HK_VERIFY_PAYLOAD};
    return hk_verify_path(path, &how, fn, arg, report, err);
}

enum hk_status hk_verify_file(const struct hk_file *f, unsigned options, const struct hk_work *w,
                              hk_fault_fn *fn, void *arg, struct hk_verify_report *report,
                              struct hk_error *err)
{
    const struct hk_verify_how how = {.payload = options & HK_VERIFY_PAYLOAD, .work = w};
    struct subject s = {0};
    char path[40];
    int fd;
    if (f->stream != NULL || f->part_count != 1 || f->format == HK_FORMAT_HF)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "only a single file can be checked that is open already");
    const bool in_memory = f->parts[0].fd < 0;
    hk_sys_path_of_fd(path, f->parts[0].fd);
    enum hk_status st = in_memory ? HK_OK : hk_reopen_fd(&fd, f->parts[0].fd, err);
    if (st == HK_OK)
        st = in_memory ? take_memory(&s, &f->parts[0], err) : take_descriptor(&s, fd, &how, err);
    if (st == HK_OK)
        st = verify_subject(&s, in_memory ? NULL : path, &how, fn, arg, report, err);
    free_subject(&s);
    return st;
}
