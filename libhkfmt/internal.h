/* What the files of libhkfmt share with each other and with nobody else. */
#ifndef HK_INTERNAL_H
#define HK_INTERNAL_H

#include <stdarg.h>

#include "libhkfmt/base/source.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hkfmt.h"

/* Format one line into TEXT, escaping what would disturb a terminal (error.c). */
void hk_vline(char *text, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* ---- arena: many small allocations freed together (arena.c) ---- */

struct hk_arena {
    struct hk_arena_block *head;
};
/* SIZE bytes, aligned to 8, uninitialised; NULL when out of memory. */
void *hk_arena_alloc(struct hk_arena *a, size_t size);
/* A block of its own, of exactly SIZE bytes, so that a sanitizer sees where it ends. */
void *hk_arena_block(struct hk_arena *a, size_t size);
/* Copy B; false when out of memory. */
bool hk_arena_keep(struct hk_arena *a, struct hk_bytes b, struct hk_bytes *out);
void hk_arena_free(struct hk_arena *a);
/* Everything of FROM becomes A's. */
void hk_arena_adopt(struct hk_arena *a, struct hk_arena *from);

/* ---- how much may be made of a file (limit.c) ---- */

/* N more bytes to O, before the first of them is written: hk_check_output() of its limit. */
enum hk_status hk_out_expect(const struct hk_out *o, uint64_t n, struct hk_error *err);

/* ---- name index: numbers of a table's entries in order of their names (index.c) ---- */

struct hk_index {
    uint32_t *order;
    size_t count;
};
typedef struct hk_bytes hk_name_fn(const void *table, size_t i);
/* Index COUNT names. A name that occurs again is left out and its number passed to DUPLICATE (may
 * be NULL). */
bool hk_index_build(struct hk_index *x, const void *table, size_t count, hk_name_fn *name,
                    void (*duplicate)(void *arg, size_t i, size_t first), void *arg);
/* Number of the entry called KEY, or SIZE_MAX. */
size_t hk_index_find(const struct hk_index *x, const void *table, hk_name_fn *name,
                     struct hk_bytes key);
void hk_index_free(struct hk_index *x);

/* ---- the open file (reader.c) ---- */

struct hk_part { /* one mapped file */
    const uint8_t *map;
    uint64_t size;
    uint8_t header[128];              /* of a .hk, as it was copied */
    uint64_t appendix_at, appendix_n; /* its records, and what follows them there but no edit's */
    uint64_t dev, ino;                /* which file it is */
    int fd;                           /* kept for copying in the kernel; -1 if there is none */
    bool borrowed;                    /* the mapping is a part of another file's */
    char *name; /* of the file in its directory, for sets; freed with the file. NULL otherwise */
    char *path; /* that leads to it, by hk_open_set(); likewise */
};

struct hk_stream; /* gguf from a pipe */

struct hk_file {
    enum hk_format format;
    struct hk_header header;
    struct hk_part *parts;
    size_t part_count;
    struct hk_kv *kvs;
    size_t kv_count;
    struct hk_tensor *tensors;
    size_t tensor_count;
    struct hk_how
        *how; /* of a view (view.h): where the bytes of each tensor come from, else NULL */
    const struct hk_file *origin; /* of a view: the open file whose records it has, else NULL */
    bool without_appendix;        /* a view that leaves the records behind */
    struct hk_record *records;
    size_t record_count;
    struct hk_index kv_index, tensor_index;
    struct hk_index by_bytes, by_shape; /* tensors that own bytes, for shared_ref (resolve.c) */
    struct hk_bytes metadata, table;    /* of one .hk: the sections, copied to the arena */
    struct hk_ends ends;                /* of one .hk */
    uint64_t errors;       /* of one .hk: how many were found, but for those of its end */
    struct hk_arena arena; /* copies of what may move, and what a foreign reader had to make */
    struct hk_stream *stream;
};

/* ---- faults: one parser serves hk_open(), which keeps the first that matters, and hk_verify(),
 * which lists all ---- */

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

/* ---- tensor geometry (geometry.c): one place knows what sizes a tensor must have ---- */

/* How a tensor's data section is laid out, decided from type, sparsity, layout and lengths
 * (format-notes 4). */
enum hk_form {
    HK_FORM_DENSE,  /* elements of a dense type, row-major */
    HK_FORM_TILED,  /* f32 in padded tiles, or column-major (tile height 0) */
    HK_FORM_BLOCKS, /* ggml blocks */
    HK_FORM_SPLIT,  /* iq4_nl, mxfp4, nvfp4 with a scale section */
    HK_FORM_DUAL,   /* dq4, dq8, dqt */
    HK_FORM_2_4,    /* structured sparsity */
    HK_FORM_BITMASK,
    HK_FORM_BSR,
    HK_FORM_ZERO,   /* null_ref */
    HK_FORM_SHARED, /* shared_ref: ask its target */
    HK_FORM_OPAQUE, /* no defined layout */
};

struct hk_geometry {
    enum hk_form form;
    uint64_t elems, cols, rows;
    uint16_t block_elems, block_bytes; /* dense and block forms */
    uint16_t tile_rows, tile_cols;     /* tiled form; 0, 0 is column-major */
    /* Dense f32 under another label, as the reference's tools write it. With form BITMASK or BSR:
     * as long as dense f32, and read so unless the payload fits the label. */
    bool mislabelled;
};

/* Decide T's form and check shape, block_size and the three section sizes against it, reporting
 * each fault to R (may be NULL) with tensor number INDEX. Looks at no payload: a bitmask's exact
 * size is left to hk_decoder_new(). False if any fault prevents opening; *OUT is then not to be
 * used. */
bool hk_geometry(const struct hk_tensor *t, uint64_t index, const struct hk_reporter *r,
                 struct hk_geometry *out);

/* ---- decoding pieces (dequant_*.c, sparse.c, dual.c) are declared in decode.h ---- */

/* ---- parsing a .hk (header.c, metadata.c, toc.c, appendix.c, parse.c) ----
 * Each piece reports every fault it finds and goes on as far as it can. */

struct hk_scan {
    struct hk_file *f; /* being filled */
    const struct hk_source *src;
    uint64_t size; /* of the file */
    const struct hk_reporter *r;
    uint64_t appendix_end; /* from hk_scan_ranges(): where the bytes of records end at the latest */
    bool thorough;         /* also look into values, as hk_verify() wants and hk_open() does not */
};

/* *GOOD is false: this is no .hk, or none that can be read further. */
enum hk_status hk_scan_header(struct hk_scan *s, bool *good, struct hk_error *err);
/* Copy SIZE bytes at OFFSET, which lie in the file, to memory of the file's. */
enum hk_status hk_copy_section(const struct hk_scan *s, struct hk_bytes *out, uint64_t offset,
                               uint64_t size, struct hk_error *err);
enum hk_status hk_scan_metadata(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_toc(struct hk_scan *s, struct hk_error *err);
enum hk_status hk_scan_appendix(struct hk_scan *s, struct hk_error *err);
/* Overlaps between header, metadata, table and sections, and where the bytes of appendix records
 * end at the latest. */
enum hk_status hk_scan_ranges(struct hk_scan *s, struct hk_error *err);
/* What follows all that counts, told where the records have not told it: after the others. */
void hk_scan_tail(const struct hk_scan *s);
/* Whether what is torn at the end of the file is what a writer is writing just now. */
bool hk_scan_in_progress(const struct hk_scan *s);

/* Exact size of a value of TYPE, 0 where it varies. */
size_t hk_meta_fixed_size(unsigned type);
bool hk_utf8_valid(struct hk_bytes b);
bool hk_all_zero(const uint8_t *p, uint64_t n);

/* The whole of a .hk into F, which holds one part and is otherwise zero. Payloads are not read. */
enum hk_status hk_parse(struct hk_file *f, const struct hk_source *src, bool thorough,
                        const struct hk_reporter *r, struct hk_error *err);

/* Say what a file that is neither .hk, GGUF nor safetensors seems to be, or NULL. */
const char *hk_sniff(const uint8_t *p, uint64_t n);

/* Parse the GGUF of F's only part (or, with STREAM, the bytes read so far) into F. HK_E_RANGE with
 * *SHORT set: the bytes end before the head does. *HEAD is the size of the head up to the tensor
 * data. */
enum hk_status hk_parse_gguf(struct hk_file *f, bool stream, bool *short_of, uint64_t *head,
                             struct hk_error *err);

/* Parse the safetensors of F's only part into F (safetensors/read.c): tensors in order of their
 * bytes, metadata of __metadata__ as safetensors/st.h says. */
enum hk_status hk_parse_safetensors(struct hk_file *f, struct hk_error *err);

/* What PART is by its first bytes; HK_FORMAT_HK also if it is none of all (reader.c). */
enum hk_format hk_format_of(const struct hk_part *part);
/* Parse F's only part as FORMAT, GGUF or safetensors; the indexes are not built. */
enum hk_status hk_parse_foreign(struct hk_file *f, enum hk_format format, struct hk_error *err);

/* The Hugging Face model in directory PATH (hf/open.c). */
enum hk_status hk_open_hf(struct hk_file **out, const char *path, struct hk_error *err);

/* Sort the targets that shared_ref entries can have; before any hk_tensor_resolve(). */
enum hk_status hk_build_targets(struct hk_file *f, struct hk_error *err);

void hk_stream_free(struct hk_stream *stream);
/* All up to END, where the model ends, has come, and no other model follows. */
enum hk_status hk_stream_finish(struct hk_file *f, uint64_t end, struct hk_error *err);

/* A file of one part, which it takes over (released on failure). NULL: out of memory. */
struct hk_file *hk_file_of(struct hk_part *part);

/* A reporter that keeps the first fault which prevents opening, as an error. */
struct hk_capture {
    struct hk_error *err; /* may be NULL */
    enum hk_status status;
};
void hk_capture_fault(void *capture, const struct hk_fault *fault);

/* Build kv_index and tensor_index of F, reporting duplicates. */
enum hk_status hk_build_indexes(struct hk_file *f, const struct hk_reporter *r,
                                struct hk_error *err);

/* ---- SHA-256 over libcrypto (base/sha256.c) ---- */

struct hk_sha256; /* a running digest */
enum hk_status hk_sha256_new(struct hk_sha256 **out, struct hk_error *err);
enum hk_status hk_sha256_add(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err);
/* N as u64, then the N bytes. */
enum hk_status hk_sha256_field(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err);
/* Also frees *H. */
enum hk_status hk_sha256_done(struct hk_sha256 **h, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err);
void hk_sha256_free(struct hk_sha256 **h);
/* SHA-256 of pieces put together. */
enum hk_status hk_sha256_of(const struct hk_bytes *pieces, size_t count,
                            uint8_t out[HK_SHA256_SIZE], struct hk_error *err);

#endif
