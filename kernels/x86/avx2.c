/* The level of AVX2, FMA and F16C. */
#define HKK_LEVEL avx2
#define HKK_LEVEL_NAME "avx2"

#include "kernels/levels.h"
#include "kernels/tmpl/level.h"
#include "kernels/x86/vec_avx2.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/quantize.h"
#include "kernels/tmpl/rows.h"

#include "kernels/x86/float_avx2.h"
#include "kernels/x86/matmul_avx2.h"

#include "kernels/tmpl/table.h"
