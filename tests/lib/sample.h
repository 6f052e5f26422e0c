/* sample.h: a small valid .hk with one of everything, made by the library's own writer in a memory
 * file, for tests that break it. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/sha256.h"
#include "tests/lib/tap.h"

/* The bytes of a file under construction or test. */
struct image {
    uint8_t *p;
    size_t n;
};

static inline void must(enum hk_status status, const struct hk_error *err, const char *what)
{
    if (status == HK_OK)
        return;
    printf("Bail out! %s: %s\n", what, err->text);
    exit(2);
}

static inline struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static inline int memory_file(const struct image *image)
{
    int fd = memfd_create("sample", MFD_CLOEXEC);
    if (fd < 0 || write(fd, image->p, image->n) != (ssize_t)image->n) {
        puts("Bail out! no memory file");
        exit(2);
    }
    return fd;
}

static inline struct image read_back(int fd)
{
    struct stat st;
    struct image image = {0};
    if (fstat(fd, &st) == 0)
        image = (struct image){malloc((size_t)st.st_size + 1), (size_t)st.st_size};
    if (image.p == NULL || pread(fd, image.p, image.n, 0) != (ssize_t)image.n) {
        puts("Bail out! cannot read a memory file back");
        exit(2);
    }
    return image;
}

/* Append one record, chained to DIGEST, which then is that of the new record. */
static inline void append_record(struct image *appendix, const char *name, const char *target,
                                 const char *data, uint32_t generation, uint8_t digest[32])
{
    size_t size = 80 + strlen(name) + strlen(target) + strlen(data),
           padded = (size + 7) & ~(size_t)7;
    struct hk_error err;
    appendix->p = realloc(appendix->p, appendix->n + padded);
    uint8_t *p = appendix->p + appendix->n;
    memset(p, 0, padded);
    p[0] = HK_RECORD_CODE_EVAL;
    p[1] = HK_RECORD_ACTIVE;
    put16(p + 2, (uint16_t)strlen(name));
    put32(p + 4, generation);
    put64(p + 8, 1700000000 + generation);
    memcpy(p + 16, digest, 32);
    put32(p + 48, 0x3f000000);
    put16(p + 64, (uint16_t)strlen(target));
    put32(p + 68, (uint32_t)crc32(0, (const uint8_t *)data, (uInt)strlen(data)));
    put64(p + 72, strlen(data));
    memcpy(p + 80, name, strlen(name));
    memcpy(p + 80 + strlen(name), target, strlen(target));
    memcpy(p + 80 + strlen(name) + strlen(target), data, strlen(data));
    const struct hk_bytes pieces[] = {text(name), text(target), text(data)};
    must(hk_sha256_of(pieces, 3, digest, &err), &err, "digest");
    appendix->n += padded;
}

static inline void add_pairs(struct hk_writer *w)
{
    static const uint8_t real[8] = {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, yes[1] = {1};
    static const uint8_t strings[] = {1, 0, 0, 0, 2, 0, 0, 0,   0,   0,   0,   0,  2,
                                      0, 0, 0, 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};
    struct hk_error err;
    must(hk_writer_set_string(w, "general.architecture", "llama", &err), &err, "set");
    must(hk_writer_set_int(w, "llama.block_count", -3, &err), &err, "set");
    must(hk_writer_set(w, text("real"), HK_META_FLOAT64, (struct hk_bytes){real, 8}, &err), &err,
         "set");
    must(hk_writer_set(w, text("yes"), HK_META_BOOL, (struct hk_bytes){yes, 1}, &err), &err, "set");
    must(hk_writer_set(w, text("json"), HK_META_JSON, text("[1, 2.5]"), &err), &err, "set");
    must(hk_writer_set(w, text("strings"), HK_META_BYTES,
                       (struct hk_bytes){strings, sizeof strings}, &err),
         &err, "set");
}

enum sample_tensor { T_F32, T_Q4_0, T_DQ4, T_NULL, T_SHARED, T_SCALAR, SAMPLE_TENSORS };

static inline void add_tensors(struct hk_writer *w)
{
    const struct hk_tensor tensors[SAMPLE_TENSORS] = {
        [T_F32] = {.name = text("f32.weight"),
                   .type = HK_TYPE_F32,
                   .ndim = 2,
                   .shape = {3, 5},
                   .data_size = 60},
        [T_Q4_0] = {.name = text("q4_0.weight"),
                    .type = HK_TYPE_Q4_0,
                    .ndim = 2,
                    .shape = {2, 64},
                    .data_size = 72},
        [T_DQ4] = {.name = text("dq4.weight"),
                   .type = HK_TYPE_DQ4,
                   .ndim = 1,
                   .shape = {40},
                   .data_size = 20,
                   .scale_size = 8,
                   .residual_size = 160,
                   .block_size = 32},
        [T_NULL] = {.name = text("null"), .type = HK_TYPE_NULL_REF, .ndim = 1, .shape = {7}},
        [T_SHARED] = {.name = text("shared"),
                      .type = HK_TYPE_SHARED_REF,
                      .ndim = 2,
                      .shape = {3, 5}},
        [T_SCALAR] = {.name = text("scalar"), .type = HK_TYPE_F16, .data_size = 2},
    };
    struct hk_error err;
    for (size_t i = 0; i < SAMPLE_TENSORS; i++)
        must(hk_writer_add(w, &tensors[i], T_F32, &err), &err, "add");
}

static inline void put_payloads(struct hk_writer *w)
{
    static const size_t sizes[] = {60, 72, 20, 8, 160, 2};
    uint8_t bytes[160];
    struct hk_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < sizes[i]; j++)
            bytes[j] = (uint8_t)(i * 16 + j % 13);
        must(hk_writer_put(w, bytes, sizes[i], &err), &err, "put");
    }
}

/* One of everything, at ALIGNMENT, with RECORDS appendix records. */
static inline struct image sample(uint32_t alignment, unsigned records)
{
    struct image appendix = {0};
    uint8_t digest[32] = {0};
    for (unsigned i = 0; i < records; i++)
        append_record(&appendix, i % 2 == 0 ? "even" : "odd", "model", "{\"pass_rate\":1}", i + 1,
                      digest);
    struct hk_writer *w;
    struct hk_out *out;
    struct hk_error err;
    int fd = memfd_create("sample", MFD_CLOEXEC);
    /* No room: damage to an offset leads into the head, or over a neighbour. */
    const struct hk_writer_options opt = {.size = sizeof opt,
                                          .alignment = alignment,
                                          .appendix_size = appendix.n,
                                          .room = HK_NO_ROOM};
    must(hk_writer_new(&w, &opt, &err), &err, "new");
    add_pairs(w);
    add_tensors(w);
    must(hk_out_fd(&out, fd, &err), &err, "out");
    must(hk_writer_begin(w, out, &err), &err, "begin");
    put_payloads(w);
    must(hk_writer_put(w, appendix.p, appendix.n, &err), &err, "put");
    must(hk_writer_finish(w, &err), &err, "finish");
    must(hk_out_commit(&out, &err), &err, "commit");
    hk_writer_free(&w);
    struct image image = read_back(fd);
    close(fd);
    free(appendix.p);
    return image;
}

static inline enum hk_status open_image(const struct image *image, struct hk_file **f,
                                        struct hk_error *err)
{
    int fd = memory_file(image);
    enum hk_status status = hk_open_fd(f, fd, err);
    close(fd);
    return status;
}

static inline enum hk_status verify_image(const struct image *image, unsigned options,
                                          hk_fault_fn *fn, void *arg,
                                          struct hk_verify_report *report, struct hk_error *err)
{
    int fd = memory_file(image);
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum hk_status status = hk_verify(path, options, fn, arg, report, err);
    close(fd);
    return status;
}

#endif
