/* Parsing a .hk (header.c, metadata.c, toc.c, appendix.c, ranges.c, parse.c). Each piece reports
 * every fault it finds and goes on as far as it can. */
#ifndef HK_SCAN_H
#define HK_SCAN_H

#include "libhkfmt/base/source.h"
#include "libhkfmt/hk/file.h"

struct hk_scan {
    struct hk_file *f; /* being filled */
    const struct hk_source *src;
    uint64_t size; /* of the file */
    const struct hk_reporter *r;
    uint64_t appendix_end; /* from hk_scan_ranges(): where the bytes of records end at the latest */
    bool thorough;         /* also look into values, as hk_verify() wants and hk_open() does not */
};

/* *GOOD is false: this is no .hk, or none that can be read further. */
enum hk_status hk_scan_header(struct hk_scan *s, bool *good, struct hk_error *err);
/* Copy SIZE bytes at OFFSET, which lie in the file, to memory of the file's. */
enum hk_status hk_copy_section(const struct hk_scan *s, struct hk_bytes *out, uint64_t offset,
                               uint64_t size, struct hk_error *err);
enum hk_status hk_scan_metadata(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_toc(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_appendix(struct hk_scan *s, struct hk_error *err);
/* Overlaps between header, metadata, table and sections, and where the bytes of appendix records
 * end at the latest. */
enum hk_status hk_scan_ranges(struct hk_scan *s, struct hk_error *err);
/* What follows all that counts, told where the records have not told it: after the others. */
void hk_scan_tail(const struct hk_scan *s);
/* Whether what is torn at the end of the file is what a writer is writing just now. */
bool hk_scan_in_progress(const struct hk_scan *s);

/* Exact size of a value of TYPE, 0 where it varies. */
size_t hk_meta_fixed_size(unsigned type);

/* The whole of a .hk into F, which holds one part and is otherwise zero. Payloads are not read. */
enum hk_status hk_parse(struct hk_file *f, const struct hk_source *src, bool thorough,
                        const struct hk_reporter *r, struct hk_error *err);

#endif
