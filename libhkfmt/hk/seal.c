/* The integrity seal: SHA-256 of the whole file with the digest's own bytes taken as zero. */
#include <string.h>

#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/verify.h"
#include "libhkfmt/hk/wire.h"

struct place { /* where the 32 bytes may stand: one or two pieces of the header */
    size_t first, first_size, second;
};

static const struct place places[] = {
    {HK_AT_RESERVED, HK_SHA256_SIZE, 0},
    {0x60, HK_SHA256_SIZE, 0},
    {HK_AT_CHECKSUM, 8, HK_AT_RESERVED},
};

static enum hk_status matches(const struct hk_part *part, const struct place *place, bool *match,
                              struct hk_error *err)
{
    uint8_t header[HK_HEADER_SIZE], stored[HK_SHA256_SIZE], digest[HK_SHA256_SIZE];
    size_t rest = HK_SHA256_SIZE - place->first_size;
    memcpy(header, part->map, sizeof header);
    memcpy(stored, header + place->first, place->first_size);
    memcpy(stored + place->first_size, header + place->second, rest);
    memset(header + place->first, 0, place->first_size);
    memset(header + place->second, 0, rest);
    const struct hk_bytes pieces[] = {
        {header, sizeof header},
        {part->map + HK_HEADER_SIZE, (size_t)(part->size - HK_HEADER_SIZE)},
    };
    enum hk_status status = hk_sha256_of(pieces, 2, digest, err);
    if (status == HK_OK)
        *match = memcmp(digest, stored, sizeof digest) == 0;
    return status;
}

enum hk_status hk_check_seal(const struct hk_file *f, const struct hk_reporter *r, bool payload,
                             struct hk_verify_report *report, struct hk_error *err)
{
    if ((f->header.flags & HK_FLAG_HAS_SHA256_CHECKSUM) == 0)
        return HK_OK;
    report->seal = HK_SEAL_UNCHECKED;
    if (!payload)
        return HK_OK;
    bool match = false;
    for (size_t i = 0; !match && i < sizeof places / sizeof *places; i++) {
        enum hk_status status = matches(&f->parts[0], &places[i], &match, err);
        if (status != HK_OK)
            return status;
    }
    report->seal = match ? HK_SEAL_OK : HK_SEAL_UNKNOWN;
    if (!match)
        hk_report(r, HK_FAULT_SEAL, hk_at(HK_AT_CHECKSUM),
                  "sealed, but no known place of the seal holds the file's digest");
    return HK_OK;
}
