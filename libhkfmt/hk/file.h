/* The open file, of whatever format. */
#ifndef HK_FILE_H
#define HK_FILE_H

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/ends.h"

struct hk_part { /* one mapped file */
    const uint8_t *map;
    uint64_t size;
    uint8_t header[128];              /* of a .hk, as it was copied */
    uint64_t appendix_at, appendix_n; /* its records, without what a torn append left behind them */
    uint64_t dev, ino;                /* which file it is */
    int fd;                           /* kept for copying in the kernel; -1 if there is none */
    bool borrowed; /* the bytes are the caller's, or a part of another file's mapping */
    char *name;    /* of the file in its directory, for sets; freed with the file. NULL otherwise */
    char *path;    /* that leads to it, by hk_open_set(); likewise */
};

struct hk_stream; /* gguf from a pipe */

struct hk_file {
    enum hk_format format;
    struct hk_header header;
    struct hk_part *parts;
    size_t part_count; /* files; one more behind them may be bytes that were made (hf/open.c) */
    struct hk_kv *kvs;
    size_t kv_count;
    struct hk_tensor *tensors;
    size_t tensor_count;
    struct hk_how *how; /* of a view, or of a directory where some tensors are made on the way
                           (convert/view.h): where the bytes of each tensor come from */
    struct hk_tensor *sources;    /* of such a directory: the tensors of its weights */
    const struct hk_file *origin; /* of a view: the open file whose records it has */
    bool without_appendix;        /* a view that leaves the records behind */
    struct hk_record *records;
    size_t record_count;
    struct hk_index kv_index, tensor_index;
    struct hk_index by_bytes, by_shape; /* tensors that own bytes, for shared_ref (toc.c) */
    struct hk_bytes metadata, table;    /* of one .hk: the sections, copied to the arena */
    struct hk_ends ends;                /* of one .hk */
    uint64_t errors;       /* of one .hk: how many were found, but for those of its end */
    struct hk_arena arena; /* copies of what may move, and what a foreign reader had to make */
    bool cut;              /* it ends too early (hk_open_cut()): payloads are not all there */
    struct hk_stream *stream;
    void (*free_stream)(struct hk_stream *stream); /* where there is one */
};

/* Map all of a regular file; *OUT is released with hk_unmap(). The descriptor stays the caller's.
 * An empty file has no mapping. */
enum hk_status hk_map_fd(struct hk_part *out, int fd, struct hk_error *err);
enum hk_status hk_map_path(struct hk_part *out, const char *path, struct hk_error *err);
void hk_unmap(struct hk_part *part);

/* HK_E_UNSUPPORTED where T lies in no file as it is. */
enum hk_status hk_refuse_made(const struct hk_tensor *t, struct hk_error *err);
/* HK_E_USE where F is cut, which payloads are not taken of. */
enum hk_status hk_refuse_cut(const struct hk_file *f, struct hk_error *err);

/* struct hk_tensor.part of one that lies in no file as it is: hk_tensor_data() gives nothing of it.
 */
#define HK_NO_PART UINT32_MAX

/* A file of one part, which it takes over (released on failure). NULL: out of memory. */
struct hk_file *hk_file_of(struct hk_part *part);
/* SIZE bytes of the arena as a part behind F's files, of which there can be one. NULL: out of
 * memory. */
uint8_t *hk_file_make_part(struct hk_file *f, size_t size);
/* Build kv_index and tensor_index of F, reporting duplicates. */
enum hk_status hk_build_indexes(struct hk_file *f, const struct hk_reporter *r,
                                struct hk_error *err);
/* Sort the targets that shared_ref entries can have; before any hk_tensor_resolve(). */
enum hk_status hk_build_targets(struct hk_file *f, struct hk_error *err);

#endif
