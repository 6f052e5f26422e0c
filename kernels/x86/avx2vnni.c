/* The level of AVX2, FMA and F16C with AVX-VNNI. */
#define HKK_LEVEL avx2vnni
#define HKK_LEVEL_NAME "avx2vnni"

#include "kernels/x86/dot_vnni.h"
#include "kernels/x86/vec_avx2.h"

#include "kernels/x86/ints_256.h"
#include "kernels/x86/part_256.h"
#include "kernels/x86/turn_256.h"

#include "kernels/x86/level.h"
