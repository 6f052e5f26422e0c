/* Blocks of 32 in tiles. Weights stay where they are while tokens pass by: a tile of tokens has the
 * columns of two blocks, and each block's weights have zeros for the other one. The float steps of
 * the sums that are in memory already stand between the tile instructions. */
#ifndef HKK_X86_AMX_SMALL_H
#define HKK_X86_AMX_SMALL_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/amx_results.h"

enum { PASSING = 8 }; /* tiles of tokens: their activations stay in the first cache */

static const _Alignas(64) int8_t zeros[64];

struct small_step {
    struct two x;
    const struct rows *rows;
    size_t pair; /* of blocks, in the chunk */
    bool load;   /* of other weights: they have to be loaded */
    bool first, last;
};

/* A sum from nothing: loading zeros costs less than TILEZERO. */
#define SUM(c, tokens, weights)                                                                    \
    do {                                                                                           \
        _tile_loadd(c, zeros, 0);                                                                  \
        _tile_dpbssd(c, tokens, weights);                                                          \
    } while (0)

/* The float steps of one block for tile H of the tokens. */
ALWAYS void add_small_block(__m512 v[16], const struct tile_product *p, const struct small_step *s,
                            size_t h, size_t b, int32_t (*sums)[16], size_t wide, bool minimums)
{
    /* Of nvfp4 both blocks of a pair are in one of the activations. */
    const size_t at = of_tile(p, &s->x, h) + (wide == 8 ? 16 * b : 0);
    const float *dx = p->s.d + at, *sum = minimums ? p->s.sum + at : dx;
    const __m512 d = _mm512_load_ps(s->rows->d[2 * s->pair + b]);
    const __m512 m = minimums ? _mm512_load_ps(s->rows->m[2 * s->pair + b]) : d;
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++) {
        const __m512 scale = _mm512_set1_ps(dx[i]);
        __m512 x = _mm512_cvtepi32_ps(_mm512_load_si512(sums[i]));
        v[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, scale), x, v[i]);
        if (minimums)
            v[i] = _mm512_fmadd_ps(_mm512_mul_ps(m, scale), _mm512_set1_ps(sum[i]), v[i]);
    }
}

/* Sums of S in tiles 0 to 3, of which all but the last are stored. Between them the float steps of
 * BEFORE, if there is one: tile instructions do not wait for each other then. SUMS are the older
 * ones' until they are overwritten. */
ALWAYS void small_step(const struct tile_product *p, const struct small_step *s,
                       const struct small_step *before, int32_t (*sums)[16][16], size_t wide,
                       bool minimums)
{
    __m512 v[16];
    if (s->load) {
        const int8_t *w = s->rows->pairs[s->pair][0];
        _tile_loadd(6, w, 64);
        _tile_loadd(7, w + 64 * wide, 64);
    }
    _tile_loadd(4, s->x.tokens, 64);
    _tile_loadd(5, second(p, &s->x), 64);
    SUM(0, 4, 6);
    if (before != NULL) {
        _tile_stored(3, sums[3], 64);
        load_results_amx(v, before->x.here, before->first);
        add_small_block(v, p, before, 0, 0, sums[0], wide, minimums);
    }
    SUM(1, 4, 7);
    _tile_stored(0, sums[0], 64);
    if (before != NULL) {
        add_small_block(v, p, before, 0, 1, sums[1], wide, minimums);
        store_results_amx(&p->out, v, &before->x, 0, before->last);
    }
    SUM(2, 5, 6);
    _tile_stored(1, sums[1], 64);
    if (before != NULL) {
        load_results_amx(v, before->x.here + 256, before->first);
        add_small_block(v, p, before, 1, 0, sums[2], wide, minimums);
    }
    SUM(3, 5, 7);
    _tile_stored(2, sums[2], 64);
    if (before != NULL) {
        add_small_block(v, p, before, 1, 1, sums[3], wide, minimums);
        store_results_amx(&p->out, v, &before->x, 1, before->last);
    }
}

/* The float steps of the last step. */
ALWAYS void small_rest(const struct tile_product *p, const struct small_step *s,
                       int32_t (*sums)[16][16], size_t wide, bool minimums)
{
    _tile_stored(3, sums[3], 64);
    for (size_t h = 0; h < 2; h++) {
        __m512 v[16];
        load_results_amx(v, s->x.here + 256 * h, s->first);
        for (size_t b = 0; b < 2; b++)
            add_small_block(v, p, s, h, b, sums[2 * h + b], wide, minimums);
        store_results_amx(&p->out, v, &s->x, h, s->last);
    }
}

/* A step with weights that are not there yet, of the tokens from tile T on. */
ALWAYS struct small_step first_small_step(const struct tile_product *p, size_t t, size_t group,
                                          size_t pair, size_t block, size_t column, size_t wide)
{
    size_t each = wide == 8 ? 2 : 1;
    return (struct small_step){
        .x = two_tiles(p, t, group, block + each * pair, column + 8 * wide * pair),
        .rows = p->rows + group,
        .pair = pair,
        .load = true,
        .first = p->out.first && pair == 0,
        .last = p->out.last && pair == 3,
    };
}

/* A chunk from BLOCK of the activations and COLUMN on: four pairs of blocks of 4 * WIDE columns. */
ALWAYS void small_chunk(const struct tile_product *p, size_t block, size_t column, size_t wide,
                        bool minimums)
{
    _Alignas(64) int32_t sums[4][16][16]; /* [tile of tokens, block] */
    struct small_step s = first_small_step(p, 0, 0, 0, block, column, wide), before = s;
    small_step(p, &s, NULL, sums, wide, minimums);
    for (size_t from = 0; from < p->s.tiles; from += PASSING)
        for (size_t group = 0; group < p->groups; group++)
            for (size_t pair = 0; pair < 4; pair++) {
                size_t end = from + PASSING < p->s.tiles ? from + PASSING : p->s.tiles;
                s = first_small_step(p, from, group, pair, block, column, wide);
                for (; s.x.t < end; s.x.t += 2, s.load = false) {
                    if (s.x.t + group + pair > 0)
                        small_step(p, &s, &before, sums, wide, minimums);
                    before = s;
                    s.x.tokens += 2 * 1024 * p->s.pieces;
                    s.x.here += 512;
                }
            }
    small_rest(p, &before, sums, wide, minimums);
}

static __attribute__((noinline)) void FN(small_chunk)(const struct tile_product *p, size_t block,
                                                      size_t column)
{
    small_chunk(p, block, column, 8, false);
}

static __attribute__((noinline)) void FN(small_chunk_min)(const struct tile_product *p,
                                                          size_t block, size_t column)
{
    small_chunk(p, block, column, 8, true);
}

static __attribute__((noinline)) void FN(nvfp4_chunk)(const struct tile_product *p, size_t block,
                                                      size_t column)
{
    small_chunk(p, block, column, 4, false);
}

#endif
