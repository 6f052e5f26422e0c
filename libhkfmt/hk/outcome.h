/* What a change in place is to lead to, compared with what it would before it is made. */
#ifndef HK_OUTCOME_H
#define HK_OUTCOME_H

#include "libhkfmt/base/source.h"

struct hk_outcome {
    const struct hk_file *old;
    struct hk_source then;    /* the file as it would be */
    struct hk_bytes metadata; /* the section */
    uint64_t pairs;
    size_t kept; /* leading records of the old file */
    const struct hk_outcome_record *added;
    size_t added_count;
    bool settled; /* nothing is to be left that does not count */
};

struct hk_outcome_record {
    uint64_t offset;
    const uint8_t *header; /* HK_RECORD_HEADER_SIZE bytes */
};

/* HK_E_FORMAT: the file would not open, would have new faults, or other contents than these and the
 * old file's tensors. */
enum hk_status hk_check_outcome(const struct hk_outcome *o, struct hk_error *err);

#endif
