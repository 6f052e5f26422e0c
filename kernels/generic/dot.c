/* Dot product and addition of rows. */
#include "kernels/generic/lanes.h"
#include "kernels/kernels.h"

static inline struct lanes load(const float *p)
{
    return (struct lanes){{load4(p), load4(p + 4), load4(p + 8), load4(p + 12)}};
}

static inline void add_product(struct lanes *acc, struct lanes w, struct lanes x)
{
    acc->v[0] += w.v[0] * x.v[0];
    acc->v[1] += w.v[1] * x.v[1];
    acc->v[2] += w.v[2] * x.v[2];
    acc->v[3] += w.v[3] * x.v[3];
}

/* The elements from WHOLE on, fewer than 16, to the first lanes. */
static inline void add_tail(struct lanes *acc, const float *w, const float *x, size_t whole,
                            size_t n)
{
    for (size_t l = 0; whole + l < n; l++)
        acc->v[l / 4][l % 4] += w[whole + l] * x[whole + l];
}

/* acc[k mod 16] = acc[k mod 16] + w[k] * x[k] for k = 0, 1, 2, ..., then the tree of lanes_sum().
 * The lanes that a tail of n mod 16 elements does not reach keep their sums. */
float hkk_dot_f32(const float *w, const float *x, size_t n)
{
    struct lanes acc = {0};
    size_t whole = n - n % 16;
    for (size_t k = 0; k < whole; k += 16)
        add_product(&acc, load(w + k), load(x + k));
    add_tail(&acc, w, x, whole, n);
    return lanes_sum(&acc);
}

/* Twice the above; what is read of X serves both. */
void hkk_dot2_f32(const float *w, const float *x, size_t n, float *y)
{
    struct lanes a = {0}, b = {0};
    size_t whole = n - n % 16;
    for (size_t k = 0; k < whole; k += 16) {
        struct lanes shared = load(x + k);
        add_product(&a, load(w + k), shared);
        add_product(&b, load(w + n + k), shared);
    }
    add_tail(&a, w, x, whole, n);
    add_tail(&b, w + n, x, whole, n);
    y[0] = lanes_sum(&a);
    y[1] = lanes_sum(&b);
}

/* One rounding an element. */
void hkk_add_f32(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}
