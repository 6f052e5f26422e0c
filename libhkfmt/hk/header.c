/* The 128-byte file header (format section 2). */
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/source.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

/* Flags that say nothing which the rest of the header does not say. */
enum {
    FREE_FLAGS = HK_FLAG_HAS_QUANT_TABLE | HK_FLAG_SPARSITY_2_4 | HK_FLAG_RAW_WEIGHT_STORAGE |
                 HK_FLAG_HAS_SHA256_CHECKSUM
};

static void check_header_flags(const struct hk_scan *s)
{
    const struct hk_header *h = &s->f->header;
    uint32_t wrong = (h->flags ^ hk_flags_of(h)) & ~(uint32_t)FREE_FLAGS;
    for (unsigned bit = 0; bit < 32; bit++) {
        if ((wrong >> bit & 1) == 0)
            continue;
        const char *name = hk_flag_name(bit);
        bool set = h->flags >> bit & 1;
        if (name == NULL)
            hk_report(s->r, HK_FAULT_FLAGS, hk_at(HK_AT_FLAGS), "flags: bit %u has no meaning",
                      bit);
        else
            hk_report(s->r, HK_FAULT_FLAGS, hk_at(HK_AT_FLAGS),
                      "flags: %s is %s against the header's own fields", name,
                      set ? "set" : "clear");
    }
}

static void check_header_oddities(const struct hk_scan *s, const uint8_t *p)
{
    const struct hk_header *h = &s->f->header;
    bool sealed = h->flags & HK_FLAG_HAS_SHA256_CHECKSUM;
    if (h->version_minor != 0)
        hk_report(s->r, HK_FAULT_VERSION_MINOR, hk_at(HK_AT_VERSION_MINOR), "version_minor is %u",
                  h->version_minor);
    if (h->alignment == 0 || (h->alignment & (h->alignment - 1)) != 0)
        hk_report(s->r, HK_FAULT_ALIGNMENT, hk_at(HK_AT_ALIGNMENT),
                  "alignment %u is no power of two", h->alignment);
    if (sealed)
        return; /* the seal lies in the next fields */
    if (h->checksum != 0)
        hk_report(s->r, HK_FAULT_CHECKSUM_FIELD, hk_at(HK_AT_CHECKSUM),
                  "checksum field is 0x%llx, not 0", (unsigned long long)h->checksum);
    for (uint64_t i = HK_AT_RESERVED; i < HK_HEADER_SIZE; i++)
        if (p[i] != 0) {
            hk_report(s->r, HK_FAULT_RESERVED, hk_at(i), "reserved header byte is 0x%02x, not 0",
                      p[i]);
            break;
        }
}

/* What has no bytes is nowhere. */
static bool is_section_inside(uint64_t offset, uint64_t size, uint64_t end)
{
    return size == 0 || (offset >= HK_HEADER_SIZE && range_ok(offset, size, end));
}

static void check_header_ranges(const struct hk_scan *s)
{
    const struct hk_header *h = &s->f->header;
    if (!is_section_inside(h->metadata_offset, h->metadata_size, s->size))
        hk_report(s->r, HK_FAULT_METADATA_RANGE, hk_at(HK_AT_METADATA_OFFSET),
                  "metadata at %llu of %llu bytes is not inside the file of %llu",
                  (unsigned long long)h->metadata_offset, (unsigned long long)h->metadata_size,
                  (unsigned long long)s->size);
    if (!is_section_inside(h->tensor_toc_offset, h->tensor_toc_size, s->size))
        hk_report(s->r, HK_FAULT_TOC_RANGE, hk_at(HK_AT_TOC_OFFSET),
                  "tensor table at %llu of %llu bytes is not inside the file of %llu",
                  (unsigned long long)h->tensor_toc_offset, (unsigned long long)h->tensor_toc_size,
                  (unsigned long long)s->size);
    if (h->split_count == 0 || h->split_index >= h->split_count)
        hk_report(s->r, HK_FAULT_SPLIT, hk_at(HK_AT_SPLIT_INDEX),
                  "split_index %u of split_count %u", h->split_index, h->split_count);
}

/* False: this is no .hk, or none that can be read further. */
static bool check_hk_header(const struct hk_scan *s, const uint8_t *p)
{
    if (s->size < 4 || memcmp(p, HK_MAGIC, 4) != 0) {
        const char *what = hk_sniff(p, s->size);
        if (what != NULL)
            hk_report(s->r, HK_FAULT_MAGIC, hk_at(0), "not a model file: this is %s", what);
        else if (s->size == 0)
            hk_report(s->r, HK_FAULT_MAGIC, hk_at(0), "not a model file: it is empty");
        else
            hk_report(s->r, HK_FAULT_MAGIC, hk_at(0),
                      "not a .hk, GGUF or safetensors file: no known magic");
        return false;
    }
    if (s->size < HK_HEADER_SIZE) {
        hk_report(s->r, HK_FAULT_HEADER_SIZE, hk_at(s->size),
                  "the file ends at byte %llu, inside the header of %d bytes",
                  (unsigned long long)s->size, HK_HEADER_SIZE);
        return false;
    }
    hk_decode_header(p, &s->f->header);
    if (s->f->header.version_major != 1) {
        hk_report(s->r, HK_FAULT_VERSION, hk_at(HK_AT_VERSION_MAJOR),
                  "version %u.%u; this program reads version 1", s->f->header.version_major,
                  s->f->header.version_minor);
        return false;
    }
    check_header_flags(s);
    check_header_oddities(s, p);
    check_header_ranges(s);
    return true;
}

enum hk_status hk_scan_header(struct hk_scan *s, bool *good, struct hk_error *err)
{
    const struct hk_part *part = &s->f->parts[0];
    size_t n = s->size < HK_HEADER_SIZE ? (size_t)s->size : HK_HEADER_SIZE;
    enum hk_status st = hk_source_read(s->src, s->f->parts[0].header, n, 0, err);
    *good = st == HK_OK && check_hk_header(s, part->header);
    return st;
}
