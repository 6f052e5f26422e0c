/* The fixed structures of the format (sections 2 and 8) from and to bytes. */
#include "libhkfmt/hk/wire.h"

#include <string.h>

#include "libhkfmt/base/le.h"

void hk_decode_header(const uint8_t *p, struct hk_header *h)
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

/* ---- records ---- */

void hk_decode_record(const uint8_t *p, struct hk_record *r)
{
    r->type = p[0];
    r->flags = p[1];
    r->name.n = le16(p + 2);
    r->generation = le32(p + 4);
    r->timestamp = le64(p + 8);
    memcpy(r->parent_hash, p + 16, sizeof r->parent_hash);
    for (size_t i = 0; i < 4; i++)
        r->metrics[i] = le_f32(p + 48 + 4 * i);
    r->target.n = le16(p + 64);
    r->reserved = le16(p + 66);
    r->data_crc32 = le32(p + 68);
    r->data_size = le64(p + 72);
}

void hk_encode_record(const struct hk_record *r, uint8_t p[HK_RECORD_HEADER_SIZE])
{
    p[0] = r->type;
    p[1] = r->flags;
    put16(p + 2, (uint16_t)r->name.n);
    put32(p + 4, r->generation);
    put64(p + 8, r->timestamp);
    memcpy(p + 16, r->parent_hash, sizeof r->parent_hash);
    for (size_t i = 0; i < 4; i++)
        put_f32(p + 48 + 4 * i, r->metrics[i]);
    put16(p + 64, (uint16_t)r->target.n);
    put16(p + 66, r->reserved);
    put32(p + 68, r->data_crc32);
    put64(p + 72, r->data_size);
}
