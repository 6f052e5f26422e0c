/* The tables that builds may contain, each defined by its level's file. */
#ifndef HKK_LEVELS_H
#define HKK_LEVELS_H

#include "kernels/kernels.h"

extern const struct hkk_table hkk_generic, hkk_avx2, hkk_avx2vnni, hkk_avx512, hkk_amx;
extern const struct hkk_table hkk_neon, hkk_dotprod, hkk_i8mm;

#endif
