/* The formats: what they are called, and what a file is by its first bytes. */
#ifndef HK_MAGIC_H
#define HK_MAGIC_H

#include "libhkfmt/hkfmt.h"

#define HK_MAGIC "HKNT"

/* ".gguf"; NULL for a directory. */
const char *hk_format_extension(enum hk_format f);
/* The format of a file of N bytes at P; HK_FORMAT_HK also where it is none of all. */
enum hk_format hk_format_of(const uint8_t *p, uint64_t n);
/* Say what a file that is neither .hk, GGUF nor safetensors seems to be, or NULL. */
const char *hk_sniff(const uint8_t *p, uint64_t n);

enum { HK_MODEL_START = 16 }; /* bytes that tell whether a model begins */
/* Whether the N bytes at P begin as a model of any format, of which the first HK_MODEL_START are
 * looked at. A file put together by cat has another where its first ends: it would be read as its
 * first, and the rest of the model be lost in silence. */
bool hk_starts_model(const uint8_t *p, uint64_t n);
/* What is said of such a file, at the place of the second. */
#define HK_SEVERAL_FILES                                                                           \
    "several files put together: another model begins here; hk-convert makes one file of a set"

#endif
