/* Operations on rows of f32: each level against generic, and generic against double arithmetic. */
#include "tests/kernels/checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 150 };

/* A row that is changed or made from others. */
typedef void row_fn(const struct hkk_table *t, float *x, const float *y, size_t n);

static void do_add(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    t->add(x, y, n);
}

static void do_scale(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    if (n > 0)
        t->scale(x, y[0], n);
}

/* Each function, alone and times Y. */
#define FUNCTION(SYMBOL, name)                                                                     \
    static void do_##name(const struct hkk_table *t, float *x, const float *y, size_t n)           \
    {                                                                                              \
        (void)y;                                                                                   \
        t->apply[HKK_##SYMBOL](x, n);                                                              \
    }                                                                                              \
    static void do_##name##_mul(const struct hkk_table *t, float *x, const float *y, size_t n)     \
    {                                                                                              \
        t->apply_mul[HKK_##SYMBOL](x, x, y, n);                                                    \
    }
HKK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION

static void do_clamped_swiglu(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    t->clamped_swiglu(x, y, n, 1.702f, 2.5f);
}

static void do_soft_cap(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    (void)y;
    t->soft_cap(x, 30, n);
}

/* Of some lengths without weights. */
static void do_rms_norm(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    const size_t rows = 1 + n % 11;
    if (n >= rows)
        t->rms_norm(x, x, n % 7 == 0 ? NULL : y, n / rows, rows, 1e-6f);
}

static void do_l2_norm(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    (void)y;
    if (n > 0)
        t->l2_norm(x, x, n, 1e-6f);
}

/* Y is weights and biases, either of which may not be there. */
static void do_layer_norm(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    const float *w = n % 3 == 1 ? NULL : y, *b = n % 5 < 2 ? NULL : y;
    if (n > 0)
        t->layer_norm(x, x, w, b, n, 1e-6f);
}

static void do_softmax(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    (void)y;
    float sum = t->softmax(x, n);
    if (n > 0)
        x[n - 1] += 3 * sum; /* makes it part of what is compared */
}

static void do_rope(const struct hkk_table *t, float *x, const float *y, size_t n)
{
    size_t pairs = n / 2 - n / 2 % 3;
    t->rope(x, y, pairs, n % 5 < 3);
}

static bool check_row(struct run *r, unsigned round, row_fn *fn)
{
    size_t n = round < LONGEST ? round : random_below(&r->random, 1000);
    struct buffer x = buffer_new(n * sizeof(float), r->place, 4 * random_below(&r->random, 16));
    struct buffer y = buffer_new(n * sizeof(float), r->place, 4 * random_below(&r->random, 16));
    float *was = malloc(3 * (n + 1) * sizeof *was), *given = was + n + 1, *expected = given + n + 1;
    unsigned kind = (unsigned)random_below(&r->random, FLOAT_KINDS);
    bool good = was != NULL;
    random_floats(&r->random, was, n, kind);
    random_floats(&r->random, given, n, (unsigned)random_below(&r->random, FLOAT_KINDS));
    memcpy(x.p, was, n * sizeof *was);
    memcpy(y.p, given, n * sizeof *was);
    fn(r->reference, (float *)(void *)x.p, (float *)(void *)y.p, n);
    memcpy(expected, x.p, n * sizeof *was);
    memcpy(x.p, was, n * sizeof *was);
    fn(r->level, (float *)(void *)x.p, (float *)(void *)y.p, n);
    char note[60];
    snprintf(note, sizeof note, "%zu numbers of kind %u", n, kind);
    good = good && same_floats(r, (float *)(void *)x.p, expected, n, note);
    if (!buffer_intact(&x) || !buffer_intact(&y) || memcmp(y.p, given, n * sizeof *was) != 0)
        good = differs(r, "%s: wrote outside its memory", note);
    free(was);
    buffer_free(&x);
    buffer_free(&y);
    return good;
}

#define ROW(name)                                                                                  \
    bool check_##name(struct run *r, unsigned type, unsigned round)                                \
    {                                                                                              \
        (void)type;                                                                                \
        return check_row(r, round, do_##name);                                                     \
    }

ROW(add)
ROW(scale)
ROW(rms_norm)
ROW(l2_norm)
ROW(layer_norm)
ROW(clamped_swiglu)
ROW(soft_cap)
ROW(softmax)
ROW(rope)

#define FUNCTION(SYMBOL, name) ROW(name) ROW(name##_mul)
HKK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION

/* ---- activations ---- */

static void quantize(const struct hkk_table *t, struct hkk_acts *a, unsigned kind, const float *x,
                     size_t n, size_t cols, struct buffer *memory)
{
    hkk_acts_place(a, (enum hkk_kind)kind, x, n, cols, memory->p);
    size_t half = n / 2; /* in two parts, as two threads would */
    t->quantize(a, half, n - half);
    t->quantize(a, 0, half);
}

bool check_quantize(struct run *r, unsigned kind, unsigned round)
{
    size_t block = kind == HKK_KIND_Q8_32 ? 32 : 256;
    size_t n = 1 + random_below(&r->random, 4), cols = block * (1 + random_below(&r->random, 5));
    size_t bytes = hkk_acts_bytes((enum hkk_kind)kind, n, cols);
    struct buffer x = buffer_new(n * cols * sizeof(float), r->place, 4 * (round % 16));
    struct buffer a = buffer_new(bytes, AT_END, 0), b = buffer_new(bytes, AT_END, 0);
    for (size_t i = 0; i < n; i++)
        random_floats(&r->random, (float *)(void *)x.p + i * cols, cols,
                      (unsigned)random_below(&r->random, FLOAT_KINDS));
    struct hkk_acts got, expected;
    quantize(r->level, &got, kind, (float *)(void *)x.p, n, cols, &a);
    quantize(r->reference, &expected, kind, (float *)(void *)x.p, n, cols, &b);
    bool good = same_floats(r, got.d, expected.d, n * got.blocks, "d") &&
                same_bytes(r, got.q, expected.q, n * cols, "q") &&
                same_bytes(r, got.sum, expected.sum, n * got.sums * sizeof *got.sum, "sums");
    if (!buffer_intact(&a))
        good = differs(r, "wrote outside its memory");
    buffer_free(&x);
    buffer_free(&a);
    buffer_free(&b);
    return good;
}

bool define_quantize(struct run *r, unsigned kind)
{
    enum { COLS = 512 };
    static float x[COLS];
    size_t block = kind == HKK_KIND_Q8_32 ? 32 : 256, step = kind == HKK_KIND_Q8_32 ? 32 : 16;
    bool good = true;
    for (int i = 0; good && i < 200; i++) {
        random_floats(&r->random, x, COLS, i % 4 == 0 ? 4 : 0);
        struct buffer m = buffer_new(hkk_acts_bytes((enum hkk_kind)kind, 1, COLS), AT_END, 0);
        struct hkk_acts a;
        quantize(r->reference, &a, kind, x, 1, COLS, &m);
        int sum = 0;
        for (size_t k = 0; good && k < COLS; k++) {
            double d = (double)a.d[k / block], q = (double)a.q[k];
            sum = k % step == 0 ? a.q[k] : sum + a.q[k];
            good = fabs(q) <= 127 && fabs((double)x[k] - q * d) <= d * 0.50002 + 0x1p-120;
            if (k % step == step - 1)
                good = good && sum == a.sum[k / step];
        }
        buffer_free(&m);
    }
    return good || differs(r, "a number is further than half a step away, or a sum is wrong");
}

/* ---- against double ---- */

static double relative(double got, double expected)
{
    return fabs(got - expected) / fmax(fabs(expected), 1e-30);
}

/* The largest relative error of e^x over a dense set of x, found through softmax of {0, x}. */
static double exp_error(const struct hkk_table *t, double from, double to, double step)
{
    double worst = 0;
    for (double x = from; x < to; x += step) {
        float pair[2] = {0, (float)x};
        t->softmax(pair, 2);
        worst = fmax(worst, relative((double)pair[1], exp((double)(float)x)));
    }
    return worst;
}

bool define_softmax(struct run *r, unsigned type)
{
    (void)type;
    double worst = exp_error(r->reference, -87.32, 0, 0.0007);
    if (worst >= 0x1p-23)
        return differs(r, "e^x: relative error %g", worst);
    float ends[3] = {0, -87.4f, -INFINITY};
    if (r->reference->softmax(ends, 3) != 1 || ends[0] != 1 || ends[1] != 0 || ends[2] != 0)
        return differs(r, "e^0 is not 1, or e^-87.4 not 0");
    float sums[100];
    for (int i = 0; i < 100; i++)
        sums[i] = (float)(i % 7);
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += exp((double)sums[i] - 6);
    return relative((double)r->reference->softmax(sums, 100), sum) < 1e-6 ||
           differs(r, "the sum is wrong");
}

/* FN(x) of each x in [FROM, TO), and of small ones, is within BOUND of FUNCTION, relative to that.
 */
static bool near_function(struct run *r, row_fn *fn, double (*function)(double), double from,
                          double to, double bound)
{
    double worst = 0, where = 0;
    for (double at = from; at < to; at += fabs(at) < 0.01 ? 0.00003 : 0.0013) {
        float x = (float)at, y = 1;
        fn(r->reference, &x, &y, 1);
        const double error = relative((double)x, function((double)(float)at));
        where = error > worst ? at : where;
        worst = fmax(worst, error);
    }
    return worst < bound || differs(r, "relative error %g at %g, above %g", worst, where, bound);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return 2 * u < -87 ? 0 : x / (1 + exp(-2 * u));
}

static double gelu_erf(double x)
{
    return x * erfc(-x / sqrt(2)) / 2;
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double capped_at_30(double x)
{
    return 30 * tanh(x / 30);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

bool define_silu(struct run *r, unsigned type)
{
    (void)type;
    return near_function(r, do_silu, silu, -80, 80, 4e-7);
}

/* e^-2u has the error of 2u times its size, up to 87 * 2^-22. */
bool define_gelu(struct run *r, unsigned type)
{
    (void)type;
    double worst = 0;
    for (double at = -6; at < 80; at += 0.003) {
        float x = (float)at, y = 1;
        do_gelu(r->reference, &x, &y, 1);
        worst = fmax(worst, fabs((double)x - gelu((double)(float)at)) / fmax(1, fabs(at)));
    }
    return worst < 2e-7 || differs(r, "error %g", worst);
}

bool define_gelu_erf(struct run *r, unsigned type)
{
    (void)type;
    float ends[3] = {-30, -0.0f, INFINITY};
    do_gelu_erf(r->reference, ends, ends, 3);
    if (ends[0] != 0 || ends[1] != 0 || ends[2] != INFINITY)
        return differs(r, "of -30, 0 and infinity: %g, %g, %g", (double)ends[0], (double)ends[1],
                       (double)ends[2]);
    return near_function(r, do_gelu_erf, gelu_erf, -12.5, 40, 0x1p-21);
}

bool define_softplus(struct run *r, unsigned type)
{
    (void)type;
    return near_function(r, do_softplus, softplus, -87, 100, 0x1p-22);
}

bool define_sigmoid(struct run *r, unsigned type)
{
    (void)type;
    return near_function(r, do_sigmoid, sigmoid, -87, 100, 4e-7);
}

bool define_soft_cap(struct run *r, unsigned type)
{
    (void)type;
    return near_function(r, do_soft_cap, capped_at_30, -900, 900, 0x1.6p-22);
}

bool define_relu_2(struct run *r, unsigned type)
{
    (void)type;
    float x[4] = {-3, 0, 2.5f, NAN};
    do_relu_2(r->reference, x, x, 4);
    return (x[0] == 0 && x[1] == 0 && x[2] == 6.25f && isnan(x[3])) ||
           differs(r, "%g %g %g %g", (double)x[0], (double)x[1], (double)x[2], (double)x[3]);
}

/* Clamped above: gate; on both sides: up. */
bool define_clamped_swiglu(struct run *r, unsigned type)
{
    (void)type;
    for (double g = -9; g < 9; g += 0.01)
        for (double u = -4; u < 4; u += 0.5) {
            float x = (float)g, y = (float)u;
            const double gate = fmin((double)x, 2.5), up = fmax(-2.5, fmin((double)y, 2.5));
            r->reference->clamped_swiglu(&x, &y, 1, 1.702f, 2.5f);
            const double expected = (up + 1) * gate * sigmoid((double)1.702f * gate);
            if (fabs((double)x - expected) > 1e-6 * (1 + fabs(expected)))
                return differs(r, "of %g and %g: %g, in double %g", g, u, (double)x, expected);
        }
    return true;
}

bool define_layer_norm(struct run *r, unsigned type)
{
    (void)type;
    enum { N = 173 };
    float x[N], w[N], b[N], y[N];
    random_floats(&r->random, x, N, 0);
    random_floats(&r->random, w, N, 0);
    random_floats(&r->random, b, N, 0);
    double mean = 0, squares = 0;
    for (int i = 0; i < N; i++)
        mean += (double)x[i] / N;
    for (int i = 0; i < N; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    r->reference->layer_norm(y, x, w, b, N, 1e-5f);
    for (int i = 0; i < N; i++) {
        const double d = ((double)x[i] - mean) / sqrt(squares / N + 1e-5);
        if (fabs((double)y[i] - (d * (double)w[i] + (double)b[i])) > 4e-6)
            return differs(r, "[%d] is %g", i, (double)y[i]);
    }
    return true;
}

bool define_l2_norm(struct run *r, unsigned type)
{
    (void)type;
    float x[3] = {3, 0, -4};
    r->reference->l2_norm(x, x, 3, 1e-6f);
    return (fabsf(x[0] - 0.6f) < 1e-6f && x[1] == 0 && fabsf(x[2] + 0.8f) < 1e-6f) ||
           differs(r, "%g %g %g", (double)x[0], (double)x[1], (double)x[2]);
}

bool define_rms_norm(struct run *r, unsigned type)
{
    (void)type;
    enum { ROWS = 7, N = 173 };
    float x[ROWS * N], w[N], y[ROWS * N];
    random_floats(&r->random, x, ROWS * N, 0);
    random_floats(&r->random, w, N, 0);
    r->reference->rms_norm(y, x, w, N, ROWS, 1e-5f);
    for (size_t row = 0; row < ROWS; row++) {
        const float *from = x + row * N;
        double squares = 0;
        for (int i = 0; i < N; i++)
            squares += (double)from[i] * (double)from[i];
        for (size_t i = 0; i < N; i++)
            if (relative((double)y[row * N + i],
                         (double)from[i] * (double)w[i] / sqrt(squares / N + 1e-5)) > 1e-6)
                return differs(r, "[%zu][%zu] is %g", row, i, (double)y[row * N + i]);
    }
    return true;
}

bool define_rope(struct run *r, unsigned type)
{
    (void)type;
    const float turn[4] = {0.6f, 0.8f, 0, 1}; /* about 53 and 90 degrees */
    const float apart[4] = {0.6f, 0, 0.8f, 1};
    float pairs[5] = {1, 2, 3, 4, 5}, halves[5] = {1, 2, 3, 4, 5};
    r->reference->rope(pairs, turn, 2, false);
    r->reference->rope(halves, apart, 2, true);
    const double by_pairs[5] = {-1, 2, -4, 3, 5}, by_halves[5] = {-1.8, -4, 2.6, 2, 5};
    for (int i = 0; i < 5; i++)
        if (fabs((double)pairs[i] - by_pairs[i]) > 1e-6 ||
            fabs((double)halves[i] - by_halves[i]) > 1e-6)
            return differs(r, "[%d] is %g and %g", i, (double)pairs[i], (double)halves[i]);
    return true;
}

/* ---- halves ---- */

bool check_to_half(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    size_t n = round % 70;
    float x[70];
    random_floats(&r->random, x, n, round % 2 == 0 ? 0 : 3 + round / 2 % 2);
    for (size_t i = 0; i < n && round % 3 == 0; i++)
        x[i] *= 0x1p-13f;
    struct buffer a = buffer_new(n * 2, r->place, 2 * (round % 8));
    uint16_t expected[70];
    r->reference->to_half(expected, x, n);
    r->level->to_half((uint16_t *)(void *)a.p, x, n);
    bool good = same_bytes(r, a.p, expected, n * 2, "halves");
    if (!buffer_intact(&a))
        good = differs(r, "wrote outside its memory");
    buffer_free(&a);
    return good;
}

static double half_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

/* Each half comes back from its value, and what lies between two goes to the nearest, even at ties.
 */
bool define_to_half(struct run *r, unsigned type)
{
    (void)type;
    for (unsigned h = 0; h < 0x7c00; h++) {
        double v = half_value(h), above = h + 1 < 0x7c00 ? half_value(h + 1) : 65536;
        float x[4] = {(float)v, (float)((v + above) / 2), nextafterf((float)((v + above) / 2), 0),
                      nextafterf((float)((v + above) / 2), INFINITY)};
        uint16_t got[4];
        r->reference->to_half(got, x, 4);
        if (got[0] != h || got[1] != h + (h & 1) || got[2] != h || got[3] != h + 1)
            return differs(r, "half %04x: %04x %04x %04x %04x", h, got[0], got[1], got[2], got[3]);
    }
    return true;
}
