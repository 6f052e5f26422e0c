/* Bytes that grow. */
#include <stdlib.h>

#include "libhkfmt/base/buf.h"
#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"

uint8_t *hk_buf_room(struct hk_buf *b, size_t n)
{
    if (b->failed || n > SIZE_MAX - b->n ||
        !hk_grow(&b->p, &b->room, n > 0 ? b->n + n : b->n + 1,
                 1)) { /* never NULL, not even for 0 */
        b->failed = true;
        return NULL;
    }
    b->n += n;
    return b->p + b->n - n;
}

void hk_buf_put(struct hk_buf *b, const void *p, size_t n)
{
    uint8_t *to = hk_buf_room(b, n);
    if (to != NULL && n > 0)
        memcpy(to, p, n);
}

void hk_buf_text(struct hk_buf *b, const char *s)
{
    hk_buf_put(b, s, strlen(s));
}

void hk_buf_u32(struct hk_buf *b, uint32_t v)
{
    uint8_t *p = hk_buf_room(b, 4);
    if (p != NULL)
        put32(p, v);
}

void hk_buf_u64(struct hk_buf *b, uint64_t v)
{
    uint8_t *p = hk_buf_room(b, 8);
    if (p != NULL)
        put64(p, v);
}

void hk_buf_free(struct hk_buf *b)
{
    free(b->p);
    *b = (struct hk_buf){0};
}
