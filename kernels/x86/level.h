/* A level of x86-64, once its file has named it and chosen its registers: dot_*.h, vec_*.h,
 * ints_*.h and part_*.h. */
#include "kernels/levels.h"
#include "kernels/tmpl/level.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/low_rank.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/quantize.h"
#include "kernels/tmpl/rows.h"

#include "kernels/tmpl/route.h"

#include "kernels/x86/float.h"
#include "kernels/x86/matmul.h"

#define HKK_PRODUCTS(X) FLOAT_PRODUCTS(X) SMALL_PRODUCTS(X) SUPER_PRODUCTS(X)
#include "kernels/tmpl/table.h"
