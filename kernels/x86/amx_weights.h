/* Sixteen rows of weights, unpacked to tiles: rows in lanes, four columns to a lane. Blocks of 32
 * become their values. Super-blocks become value times scale, split into two bytes, high * 128 +
 * low, so that a tile adds up all 256 columns. */
#ifndef HKK_X86_AMX_WEIGHTS_H
#define HKK_X86_AMX_WEIGHTS_H

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/turn_512.h"

#include "kernels/x86/turn_super.h"

/* What a type's codes are, and whether products of value and scale need a second byte. */
struct plan {
    bool is_signed, minimums, high;
    int offset; /* code - value, of unsigned codes */
};

struct rows { /* 256 columns; of nvfp4 128 */
    union {
        struct {
            int8_t low[64][64], high[64][64]; /* [four columns][row][column] */
        };
        int8_t pairs[4][32][64]; /* of blocks: one, as many zeros, the next one */
    };
    uint32_t min[16][16];     /* [group of 16][row]: twice the minimum, as bf16 */
    float d[8][16], m[8][16]; /* [block][row] */
};

/* ---- blocks of 32 ---- */

/* BLOCKS blocks of COUNT rows at ROW. */
ALWAYS void pack_small(struct some_rows *copy, struct rows *w, const uint8_t *row, size_t row_bytes,
                       size_t count, size_t blocks, unsigned type, size_t size, struct plan f)
{
    const struct code_place o = {(uint8_t *)w->pairs, 64, 16 * 64, false,
                                 f.is_signed ? 128 : f.offset};
    row = all_lanes(copy, row, &row_bytes, blocks * size, count);
#pragma GCC unroll 1
    for (size_t k = 0; k < blocks; k++)
        turn_small(row + k * size, row_bytes, type, &o, k, w->d[k], w->m[k]);
}

/* The same of nvfp4, whose groups of 16 are pairs. */
ALWAYS void pack_nvfp4(struct some_rows *copy, struct rows *w, const uint8_t *row, size_t row_bytes,
                       size_t count, size_t blocks)
{
    const size_t size = sizeof(struct hk_nvfp4);
    row = all_lanes(copy, row, &row_bytes, blocks / 2 * size, count);
#pragma GCC unroll 1
    for (size_t k = 0; k < blocks; k++) {
        const struct code_place o = {(uint8_t *)w->pairs[k], 64, 8 * 64, false, 12};
        turn_nvfp4(row + k / 2 * size, row_bytes, k % 2, &o, 0, w->d[2 * k], w->d[2 * k + 1]);
    }
}

/* ---- super-blocks ---- */

/* The super-block of COUNT rows at ROW. */
ALWAYS void pack_super(struct some_rows *copy, struct rows *w, const uint8_t *row, size_t row_bytes,
                       size_t count, unsigned type, size_t size, struct turned *s)
{
    const struct code_place o = {(uint8_t *)w->low, 64, 8 * 64, false, 0};
    row = all_lanes(copy, row, &row_bytes, size, count);
    turn_super(row, row_bytes, type, &o, s, w->d[0], w->m[0]);
}

/* The lower or the upper 16 bits of each lane's number, twice as bf16, which holds it exactly. */
ALWAYS __m512i twice_bf16(__m512i pair, int upper)
{
    const __m512i lower = _mm512_set1_epi32(0xffff);
    __m512i x = upper ? _mm512_srli_epi32(pair, 16) : _mm512_and_si512(pair, lower);
    x = _mm512_castps_si512(_mm512_cvtepi32_ps(x));
    return _mm512_or_si512(x, _mm512_srli_epi32(x, 16));
}

/* Words to bytes: of numbers of 15 bits, or the lower seven and the upper eight of them. */
ALWAYS void put_code_words(struct rows *w, size_t k, __m512i a, __m512i b, bool high)
{
    const __m512i seven = _mm512_set1_epi16(127);
    if (high) {
        __m512i top = _mm512_packs_epi16(_mm512_srai_epi16(a, 7), _mm512_srai_epi16(b, 7));
        _mm512_store_si512(w->high[k], top);
        a = _mm512_and_si512(a, seven);
        b = _mm512_and_si512(b, seven);
    }
    _mm512_store_si512(w->low[k], _mm512_packs_epi16(a, b));
}

/* One group of 16 columns; PAIR has its scale in the lower (or UPPER) 16 bits of the row's lane. */
ALWAYS void scale_group(struct rows *w, size_t g, __m512i pair, int upper, struct plan f)
{
    const int64_t one = upper ? 0x0302030203020302 : 0x0100010001000100, row = 0x0404040404040404;
    const __m512i first = _mm512_broadcast_i32x4(_mm_set_epi64x(one + row, one));
    const __m512i second = _mm512_broadcast_i32x4(_mm_set_epi64x(one + 3 * row, one + 2 * row));
    __m512i a = _mm512_shuffle_epi8(pair, first), b = _mm512_shuffle_epi8(pair, second);
    const __m512i offset = _mm512_set1_epi16((short)(f.is_signed ? 128 : f.offset));
    const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t k = 4 * g; k < 4 * g + 4; k++) {
        __m512i code = _mm512_load_si512(w->low[k]);
        __m512i even = _mm512_sub_epi16(_mm512_unpacklo_epi8(code, zero), offset);
        __m512i odd = _mm512_sub_epi16(_mm512_unpackhi_epi8(code, zero), offset);
        put_code_words(w, k, _mm512_mullo_epi16(even, a), _mm512_mullo_epi16(odd, b), f.high);
    }
}

/* From codes to tiles. */
ALWAYS void scale_super(struct rows *w, const struct turned *s, struct plan f)
{
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++) {
        scale_group(w, 2 * j, s->scale[j], 0, f);
        scale_group(w, 2 * j + 1, s->scale[j], 1, f);
        if (f.minimums) {
            _mm512_store_si512(w->min[2 * j], twice_bf16(s->min[j], 0));
            _mm512_store_si512(w->min[2 * j + 1], twice_bf16(s->min[j], 1));
        }
    }
}

#endif
