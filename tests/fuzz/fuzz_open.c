/* Whatever the bytes of a file are: opening, verifying, decoding and converting it end with an
 * answer, and opening agrees with verifying. The entry point is libFuzzer's; fuzz_main.c calls it
 * where there is none. The makefile links it with --wrap=mmap64,--wrap=munmap, so that a mapping is
 * a block of exactly the file's size and one byte too many is seen by the address sanitizer. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhkfmt/hkfmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- mappings ---- */

void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *p, size_t n);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *p, size_t n);

static void *mapping; /* the library maps one file at a time here */

void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd < 0 || prot != PROT_READ || flags != MAP_SHARED || mapping != NULL)
        return __real_mmap64(at, n, prot, flags, fd, offset);
    mapping = malloc(n);
    if (mapping == NULL || pread(fd, mapping, n, offset) != (ssize_t)n)
        abort();
    return mapping;
}

int __wrap_munmap(void *p, size_t n)
{
    if (p != mapping)
        return __real_munmap(p, n);
    free(mapping);
    mapping = NULL;
    return 0;
}

/* ---- what a program may do with a file ---- */

enum { PIECE = 1000 }; /* elements: no multiple of a block */

static void decode(const struct hk_file *f, const struct hk_tensor *t)
{
    static float values[PIECE];
    struct hk_decoder *d;
    if (hk_decoder_new(&d, f, t, NULL) != HK_OK)
        return;
    uint64_t n = hk_tensor_elems(t);
    for (uint64_t at = 0; at < n && at < 8 * PIECE; at += PIECE)
        hk_decoder_read(d, at, n - at < PIECE ? (size_t)(n - at) : PIECE, values);
    if (n > PIECE)
        hk_decoder_read(d, n - PIECE, PIECE, values);
    hk_decoder_free(&d);
}

static void read_value(const struct hk_kv *kv)
{
    int64_t integer;
    double real;
    bool truth;
    struct hk_bytes text;
    struct hk_error err;
    volatile uint64_t sum = 0; /* so that the bytes are read */
    if (hk_kv_int(kv, &integer, &err) != HK_OK || hk_kv_float(kv, &real, &err) != HK_OK)
        sum++;
    if (hk_kv_bool(kv, &truth, &err) != HK_OK || hk_kv_string(kv, &text, &err) != HK_OK)
        sum++;
    for (int kind = HK_ARRAY_STRING; kind <= HK_ARRAY_I32; kind++) {
        struct hk_array a;
        if (hk_kv_array(kv, (enum hk_array_kind)kind, &a, &err) != HK_OK)
            continue;
        for (uint32_t i = 0; i < a.count; i++) {
            if (kind == HK_ARRAY_STRING)
                sum += hk_array_string(&a, i).n;
            else if (kind == HK_ARRAY_F32)
                sum += hk_array_f32(&a, i) > 0;
            else
                sum += hk_array_i32(&a, i) > 0;
        }
        hk_array_free(&a);
    }
}

static void convert(struct hk_file *f, enum hk_format to)
{
    const struct hk_convert_options options = {.alignment = 32};
    struct hk_out *out;
    struct hk_error err;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || hk_out_fd(&out, null, &err) != HK_OK)
        abort();
    if (hk_convert(f, to, &options, out, &err) == HK_OK) {
        if (hk_out_commit(&out, &err) != HK_OK)
            abort();
    } else {
        hk_out_discard(&out);
    }
    close(null);
}

static void use(struct hk_file *f)
{
    struct hk_error err;
    for (size_t i = 0; i < hk_kv_count(f); i++)
        read_value(hk_kv_at(f, i));
    for (size_t i = 0; i < hk_tensor_count(f) && i < 100; i++)
        decode(f, hk_tensor_at(f, i));
    for (size_t i = 0; i < hk_record_count(f); i++) {
        enum hk_lineage lineage;
        uint8_t hash[HK_SHA256_SIZE];
        if (hk_record_hash(f, i, hash, &err) != HK_OK ||
            hk_record_lineage(f, i, &lineage, &err) != HK_OK)
            abort();
    }
    convert(f, HK_FORMAT_HK);
    convert(f, HK_FORMAT_GGUF);
    convert(f, HK_FORMAT_SAFETENSORS);
}

/* ---- a file's verdicts ---- */

static void note(void *arg, const struct hk_fault *fault)
{
    bool *prevents = arg;
    if (fault->status != HK_OK)
        *prevents = true;
    if (strlen(fault->text) == 0 || strchr(fault->text, '\n') != NULL)
        abort();
}

/* Whether verifying finds what keeps the file from being opened. */
static bool refused(int fd)
{
    struct hk_verify_report report;
    struct hk_error err;
    bool prevents = false;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (hk_verify(path, HK_VERIFY_PAYLOAD, note, &prevents, &report, &err) != HK_OK)
        abort();
    return prevents;
}

static void stream(int fd)
{
    struct hk_file *f;
    struct hk_error err;
    if (lseek(fd, 0, SEEK_SET) != 0)
        abort();
    if (hk_open_stream(&f, fd, &err) != HK_OK)
        return;
    convert(f, HK_FORMAT_HK);
    hk_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hk_file *f;
    struct hk_error err = {.text = ""};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    bool opened = hk_open_fd(&f, fd, &err) == HK_OK;
    if (opened) {
        use(f);
        hk_close(&f);
    } else if (strlen(err.text) == 0 || strchr(err.text, '\n') != NULL) {
        abort();
    }
    if (refused(fd) == opened)
        abort();
    stream(fd);
    close(fd);
    return 0;
}
