/* Tiles of AMX: their shapes, and sixteen registers turned about. The macros of the compiler take
 * numbers of tiles as literals: 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. */
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

/* Rows and columns of a square of 32-bit lanes change places. */
ALWAYS void transpose_16(__m512i v[16])
{
    __m512i w[16];
#pragma GCC unroll 8
    for (int r = 0; r < 16; r += 2) {
        w[r] = _mm512_unpacklo_epi32(v[r], v[r + 1]);
        w[r + 1] = _mm512_unpackhi_epi32(v[r], v[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4) {
        v[r] = _mm512_unpacklo_epi64(w[r], w[r + 2]);
        v[r + 1] = _mm512_unpackhi_epi64(w[r], w[r + 2]);
        v[r + 2] = _mm512_unpacklo_epi64(w[r + 1], w[r + 3]);
        v[r + 3] = _mm512_unpackhi_epi64(w[r + 1], w[r + 3]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        w[r] = _mm512_shuffle_i32x4(v[r], v[r + 4], 0x88);
        w[r + 4] = _mm512_shuffle_i32x4(v[r], v[r + 4], 0xdd);
        w[r + 8] = _mm512_shuffle_i32x4(v[r + 8], v[r + 12], 0x88);
        w[r + 12] = _mm512_shuffle_i32x4(v[r + 8], v[r + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        v[r] = _mm512_shuffle_i32x4(w[r], w[r + 8], 0x88);
        v[r + 8] = _mm512_shuffle_i32x4(w[r], w[r + 8], 0xdd);
        v[r + 4] = _mm512_shuffle_i32x4(w[r + 4], w[r + 12], 0x88);
        v[r + 12] = _mm512_shuffle_i32x4(w[r + 4], w[r + 12], 0xdd);
    }
}

#endif
