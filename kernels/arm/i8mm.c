/* The level of the products of matrices of bytes of Armv8.6. */
#define HKK_LEVEL i8mm
#define HKK_LEVEL_NAME "i8mm"

#include "kernels/arm/dot_i8mm.h"
#include "kernels/arm/vec_neon.h"

#include "kernels/arm/level.h"
