/* What is done with files of each format: base/format_list.h, as functions. */
#ifndef HK_FORMATS_H
#define HK_FORMATS_H

#include "libhkfmt/hkfmt.h"

enum { HK_MAX_SHARDS = 99999 }; /* that five digits of a name count */

/* How several files are one model. */
struct hk_shard_rules {
    size_t max; /* files that a set can have */
    /* Metadata that says which shard a file is, of how many, and how many tensors all have; the
     * first two NULL: nothing in a file says it. */
    const char *number_key, *count_key, *total_key;
    const char *types[3];    /* of these keys where they are written, which GGUF has; else NULL */
    bool in_header;          /* the header says it too: keys count only if a name or index agrees */
    bool indexed;            /* an index stands beside the files */
    bool index_totals;       /* which also says, and rightly, how large the whole is */
    const char *usual_index; /* its name where it is not that of the files, or NULL */
    const char *index_key;   /* metadata that names it, or NULL */
    const char *kept_key;    /* metadata of every shard; all other is the first's. NULL: none */
};

struct hk_view;

struct hk_format_row { /* columns of base/format_list.h */
    enum hk_status (*parse)(struct hk_file *f, struct hk_error *err);
    enum hk_status (*parse_start)(struct hk_file *f, bool *short_of, struct hk_error *err);
    enum hk_status (*parse_cut)(struct hk_file *f, bool *whole, struct hk_error *err);
    enum hk_status (*view)(struct hk_view **out, struct hk_file *f,
                           const struct hk_convert_options *opt, struct hk_error *err);
    enum hk_status (*write)(struct hk_file *f, const struct hk_convert_options *opt,
                            struct hk_out *out, struct hk_error *err);
    const struct hk_shard_rules *shards;
};

/* NULL past the last. */
const struct hk_format_row *hk_format_row(enum hk_format f);

#endif
