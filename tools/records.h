/* records.h: the version history as hk-inspect and hk-log show it. */
#ifndef HK_RECORDS_H
#define HK_RECORDS_H

#include "tools/tool.h"

/* Name of a record's type; of an unknown one its number. */
json_t *record_type(const struct hk_record *r);
/* Number of the last record called NAME, SIZE_MAX if there is none. */
size_t record_named(const struct hk_file *f, const char *name);
/* Print record I of F as element of O, lineage and checksum checked; exits 2 when out of memory.
 * HASH is that of the record before, which need not be hashed twice (anything for the first), and
 * then of this one. */
void record_put(struct tool_json_out *o, const struct hk_file *f, size_t i,
                uint8_t hash[HK_SHA256_SIZE]);
/* Print all records as a table. */
void records_table(const struct hk_file *f);

#endif
