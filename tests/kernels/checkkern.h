/* What the parts of checkkern share: options, random numbers, guarded buffers, comparison. */
#ifndef CHECKKERN_H
#define CHECKKERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct options {
    const char *level, *kernel; /* NULL: all; a pattern as of fnmatch() */
    uint64_t seed;
    unsigned repeat, threads, tokens;
    bool list, bench, json;
};

/* ---- random numbers: the same from the same seed on every machine ---- */

struct random {
    uint64_t state;
};

static inline uint64_t random_bits(struct random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline size_t random_below(struct random *r, size_t n)
{
    return (size_t)(random_bits(r) % n);
}

/* -1..1, more near 0. */
static inline float random_float(struct random *r)
{
    float a = (float)(int32_t)random_bits(r) * 0x1p-31f,
          b = (float)(int32_t)random_bits(r) * 0x1p-31f;
    return a * b;
}

/* ---- buffers between unreadable pages ---- */

enum place { AT_END, AT_START, PLACES };

struct buffer {
    uint8_t *map;
    size_t map_bytes;
    uint8_t *p; /* BYTES bytes; the rest of its pages holds a pattern */
    size_t bytes;
};

/* BYTES bytes that end where an unreadable page begins, or that begin OFFSET after one. Zeros. Ends
 * the program when there is no memory. */
struct buffer buffer_new(size_t bytes, enum place place, size_t offset);
/* Whether nothing around the bytes was written. */
bool buffer_intact(const struct buffer *b);
void buffer_free(struct buffer *b);

/* ---- one run of one kernel ---- */

struct run {
    const struct hkk_table *level, *reference;
    struct random random;
    enum place place;
    char what[200]; /* the first difference, in words */
};

/* Bit for bit, but that any NaN equals any NaN; else the first difference goes into R's words,
 * after NOTE. */
bool same_floats(struct run *r, const float *a, const float *b, size_t n, const char *note);
bool same_bytes(struct run *r, const void *a, const void *b, size_t n, const char *note);
__attribute__((format(printf, 2, 3))) bool differs(struct run *r, const char *fmt, ...);

/* Numbers for a kernel to choke on: kind 0 ordinary, 1 zeros, 2 constant and large, 3 subnormal, 4
 * of all magnitudes, 5 infinities, NaN and the like among ordinary ones. */
enum { FLOAT_KINDS = 6 };
void random_floats(struct random *r, float *x, size_t n, unsigned kind);

struct kernel {
    char name[32];
    unsigned type; /* of matmul */
    /* Compare R's level with its reference on new random inputs of hostility ROUND. */
    bool (*check)(struct run *r, unsigned type, unsigned round);
    unsigned rounds;
    /* Compare the reference with double arithmetic; NULL if that says nothing. */
    bool (*define)(struct run *r, unsigned type);
};

/* All kernels; COUNT of them. */
const struct kernel *kernels_all(size_t *count);

/* matmul.c */
bool check_matmul(struct run *r, unsigned type, unsigned round);
bool define_matmul(struct run *r, unsigned type);
enum { MATMUL_ROUNDS = 60 };
/* Products of 1, 2, .. 17 tokens. */
bool check_few_tokens(struct run *r, unsigned type, unsigned round);
/* Weights of TYPE: any codes, scales as HOSTILITY says (0: ordinary). */
void random_weights(struct random *r, unsigned type, uint8_t *w, size_t bytes, unsigned hostility);
/* low_rank.c */
bool check_add_low_rank(struct run *r, unsigned type, unsigned round);
bool define_add_low_rank(struct run *r, unsigned type);
/* rows.c */
bool check_quantize(struct run *r, unsigned kind, unsigned round);
bool define_quantize(struct run *r, unsigned kind);
bool check_rms_norm(struct run *r, unsigned type, unsigned round);
bool define_rms_norm(struct run *r, unsigned type);
bool check_add(struct run *r, unsigned type, unsigned round);
bool check_scale(struct run *r, unsigned type, unsigned round);
bool check_l2_norm(struct run *r, unsigned type, unsigned round);
bool define_l2_norm(struct run *r, unsigned type);
bool check_layer_norm(struct run *r, unsigned type, unsigned round);
bool define_layer_norm(struct run *r, unsigned type);
#define FUNCTION(SYMBOL, name)                                                                     \
    bool check_##name(struct run *r, unsigned type, unsigned round);                               \
    bool check_##name##_mul(struct run *r, unsigned type, unsigned round);                         \
    bool define_##name(struct run *r, unsigned type);
HKK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION
bool check_clamped_swiglu(struct run *r, unsigned type, unsigned round);
bool define_clamped_swiglu(struct run *r, unsigned type);
bool check_soft_cap(struct run *r, unsigned type, unsigned round);
bool define_soft_cap(struct run *r, unsigned type);
bool check_softmax(struct run *r, unsigned type, unsigned round);
bool define_softmax(struct run *r, unsigned type);
bool check_rope(struct run *r, unsigned type, unsigned round);
bool define_rope(struct run *r, unsigned type);
bool check_to_half(struct run *r, unsigned type, unsigned round);
bool define_to_half(struct run *r, unsigned type);
/* attend.c */
enum { ATTEND_FEW = 8, ATTEND_MANY = HKK_QUERIES };
bool check_attend(struct run *r, unsigned queries, unsigned round);
bool define_attend(struct run *r, unsigned queries);
bool check_window(struct run *r, unsigned queries, unsigned round);
bool check_store_key(struct run *r, unsigned type, unsigned round);
bool check_merge(struct run *r, unsigned type, unsigned round);
bool check_finish(struct run *r, unsigned type, unsigned round);
bool check_sink(struct run *r, unsigned type, unsigned round);
bool define_sink(struct run *r, unsigned type);
/* route.c */
bool check_route(struct run *r, unsigned type, unsigned round);
bool define_route(struct run *r, unsigned type);
/* bench.c */
int bench(const struct options *o);

#endif
