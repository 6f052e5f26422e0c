/* inspect_cut.c: a file that ends too early, such as a download that broke off. Its first bytes are
 * mapped where a whole file would be, with zeros behind them that take no memory, so the readers
 * find its tables as they are; what payloads would be there nobody reads. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect.h"

/* Address space for the whole of a file of which SIZE bytes are there. More than that cut off is
 * not looked for: emulated processors pay for address space. */
static size_t room_for_whole(uint64_t size)
{
    enum { TIMES = 4096, LEAST = 64 << 20 };
    const uint64_t most = sizeof(size_t) > 4 ? (uint64_t)1 << 44 : (uint64_t)1 << 30;
    const uint64_t room = size < most / TIMES ? size * TIMES : most;
    return (size_t)(room > LEAST ? room : LEAST);
}

static enum hk_status map_with_zeros(const char *path, struct hk_bytes *out, uint64_t *size)
{
    struct stat st;
    size_t room = 0;
    uint8_t *p = MAP_FAILED;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return HK_E_IO;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        room = room_for_whole((uint64_t)st.st_size);
    if (room > 0 && room > (uint64_t)st.st_size)
        p = mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED &&
        mmap(p, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(p, room);
        p = MAP_FAILED;
    }
    close(fd);
    if (p == MAP_FAILED)
        return HK_E_IO;
    *out = (struct hk_bytes){p, room};
    *size = (uint64_t)st.st_size;
    return HK_OK;
}

/* A safetensors file is as long as its header says and no longer; 0: BYTES begin no such file. */
static uint64_t safetensors_length(struct hk_bytes bytes, uint64_t size)
{
    uint64_t n = 0, end = 0;
    for (size_t i = 0; i < 8 && i < size; i++)
        n |= (uint64_t)bytes.p[i] << (8 * i);
    if (size < 8 || n > size - 8)
        return 0;
    json_t *header = tool_json_any((struct hk_bytes){bytes.p + 8, (size_t)n});
    for (void *i = json_object_iter(header); i != NULL; i = json_object_iter_next(header, i)) {
        const json_t *ends = json_object_get(json_object_iter_value(i), "data_offsets");
        const json_int_t last = json_integer_value(json_array_get(ends, 1));
        if (last > 0 && (uint64_t)last > end)
            end = (uint64_t)last;
    }
    json_decref(header);
    return end > 0 && end < bytes.n - 8 - n ? 8 + n + end : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t end_of_tensor(const struct hk_tensor *t)
{
    uint64_t end = t->data_offset + t->data_size;
    if (t->scale_size > 0)
        end = later(end, t->scale_offset + t->scale_size);
    if (t->residual_size > 0)
        end = later(end, t->residual_offset + t->residual_size);
    return end;
}

static void find_what_is_cut(const struct hk_file *f, uint64_t size, struct inspect_cut *cut)
{
    *cut = (struct inspect_cut){.size = size};
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        const uint64_t end = end_of_tensor(t);
        cut->needed = later(cut->needed, end);
        if (end <= size)
            continue;
        if (cut->tensors++ == 0)
            cut->first = t->name;
    }
}

enum hk_status inspect_open_cut(struct hk_file **out, const char *path, struct inspect_cut *cut)
{
    struct hk_bytes bytes;
    uint64_t size;
    enum hk_status st = map_with_zeros(path, &bytes, &size);
    if (st != HK_OK)
        return st;
    const uint64_t length = safetensors_length(bytes, size);
    const struct hk_bytes whole = {bytes.p, length > 0 ? (size_t)length : bytes.n};
    if ((st = hk_open_bytes(out, whole, NULL)) == HK_OK) {
        find_what_is_cut(*out, size, cut);
        if (cut->needed > size)
            return HK_OK; /* the mapping lasts as long as the program */
        hk_close(out);
        st = HK_E_FORMAT;
    }
    munmap((void *)(uintptr_t)bytes.p, bytes.n);
    return st;
}
