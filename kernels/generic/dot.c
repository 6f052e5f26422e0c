/* Dot product and addition of rows. */
#include "kernels/generic/lanes.h"
#include "kernels/kernels.h"

/* acc[k mod 16] = acc[k mod 16] + w[k] * x[k] for k = 0, 1, 2, ..., then the tree of lanes_sum().
 * A tail of n mod 16 elements adds to the first lanes; the others keep their sums. */
float hkk_dot_f32(const float *w, const float *x, size_t n)
{
    struct lanes acc = {0};
    size_t whole = n - n % 16;
    for (size_t k = 0; k < whole; k += 16) {
        acc.v[0] += load4(w + k) * load4(x + k);
        acc.v[1] += load4(w + k + 4) * load4(x + k + 4);
        acc.v[2] += load4(w + k + 8) * load4(x + k + 8);
        acc.v[3] += load4(w + k + 12) * load4(x + k + 12);
    }
    for (size_t l = 0; whole + l < n; l++)
        acc.v[l / 4][l % 4] += w[whole + l] * x[whole + l];
    return lanes_sum(&acc);
}

/* One rounding an element. */
void hkk_add_f32(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}
