/* Directories that are kept as they are. */
#ifndef HK_RAW_H
#define HK_RAW_H

#include "libhkfmt/hf/hf.h"

/* Whether F was made by hk_open_raw(). */
bool hk_is_raw(const struct hk_file *f);
/* The files that V, a view of such a file, keeps, and V without them. HK_E_UNSUPPORTED: a key names
 * one that is not written. */
enum hk_status hk_raw_export(struct hk_view *v, struct hk_side_files *out, struct hk_error *err);

#endif
