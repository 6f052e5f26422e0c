/* Makes GGUF files in memory for the unit tests, and opens and converts them through descriptors
 * without a name. */
#ifndef MK_GGUF_H
#define MK_GGUF_H

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hk/wire.h"
#include "libhkfmt/hkfmt.h"
#include "tests/lib/tap.h"

struct mk {
    uint8_t *p;
    size_t n;
};

static inline void mk_need(bool good, const char *what)
{
    if (good)
        return;
    printf("Bail out! %s\n", what);
    exit(1);
}

static inline void mk_bytes(struct mk *m, const void *p, size_t n)
{
    m->p = realloc(m->p, m->n + n + 1);
    mk_need(m->p != NULL, "out of memory");
    if (n > 0)
        memcpy(m->p + m->n, p, n);
    m->n += n;
}

/* V in SIZE bytes, little-endian. */
static inline void mk_int(struct mk *m, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(v >> (8 * i));
        mk_bytes(m, &byte, 1);
    }
}

static inline void mk_text(struct mk *m, const char *s)
{
    mk_int(m, strlen(s), 8);
    mk_bytes(m, s, strlen(s));
}

static inline void mk_header(struct mk *m, uint64_t tensors, uint64_t keys)
{
    mk_bytes(m, "GGUF", 4);
    mk_int(m, 3, 4);
    mk_int(m, tensors, 8);
    mk_int(m, keys, 8);
}

/* A key with its value type; the value follows. */
static inline void mk_key(struct mk *m, const char *key, unsigned type)
{
    mk_text(m, key);
    mk_int(m, type, 4);
}

/* A key holding an array; the elements follow. */
static inline void mk_array(struct mk *m, const char *key, unsigned type, uint64_t count)
{
    mk_key(m, key, 9);
    mk_int(m, type, 4);
    mk_int(m, count, 8);
}

static inline void mk_tensor(struct mk *m, const char *name, uint64_t cols, uint64_t rows,
                             unsigned type, uint64_t offset)
{
    mk_text(m, name);
    mk_int(m, 2, 4);
    mk_int(m, cols, 8);
    mk_int(m, rows, 8);
    mk_int(m, type, 4);
    mk_int(m, offset, 8);
}

static inline void mk_pad(struct mk *m, size_t alignment)
{
    while (m->n % alignment != 0)
        mk_int(m, 0, 1);
}

static inline void mk_free(struct mk *m)
{
    free(m->p);
    *m = (struct mk){0};
}

/* N bytes at P as one appendix record of a .hk, without names. */
static inline void mk_record(uint8_t *p, size_t n)
{
    memset(p, 0, HK_RECORD_HEADER_SIZE);
    p[0] = HK_RECORD_CODE_EVAL;
    p[4] = 1; /* generation */
    p[72] = (uint8_t)(n - HK_RECORD_HEADER_SIZE);
}

/* A descriptor of a nameless file holding N bytes at P, at its beginning. */
static inline int mk_fd(const void *p, size_t n)
{
    int fd = memfd_create("gguf", 0);
    mk_need(fd >= 0 && (n == 0 || write(fd, p, n) == (ssize_t)n) && lseek(fd, 0, SEEK_SET) == 0,
            "memfd");
    return fd;
}

static inline enum hk_status mk_open(struct hk_file **out, const void *p, size_t n,
                                     struct hk_error *err)
{
    int fd = mk_fd(p, n);
    enum hk_status status = hk_open_fd(out, fd, err);
    close(fd);
    return status;
}

/* F converted to format TO, in memory. */
static inline enum hk_status mk_convert(struct mk *made, struct hk_file *f, enum hk_format to,
                                        uint32_t alignment, struct hk_error *err)
{
    const struct hk_convert_options options = {.size = sizeof options, .alignment = alignment};
    struct hk_out *out = NULL;
    struct stat st;
    int fd = mk_fd("", 0);
    mk_need(hk_out_fd(&out, fd, NULL) == HK_OK, "hk_out_fd");
    enum hk_status status = hk_convert(f, to, &options, out, err);
    if (status != HK_OK)
        hk_out_discard(&out);
    else
        status = hk_out_commit(&out, err);
    *made = (struct mk){0};
    if (status == HK_OK && fstat(fd, &st) == 0) {
        made->n = (size_t)st.st_size;
        made->p = malloc(made->n + 1);
        mk_need(made->p != NULL && pread(fd, made->p, made->n, 0) == (ssize_t)made->n, "read back");
    }
    close(fd);
    return status;
}

#endif
