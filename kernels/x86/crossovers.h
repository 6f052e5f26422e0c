/* From how many tokens on a product is made of tiles; fewer share what is unpacked of sixteen rows
 * (few_512*.h). MEASUREMENTS.md has the times that these come from. */
#ifndef HKK_X86_CROSSOVERS_H
#define HKK_X86_CROSSOVERS_H

#include "kernels/kernels.h"

struct crossover {
    uint8_t avx512, amx;
};

/* Types that are not here unpack for each token, or have no products for few tokens. */
static const struct crossover crossovers[HKK_TYPES] = {
    [HKK_Q4_0] = {17, 13},  [HKK_Q4_1] = {17, 13},   [HKK_Q5_0] = {17, 13},  [HKK_Q5_1] = {17, 13},
    [HKK_Q8_0] = {16, 13},  [HKK_IQ4_NL] = {17, 13}, [HKK_MXFP4] = {17, 13}, [HKK_Q2_K] = {17, 9},
    [HKK_Q3_K] = {13, 9},   [HKK_Q4_K] = {17, 9},    [HKK_Q5_K] = {16, 9},   [HKK_Q6_K] = {16, 9},
    [HKK_IQ4_XS] = {16, 9}, [HKK_TQ1_0] = {17, 9},   [HKK_TQ2_0] = {17, 9},
};

static inline size_t crossover_or(uint8_t tokens, size_t otherwise)
{
    return tokens != 0 ? tokens : otherwise;
}

#endif
