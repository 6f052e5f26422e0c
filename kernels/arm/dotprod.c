/* The level of the dot products of bytes of Armv8.2. */
#define HKK_LEVEL dotprod
#define HKK_LEVEL_NAME "dotprod"

#include "kernels/arm/dot_dotprod.h"
#include "kernels/arm/vec_neon.h"

#include "kernels/arm/level.h"
