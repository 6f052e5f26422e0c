/* Results in the making, while chunks of columns are multiplied: they lie in scratch, sixteen rows
 * of a token side by side, and go to the output with the last chunk. */
#ifndef HKK_X86_AMX_RESULTS_H
#define HKK_X86_AMX_RESULTS_H

#include "kernels/x86/amx_acts.h"
#include "kernels/x86/amx_weights.h"

/* Where results of a chunk of columns come from and go to. */
struct results {
    float *making; /* [group][tile][token][row] */
    size_t tiles;
    bool first, last; /* chunk of columns */
    float *y;         /* of the last */
    size_t stride, n, count;
};

struct tile_product {
    const struct hkk_acts *a;
    struct tokens s;   /* of A, or some of them */
    struct rows *rows; /* of GROUPS */
    struct some_rows *copy;
    struct results out;
    size_t groups;
};

ALWAYS __mmask16 result_rows(const struct results *o, size_t group)
{
    size_t left = o->count - 16 * group;
    return (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
}

/* Of tile T and GROUP: [token][row]. */
ALWAYS float *making(const struct results *o, size_t t, size_t group)
{
    return o->making + (group * o->tiles + t) * 256;
}

/* Sixteen tokens' results of 16 rows, from what is in the making or from zero. */
ALWAYS void load_results_amx(__m512 v[16], const float *from, bool first)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        v[i] = first ? _mm512_setzero_ps() : _mm512_load_ps(from + 16 * i);
}

/* Two neighbouring tiles of tokens and a group of rows. */
struct two {
    const int8_t *tokens; /* of the first, from a chunk's column on */
    float *here;          /* its results in the making */
    size_t t, group, block;
};

/* From BLOCK of the activations and COLUMN on. */
ALWAYS struct two two_tiles(const struct tile_product *p, size_t t, size_t group, size_t block,
                            size_t column)
{
    return (struct two){tile_tokens(&p->s, t, column), making(&p->out, t, group), t, group, block};
}

/* The second tile's tokens. */
ALWAYS const int8_t *second(const struct tile_product *p, const struct two *x)
{
    return x->tokens + 1024 * p->s.pieces;
}

/* Where tile H's numbers of the block lie, sixteen together. */
ALWAYS size_t of_tile(const struct tile_product *p, const struct two *x, size_t h)
{
    return ((x->t + h) * p->s.blocks + x->block) * 16;
}

/* Token I of the two to the output. */
ALWAYS void put_result(const struct results *o, const struct two *x, size_t i, __m512 v)
{
    size_t token = 16 * x->t + i;
    if (token < o->n)
        _mm512_mask_storeu_ps(o->y + token * o->stride + 16 * x->group, result_rows(o, x->group),
                              v);
}

ALWAYS void store_results_amx(const struct results *o, const __m512 v[16], const struct two *x,
                              size_t h, bool last)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        if (!last)
            _mm512_store_ps(x->here + 256 * h + 16 * i, v[i]);
        else
            put_result(o, x, 16 * h + i, v[i]);
}

#endif
