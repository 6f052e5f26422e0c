/* Products of tiles: chunks of rows and columns are unpacked, then multiplied with all tokens.
 * While a tile's sums are on their way to memory, the float steps of sums that are already there
 * are made. Results in the making lie in scratch, sixteen rows of a token side by side. */
#ifndef HKK_X86_AMX_MATMUL_H
#define HKK_X86_AMX_MATMUL_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/amx_acts.h"
#include "kernels/x86/amx_weights.h"

enum {
    TILES_FROM = 6,    /* fewer tokens are multiplied without tiles */
    MOST_TOKENS = 512, /* at once; fewer of many columns */
    MOST_NUMBERS = 4 << 20,
    GROUPS = 4, /* of 16 rows, unpacked together; fewer where they have two planes */
    SUPER_GROUPS = 2,
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

/* Sixteen tokens' results of 16 rows, from what is in the making or from zero. */
ALWAYS void load_results(__m512 v[16], const float *from, bool first)
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
        _mm512_mask_storeu_ps(o->y + token * o->stride + 16 * x->group, rows_of(o, x->group), v);
}

ALWAYS void store_results(const struct results *o, const __m512 v[16], const struct two *x,
                          size_t h, bool last)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        if (!last)
            _mm512_store_ps(x->here + 256 * h + 16 * i, v[i]);
        else
            put_result(o, x, 16 * h + i, v[i]);
}

/* ---- blocks of 32 ----
 *
 * Tiles of weights stay where they are while tokens pass by. A tile of tokens has the columns of
 * two blocks, and each block's weights have zeros for the other one. */

enum { PASSING = 8 }; /* tiles of tokens: their activations stay in the first cache */

static const _Alignas(64) int8_t zeros[64];

struct small_step {
    struct two x;
    const struct rows *rows;
    size_t pair; /* of blocks, in the chunk */
    bool turn;   /* of other weights: they have to be loaded */
    bool first, last;
};

/* A sum from nothing: loading zeros costs less than TILEZERO. */
#define SUM(c, tokens, weights)                                                                    \
    do {                                                                                           \
        _tile_loadd(c, zeros, 0);                                                                  \
        _tile_dpbssd(c, tokens, weights);                                                          \
    } while (0)

/* The float steps of one block for tile H of the tokens. */
ALWAYS void small_block(__m512 v[16], const struct tile_product *p, const struct small_step *s,
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
    if (s->turn) {
        const int8_t *w = s->rows->pairs[s->pair][0];
        _tile_loadd(6, w, 64);
        _tile_loadd(7, w + 64 * wide, 64);
    }
    _tile_loadd(4, s->x.tokens, 64);
    _tile_loadd(5, second(p, &s->x), 64);
    SUM(0, 4, 6);
    if (before != NULL) {
        _tile_stored(3, sums[3], 64);
        load_results(v, before->x.here, before->first);
        small_block(v, p, before, 0, 0, sums[0], wide, minimums);
    }
    SUM(1, 4, 7);
    _tile_stored(0, sums[0], 64);
    if (before != NULL) {
        small_block(v, p, before, 0, 1, sums[1], wide, minimums);
        store_results(&p->out, v, &before->x, 0, before->last);
    }
    SUM(2, 5, 6);
    _tile_stored(1, sums[1], 64);
    if (before != NULL) {
        load_results(v, before->x.here + 256, before->first);
        small_block(v, p, before, 1, 0, sums[2], wide, minimums);
    }
    SUM(3, 5, 7);
    _tile_stored(2, sums[2], 64);
    if (before != NULL) {
        small_block(v, p, before, 1, 1, sums[3], wide, minimums);
        store_results(&p->out, v, &before->x, 1, before->last);
    }
}

/* The float steps of the last step. */
ALWAYS void small_rest(const struct tile_product *p, const struct small_step *s,
                       int32_t (*sums)[16][16], size_t wide, bool minimums)
{
    _tile_stored(3, sums[3], 64);
    for (size_t h = 0; h < 2; h++) {
        __m512 v[16];
        load_results(v, s->x.here + 256 * h, s->first);
        for (size_t b = 0; b < 2; b++)
            small_block(v, p, s, h, b, sums[2 * h + b], wide, minimums);
        store_results(&p->out, v, &s->x, h, s->last);
    }
}

/* A step with weights that are not there yet, of the tokens from tile T on. */
ALWAYS struct small_step small_turn(const struct tile_product *p, size_t t, size_t group,
                                    size_t pair, size_t block, size_t column, size_t wide)
{
    size_t each = wide == 8 ? 2 : 1;
    return (struct small_step){
        .x = two_tiles(p, t, group, block + each * pair, column + 8 * wide * pair),
        .rows = p->rows + group,
        .pair = pair,
        .turn = true,
        .first = p->out.first && pair == 0,
        .last = p->out.last && pair == 3,
    };
}

/* A chunk from BLOCK of the activations and COLUMN on: four pairs of blocks of 4 * WIDE columns. */
ALWAYS void small_chunk(const struct tile_product *p, size_t block, size_t column, size_t wide,
                        bool minimums)
{
    _Alignas(64) int32_t sums[4][16][16]; /* [tile of tokens, block] */
    struct small_step s = small_turn(p, 0, 0, 0, block, column, wide), before = s;
    small_step(p, &s, NULL, sums, wide, minimums);
    for (size_t from = 0; from < p->s.tiles; from += PASSING)
        for (size_t group = 0; group < p->groups; group++)
            for (size_t pair = 0; pair < 4; pair++) {
                size_t end = from + PASSING < p->s.tiles ? from + PASSING : p->s.tiles;
                s = small_turn(p, from, group, pair, block, column, wide);
                for (; s.x.t < end; s.x.t += 2, s.turn = false) {
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

/* ---- super-blocks ---- */

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

/* ---- a product ---- */

typedef void pack_fn(const struct tile_product *p, const uint8_t *row, size_t row_bytes,
                     size_t count, size_t block, struct rows *out);
typedef void chunk_fn(const struct tile_product *p, size_t block, size_t column);

struct shape {
    const struct tile_config *config;
    size_t columns, span; /* of a chunk: columns, blocks of activations */
    size_t groups;        /* of rows, unpacked together */
    bool sums, split;     /* are wanted of the tokens */
    chunk_fn *multiply;
};

static const struct shape
    small = {&tiles_of_64, 256, 8, GROUPS, false, false, FN(small_chunk)},
    small_min = {&tiles_of_64, 256, 8, GROUPS, true, false, FN(small_chunk_min)},
    nvfp4 = {&tiles_of_32, 128, 4, GROUPS, false, false, FN(nvfp4_chunk)},
    super = {&tiles_of_64, 256, 1, SUPER_GROUPS, false, false, FN(super_chunk)},
    super_min = {&tiles_of_64, 256, 1, SUPER_GROUPS, false, true, FN(super_chunk_min)},
    super_high = {&tiles_of_64, 256, 1, SUPER_GROUPS, false, false, FN(super_chunk_high)},
    super_high_min = {&tiles_of_64, 256, 1, SUPER_GROUPS, false, true, FN(super_chunk_high_min)};

static inline size_t tile_bytes(size_t n)
{
    return GROUPS * sizeof(struct rows) + sizeof(struct packed) +
           GROUPS * up_to(n, 32) * 16 * sizeof(float);
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
    p.out.tiles = up_to(a->n, 32) / 16;
    p.out.n = a->n;
    p.out.stride = stride;
    tokens_place(&p.s, a, shape->span, shape->columns, shape->sums, shape->split,
                 (char *)(p.out.making + GROUPS * p.out.tiles * 256));
    memset(p.rows, 0, GROUPS * sizeof *p.rows);
    stored();
    _tile_loadconfig(shape->config);
    for (size_t r = row0, most = 16 * shape->groups; r < row0 + rows; r += most) {
        size_t left = row0 + rows - r;
        p.out.count = left < most ? left : most;
        p.out.y = y + r;
        chunk_of_rows(&p, w, r, row_bytes, shape, pack);
    }
    _tile_release();
}

static inline size_t most_tokens(size_t cols)
{
    size_t most = MOST_NUMBERS / cols / 32 * 32;
    return most < 32 ? 32 : most > MOST_TOKENS ? MOST_TOKENS : most;
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
    size_t most = most_tokens(w->cols);
    for (size_t t = 0; t < a->n; t += most) {
        struct hkk_acts some = hkk_acts_from(a, t, a->n - t < most ? a->n - t : most);
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
        turn_small(p->packed, out, 8);                                                             \
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
    turn_small(p->packed, out, 4);
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
    size_t most = most_tokens(cols > 0 ? cols : 1), some = n < most ? n : most;
    size_t mine = tile_bytes(some) + tokens_bytes(cols, some);
    size_t others = hkk_avx512.scratch_bytes(cols, n);
    return up_to(mine > others ? mine : others, HKK_ALIGN);
}

#endif
