/* kernels.h: the arithmetic of the engine. Plain pointers and sizes; no files, no names, no state.
 *
 * Every operation has one definition (kernels/README.md), down to the order of its sums, the places
 * of its roundings and of its fused multiply-adds. All levels of instruction sets give the same
 * bits, for one token and for many; only which NaN a NaN is may differ. Nothing here allocates, and
 * tables are constant: any number of threads may call the same functions on different outputs. */
#ifndef HKK_KERNELS_H
#define HKK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libhkfmt/tensor/type_list.h"

/* Storage types by the format's codes. Not all have kernels: see hkk_kind_of(). */
enum hkk_type {
#define TYPE(SYMBOL, name, code, ...) HKK_##SYMBOL = (code),
    HK_DENSE_TYPES(TYPE) HK_BLOCK_TYPES(TYPE)
#undef TYPE
        HKK_TYPES = HK_TYPE_CODES, /* above every code */
};

/* ---- activations ---- */

enum hkk_kind {
    HKK_KIND_NONE, /* the type has no kernels */
    HKK_KIND_F32,
    HKK_KIND_Q8_32,  /* int8 in blocks of 32, sums of each 32 */
    HKK_KIND_Q8_256, /* int8 in blocks of 256, sums of each 16 */
    HKK_KINDS
};

/* What weights of TYPE (any number) are multiplied with. */
enum hkk_kind hkk_kind_of(unsigned type);

/* Elements in a block of TYPE: the columns of a matrix of that type are a multiple of it. 0: none.
 */
size_t hkk_block_elems(unsigned type);
/* Bytes of a row of COLS elements. */
size_t hkk_row_bytes(unsigned type, size_t cols);

/* N tokens of COLS numbers each. F32: x only, which is the caller's own array. Q8: q[n][cols],
 * d[n][blocks], sum[n][sums]; a number is q * d of its block. */
struct hkk_acts {
    enum hkk_kind kind;
    size_t n, cols;
    size_t blocks, sums; /* of one token */
    const float *x;
    int8_t *q;
    float *d;
    int16_t *sum;
    void *tiles; /* NULL, or memory of hkk_table.tiles_bytes() for the same once more */
};

enum { HKK_ALIGN = 64 }; /* alignment of memory for activations and scratch */

/* Bytes of memory for N tokens of COLS numbers as KIND; 0 for F32. A multiple of HKK_ALIGN. N times
 * COLS must be below SIZE_MAX / 4. */
size_t hkk_acts_bytes(enum hkk_kind kind, size_t n, size_t cols);
/* Lay the arrays of A out in MEMORY, which has that many bytes and is aligned. Nothing is written:
 * hkk_table.quantize does that. X is what the numbers are made from, [n][cols]. */
void hkk_acts_place(struct hkk_acts *a, enum hkk_kind kind, const float *x, size_t n, size_t cols,
                    void *memory);

/* ---- weights ---- */

struct hkk_matrix {
    const uint8_t *data; /* rows one after the other, at any address */
    size_t cols;
};

/* y[t * stride + r] = row r of W times token t, for r in [row0, row0 + rows) and all tokens of A.
 * SCRATCH is this thread's, of hkk_table.scratch_bytes() bytes. */
typedef void hkk_matmul_fn(const struct hkk_matrix *w, size_t row0, size_t rows,
                           const struct hkk_acts *a, float *y, size_t stride, void *scratch);

/* ---- products of low rank ---- */

struct hkk_low_rank {
    const float *b; /* [rank][stride] */
    size_t stride, rank;
};

/* ---- attention ---- */

enum {
    HKK_SEGMENT = 256, /* positions in a segment of the cache */
    HKK_TILE = 16,     /* positions whose keys are stored together */
    HKK_QUERIES = 96,  /* queries that widened keys and values serve */
};

/* One kv head's part of one segment, halves in the host's byte order. Keys lie as
 * [tile][key_dim][16], values as [position][value_dim]. */
struct hkk_segment {
    const uint16_t *keys, *values;
    size_t key_dim, value_dim;
    float scale;    /* of scores */
    float soft_cap; /* they become soft_cap * tanh(score / soft_cap) then; 0: they do not */
};

/* Softmax-weighted values of one segment of a head's past, or of several merged. */
struct hkk_attention {
    float max;          /* of scores */
    float denominator;  /* sum of e^(score - max) */
    float *accumulator; /* sums of values times e^(score - max), one for each value dimension */
};

struct hkk_query {
    const float *q;           /* key_dim numbers */
    size_t first, end;        /* positions of this segment that it attends to; end 0..256 */
    struct hkk_attention out; /* out.accumulator is the caller's; all three are overwritten */
};

/* ---- functions of one number ---- */

/* clang-format off */
#define HKK_FUNCTION_LIST(X) \
    X(SILU,     silu)     /* x * sigmoid(x) */ \
    X(GELU,     gelu)     /* the tanh form */ \
    X(GELU_ERF, gelu_erf) /* x times the normal distribution up to x */ \
    X(RELU_2,   relu_2)   /* max(x, 0) squared */ \
    X(SIGMOID,  sigmoid)  \
    X(SOFTPLUS, softplus) /* ln(1 + e^x) */
/* clang-format on */

enum hkk_function {
#define FUNCTION(SYMBOL, name) HKK_##SYMBOL,
    HKK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION
        HKK_FUNCTIONS
};

/* ---- choosing experts ---- */

enum { HKK_MAX_GROUPS = 64 };

struct hkk_router {
    size_t experts, chosen;     /* of how many, and how many, which is at least 1 */
    bool sigmoid;               /* of each score; else softmax over all */
    const float *bias;          /* [experts], added for the choice alone; or NULL */
    size_t groups, kept_groups; /* experts are from the best groups only, which have at least as
                                   many as are chosen. Groups are of equal size, follow each other
                                   and are at most HKK_MAX_GROUPS; 0: from all */
    size_t group_best;          /* a group is as good as the sum of its best, 1 or 2 of them */
    bool normalise;             /* divide by the sum of those chosen, to which this is added: */
    float epsilon;              /* then, in this order, */
    float scale;                /* times this */
    const float *expert_scale;  /* [experts], and times this of the expert; or NULL */
};

/* ---- the table of one level ---- */

struct hkk_table {
    const char *name;

    /* Bytes that quantize() may have at acts.tiles, aligned as scratch, to leave the tokens there
     * as this level's products want them. Without, each product has to do that itself, with the
     * same results. NULL: the level has no use for it. */
    size_t (*tiles_bytes)(enum hkk_kind kind, size_t n, size_t cols);
    /* Fill the tokens FIRST..FIRST+N of A, which hkk_acts_place() laid out. Nothing for F32. */
    void (*quantize)(const struct hkk_acts *a, size_t first, size_t n);

    hkk_matmul_fn *matmul[HKK_TYPES]; /* by enum hkk_type; NULL where there is none */
    /* Scratch for products with N tokens of COLS numbers, for any type. */
    size_t (*scratch_bytes)(size_t cols, size_t n);

    /* Of each of ROWS rows of N, one behind the other: out[i] = (x[i] * s) * w[i] with
     * s = 1 / sqrt(sum of squares / n + epsilon). OUT may be X; W NULL: ones. */
    void (*rms_norm)(float *out, const float *x, const float *w, size_t n, size_t rows,
                     float epsilon);
    /* out[i] = x[i] / sqrt(sum of squares + epsilon). OUT may be X. */
    void (*l2_norm)(float *out, const float *x, size_t n, float epsilon);
    /* out[i] = (x[i] - mean) * s * w[i] + b[i], with s of x - mean. OUT may be X; W and B may be
     * NULL. */
    void (*layer_norm)(float *out, const float *x, const float *w, const float *b, size_t n,
                       float epsilon);
    /* y[t * y_stride + i] += sum over k of b[k][row0 + i] * x[t * x_stride + k], for i below ROWS
     * and N tokens t. */
    void (*add_low_rank)(const struct hkk_low_rank *b, size_t row0, size_t rows, const float *x,
                         size_t x_stride, size_t n, float *y, size_t y_stride);
    void (*add)(float *x, const float *y, size_t n); /* x += y */
    void (*scale)(float *x, float s, size_t n);      /* x *= s */
    /* x[i] = function(x[i]); out[i] = function(x[i]) * y[i], where OUT may be X or Y. */
    void (*apply[HKK_FUNCTIONS])(float *x, size_t n);
    void (*apply_mul[HKK_FUNCTIONS])(float *out, const float *x, const float *y, size_t n);
    /* gate = (up + 1) * gate * sigmoid(alpha * gate), of gate at most LIMIT and up within -LIMIT
     * and LIMIT. */
    void (*clamped_swiglu)(float *gate, const float *up, size_t n, float alpha, float limit);
    void (*soft_cap)(float *x, float cap, size_t n); /* x = cap * tanh(x / cap) */
    /* x[i] = e^(x[i] - max), max that of x; gives the sum of them. */
    float (*softmax)(float *x, size_t n);
    /* Rotate PAIRS pairs of X, each by the angle that TURN has cosine and sine of. A pair is x[2i],
     * x[2i+1], and TURN is cosine, sine, cosine, sine, ...; with NEOX a pair is x[i], x[i+pairs],
     * and TURN all cosines, then all sines. Elements past the pairs stay as they are. */
    void (*rope)(float *x, const float *turn, size_t pairs, bool neox);

    /* Halves, nearest even. */
    void (*to_half)(uint16_t *out, const float *x, size_t n);
    /* The key of position POSITION (0..255) into its tile of a segment's keys. */
    void (*store_key)(uint16_t *keys, size_t position, const float *key, size_t key_dim);

    /* One segment for N queries of one kv head. SCRATCH as hkk_attend_scratch_bytes() says. */
    void (*attend)(const struct hkk_segment *s, struct hkk_query *query, size_t n, void *scratch);
    /* Put the segment that follows into A. */
    void (*merge)(struct hkk_attention *a, const struct hkk_attention *next, size_t value_dim);
    /* Put a score into A that has no value: it takes weight from the others. */
    void (*sink)(struct hkk_attention *a, float score, size_t value_dim);
    /* accumulator /= denominator: the attended value. */
    void (*finish)(struct hkk_attention *a, size_t value_dim);

    /* The R->chosen best experts to EXPERT, best first, equal ones by their number, and their
     * weights to WEIGHT. SCORE is [experts], and so is CHOICE, scratch; both are overwritten. */
    void (*route)(const struct hkk_router *r, float *score, float *choice, uint32_t *expert,
                  float *weight);
};

/* The same for all levels; a multiple of HKK_ALIGN. */
size_t hkk_attend_scratch_bytes(size_t key_dim, size_t value_dim);

/* ---- levels ---- */

struct hkk_level {
    const char *name;
    const struct hkk_table *table; /* NULL: not in this build */
    const char *why_not;           /* it cannot run here: one phrase; NULL if it can */
};

enum { HKK_MAX_LEVELS = 8 };
/* The levels of this processor's architecture, best first; gives their number. */
size_t hkk_levels(struct hkk_level level[HKK_MAX_LEVELS]);

/* The level NAME, or the best one that runs for NULL. NULL on success; else a phrase why there is
 * none, and *OUT is untouched. */
const char *hkk_select(const char *name, const struct hkk_table **out);

#endif
