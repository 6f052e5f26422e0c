/* Products of low rank: against the sums in sequence that define them, bit for bit, and every level
 * against generic. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/checkkern.h"

enum { RANKS = 20, ROWS = 100, TOKENS = 9, STRIDE = 107 };

struct low_rank_case {
    struct hkk_low_rank b;
    size_t row0, rows, n;
    float matrix[RANKS * STRIDE], x[TOKENS * RANKS];
    float y[TOKENS * STRIDE]; /* as it was */
};

static void random_case(struct run *r, struct low_rank_case *c, unsigned kind)
{
    c->b = (struct hkk_low_rank){c->matrix, STRIDE, 1 + random_below(&r->random, RANKS)};
    c->rows = 1 + random_below(&r->random, ROWS);
    c->row0 = random_below(&r->random, STRIDE - c->rows + 1);
    c->n = 1 + random_below(&r->random, TOKENS);
    random_floats(&r->random, c->matrix, RANKS * STRIDE, kind);
    random_floats(&r->random, c->x, TOKENS * RANKS, kind);
    random_floats(&r->random, c->y, TOKENS * STRIDE, 0);
}

static void add_to(const struct hkk_table *t, const struct low_rank_case *c, float *y)
{
    t->add_low_rank(&c->b, c->row0, c->rows, c->x, RANKS, c->n, y, STRIDE);
}

bool check_add_low_rank(struct run *r, unsigned type, unsigned round)
{
    (void)type;
    struct low_rank_case c;
    float expected[TOKENS * STRIDE];
    random_case(r, &c, round % FLOAT_KINDS);
    const size_t bytes = ((c.n - 1) * STRIDE + c.rows) * sizeof *c.y; /* what it may touch */
    struct buffer y = buffer_new(bytes, r->place, 4 * (round % 16));
    memcpy(expected, c.y, sizeof expected);
    memcpy(y.p, c.y, bytes);
    add_to(r->reference, &c, expected);
    add_to(r->level, &c, (float *)(void *)y.p);
    bool good = same_floats(r, (float *)(void *)y.p, expected, bytes / sizeof *c.y, "low rank");
    if (!buffer_intact(&y))
        good = differs(r, "wrote outside its memory");
    buffer_free(&y);
    return good;
}

bool define_add_low_rank(struct run *r, unsigned type)
{
    (void)type;
    struct low_rank_case c;
    float y[TOKENS * STRIDE];
    random_case(r, &c, 0);
    memcpy(y, c.y, sizeof y);
    add_to(r->reference, &c, y);
    for (size_t t = 0; t < c.n; t++)
        for (size_t i = 0; i < c.rows; i++) {
            float sum = 0;
            for (size_t k = 0; k < c.b.rank; k++)
                sum += c.matrix[k * STRIDE + c.row0 + i] * c.x[t * RANKS + k];
            c.y[t * STRIDE + i] += sum;
        }
    return same_floats(r, y, c.y, TOKENS * STRIDE, "sums in sequence");
}
