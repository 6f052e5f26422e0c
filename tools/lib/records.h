/* records.h: the version history as hk-inspect and hk-log show it. */
#ifndef TOOL_RECORDS_H
#define TOOL_RECORDS_H

#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

/* Name of a record's type; of an unknown one its number. */
json_t *record_type(const struct hk_record *r);
/* The states of F's records, one for each, freed with free(); exits 2 when out of memory. */
struct hk_record_state *record_states(const struct hk_file *f);
/* Print F's records as array KEY of O, lineage and checksum checked; exits 2 when out of memory. */
void records_put(struct tool_json_out *o, const char *key, const struct hk_file *f);
/* The same under two keys. */
void records_put_twice(struct tool_json_out *o, const char *key, const char *old,
                       const struct hk_file *f);
/* Print all records as a table. */
void records_table(const struct hk_file *f);

/* hk_record_find(), whose error suggests the name that is nearest. */
enum hk_status record_find(const struct hk_file *f, struct hk_bytes name, size_t *out,
                           struct hk_error *err);
/* The last record of F that WORD names, NAME or NAME=SCALE (a name may contain "="), and the scale,
 * 1 where there is none. HK_E_MISSING: there is no such record. A record that is not in effect is
 * taken too, and a line on standard error says so. A scale that is no number is a usage error. */
enum hk_status record_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                            struct hk_error *err);

#endif
