/* hkfmt.h: read, check, decode and write .hk model containers; read and write GGUF files,
 * safetensors files and Hugging Face model directories as the same thing.
 *
 * Conventions
 *  - A call that can fail returns enum hk_status and takes a struct hk_error last, which may be
 * NULL. Output parameters are untouched on failure.
 *  - Anything that points into a file (struct hk_bytes, names, strings) is borrowed until the file
 * is closed and carries its length: it is not terminated and need not be UTF-8.
 *  - An open file is immutable: any number of threads may read it. A writer or an output belongs to
 * one thread.
 *  - The library never prints, exits, aborts, reads the environment or keeps state between calls.
 *  - All offsets and sizes are in bytes. A shape has the outermost dimension first.
 *  - A struct of options begins with its size: the caller sets it to sizeof of the struct, and what
 * it does not need to zero, which is the default everywhere; NULL in its place means that all are
 * defaults. New fields come at the end, behind all bytes of the struct as it was. So a program that
 * was compiled with an older header goes on working, as its size says what it knows; HK_E_USE: no
 * size, or a field is set that is newer than the library.
 *  - Structs that the library gives out by pointer may grow at their end, so none is to be copied
 * by whoever must work with a later version. All others stay as they are within a soname.
 */
#ifndef HKFMT_H
#define HKFMT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; hk_version() is that of the library. */
#define HK_VERSION "0.1.0"
#define HK_VERSION_MAJOR 0
#define HK_VERSION_MINOR 1
#define HK_VERSION_PATCH 0

#if defined(__GNUC__)
#define HK_API __attribute__((visibility("default")))
#define HK_MUST __attribute__((warn_unused_result))
#define HK_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define HK_API
#define HK_MUST
#define HK_PRINTF(f, a)
#endif

/* The version of the library that runs, as HK_VERSION has it. */
HK_API const char *hk_version(void);

/* ---- errors ---- */

enum hk_status {
    HK_OK,
    HK_E_IO,          /* a system call failed: hk_error.sys holds errno */
    HK_E_NOMEM,       /* out of memory */
    HK_E_FORMAT,      /* the contents break a rule of the format */
    HK_E_RANGE,       /* an offset, size, count or index is outside what it belongs to */
    HK_E_CHECKSUM,    /* bytes do not have the digest that is recorded for them */
    HK_E_UNSUPPORTED, /* sound, but of a kind that has no defined meaning here */
    HK_E_USE,         /* the caller broke the contract of the call */
    HK_E_MISSING,     /* no key, tensor or record of that name */
};

struct hk_error {
    enum hk_status status;
    int sys;         /* errno behind HK_E_IO, else 0 */
    uint64_t offset; /* byte offset in the file that the message is about, HK_NO_OFFSET where there
                        is none */
    char text[320];  /* one line: no newline, no program or file name, control characters escaped */
};

#define HK_NO_OFFSET UINT64_MAX

/* "range", "format", ...: a short name for a status, static storage. */
HK_API const char *hk_status_name(enum hk_status s);

struct hk_bytes {
    const uint8_t *p;
    size_t n;
};

/* Fill ERR (may be NULL) and return STATUS, so that a failure is one statement in code that builds
 * on the library. Control characters and invalid UTF-8 in the result are escaped. */
HK_API enum hk_status hk_fail(struct hk_error *err, enum hk_status status, uint64_t offset,
                              const char *fmt, ...) HK_PRINTF(4, 5);
/* HK_E_IO, with the text of errno value SYS appended. */
HK_API enum hk_status hk_fail_sys(struct hk_error *err, int sys, const char *fmt, ...)
    HK_PRINTF(3, 4);
HK_API enum hk_status hk_fail_nomem(struct hk_error *err);
/* Arguments for "%.*s": bytes, cut at 128. */
#define HK_STR(b) ((int)((b).n > 128 ? 128 : (b).n)), (const char *)(b).p

/* The bytes of C string S without its end, borrowed from it. */
HK_API struct hk_bytes hk_bytes_of(const char *s);
/* Compare bytes with a C string, and with each other. */
HK_API bool hk_bytes_are(struct hk_bytes b, const char *s);
HK_API bool hk_bytes_equal(struct hk_bytes a, struct hk_bytes b);
/* Below, at or above 0 as A comes before, is or comes behind B in the order of bytes. */
HK_API int hk_bytes_compare(struct hk_bytes a, struct hk_bytes b);

/* ---- codes of the format ---- */

enum hk_format {
    HK_FORMAT_HK,
    HK_FORMAT_GGUF,
    HK_FORMAT_SAFETENSORS,
    HK_FORMAT_HF, /* a Hugging Face model directory: config.json, tokenizer, safetensors */
};

/* "hk", "gguf", "safetensors", "hf"; and the other way round, false for what is none. */
HK_API const char *hk_format_name(enum hk_format f);
HK_API HK_MUST bool hk_format_by_name(const char *name, enum hk_format *out);
/* The format that a file's name says by its extension; false: by none. */
HK_API HK_MUST bool hk_format_by_extension(const char *path, enum hk_format *out);
/* The format that the first N bytes at P of a file of unknown length say, of which 16 are enough;
 * false: none. */
HK_API HK_MUST bool hk_format_by_start(const void *p, size_t n, enum hk_format *out);

enum hk_format_trait {
    HK_TRAIT_ALIGNED = 1 << 0,   /* tensors have an alignment that can be chosen */
    HK_TRAIT_RECORDS = 1 << 1,   /* has a version history and is changed in place */
    HK_TRAIT_DECODED = 1 << 2,   /* tensors can be decoded when it is written */
    HK_TRAIT_STREAMED = 1 << 3,  /* hk_open_stream() reads it */
    HK_TRAIT_DIRECTORY = 1 << 4, /* a directory, not a file */
};
/* Bits of enum hk_format_trait. */
HK_API unsigned hk_format_traits(enum hk_format f);

enum hk_flag {
    HK_FLAG_LITTLE_ENDIAN = 1 << 0,
    HK_FLAG_HAS_APPENDIX = 1 << 1,
    HK_FLAG_HAS_QUANT_TABLE = 1 << 2,
    HK_FLAG_SPARSITY_2_4 = 1 << 3,
    HK_FLAG_TILE_ALIGNED = 1 << 4,
    HK_FLAG_FLEXIBLE_ALIGNMENT = 1 << 5,
    HK_FLAG_IS_SHARDED = 1 << 6,
    HK_FLAG_RAW_WEIGHT_STORAGE = 1 << 7,
    HK_FLAG_UNIVERSAL_PAGE_ALIGNED = 1 << 8,
    HK_FLAG_HAS_SHA256_CHECKSUM = 1 << 9, /* the seal of later reference versions */
};

/* Name of flag bit BIT (0..31) in lower case, NULL for a bit without a meaning. */
HK_API const char *hk_flag_name(unsigned bit);

enum hk_meta_type {
    HK_META_STRING = 1,
    HK_META_INT64 = 2,
    HK_META_FLOAT64 = 3,
    HK_META_BOOL = 4,
    HK_META_JSON = 5,
    HK_META_BYTES = 6,
};

/* "string", "int64", ...; NULL for an unknown code. */
HK_API const char *hk_meta_type_name(unsigned type);

/* Storage types: the format's u8 codes, and above 0xff those that it has not: of GGUF alone (0x100
 * + ggml number), and from 0x180 on of safetensors alone. */
enum hk_type {
    HK_TYPE_F32 = 0x00,
    HK_TYPE_F16 = 0x01,
    HK_TYPE_BF16 = 0x02,
    HK_TYPE_FP8_E4M3 = 0x03,
    HK_TYPE_FP8_E5M2 = 0x04,
    HK_TYPE_INT8 = 0x05,
    HK_TYPE_INT32 = 0x06,
    HK_TYPE_INT64 = 0x07,
    HK_TYPE_UINT8 = 0x08,
    HK_TYPE_BOOL = 0x09,
    HK_TYPE_INT16 = 0x0a,
    HK_TYPE_UINT16 = 0x0b,
    HK_TYPE_UINT32 = 0x0c,
    HK_TYPE_UINT64 = 0x0d,
    HK_TYPE_F64 = 0x0e,
    HK_TYPE_DQ4 = 0x10,
    HK_TYPE_DQ8 = 0x11,
    HK_TYPE_DQ6 = 0x12,
    HK_TYPE_DQ12 = 0x13,
    HK_TYPE_DQT = 0x14,
    HK_TYPE_Q4_0 = 0x15,
    HK_TYPE_Q8_0 = 0x16,
    HK_TYPE_Q4_1 = 0x17,
    HK_TYPE_Q5_0 = 0x18,
    HK_TYPE_Q5_1 = 0x19,
    HK_TYPE_Q8_1 = 0x1a,
    HK_TYPE_SPARSE_F16 = 0x20,
    HK_TYPE_SPARSE_DQ8 = 0x21,
    HK_TYPE_SPARSE_2_4 = 0x22,
    HK_TYPE_SPARSE_DQ4_2_4 = 0x23,
    HK_TYPE_NULL_REF = 0x30,
    HK_TYPE_SHARED_REF = 0x31,
    HK_TYPE_LORA_REF = 0x32,
    HK_TYPE_Q2_K = 0x40,
    HK_TYPE_Q3_K = 0x41,
    HK_TYPE_Q4_K = 0x42,
    HK_TYPE_Q5_K = 0x43,
    HK_TYPE_Q6_K = 0x44,
    HK_TYPE_Q8_K = 0x45,
    HK_TYPE_IQ1_S = 0x50,
    HK_TYPE_IQ1_M = 0x51,
    HK_TYPE_IQ2_XXS = 0x52,
    HK_TYPE_IQ2_XS = 0x53,
    HK_TYPE_IQ3_XXS = 0x54,
    HK_TYPE_IQ4_NL = 0x55,
    HK_TYPE_IQ4_XS = 0x56,
    HK_TYPE_IQ2_S = 0x57,
    HK_TYPE_IQ3_S = 0x58,
    HK_TYPE_TQ1_0 = 0x60,
    HK_TYPE_TQ2_0 = 0x61,
    HK_TYPE_MXFP4 = 0x62,
    HK_TYPE_NVFP4 = 0x63,
    HK_TYPE_Q1_0 = 0x100 + 41,
    HK_TYPE_Q2_0 = 0x100 + 42,
    HK_TYPE_FP8_E8M0 = 0x180,
    HK_TYPE_FP8_E4M3FNUZ = 0x181,
    HK_TYPE_FP8_E5M2FNUZ = 0x182,
    HK_TYPE_FP6_E2M3 = 0x183,
    HK_TYPE_FP6_E3M2 = 0x184,
    HK_TYPE_FP4_E2M1 = 0x185,
    HK_TYPE_COMPLEX64 = 0x186,
};

enum hk_type_class {
    HK_CLASS_DENSE, /* one element after the other: block_elems is 1 */
    HK_CLASS_BLOCK, /* ggml blocks along the last dimension */
    HK_CLASS_DUAL,  /* codes, scales and perhaps a residual in sections of their own (dq4, dq8, dqt)
                     */
    HK_CLASS_SPARSE, /* sparse_f16, sparse_2_4 */
    HK_CLASS_REF,    /* null_ref, shared_ref */
    HK_CLASS_OPAQUE, /* not decoded: a code without a defined layout (dq6, dq12, sparse_dq8,
                        sparse_dq4_2_4, lora_ref), or of known size (fp4_e2m1, complex64, ...) */
};

struct hk_type_info {
    uint16_t type; /* enum hk_type */
    uint8_t kind;  /* enum hk_type_class */
    int8_t gguf;   /* ggml type number, -1 where GGUF has no such type */
    const char *name;
    uint16_t block_elems; /* elements in a block; 0 where the type alone does not tell */
    uint16_t block_bytes; /* bytes in a block; 0 likewise */
};

/* What is known of storage type TYPE; NULL for an unknown code. Static storage. */
HK_API const struct hk_type_info *hk_type_info(unsigned type);
/* The same by name ("q4_k") or by ggml number; NULL if there is none. */
HK_API const struct hk_type_info *hk_type_by_name(const char *name);
HK_API const struct hk_type_info *hk_type_by_gguf(uint32_t ggml_type);

enum hk_layout {
    HK_LAYOUT_ROW_MAJOR = 0,
    HK_LAYOUT_COL_MAJOR = 1,
    HK_LAYOUT_TILE_16X16 = 2,
    HK_LAYOUT_TILE_16X8 = 3,
    HK_LAYOUT_TILE_32X16 = 4,
    HK_LAYOUT_BLOCK_SPARSE_2_4 = 5,
    HK_LAYOUT_TILE_32X32 = 6,
    HK_LAYOUT_TILE_64X64 = 7,
};
HK_API const char *hk_layout_name(unsigned layout); /* NULL for an unknown code */

enum hk_sparsity {
    HK_SPARSITY_NONE = 0,
    HK_SPARSITY_BITMASK = 1,
    HK_SPARSITY_CSR = 2,
    HK_SPARSITY_STRUCTURED_2_4 = 3,
    HK_SPARSITY_PHYSICAL_PRUNED = 4,
    HK_SPARSITY_BSR = 5,
};
HK_API const char *hk_sparsity_name(unsigned sparsity); /* NULL for an unknown code */

enum hk_record_type {
    HK_RECORD_LORA_ADAPTER = 1,
    HK_RECORD_DELTA_PATCH = 2,
    HK_RECORD_NEW_LAYER = 3,
    HK_RECORD_CODE_EVAL = 4,
    HK_RECORD_KV_CACHE_SINK = 5,
    HK_RECORD_TOPOLOGY_HEAD = 6,
};
HK_API const char *hk_record_type_name(unsigned type); /* NULL for an unknown code */

enum { HK_MAX_DIMS = 8, HK_MAX_NAME = 128, HK_MAX_ALIGNMENT = 65536, HK_SHA256_SIZE = 32 };

/* ---- an open file ---- */

struct hk_out;  /* see "output" */
struct hk_file; /* opaque; immutable once open */

struct hk_header { /* of a foreign file: what it has of this, the rest 0 */
    uint16_t version_major, version_minor;
    uint32_t flags;
    uint32_t
        alignment; /* as stored; 65536 where hk.alignment says so. Informative: any value, also 0 */
    uint16_t split_index, split_count;
    uint64_t tensor_count, metadata_kv_count;
    uint64_t metadata_offset, metadata_size;
    uint64_t tensor_toc_offset, tensor_toc_size;
    uint64_t tensor_data_offset;
    uint64_t appendix_offset; /* 0 if none */
    uint64_t checksum;
};

/* A metadata pair. A GGUF's values are presented as hk-convert would write them (format-wise: value
 * types of .hk, arrays as blobs or json), so a reader sees one kind of file. */
struct hk_kv {
    struct hk_bytes key;
    struct hk_bytes value;
    const char
        *gguf_type;  /* "u32", "array<string>", ... the value's type in the GGUF; NULL in a .hk */
    uint64_t offset; /* of the value in the file */
    uint8_t type;    /* enum hk_meta_type */
};

struct hk_tensor {
    struct hk_bytes name;
    uint16_t type;     /* enum hk_type */
    uint8_t layout;    /* enum hk_layout */
    uint8_t sparsity;  /* enum hk_sparsity */
    uint8_t ndim;      /* 0..HK_MAX_DIMS; 0 is one element */
    uint64_t shape[8]; /* outermost first; entries past ndim are 0 */
    uint64_t data_offset, data_size;
    uint64_t residual_offset, residual_size; /* 0, 0 if none */
    uint64_t scale_offset, scale_size;       /* 0, 0 if none */
    uint16_t block_size; /* elements per scale of dq4, dq8, dqt; meaningless elsewhere */
    float sparsity_ratio;
    uint64_t entry_offset; /* of its entry in the tensor table */
    uint32_t part;         /* which file of a sharded set it lies in, 0 first */
};

struct hk_record { /* an appendix record */
    struct hk_bytes name, target;
    uint64_t offset;                 /* of the record's header */
    uint64_t data_offset, data_size; /* payload as stored */
    uint64_t timestamp;              /* Unix seconds */
    uint32_t generation;
    uint32_t data_crc32; /* 0: not recorded */
    float metrics[4];    /* loss, accuracy, pass rate, custom; 0: not given */
    uint8_t type;        /* enum hk_record_type; unknown codes are kept */
    uint8_t flags;       /* bit 0 active, bit 1 compressed */
    uint16_t reserved;
    uint8_t parent_hash[HK_SHA256_SIZE];
};

enum { HK_RECORD_ACTIVE = 1, HK_RECORD_COMPRESSED = 2 };

/* Map PATH (told by its content: .hk, GGUF or safetensors) read-only and check every offset and
 * size in it against its length before returning. Fails on any fault that hk_verify() calls an
 * error and that makes contents doubtful; only faults in the appendix, bytes that nothing refers to
 * and misplaced alignment do not prevent opening. On HK_OK *OUT owns the mapping until hk_close().
 * Of a .hk all but the payloads is copied, at a moment at which nobody changes it (hk_file_keep()
 * says what that is worth); for that others are waited for, 10 seconds at most.
 * HK_E_IO: not a regular file, unreadable, ... Cost: linear in the size of header, metadata, table
 * and records' headers; payloads are not touched. */
HK_API HK_MUST enum hk_status hk_open(struct hk_file **out, const char *path, struct hk_error *err);

/* As hk_open() on an open descriptor of a regular file, which stays the caller's. */
HK_API HK_MUST enum hk_status hk_open_fd(struct hk_file **out, int fd, struct hk_error *err);

/* As hk_open() on a file that is in memory, of any of the three formats. BYTES stay the caller's:
 * they are not copied, must not change and must outlive *OUT. HK_E_UNSUPPORTED: one shard of
 * several, as nothing leads to the others. */
HK_API HK_MUST enum hk_status hk_open_bytes(struct hk_file **out, struct hk_bytes bytes,
                                            struct hk_error *err);

/* As hk_open(), but PATH leads to the whole model that it belongs to:
 *  - an index (STEM.index.json) to the files that it names, whatever they are called; a shard
 *    (split_count above 1) to those of the index that has it, else of its name
 *    (STEM-00001-of-00003.EXT). They are presented as one file: tensors in order of parts, metadata
 *    of the first;
 *  - a directory with a config.json to the Hugging Face model in it (HK_FORMAT_HF), under the names
 *    and keys that a .hk made from it has;
 *  - any other directory to the one model file or set in it.
 * HK_E_MISSING lists absent files; HK_E_FORMAT: counts, indexes or tensor names of the parts
 * disagree, or a directory holds several models. */
HK_API HK_MUST enum hk_status hk_open_set(struct hk_file **out, const char *path,
                                          struct hk_error *err);

/* The path of the file of the model at PATH, anything that hk_open_set() takes, which carries its
 * metadata and its history and which its signature stands beside: the first shard of a .hk in
 * several files. PATH itself for every other file, also one that cannot be read. To be released
 * with free(). Statuses as of hk_open_set(): an incomplete set has no such file. */
HK_API HK_MUST enum hk_status hk_first_file(char **out, const char *path, struct hk_error *err);

/* Read the head of a GGUF (not a .hk) from a pipe or any other descriptor, which stays the
 * caller's. Payloads are not mapped: hk_tensor_data() gives none; they are taken in file order with
 * hk_stream_read(). Memory: the head. */
HK_API HK_MUST enum hk_status hk_open_stream(struct hk_file **out, int fd, struct hk_error *err);

/* From a file of hk_open_stream(): copy N bytes at file offset OFFSET, which must not lie before
 * what was read last; bytes between are skipped. HK_E_RANGE: the stream ended. */
HK_API HK_MUST enum hk_status hk_stream_read(struct hk_file *f, uint64_t offset, void *buf,
                                             size_t n, struct hk_error *err);

/* Unmap and free; *F becomes NULL. NULL is allowed. */
HK_API void hk_close(struct hk_file **f);

/* What others may not change of an open file from hk_file_keep() on; bits. */
enum hk_keep {
    HK_KEEP_RECORDS = 1, /* nor remove: records; hk_rollback() waits for it */
    HK_KEEP_FILE = 2,    /* any byte that counts, which whoever reads the file as a whole needs; all
                            writers wait for it before they change anything */
};

/* An open .hk has copies of its header, metadata, table and of all of records but their payloads,
 * which were taken at one moment: whatever others write, it shows the file of that moment. Tensors'
 * bytes never move. Only records' payloads lie in the mapping and are gone after a rollback:
 * whoever reads those copies them, or keeps them with this call until hk_file_release() or
 * hk_close(). A process must not change a file itself that it keeps. Waits for others for 10
 * seconds at most. HK_E_IO with sys ESTALE: the file was changed since it was opened, and has to be
 * opened again. Where the file system has no locks nothing is kept. */
HK_API HK_MUST enum hk_status hk_file_keep(struct hk_file *f, unsigned what, struct hk_error *err);
HK_API void hk_file_release(struct hk_file *f); /* NULL is allowed */

HK_API enum hk_format hk_file_format(const struct hk_file *f);
HK_API uint64_t hk_file_size(const struct hk_file *f); /* all parts together; of a stream: 0 */
HK_API size_t hk_file_parts(const struct hk_file *f);  /* 1 unless opened as a set */
/* Name of file PART without its directory, where it was opened as one of a set or of a directory;
 * NULL otherwise. */
HK_API const char *hk_file_part_name(const struct hk_file *f, size_t part);
/* The path that leads to file PART, where it was opened by hk_open_set(); NULL otherwise. */
HK_API const char *hk_file_part_path(const struct hk_file *f, size_t part);
HK_API const struct hk_header *hk_file_header(const struct hk_file *f); /* of the first part */
HK_API bool hk_file_is_stream(const struct hk_file *f);

/* ---- metadata ---- */

HK_API size_t hk_kv_count(const struct hk_file *f);
HK_API const struct hk_kv *hk_kv_at(const struct hk_file *f, size_t i); /* NULL past the end */
/* The pair of that key; NULL if absent. Cost: log n comparisons. */
HK_API const struct hk_kv *hk_kv_find(const struct hk_file *f, const char *key);
HK_API const struct hk_kv *hk_kv_find_bytes(const struct hk_file *f, struct hk_bytes key);

/* The value of KV as a C type. Int takes int64; float takes float64 and int64; string takes string
 * and json. HK_E_FORMAT: it is of another type; the message names the key. */
HK_API HK_MUST enum hk_status hk_kv_int(const struct hk_kv *kv, int64_t *out, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_kv_float(const struct hk_kv *kv, double *out,
                                          struct hk_error *err);
HK_API HK_MUST enum hk_status hk_kv_bool(const struct hk_kv *kv, bool *out, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_kv_string(const struct hk_kv *kv, struct hk_bytes *out,
                                           struct hk_error *err);

/* Arrays: a bytes value that validates as one of the array blobs, or a flat json array of strings
 * or numbers. */
enum hk_array_kind { HK_ARRAY_STRING = 1, HK_ARRAY_F32 = 2, HK_ARRAY_I32 = 3 };

struct hk_array {
    enum hk_array_kind kind;
    uint32_t count;
    struct hk_bytes blob; /* the whole array blob */
    void *owned;          /* storage behind a json array; freed by hk_array_free() */
};

/* Whether VALUE is a valid array blob; fills *OUT if so (nothing to free). Linear in the number of
 * strings. */
HK_API bool hk_array_from_blob(struct hk_bytes value, struct hk_array *out);
/* The array in KV, of KIND (f32 also takes i32 only from json). HK_E_FORMAT: no array, or of
 * another kind. The result is freed with hk_array_free(). */
HK_API HK_MUST enum hk_status hk_kv_array(const struct hk_kv *kv, enum hk_array_kind kind,
                                          struct hk_array *out, struct hk_error *err);
HK_API void hk_array_free(struct hk_array *a);
/* Element I, which must be below count, of an array of that kind. */
HK_API struct hk_bytes hk_array_string(const struct hk_array *a, uint32_t i);
HK_API float hk_array_f32(const struct hk_array *a, uint32_t i);
HK_API int32_t hk_array_i32(const struct hk_array *a, uint32_t i);

/* ---- tensors ---- */

HK_API size_t hk_tensor_count(const struct hk_file *f);
HK_API const struct hk_tensor *hk_tensor_at(const struct hk_file *f,
                                            size_t i); /* NULL past the end */
/* The tensor of that name; NULL if absent. Cost: log n comparisons. */
HK_API const struct hk_tensor *hk_tensor_find(const struct hk_file *f, const char *name);
HK_API const struct hk_tensor *hk_tensor_find_bytes(const struct hk_file *f, struct hk_bytes name);

/* The three sections of T as mapped; an empty range where there is none (and for every section of a
 * stream). */
HK_API struct hk_bytes hk_tensor_data(const struct hk_file *f, const struct hk_tensor *t);
HK_API struct hk_bytes hk_tensor_scales(const struct hk_file *f, const struct hk_tensor *t);
HK_API struct hk_bytes hk_tensor_residual(const struct hk_file *f, const struct hk_tensor *t);

/* Advice on memory: bytes B of a section of F will be wanted soon, and the system may begin to read
 * them; or not for long, and it may forget them, as far as nobody else has them mapped; or only
 * some of them will be, which ones is not known. Whether the last of them is in memory by now, as
 * far as the system tells. */
HK_API void hk_read_ahead(const struct hk_file *f, struct hk_bytes b);
HK_API void hk_let_go(const struct hk_file *f, struct hk_bytes b);
HK_API void hk_expect_random(const struct hk_file *f, struct hk_bytes b);
HK_API bool hk_is_in_memory(const struct hk_file *f, struct hk_bytes b);

/* Number of elements, of elements in the last dimension (1 for a scalar), and of rows of that
 * length. */
HK_API uint64_t hk_tensor_elems(const struct hk_tensor *t);
HK_API uint64_t hk_tensor_cols(const struct hk_tensor *t);
HK_API uint64_t hk_tensor_rows(const struct hk_tensor *t);

/* T itself, or for a shared_ref the tensor whose type, layout and sections it shares. HK_E_FORMAT:
 * there is no such tensor, or more than one candidate. */
HK_API HK_MUST enum hk_status hk_tensor_resolve(const struct hk_file *f, const struct hk_tensor *t,
                                                const struct hk_tensor **out, struct hk_error *err);

/* ---- decoding to f32 ---- */

/* Decode N elements of a dense or block type (N a multiple of its block_elems) from SRC to DST.
 * Dense integers and f64 are rounded to nearest. False: TYPE is neither dense nor block, or N is no
 * multiple. */
HK_API bool hk_dequantize(unsigned type, const void *src, size_t n, float *dst);

/* How to read one tensor, whatever its type, layout and sparsity. */
struct hk_decoder;

/* Prepare T for decoding: resolves references, checks section sizes and all indexes. Memory: a few
 * bytes per 4096 elements for bitmask tensors, up to 8 a block for sparse ones, else constant. F
 * must outlive the decoder. HK_E_UNSUPPORTED names a type without a defined layout; HK_E_FORMAT:
 * sections do not fit type and shape. */
HK_API HK_MUST enum hk_status hk_decoder_new(struct hk_decoder **out, const struct hk_file *f,
                                             const struct hk_tensor *t, struct hk_error *err);
/* Elements FIRST .. FIRST+N-1 in row-major order, which must lie inside the tensor, to DST. Safe
 * from several threads. Cost: linear in N plus one block. */
HK_API void hk_decoder_read(const struct hk_decoder *d, uint64_t first, size_t n, float *dst);
/* The tensor's bytes, if they are nothing but its elements or blocks in row-major order, and in
 * *TYPE (enum hk_type) what they are, which a reference or a wrong label would not tell. NULL for
 * every other form. */
HK_API const uint8_t *hk_decoder_rows(const struct hk_decoder *d, unsigned *type);
HK_API void hk_decoder_free(struct hk_decoder **d);

/* ---- appendix ---- */

/* Records that are whole; a torn or overrunning tail ends the list (hk_verify() names it). */
HK_API size_t hk_record_count(const struct hk_file *f);
HK_API const struct hk_record *hk_record_at(const struct hk_file *f,
                                            size_t i); /* NULL past the end */
HK_API struct hk_bytes hk_record_data(const struct hk_file *f, const struct hk_record *r);

/* A record behind another one of its type, name and target that has no data switches that name on
 * or off by its ACTIVE bit; it carries nothing else. */
struct hk_record_state {
    bool effective; /* what the record carries is to be used; of a switch: its name is on */
    bool is_switch;
};

/* The states of all of F's records, hk_record_count() of them, to OUT. A record is in effect if its
 * ACTIVE bit is set, or that of the last switch of its name behind it where there is one; and none
 * of a name is if the last record of that name is not active. Cost: n log n comparisons of names.
 */
HK_API HK_MUST enum hk_status hk_record_states(const struct hk_file *f, struct hk_record_state *out,
                                               struct hk_error *err);
/* Number of the last record called NAME, of any type, that is no switch. HK_E_MISSING: there is
 * none; the message lists the names there are. */
HK_API HK_MUST enum hk_status hk_record_find(const struct hk_file *f, struct hk_bytes name,
                                             size_t *out, struct hk_error *err);

enum hk_lineage {
    HK_LINEAGE_FIRST,  /* record 0: its parent hash is not checked by the chain */
    HK_LINEAGE_OK,     /* SHA-256 of the previous name, target and payload */
    HK_LINEAGE_LEGACY, /* SHA-256 of the previous payload alone: the older form */
    HK_LINEAGE_ZERO,   /* all zero: the chain is not closed here */
    HK_LINEAGE_BROKEN,
};
HK_API const char *hk_lineage_name(enum hk_lineage l);

/* SHA-256 of record I's name, target and stored payload: what record I+1 should hold as
 * parent_hash. Linear in them. */
HK_API HK_MUST enum hk_status hk_record_hash(const struct hk_file *f, size_t i,
                                             uint8_t out[HK_SHA256_SIZE], struct hk_error *err);
/* State of record I's parent_hash. Reads record I-1's payload. */
HK_API HK_MUST enum hk_status hk_record_lineage(const struct hk_file *f, size_t i,
                                                enum hk_lineage *out, struct hk_error *err);

enum hk_crc { HK_CRC_ABSENT, HK_CRC_OK, HK_CRC_BAD };
HK_API const char *hk_crc_name(enum hk_crc c);
/* Whether record I's stored payload has its crc32. */
HK_API enum hk_crc hk_record_crc(const struct hk_file *f, size_t i);

/* ---- digests ---- */

/* A parallel loop of the caller's: calls FN(ARG, I) once for every I below N, from any threads in
 * any order, and returns when all have returned. */
typedef void hk_each_fn(void *arg, size_t i);
struct hk_loop {
    void (*run)(void *context, size_t n, hk_each_fn *fn, void *arg);
    void *context;
};

struct hk_work { /* how the caller wants long work done */
    size_t size;
    const struct hk_loop *loop; /* NULL: one thing after the other */
    /* Bytes read: from any thread, but from one at a time. May be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
};

struct hk_hashes { /* what hk_hash() is to compute: NULL is not wanted */
    size_t size;
    uint8_t (*files)[HK_SHA256_SIZE]; /* of each part, hk_file_parts() of them: all its bytes */
    /* Of each tensor, hk_tensor_count() of them: SHA-256 of its data or, where it has scales or a
     * residual, of the three digests of data, scales and residual put together. A shared_ref has
     * that of what it refers to. */
    uint8_t (*tensors)[HK_SHA256_SIZE];
    const bool *chosen; /* one for each tensor: false leaves its digest alone; NULL chooses all */
    uint8_t *base;      /* HK_SHA256_SIZE bytes, see hk_base_digest() */
    const struct hk_work *work; /* may be NULL */
};

/* Compute what is wanted of F, reading each byte once for the files and once for all else; files
 * and tensors are the loop's tasks, so that a whole file is read while its tensors are. Memory: 200
 * bytes a tensor; pages that were read are given back. HK_E_FORMAT: a shared_ref is unresolved;
 * HK_E_USE: F is a stream. */
HK_API HK_MUST enum hk_status hk_hash(const struct hk_file *f, const struct hk_hashes *h,
                                      struct hk_error *err);

/* SHA-256 of what FD, which stays the caller's, has from its position to its end. */
HK_API HK_MUST enum hk_status hk_hash_fd(int fd, uint8_t out[HK_SHA256_SIZE], struct hk_error *err);

/* SHA-256 over every tensor, of a set in order of its files and then of their tables: name, type
 * (u16), layout, sparsity, shape (of u64s), block size (u16, 32 where none is noted) and the
 * SHA-256 of data, scales and residual, each field after its length as u64. Unchanged by
 * realignment, resharding and metadata edits; of a foreign file it is that of the .hk with the same
 * tensors. Reads all payloads, alone: hk_hash() does it in parallel. HK_E_FORMAT: a shared_ref is
 * unresolved. */
HK_API HK_MUST enum hk_status hk_base_digest(const struct hk_file *f, uint8_t out[HK_SHA256_SIZE],
                                             struct hk_error *err);

/* Record I's payload to OUT, inflated if it is compressed. HK_E_FORMAT: it is no zlib stream of the
 * stated size (what another writer compressed otherwise is only to be had as it is stored). Memory:
 * constant. */
HK_API HK_MUST enum hk_status hk_record_write(const struct hk_file *f, size_t i, struct hk_out *out,
                                              struct hk_error *err);

/* ---- verification ---- */

enum hk_severity { HK_WARNING, HK_ERROR };
enum hk_subject { HK_SUBJECT_FILE, HK_SUBJECT_TENSOR, HK_SUBJECT_KEY, HK_SUBJECT_RECORD };

struct hk_fault {
    enum hk_severity severity;
    enum hk_status status; /* what hk_open() returns for it if it prevents opening, else HK_OK */
    const char *code;      /* stable short name, listed in hk-verify(1) */
    uint64_t offset;
    enum hk_subject subject;
    struct hk_bytes name; /* of the tensor, key or record; valid during the call */
    uint64_t index;       /* of the tensor, key or record */
    char text[256];       /* one line, as in hk_error */
    const char *file;     /* name of the file of a set that it lies in; NULL: the one that was
                             named, or all of them */
};

/* Called for each fault, in file order as far as possible. */
typedef void hk_fault_fn(void *arg, const struct hk_fault *fault);

enum { HK_VERIFY_PAYLOAD = 1 }; /* also read payloads: values, seal, base digest */

enum hk_chain { HK_CHAIN_NONE, HK_CHAIN_OK, HK_CHAIN_BROKEN };
/* What the first record binds: the digest of all tensors, or nothing. */
enum hk_base { HK_BASE_UNBOUND, HK_BASE_UNCHECKED, HK_BASE_BOUND, HK_BASE_CHANGED };
enum hk_seal { HK_SEAL_NONE, HK_SEAL_UNCHECKED, HK_SEAL_OK, HK_SEAL_UNKNOWN };

struct hk_verify_report {
    uint64_t size;
    uint64_t errors, warnings;
    uint64_t tensors, keys, records; /* how many were read and checked */
    enum hk_chain lineage;
    enum hk_base base;
    enum hk_seal seal;
    bool payload; /* payloads were read */
};

/* Check every rule of the format in PATH and report each fault. HK_OK: the check ran (see REPORT
 * for what it found); otherwise the file could not be read at all. A foreign file is checked as
 * far as hk_open() does, and its payloads as those of a .hk. */
HK_API HK_MUST enum hk_status hk_verify(const char *path, unsigned options, hk_fault_fn *fn,
                                        void *arg, struct hk_verify_report *report,
                                        struct hk_error *err);

/* The same of the file that F was opened from, as it is now, or of its bytes in memory; the path
 * need not lead to it any more. W, which may be NULL, is used to hash. HK_E_USE: F is a stream, or
 * a model in several files, which hk_verify_set() checks. */
HK_API HK_MUST enum hk_status hk_verify_file(const struct hk_file *f, unsigned options,
                                             const struct hk_work *w, hk_fault_fn *fn, void *arg,
                                             struct hk_verify_report *report, struct hk_error *err);

/* The same of the whole model that PATH leads to, as hk_open_set() does: every file of it, whether
 * all are there, and whether names, counts, index and, with HK_VERIFY_PAYLOAD, the base digest hold
 * across them. The report is that of all files together. W, which may be NULL, is used to hash. */
HK_API HK_MUST enum hk_status hk_verify_set(const char *path, unsigned options,
                                            const struct hk_work *w, hk_fault_fn *fn, void *arg,
                                            struct hk_verify_report *report, struct hk_error *err);

/* ---- output ---- */

/* A struct hk_out is a file that appears whole or not at all, or a descriptor. */

enum { HK_OUT_REPLACE = 1 }; /* an existing file may be replaced */

/* Start writing PATH. A regular file is written under a temporary identity in the same directory
 * and takes its name in hk_out_commit(); anything else that exists (device, FIFO) is written
 * directly. HK_E_USE: PATH exists and REPLACE is not given. */
HK_API HK_MUST enum hk_status hk_out_create(struct hk_out **out, const char *path, unsigned options,
                                            struct hk_error *err);
/* Write to FD, which stays the caller's. */
HK_API HK_MUST enum hk_status hk_out_fd(struct hk_out **out, int fd, struct hk_error *err);
/* Write to memory, for hk_out_open(). */
HK_API HK_MUST enum hk_status hk_out_memory(struct hk_out **out, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_out_write(struct hk_out *o, const void *p, size_t n,
                                           struct hk_error *err);
/* Append N bytes found at OFFSET of the regular file FD, in the kernel where it can. */
HK_API HK_MUST enum hk_status hk_out_copy(struct hk_out *o, int fd, uint64_t offset, uint64_t n,
                                          struct hk_error *err);
HK_API uint64_t hk_out_offset(const struct hk_out *o); /* bytes written so far */
/* Refuse (HK_E_RANGE) whatever would make the output longer than LIMIT bytes. */
HK_API void hk_out_limit(struct hk_out *o, uint64_t limit);
/* Name of the temporary file, for a signal handler to unlink; NULL while there is none. Constant
 * until commit. */
HK_API const char *hk_out_temporary(const struct hk_out *o);
/* Flush, sync and give the file its name; frees *O. On failure nothing is left behind. */
HK_API HK_MUST enum hk_status hk_out_commit(struct hk_out **o, struct hk_error *err);
/* Commit *O, an output to memory or to a descriptor of a regular file, and open what was written,
 * as hk_open_fd() does; frees *O. */
HK_API HK_MUST enum hk_status hk_out_open(struct hk_out **o, struct hk_file **file,
                                          struct hk_error *err);
/* Drop what was written; frees *O. NULL is allowed. */
HK_API void hk_out_discard(struct hk_out **o);

/* ---- writing .hk ---- */

struct hk_writer; /* streams: describe everything, begin, then give the payload bytes in order */

struct hk_writer_options {
    size_t size;
    uint32_t alignment;                /* power of two up to HK_MAX_ALIGNMENT; 0 means 128 */
    uint16_t split_index, split_count; /* 0 of 1 for a whole file; split_count 0 means 1 */
    uint32_t
        flags; /* quant_table, sparsity_2_4, raw_weight_storage; the others follow from facts */
    uint64_t appendix_size; /* bytes of appendix records that follow the last section; 0 for none */
    /* Zero bytes behind the table, in which hk_edit_commit() puts what metadata grow by. 0: 64 KiB,
     * 4 KiB where the sections have less than 1 MiB, none in a file without tensors. */
    uint64_t room;
};

#define HK_NO_ROOM UINT64_MAX /* as ROOM: no bytes at all */

HK_API HK_MUST enum hk_status
hk_writer_new(struct hk_writer **out, const struct hk_writer_options *opt, struct hk_error *err);
/* Add or replace a metadata pair (copied). The key hk.alignment is the writer's own: setting it has
 * no effect. HK_E_FORMAT: the value does not have the size of its type; HK_E_RANGE: key longer than
 * 65535 bytes or value than 2^32-1; HK_E_USE: empty key. */
HK_API HK_MUST enum hk_status hk_writer_set(struct hk_writer *w, struct hk_bytes key,
                                            enum hk_meta_type type, struct hk_bytes value,
                                            struct hk_error *err);
/* The same with a value of a C type: float64; json TEXT as it is, whether or not it parses; arrays
 * as the blobs of type bytes that hk_kv_array() reads. */
HK_API HK_MUST enum hk_status hk_writer_set_string(struct hk_writer *w, const char *key,
                                                   const char *value, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_int(struct hk_writer *w, const char *key, int64_t value,
                                                struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_float(struct hk_writer *w, const char *key,
                                                  double value, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_bool(struct hk_writer *w, const char *key, bool value,
                                                 struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_json(struct hk_writer *w, const char *key,
                                                 const char *text, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_bytes(struct hk_writer *w, const char *key,
                                                  struct hk_bytes value, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_string_array(struct hk_writer *w, const char *key,
                                                         const struct hk_bytes *values,
                                                         uint32_t count, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_f32_array(struct hk_writer *w, const char *key,
                                                      const float *values, uint32_t count,
                                                      struct hk_error *err);
HK_API HK_MUST enum hk_status hk_writer_set_i32_array(struct hk_writer *w, const char *key,
                                                      const int32_t *values, uint32_t count,
                                                      struct hk_error *err);
/* Add a tensor: name, type, layout, sparsity, shape, the three sizes, block_size (0 means 32) and
 * sparsity_ratio of T; its offsets are ignored. The sizes must fit type and shape, as when reading.
 * For a shared_ref SHARED is the index of the earlier tensor; otherwise it is ignored. */
HK_API HK_MUST enum hk_status hk_writer_add(struct hk_writer *w, const struct hk_tensor *t,
                                            size_t shared, struct hk_error *err);
/* Write header, metadata and table to OUT. Nothing can be added afterwards. */
HK_API HK_MUST enum hk_status hk_writer_begin(struct hk_writer *w, struct hk_out *out,
                                              struct hk_error *err);
/* Total size of the file to be written, known after hk_writer_begin(). */
HK_API uint64_t hk_writer_size(const struct hk_writer *w);
/* The next payload bytes: for each tensor in order its data, scales and residual, then the appendix
 * records. A call may not span two sections; padding is the writer's. */
HK_API HK_MUST enum hk_status hk_writer_put(struct hk_writer *w, const void *p, size_t n,
                                            struct hk_error *err);
/* The same from OFFSET of the regular file FD. */
HK_API HK_MUST enum hk_status hk_writer_copy(struct hk_writer *w, int fd, uint64_t offset,
                                             uint64_t n, struct hk_error *err);
/* Check that every payload byte was given. OUT is not committed. */
HK_API HK_MUST enum hk_status hk_writer_finish(struct hk_writer *w, struct hk_error *err);
HK_API void hk_writer_free(struct hk_writer **w);

/* ---- changing a file that others use ---- */

/* Writers of a file take turns, by a lock that goes with their process. A writer waits for whoever
 * reads what it is about to change: moments, as readers copy it, unless one keeps it
 * (hk_file_keep()). NULL in place of this waits in silence for as long as it takes. */
struct hk_wait {
    size_t size;
    bool no_wait; /* fail with HK_E_IO, sys EWOULDBLOCK, instead of waiting */
    /* Called once it has waited for a second: FD is the file, WHOM a clause such as "another
     * program is writing to it". May be NULL. */
    void (*notice)(void *arg, int fd, const char *whom);
    void *arg;
};

/* ---- writing the version history ---- */

/* Records are appended to a .hk in place: nothing that is there moves, and a record counts once its
 * header is written, which happens after all of its other bytes are on the disk. A process killed
 * on the way leaves the file with its old records and a torn tail, which hk_verify() names and
 * hk_rollback() with HK_ROLLBACK_REPAIR removes. Before they are made to count the file that would
 * result is parsed and compared with what was asked. */

struct hk_new_record { /* also a struct of options; TYPE has no default */
    size_t size;
    enum hk_record_type type;
    struct hk_bytes name, target; /* up to 65535 bytes each */
    uint32_t generation;
    uint64_t timestamp; /* Unix seconds */
    float metrics[4];   /* loss, accuracy, pass rate, custom; 0: not given */
    uint8_t flags;      /* HK_RECORD_ACTIVE; HK_RECORD_COMPRESSED: the payload is given as it is, of
                           PLAIN_SIZE bytes, and stored as that size and a zlib stream */
    uint64_t plain_size; /* only of a compressed one */
};

struct hk_appender;

enum { HK_APPEND_BIND_BASE = 1 }; /* the first record's parent_hash is the base digest, else zero */

/* Lock PATH (waiting for another writer, see struct hk_wait) and prepare to append; others read the
 * file as it was until the commit. HK_E_USE: no .hk, or BIND_BASE and
 * there are records already; HK_E_FORMAT: its end is torn, or what is behind the records leaves
 * them no room to grow. Cost: the head of the file and the payload of its last record, which is
 * hashed. */
HK_API HK_MUST enum hk_status hk_append_open(struct hk_appender **out, const char *path,
                                             unsigned options, const struct hk_wait *wait,
                                             struct hk_error *err);
/* Let the first record hold the base digest of WHOLE: the file, or the set whose first file it is,
 * opened before by hk_open_set(). Reads all payloads; W may be NULL. HK_E_USE: there are records
 * already, or WHOLE is something else, or one shard of several. */
HK_API HK_MUST enum hk_status hk_append_bind(struct hk_appender *a, const struct hk_file *whole,
                                             const struct hk_work *w, struct hk_error *err);
/* Generation of the last record, 0 if there is none. Records begun count too. */
HK_API uint32_t hk_append_generation(const struct hk_appender *a);
/* Begin the next record, whose payload follows by hk_append_write(); it ends where the next begins
 * or at the commit. HK_E_USE: its generation lies before the last one's. */
HK_API HK_MUST enum hk_status hk_append_record(struct hk_appender *a, const struct hk_new_record *r,
                                               struct hk_error *err);
HK_API HK_MUST enum hk_status hk_append_write(struct hk_appender *a, const void *p, size_t n,
                                              struct hk_error *err);
/* Switch the records called R's name, which the file has, on or off: for each type and target that
 * they have, the next record is a switch with R's ACTIVE bit, generation, timestamp and metrics.
 * HK_E_MISSING: no record of the file is called so; the message lists the names there are. */
HK_API HK_MUST enum hk_status hk_append_switch(struct hk_appender *a, const struct hk_new_record *r,
                                               struct hk_error *err);
/* Make all records count, or on failure none; frees *A. */
HK_API HK_MUST enum hk_status hk_append_commit(struct hk_appender **a, struct hk_error *err);
/* Leave the file as it was; frees *A. NULL is allowed. */
HK_API void hk_append_discard(struct hk_appender **a);

enum {
    HK_ROLLBACK_DRY_RUN = 1, /* change nothing */
    HK_ROLLBACK_REPAIR = 2,  /* cut off a torn tail and nothing else: GENERATION plays no part */
};

struct hk_rollback_report {
    size_t kept, removed; /* records */
    uint64_t size_before, size_after;
};

/* Cut PATH's history back to the leading records with a generation of at most GENERATION. If none
 * is left, the file ends with its last section again, byte for byte as before the first append but
 * for a seal. HK_E_UNSUPPORTED: a record behind the cut has a generation that would be kept;
 * HK_E_FORMAT: the tail is torn (without REPAIR), or there is something behind the records. Waits
 * for whoever keeps records that are to go (hk_file_keep()). */
HK_API HK_MUST enum hk_status hk_rollback(const char *path, uint32_t generation, unsigned options,
                                          const struct hk_wait *wait,
                                          struct hk_rollback_report *report, struct hk_error *err);

/* ---- editing in place ---- */

/* Changes of a .hk file's metadata, made together. Weights do not move and no byte of a tensor or a
 * record changes; the cost does not depend on them. At every instant, that of a kill or of a power
 * failure too, the file has its old metadata or all of the new ones: they are written and synced
 * where nothing is that counts, and then the header, which names their place, is switched in one
 * write, after the file that results was parsed and compared with what was asked. Others may have
 * the file open: what they opened is the old file or the new one. */
struct hk_edit;

/* Open PATH, wait for whoever is writing to it (see struct hk_wait), and keep others from doing so
 * until the edit ends.
 * HK_E_UNSUPPORTED: no .hk, or a later shard: the metadata of a set is that of its first file, to
 * which hk_first_file() leads; HK_E_FORMAT also: a
 * journal of the reference implementation lies beside the file. */
HK_API HK_MUST enum hk_status hk_edit_begin(struct hk_edit **out, const char *path,
                                            const struct hk_wait *wait, struct hk_error *err);
/* The file as it was found; gone with E. */
HK_API const struct hk_file *hk_edit_file(const struct hk_edit *e);
/* Give KEY the VALUE (both copied): in its place if there is such a key, else at the end.
 * HK_E_USE: an empty key; HK_E_RANGE: key longer than 65535 bytes or value than 2^32-1;
 * HK_E_FORMAT: the value does not have the size of its type; HK_E_UNSUPPORTED: a key that says how
 * the file is laid out (hk.alignment, split_index, ...), unless the value is the one it has. */
HK_API HK_MUST enum hk_status hk_edit_set(struct hk_edit *e, struct hk_bytes key,
                                          enum hk_meta_type type, struct hk_bytes value,
                                          struct hk_error *err);
/* The same with a value of a C type, as for a writer. */
HK_API HK_MUST enum hk_status hk_edit_set_string(struct hk_edit *e, const char *key,
                                                 const char *value, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_int(struct hk_edit *e, const char *key, int64_t value,
                                              struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_float(struct hk_edit *e, const char *key, double value,
                                                struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_bool(struct hk_edit *e, const char *key, bool value,
                                               struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_json(struct hk_edit *e, const char *key, const char *text,
                                               struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_bytes(struct hk_edit *e, const char *key,
                                                struct hk_bytes value, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_string_array(struct hk_edit *e, const char *key,
                                                       const struct hk_bytes *values,
                                                       uint32_t count, struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_f32_array(struct hk_edit *e, const char *key,
                                                    const float *values, uint32_t count,
                                                    struct hk_error *err);
HK_API HK_MUST enum hk_status hk_edit_set_i32_array(struct hk_edit *e, const char *key,
                                                    const int32_t *values, uint32_t count,
                                                    struct hk_error *err);
/* HK_E_MISSING: the file has no such key. HK_E_UNSUPPORTED as above. */
HK_API HK_MUST enum hk_status hk_edit_delete(struct hk_edit *e, struct hk_bytes key,
                                             struct hk_error *err);
/* Write the changes and free *E. Where nothing differs nothing is written. The types that
 * hk.gguf.types records for the keys set and deleted are kept in step: a value that is none of the
 * recorded type loses the record. HK_E_RANGE: what does not fit before the payloads cannot stand
 * behind them because of the appendix; HK_E_FORMAT: bytes at the end of the file belong to nothing.
 * After a failure the file has its old metadata, unless the message says that the new ones stand.
 */
HK_API HK_MUST enum hk_status hk_edit_commit(struct hk_edit **e, struct hk_error *err);
/* Forget the changes; frees *E. NULL is allowed. */
HK_API void hk_edit_discard(struct hk_edit **e);

/* ---- converting ---- */

/* What becomes of the version history, the appendix records, of a .hk. */
enum hk_history_choice {
    HK_HISTORY_CARRY, /* goes along to .hk, into the first shard of several; HK_E_UNSUPPORTED where
                         TO has no place for it, or tensors change their types */
    HK_HISTORY_DROP,  /* left out */
    HK_HISTORY_KEEP,  /* as CARRY, but also where tensors change their types: opt->loss is told that
                         a bound base no longer holds */
};

struct hk_convert_options {
    size_t size;
    uint32_t alignment; /* 0: 128 for .hk; the file's own or 32 for GGUF; others have none */
    void (*progress)(void *arg, uint64_t done, uint64_t all); /* payload bytes; may be NULL */
    /* What TO has no place for and is left out or rounded: one line each. May be NULL. */
    void (*loss)(void *arg, const char *text);
    void *arg;           /* of both */
    uint64_t max_output; /* max bytes written; 0: 64 MiB, and at least 16 times the size of F */
    /* What a tensor becomes that safetensors has no type for, one of f32 (exact), f16, bf16. */
    enum hk_type dense;
    uint64_t room; /* to .hk: as in struct hk_writer_options */
    bool decode;   /* to .hk: tensors that safetensors has no type for become DENSE there too */
    enum hk_history_choice history;
    /* ---- hk_save() only ---- */
    uint64_t split_size; /* max payload bytes of a shard; 0: one file */
    bool replace;        /* an existing file or directory may be replaced */
    const volatile sig_atomic_t
        *stop; /* give up, removing what was written, once it is not 0; or NULL */
};

/* Write all of F to OUT as one file of format TO (not HK_FORMAT_HF); OUT is not committed. Nothing
 * is lost silently: HK_E_UNSUPPORTED and HK_E_RANGE name the key or tensor that TO cannot carry,
 * and what is merely rounded goes to opt->loss. F may be a stream. */
HK_API HK_MUST enum hk_status hk_convert(struct hk_file *f, enum hk_format to,
                                         const struct hk_convert_options *opt, struct hk_out *out,
                                         struct hk_error *err);

/* The same as files under PATH: one; with opt->split_size, where it takes several, the shards
 * STEM-00001-of-0000N.EXT and their index; for HK_FORMAT_HF the directory PATH. They are written
 * beside PATH under temporary names and take their own at the end, a directory in one step, the
 * index of a set last. Interrupted by opt->stop: HK_E_IO with sys EINTR. F may not be a stream. */
HK_API HK_MUST enum hk_status hk_save(struct hk_file *f, const char *path, enum hk_format to,
                                      const struct hk_convert_options *opt, struct hk_error *err);

/* ---- signing ---- */

struct hk_digests {
    uint8_t base[HK_SHA256_SIZE];     /* hk_base_digest() */
    uint8_t metadata[HK_SHA256_SIZE]; /* of every pair in order: key, type and value, each behind
                                         its length; keys of shards are left out */
    uint8_t history[HK_SHA256_SIZE];  /* of every record in order: header, name, target and the
                                         SHA-256 of the payload, each behind its length; of nothing
                                         where there is no record */
};

enum { HK_SIGNATURE_SIZE = 64 };

/* Reads all of F; W may be NULL. */
HK_API HK_MUST enum hk_status hk_file_digests(const struct hk_file *f, const struct hk_work *w,
                                              struct hk_digests *out, struct hk_error *err);
/* Sign D with the Ed25519 private key in PEM text KEY, without a passphrase. What is signed is the
 * text "hk-signature-1" and the three digests in hexadecimal digits, a line each. HK_E_FORMAT: no
 * such key. */
HK_API HK_MUST enum hk_status hk_sign(const struct hk_digests *d, struct hk_bytes key,
                                      uint8_t out[HK_SIGNATURE_SIZE], struct hk_error *err);
/* Whether SIGNATURE is that of D by the owner of the Ed25519 public key in PEM text KEY.
 * HK_E_CHECKSUM: it is not; HK_E_FORMAT: no such key. */
HK_API HK_MUST enum hk_status hk_sign_check(const struct hk_digests *d, struct hk_bytes key,
                                            const uint8_t signature[HK_SIGNATURE_SIZE],
                                            struct hk_error *err);

#ifdef __cplusplus
}
#endif
#endif
