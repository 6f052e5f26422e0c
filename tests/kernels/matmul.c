/* Products of weights and activations: each level against generic, and generic against the golden
 * decoders in double arithmetic. */
#include "tests/kernels/checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/tensor/types.h"

/* ---- weights ---- */

/* A half of HOSTILITY: 0 ordinary, 1 zero, 2 subnormal, 3 largest, 4 anything. */
static unsigned random_half(struct random *r, unsigned hostility)
{
    unsigned bits = (unsigned)random_bits(r) & 0xffff;
    switch (hostility) {
    case 1:
        return bits & 0x8000;
    case 2:
        return bits & 0x83ff;
    case 3:
        return (bits & 0x8000) | 0x7bff;
    case 4:
        return bits;
    default:
        return (bits & 0x83ff) | (8 + bits % 8) << 10;
    }
}

static void put_half(uint8_t *p, unsigned half)
{
    p[0] = (uint8_t)half;
    p[1] = (uint8_t)(half >> 8);
}

static void set_scales(struct random *r, unsigned type, uint8_t *block, unsigned hostility)
{
    const struct hk_block_scales *scales = hk_block_scales_of(type);
    if (scales->halves > 0)
        put_half(block + scales->scale, random_half(r, hostility));
    if (scales->halves > 1)
        put_half(block + scales->minimum, random_half(r, hostility));
    if (type == HKK_IQ1_M) {
        unsigned half = random_half(r, hostility);
        for (int w = 0; w < 4; w++)
            block[49 + 2 * w] = (uint8_t)((block[49 + 2 * w] & 15) | (half >> 4 * w & 15) << 4);
    }
    if (type == HKK_MXFP4 && hostility < 4)
        block[0] = (uint8_t)(hostility == 2 ? block[0] % 3 : 110 + block[0] % 20);
    if (type == HKK_NVFP4 && hostility == 0)
        for (int g = 0; g < 4; g++)
            block[g] &= 0x7d;
}

static void set_float(struct random *r, unsigned type, uint8_t *p, unsigned hostility)
{
    float x;
    random_floats(r, &x, 1, hostility < 4 ? hostility : hostility + 1);
    if (type == HKK_F16)
        put_half(p, random_half(r, hostility));
    else if (type == HKK_F32)
        for (int i = 0; i < 4; i++) {
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            p[i] = (uint8_t)(bits >> 8 * i);
        }
    else
        p[1] = (uint8_t)(hostility < 4 ? (p[1] & 0x80) | 0x3f : p[1]);
}

void random_weights(struct random *r, unsigned type, uint8_t *w, size_t bytes, unsigned hostility)
{
    static const int fills[] = {-1, -1, 0x00, 0xff, 0x80, 0x88, 0x77};
    int fill = hostility == 0 ? -1 : fills[random_below(r, sizeof fills / sizeof *fills)];
    for (size_t i = 0; i < bytes; i++)
        w[i] = (uint8_t)(fill < 0 ? (int)(random_bits(r) & 255) : fill);
    size_t block = hkk_row_bytes(type, hkk_block_elems(type));
    for (size_t at = 0; at < bytes; at += block) {
        if (hkk_kind_of(type) == HKK_KIND_F32)
            set_float(r, type, w + at, hostility);
        else
            set_scales(r, type, w + at, hostility);
    }
}

/* ---- a problem: weights, activations and results in buffers of their own ---- */

struct problem {
    size_t cols, row0, rows, n, stride;
    struct hkk_acts a;
    struct buffer w, x, acts, tiles, y, scratch;
};

static struct buffer aligned_buffer(size_t bytes)
{
    return buffer_new((bytes + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN, AT_END, 0);
}

static void random_shape(struct random *r, unsigned type, struct problem *p)
{
    size_t block = hkk_block_elems(type), most = block == 1 ? 600 : block == 256 ? 5 : 21;
    p->cols = block * (1 + random_below(r, most));
    p->row0 = random_below(r, 3);
    p->rows = 1 + random_below(r, random_below(r, 4) == 0 ? 40 : 18);
    p->n = random_below(r, 3) == 0 ? 1 : 1 + random_below(r, 20);
    if (block > 1 && random_below(r, 25) == 0) { /* more than tiles and groups of them hold */
        p->cols = block * (1 + random_below(r, 3));
        p->rows = 1 + random_below(r, 100);
        p->n = 1 + random_below(r, 200);
    }
    if (block == 1 && random_below(r, 6) == 0) { /* more than one panel, stretch and block */
        p->cols = 1 + random_below(r, 2500);
        p->rows = 1 + random_below(r, 150);
        p->n = 1 + random_below(r, 40);
    }
    p->stride = p->row0 + p->rows + random_below(r, 3);
}

static void problem_new(struct run *r, unsigned type, unsigned weights, unsigned acts,
                        struct problem *p)
{
    size_t bytes = (p->row0 + p->rows) * hkk_row_bytes(type, p->cols), total = p->n * p->cols;
    enum hkk_kind kind = hkk_kind_of(type);
    p->w = buffer_new(bytes, r->place, random_below(&r->random, 70));
    p->x = buffer_new(total * sizeof(float), r->place, 4 * random_below(&r->random, 20));
    p->acts = aligned_buffer(hkk_acts_bytes(kind, p->n, p->cols));
    p->y = buffer_new(p->n * p->stride * sizeof(float), r->place, 0);
    random_weights(&r->random, type, p->w.p, bytes, weights);
    random_floats(&r->random, (float *)(void *)p->x.p, total, acts);
    hkk_acts_place(&p->a, kind, (float *)(void *)p->x.p, p->n, p->cols, p->acts.p);
    r->reference->quantize(&p->a, 0, p->n);
}

static void problem_free(struct problem *p)
{
    struct buffer *all[] = {&p->w, &p->x, &p->acts, &p->tiles, &p->y, &p->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buffer_free(all[i]);
}

static float *results(const struct problem *p)
{
    return (float *)(void *)p->y.p;
}

/* Y gets a number that no product gives where nothing may be written. */
static void multiply(const struct hkk_table *level, unsigned type, struct problem *p)
{
    const struct hkk_matrix w = {p->w.p, p->cols};
    p->scratch = aligned_buffer(level->scratch_bytes(p->cols, p->n));
    for (size_t i = 0; i < p->n * p->stride; i++)
        results(p)[i] = 12345;
    level->matmul[type](&w, p->row0, p->rows, &p->a, results(p), p->stride, p->scratch.p);
}

/* The activations once more as LEVEL leaves them for itself. */
static void tiles_new(const struct hkk_table *level, struct problem *p)
{
    if (p->a.blocks == 0 || level->tiles_bytes == NULL)
        return;
    p->tiles = aligned_buffer(level->tiles_bytes(p->a.kind, p->n, p->cols));
    p->a.tiles = p->tiles.p;
    for (size_t t = 0; t < p->n; t++)
        level->quantize(&p->a, t, 1);
}

bool check_matmul(struct run *r, unsigned type, unsigned round)
{
    struct problem p = {0};
    random_shape(&r->random, type, &p);
    unsigned hostile = round % 3 == 0 ? 0 : (unsigned)random_below(&r->random, 5);
    unsigned acts = round % 2 == 0 ? 0 : (unsigned)random_below(&r->random, FLOAT_KINDS);
    problem_new(r, type, hostile, acts, &p);
    multiply(r->reference, type, &p);
    size_t count = p.n * p.stride;
    float *expected = malloc(count * sizeof *expected);
    if (expected == NULL)
        return differs(r, "no memory");
    memcpy(expected, results(&p), count * sizeof *expected);
    buffer_free(&p.scratch);
    if (random_below(&r->random, 2) == 0)
        tiles_new(r->level, &p);
    multiply(r->level, type, &p);
    char note[100];
    snprintf(note, sizeof note, "%zu+%zu rows of %zu, %zu tokens, stride %zu, inputs %u %u", p.row0,
             p.rows, p.cols, p.n, p.stride, hostile, acts);
    bool good = same_floats(r, results(&p), expected, count, note);
    if (!buffer_intact(&p.y) || !buffer_intact(&p.scratch) ||
        (p.a.tiles != NULL && !buffer_intact(&p.tiles)))
        good = differs(r, "%s: wrote outside its memory", note);
    free(expected);
    problem_free(&p);
    return good;
}

/* ---- each number of few tokens ---- */

enum { FEW = 17, MORE = 33 }; /* of more, some; one more than two tiles have */

/* The first N tokens of P, whose results are in EXPECTED. */
static bool same_for_tokens(struct run *r, unsigned type, const struct problem *all, size_t n,
                            const float *expected)
{
    struct problem p = {.cols = all->cols, .row0 = all->row0, .rows = all->rows};
    p.w = all->w;
    p.n = n;
    p.stride = all->stride;
    enum hkk_kind kind = hkk_kind_of(type);
    p.acts = aligned_buffer(hkk_acts_bytes(kind, n, p.cols));
    p.y = buffer_new(n * p.stride * sizeof(float), r->place, 0);
    hkk_acts_place(&p.a, kind, (float *)(void *)all->x.p, n, p.cols, p.acts.p);
    r->reference->quantize(&p.a, 0, n);
    if (random_below(&r->random, 2) == 0)
        tiles_new(r->level, &p);
    multiply(r->level, type, &p);
    char note[100];
    snprintf(note, sizeof note, "%zu+%zu rows of %zu, %zu tokens", p.row0, p.rows, p.cols, n);
    bool good = same_floats(r, results(&p), expected, n * p.stride, note);
    if (!buffer_intact(&p.y) || !buffer_intact(&p.scratch))
        good = differs(r, "%s: wrote outside its memory", note);
    p.w = (struct buffer){0};
    problem_free(&p);
    return good;
}

bool check_few_tokens(struct run *r, unsigned type, unsigned round)
{
    struct problem p = {.n = MORE};
    size_t block = hkk_block_elems(type);
    p.cols = block == 1 ? 1 + random_below(&r->random, 400)
                        : block * (1 + random_below(&r->random, block == 256 ? 3 : 12));
    p.row0 = random_below(&r->random, 3);
    p.rows = round % 4 == 3 ? 1 + random_below(&r->random, 15) : 16 + random_below(&r->random, 40);
    p.stride = p.row0 + p.rows + random_below(&r->random, 3);
    problem_new(r, type, round % 2, round == 0 ? 0 : FLOAT_KINDS - 1, &p);
    multiply(r->reference, type, &p);
    float *expected = malloc(MORE * p.stride * sizeof *expected);
    bool good = expected != NULL || differs(r, "no memory");
    if (good)
        memcpy(expected, results(&p), MORE * p.stride * sizeof *expected);
    for (size_t n = 1; good && n <= MORE; n += n < FEW ? 1 : 8)
        good = same_for_tokens(r, type, &p, n, expected);
    free(expected);
    problem_free(&p);
    return good;
}

/* ---- the definition ---- */

/* Row R times token T by the decoded weights in double; MAGNITUDE is the sum of the terms'. */
static double exact(const struct problem *p, const float *row, size_t t, double *magnitude)
{
    const struct hkk_acts *a = &p->a;
    double sum = 0;
    *magnitude = 0;
    for (size_t k = 0; k < p->cols; k++) {
        double x = a->blocks == 0 ? (double)a->x[t * p->cols + k]
                                  : (double)a->q[t * p->cols + k] *
                                        (double)a->d[t * a->blocks + k / (p->cols / a->blocks)];
        sum += (double)row[k] * x;
        *magnitude += fabs((double)row[k] * x);
    }
    return sum;
}

static bool near_rows(struct run *r, unsigned type, const struct problem *p)
{
    float *row = malloc(p->cols * sizeof *row);
    bool good = row != NULL;
    size_t bytes = hkk_row_bytes(type, p->cols);
    for (size_t i = p->row0; good && i < p->row0 + p->rows; i++) {
        good = hk_dequantize(type, p->w.p + i * bytes, p->cols, row) ||
               differs(r, "hk_dequantize() refuses it");
        for (size_t t = 0; good && t < p->n; t++) {
            double magnitude, sum = exact(p, row, t, &magnitude);
            double got = (double)results(p)[t * p->stride + i];
            if (!(fabs(got - sum) <= 1e-6 * magnitude + 1e-37))
                good = differs(r, "row %zu of %zu columns, token %zu: %.9g, in double %.9g", i,
                               p->cols, t, got, sum);
        }
    }
    free(row);
    return good;
}

bool define_matmul(struct run *r, unsigned type)
{
    bool good = true;
    for (int i = 0; good && i < 20; i++) {
        struct problem p = {0};
        random_shape(&r->random, type, &p);
        problem_new(r, type, 0, 0, &p);
        multiply(r->reference, type, &p);
        good = near_rows(r, type, &p);
        problem_free(&p);
    }
    return good;
}
