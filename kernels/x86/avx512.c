/* The level of AVX-512 (F, BW, DQ, VL) with VNNI. */
#define HKK_LEVEL avx512
#define HKK_LEVEL_NAME "avx512"

#include "kernels/x86/dot_vnni.h"
#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/few_512_types.h"
#include "kernels/x86/ints_512.h"
#include "kernels/x86/part_512.h"
#include "kernels/x86/turn_512.h"

#include "kernels/x86/level.h"
