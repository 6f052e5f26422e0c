/* Parsing a .hk (header.c, metadata.c, toc.c, appendix.c, parse.c). Each piece reports
 * every fault it finds and goes on as far as it can. */
#ifndef HK_SCAN_H
#define HK_SCAN_H

#include "libhkfmt/base/source.h"
#include "libhkfmt/hk/file.h"

struct hk_scan {
    struct hk_file *f; /* being filled */
    const struct hk_source *src;
    uint64_t size; /* of the file; of one that is cut, more than any has */
    const struct hk_reporter *r;
    uint64_t appendix_end; /* where the bytes of records end at the latest */
    bool thorough;         /* also look into values, as hk_verify() wants and hk_open() does not */
    bool cut;              /* what is missing at the end is no fault */
};

/* *GOOD is false: this is no .hk, or none that can be read further. */
enum hk_status hk_scan_header(struct hk_scan *s, bool *good, struct hk_error *err);
enum hk_status hk_scan_metadata(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_toc(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_appendix(struct hk_scan *s, struct hk_error *err);

/* Exact size of a value of TYPE, 0 where it varies. */
size_t hk_meta_fixed_size(unsigned type);

/* The whole of a .hk into F, which holds one part and is otherwise zero. Payloads are not read. */
enum hk_status hk_parse(struct hk_file *f, const struct hk_source *src, bool thorough,
                        const struct hk_reporter *r, struct hk_error *err);

/* The same of a file that ends too early, as far as it goes. *WHOLE: its tables are. What tensors
 * say of their bytes holds for the file that it was. */
enum hk_status hk_parse_cut(struct hk_file *f, bool *whole, struct hk_error *err);

#endif
