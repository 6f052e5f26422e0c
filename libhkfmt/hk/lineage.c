/* The chain through the appendix: record n holds the SHA-256 of record n-1 (format section 8,
 * "Lineage hash"). */
#include <string.h>
#include <zlib.h>

#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"

enum hk_status hk_record_hash(const struct hk_file *f, size_t i, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    const struct hk_bytes pieces[] = {r->name, r->target, hk_record_data(f, r)};
    return hk_sha256_of(pieces, 3, out, err);
}

static enum hk_status compare(const struct hk_file *f, size_t i, enum hk_lineage *out,
                              struct hk_error *err)
{
    const uint8_t *parent = f->records[i].parent_hash;
    uint8_t digest[HK_SHA256_SIZE];
    enum hk_status status = hk_record_hash(f, i - 1, digest, err);
    if (status != HK_OK)
        return status;
    if (memcmp(digest, parent, sizeof digest) == 0) {
        *out = HK_LINEAGE_OK;
        return HK_OK;
    }
    struct hk_bytes payload = hk_record_data(f, &f->records[i - 1]);
    status = hk_sha256_of(&payload, 1, digest, err);
    if (status == HK_OK)
        *out = memcmp(digest, parent, sizeof digest) == 0 ? HK_LINEAGE_LEGACY : HK_LINEAGE_BROKEN;
    return status;
}

enum hk_status hk_record_lineage(const struct hk_file *f, size_t i, enum hk_lineage *out,
                                 struct hk_error *err)
{
    static const uint8_t zero[HK_SHA256_SIZE];
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    if (i > 0 && memcmp(r->parent_hash, zero, sizeof zero) != 0)
        return compare(f, i, out, err);
    *out = i == 0 ? HK_LINEAGE_FIRST : HK_LINEAGE_ZERO;
    return HK_OK;
}

enum hk_crc hk_record_crc(const struct hk_file *f, size_t i)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL || r->data_crc32 == 0)
        return HK_CRC_ABSENT;
    struct hk_bytes data = hk_record_data(f, r);
    return crc32_z(0, data.p, data.n) == r->data_crc32 ? HK_CRC_OK : HK_CRC_BAD;
}
