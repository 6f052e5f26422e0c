/* Constant tables of the block formats: grids that codes of the I-quants index, sign patterns,
 * value sets. Element 0 of an entry is the first in memory. */
#ifndef HK_TABLES_H
#define HK_TABLES_H

#include <stdint.h>

extern const uint8_t hk_iq2_xxs_grid[256][8];
extern const uint8_t hk_iq2_xs_grid[512][8];
extern const uint8_t hk_iq2_s_grid[1024][8];
extern const uint8_t hk_iq3_xxs_grid[256][4];
extern const uint8_t hk_iq3_s_grid[512][4];
extern const int8_t hk_iq1_grid[2048][8];
/* Bit j set: element j of eight is negative; by the 7-bit code that the file holds. */
extern const uint8_t hk_ksigns[128];
extern const int8_t hk_iq4_nl_values[16];
/* Twice the value of each E2M1 code; minus zero has become zero. */
extern const int8_t hk_e2m1_doubled[16];

#endif
