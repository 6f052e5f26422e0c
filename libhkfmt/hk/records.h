/* Records in order of their names. */
#ifndef HK_RECORDS_H
#define HK_RECORDS_H

#include "libhkfmt/hkfmt.h"

/* All records of F by name, type and target, those alike in the order of the file; freed with
 * free(). NULL when out of memory. */
const struct hk_record **hk_sort_records(const struct hk_file *f);
/* Whether A and B have one type, name and target. */
bool hk_same_switch(const struct hk_record *a, const struct hk_record *b);
/* HK_E_MISSING: no record is called NAME; SORTED lists those there are. */
enum hk_status hk_no_record(const struct hk_file *f, const struct hk_record *const *sorted,
                            struct hk_bytes name, struct hk_error *err);

#endif
