/* Tiled and column-major f32 matrices, back to rows (format-notes 4.6). */
#include "libhkfmt/tensor/decode.h"

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

/* Elements FROM .. FROM+N-1 of row R. A tile's rows are contiguous: a run ends with its tile. */
static void read_row(const struct hk_tiles *t, uint64_t r, uint64_t from, size_t n, float *dst)
{
    uint64_t high = t->tile_rows, wide = t->tile_cols;
    uint64_t tile = r / high * div_up(t->cols, wide) + from / wide;
    size_t skip = from % wide;
    uint64_t at = (tile * high + r % high) * wide;
    for (; n > 0; at += high * wide) {
        size_t run = wide - skip < n ? wide - skip : n;
        hk_decode_f32(t->data + 4 * (at + skip), run, dst);
        dst += run;
        n -= run;
        skip = 0;
    }
}

void hk_tiles_read(const struct hk_tiles *t, uint64_t first, size_t n, float *dst)
{
    if (t->tile_rows == 0) {
        read_columns(t, first, n, dst);
        return;
    }
    while (n > 0) {
        uint64_t from = first % t->cols, rest = t->cols - from;
        size_t run = rest < n ? (size_t)rest : n;
        read_row(t, first / t->cols, from, run, dst);
        dst += run;
        first += run;
        n -= run;
    }
}
