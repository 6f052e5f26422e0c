/* A level of AArch64, once its file has named it and chosen its products of bytes: dot_*.h. */
#include "kernels/levels.h"
#include "kernels/tmpl/level.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/low_rank.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/quantize.h"
#include "kernels/tmpl/rows.h"

#include "kernels/tmpl/route.h"

#include "kernels/arm/float.h"
#include "kernels/arm/matmul.h"

#define HKK_PRODUCTS(X) FLOAT_PRODUCTS(X) SMALL_PRODUCTS(X) SUPER_PRODUCTS(X)
#include "kernels/tmpl/table.h"
