/* Faults of a file. One parser serves hk_open(), which keeps the first that matters, and
 * hk_verify(), which lists all. */
#ifndef HK_FAULT_H
#define HK_FAULT_H

#include "libhkfmt/hkfmt.h"

/* X(symbol, code, severity, status that hk_open() fails with or HK_OK if it does not) */
/* clang-format off */
#define HK_FAULTS(X)                                                                               \
    X(MAGIC, "magic", HK_ERROR, HK_E_FORMAT)                                                       \
    X(VERSION, "version", HK_ERROR, HK_E_UNSUPPORTED)                                              \
    X(HEADER_SIZE, "header-size", HK_ERROR, HK_E_RANGE)                                            \
    X(METADATA_RANGE, "metadata-range", HK_ERROR, HK_E_RANGE)                                      \
    X(METADATA_COUNT, "metadata-count", HK_ERROR, HK_E_RANGE)                                      \
    X(METADATA_TRAILING, "metadata-trailing", HK_ERROR, HK_E_FORMAT)                               \
    X(KEY_EMPTY, "key-empty", HK_ERROR, HK_E_FORMAT)                                               \
    X(KEY_DUPLICATE, "key-duplicate", HK_ERROR, HK_E_FORMAT)                                       \
    X(VALUE_TYPE, "value-type", HK_ERROR, HK_E_UNSUPPORTED)                                        \
    X(VALUE_SIZE, "value-size", HK_ERROR, HK_E_FORMAT)                                             \
    X(VALUE_BOOL, "value-bool", HK_WARNING, HK_OK)                                             \
    X(VALUE_UTF8, "value-utf8", HK_WARNING, HK_OK)                                                 \
    X(VALUE_JSON, "value-json", HK_WARNING, HK_OK)                                                 \
    X(TOC_RANGE, "toc-range", HK_ERROR, HK_E_RANGE)                                                \
    X(TOC_COUNT, "toc-count", HK_ERROR, HK_E_RANGE)                                                \
    X(TOC_TRAILING, "toc-trailing", HK_ERROR, HK_E_FORMAT)                                         \
    X(SECTION_OVERLAP, "section-overlap", HK_ERROR, HK_E_FORMAT)                                   \
    X(DATA_RANGE, "data-range", HK_ERROR, HK_E_RANGE)                                              \
    X(ROOM, "room-bytes", HK_WARNING, HK_OK)                                                       \
    X(NAME_EMPTY, "name-empty", HK_ERROR, HK_E_FORMAT)                                             \
    X(NAME_LENGTH, "name-length", HK_ERROR, HK_OK)                                                 \
    X(NAME_DUPLICATE, "name-duplicate", HK_ERROR, HK_E_FORMAT)                                     \
    X(STORAGE_TYPE, "storage-type", HK_ERROR, HK_E_UNSUPPORTED)                                    \
    X(TILE_LAYOUT, "tile-layout", HK_ERROR, HK_E_UNSUPPORTED)                                      \
    X(SPARSITY_TYPE, "sparsity-type", HK_ERROR, HK_E_UNSUPPORTED)                                  \
    X(NDIM, "ndim", HK_ERROR, HK_E_RANGE)                                                          \
    X(SHAPE_OVERFLOW, "shape-overflow", HK_ERROR, HK_E_RANGE)                                      \
    X(ROW_BLOCKS, "row-blocks", HK_ERROR, HK_E_FORMAT)                                             \
    X(BLOCK_SIZE, "block-size", HK_ERROR, HK_E_FORMAT)                                             \
    X(DATA_SIZE, "data-size", HK_ERROR, HK_E_FORMAT)                                               \
    X(SCALE_SIZE, "scale-size", HK_ERROR, HK_E_FORMAT)                                             \
    X(RESIDUAL_SIZE, "residual-size", HK_ERROR, HK_E_FORMAT)                                       \
    X(SECTION_RANGE, "section-range", HK_ERROR, HK_E_RANGE)                                        \
    X(SECTION_ALIGNMENT, "section-alignment", HK_ERROR, HK_OK)                                     \
    X(REFERENCE, "reference", HK_ERROR, HK_OK)                                               \
    X(NULL_OFFSET, "null-offset", HK_WARNING, HK_OK)                                               \
    X(UNDECODABLE, "undecodable", HK_WARNING, HK_OK)                                               \
    X(MISLABELLED, "mislabelled", HK_WARNING, HK_OK)                                               \
    X(SPLIT, "split", HK_ERROR, HK_E_FORMAT)                                                       \
    X(FLAGS, "flags", HK_WARNING, HK_OK)                                                           \
    X(CHECKSUM_FIELD, "checksum-field", HK_WARNING, HK_OK)                                         \
    X(VERSION_MINOR, "version-minor", HK_WARNING, HK_OK)                                           \
    X(RESERVED, "reserved", HK_WARNING, HK_OK)                                                     \
    X(ALIGNMENT, "alignment", HK_WARNING, HK_OK)                                                   \
    X(SWAPPED, "endian-swapped", HK_ERROR, HK_E_UNSUPPORTED)                                                           \
    X(DEFECT, "known-defect", HK_WARNING, HK_OK)                                                   \
    X(SEAL, "seal", HK_WARNING, HK_OK)                                                             \
    X(APPENDIX_OFFSET, "appendix-offset", HK_ERROR, HK_OK)                                         \
    X(RECORD_TYPE, "record-type", HK_ERROR, HK_OK)                                                 \
    X(RECORD_TORN, "record-torn", HK_ERROR, HK_OK)                                                 \
    X(RECORD_PADDING, "record-padding", HK_WARNING, HK_OK)                                         \
    X(TRAILING, "trailing-bytes", HK_ERROR, HK_OK)                                                 \
    X(LINEAGE_BROKEN, "lineage-broken", HK_ERROR, HK_OK)                                           \
    X(LINEAGE_ZERO, "lineage-zero", HK_ERROR, HK_OK)                                               \
    X(CRC, "crc", HK_ERROR, HK_OK)                                                                 \
    X(GENERATION, "generation", HK_WARNING, HK_OK)                                                 \
    X(BASE_CHANGED, "base-changed", HK_ERROR, HK_OK)                                               \
    X(PAYLOAD_NAN, "payload-nan", HK_WARNING, HK_OK)                                               \
    X(PAYLOAD_INF, "payload-inf", HK_WARNING, HK_OK)                                               \
    X(PAYLOAD_SCALE, "payload-scale", HK_WARNING, HK_OK)                                           \
    X(PAYLOAD_BOOL, "payload-bool", HK_WARNING, HK_OK)                                             \
    X(PAYLOAD_MASK, "payload-mask", HK_WARNING, HK_OK)                                             \
    X(PAYLOAD_INDEX, "payload-index", HK_ERROR, HK_OK)                                         \
    X(SET, "set", HK_ERROR, HK_E_FORMAT)                                                           \
    X(SET_MISSING, "set-missing", HK_ERROR, HK_E_MISSING)                                          \
    X(SET_METADATA, "set-metadata", HK_WARNING, HK_OK)                                             \
    X(SEVERAL_FILES, "several-files", HK_ERROR, HK_E_FORMAT)                                       \
    X(FOREIGN, "foreign", HK_ERROR, HK_E_FORMAT)

/* clang-format on */

enum hk_fault_id {
#define X(symbol, code, severity, status) HK_FAULT_##symbol,
    HK_FAULTS(X)
#undef X
};

struct hk_reporter {
    hk_fault_fn *fn;
    void *arg;
};

/* Where a fault lies. NAME may be empty; INDEX counts tensors, keys or records. */
struct hk_where {
    uint64_t offset;
    enum hk_subject subject;
    struct hk_bytes name;
    uint64_t index;
};

/* Of the file as a whole, at an offset. */
#define hk_at(position) (&(const struct hk_where){.offset = (position)})

void hk_report(const struct hk_reporter *r, enum hk_fault_id id, const struct hk_where *where,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A reporter that keeps the first fault which prevents opening, as an error. */
struct hk_capture {
    struct hk_error *err; /* may be NULL */
    enum hk_status status;
};
void hk_capture_fault(void *capture, const struct hk_fault *fault);

#endif
