/* Appending to the version history and cutting it back, and both broken off at every write:
 * whatever the instant, the file has its old records or its new ones. */
#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "libhkfmt/hk/wire.h"
#include "tests/lib/sample.h"

/* ---- the calls that change a file, counted, broken off or refused ---- */

enum moment { NEVER, BEFORE, HALF_WAY, AFTER, DISK_FULL };

static struct {
    enum moment moment;
    unsigned at;    /* number of the call it happens in */
    unsigned calls; /* so far */
} plan;

enum { KILLED = 77 };

ssize_t __real_pwrite64(int fd, const void *p, size_t n, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off64_t offset);
int __real_ftruncate64(int fd, off64_t size);
int __wrap_ftruncate64(int fd, off64_t size);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

/* Whether something is to happen in this call; if it is to happen before, it does. */
static bool struck(void)
{
    const bool hit = plan.calls++ == plan.at && plan.moment != NEVER;
    if (hit && plan.moment == BEFORE)
        _exit(KILLED);
    return hit;
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off64_t offset)
{
    const bool hit = struck();
    if (hit && plan.moment == DISK_FULL) {
        plan.moment = NEVER;
        errno = ENOSPC;
        return -1;
    }
    if (!hit)
        return __real_pwrite64(fd, p, n, offset);
    /* Eight aligned bytes, and the header within its page, are written whole or not at all. */
    const bool whole = n <= 8 || offset == 0;
    (void)!__real_pwrite64(fd, p, plan.moment == HALF_WAY ? whole ? 0 : n / 2 : n, offset);
    _exit(KILLED);
}

int __wrap_ftruncate64(int fd, off64_t size)
{
    const bool hit = struck();
    int result = hit && plan.moment == HALF_WAY ? 0 : __real_ftruncate64(fd, size);
    if (hit && plan.moment != DISK_FULL)
        _exit(KILLED);
    return result;
}

int __wrap_fdatasync(int fd)
{
    const bool hit = struck();
    if (hit && plan.moment == DISK_FULL) {
        plan.moment = NEVER;
        errno = ENOSPC;
        return -1;
    }
    int result = __real_fdatasync(fd);
    if (hit)
        _exit(KILLED);
    return result;
}

/* ---- files ---- */

static char path[256];

static void put_file(const struct image *image)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0 || write(fd, image->p, image->n) != (ssize_t)image->n) {
        puts("Bail out! cannot write the file");
        exit(2);
    }
    close(fd);
}

static struct image get_file(void)
{
    int fd = open(path, O_RDONLY);
    struct image image = read_back(fd);
    close(fd);
    return image;
}

static bool file_is(const struct image *image)
{
    struct image now = get_file();
    bool same = now.n == image->n && memcmp(now.p, image->p, now.n) == 0;
    free(now.p);
    return same;
}

static struct hk_new_record record(const char *name, uint32_t generation)
{
    return (struct hk_new_record){.size = sizeof(struct hk_new_record),
                                  .type = HK_RECORD_DELTA_PATCH,
                                  .name = text(name),
                                  .target = text("model"),
                                  .generation = generation,
                                  .timestamp = 1700000000,
                                  .flags = HK_RECORD_ACTIVE};
}

/* COUNT records of generations from FIRST on. */
static enum hk_status append(unsigned count, uint32_t first, unsigned options, struct hk_error *err)
{
    struct hk_appender *a;
    enum hk_status status = hk_append_open(&a, path, options, NULL, err);
    if (status != HK_OK)
        return status;
    for (unsigned i = 0; status == HK_OK && i < count; i++) {
        char name[32], payload[64];
        snprintf(name, sizeof name, "new-%u", first + i);
        memset(payload, (int)('a' + i), sizeof payload);
        const struct hk_new_record r = record(name, first + i);
        status = hk_append_record(a, &r, err);
        for (unsigned k = 0; status == HK_OK && k < 3; k++)
            status = hk_append_write(a, payload, 11 + i, err);
    }
    if (status == HK_OK)
        return hk_append_commit(&a, err);
    hk_append_discard(&a);
    return status;
}

struct faults {
    unsigned errors;
    char codes[200];
};

static void count_fault(void *arg, const struct hk_fault *fault)
{
    struct faults *f = arg;
    if (fault->severity != HK_ERROR)
        return;
    f->errors++;
    size_t used = strlen(f->codes);
    snprintf(f->codes + used, sizeof f->codes - used, " %s", fault->code);
}

static struct faults verify(unsigned options)
{
    struct faults f = {0};
    struct hk_verify_report report;
    struct hk_error err;
    must(hk_verify(path, options, count_fault, &f, &report, &err), &err, "verify");
    return f;
}

static size_t records(void)
{
    struct hk_file *f;
    struct hk_error err;
    must(hk_open(&f, path, &err), &err, "open");
    size_t n = hk_record_count(f);
    hk_close(&f);
    return n;
}

/* ---- what is written ---- */

static void test_append(unsigned before)
{
    struct image old = sample(128, before);
    struct hk_error err = {0};
    put_file(&old);
    ok(append(2, before + 1, 0, &err) == HK_OK, "two records behind %u %s", before, err.text);
    struct faults f = verify(HK_VERIFY_PAYLOAD);
    ok(f.errors == 0 && records() == before + 2, "%zu records, no errors:%s", records(), f.codes);
    struct image new = get_file();
    ok(new.n % 8 == 0 &&
           memcmp(new.p + HK_HEADER_SIZE, old.p + HK_HEADER_SIZE, old.n - HK_HEADER_SIZE) == 0,
       "nothing that was there has moved");
    struct hk_rollback_report report;
    ok(hk_rollback(path, before, 0, NULL, &report, &err) == HK_OK && report.kept == before &&
           report.removed == 2 && report.size_after == old.n,
       "rolled back to generation %u", before);
    ok(file_is(&old), "the file is what it was, byte for byte");
    free(new.p);
    free(old.p);
}

static void test_bound(void)
{
    struct image old = sample(128, 0);
    struct hk_verify_report report;
    struct hk_error err = {0};
    put_file(&old);
    ok(append(1, 1, HK_APPEND_BIND_BASE, &err) == HK_OK, "bound to the base %s", err.text);
    must(hk_verify(path, HK_VERIFY_PAYLOAD, count_fault, &(struct faults){0}, &report, &err), &err,
         "verify");
    ok(report.base == HK_BASE_BOUND, "the verifier finds it bound");
    ok(append(1, 2, HK_APPEND_BIND_BASE, &err) == HK_E_USE, "a second record cannot: %s", err.text);
    ok(append(1, 0, 0, &err) == HK_E_USE && records() == 1, "generations do not go back: %s",
       err.text);
    free(old.p);
}

/* Records 1, 3, 2: nothing behind the cut may belong before it. */
static void test_out_of_order(void)
{
    struct image image = sample(128, 3);
    struct hk_error err = {0};
    struct hk_file *f;
    put_file(&image);
    must(hk_open(&f, path, &err), &err, "open");
    put32(image.p + hk_record_at(f, 1)->offset + 4, 9);
    hk_close(&f);
    put_file(&image);
    ok(hk_rollback(path, 4, 0, NULL, NULL, &err) == HK_E_UNSUPPORTED && file_is(&image),
       "out of order: %s", err.text);
    ok(hk_rollback(path, 0, HK_ROLLBACK_DRY_RUN, NULL, NULL, &err) == HK_OK && file_is(&image),
       "a dry run changes nothing");
    free(image.p);
}

static void test_refused(void)
{
    struct image image = sample(128, 1), torn = {malloc(image.n + 100), image.n + 100};
    struct hk_error err = {0};
    struct hk_rollback_report report;
    memcpy(torn.p, image.p, image.n);
    memset(torn.p + image.n, 0, 8);
    memset(torn.p + image.n + 8, 'x', 92);
    put_file(&torn);
    ok(append(1, 5, 0, &err) == HK_E_FORMAT && file_is(&torn), "behind a torn tail: %s", err.text);
    ok(hk_rollback(path, 1, 0, NULL, NULL, &err) == HK_E_FORMAT, "no rollback either");
    ok(hk_rollback(path, 0, HK_ROLLBACK_REPAIR, NULL, &report, &err) == HK_OK && report.kept == 1 &&
           file_is(&image),
       "repaired, its record kept");
    ok(hk_rollback(path, 0, HK_ROLLBACK_REPAIR, NULL, &report, &err) == HK_OK && file_is(&image),
       "nothing to repair is no fault");
    free(torn.p);
    free(image.p);
}

static void test_not_waited(void)
{
    struct image image = sample(128, 1);
    struct hk_error err = {0};
    struct hk_file *f;
    struct hk_appender *a;
    put_file(&image);
    must(hk_open(&f, path, &err), &err, "open");
    must(hk_file_keep(f, HK_KEEP_FILE, &err), &err, "keep");
    must(hk_append_open(&a, path, 0,
                        &(struct hk_wait){.size = sizeof(struct hk_wait), .no_wait = true}, &err),
         &err, "append");
    const struct hk_new_record r = record("beside", 5);
    must(hk_append_record(a, &r, &err), &err, "record");
    must(hk_append_write(a, "payload", 7, &err), &err, "payload");
    ok(hk_append_commit(&a, &err) == HK_E_IO && err.sys == EWOULDBLOCK && a == NULL,
       "beside who reads all of the file: %s", err.text);
    hk_close(&f);
    ok(file_is(&image), "and nothing is left of it");
    free(image.p);
}

/* A last record without its padding: to keep all there is changes nothing. */
static void test_unpadded(void)
{
    struct image image = sample(128, 0);
    struct hk_error err = {0};
    struct hk_rollback_report report = {0};
    put_file(&image);
    ok(append(1, 1, 0, &err) == HK_OK, "a record %s", err.text);
    struct image padded = get_file();
    ok(padded.p[padded.n - 1] == 0 && truncate(path, (off_t)padded.n - 1) == 0,
       "its padding is cut");
    struct image cut = get_file();
    ok(hk_rollback(path, 1, 0, NULL, &report, &err) == HK_OK && report.kept == 1 &&
           report.size_after == cut.n && file_is(&cut),
       "all is kept %s", err.text);
    free(cut.p);
    free(padded.p);
    free(image.p);
}

/* Metrics are the floats that were given, also what no decimal text gives back. */
static void test_metrics(void)
{
    struct image image = sample(128, 0);
    struct hk_error err = {0};
    struct hk_appender *a;
    struct hk_file *f;
    struct hk_new_record r = record("measured", 1);
    const float metrics[4] = {0.1F, 1e-45F, -0.0F, INFINITY};
    memcpy(r.metrics, metrics, sizeof metrics);
    put_file(&image);
    must(hk_append_open(&a, path, 0, NULL, &err), &err, "append");
    must(hk_append_record(a, &r, &err), &err, "record");
    must(hk_append_commit(&a, &err), &err, "commit");
    must(hk_open(&f, path, &err), &err, "open");
    ok(memcmp(hk_record_at(f, 0)->metrics, metrics, sizeof metrics) == 0, "metrics come back");
    struct image now = get_file();
    ok(le32(now.p + hk_record_at(f, 0)->offset + 48) == 0x3dcccccd, "and are f32 in the file");
    free(now.p);
    hk_close(&f);
    free(image.p);
}

/* A seal is dropped with the first change. */
static void test_seal(void)
{
    struct image image = sample(128, 0);
    struct hk_error err = {0};
    put32(image.p + HK_AT_FLAGS, le32(image.p + HK_AT_FLAGS) | HK_FLAG_HAS_SHA256_CHECKSUM);
    memset(image.p + HK_AT_RESERVED, 7, 32);
    put_file(&image);
    struct hk_appender *a;
    const struct hk_new_record r = record("given up", 1);
    ok(hk_append_open(&a, path, 0, NULL, &err) == HK_OK && hk_append_record(a, &r, &err) == HK_OK &&
           hk_append_write(a, "x", 1, &err) == HK_OK,
       "a record for a sealed file %s", err.text);
    hk_append_discard(&a);
    ok(file_is(&image), "given up: the seal is still there");
    ok(append(1, 1, 0, &err) == HK_OK, "a sealed file %s", err.text);
    struct image now = get_file();
    ok((le32(now.p + HK_AT_FLAGS) & HK_FLAG_HAS_SHA256_CHECKSUM) == 0 &&
           now.p[HK_AT_RESERVED] == 0 && verify(HK_VERIFY_PAYLOAD).errors == 0,
       "its seal is gone");
    free(now.p);
    free(image.p);
}

/* A payload of N bytes, compressed, comes back; FLIP one byte of what is stored, and it does not.
 */
static void test_compressed(size_t n)
{
    struct image old = sample(128, 0), plain = {calloc(n + 1, 1), n};
    struct hk_appender *a;
    struct hk_file *f;
    struct hk_out *out;
    struct hk_error err = {0};
    struct hk_new_record r = record("packed", 1);
    for (size_t i = 0; i < n; i++)
        plain.p[i] = (uint8_t)(i * i >> 7);
    r.flags |= HK_RECORD_COMPRESSED;
    r.plain_size = n;
    put_file(&old);
    must(hk_append_open(&a, path, 0, NULL, &err), &err, "open");
    must(hk_append_record(a, &r, &err), &err, "record");
    must(hk_append_write(a, plain.p, n / 3, &err), &err, "write");
    must(hk_append_write(a, plain.p + n / 3, n - n / 3, &err), &err, "write");
    must(hk_append_commit(&a, &err), &err, "commit");
    must(hk_open(&f, path, &err), &err, "open");
    int fd = memfd_create("plain", MFD_CLOEXEC);
    must(hk_out_fd(&out, fd, &err), &err, "out");
    enum hk_status status = hk_record_write(f, 0, out, &err);
    must(hk_out_commit(&out, &err), &err, "commit");
    struct image back = read_back(fd);
    ok(status == HK_OK && back.n == n && memcmp(back.p, plain.p, n) == 0 &&
           (n < 1000 || hk_record_at(f, 0)->data_size < n) && verify(HK_VERIFY_PAYLOAD).errors == 0,
       "%zu bytes in %llu", n, (unsigned long long)hk_record_at(f, 0)->data_size);
    struct image broken = get_file();
    broken.p[hk_record_at(f, 0)->data_offset] ^= 1; /* the size */
    hk_close(&f);
    put_file(&broken);
    must(hk_open(&f, path, &err), &err, "open");
    must(hk_out_fd(&out, fd, &err), &err, "out");
    ok(hk_record_write(f, 0, out, &err) == HK_E_FORMAT, "another size is stated: %s", err.text);
    hk_out_discard(&out);
    hk_close(&f);
    must(hk_append_open(&a, path, 0, NULL, &err), &err, "open");
    r.generation = 2;
    must(hk_append_record(a, &r, &err), &err, "record");
    must(hk_append_write(a, plain.p, n / 2, &err), &err, "write");
    ok((n == 0) == (hk_append_commit(&a, &err) == HK_OK) && (n == 0 || file_is(&broken)),
       "half of it is refused: %s", err.text);
    close(fd);
    free(broken.p), free(back.p), free(plain.p), free(old.p);
}

/* ---- broken off ---- */

/* Run the change in a process that dies on the way; false: it came to its end. */
static bool broken_off(void (*change)(void), enum moment moment, unsigned at)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        plan.moment = moment;
        plan.at = at;
        plan.calls = 0;
        change();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        puts("Bail out! the child");
        exit(2);
    }
    return WEXITSTATUS(status) == KILLED;
}

static void append_two(void)
{
    (void)!append(2, 10, 0, NULL);
}

static void roll_back(void)
{
    (void)!hk_rollback(path, 0, 0, NULL, NULL, NULL);
}

/* OLD or NEW records and nothing wrong but a tail, which a repair takes off without a trace. */
static bool old_or_new(const struct image *image, size_t old, size_t new)
{
    struct hk_error err = {0};
    struct faults f = verify(0);
    const size_t n = records();
    bool tail = f.errors == 0 || strcmp(f.codes, " record-torn") == 0 ||
                strcmp(f.codes, " trailing-bytes") == 0;
    bool repaired = hk_rollback(path, 0, HK_ROLLBACK_REPAIR, NULL, NULL, &err) == HK_OK &&
                    verify(HK_VERIFY_PAYLOAD).errors == 0 && records() == n;
    bool grows = append(1, 20, 0, &err) == HK_OK && records() == n + 1;
    if ((n == old || n == new) && tail && repaired && grows)
        return true;
    printf("# %zu records of %zu or %zu,%s, repaired %d, grows %d, %s\n", n, old, new, f.codes,
           repaired, grows, err.text);
    (void)image;
    return false;
}

static void test_killed(const char *what, void (*change)(void), unsigned before, size_t after)
{
    static const char *const names[] = {"", "before", "in the middle of", "after"};
    struct image old = sample(128, before);
    for (enum moment m = BEFORE; m <= AFTER; m++) {
        unsigned at = 0, wrong = 0;
        for (;; at++) {
            put_file(&old);
            if (!broken_off(change, m, at))
                break;
            wrong += !old_or_new(&old, before, after);
        }
        ok(at >= 3 && wrong == 0, "%s, %u records before: killed %s each of %u calls", what, before,
           names[m], at);
    }
    free(old.p);
}

static void test_full(unsigned before, bool sealed)
{
    struct image old = sample(128, before);
    if (sealed) {
        put32(old.p + HK_AT_FLAGS, le32(old.p + HK_AT_FLAGS) | HK_FLAG_HAS_SHA256_CHECKSUM);
        memset(old.p + HK_AT_RESERVED, 7, 32);
    }
    unsigned wrong = 0, at = 0;
    for (;; at++) {
        struct hk_error err = {0};
        put_file(&old);
        plan.calls = 0;
        plan.at = at;
        plan.moment = DISK_FULL;
        enum hk_status status = append(2, 10, 0, &err);
        bool hit = plan.moment == NEVER;
        plan.moment = NEVER;
        if (!hit)
            break;
        bool good = status == HK_E_IO && err.sys == ENOSPC && file_is(&old);
        wrong += !good;
        if (!good)
            printf("# call %u: %s, %zu records\n", at, err.text, records());
    }
    ok(at >= 6 && wrong == 0,
       "%u records before%s: disk full at each of %u calls leaves the old file", before,
       sealed ? ", sealed" : "", at);
    free(old.p);
}

/* ---- several writers ---- */

static void test_writers(void)
{
    enum { WRITERS = 8, EACH = 25 };
    struct image old = sample(128, 0);
    struct hk_error err;
    put_file(&old);
    for (unsigned w = 0; w < WRITERS; w++)
        if (fork() == 0) {
            for (unsigned i = 0; i < EACH; i++) {
                struct hk_appender *a;
                const struct hk_new_record r = record("one of many", 1);
                if (hk_append_open(&a, path, 0, NULL, NULL) != HK_OK ||
                    hk_append_record(a, &r, NULL) != HK_OK ||
                    hk_append_write(a, &w, sizeof w, NULL) != HK_OK ||
                    hk_append_commit(&a, NULL) != HK_OK)
                    _exit(1);
            }
            _exit(0);
        }
    unsigned failed = 0;
    for (unsigned w = 0; w < WRITERS; w++) {
        int status;
        failed += wait(&status) < 0 || status != 0;
    }
    struct hk_verify_report report;
    struct faults f = {0};
    must(hk_verify(path, HK_VERIFY_PAYLOAD, count_fault, &f, &report, &err), &err, "verify");
    ok(failed == 0 && report.records == WRITERS * EACH && report.lineage == HK_CHAIN_OK &&
           f.errors == 0,
       "%d writers at once: %llu records, the chain whole", WRITERS,
       (unsigned long long)report.records);
    free(old.p);
}

int main(void)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.200s/hk-append-XXXXXX", directory != NULL ? directory : "/tmp");
    close(mkstemp(path));
    test_append(0);
    test_append(2);
    test_bound();
    test_out_of_order();
    test_refused();
    test_not_waited();
    test_unpadded();
    test_metrics();
    test_seal();
    test_compressed(0);
    test_compressed(1);
    test_compressed(300000);
    test_killed("append", append_two, 0, 2);
    test_killed("append", append_two, 2, 4);
    test_killed("rollback", roll_back, 2, 0);
    test_full(0, false);
    test_full(2, false);
    test_full(2, true);
    test_writers();
    unlink(path);
    return tap_done();
}
