/* Byte positions of the fixed structures of the format (sections 2, 3, 4 and 8) and their encoders.
 */
#ifndef HK_WIRE_H
#define HK_WIRE_H

#include "libhkfmt/base/magic.h"

enum {
    HK_HEADER_SIZE = 128,
    HK_AT_VERSION_MAJOR = 0x04,
    HK_AT_VERSION_MINOR = 0x06,
    HK_AT_FLAGS = 0x08,
    HK_AT_ALIGNMENT = 0x0c,
    HK_AT_SPLIT_INDEX = 0x0e,
    HK_AT_TENSOR_COUNT = 0x10,
    HK_AT_KV_COUNT = 0x18,
    HK_AT_METADATA_OFFSET = 0x20,
    HK_AT_METADATA_SIZE = 0x28,
    HK_AT_TOC_OFFSET = 0x30,
    HK_AT_TOC_SIZE = 0x38,
    HK_AT_DATA_OFFSET = 0x40,
    HK_AT_APPENDIX_OFFSET = 0x48,
    HK_AT_CHECKSUM = 0x50,
    HK_AT_SPLIT_COUNT = 0x58,
    HK_AT_RESERVED = 0x5a,
};

enum {
    HK_KV_FIXED = 2 + 1 + 4,     /* key_len, type, value_len: the least a pair takes */
    HK_ENTRY_FIXED = 2 + 4 + 54, /* name_len, four codes, everything behind the shape */
    HK_RECORD_HEADER_SIZE = 80,
    HK_RECORD_FIRST = 8, /* bytes of it that are written last and make the record count */
};

/* The flags that follow from the other fields of H. */
uint32_t hk_flags_of(const struct hk_header *h);
void hk_decode_header(const uint8_t *p, struct hk_header *h);
void hk_encode_header(const struct hk_header *h, uint8_t p[HK_HEADER_SIZE]);
/* Clear the seal in a header, which covers contents that are about to change (format-notes 1.1). */
void hk_break_seal(uint8_t p[HK_HEADER_SIZE]);
/* The appendix's offset in a header, and its flag. */
void hk_put_appendix(uint8_t p[HK_HEADER_SIZE], uint64_t offset);
/* R but for where it lies, with the lengths of its names. */
void hk_decode_record(const uint8_t *p, struct hk_record *r);
/* The header of R as it is in the file. */
void hk_encode_record(const struct hk_record *r, uint8_t p[HK_RECORD_HEADER_SIZE]);

#endif
