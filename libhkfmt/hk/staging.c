/* The head of what an edit writes at the end of a file, by which it is known for what it is where
 * the edit was broken off. */
#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/wire.h"

enum { AT_MARK = 16, AT_BASE = 48, AT_SETTLED = 56, AT_SIZE = 72 };

void hk_staging_head(uint8_t p[HK_STAGING_SIZE], uint64_t base, bool settled)
{
    static const char mark[] = "metadata edit in progress (hk)";
    memset(p, 0, HK_STAGING_SIZE);
    memcpy(p + AT_MARK, mark, sizeof mark);
    put64(p + AT_BASE, base);
    p[AT_SETTLED] = settled;
    put64(p + AT_SIZE, INT64_MAX);
}

bool hk_is_staging(const uint8_t *p, uint64_t n)
{
    uint8_t head[HK_STAGING_SIZE];
    hk_staging_head(head, 0, false);
    return n > 0 && memcmp(p, head, n < AT_BASE ? (size_t)n : AT_BASE) == 0 &&
           (n < sizeof head || memcmp(p + AT_SIZE, head + AT_SIZE, 8) == 0);
}

bool hk_staging_at(const struct hk_source *src, uint64_t at)
{
    uint8_t head[HK_STAGING_SIZE];
    const uint64_t left = src->size - at;
    const size_t n = left < sizeof head ? (size_t)left : sizeof head;
    return hk_source_read(src, head, n, at, NULL) == HK_OK && hk_is_staging(head, n);
}

/* The head directly before OFFSET, if there is one. */
static bool read_head(const struct hk_source *src, uint64_t offset, uint8_t head[HK_STAGING_SIZE])
{
    return offset >= HK_HEADER_SIZE + HK_STAGING_SIZE && offset <= src->size &&
           hk_source_read(src, head, HK_STAGING_SIZE, offset - HK_STAGING_SIZE, NULL) == HK_OK &&
           hk_is_staging(head, HK_STAGING_SIZE) && le64(head + AT_BASE) <= offset - HK_STAGING_SIZE;
}

uint64_t hk_staging_start(const struct hk_source *src, uint64_t offset)
{
    uint8_t head[HK_STAGING_SIZE];
    return read_head(src, offset, head) ? le64(head + AT_BASE) : offset;
}

bool hk_staged_before(const struct hk_source *src, uint64_t offset)
{
    uint8_t head[HK_STAGING_SIZE];
    return read_head(src, offset, head) && head[AT_SETTLED] == 0;
}
