/* random.h: the generator behind sampling, a public one, so that a seed means the same everywhere:
 * xoshiro256** 1.0, its state filled by SplitMix64 (both by Blackman and Vigna, public domain). */
#ifndef HKE_RANDOM_H
#define HKE_RANDOM_H

#include <stdint.h>

struct hke_random {
    uint64_t state[4];
};

/* Any seed will do: the state is never all zero. */
void hke_random_seed(struct hke_random *r, uint64_t seed);
uint64_t hke_random_next(struct hke_random *r);
/* A multiple of 2^-53 in [0, 1), from the upper bits of the next number. */
double hke_random_unit(struct hke_random *r);

#endif
