/* An open file: opening by content, closing, and looking at what was parsed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/map.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/foreign.h"
#include "libhkfmt/hk/open_hk.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/safetensors/st.h"

void hk_close(struct hk_file **file)
{
    struct hk_file *f = *file;
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->part_count; i++)
        hk_unmap(&f->parts[i]);
    if (f->stream != NULL)
        hk_stream_free(f->stream);
    hk_index_free(&f->kv_index);
    hk_index_free(&f->tensor_index);
    hk_index_free(&f->by_bytes);
    hk_index_free(&f->by_shape);
    hk_arena_free(&f->arena);
    free(f->parts);
    free(f->kvs);
    free(f->tensors);
    free(f->records);
    free(f);
    *file = NULL;
}

enum hk_format hk_format_of(const struct hk_part *part)
{
    const uint8_t *p = part->map;
    if (part->size >= 4 && memcmp(p, "GGUF", 4) == 0)
        return HK_FORMAT_GGUF;
    bool hk = part->size >= 4 && memcmp(p, HK_MAGIC, 4) == 0;
    if (!hk && part->size > 8 && p[8] == '{' && le64(p) <= part->size - 8)
        return HK_FORMAT_SAFETENSORS;
    return HK_FORMAT_HK;
}

enum hk_status hk_parse_foreign(struct hk_file *f, enum hk_format format, struct hk_error *err)
{
    bool short_of = false;
    uint64_t head = 0;
    return format == HK_FORMAT_GGUF ? hk_parse_gguf(f, false, &short_of, &head, err)
                                    : hk_parse_safetensors(f, err);
}

static enum hk_status parse_hk(void *arg, struct hk_file *f, const struct hk_source *src,
                               struct hk_error *err)
{
    (void)arg;
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_parse(f, src, false, &reporter, err);
    return st != HK_OK ? st : capture.status;
}

static enum hk_status parse_foreign(struct hk_file *f, enum hk_format format, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_status st = hk_parse_foreign(f, format, err);
    if (st == HK_OK)
        st = hk_build_indexes(f, &reporter, err);
    return st != HK_OK ? st : capture.status;
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

static enum hk_status open_part(struct hk_file **out, struct hk_part *part, enum hk_format format,
                                struct hk_error *err)
{
    struct hk_file *f = hk_file_of(part);
    if (f == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = parse_foreign(f, format, err);
    if (st != HK_OK) {
        hk_close(&f);
        return st;
    }
    *out = f;
    return HK_OK;
}

/* FD is our own, and closed; what the file needs of it is duplicated. */
static enum hk_status open_own(struct hk_file **out, int fd, struct hk_error *err)
{
    const enum hk_format format = hk_format_of_fd(fd);
    struct hk_part part;
    enum hk_status st;
    if (format == HK_FORMAT_HK)
        st = hk_open_hk(out, fd, 0, parse_hk, NULL, err);
    else
        st = hk_map_fd(&part, fd, err);
    close(fd);
    return format == HK_FORMAT_HK || st != HK_OK ? st : open_part(out, &part, format, err);
}

enum hk_status hk_open(struct hk_file **out, const char *path, struct hk_error *err)
{
    int fd;
    enum hk_status st = hk_open_path(&fd, path, err);
    return st == HK_OK ? open_own(out, fd, err) : st;
}

/* Locks belong to what was opened, of which the caller's descriptor may have duplicates in other
 * processes: it is opened anew, if that is possible. */
enum hk_status hk_open_fd(struct hk_file **out, int fd, struct hk_error *err)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int own = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (own < 0)
        own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return own >= 0 ? open_own(out, own, err) : hk_fail_sys(err, errno, "cannot open");
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

static struct hk_bytes section(const struct hk_file *f, const struct hk_tensor *t, uint64_t offset,
                               uint64_t size)
{
    if (f->stream != NULL || size == 0)
        return (struct hk_bytes){0};
    return (struct hk_bytes){f->parts[t->part].map + offset, (size_t)size};
}

struct hk_bytes hk_tensor_data(const struct hk_file *f, const struct hk_tensor *t)
{
    return section(f, t, t->data_offset, t->data_size);
}

struct hk_bytes hk_tensor_scales(const struct hk_file *f, const struct hk_tensor *t)
{
    return section(f, t, t->scale_offset, t->scale_size);
}

struct hk_bytes hk_tensor_residual(const struct hk_file *f, const struct hk_tensor *t)
{
    return section(f, t, t->residual_offset, t->residual_size);
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
