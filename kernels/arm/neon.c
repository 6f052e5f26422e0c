/* The level of Advanced SIMD as every AArch64 processor has it. */
#define HKK_LEVEL neon
#define HKK_LEVEL_NAME "neon"

#include "kernels/arm/dot_neon.h"
#include "kernels/arm/vec_neon.h"

#include "kernels/arm/level.h"
