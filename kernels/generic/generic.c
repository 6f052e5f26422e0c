/* The portable level: correct on every processor, and the definition that the others reproduce bit
 * for bit. */
#define HKK_LEVEL generic
#define HKK_LEVEL_NAME "generic"

#include "kernels/generic/vec.h"
#include "kernels/levels.h"
#include "kernels/tmpl/level.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/low_rank.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/quantize.h"
#include "kernels/tmpl/rows.h"

#include "kernels/tmpl/route.h"

#include "kernels/generic/matmul.h"

#define HKK_PRODUCTS(X)
#include "kernels/tmpl/table.h"
