/* checkkern --bench: how fast each kernel is, in cache, from memory and for a batch of tokens.
 * Batches are doubled until one takes 2 ms; the median of 31 counts. generic, which is slow and
 * says little, is called once or twice. What comes from memory is timed in turn with a plain read
 * of the same bytes, and the share of that is what to compare. With --tokens N, products alone are
 * measured, of N tokens, in cache. */
#include "tests/kernels/checkkern.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 31, MAX_THREADS = 64, PASSES = 11 };
enum { COLS = 2048, PREFILL_ROWS = 256, PREFILL_TOKENS = 256 };
enum { IN_CACHE = 256 << 10, IN_MEMORY = 192 << 20 };

/* Work for a thread: ROWS of the rows, or everything. */
struct work {
    const struct hkk_table *level;
    unsigned type;
    struct hkk_matrix w;
    size_t rows, cols;
    struct hkk_acts a;
    float *y;
    void (*run)(struct work *w, size_t row0, size_t rows, void *scratch);
    double operations, bytes; /* of one call */
};

static void run_matmul(struct work *w, size_t row0, size_t rows, void *scratch)
{
    w->level->matmul[w->type](&w->w, row0, rows, &w->a, w->y, w->rows, scratch);
}

static volatile uint64_t sink;

typedef uint64_t wide __attribute__((vector_size(64), aligned(1), may_alias));

/* Lines read and mixed, so that only memory takes time. What one load brings matters: of 16 bytes,
 * they reach two thirds of what those of a whole line do. */
#define READ(name, where)                                                                          \
    where static uint64_t name(const uint8_t *from, size_t bytes)                                  \
    {                                                                                              \
        const wide *p = (const void *)from, *end = p + bytes / 256 * 4;                            \
        wide a = {0}, b = {0};                                                                     \
        for (; p < end; p += 4) {                                                                  \
            a ^= p[0] ^ p[1];                                                                      \
            b ^= p[2] ^ p[3];                                                                      \
        }                                                                                          \
        a ^= b;                                                                                    \
        return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];                              \
    }

READ(read_plain, )
#ifdef __x86_64__
READ(read_avx2, __attribute__((__target__("avx2"))))
READ(read_avx512, __attribute__((__target__("avx512f"))))
#endif

/* The same rows. */
static void run_read(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)scratch;
    size_t row = hkk_row_bytes(w->type, w->cols);
    const uint8_t *from = w->w.data + row0 * row;
    uint64_t (*read)(const uint8_t *, size_t) = read_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        read = read_avx512;
    else if (__builtin_cpu_supports("avx2"))
        read = read_avx2;
#endif
    sink += read(from, rows * row);
}

struct part {
    struct work *w;
    size_t row0, rows, calls;
    void *scratch;
    double seconds;
};

/* This thread's processor time: what other programs take does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *run_part(void *p)
{
    struct part *part = p;
    double start = now();
    for (size_t i = 0; i < part->calls; i++)
        part->w->run(part->w, part->row0, part->rows, part->scratch);
    part->seconds = now() - start;
    return NULL;
}

static void *memory(size_t bytes)
{
    void *p = aligned_alloc(HKK_ALIGN, (bytes + HKK_ALIGN) / HKK_ALIGN * HKK_ALIGN);
    if (p == NULL) {
        perror("checkkern");
        exit(2);
    }
    return p;
}

/* Seconds of the slowest of THREADS threads for CALLS calls, each with its rows. */
static double seconds(struct work *w, size_t calls, unsigned threads, void *scratch[MAX_THREADS])
{
    struct part part[MAX_THREADS];
    pthread_t id[MAX_THREADS];
    for (unsigned i = 0; i < threads; i++) {
        size_t row0 = w->rows * i / threads, end = w->rows * (i + 1) / threads;
        part[i] = (struct part){w, row0, end - row0, calls, scratch[i], 0};
        if (i > 0 && pthread_create(id + i, NULL, run_part, part + i) != 0)
            exit(2);
    }
    run_part(part);
    double most = part[0].seconds;
    for (unsigned i = 1; i < threads; i++) {
        pthread_join(id[i], NULL);
        most = part[i].seconds > most ? part[i].seconds : most;
    }
    return most;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct figure {
    double median, spread; /* seconds of a call; quarter to three quarters, relative */
};

static struct figure figure_of(double *s, int n)
{
    qsort(s, (size_t)n, sizeof *s, by_size);
    return (struct figure){s[n / 2], (s[n * 3 / 4] - s[n / 4]) / s[n / 2]};
}

static struct figure measure(struct work *w, const struct options *o, int batches,
                             void *scratch[MAX_THREADS])
{
    size_t calls = 1;
    while (seconds(w, calls, o->threads, scratch) < 2e-3)
        calls *= 2;
    double s[BATCHES];
    for (int i = 0; i < batches; i++)
        s[i] = seconds(w, calls, o->threads, scratch) / (double)calls;
    return figure_of(s, batches);
}

static void report(const struct options *o, const struct work *w, const char *kernel,
                   const char *mode, struct figure f, double generic, double read)
{
    double weights = (double)w->rows * (double)w->cols * (double)(w->a.n > 0 ? w->a.n : 1);
    if (o->json) {
        printf("{\"level\":\"%s\",\"kernel\":\"%s\",\"mode\":\"%s\",\"threads\":%u,\"ns\":%.1f,"
               "\"spread\":%.3f,\"ns_per_weight\":%.5f,\"gb_s\":%.3f,\"gop_s\":%.3f,"
               "\"times_generic\":%.3f,\"of_read\":%.3f}\n",
               w->level->name, kernel, mode, o->threads, f.median * 1e9, f.spread,
               f.median * 1e9 / weights, w->bytes / f.median * 1e-9,
               w->operations / f.median * 1e-9, generic / f.median, read / f.median);
    } else {
        printf("%-8s %-16s %-8s %11.1f us +-%3.0f%% %7.2f GB/s %8.1f Gop/s", w->level->name, kernel,
               mode, f.median * 1e6, f.spread * 50, w->bytes / f.median * 1e-9,
               w->operations / f.median * 1e-9);
        if (generic > 0)
            printf("  %6.1f x generic", generic / f.median);
        if (read > 0)
            printf("  %5.1f%% of a read", 100 * read / f.median);
        putchar('\n');
    }
    fflush(stdout);
}

static void scratch_new(const struct work *w, const struct options *o, void *scratch[MAX_THREADS])
{
    const struct hkk_table *generic;
    hkk_select("generic", &generic);
    size_t a = generic->scratch_bytes(w->cols, w->a.n),
           b = w->level->scratch_bytes(w->cols, w->a.n);
    size_t c = hkk_attend_scratch_bytes(128, 128);
    a = a > b ? a : b;
    for (unsigned i = 0; i < o->threads; i++)
        scratch[i] = memory(a > c ? a : c);
}

/* A matrix of about BYTES and N tokens. */
static void matmul_new(struct work *w, size_t bytes, size_t n, uint64_t seed)
{
    struct random r = {seed};
    size_t row = hkk_row_bytes(w->type, COLS);
    w->cols = COLS;
    w->rows = bytes / row / 16 * 16;
    w->bytes = (double)(w->rows * row);
    w->operations = 2.0 * (double)(w->rows * w->cols) * (double)n;
    w->run = run_matmul;
    uint8_t *data = memory(w->rows * row);
    size_t some = w->rows < 64 ? w->rows : 64;
    random_weights(&r, w->type, data, some * row, 0);
    for (size_t i = some; i < w->rows; i++)
        memcpy(data + i * row, data + i % some * row, row);
    w->w = (struct hkk_matrix){data, COLS};
    float *x = memory(n * COLS * sizeof *x);
    random_floats(&r, x, n * COLS, 0);
    enum hkk_kind kind = hkk_kind_of(w->type);
    hkk_acts_place(&w->a, kind, x, n, COLS, memory(hkk_acts_bytes(kind, n, COLS) + 1));
    if (w->level->tiles_bytes != NULL && w->a.blocks > 0)
        w->a.tiles = memory(w->level->tiles_bytes(kind, n, COLS));
    w->level->quantize(&w->a, 0, n);
    w->y = memory(n * w->rows * sizeof *w->y);
}

static void matmul_free(struct work *w)
{
    union {
        const void *from;
        void *to;
    } x = {w->a.x}, data = {w->w.data};
    free(data.to);
    free(x.to);
    free(w->a.q);
    free(w->a.tiles);
    free(w->y);
}

static double generic_seconds(struct work *w, const struct options *o, void *scratch[MAX_THREADS])
{
    struct work g = *w;
    hkk_select("generic", &g.level);
    if (g.level == w->level)
        return 0;
    double first = seconds(&g, 1, o->threads, scratch);
    return first > 2e-3 ? first : seconds(&g, 1, o->threads, scratch);
}

static void bench_memory(const struct options *o, struct work *w, const char *name)
{
    void *scratch[MAX_THREADS];
    matmul_new(w, IN_MEMORY, 1, o->seed);
    scratch_new(w, o, scratch);
    double mine[PASSES], plain[PASSES];
    struct work read = *w;
    read.run = run_read;
    for (int i = 0; i < PASSES; i++) {
        plain[i] = seconds(&read, 1, o->threads, scratch);
        mine[i] = seconds(w, 1, o->threads, scratch);
    }
    report(o, w, name, "memory", figure_of(mine, PASSES), 0, figure_of(plain, PASSES).median);
    matmul_free(w);
    for (unsigned i = 0; i < o->threads; i++)
        free(scratch[i]);
}

static void bench_batch(const struct options *o, struct work *w, const char *name, size_t bytes,
                        size_t n)
{
    void *scratch[MAX_THREADS];
    matmul_new(w, bytes, n, o->seed);
    scratch_new(w, o, scratch);
    struct figure f = measure(w, o, n > 1 ? 7 : BATCHES, scratch);
    report(o, w, name, n == PREFILL_TOKENS ? "prefill" : "cache", f,
           o->tokens > 0 ? 0 : generic_seconds(w, o, scratch), 0);
    matmul_free(w);
    for (unsigned i = 0; i < o->threads; i++)
        free(scratch[i]);
}

static void bench_matmul(const struct options *o, const struct hkk_table *level,
                         const struct kernel *k)
{
    struct work w = {.level = level, .type = k->type};
    if (o->tokens > 0) {
        bench_batch(o, &w, k->name, IN_CACHE, o->tokens);
        return;
    }
    bench_batch(o, &w, k->name, IN_CACHE, 1);
    bench_memory(o, &w, k->name);
    bench_batch(o, &w, k->name, PREFILL_ROWS * hkk_row_bytes(k->type, COLS), PREFILL_TOKENS);
}

/* ---- the others ---- */

enum { ROW = 4096, HEAD = 128 };

/* As many queries as the kernel's row of the list says. */
static void run_attend(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)row0;
    (void)rows;
    const uint16_t *half = (const void *)w->w.data;
    struct hkk_segment s = {half, half + HKK_SEGMENT * HEAD, HEAD, HEAD, 0.05f, 0};
    struct hkk_query query[ATTEND_MANY];
    for (size_t i = 0; i < w->type; i++) {
        size_t at = i * HEAD % ROW;
        query[i] = (struct hkk_query){w->a.x + at, 0, HKK_SEGMENT, {.accumulator = w->y + at}};
    }
    w->level->attend(&s, query, w->type, scratch);
}

static void run_rms_norm(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)row0;
    (void)rows;
    w->level->rms_norm(scratch, w->y, w->a.x, ROW, 1, 1e-6f);
}

static void run_silu(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)row0;
    (void)rows;
    memcpy(scratch, w->y, ROW * sizeof *w->y);
    w->level->apply_mul[HKK_SILU](scratch, scratch, w->a.x, ROW);
}

static void run_softmax(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)row0;
    (void)rows;
    memcpy(scratch, w->y, ROW * sizeof *w->y);
    w->level->softmax(scratch, ROW);
}

static void run_quantize(struct work *w, size_t row0, size_t rows, void *scratch)
{
    (void)row0;
    (void)rows;
    struct hkk_acts a;
    hkk_acts_place(&a, (enum hkk_kind)w->type, w->y, 1, ROW, scratch);
    w->level->quantize(&a, 0, 1);
}

struct other {
    const char *name;
    void (*run)(struct work *w, size_t row0, size_t rows, void *scratch);
    double operations;
};

static void bench_other(const struct options *o, const struct hkk_table *level,
                        const struct kernel *k)
{
    static const struct other others[] = {
        {"attend", run_attend, 4.0 * ATTEND_FEW * HKK_SEGMENT * HEAD},
        {"attend/many", run_attend, 4.0 * ATTEND_MANY * HKK_SEGMENT * HEAD},
        {"rms_norm", run_rms_norm, 4.0 * ROW},
        {"silu_mul", run_silu, ROW},
        {"softmax", run_softmax, ROW},
        {"quantize/q8_32", run_quantize, ROW},
        {"quantize/q8_256", run_quantize, ROW},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(others[i].name, k->name) != 0)
            continue;
        void *scratch[MAX_THREADS];
        struct work w = {.level = level, .type = HKK_F32};
        struct options one = *o;
        one.threads = 1;
        matmul_new(&w, 0, 0, o->seed);
        w.type = k->type;
        uint16_t *half = memory(2 * HKK_SEGMENT * HEAD * sizeof *half);
        struct random r = {o->seed};
        for (size_t h = 0; h < 2 * HKK_SEGMENT * HEAD; h++)
            half[h] = (uint16_t)(random_bits(&r) & 0xbbff);
        float *x = memory(ROW * sizeof *x);
        w.y = memory(ROW * sizeof *w.y);
        random_floats(&r, x, ROW, 0);
        random_floats(&r, w.y, ROW, 0);
        w.a.x = x;
        w.w.data = (const void *)half;
        w.rows = 1;
        w.cols = ROW;
        w.run = others[i].run;
        w.operations = others[i].operations;
        scratch_new(&w, &one, scratch);
        struct figure f = measure(&w, &one, BATCHES, scratch);
        report(&one, &w, k->name, "cache", f, generic_seconds(&w, &one, scratch), 0);
    }
}

int bench(const struct options *o)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t levels = hkk_levels(level), count;
    const struct kernel *k = kernels_all(&count);
    if (o->threads > MAX_THREADS)
        return 2;
    for (size_t l = 0; l < levels; l++) {
        if (level[l].table == NULL || level[l].why_not != NULL ||
            (o->level != NULL && strcmp(o->level, level[l].name) != 0))
            continue;
        for (size_t i = 0; i < count; i++) {
            if (o->kernel != NULL && fnmatch(o->kernel, k[i].name, 0) != 0)
                continue;
            if (k[i].check == check_matmul)
                bench_matmul(o, level[l].table, k + i);
            else if (o->tokens == 0)
                bench_other(o, level[l].table, k + i);
        }
    }
    return 0;
}
