/* Calls that the fuzz targets take over from the C library by --wrap, and the limits of an input.
 *
 * A file's mapping has a forbidden page behind it, and the rest of its last page is forbidden to
 * the address sanitizer, so that a byte too many is seen; the mapping itself is a real one, which
 * shows what is written to the file. Nothing here outlives the process, so nothing is synced. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/fuzz/fuzz.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *p, size_t n);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *p, size_t n);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);

/* ---- mappings ---- */

enum { PAGE = 4096, MAPPINGS = 256 };

static uint8_t *mappings[MAPPINGS];

static size_t pages(size_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

static uint8_t **mapping_at(const void *p)
{
    for (size_t i = 0; i < MAPPINGS; i++)
        if (mappings[i] == p)
            return &mappings[i];
    return NULL;
}

void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    uint8_t **slot = fd >= 0 && at == NULL && prot == PROT_READ ? mapping_at(NULL) : NULL;
    if (slot == NULL)
        return __real_mmap64(at, n, prot, flags, fd, offset);
    uint8_t *p =
        __real_mmap64(NULL, pages(n) + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return MAP_FAILED;
    if (__real_mmap64(p, n, prot, flags | MAP_FIXED, fd, offset) == MAP_FAILED) {
        __real_munmap(p, pages(n) + PAGE);
        return MAP_FAILED;
    }
    ASAN_POISON_MEMORY_REGION(p + n, pages(n) - n);
    *slot = p;
    return p;
}

int __wrap_munmap(void *p, size_t n)
{
    uint8_t **slot = p != NULL ? mapping_at(p) : NULL;
    if (slot == NULL)
        return __real_munmap(p, n);
    ASAN_UNPOISON_MEMORY_REGION(*slot + n, pages(n) - n);
    *slot = NULL;
    return __real_munmap(p, pages(n) + PAGE);
}

/* ---- syncing ---- */

int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

int __wrap_fdatasync(int fd)
{
    (void)fd;
    return 0;
}

/* ---- one input ---- */

enum { MAX_FILE = 4 << 20 }; /* bytes: a write beyond them is refused as on a full disk */

static void limit_files(rlim_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        abort();
    limit.rlim_cur = size < limit.rlim_max ? size : limit.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        abort();
    limit_files(MAX_FILE);
    fuzz_one((struct hk_bytes){data, size});
    fuzz_empty_dir();
    limit_files(RLIM_INFINITY);
    for (size_t i = 0; i < MAPPINGS; i++)
        fuzz_require(mappings[i] == NULL, "every mapping is given back");
    return 0;
}

void fuzz_require(bool holds, const char *what)
{
    if (holds)
        return;
    limit_files(RLIM_INFINITY);
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

void fuzz_must(enum hk_status st, const struct hk_error *err, const char *what)
{
    if (st != HK_OK)
        fprintf(stderr, "%s: %s\n", hk_status_name(st), err->text);
    fuzz_require(st == HK_OK, what);
}

bool fuzz_may(enum hk_status st, const struct hk_error *err)
{
    if (st == HK_OK)
        return true;
    fuzz_require(err->status == st, "a failure's status is in its error");
    fuzz_require(strlen(err->text) > 0 && strchr(err->text, '\n') == NULL,
                 "a failure is told in one line");
    return false;
}
