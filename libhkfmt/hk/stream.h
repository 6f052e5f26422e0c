/* A file from a pipe: its beginning is held in memory, the rest is taken in order. */
#ifndef HK_STREAM_H
#define HK_STREAM_H

#include "libhkfmt/hkfmt.h"

enum { HK_MAX_STREAM_HEAD = 256 << 20 }; /* a head is held in memory where it cannot be mapped */

struct hk_stream {
    int fd;
    uint8_t *buf; /* the first HAVE bytes of the file; keys and strings point into it */
    uint64_t have;
    uint64_t at;   /* bytes taken from FD */
    uint64_t read; /* end of what hk_stream_read() gave last */
};

/* Let F read from FD. */
enum hk_status hk_stream_attach(struct hk_file *f, int fd, struct hk_error *err);
/* Twice as many bytes in memory as before. *ENDED: there were no more. */
enum hk_status hk_stream_read_more(struct hk_stream *s, bool *ended, struct hk_error *err);
/* All up to END, where the model ends, has come, and no other model follows. */
enum hk_status hk_stream_finish(struct hk_file *f, uint64_t end, struct hk_error *err);

#endif
