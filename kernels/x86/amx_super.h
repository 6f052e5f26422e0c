/* Super-blocks in tiles: 256 columns add up in two tiles, of the lower and the upper bytes of scale
 * times value, and in a third one of bf16, which has the minimums' part and is exact too. */
#ifndef HKK_X86_AMX_SUPER_H
#define HKK_X86_AMX_SUPER_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/amx_results.h"

/* Sums of two tiles of tokens. */
struct super_sums {
    int32_t low[32][16], high[32][16];
    float min[32][16];
};

#define SUPER_LOADS(x, rows, k, with_high)                                                         \
    do {                                                                                           \
        _tile_loadd(6, (rows)->low[16 * (k)], 64);                                                 \
        _tile_loadd(4, (x)->tokens + 1024 * (k), 64);                                              \
        _tile_loadd(5, second(p, x) + 1024 * (k), 64);                                             \
        if (with_high)                                                                             \
            _tile_loadd(7, (rows)->high[16 * (k)], 64);                                            \
    } while (0)

#define SUPER_SUMS(with_high)                                                                      \
    do {                                                                                           \
        _tile_dpbssd(0, 4, 6);                                                                     \
        _tile_dpbssd(2, 5, 6);                                                                     \
        if (with_high) {                                                                           \
            _tile_dpbssd(1, 4, 7);                                                                 \
            _tile_dpbssd(3, 5, 7);                                                                 \
        }                                                                                          \
    } while (0)

/* The float steps of four tokens from I on. */
ALWAYS void super_floats(const struct tile_product *p, const struct two *x,
                         const struct super_sums *sums, size_t i, struct plan f)
{
    const struct rows *rows = p->rows + x->group;
    const __m512 d = _mm512_load_ps(rows->d[0]), m = _mm512_load_ps(rows->m[0]);
    const float *tokens = p->s.d + of_tile(p, x, i / 16);
#pragma GCC unroll 4
    for (size_t end = i + 4; i < end; i++) {
        const __m512 dx = _mm512_set1_ps(tokens[i % 16]);
        __m512i sum = _mm512_load_si512(sums->low[i]);
        if (f.high) {
            __m512i high = _mm512_load_si512(sums->high[i]);
            sum = _mm512_add_epi32(_mm512_slli_epi32(high, 7), sum);
        }
        __m512 v = p->out.first ? _mm512_setzero_ps() : _mm512_load_ps(x->here + 16 * i);
        v = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(sum), v);
        if (f.minimums)
            v = _mm512_fmadd_ps(_mm512_mul_ps(m, dx), _mm512_load_ps(sums->min[i]), v);
        if (p->out.last)
            put_result(&p->out, x, i, v);
        else
            _mm512_store_ps(x->here + 16 * i, v);
    }
}

/* Store the sums of X, which are in tiles 0 to 3, and clear these. */
ALWAYS void super_store(const struct tile_product *p, const struct two *x, struct super_sums *sums,
                        struct plan f)
{
    if (f.minimums) {
        _tile_loadd(6, p->rows[x->group].min, 64);
        _tile_loadd(4, p->s.split + 16 * of_tile(p, x, 0), 64);
        _tile_loadd(5, p->s.split + 16 * of_tile(p, x, 1), 64);
    }
    _tile_stored(0, sums->low, 64);
    _tile_zero(0);
    if (f.minimums)
        _tile_dpbf16ps(0, 4, 6);
    _tile_stored(2, sums->low + 16, 64);
    _tile_zero(2);
    if (f.minimums)
        _tile_dpbf16ps(2, 5, 6);
    if (f.high) {
        _tile_stored(1, sums->high, 64);
        _tile_zero(1);
        _tile_stored(3, sums->high + 16, 64);
        _tile_zero(3);
    }
    if (f.minimums) {
        _tile_stored(0, sums->min, 64);
        _tile_zero(0);
        _tile_stored(2, sums->min + 16, 64);
        _tile_zero(2);
    }
}

/* Sums of X; meanwhile the float steps of BEFORE, if there is one, whose sums lie in SUMS. */
ALWAYS void super_step(const struct tile_product *p, const struct two *x, const struct two *before,
                       const struct super_sums *sums, struct plan f)
{
    const struct rows *rows = p->rows + x->group;
    SUPER_LOADS(x, rows, 0, f.high);
    SUPER_SUMS(f.high);
#pragma GCC unroll 3
    for (size_t k = 1; k < 4; k++) {
        SUPER_LOADS(x, rows, k, f.high);
        SUPER_SUMS(f.high);
        if (before == NULL)
            continue;
        super_floats(p, before, sums, 4 * (k - 1), f);
        super_floats(p, before, sums, 4 * (k + 3), f);
    }
    if (before != NULL) {
        super_floats(p, before, sums, 12, f);
        super_floats(p, before, sums, 28, f);
    }
}

ALWAYS void super_chunk(const struct tile_product *p, size_t block, size_t column, struct plan f)
{
    _Alignas(64) struct super_sums sums;
    struct two x = two_tiles(p, 0, 0, block, column), before;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    super_step(p, &x, NULL, NULL, f);
    for (size_t t = 0; t < p->s.tiles; t += 2)
        for (size_t group = t == 0; group < p->groups; group++) {
            before = x;
            x = two_tiles(p, t, group, block, column);
            super_store(p, &before, &sums, f);
            super_step(p, &x, &before, &sums, f);
        }
    super_store(p, &x, &sums, f);
    for (size_t i = 0; i < 32; i += 4)
        super_floats(p, &x, &sums, i, f);
}

#define SUPER_CHUNK(name, ...)                                                                     \
    static __attribute__((noinline)) void FN(name)(const struct tile_product *p, size_t block,     \
                                                   size_t column)                                  \
    {                                                                                              \
        const struct plan f = {__VA_ARGS__};                                                       \
        super_chunk(p, block, column, f);                                                          \
    }

SUPER_CHUNK(super_chunk, .high = false)
SUPER_CHUNK(super_chunk_min, .minimums = true)
SUPER_CHUNK(super_chunk_high, .high = true)
SUPER_CHUNK(super_chunk_high_min, .high = true, .minimums = true)

#undef SUPER_CHUNK

#endif
