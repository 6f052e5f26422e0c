/* The level of AMX: products of many tokens in tiles of int8, everything else as AVX-512. */
#define HKK_LEVEL amx
#define HKK_LEVEL_NAME "amx"

#include "kernels/x86/dot_vnni.h"
#include "kernels/x86/vec_avx512.h"

#include "kernels/levels.h"
#include "kernels/tmpl/level.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/low_rank.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/rows.h"

#include "kernels/tmpl/route.h"

#include "kernels/x86/amx_matmul.h"

#define HKK_TILES_BYTES FN(tiles_bytes)
#include "kernels/tmpl/table.h"
