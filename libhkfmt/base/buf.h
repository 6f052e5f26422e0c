/* Bytes that grow: a failed allocation is remembered and seen at the end. */
#ifndef HK_BUF_H
#define HK_BUF_H

#include "libhkfmt/hkfmt.h"

struct hk_buf {
    uint8_t *p;
    size_t n, room;
    bool failed;
};

/* N more bytes, uninitialised; NULL when out of memory. */
uint8_t *hk_buf_room(struct hk_buf *b, size_t n);
void hk_buf_put(struct hk_buf *b, const void *p, size_t n);
void hk_buf_text(struct hk_buf *b, const char *s);
void hk_buf_u32(struct hk_buf *b, uint32_t v);
void hk_buf_u64(struct hk_buf *b, uint64_t v);
void hk_buf_free(struct hk_buf *b);

#endif
