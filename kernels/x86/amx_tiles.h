/* Tiles of AMX: their shapes. The macros of the compiler take numbers of tiles as literals: 0 to 3
 * are sums, 4 and 5 activations, 6 and 7 weights. */
#ifndef HKK_X86_AMX_TILES_H
#define HKK_X86_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

#define ALWAYS static inline __attribute__((always_inline))

/* What LDTILECFG reads. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Sixteen tokens by COLUMNS bytes, times as many columns of sixteen rows, four to a lane. */
#define TILE_CONFIG(columns)                                                                       \
    {                                                                                              \
        .palette = 1, .row_bytes = {64, 64, 64, 64, (columns), (columns), 64, 64},                 \
        .rows = {16, 16, 16, 16, 16, 16, (columns) / 4, (columns) / 4},                            \
    }

static const struct tile_config tiles_of_32 = TILE_CONFIG(32), tiles_of_64 = TILE_CONFIG(64);

/* Tiles are read behind the compiler's back: what was stored has to be in memory before. */
ALWAYS void stored(void)
{
    __asm__ volatile("" ::: "memory");
}

#endif
