/* diff_values.c: elements of pairs of tensors, decoded a piece at a time. Sums are made for fixed
 * ranges and added in their order, so that they do not depend on who makes which. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/diff.h"

enum {
    PIECE = 2048,       /* elements decoded at a time */
    RANGE = 32 * PIECE, /* elements of one sum */
    RANGES = 1024,      /* handed out at once; their sums are kept */
};

struct range {
    const struct diff *diff;
    struct diff_tensor *tensor;
    uint64_t first;
    size_t n;
    bool last; /* of its tensor */
    struct diff_sums sums;
};

/* ---- elements as doubles ---- */

static uint64_t load_le_uint(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static double load_le_f64(const uint8_t *p)
{
    uint64_t bits = load_le_uint(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Types whose values f32 cannot hold, in their own precision. False for all others. */
static bool read_wide_elements(const struct hk_decoder *d, uint64_t first, size_t n, double *out)
{
    unsigned type = 0;
    const uint8_t *p = hk_decoder_rows(d, &type);
    bool wide = type == HK_TYPE_F64 || type == HK_TYPE_INT64 || type == HK_TYPE_UINT64;
    bool narrow = type == HK_TYPE_INT32 || type == HK_TYPE_UINT32;
    if (p == NULL || (!wide && !narrow))
        return false;
    size_t size = wide ? 8 : 4;
    p += first * size;
    for (size_t i = 0; i < n; i++, p += size) {
        uint64_t v = load_le_uint(p, size);
        out[i] = type == HK_TYPE_F64     ? load_le_f64(p)
                 : type == HK_TYPE_INT64 ? (double)(int64_t)v
                 : type == HK_TYPE_INT32 ? (double)(int32_t)(uint32_t)v
                                         : (double)v;
    }
    return true;
}

static void read_elements(const struct hk_decoder *d, uint64_t first, size_t n, double *out)
{
    float narrow[PIECE];
    if (read_wide_elements(d, first, n, out))
        return;
    hk_decoder_read(d, first, n, narrow);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)narrow[i];
}

/* Of B, in the order that A has: where that is another one, row by row. */
static void read_elements_of_b(const struct range *r, uint64_t first, size_t n, double *out)
{
    const struct diff_tensor *t = r->tensor;
    if (t->head_rows == 0) {
        read_elements(t->decoder_b, first, n, out);
        return;
    }
    const uint64_t cols = t->a->ndim == 1 ? 1 : hk_tensor_cols(t->a);
    while (n > 0) {
        const uint64_t at = first % cols, left = cols - at;
        const size_t take = left < n ? (size_t)left : n;
        const uint64_t row =
            hk_rotated_row(t->head_rows, r->diff->rotation_b, r->diff->rotation_a, first / cols);
        read_elements(t->decoder_b, row * cols + at, take, out);
        first += take;
        out += take;
        n -= take;
    }
}

/* ---- sums ---- */

static void note_first_difference(struct diff_sums *s, uint64_t at, double a, double b)
{
    if (s->differing++ > 0)
        return;
    s->first = at;
    s->first_a = a;
    s->first_b = b;
}

static void add_nonfinite_pair(struct diff_sums *s, uint64_t at, double a, double b)
{
    s->nan_a += isnan(a) != 0;
    s->nan_b += isnan(b) != 0;
    s->inf_a += isinf(a) != 0;
    s->inf_b += isinf(b) != 0;
    if (a == b || (isnan(a) && isnan(b)))
        return;
    s->unlike++;
    note_first_difference(s, at, a, b);
}

static void add_value_pair(struct diff_sums *s, uint64_t at, double a, double b)
{
    if (!isfinite(a) || !isfinite(b)) {
        add_nonfinite_pair(s, at, a, b);
        return;
    }
    double error = fabs(a - b);
    s->finite++;
    s->error2 += error * error;
    s->a2 += a * a;
    s->b2 += b * b;
    s->ab += a * b;
    if (a != b)
        note_first_difference(s, at, a, b);
    if (error > s->largest) {
        s->largest = error;
        s->largest_at = at;
    }
}

static void add_value_pairs(struct diff_sums *s, uint64_t at, const double *a, const double *b,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_value_pair(s, at + i, a[i], b[i]);
}

/* Sums of every second element: two additions of which none waits for the other. */
struct lane {
    double error2, a2, b2, ab, largest;
    uint64_t differing;
};

static inline void add_to_lane(struct lane *l, double a, double b)
{
    double error = fabs(a - b);
    l->error2 += error * error;
    l->a2 += a * a;
    l->b2 += b * b;
    l->ab += a * b;
    l->largest = error > l->largest ? error : l->largest;
    l->differing += a != b;
}

/* N is even. */
static struct lane sum_lanes(const double *a, const double *b, size_t n)
{
    struct lane even = {0}, odd = {0};
    for (size_t i = 0; i < n; i += 2) {
        add_to_lane(&even, a[i], b[i]);
        add_to_lane(&odd, a[i + 1], b[i + 1]);
    }
    return (struct lane){even.error2 + odd.error2,
                         even.a2 + odd.a2,
                         even.b2 + odd.b2,
                         even.ab + odd.ab,
                         even.largest > odd.largest ? even.largest : odd.largest,
                         even.differing + odd.differing};
}

/* Index of the first that differs, or N. */
static size_t find_difference(const double *a, const double *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static size_t find_error(const double *a, const double *b, size_t n, double error)
{
    size_t i = 0;
    while (i < n && fabs(a[i] - b[i]) != error)
        i++;
    return i;
}

/* What is not finite shows in the sums of squares, and is then looked at one by one. */
static void add_piece_sums(struct diff_sums *s, uint64_t at, const double *a, const double *b,
                           size_t n)
{
    size_t even = n / 2 * 2;
    struct lane l = sum_lanes(a, b, even);
    if (!isfinite(l.a2) || !isfinite(l.b2)) {
        add_value_pairs(s, at, a, b, n);
        return;
    }
    if (l.differing > 0) {
        size_t i = find_difference(a, b, even);
        note_first_difference(s, at + i, a[i], b[i]);
        s->differing += l.differing - 1;
    }
    if (l.largest > s->largest) {
        s->largest_at = at + find_error(a, b, even, l.largest);
        s->largest = l.largest;
    }
    s->finite += even;
    s->error2 += l.error2;
    s->a2 += l.a2;
    s->b2 += l.b2;
    s->ab += l.ab;
    add_value_pairs(s, at + even, a + even, b + even, n - even);
}

static void sum_range(void *arg, size_t i)
{
    struct range *r = (struct range *)arg + i;
    double a[PIECE], b[PIECE];
    for (size_t at = 0; at < r->n; at += PIECE) {
        size_t n = r->n - at < PIECE ? r->n - at : PIECE;
        read_elements(r->tensor->decoder_a, r->first + at, n, a);
        read_elements_of_b(r, r->first + at, n, b);
        add_piece_sums(&r->sums, r->first + at, a, b, n);
    }
    r->sums.elements = r->n;
}

static void combine_sums(struct diff_sums *s, const struct diff_sums *part)
{
    if (s->differing == 0 && part->differing > 0) {
        s->first = part->first;
        s->first_a = part->first_a;
        s->first_b = part->first_b;
    }
    if (part->largest > s->largest) {
        s->largest = part->largest;
        s->largest_at = part->largest_at;
    }
    s->elements += part->elements;
    s->differing += part->differing;
    s->finite += part->finite;
    s->error2 += part->error2;
    s->a2 += part->a2;
    s->b2 += part->b2;
    s->ab += part->ab;
    s->nan_a += part->nan_a;
    s->nan_b += part->nan_b;
    s->inf_a += part->inf_a;
    s->inf_b += part->inf_b;
    s->unlike += part->unlike;
}

double diff_rmse(const struct diff_sums *s)
{
    return s->finite > 0 ? sqrt(s->error2 / (double)s->finite) : 0;
}

double diff_relative(const struct diff_sums *s)
{
    return s->error2 == 0 ? 0 : s->a2 > 0 ? sqrt(s->error2 / s->a2) : (double)NAN;
}

/* Rounding must not make it more than one. */
double diff_cosine(const struct diff_sums *s)
{
    if (!(s->a2 > 0) || !(s->b2 > 0))
        return (double)NAN;
    double cosine = s->error2 == 0 ? 1 : s->ab / (sqrt(s->a2) * sqrt(s->b2));
    return cosine > 1 ? 1 : cosine;
}

/* ---- the work ---- */

struct window {
    struct range ranges[RANGES];
    size_t count;
    uint64_t done, all;
    const struct diff *diff;
    const struct hk_loop *loop;
};

static void run_window(struct window *w)
{
    w->loop->run(w->loop->context, w->count, sum_range, w->ranges);
    for (size_t i = 0; i < w->count; i++) {
        struct range *r = &w->ranges[i];
        combine_sums(&r->tensor->sums, &r->sums);
        w->done += r->n;
        if (r->last) {
            hk_decoder_free(&r->tensor->decoder_a);
            hk_decoder_free(&r->tensor->decoder_b);
        }
    }
    w->count = 0;
    tool_progress("comparing", w->done, w->all);
}

static void add_tensor_ranges(struct window *w, struct diff_tensor *t, uint64_t elements)
{
    uint64_t first = 0;
    do {
        size_t n = elements - first < RANGE ? (size_t)(elements - first) : RANGE;
        w->ranges[w->count++] = (struct range){w->diff, t, first, n, first + n == elements, {0}};
        first += n;
        if (w->count == RANGES)
            run_window(w);
    } while (first < elements);
}

void diff_give_up(struct diff_tensor *t, const char *why)
{
    t->way = DIFF_NOT;
    t->why = strdup(why);
    if (t->why == NULL)
        tool_nomem();
}

/* A few bytes may stand for more zeros than anyone can count, or be shared by many tensors. */
bool diff_affordable(const struct diff *d, struct diff_tensor *t, uint64_t bytes, uint64_t *sum)
{
    uint64_t a = hk_output_limit(d->a, d->options->max_output);
    uint64_t b = hk_output_limit(d->b, d->options->max_output);
    if (bytes <= (a > b ? a : b) - *sum) {
        *sum += bytes;
        return true;
    }
    diff_give_up(t, "too many elements for its bytes: see --max-output");
    return false;
}

static bool open_pair_decoders(const struct diff *d, struct diff_tensor *t)
{
    struct hk_error err;
    enum hk_status status = hk_decoder_new(&t->decoder_a, d->a, t->a, &err);
    if (status == HK_OK)
        status = hk_decoder_new(&t->decoder_b, d->b, t->b, &err);
    if (status == HK_OK)
        return true;
    if (status == HK_E_NOMEM)
        tool_nomem();
    hk_decoder_free(&t->decoder_a);
    diff_give_up(t, err.text);
    return false;
}

void diff_values(const struct diff *d, struct diff_tensor *tensors, size_t count)
{
    struct window *w = calloc(1, sizeof *w);
    if (w == NULL)
        tool_nomem();
    w->diff = d;
    w->loop = d->options->loop;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (tensors[i].way == DIFF_BY_VALUES)
            (void)diff_affordable(d, &tensors[i], hk_tensor_elems(tensors[i].a) * sizeof(float),
                                  &sum);
    for (size_t i = 0; i < count; i++)
        w->all += tensors[i].way == DIFF_BY_VALUES ? hk_tensor_elems(tensors[i].a) : 0;
    for (size_t i = 0; i < count; i++)
        if (tensors[i].way == DIFF_BY_VALUES && open_pair_decoders(d, &tensors[i]))
            add_tensor_ranges(w, &tensors[i], hk_tensor_elems(tensors[i].a));
    run_window(w);
    tool_progress("comparing", 1, 1);
    free(w);
}
