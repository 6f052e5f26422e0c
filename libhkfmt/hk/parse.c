/* A whole .hk: its pieces in the order in which they depend on each other, then the indexes. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

/* ---- who owns which bytes: nothing may lie over anything else, save a shared_ref over its target
 * ---- */

struct span {
    uint64_t start, end; /* end past start */
    size_t tensor;       /* SIZE_MAX for a part of the head or the appendix */
    const char *what;
};

struct spans {
    struct span *list;
    size_t count;
};

static void add_owned_range(struct spans *v, const struct hk_scan *s, uint64_t offset,
                            uint64_t size, size_t tensor, const char *what)
{
    if (size > 0 && range_ok(offset, size, s->size))
        v->list[v->count++] = (struct span){offset, offset + size, tensor, what};
}

static int compare_spans(const void *pa, const void *pb)
{
    const struct span *a = pa, *b = pb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static enum hk_status collect_spans(const struct hk_scan *s, struct spans *v, struct hk_error *err)
{
    const struct hk_file *f = s->f;
    const struct hk_header *h = &f->header;
    if (f->tensor_count > SIZE_MAX / 3 / sizeof *v->list - 4)
        return hk_fail_nomem(err);
    v->list = malloc((3 * f->tensor_count + 4) * sizeof *v->list);
    if (v->list == NULL)
        return hk_fail_nomem(err);
    add_owned_range(v, s, 0, HK_HEADER_SIZE, SIZE_MAX, "header");
    add_owned_range(v, s, h->metadata_offset, h->metadata_size, SIZE_MAX, "metadata");
    add_owned_range(v, s, h->tensor_toc_offset, h->tensor_toc_size, SIZE_MAX, "tensor table");
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->type == HK_TYPE_SHARED_REF)
            continue;
        add_owned_range(v, s, t->data_offset, t->data_size, i, "data");
        add_owned_range(v, s, t->scale_offset, t->scale_size, i, "scales");
        add_owned_range(v, s, t->residual_offset, t->residual_size, i, "residual");
    }
    qsort(v->list, v->count, sizeof *v->list, compare_spans);
    return HK_OK;
}

static void report_overlap(const struct hk_scan *s, const struct span *a, const struct span *b)
{
    const struct span *blame = b->tensor != SIZE_MAX ? b : a;
    struct hk_where w = {.offset = b->start, .subject = HK_SUBJECT_FILE};
    if (blame->tensor != SIZE_MAX) {
        w.subject = HK_SUBJECT_TENSOR;
        w.name = s->f->tensors[blame->tensor].name;
        w.index = blame->tensor;
    }
    struct hk_bytes other = {0};
    const struct span *by = blame == a ? b : a;
    if (by->tensor != SIZE_MAX)
        other = s->f->tensors[by->tensor].name;
    hk_report(s->r, HK_FAULT_SECTION_OVERLAP, &w, "%s%s%.*s overlaps %s%s%.*s", blame->what,
              w.name.n > 0 ? " of tensor " : "", HK_STR(w.name), by->what,
              other.n > 0 ? " of tensor " : "", HK_STR(other));
}

/* Records reach to the end of the file, but an old metadata edit of the reference left the metadata
 * behind them, and one of ours that was interrupted the table too. What else lies there has no
 * business there. */
static void report_behind(const struct hk_scan *s, const struct span *span)
{
    struct hk_where w = {.offset = span->start, .subject = HK_SUBJECT_FILE};
    if (span->tensor == SIZE_MAX && hk_has_writer(s->src->fd))
        return;
    if (span->tensor == SIZE_MAX) {
        hk_report(
            s->r, HK_FAULT_DEFECT, &w,
            "%s behind the appendix, where an interrupted metadata edit, or an old one of the "
            "reference, put it",
            span->what);
        return;
    }
    w.subject = HK_SUBJECT_TENSOR;
    w.name = s->f->tensors[span->tensor].name;
    w.index = span->tensor;
    hk_report(s->r, HK_FAULT_APPENDIX_OFFSET, &w, "%s%s%.*s behind the appendix at %llu",
              span->what, w.name.n > 0 ? " of tensor " : "", HK_STR(w.name),
              (unsigned long long)s->f->header.appendix_offset);
}

/* How SPAN lies to the appendix. */
static void check_span_and_appendix(struct hk_scan *s, const struct span *span)
{
    uint64_t appendix = s->f->header.appendix_offset;
    if (appendix == 0 || span->end <= appendix)
        return;
    if (span->start < appendix) {
        hk_report(s->r, HK_FAULT_SECTION_OVERLAP, hk_at(appendix), "the appendix overlaps %s",
                  span->what);
        return;
    }
    uint64_t end = hk_staging_start(s->src, span->start);
    if (end < appendix)
        end = span->start;
    if (end < s->appendix_end)
        s->appendix_end = end;
    report_behind(s, span);
}

/* Where there are records they have told of what follows them, unless a part of the head does. Of a
 * table that does not read through, sections are unknown. */
static void check_tail(const struct hk_scan *s)
{
    const struct hk_ends *l = &s->f->ends;
    const uint64_t appendix = s->f->header.appendix_offset;
    bool told = appendix != 0 && appendix < s->size && s->appendix_end == s->size;
    bool complete = s->f->tensor_count == s->f->header.tensor_count;
    if (told || !complete || l->tail <= HK_TAIL_PADDING || hk_has_writer(s->src->fd))
        return;
    const unsigned long long left = l->size - l->live;
    if (l->tail == HK_TAIL_EDIT)
        hk_report(s->r, HK_FAULT_TRAILING, hk_at(l->live),
                  "%llu bytes of an interrupted metadata edit, which the next one removes", left);
    else
        hk_report(s->r, HK_FAULT_TRAILING, hk_at(l->live),
                  "%llu bytes follow the last section and belong to nothing (a torn append?)",
                  left);
}

/* How many of the bytes from AT to END are not zero. */
static enum hk_status count_nonzero(const struct hk_source *src, uint64_t at, uint64_t end,
                                    uint64_t *used, struct hk_error *err)
{
    uint8_t piece[4096];
    for (*used = 0; at < end;) {
        const size_t n = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        enum hk_status st = hk_source_read(src, piece, n, at, err);
        if (st != HK_OK)
            return st;
        for (size_t i = 0; i < n; i++)
            *used += piece[i] != 0;
        at += n;
    }
    return HK_OK;
}

/* The room behind the table, up to the first section or record: nothing of the file is in it. A
 * table that an edit has put behind the payloads leaves what is dead here. */
static enum hk_status check_room(const struct hk_scan *s, const struct spans *v,
                                 struct hk_error *err)
{
    const struct hk_header *h = &s->f->header;
    uint64_t start = 0, end = h->tensor_data_offset, used = 0;
    if (h->tensor_toc_size == 0 || h->tensor_toc_offset >= end)
        return HK_OK;
    for (size_t i = 0; i < v->count && v->list[i].start < end; i++) {
        if (v->list[i].tensor != SIZE_MAX)
            end = v->list[i].start;
        else if (v->list[i].end > start)
            start = v->list[i].end;
    }
    if (h->appendix_offset >= start && h->appendix_offset < end)
        end = h->appendix_offset;
    if (end > s->size) /* reported with the table, or nothing follows it */
        return HK_OK;
    enum hk_status st = count_nonzero(s->src, start, end, &used, err);
    if (st == HK_OK && used > 0)
        hk_report(s->r, HK_FAULT_ROOM, hk_at(start),
                  "%llu of %llu bytes between tensor table and payloads are not 0",
                  (unsigned long long)used, (unsigned long long)(end - start));
    return st;
}

static enum hk_status check_ranges(struct hk_scan *s, struct hk_error *err)
{
    struct spans v = {0};
    enum hk_status st = collect_spans(s, &v, err);
    if (st != HK_OK)
        return st;
    uint64_t end = 0;
    s->appendix_end = s->size;
    const struct span *last = NULL;
    for (size_t i = 0; i < v.count; i++) {
        const struct span *span = &v.list[i];
        if (last != NULL && span->start < end)
            report_overlap(s, last, span);
        check_span_and_appendix(s, span);
        if (span->end > end) {
            end = span->end;
            last = span;
        }
    }
    /* Of a table that does not read through, sections are unknown. */
    if (s->thorough && s->f->tensor_count == s->f->header.tensor_count)
        st = check_room(s, &v, err);
    free(v.list);
    return st;
}

/* ---- the whole ---- */

struct passing {
    struct hk_file *f;
    const struct hk_reporter *to;
};

static void pass_fault(void *arg, const struct hk_fault *fault)
{
    const struct passing *p = arg;
    bool tail =
        strcmp(fault->code, "record-torn") == 0 || strcmp(fault->code, "trailing-bytes") == 0;
    p->f->errors += fault->severity == HK_ERROR && !tail;
    p->to->fn(p->to->arg, fault);
}

static bool refuse_several(const struct hk_scan *s)
{
    const uint64_t next = hk_next_in_hk(s->f, s->src);
    if (next == 0)
        return false;
    hk_report(s->r, HK_FAULT_SEVERAL_FILES, hk_at(next), HK_SEVERAL_FILES);
    return true;
}

enum hk_status hk_parse(struct hk_file *f, const struct hk_source *src, bool thorough,
                        const struct hk_reporter *r, struct hk_error *err)
{
    f->format = HK_FORMAT_HK;
    struct passing passing = {f, r};
    const struct hk_reporter counting = {pass_fault, &passing};
    struct hk_scan s = {
        .f = f, .src = src, .size = src->size, .r = &counting, .thorough = thorough};
    bool good = false;
    enum hk_status st = hk_scan_header(&s, &good, err);
    if (st != HK_OK || !good)
        return st;
    st = hk_scan_metadata(&s, err);
    if (st == HK_OK)
        st = hk_scan_toc(&s, err);
    if (st == HK_OK)
        st = check_ranges(&s, err);
    if (st == HK_OK)
        st = hk_scan_appendix(&s, err);
    if (st == HK_OK) {
        f->ends = hk_ends_of(f, src);
        if (!refuse_several(&s))
            check_tail(&s);
        st = hk_build_indexes(f, &counting, err);
    }
    return st;
}

/* What overlaps what is not asked: its bytes are not read. */
enum hk_status hk_parse_cut(struct hk_file *f, bool *whole, struct hk_error *err)
{
    const struct hk_part *part = &f->parts[0];
    const struct hk_source src = {.fd = part->fd, .size = part->size};
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_scan s = {.f = f,
                        .src = &src,
                        .size = INT64_MAX,
                        .r = &reporter,
                        .appendix_end = src.size,
                        .cut = true};
    bool good = src.size >= HK_HEADER_SIZE;
    f->format = HK_FORMAT_HK;
    enum hk_status st = good ? hk_scan_header(&s, &good, err)
                             : hk_fail(err, HK_E_RANGE, src.size, "the header is not all there");
    if (st == HK_OK && good)
        st = hk_scan_metadata(&s, err);
    if (st == HK_OK && good)
        st = hk_scan_toc(&s, err);
    if (st == HK_OK && good)
        st = hk_scan_appendix(&s, err);
    *whole =
        f->kv_count == f->header.metadata_kv_count && f->tensor_count == f->header.tensor_count;
    return st != HK_OK ? st : capture.status;
}
