/* Products of tiles: chunks of rows and columns are unpacked, then multiplied with all tokens.
 * While a tile's sums are on their way to memory, the float steps of sums that are already there
 * are made. Results in the making lie in scratch, sixteen rows of a token side by side. */
#ifndef HKK_X86_AMX_MATMUL_H
#define HKK_X86_AMX_MATMUL_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/amx_acts.h"
#include "kernels/x86/amx_weights.h"

enum {
    TILES_FROM = 6, /* fewer tokens are multiplied without tiles */
    MOST_TOKENS = 512,
    GROUPS = 4, /* of 16 rows, unpacked together */
};

/* Where results of a chunk of columns come from and go to. */
struct results {
    float *making; /* [group][tile][token][row] */
    size_t tiles;
    bool first, last; /* chunk of columns */
    float *y;         /* of the last */
    size_t stride, n, count;
};

struct tile_product {
    struct tokens s;
    struct rows *rows; /* of GROUPS */
    struct packed *packed;
    struct results out;
    size_t groups;
};

ALWAYS __mmask16 rows_of(const struct results *o, size_t group)
{
    size_t left = o->count - 16 * group;
    return (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
}

/* Of tile T and GROUP: [token][row]. */
ALWAYS float *making(const struct results *o, size_t t, size_t group)
{
    return o->making + (group * o->tiles + t) * 256;
}

ALWAYS __m512 result(const struct results *o, const float *from, size_t i)
{
    return o->first ? _mm512_setzero_ps() : _mm512_load_ps(from + 16 * i);
}

/* Token I of tile T. */
ALWAYS void put_result(const struct results *o, float *to, size_t t, size_t group, size_t i,
                       __m512 v)
{
    size_t token = 16 * t + i;
    if (!o->last)
        _mm512_store_ps(to + 16 * i, v);
    else if (token < o->n)
        _mm512_mask_storeu_ps(o->y + token * o->stride + 16 * group, rows_of(o, group), v);
}

/* ---- blocks of 32 ---- */

/* Sums of one block: sixteen tokens by sixteen rows. */
#define SMALL_SUMS(c, x, w, tokens, stride, weights, sums)                                         \
    do {                                                                                           \
        _tile_zero(c);                                                                             \
        _tile_loadd(x, tokens, stride);                                                            \
        _tile_loadd(w, weights, 64);                                                               \
        _tile_dpbssd(c, x, w);                                                                     \
        _tile_stored(c, sums, 64);                                                                 \
    } while (0)

struct small_step {
    const int32_t *sums;   /* [token][row] */
    const float *d, *m;    /* of the rows */
    const float *dx, *sum; /* of the tokens */
};

ALWAYS void small_floats(__m512 acc[16], const struct small_step *s, bool minimums)
{
    const __m512 d = _mm512_load_ps(s->d);
    __m512 m = _mm512_setzero_ps();
    if (minimums)
        m = _mm512_load_ps(s->m);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        const __m512 dx = _mm512_set1_ps(s->dx[i]);
        __m512 x = _mm512_cvtepi32_ps(_mm512_load_si512(s->sums + 16 * i));
        acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), x, acc[i]);
        if (minimums)
            acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(m, dx), _mm512_set1_ps(s->sum[i]), acc[i]);
    }
}

/* A tile of tokens and a group of rows. */
struct small_pair {
    const int8_t *tokens;
    size_t stride;
    const struct rows *rows;
};

ALWAYS struct small_pair small_pair(const struct tile_product *p, size_t t, size_t group,
                                    size_t column)
{
    struct small_pair x = {.rows = p->rows + group};
    x.tokens = tile_tokens(&p->s, t, &x.stride) + column;
    return x;
}

/* Eight blocks from COLUMN on, of BYTES each, of all tokens and rows; sums are made four blocks
 * ahead. */
ALWAYS void small_chunk(const struct tile_product *p, size_t block, size_t column, int bytes,
                        bool minimums)
{
    _Alignas(64) int32_t sums[8][16][16];
    const size_t total = p->s.tiles * p->groups;
    const int wide = bytes / 4;
#define AHEAD(pair, b, c, x, w)                                                                    \
    SMALL_SUMS(c, x, w, (pair).tokens + bytes * (b), (pair).stride, (pair).rows->low[wide * (b)],  \
               sums[b])
#define STEP(b)                                                                                    \
    small_floats(acc,                                                                              \
                 &(struct small_step){sums[b][0], at.rows->d[b], at.rows->m[b],                    \
                                      dx + (bytes == 16 ? (b) / 2 : (b)) * 16, sum + (b)*16},      \
                 minimums)
    struct small_pair at = small_pair(p, 0, 0, column), next;
    AHEAD(at, 0, 0, 4, 6);
    AHEAD(at, 1, 1, 5, 7);
    AHEAD(at, 2, 2, 4, 6);
    AHEAD(at, 3, 3, 5, 7);
    for (size_t i = 0, t = 0, group = 0; i < total; i++) {
        size_t t_next = group + 1 < p->groups ? t : t + 1;
        size_t group_next = group + 1 < p->groups ? group + 1 : 0;
        /* Behind the last one its own sums are made once more. */
        next = i + 1 < total ? small_pair(p, t_next, group_next, column) : at;
        const float *dx = p->s.d + (t * p->s.blocks + block) * 16;
        const float *sum = minimums ? p->s.sum + (t * p->s.blocks + block) * 16 : dx;
        float *here = making(&p->out, t, group);
        __m512 acc[16];
#pragma GCC unroll 16
        for (size_t k = 0; k < 16; k++)
            acc[k] = result(&p->out, here, k);
        AHEAD(at, 4, 0, 4, 6);
        STEP(0);
        AHEAD(at, 5, 1, 5, 7);
        STEP(1);
        AHEAD(at, 6, 2, 4, 6);
        STEP(2);
        AHEAD(at, 7, 3, 5, 7);
        STEP(3);
        AHEAD(next, 0, 0, 4, 6);
        STEP(4);
        AHEAD(next, 1, 1, 5, 7);
        STEP(5);
        AHEAD(next, 2, 2, 4, 6);
        STEP(6);
        AHEAD(next, 3, 3, 5, 7);
        STEP(7);
#pragma GCC unroll 16
        for (size_t k = 0; k < 16; k++)
            put_result(&p->out, here, t, group, k, acc[k]);
        at = next;
        t = t_next;
        group = group_next;
    }
#undef AHEAD
#undef STEP
}

static __attribute__((noinline)) void FN(small_chunk)(const struct tile_product *p, size_t block,
                                                      size_t column)
{
    small_chunk(p, block, column, 32, false);
}

static __attribute__((noinline)) void FN(small_chunk_min)(const struct tile_product *p,
                                                          size_t block, size_t column)
{
    small_chunk(p, block, column, 32, true);
}

static __attribute__((noinline)) void FN(nvfp4_chunk)(const struct tile_product *p, size_t block,
                                                      size_t column)
{
    small_chunk(p, block, column, 16, false);
}

/* ---- super-blocks ---- */

/* Sums of two tiles of tokens. */
struct super_sums {
    int32_t low[32][16], high[32][16];
    float min[32][16];
};

struct super_pair {
    const int8_t *tokens[2];
    size_t stride[2], t[2]; /* tiles; the second may be the first again */
    size_t group;
};

ALWAYS struct super_pair super_pair(const struct tile_product *p, size_t t, size_t group,
                                    size_t column)
{
    struct super_pair x = {.t = {t, t + 1 < p->s.tiles ? t + 1 : t}, .group = group};
    for (int i = 0; i < 2; i++)
        x.tokens[i] = tile_tokens(&p->s, x.t[i], &x.stride[i]) + column;
    return x;
}

#define SUPER_STEP(x, rows, k, with_high)                                                          \
    do {                                                                                           \
        _tile_loadd(6, (rows)->low[16 * (k)], 64);                                                 \
        _tile_loadd(4, (x)->tokens[0] + 64 * (k), (x)->stride[0]);                                 \
        _tile_dpbssd(0, 4, 6);                                                                     \
        _tile_loadd(5, (x)->tokens[1] + 64 * (k), (x)->stride[1]);                                 \
        _tile_dpbssd(2, 5, 6);                                                                     \
        if (with_high) {                                                                           \
            _tile_loadd(7, (rows)->high[16 * (k)], 64);                                            \
            _tile_dpbssd(1, 4, 7);                                                                 \
            _tile_dpbssd(3, 5, 7);                                                                 \
        }                                                                                          \
    } while (0)

/* The float steps of four tokens of each tile. */
ALWAYS void super_floats(const struct tile_product *p, const struct super_pair *x, size_t block,
                         const struct super_sums *sums, size_t from, struct plan f)
{
    const struct rows *rows = p->rows + x->group;
    const __m512 d = _mm512_load_ps(rows->d[0]), m = _mm512_load_ps(rows->m[0]);
#pragma GCC unroll 2
    for (size_t h = 0; h < 2; h++) {
        const float *x_scale = p->s.d + (x->t[h] * p->s.blocks + block) * 16;
        float *here = making(&p->out, x->t[h], x->group);
        if (h == 1 && x->t[1] == x->t[0])
            break;
#pragma GCC unroll 4
        for (size_t i = from; i < from + 4; i++) {
            const __m512 dx = _mm512_set1_ps(x_scale[i]);
            __m512i sum = _mm512_load_si512(sums->low[16 * h + i]);
            if (f.high) {
                __m512i high = _mm512_load_si512(sums->high[16 * h + i]);
                sum = _mm512_add_epi32(_mm512_slli_epi32(high, 7), sum);
            }
            __m512 v = result(&p->out, here, i);
            v = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(sum), v);
            if (f.minimums)
                v = _mm512_fmadd_ps(_mm512_mul_ps(m, dx), _mm512_load_ps(sums->min[16 * h + i]), v);
            put_result(&p->out, here, x->t[h], x->group, i, v);
        }
    }
}

/* Sums of a pair into SUMS; meanwhile the float steps of BEFORE, if there is one, from its sums. */
ALWAYS void super_step(const struct tile_product *p, const struct super_pair *x, size_t block,
                       struct super_sums *sums, const struct super_pair *before,
                       const struct super_sums *ready, struct plan f)
{
    const struct rows *rows = p->rows + x->group;
    _tile_zero(0);
    _tile_zero(2);
    if (f.high) {
        _tile_zero(1);
        _tile_zero(3);
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        SUPER_STEP(x, rows, k, f.high);
        if (before != NULL)
            super_floats(p, before, block, ready, 4 * k, f);
    }
    _tile_stored(0, sums->low, 64);
    _tile_stored(2, sums->low + 16, 64);
    if (f.high) {
        _tile_stored(1, sums->high, 64);
        _tile_stored(3, sums->high + 16, 64);
    }
    if (f.minimums) {
        _tile_zero(0);
        _tile_zero(2);
        _tile_loadd(6, rows->min, 64);
        _tile_loadd(4, p->s.split + (x->t[0] * p->s.blocks + block) * 256, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, p->s.split + (x->t[1] * p->s.blocks + block) * 256, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_stored(0, sums->min, 64);
        _tile_stored(2, sums->min + 16, 64);
    }
}

ALWAYS void super_chunk(const struct tile_product *p, size_t block, size_t column, struct plan f)
{
    _Alignas(64) struct super_sums sums[2];
    struct super_pair x = super_pair(p, 0, 0, column), before;
    super_step(p, &x, block, &sums[0], NULL, NULL, f);
    size_t odd = 0;
    for (size_t t = 0; t < p->s.tiles; t += 2)
        for (size_t group = 0; group < p->groups; group++) {
            if (t == 0 && group == 0)
                continue;
            before = x;
            x = super_pair(p, t, group, column);
            super_step(p, &x, block, &sums[odd ^ 1], &before, &sums[odd], f);
            odd ^= 1;
        }
    for (size_t k = 0; k < 4; k++)
        super_floats(p, &x, block, &sums[odd], 4 * k, f);
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

/* ---- a product ---- */

typedef void pack_fn(const struct tile_product *p, const uint8_t *row, size_t row_bytes,
                     size_t count, size_t block, struct rows *out);
typedef void chunk_fn(const struct tile_product *p, size_t block, size_t column);

struct shape {
    const struct tile_config *config;
    size_t columns, span; /* of a chunk: columns, blocks of activations */
    bool sums, split;     /* are wanted of the tokens */
    chunk_fn *multiply;
};

static const struct shape small = {&tiles_of_32, 256, 8, false, false, FN(small_chunk)},
                          small_min = {&tiles_of_32, 256, 8, true, false, FN(small_chunk_min)},
                          nvfp4 = {&tiles_of_16, 128, 4, false, false, FN(nvfp4_chunk)},
                          super = {&tiles_of_64, 256, 1, false, false, FN(super_chunk)},
                          super_min = {&tiles_of_64, 256, 1, false, true, FN(super_chunk_min)},
                          super_high = {&tiles_of_64, 256, 1, false, false, FN(super_chunk_high)},
                          super_high_min = {&tiles_of_64, 256,  1,
                                            false,        true, FN(super_chunk_high_min)};

static inline size_t tile_bytes(size_t n)
{
    return GROUPS * sizeof(struct rows) + sizeof(struct packed) +
           GROUPS * up_to(n, 16) * 16 * sizeof(float);
}

/* GROUPS groups of rows from ROW on, of which COUNT rows exist. */
static inline void chunk_of_rows(struct tile_product *p, const struct hkk_matrix *w, size_t row,
                                 size_t row_bytes, const struct shape *shape, pack_fn *pack)
{
    size_t count = p->out.count, blocks = p->s.a->blocks;
    p->groups = (count + 15) / 16;
    for (size_t b = 0; b < blocks; b += shape->span) {
        for (size_t g = 0; g < p->groups; g++) {
            size_t some = count - 16 * g < 16 ? count - 16 * g : 16;
            if (some < 16 || blocks - b < shape->span) {
                memset(p->rows + g, 0, sizeof *p->rows);
                memset(p->packed, 0, sizeof *p->packed);
            }
            pack(p, w->data + (row + 16 * g) * row_bytes, row_bytes, some, b, p->rows + g);
        }
        p->out.first = b == 0;
        p->out.last = b + shape->span >= blocks;
        stored();
        shape->multiply(p, b, b / shape->span * shape->columns);
    }
}

static __attribute__((noinline)) void FN(tiles)(const struct hkk_matrix *w, size_t row0,
                                                size_t rows, size_t row_bytes,
                                                const struct hkk_acts *a, float *y, size_t stride,
                                                char *scratch, const struct shape *shape,
                                                pack_fn *pack)
{
    struct tile_product p;
    p.rows = (void *)scratch;
    p.packed = (void *)(p.rows + GROUPS);
    p.out.making = (void *)(p.packed + 1);
    p.out.tiles = up_to(a->n, 16) / 16;
    p.out.n = a->n;
    p.out.stride = stride;
    tokens_place(&p.s, a, shape->span, shape->columns, shape->sums, shape->split,
                 (char *)(p.out.making + GROUPS * p.out.tiles * 256));
    stored();
    _tile_loadconfig(shape->config);
    for (size_t r = row0; r < row0 + rows; r += 16 * GROUPS) {
        size_t left = row0 + rows - r;
        p.out.count = left < 16 * GROUPS ? left : 16 * GROUPS;
        p.out.y = y + r;
        chunk_of_rows(&p, w, r, row_bytes, shape, pack);
    }
    _tile_release();
}

/* Products with few tokens are those of AVX-512. */
static inline void product(unsigned type, const struct hkk_matrix *w, size_t row0, size_t rows,
                           const struct hkk_acts *a, float *y, size_t stride, void *scratch,
                           const struct shape *shape, pack_fn *pack)
{
    if (a->n < TILES_FROM) {
        hkk_avx512.matmul[type](w, row0, rows, a, y, stride, scratch);
        return;
    }
    for (size_t t = 0; t < a->n; t += MOST_TOKENS) {
        struct hkk_acts some = hkk_acts_from(a, t, a->n - t < MOST_TOKENS ? a->n - t : MOST_TOKENS);
        FN(tiles)
        (w, row0, rows, hkk_row_bytes(type, w->cols), &some, y + t * stride, stride, scratch, shape,
         pack);
    }
}

#define MATMUL(type, number, shape)                                                                \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        product(number, w, row0, rows, a, y, stride, scratch, &(shape), FN(pack_##type));          \
    }

#define SMALL(type, number, shape, ...)                                                            \
    static void FN(pack_##type)(const struct tile_product *p, const uint8_t *row,                  \
                                size_t row_bytes, size_t count, size_t b, struct rows *out)        \
    {                                                                                              \
        const struct plan f = {__VA_ARGS__};                                                       \
        size_t blocks = p->s.a->blocks - b < 8 ? p->s.a->blocks - b : 8;                           \
        for (size_t r = 0; r < count; r++)                                                         \
            pack_small(p->packed, out, r, row + r * row_bytes, b, blocks, number,                  \
                       sizeof(struct hk_##type), f, codes_##type);                                 \
        turn_codes(p->packed, out->low, 4);                                                        \
    }                                                                                              \
    MATMUL(type, number, shape)

SMALL(q4_0, HKK_Q4_0, small, .offset = 8)
SMALL(q5_0, HKK_Q5_0, small, .offset = 16)
SMALL(q8_0, HKK_Q8_0, small, .is_signed = true)
SMALL(iq4_nl, HKK_IQ4_NL, small, .is_signed = true)
SMALL(mxfp4, HKK_MXFP4, small, .offset = 12)
SMALL(q4_1, HKK_Q4_1, small_min, .minimums = true)
SMALL(q5_1, HKK_Q5_1, small_min, .minimums = true)

#undef SMALL

static void FN(pack_nvfp4)(const struct tile_product *p, const uint8_t *row, size_t row_bytes,
                           size_t count, size_t b, struct rows *out)
{
    size_t blocks = p->s.a->blocks - b < 4 ? p->s.a->blocks - b : 4;
    for (size_t r = 0; r < count; r++)
        pack_nvfp4(p->packed, out, r, row + r * row_bytes, b, blocks);
    turn_codes(p->packed, out->low, 2);
}

MATMUL(nvfp4, HKK_NVFP4, nvfp4)

#define SUPER(type, number, shape, ...)                                                            \
    static void FN(pack_##type)(const struct tile_product *p, const uint8_t *row,                  \
                                size_t row_bytes, size_t count, size_t b, struct rows *out)        \
    {                                                                                              \
        const struct plan f = {__VA_ARGS__};                                                       \
        for (size_t r = 0; r < count; r++)                                                         \
            pack_super(p->packed, out, r, row + r * row_bytes + b * sizeof(struct hk_##type), f,   \
                       codes_##type);                                                              \
        turn_super(p->packed, out, f);                                                             \
    }                                                                                              \
    MATMUL(type, number, shape)

SUPER(q2_k, HKK_Q2_K, super_min, .minimums = true)
SUPER(q3_k, HKK_Q3_K, super_high, .offset = 4, .high = true)
SUPER(q4_k, HKK_Q4_K, super_high_min, .minimums = true, .high = true)
SUPER(q5_k, HKK_Q5_K, super_high_min, .minimums = true, .high = true)
SUPER(q6_k, HKK_Q6_K, super_high, .offset = 32, .high = true)
SUPER(iq1_s, HKK_IQ1_S, super_high, .offset = 9, .high = true)
SUPER(iq1_m, HKK_IQ1_M, super_high, .offset = 9, .high = true)
SUPER(iq2_xxs, HKK_IQ2_XXS, super_high, .offset = 43, .high = true)
SUPER(iq2_xs, HKK_IQ2_XS, super_high, .offset = 43, .high = true)
SUPER(iq2_s, HKK_IQ2_S, super_high, .offset = 43, .high = true)
SUPER(iq3_xxs, HKK_IQ3_XXS, super_high, .offset = 62, .high = true)
SUPER(iq3_s, HKK_IQ3_S, super_high, .offset = 15, .high = true)
SUPER(iq4_xs, HKK_IQ4_XS, super_high, .is_signed = true, .high = true)
SUPER(tq1_0, HKK_TQ1_0, super, .offset = 1)
SUPER(tq2_0, HKK_TQ2_0, super, .offset = 1)

#undef SUPER
#undef MATMUL

/* ---- float weights: AVX-512's ---- */

#define FLOAT(type, number)                                                                        \
    static void FN(matmul_##type)(const struct hkk_matrix *w, size_t row0, size_t rows,            \
                                  const struct hkk_acts *a, float *y, size_t stride,               \
                                  void *scratch)                                                   \
    {                                                                                              \
        hkk_avx512.matmul[number](w, row0, rows, a, y, stride, scratch);                           \
    }

FLOAT(f32, HKK_F32)
FLOAT(f16, HKK_F16)
FLOAT(bf16, HKK_BF16)

#undef FLOAT

static size_t FN(scratch_bytes)(size_t cols, size_t n)
{
    size_t some = n < MOST_TOKENS ? n : MOST_TOKENS;
    size_t mine = tile_bytes(some) + tokens_bytes(cols, some);
    size_t others = hkk_avx512.scratch_bytes(cols, n);
    return up_to(mine > others ? mine : others, HKK_ALIGN);
}

#endif
