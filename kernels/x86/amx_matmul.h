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

/* Token I of tile T and GROUP to the output. */
ALWAYS void put_result(const struct results *o, size_t t, size_t group, size_t i, __m512 v)
{
    size_t token = 16 * t + i;
    if (token < o->n)
        _mm512_mask_storeu_ps(o->y + token * o->stride + 16 * group, rows_of(o, group), v);
}

ALWAYS void store_results(const struct results *o, const __m512 v[16], float *to, bool last,
                          size_t t, size_t group)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        if (!last)
            _mm512_store_ps(to + 16 * i, v[i]);
        else
            put_result(o, t, group, i, v[i]);
}

/* Two tiles of tokens; the second may be the first again. */
struct two {
    const int8_t *tokens[2];
    size_t t[2], group;
};

ALWAYS struct two two_tiles(const struct tile_product *p, size_t t, size_t group, size_t column)
{
    struct two x = {.t = {t, t + 1 < p->s.tiles ? t + 1 : t}, .group = group};
    for (int i = 0; i < 2; i++)
        x.tokens[i] = tile_tokens(&p->s, x.t[i], column);
    return x;
}

/* ---- blocks of 32 ----
 *
 * Tiles of weights stay where they are while tokens pass by. A tile of tokens has the columns of
 * two blocks, and each block's weights have zeros for the other one. */

enum { PASSING = 4 }; /* tiles of tokens: their activations stay in the first cache */

static const _Alignas(64) int8_t zeros[64];

struct small_step {
    struct two x;
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

/* The float steps of one block for one tile of tokens. */
ALWAYS void small_block(__m512 v[16], const struct tile_product *p, const struct small_step *s,
                        size_t h, size_t b, size_t block, int32_t (*sums)[16], size_t wide,
                        bool minimums)
{
    const struct rows *rows = p->rows + s->x.group;
    /* Of nvfp4 both blocks of a pair are in one of the activations. */
    const size_t at = block + (wide == 8 ? 2 * s->pair + b : s->pair);
    const float *dx = p->s.d + (s->x.t[h] * p->s.blocks + at) * 16;
    const float *sum = minimums ? p->s.sum + (s->x.t[h] * p->s.blocks + at) * 16 : dx;
    const __m512 d = _mm512_load_ps(rows->d[2 * s->pair + b]);
    const __m512 m = minimums ? _mm512_load_ps(rows->m[2 * s->pair + b]) : d;
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
                       const struct small_step *before, int32_t (*sums)[16][16], size_t block,
                       size_t wide, bool minimums)
{
    __m512 v[16];
    float *here;
    if (s->turn) {
        int8_t(*w)[64] = p->rows[s->x.group].pairs[s->pair];
        _tile_loadd(6, w, 64);
        _tile_loadd(7, w[wide], 64);
    }
    _tile_loadd(4, s->x.tokens[0], 64);
    _tile_loadd(5, s->x.tokens[1], 64);
    SUM(0, 4, 6);
    if (before != NULL) {
        _tile_stored(3, sums[3], 64);
        here = making(&p->out, before->x.t[0], before->x.group);
        load_results(v, here, before->first);
        small_block(v, p, before, 0, 0, block, sums[0], wide, minimums);
    }
    SUM(1, 4, 7);
    _tile_stored(0, sums[0], 64);
    if (before != NULL) {
        small_block(v, p, before, 0, 1, block, sums[1], wide, minimums);
        store_results(&p->out, v, here, before->last, before->x.t[0], before->x.group);
    }
    SUM(2, 5, 6);
    _tile_stored(1, sums[1], 64);
    if (before != NULL) {
        here = making(&p->out, before->x.t[1], before->x.group);
        load_results(v, here, before->first);
        small_block(v, p, before, 1, 0, block, sums[2], wide, minimums);
    }
    SUM(3, 5, 7);
    _tile_stored(2, sums[2], 64);
    if (before != NULL) {
        small_block(v, p, before, 1, 1, block, sums[3], wide, minimums);
        if (before->x.t[0] != before->x.t[1])
            store_results(&p->out, v, here, before->last, before->x.t[1], before->x.group);
    }
}

/* The float steps of the last step. */
ALWAYS void small_rest(const struct tile_product *p, const struct small_step *s,
                       int32_t (*sums)[16][16], size_t block, size_t wide, bool minimums)
{
    _tile_stored(3, sums[3], 64);
    for (size_t h = 0; h < 2; h++) {
        __m512 v[16];
        float *here = making(&p->out, s->x.t[h], s->x.group);
        load_results(v, here, s->first);
        for (size_t b = 0; b < 2; b++)
            small_block(v, p, s, h, b, block, sums[2 * h + b], wide, minimums);
        if (h == 0 || s->x.t[0] != s->x.t[1])
            store_results(&p->out, v, here, s->last, s->x.t[h], s->x.group);
    }
}

/* Fill in S, of whose tiles of tokens T is the first. */
ALWAYS void small_fill(const struct tile_product *p, struct small_step *s, size_t t, size_t group,
                       size_t column)
{
    s->x = two_tiles(p, t, group, column);
    s->first = p->out.first && s->pair == 0;
    s->last = p->out.last && s->pair == 3;
}

/* The step after S: other tokens, other columns, other rows, and then the next tokens of all. */
ALWAYS bool small_next(const struct tile_product *p, struct small_step *s, size_t column,
                       size_t wide)
{
    size_t t = s->x.t[0] + 2, group = s->x.group, from = s->x.t[0] / PASSING * PASSING;
    s->turn = t >= p->s.tiles || t % PASSING == 0;
    if (s->turn && ++s->pair == 4) {
        s->pair = 0;
        if (++group == p->groups) {
            group = 0;
            from += PASSING;
        }
    }
    if (from >= p->s.tiles)
        return false;
    small_fill(p, s, s->turn ? from : t, group, column + 8 * wide * s->pair);
    return true;
}

/* A chunk from BLOCK of the activations and COLUMN on: four pairs of blocks of 4 * WIDE columns. */
ALWAYS void small_chunk(const struct tile_product *p, size_t block, size_t column, size_t wide,
                        bool minimums)
{
    _Alignas(64) int32_t sums[4][16][16]; /* [tile of tokens, block] */
    struct small_step s = {.turn = true}, before;
    small_fill(p, &s, 0, 0, column);
    small_step(p, &s, NULL, sums, block, wide, minimums);
    before = s;
    while (small_next(p, &s, column, wide)) {
        small_step(p, &s, &before, sums, block, wide, minimums);
        before = s;
    }
    small_rest(p, &before, sums, block, wide, minimums);
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
        _tile_loadd(4, (x)->tokens[0] + 1024 * (k), 64);                                           \
        _tile_loadd(5, (x)->tokens[1] + 1024 * (k), 64);                                           \
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

/* The float steps of four tokens of tile H. */
ALWAYS void super_floats(const struct tile_product *p, const struct two *x, size_t block,
                         const struct super_sums *sums, size_t h, size_t from, struct plan f)
{
    const struct rows *rows = p->rows + x->group;
    const __m512 d = _mm512_load_ps(rows->d[0]), m = _mm512_load_ps(rows->m[0]);
    const float *x_scale = p->s.d + (x->t[h] * p->s.blocks + block) * 16;
    float *here = making(&p->out, x->t[h], x->group);
    if (h == 1 && x->t[1] == x->t[0])
        return;
#pragma GCC unroll 4
    for (size_t i = from; i < from + 4; i++) {
        const __m512 dx = _mm512_set1_ps(x_scale[i]);
        __m512i sum = _mm512_load_si512(sums->low[16 * h + i]);
        if (f.high) {
            __m512i high = _mm512_load_si512(sums->high[16 * h + i]);
            sum = _mm512_add_epi32(_mm512_slli_epi32(high, 7), sum);
        }
        __m512 v = p->out.first ? _mm512_setzero_ps() : _mm512_load_ps(here + 16 * i);
        v = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(sum), v);
        if (f.minimums)
            v = _mm512_fmadd_ps(_mm512_mul_ps(m, dx), _mm512_load_ps(sums->min[16 * h + i]), v);
        if (p->out.last)
            put_result(&p->out, x->t[h], x->group, i, v);
        else
            _mm512_store_ps(here + 16 * i, v);
    }
}

/* Store the sums of X, which are in tiles 0 to 3, and clear these. */
ALWAYS void super_store(const struct tile_product *p, const struct two *x, size_t block,
                        struct super_sums *sums, struct plan f)
{
    if (f.minimums) {
        _tile_loadd(6, p->rows[x->group].min, 64);
        _tile_loadd(4, p->s.split + (x->t[0] * p->s.blocks + block) * 256, 64);
        _tile_loadd(5, p->s.split + (x->t[1] * p->s.blocks + block) * 256, 64);
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

/* Sums of X; meanwhile the float steps of BEFORE, whose sums lie in SUMS. */
ALWAYS void super_step(const struct tile_product *p, const struct two *x, size_t block,
                       const struct two *before, const struct super_sums *sums, struct plan f)
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
        super_floats(p, before, block, sums, 0, 4 * (k - 1), f);
        super_floats(p, before, block, sums, 1, 4 * (k - 1), f);
    }
    if (before != NULL) {
        super_floats(p, before, block, sums, 0, 12, f);
        super_floats(p, before, block, sums, 1, 12, f);
    }
}

ALWAYS void super_chunk(const struct tile_product *p, size_t block, size_t column, struct plan f)
{
    _Alignas(64) struct super_sums sums;
    struct two x = two_tiles(p, 0, 0, column), before;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    super_step(p, &x, block, NULL, NULL, f);
    for (size_t t = 0; t < p->s.tiles; t += 2)
        for (size_t group = 0; group < p->groups; group++) {
            if (t == 0 && group == 0)
                continue;
            before = x;
            x = two_tiles(p, t, group, column);
            super_store(p, &before, block, &sums, f);
            super_step(p, &x, block, &before, &sums, f);
        }
    super_store(p, &x, block, &sums, f);
    for (size_t i = 0; i < 32; i += 4)
        super_floats(p, &x, block, &sums, i / 16, i % 16, f);
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
