/* Which format a file has, and parsing those that are no .hk. */
#ifndef HK_FOREIGN_H
#define HK_FOREIGN_H

#include "libhkfmt/hk/file.h"

/* Say what a file that is neither .hk, GGUF nor safetensors seems to be, or NULL. */
const char *hk_sniff(const uint8_t *p, uint64_t n);

/* What PART is by its first bytes; HK_FORMAT_HK also if it is none of all. */
enum hk_format hk_format_of(const struct hk_part *part);
/* Parse F's only part as FORMAT, GGUF or safetensors; the indexes are not built. */
enum hk_status hk_parse_foreign(struct hk_file *f, enum hk_format format, struct hk_error *err);

#endif
