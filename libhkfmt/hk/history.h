/* The appendix being written: what appending and rolling back share. */
#ifndef HK_HISTORY_H
#define HK_HISTORY_H

#include "libhkfmt/base/lock.h"
#include "libhkfmt/hk/wire.h"

struct hk_history {      /* a .hk opened to be changed at its end */
    struct hk_lock lock; /* its descriptor is -1 while there is none */
    struct hk_file *f;
    uint8_t header[HK_HEADER_SIZE]; /* as it is in the file */
};

/* Open and lock PATH for changing (WRITE) or only look. Released by hk_history_close() in any case.
 * HK_E_USE: no .hk, or a shard that is not the first; HK_E_FORMAT: something lies behind its
 * records. */
enum hk_status hk_history_open(struct hk_history *h, const char *path, bool write,
                               const struct hk_wait *wait, struct hk_error *err);
void hk_history_close(struct hk_history *h);
/* HK_E_FORMAT: bytes follow what counts, which --repair removes. */
enum hk_status hk_history_check_tail(const struct hk_history *h, struct hk_error *err);

/* Write N bytes at OFFSET, all of them. */
enum hk_status hk_history_write(const struct hk_history *h, const void *p, size_t n,
                                uint64_t offset, struct hk_error *err);
enum hk_status hk_history_sync(const struct hk_history *h, struct hk_error *err);
enum hk_status hk_history_cut(const struct hk_history *h, uint64_t size, struct hk_error *err);
/* The header with APPENDIX_OFFSET, its flag as that says, and no seal. */
void hk_history_header(const struct hk_history *h, uint64_t appendix_offset,
                       uint8_t out[HK_HEADER_SIZE]);
/* Write HEADER and sync. Writes nothing where it is so already. */
enum hk_status hk_history_put_header(struct hk_history *h, const uint8_t header[HK_HEADER_SIZE],
                                     struct hk_error *err);

#endif
