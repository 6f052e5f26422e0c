/* Four floats at a time, by the compilers' vector types: every target has them, and a loop over an
 * array of lanes would live in memory at -O2. */
#ifndef HKK_LANES_H
#define HKK_LANES_H

#include <stddef.h>
#include <string.h>

typedef float hkk_f4 __attribute__((vector_size(16)));

static inline hkk_f4 load4(const float *p)
{
    hkk_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store4(float *p, hkk_f4 v)
{
    memcpy(p, &v, sizeof v);
}

struct lanes { /* lane l is v[l / 4][l % 4] */
    hkk_f4 v[4];
};

/* The lanes' sum: 8 apart, 4, 2, 1. */
static inline float lanes_sum(const struct lanes *a)
{
    hkk_f4 four = (a->v[0] + a->v[2]) + (a->v[1] + a->v[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

#endif
