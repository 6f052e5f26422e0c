/* adapter_name.h: records that the command line names. */
#ifndef HK_ADAPTER_NAME_H
#define HK_ADAPTER_NAME_H

#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

/* The last record of F that WORD names, NAME or NAME=SCALE (a name may contain "="), and the scale,
 * 1 where there is none. HK_E_MISSING: there is no such record. A record that is not in effect is
 * taken too, and a line on standard error says so. A scale that is no number is a usage error. */
enum hk_status adapter_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                             struct hk_error *err);

#endif
