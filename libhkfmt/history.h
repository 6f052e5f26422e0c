/* The appendix being written: what appending and rolling back share. */
#ifndef HK_HISTORY_H
#define HK_HISTORY_H

#include "libhkfmt/internal.h"

struct hk_history { /* a .hk opened to be changed at its end */
    int fd;         /* locked; -1 while there is none */
    struct hk_file *f;
    uint64_t size;
    uint64_t sections_end; /* where head and payloads end */
    uint64_t records_end;  /* where the whole records end, with their padding; 0 without records */
    bool torn;             /* bytes follow that are no record */
};

/* Open and lock PATH for changing (WRITE) or only look. Released by hk_history_close() in any case.
 * HK_E_USE: no .hk, or a shard that is not the first; HK_E_FORMAT: something lies behind its
 * records. */
enum hk_status hk_history_open(struct hk_history *h, const char *path, bool write,
                               struct hk_error *err);
void hk_history_close(struct hk_history *h);

/* Write N bytes at OFFSET, all of them. */
enum hk_status hk_history_write(const struct hk_history *h, const void *p, size_t n,
                                uint64_t offset, struct hk_error *err);
enum hk_status hk_history_sync(const struct hk_history *h, struct hk_error *err);
enum hk_status hk_history_cut(const struct hk_history *h, uint64_t size, struct hk_error *err);
/* One write: the header with APPENDIX_OFFSET, its flag as that says, and no seal; then sync. Writes
 * nothing where all of it is so already. */
enum hk_status hk_history_header(const struct hk_history *h, uint64_t appendix_offset,
                                 struct hk_error *err);

#endif
