/* Tiled and column-major f32 matrices, back to rows (format-notes 4.6). */
#include "libhkfmt/decode.h"

static void read_columns(const struct hk_tiles *t, uint64_t first, size_t n, float *dst)
{
    uint64_t r = first / t->cols, c = first % t->cols;
    for (size_t i = 0; i < n; i++) {
        dst[i] = le_f32(t->data + 4 * (c * t->rows + r));
        if (++c == t->cols) {
            c = 0;
            r++;
        }
    }
}

/* A tile's rows are contiguous: each run ends with the tile or with the matrix. */
void hk_tiles_read(const struct hk_tiles *t, uint64_t first, size_t n, float *dst)
{
    if (t->tile_rows == 0) {
        read_columns(t, first, n, dst);
        return;
    }
    uint64_t tile_rows = t->tile_rows, tile_cols = t->tile_cols;
    uint64_t across = div_up(t->cols, tile_cols);
    while (n > 0) {
        uint64_t r = first / t->cols, c = first % t->cols;
        uint64_t tile = r / tile_rows * across + c / tile_cols;
        uint64_t at = (tile * tile_rows + r % tile_rows) * tile_cols + c % tile_cols;
        uint64_t run = tile_cols - c % tile_cols;
        if (run > t->cols - c)
            run = t->cols - c;
        if (run > n)
            run = n;
        hk_decode_f32(t->data + 4 * at, (size_t)run, dst);
        dst += run;
        first += run;
        n -= (size_t)run;
    }
}
