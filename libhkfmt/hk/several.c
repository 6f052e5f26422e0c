/* Model files put together by cat: where one ends, the next begins. Such a file would be read as
 * its first, and the rest of the model be lost in silence. */
#include "libhkfmt/hk/several.h"

#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"

enum { START = 16 }; /* bytes that tell */

bool hk_starts_model(const uint8_t *p, uint64_t n)
{
    enum { ST_MOST = 100000000 }; /* bytes that a safetensors header may have */
    if (n < START)
        return false;
    if (memcmp(p, HK_MAGIC, 4) == 0)
        return le16(p + HK_AT_VERSION_MAJOR) == 1;
    if (memcmp(p, "GGUF", 4) == 0)
        return le32(p + 4) >= 1 && le32(p + 4) <= 3;
    const uint64_t header = le64(p);
    return header >= 2 && header <= ST_MOST && header <= n - 8 && p[8] == '{' &&
           (p[9] == '"' || p[9] == '}');
}

/* ---- .hk ---- */

static bool source_has_model(const struct hk_source *src, uint64_t at)
{
    uint8_t p[START];
    return at > 0 && at < src->size && src->size - at >= START &&
           hk_source_read(src, p, START, at, NULL) == HK_OK && hk_starts_model(p, src->size - at);
}

uint64_t hk_next_in_hk(const struct hk_file *f, const struct hk_source *src)
{
    if (source_has_model(src, f->ends.bare))
        return f->ends.bare;
    return source_has_model(src, f->ends.live) ? f->ends.live : 0;
}

/* ---- GGUF ---- */

static bool part_has_model(const struct hk_part *part, uint64_t at)
{
    return at < part->size && hk_starts_model(part->map + at, part->size - at);
}

uint64_t hk_next_in_gguf(const struct hk_file *f)
{
    const struct hk_header *h = &f->header;
    uint64_t end = h->tensor_toc_offset + h->tensor_toc_size, padded;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (t->data_offset + t->data_size > end)
            end = t->data_offset + t->data_size;
    }
    if (part_has_model(&f->parts[0], end))
        return end;
    return align_ok(end, h->alignment, &padded) && part_has_model(&f->parts[0], padded) ? padded
                                                                                        : 0;
}
