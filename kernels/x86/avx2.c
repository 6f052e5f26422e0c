/* The level of AVX2, FMA and F16C. */
#define HKK_LEVEL avx2
#define HKK_LEVEL_NAME "avx2"

#include "kernels/x86/dot_avx2.h"
#include "kernels/x86/vec_avx2.h"

#include "kernels/x86/ints_256.h"
#include "kernels/x86/part_256.h"
#include "kernels/x86/turn_256.h"

#include "kernels/x86/level.h"
