/* An edit that dies: at each call that changes the file, before it, half way through it and after
 * it; with any of the writes lost that no sync had reached; and with each call failing. The file
 * has its old or its new metadata, nothing else differs, and the next edit leaves it as if nothing
 * had happened. The calls are wrapped by the linker. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "libhkfmt/convert/write_hk.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/wire.h"
#include "tests/lib/sample.h"

/* ---- the wrapped calls ---- */

enum how { CALM, BEFORE, HALF, AFTER, FAIL, SHORT };

enum kind { WRITE, CUT, SYNC };

struct op { /* what a call did */
    enum kind kind;
    uint64_t at;
    uint8_t *p;
    size_t n;
};

enum { MOST_OPS = 64 };
static struct {
    enum how how;
    size_t stop; /* at this call */
    size_t calls;
    struct op ops[MOST_OPS]; /* recorded where calm */
} fake;

ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_ftruncate64(int fd, off_t n);
int __real_fdatasync(int fd);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __wrap_ftruncate64(int fd, off_t n);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

/* Note a call; whether it is the one to go wrong. */
static bool arrives(enum kind kind, uint64_t at, const void *p, size_t n)
{
    size_t i = fake.calls++;
    if (fake.how == CALM && i < MOST_OPS) {
        fake.ops[i] = (struct op){kind, at, malloc(n + 1), n};
        if (fake.ops[i].p != NULL && n > 0)
            memcpy(fake.ops[i].p, p, n);
    }
    bool here = fake.how != CALM && i == fake.stop;
    if (here && fake.how == BEFORE)
        raise(SIGKILL);
    return here;
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    bool here = arrives(WRITE, (uint64_t)at, p, n);
    if (here && fake.how == FAIL) {
        errno = ENOSPC;
        return -1;
    }
    bool half = here && (fake.how == HALF || fake.how == SHORT);
    ssize_t wrote = __real_pwrite64(fd, p, half ? n / 2 : n, at);
    if (here && fake.how != SHORT)
        raise(SIGKILL);
    if (here) { /* the rest is refused */
        fake.how = FAIL;
        fake.stop = fake.calls;
    }
    return wrote;
}

static int other(bool here, int result)
{
    if (here)
        raise(SIGKILL);
    return result;
}

static bool refused(bool here)
{
    if (here && fake.how == FAIL)
        errno = EIO;
    return here && fake.how == FAIL;
}

int __wrap_ftruncate64(int fd, off_t n)
{
    bool here = arrives(CUT, (uint64_t)n, NULL, 0);
    return refused(here) ? -1 : other(here, __real_ftruncate64(fd, n));
}

int __wrap_fdatasync(int fd)
{
    bool here = arrives(SYNC, 0, NULL, 0);
    return refused(here) ? -1 : other(here, __real_fdatasync(fd));
}

int __wrap_fsync(int fd)
{
    return __wrap_fdatasync(fd);
}

/* ---- edits ---- */

struct change {
    const char *key;
    size_t n;   /* of a string of that many letters, */
    bool erase; /* or the key goes */
};

struct scenario {
    const char *what;
    struct image old, new; /* as an edit without disturbance leaves it */
    struct change changes[3];
    struct op ops[MOST_OPS];
    size_t calls;
};

static enum hk_status apply(int fd, const struct scenario *s, struct hk_error *err)
{
    static uint8_t letters[20000];
    char path[40];
    struct hk_edit *e;
    memset(letters, 'x', sizeof letters);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum hk_status status = hk_edit_begin(&e, path, NULL, err);
    if (status != HK_OK)
        return status;
    for (size_t i = 0; status == HK_OK && i < 3 && s->changes[i].key != NULL; i++) {
        const struct change *c = &s->changes[i];
        if (c->erase && hk_kv_find(hk_edit_file(e), c->key) != NULL)
            status = hk_edit_delete(e, text(c->key), err);
        else if (!c->erase)
            status =
                hk_edit_set(e, text(c->key), HK_META_STRING, (struct hk_bytes){letters, c->n}, err);
    }
    if (status == HK_OK)
        return hk_edit_commit(&e, err);
    hk_edit_discard(&e);
    return status;
}

/* ---- looking at what is left ---- */

static bool same(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static bool same_metadata(const struct hk_file *a, const struct hk_file *b)
{
    bool good = hk_kv_count(a) == hk_kv_count(b);
    for (size_t i = 0; good && i < hk_kv_count(a); i++) {
        const struct hk_kv *x = hk_kv_at(a, i), *y = hk_kv_at(b, i);
        good = x->type == y->type && same(x->key, y->key) && same(x->value, y->value);
    }
    return good;
}

static bool same_rest(const struct hk_file *a, const struct hk_file *b)
{
    bool good = same(hk_appendix_bytes(a, 0), hk_appendix_bytes(b, 0)) &&
                hk_tensor_count(a) == hk_tensor_count(b) &&
                hk_record_count(a) == hk_record_count(b);
    for (size_t i = 0; good && i < hk_tensor_count(a); i++) {
        const struct hk_tensor *x = hk_tensor_at(a, i), *y = hk_tensor_at(b, i);
        good = same(x->name, y->name) && x->type == y->type && x->data_offset == y->data_offset &&
               same(hk_tensor_data(a, x), hk_tensor_data(b, y)) &&
               same(hk_tensor_scales(a, x), hk_tensor_scales(b, y)) &&
               same(hk_tensor_residual(a, x), hk_tensor_residual(b, y));
    }
    for (size_t i = 0; good && i < hk_record_count(a); i++) {
        const struct hk_record *x = hk_record_at(a, i), *y = hk_record_at(b, i);
        good = x->offset == y->offset && same(x->name, y->name) &&
               same(hk_record_data(a, x), hk_record_data(b, y));
    }
    return good;
}

struct faults {
    unsigned torn, others, warnings;
};

static void look(void *arg, const struct hk_fault *fault)
{
    struct faults *f = arg;
    bool torn =
        strcmp(fault->code, "record-torn") == 0 || strcmp(fault->code, "trailing-bytes") == 0;
    if (fault->severity == HK_WARNING)
        f->warnings++;
    else if (torn)
        f->torn++;
    else
        f->others++;
}

static struct faults faults_of(const struct image *image)
{
    struct faults found = {0};
    struct hk_verify_report report;
    struct hk_error err = {0};
    must(verify_image(image, 0, look, &found, &report, &err), &err, "verify");
    return found;
}

enum state { OLD, NEW, NEITHER };

static enum state state_of(const struct image *now, const struct scenario *s)
{
    struct hk_file *f = NULL, *old = NULL, *new = NULL;
    struct hk_error err = {0};
    enum state state = NEITHER;
    must(open_image(&s->old, &old, &err), &err, "the old file");
    must(open_image(&s->new, &new, &err), &err, "the new file");
    if (open_image(now, &f, &err) != HK_OK)
        printf("# does not open: %s\n", err.text);
    else if (!same_rest(f, old))
        puts("# tensors or records differ");
    else
        state = same_metadata(f, new) ? NEW : same_metadata(f, old) ? OLD : NEITHER;
    hk_close(&f);
    hk_close(&old);
    hk_close(&new);
    return state;
}

static bool same_image(const struct image *a, const struct image *b)
{
    return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

/* The file in FD after a death: old or new, and the next edit makes it the new one, byte for byte
 * where EXACT. */
static bool survives(int fd, const struct scenario *s, bool exact)
{
    struct hk_error err = {0};
    struct image now = read_back(fd);
    enum state state = state_of(&now, s);
    unsigned others = faults_of(&now).others;
    free(now.p);
    fake.how = CALM;
    fake.calls = MOST_OPS; /* nothing is recorded */
    enum hk_status status = apply(fd, s, &err);
    now = read_back(fd);
    bool good = state != NEITHER && others == 0 && status == HK_OK && state_of(&now, s) == NEW &&
                faults_of(&now).torn == 0 && (!exact || same_image(&now, &s->new));
    if (!good)
        printf("# state %d, faults %u, next edit: %s, %zu bytes (%zu)\n", (int)state, others,
               status != HK_OK ? err.text : "made", now.n, s->new.n);
    free(now.p);
    return good;
}

/* ---- the tests ---- */

static bool is_header(const struct op *op)
{
    return op->kind == WRITE && op->at == 0;
}

static bool dies(const struct scenario *s, size_t call, enum how how)
{
    int fd = memory_file(&s->old), status = 0;
    pid_t child = fork();
    if (child == 0) {
        fake.how = how;
        fake.stop = call;
        fake.calls = 0;
        apply(fd, s, NULL);
        _exit(0);
    }
    bool killed =
        waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    /* Half a header: the digest of a seal that is gone may stay. */
    bool good = killed && survives(fd, s, !(how == HALF && is_header(&s->ops[call])));
    close(fd);
    return good;
}

static void test_kill(const struct scenario *s)
{
    static const char *const names[] = {[BEFORE] = "before", [HALF] = "in", [AFTER] = "after"};
    for (enum how how = BEFORE; how <= AFTER; how++) {
        size_t bad = 0;
        for (size_t i = 0; i < s->calls; i++)
            if (!dies(s, i, how) && ++bad > 0)
                printf("# call %zu of %zu, kind %d at %llu\n", i, s->calls, (int)s->ops[i].kind,
                       (unsigned long long)s->ops[i].at);
        ok(bad == 0, "%s: killed %s each of %zu calls", s->what, names[how], s->calls);
    }
}

static void redo(int fd, const struct op *op)
{
    bool good =
        op->kind == SYNC ||
        (op->kind == CUT ? __real_ftruncate64(fd, (off_t)op->at) == 0
                         : __real_pwrite64(fd, op->p, op->n, (off_t)op->at) == (ssize_t)op->n);
    if (!good) {
        puts("Bail out! cannot write a memory file");
        exit(2);
    }
}

/* The power fails at call END: what was written up to SYNCED is there, of the rest what SUBSET
 * says.
 */
static bool loses(const struct scenario *s, size_t synced, size_t end, unsigned subset)
{
    int fd = memory_file(&s->old);
    for (size_t i = 0; i < end; i++)
        if (i < synced || (subset >> (i - synced) & 1) != 0)
            redo(fd, &s->ops[i]);
    bool good = survives(fd, s, true);
    close(fd);
    return good;
}

static void test_lost(const struct scenario *s)
{
    size_t synced = 0, bad = 0, tried = 0;
    for (size_t end = 0; end <= s->calls; end++) {
        for (unsigned subset = 0; subset < 1u << (end - synced); subset++, tried++)
            if (!loses(s, synced, end, subset) && ++bad > 0)
                printf("# calls %zu to %zu, of them 0x%x\n", synced, end, subset);
        if (end < s->calls && s->ops[end].kind == SYNC)
            synced = end + 1;
    }
    ok(bad == 0 && tried > s->calls, "%s: any writes lost that were not synced (%zu cases)",
       s->what, tried);
}

/* A call fails, or a write after half its bytes: the old file as it was, or the message says that
 * the new metadata stand. */
static void test_fail(const struct scenario *s, enum how how)
{
    size_t bad = 0, kept = 0;
    for (size_t i = 0; i < s->calls; i++) {
        struct hk_error err = {0};
        if (how == SHORT && s->ops[i].kind != WRITE)
            continue;
        int fd = memory_file(&s->old);
        fake.how = how;
        fake.stop = i;
        fake.calls = 0;
        enum hk_status status = apply(fd, s, &err);
        struct image now = read_back(fd);
        bool stands = strstr(err.text, "the new metadata stand") != NULL;
        bool good = status == HK_E_IO && err.sys != 0 &&
                    (stands ? state_of(&now, s) == NEW : state_of(&now, s) == OLD);
        /* What an edit had left before may already be gone. */
        good = good && (stands || now.n <= s->old.n);
        kept += !stands;
        good = survives(fd, s, true) && good;
        bad += !good;
        if (!good)
            printf("# call %zu: %s\n", i, err.text);
        free(now.p);
        close(fd);
    }
    ok(bad == 0 && kept > 1, "%s: each %s fails (%zu before the new metadata stand)", s->what,
       how == FAIL ? "call" : "write half way", kept);
}

static void test_again(const struct scenario *s)
{
    struct hk_error err = {0};
    int fd = memory_file(&s->new);
    fake.how = CALM;
    fake.calls = 0;
    must(apply(fd, s, &err), &err, "again");
    struct image now = read_back(fd);
    ok(fake.calls == 0 && same_image(&now, &s->new), "%s: the same again writes nothing", s->what);
    free(now.p);
    close(fd);
}

/* Make the edit once in peace, noting its calls; then all that can go wrong. The new image is the
 * caller's. */
static struct image run(struct scenario s)
{
    struct hk_error err = {0};
    int fd = memory_file(&s.old);
    fake.how = CALM;
    fake.calls = 0;
    must(apply(fd, &s, &err), &err, s.what);
    s.calls = fake.calls;
    memcpy(s.ops, fake.ops, sizeof s.ops);
    s.new = read_back(fd);
    close(fd);
    struct faults found = faults_of(&s.new);
    ok(s.calls > 4 && s.calls < MOST_OPS && found.torn + found.others + found.warnings == 0 &&
           state_of(&s.new, &s) == NEW,
       "%s: made in %zu calls, without fault", s.what, s.calls);
    test_again(&s);
    test_kill(&s);
    test_lost(&s);
    test_fail(&s, FAIL);
    test_fail(&s, SHORT);
    for (size_t i = 0; i < s.calls; i++)
        free(s.ops[i].p);
    return s.new;
}

/* ---- files ---- */

static struct image grown(const struct image *image, size_t n)
{
    struct image more = {malloc(image->n + n), image->n + n};
    memcpy(more.p, image->p, image->n);
    memset(more.p + image->n, 0, n);
    return more;
}

/* The metadata at the end, unaligned, as the reference writes them. */
static struct image behind(const struct image *image)
{
    uint64_t at = le64(image->p + HK_AT_METADATA_OFFSET), n = le64(image->p + HK_AT_METADATA_SIZE);
    struct image moved = grown(image, (size_t)n);
    memcpy(moved.p + image->n, image->p + at, (size_t)n);
    put64(moved.p + HK_AT_METADATA_OFFSET, image->n);
    return moved;
}

/* The tensor table at the end, and behind it the metadata. */
static struct image all_behind(const struct image *image)
{
    uint64_t at = le64(image->p + HK_AT_TOC_OFFSET), n = le64(image->p + HK_AT_TOC_SIZE);
    struct image moved = grown(image, (size_t)n), more;
    memcpy(moved.p + image->n, image->p + at, (size_t)n);
    put64(moved.p + HK_AT_TOC_OFFSET, image->n);
    more = behind(&moved);
    free(moved.p);
    return more;
}

static struct image sealed(const struct image *image)
{
    struct image s = grown(image, 0);
    put32(s.p + HK_AT_FLAGS, le32(s.p + HK_AT_FLAGS) | HK_FLAG_HAS_SHA256_CHECKSUM);
    memset(s.p + HK_AT_RESERVED, 0x5a, HK_SHA256_SIZE);
    return s;
}

/* As a rollback of the reference leaves it: an appendix without a record, at the end. */
static struct image emptied(const struct image *image)
{
    struct image s = grown(image, (8 - image->n % 8) % 8);
    put32(s.p + HK_AT_FLAGS, le32(s.p + HK_AT_FLAGS) | HK_FLAG_HAS_APPENDIX);
    put64(s.p + HK_AT_APPENDIX_OFFSET, s.n);
    return s;
}

static void without_appendix(void)
{
    struct image wide = sample(4096, 0), tight = sample(128, 0), late = behind(&tight);
    struct scenario fits = {
        .what = "fits",
        .old = wide,
        .changes = {{"general.architecture", 50, false}, {"new", 9, false}, {"yes", 0, true}}};
    free(run(fits).p);
    fits.old = sealed(&wide);
    fits.what = "sealed";
    struct image unsealed = run(fits);
    ok((le32(unsealed.p + HK_AT_FLAGS) & HK_FLAG_HAS_SHA256_CHECKSUM) == 0 &&
           le64(unsealed.p + HK_AT_RESERVED) == 0,
       "the seal is gone");
    free(fits.old.p);
    struct image first = run(
        (struct scenario){.what = "does not fit", .old = tight, .changes = {{"new", 3000, false}}});
    struct image larger = run((struct scenario){
        .what = "does not fit, twice", .old = first, .changes = {{"new", 9000, false}}});
    struct image smaller = run((struct scenario){
        .what = "does not fit, smaller", .old = larger, .changes = {{"new", 2000, false}}});
    ok(smaller.n < first.n && larger.n > first.n, "the file does not grow for ever");
    struct image back =
        run((struct scenario){.what = "fits again", .old = smaller, .changes = {{"new", 0, true}}});
    ok(same_image(&back, &tight), "and is the first file again");
    free(run((struct scenario){.what = "the reference's, does not fit",
                               .old = late,
                               .changes = {{"new", 3000, false}}})
             .p);
    free(run((struct scenario){
                 .what = "the reference's, fits", .old = late, .changes = {{"real", 0, true}}})
             .p);
    struct image table = all_behind(&tight);
    free(run((struct scenario){.what = "table behind, fits",
                               .old = table,
                               .changes = {{"general.architecture", 4, false}}})
             .p);
    struct image both = run((struct scenario){
        .what = "table behind, does not fit", .old = table, .changes = {{"new", 3000, false}}});
    free(run((struct scenario){
                 .what = "table behind, twice", .old = both, .changes = {{"new", 2000, false}}})
             .p);
    free(table.p);
    free(both.p);
    free(first.p);
    free(larger.p);
    free(smaller.p);
    free(back.p);
    free(unsealed.p);
    free(wide.p);
    free(tight.p);
    free(late.p);
}

static void with_appendix(void)
{
    struct image image = sample(4096, 2), late = behind(&image), none = sample(4096, 0),
                 empty = emptied(&none), seal = sealed(&image);
    struct scenario s = {
        .what = "appendix", .old = image, .changes = {{"new", 40, false}, {"json", 0, true}}};
    free(run(s).p);
    s.what = "appendix, sealed";
    s.old = seal;
    free(run(s).p);
    s.what = "appendix with metadata behind it";
    s.old = late;
    free(run(s).p);
    s.what = "appendix without records";
    s.old = empty;
    free(run(s).p);
    free(image.p);
    free(late.p);
    free(none.p);
    free(empty.p);
    free(seal.p);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    without_appendix();
    with_appendix();
    return tap_done();
}
