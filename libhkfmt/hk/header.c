/* The 128-byte file header (format section 2) and what a file is that has none. */
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/source.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/foreign.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

static const struct {
    const char *magic;
    size_t n;
    const char *what;
} kinds[] = {
    {"version https://git-lfs", 23, "a Git LFS pointer: fetch the real file first"},
    {"<!DOCTYPE", 9, "an HTML page"},
    {"<!doctype", 9, "an HTML page"},
    {"<html", 5, "an HTML page"},
    {"PK\x03\x04", 4, "a zip archive (perhaps a PyTorch checkpoint)"},
    {"FUGG", 4, "a big-endian or byte-swapped GGUF file"},
    {"TNKH", 4, "a byte-swapped .hk file"},
    {"lmgg", 4, "an old GGML file"},
    {"ggml", 4, "an old GGML file"},
    {"fmgg", 4, "an old GGMF file"},
    {"tjgg", 4, "an old GGJT file"},
    {"\x1f\x8b", 2, "gzip data"},
    {"\x28\xb5\x2f\xfd", 4, "Zstandard data"},
    {"\x89HDF", 4, "an HDF5 file"},
    {"\x7f"
     "ELF",
     4, "an ELF program"},
};

const char *hk_sniff(const uint8_t *p, uint64_t n)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(p, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].what;
    if (n >= 9 && p[8] == '{' && le64(p) <= n - 8)
        return "a safetensors file";
    if (n >= 10 && p[8] == '{' && (p[9] == '"' || p[9] == '}' || p[9] == ' '))
        return "a safetensors file whose header is not all there";
    return NULL;
}

static void decode(const uint8_t *p, struct hk_header *h)
{
    *h = (struct hk_header){
        .version_major = le16(p + HK_AT_VERSION_MAJOR),
        .version_minor = le16(p + HK_AT_VERSION_MINOR),
        .flags = le32(p + HK_AT_FLAGS),
        .alignment = le16(p + HK_AT_ALIGNMENT),
        .split_index = le16(p + HK_AT_SPLIT_INDEX),
        .split_count = le16(p + HK_AT_SPLIT_COUNT),
        .tensor_count = le64(p + HK_AT_TENSOR_COUNT),
        .metadata_kv_count = le64(p + HK_AT_KV_COUNT),
        .metadata_offset = le64(p + HK_AT_METADATA_OFFSET),
        .metadata_size = le64(p + HK_AT_METADATA_SIZE),
        .tensor_toc_offset = le64(p + HK_AT_TOC_OFFSET),
        .tensor_toc_size = le64(p + HK_AT_TOC_SIZE),
        .tensor_data_offset = le64(p + HK_AT_DATA_OFFSET),
        .appendix_offset = le64(p + HK_AT_APPENDIX_OFFSET),
        .checksum = le64(p + HK_AT_CHECKSUM),
    };
}

uint32_t hk_flags_of(const struct hk_header *h)
{
    uint32_t flags = HK_FLAG_LITTLE_ENDIAN;
    if (h->appendix_offset != 0)
        flags |= HK_FLAG_HAS_APPENDIX;
    flags |= h->alignment % 128 == 0 ? HK_FLAG_TILE_ALIGNED : HK_FLAG_FLEXIBLE_ALIGNMENT;
    if (h->split_count > 1)
        flags |= HK_FLAG_IS_SHARDED;
    if (h->alignment >= 4096)
        flags |= HK_FLAG_UNIVERSAL_PAGE_ALIGNED;
    return flags;
}

/* Flags that say nothing which the rest of the header does not say. */
enum {
    FREE_FLAGS = HK_FLAG_HAS_QUANT_TABLE | HK_FLAG_SPARSITY_2_4 | HK_FLAG_RAW_WEIGHT_STORAGE |
                 HK_FLAG_HAS_SHA256_CHECKSUM
};

static void check_flags(const struct hk_scan *s)
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

static void check_oddities(const struct hk_scan *s, const uint8_t *p)
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
static bool section_ok(uint64_t offset, uint64_t size, uint64_t end)
{
    return size == 0 || (offset >= HK_HEADER_SIZE && range_ok(offset, size, end));
}

static void check_ranges(const struct hk_scan *s)
{
    const struct hk_header *h = &s->f->header;
    if (!section_ok(h->metadata_offset, h->metadata_size, s->size))
        hk_report(s->r, HK_FAULT_METADATA_RANGE, hk_at(HK_AT_METADATA_OFFSET),
                  "metadata at %llu of %llu bytes is not inside the file of %llu",
                  (unsigned long long)h->metadata_offset, (unsigned long long)h->metadata_size,
                  (unsigned long long)s->size);
    if (!section_ok(h->tensor_toc_offset, h->tensor_toc_size, s->size))
        hk_report(s->r, HK_FAULT_TOC_RANGE, hk_at(HK_AT_TOC_OFFSET),
                  "tensor table at %llu of %llu bytes is not inside the file of %llu",
                  (unsigned long long)h->tensor_toc_offset, (unsigned long long)h->tensor_toc_size,
                  (unsigned long long)s->size);
    if (h->split_count == 0 || h->split_index >= h->split_count)
        hk_report(s->r, HK_FAULT_SPLIT, hk_at(HK_AT_SPLIT_INDEX),
                  "split_index %u of split_count %u", h->split_index, h->split_count);
}

/* False: this is no .hk, or none that can be read further. */
static bool check_header(const struct hk_scan *s, const uint8_t *p)
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
    decode(p, &s->f->header);
    if (s->f->header.version_major != 1) {
        hk_report(s->r, HK_FAULT_VERSION, hk_at(HK_AT_VERSION_MAJOR),
                  "version %u.%u; this program reads version 1", s->f->header.version_major,
                  s->f->header.version_minor);
        return false;
    }
    check_flags(s);
    check_oddities(s, p);
    check_ranges(s);
    return true;
}

enum hk_status hk_scan_header(struct hk_scan *s, bool *good, struct hk_error *err)
{
    const struct hk_part *part = &s->f->parts[0];
    size_t n = s->size < HK_HEADER_SIZE ? (size_t)s->size : HK_HEADER_SIZE;
    enum hk_status st = hk_source_read(s->src, s->f->parts[0].header, n, 0, err);
    *good = st == HK_OK && check_header(s, part->header);
    return st;
}

void hk_encode_header(const struct hk_header *h, uint8_t p[HK_HEADER_SIZE])
{
    memset(p, 0, HK_HEADER_SIZE);
    memcpy(p, HK_MAGIC, 4);
    put16(p + HK_AT_VERSION_MAJOR, h->version_major);
    put16(p + HK_AT_VERSION_MINOR, h->version_minor);
    put32(p + HK_AT_FLAGS, h->flags);
    put16(p + HK_AT_ALIGNMENT, (uint16_t)h->alignment);
    put16(p + HK_AT_SPLIT_INDEX, h->split_index);
    put16(p + HK_AT_SPLIT_COUNT, h->split_count);
    put64(p + HK_AT_TENSOR_COUNT, h->tensor_count);
    put64(p + HK_AT_KV_COUNT, h->metadata_kv_count);
    put64(p + HK_AT_METADATA_OFFSET, h->metadata_offset);
    put64(p + HK_AT_METADATA_SIZE, h->metadata_size);
    put64(p + HK_AT_TOC_OFFSET, h->tensor_toc_offset);
    put64(p + HK_AT_TOC_SIZE, h->tensor_toc_size);
    put64(p + HK_AT_DATA_OFFSET, h->tensor_data_offset);
    put64(p + HK_AT_APPENDIX_OFFSET, h->appendix_offset);
    put64(p + HK_AT_CHECKSUM, h->checksum);
}

void hk_break_seal(uint8_t p[HK_HEADER_SIZE])
{
    const uint32_t flags = le32(p + HK_AT_FLAGS);
    if ((flags & HK_FLAG_HAS_SHA256_CHECKSUM) == 0)
        return;
    put32(p + HK_AT_FLAGS, flags & ~(uint32_t)HK_FLAG_HAS_SHA256_CHECKSUM);
    put64(p + HK_AT_CHECKSUM, 0);
    memset(p + HK_AT_RESERVED, 0, HK_HEADER_SIZE - HK_AT_RESERVED);
}

void hk_put_appendix(uint8_t p[HK_HEADER_SIZE], uint64_t offset)
{
    const uint32_t flags = le32(p + HK_AT_FLAGS) & ~(uint32_t)HK_FLAG_HAS_APPENDIX;
    put32(p + HK_AT_FLAGS, flags | (offset != 0 ? HK_FLAG_HAS_APPENDIX : 0));
    put64(p + HK_AT_APPENDIX_OFFSET, offset);
}
