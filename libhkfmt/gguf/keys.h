/* The value types that a .hk made from a GGUF has recorded. */
#ifndef HK_GGUF_KEYS_H
#define HK_GGUF_KEYS_H

#include <jansson.h>

#include "libhkfmt/hkfmt.h"

/* The object of hk.gguf.types in .hk F, or NULL; to be released. */
enum hk_status hk_gguf_types_read(const struct hk_file *f, json_t **out, struct hk_error *err);
/* What TYPES has for KEY, or NULL; valid as long as TYPES. */
enum hk_status hk_gguf_recorded_type(const json_t *types, struct hk_bytes key, const char **out,
                                     struct hk_error *err);

/* The value of hk.gguf.types in what is made from GGUF F, allocated with malloc(); NULL where there
 * is nothing to record. */
enum hk_status hk_gguf_types_text(const struct hk_file *f, char **out, struct hk_error *err);

/* Refuse keys of GGUF F that have a meaning of their own in a .hk, and one of several shards. */
enum hk_status hk_gguf_refuse_keys(const struct hk_file *f, struct hk_error *err);
/* The metadata that a .hk made from GGUF F has beyond F's own. */
enum hk_status hk_gguf_note_source(const struct hk_file *f, struct hk_writer *w,
                                   struct hk_error *err);

#endif
