/* The open file: mapping its parts, closing, looking at what was parsed, its names in order. */
#include "libhkfmt/hk/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/base/sys.h"
#include "libhkfmt/hkmodel.h"

/* ---- mappings ---- */

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
                            : "no regular file";
}

enum hk_status hk_map_fd(struct hk_part *out, int fd, struct hk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hk_fail_sys(err, errno, "cannot stat");
    if (!S_ISREG(st.st_mode))
        return hk_fail(err, HK_E_IO, HK_NO_OFFSET, "not a regular file but %s",
                       kind_of_file(st.st_mode));
    struct hk_part part = {.size = (uint64_t)st.st_size,
                           .dev = (uint64_t)st.st_dev,
                           .ino = (uint64_t)st.st_ino,
                           .fd = -1};
    if ((uint64_t)st.st_size > SIZE_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "file too large to map");
    if (part.size > 0) {
        void *p = mmap(NULL, (size_t)part.size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            return hk_fail_sys(err, errno, "cannot map");
        part.map = p;
    }
    part.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (part.fd < 0) {
        int sys = errno;
        hk_unmap(&part);
        return hk_fail_sys(err, sys, "cannot duplicate descriptor");
    }
    *out = part;
    return HK_OK;
}

enum hk_status hk_map_path(struct hk_part *out, const char *path, struct hk_error *err)
{
    /* Not blocking, so that a FIFO is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot open");
    enum hk_status st = hk_map_fd(out, fd, err);
    close(fd);
    return st;
}

void hk_unmap(struct hk_part *part)
{
    if (part->map != NULL && !part->borrowed)
        munmap((void *)(uintptr_t)part->map, (size_t)part->size);
    if (part->fd >= 0)
        close(part->fd);
    free(part->name);
    free(part->path);
    *part = (struct hk_part){.fd = -1};
}

/* ---- files ---- */

uint8_t *hk_file_make_part(struct hk_file *f, size_t size)
{
    struct hk_part *parts = reallocarray(f->parts, f->part_count + 1, sizeof *parts);
    if (parts == NULL)
        return NULL;
    f->parts = parts;
    uint8_t *made = hk_arena_alloc(&f->arena, size);
    if (made != NULL)
        parts[f->part_count] =
            (struct hk_part){.map = made, .size = size, .fd = -1, .borrowed = true};
    return made;
}

struct hk_file *hk_file_of(struct hk_part *part)
{
    struct hk_file *f = calloc(1, sizeof *f);
    struct hk_part *parts = malloc(sizeof *parts);
    if (f == NULL || parts == NULL) {
        free(f);
        free(parts);
        hk_unmap(part);
        return NULL;
    }
    *parts = *part;
    f->parts = parts;
    f->part_count = 1;
    return f;
}

void hk_close(struct hk_file **file)
{
    struct hk_file *f = *file;
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->part_count; i++)
        hk_unmap(&f->parts[i]);
    if (f->stream != NULL)
        f->free_stream(f->stream);
    hk_index_free(&f->kv_index);
    hk_index_free(&f->tensor_index);
    hk_index_free(&f->by_bytes);
    hk_index_free(&f->by_shape);
    hk_arena_free(&f->arena);
    free(f->parts);
    free(f->kvs);
    free(f->tensors);
    free(f->sources);
    free(f->how);
    free(f->records);
    free(f);
    *file = NULL;
}

enum hk_format hk_file_format(const struct hk_file *f)
{
    return f->format;
}

uint64_t hk_file_size(const struct hk_file *f)
{
    uint64_t size = 0;
    for (size_t i = 0; i < f->part_count; i++)
        size += f->parts[i].size;
    return f->stream != NULL ? 0 : size;
}

size_t hk_file_parts(const struct hk_file *f)
{
    return f->part_count;
}

const char *hk_file_part_name(const struct hk_file *f, size_t part)
{
    return part < f->part_count ? f->parts[part].name : NULL;
}

const char *hk_file_part_path(const struct hk_file *f, size_t part)
{
    return part < f->part_count ? f->parts[part].path : NULL;
}

const struct hk_header *hk_file_header(const struct hk_file *f)
{
    return &f->header;
}

bool hk_file_is_stream(const struct hk_file *f)
{
    return f->stream != NULL;
}

size_t hk_kv_count(const struct hk_file *f)
{
    return f->kv_count;
}

const struct hk_kv *hk_kv_at(const struct hk_file *f, size_t i)
{
    return i < f->kv_count ? &f->kvs[i] : NULL;
}

size_t hk_tensor_count(const struct hk_file *f)
{
    return f->tensor_count;
}

const struct hk_tensor *hk_tensor_at(const struct hk_file *f, size_t i)
{
    return i < f->tensor_count ? &f->tensors[i] : NULL;
}

static struct hk_bytes mapped_section(const struct hk_file *f, const struct hk_tensor *t,
                                      uint64_t offset, uint64_t size)
{
    if (f->stream != NULL || size == 0 || t->part == HK_NO_PART)
        return (struct hk_bytes){0};
    const struct hk_part *part = &f->parts[t->part];
    if (f->cut && !range_ok(offset, size, part->size))
        return (struct hk_bytes){0};
    return (struct hk_bytes){part->map + offset, (size_t)size};
}

struct hk_bytes hk_tensor_data(const struct hk_file *f, const struct hk_tensor *t)
{
    return mapped_section(f, t, t->data_offset, t->data_size);
}

struct hk_bytes hk_tensor_scales(const struct hk_file *f, const struct hk_tensor *t)
{
    return mapped_section(f, t, t->scale_offset, t->scale_size);
}

struct hk_bytes hk_tensor_residual(const struct hk_file *f, const struct hk_tensor *t)
{
    return mapped_section(f, t, t->residual_offset, t->residual_size);
}

void hk_read_ahead(const struct hk_file *f, struct hk_bytes b)
{
    (void)f;
    hk_sys_read_ahead(b.p, b.n);
}

void hk_expect_random(const struct hk_file *f, struct hk_bytes b)
{
    (void)f;
    hk_sys_expect_random(b.p, b.n);
}

bool hk_is_in_memory(const struct hk_file *f, struct hk_bytes b)
{
    (void)f;
    return b.n == 0 || hk_sys_is_resident(b.p + b.n - 1);
}

void hk_let_go(const struct hk_file *f, struct hk_bytes b)
{
    hk_sys_let_go(b.p, b.n);
    for (size_t i = 0; i < f->part_count; i++) {
        const struct hk_part *part = &f->parts[i];
        const uintptr_t map = (uintptr_t)part->map, at = (uintptr_t)b.p;
        if (part->fd >= 0 && at >= map && at - map < part->size)
            hk_sys_forget(part->fd, (off_t)(at - map), (off_t)b.n);
    }
}

enum hk_status hk_refuse_made(const struct hk_tensor *t, struct hk_error *err)
{
    return t->part == HK_NO_PART
               ? hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                         "tensor %.*s is made of several of the directory's: convert the "
                         "directory to .hk first",
                         HK_STR(t->name))
               : HK_OK;
}

enum hk_status hk_refuse_cut(const struct hk_file *f, struct hk_error *err)
{
    return f->cut
               ? hk_fail(err, HK_E_USE, HK_NO_OFFSET, "it ends too early, and was opened as such")
               : HK_OK;
}

size_t hk_record_count(const struct hk_file *f)
{
    return f->record_count;
}

const struct hk_record *hk_record_at(const struct hk_file *f, size_t i)
{
    return i < f->record_count ? &f->records[i] : NULL;
}

struct hk_bytes hk_record_data(const struct hk_file *f, const struct hk_record *r)
{
    return (struct hk_bytes){f->parts[0].map + r->data_offset, (size_t)r->data_size};
}

/* ---- names ---- */

static struct hk_bytes kv_name_at(const void *table, size_t i)
{
    return ((const struct hk_kv *)table)[i].key;
}

static struct hk_bytes tensor_name_at(const void *table, size_t i)
{
    return ((const struct hk_tensor *)table)[i].name;
}

struct duplicates {
    const struct hk_file *f;
    const struct hk_reporter *r;
};

static void report_duplicate_key(void *arg, size_t i, size_t first)
{
    const struct duplicates *d = arg;
    const struct hk_kv *kv = &d->f->kvs[i];
    struct hk_where w = {kv->offset, HK_SUBJECT_KEY, kv->key, i};
    hk_report(d->r, HK_FAULT_KEY_DUPLICATE, &w, "key %.*s occurs again (pairs %zu and %zu)",
              HK_STR(kv->key), first, i);
}

static void report_duplicate_tensor(void *arg, size_t i, size_t first)
{
    const struct duplicates *d = arg;
    const struct hk_tensor *t = &d->f->tensors[i];
    struct hk_where w = {t->entry_offset, HK_SUBJECT_TENSOR, t->name, i};
    hk_report(d->r, HK_FAULT_NAME_DUPLICATE, &w, "tensor %.*s occurs again (entries %zu and %zu)",
              HK_STR(t->name), first, i);
}

enum hk_status hk_build_indexes(struct hk_file *f, const struct hk_reporter *r,
                                struct hk_error *err)
{
    struct duplicates d = {f, r};
    if (!hk_index_build(&f->kv_index, f->kvs, f->kv_count, kv_name_at, report_duplicate_key, &d) ||
        !hk_index_build(&f->tensor_index, f->tensors, f->tensor_count, tensor_name_at,
                        report_duplicate_tensor, &d))
        return hk_fail_nomem(err);
    return HK_OK;
}

const struct hk_kv *hk_kv_find_bytes(const struct hk_file *f, struct hk_bytes key)
{
    size_t i = hk_index_find(&f->kv_index, f->kvs, kv_name_at, key);
    return i == SIZE_MAX ? NULL : &f->kvs[i];
}

const struct hk_kv *hk_kv_find(const struct hk_file *f, const char *key)
{
    return hk_kv_find_bytes(f, (struct hk_bytes){(const uint8_t *)key, strlen(key)});
}

const struct hk_tensor *hk_tensor_find_bytes(const struct hk_file *f, struct hk_bytes name)
{
    size_t i = hk_index_find(&f->tensor_index, f->tensors, tensor_name_at, name);
    return i == SIZE_MAX ? NULL : &f->tensors[i];
}

const struct hk_tensor *hk_tensor_find(const struct hk_file *f, const char *name)
{
    return hk_tensor_find_bytes(f, (struct hk_bytes){(const uint8_t *)name, strlen(name)});
}

/* ---- how much may be made of a file: a few bytes can stand for any number of zeros, be read again
 * for each of many references, or ask for vast alignment ---- */

enum { TIMES = 16 };
static const uint64_t always = UINT64_C(64) << 20;

uint64_t hk_output_limit(const struct hk_file *f, uint64_t most)
{
    uint64_t limit;
    if (most > 0)
        return most;
    if (f->stream != NULL || !mul_ok(hk_file_size(f), TIMES, &limit))
        return UINT64_MAX; /* GGUF has no form that grows */
    return limit > always ? limit : always;
}
