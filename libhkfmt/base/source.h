/* Where the parser of a .hk has its bytes from: copies of a file's own, and of what it would be
 * after a change that is planned. */
#ifndef HK_SOURCE_H
#define HK_SOURCE_H

#include "libhkfmt/base/arena.h"

struct hk_patch { /* bytes that are not written yet */
    uint64_t at;
    struct hk_bytes bytes;
};

enum { HK_MOST_PATCHES = 2 };

struct hk_source {
    int fd;
    uint64_t size; /* of the file, or what it is going to be */
    struct hk_patch patches[HK_MOST_PATCHES];
    const uint8_t *bytes; /* of a file in memory, which has no descriptor; else NULL */
};

/* Copy N bytes at offset AT, which lie before SIZE. HK_E_IO: the file has become shorter. */
enum hk_status hk_source_read(const struct hk_source *s, void *p, size_t n, uint64_t at,
                              struct hk_error *err);
/* The same to memory of ARENA, or as many as lie before SIZE. */
enum hk_status hk_source_copy(const struct hk_source *s, struct hk_arena *arena,
                              struct hk_bytes *out, uint64_t at, uint64_t n, struct hk_error *err);
/* Whether the N bytes at AT, which lie before SIZE, are zero; unreadable ones are not. */
bool hk_source_zero(const struct hk_source *s, uint64_t n, uint64_t at);

#endif
