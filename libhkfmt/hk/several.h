/* Several model files put together by cat. */
#ifndef HK_SEVERAL_H
#define HK_SEVERAL_H

#include "libhkfmt/base/source.h"

/* What is said of such a file, at the place of the second. */
#define HK_SEVERAL_FILES                                                                           \
    "several files put together: another model begins here; hk-convert makes one file of a set"

/* Whether the N bytes at P, of which the first 16 are looked at, begin as a model of any format. */
bool hk_starts_model(const uint8_t *p, uint64_t n);
/* Where in the file of F another model follows; 0 where none does. Of a .hk, records and ends are
 * known. */
uint64_t hk_next_in_hk(const struct hk_file *f, const struct hk_source *src);
uint64_t hk_next_in_gguf(const struct hk_file *f);

#endif
