/* From how many tokens on a product is made of tiles at each level; fewer are multiplied one by one
 * straight from the packed blocks (few.h, few_512*.h), or for amx as avx512 does. MEASUREMENTS.md
 * says how these were found. */
#ifndef HKK_X86_CROSSOVERS_H
#define HKK_X86_CROSSOVERS_H

#include "kernels/kernels.h"

struct crossover {
    uint8_t avx2, avx2vnni, avx512, amx;
};

static const struct crossover crossovers[HKK_TYPES] = {
    [HKK_Q4_0] = {2, 2, 2, 28},    [HKK_Q4_1] = {2, 2, 2, 31},   [HKK_Q5_0] = {2, 2, 2, 24},
    [HKK_Q5_1] = {2, 2, 2, 28},    [HKK_Q8_0] = {4, 2, 2, 20},   [HKK_IQ4_NL] = {4, 2, 2, 26},
    [HKK_MXFP4] = {2, 2, 2, 22},   [HKK_NVFP4] = {2, 2, 2, 32},  [HKK_Q2_K] = {2, 2, 2, 13},
    [HKK_Q3_K] = {2, 2, 2, 16},    [HKK_Q4_K] = {2, 2, 2, 18},   [HKK_Q5_K] = {2, 2, 2, 16},
    [HKK_Q6_K] = {2, 2, 2, 12},    [HKK_IQ1_S] = {2, 2, 2, 20},  [HKK_IQ1_M] = {2, 2, 2, 16},
    [HKK_IQ2_XXS] = {2, 2, 2, 20}, [HKK_IQ2_XS] = {2, 2, 2, 18}, [HKK_IQ2_S] = {2, 2, 2, 18},
    [HKK_IQ3_XXS] = {2, 2, 2, 20}, [HKK_IQ3_S] = {2, 2, 2, 20},  [HKK_IQ4_XS] = {2, 2, 2, 16},
    [HKK_TQ1_0] = {2, 2, 2, 12},   [HKK_TQ2_0] = {2, 2, 3, 12},
};

enum { AMX_TILES_FROM = 12 }; /* the least of them for amx */

#endif
