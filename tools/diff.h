/* diff.h: the pieces of hk-diff. */
#ifndef TOOL_DIFF_H
#define TOOL_DIFF_H

#include <math.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

enum { DIFF_METADATA = 1, DIFF_TENSORS = 2, DIFF_APPENDIX = 4, DIFF_ALL = 7 };

struct diff;

struct diff_options {
    unsigned parts;       /* which are compared */
    bool brief, json;     /* names only; JSON */
    double tolerance;     /* largest absolute error of tensors that count as same; NAN: none */
    double cosine;        /* least cosine of such tensors; NAN: none */
    const char **ignored; /* patterns of keys that are not compared */
    size_t ignored_count;
    uint64_t max_output; /* bytes of values compared; 0: the default */
    const struct hk_loop *loop;
};

/* ---- what belongs to what (diff_entries.c) ---- */

struct diff_key {
    struct hk_bytes name;
    uint64_t number; /* tells apart what has the same name */
};
struct diff_pair {
    size_t a, b; /* DIFF_NONE: not there */
};
#define DIFF_NONE SIZE_MAX

/* Pair what has the same key, several of one key in their order: first all of A in its order, then
 * what only B has in its order. A_COUNT + B_COUNT pairs at most, *COUNT of them; the caller's to
 * free. */
struct diff_pair *diff_join(const struct diff_key *a, size_t a_count, const struct diff_key *b,
                            size_t b_count, size_t *count);

/* ---- metadata (diff_entries.c) ---- */

struct diff_kv {
    const struct hk_kv *a, *b; /* NULL: not there */
    bool array;                /* both are arrays of one kind; the rest says how they differ */
    uint64_t count_a, count_b, differing, first;
    json_t *first_a, *first_b; /* elements FIRST; null past the end */
};
/* How the value of KV is called: its type in the GGUF or, where only one file is one, in .hk. */
const char *diff_kv_type(const struct diff_kv *d, const struct hk_kv *kv);

/* ---- tensors (diff_tensors.c, diff_values.c) ---- */

enum {
    DIFF_TYPE = 1,
    DIFF_SHAPE = 2,
    DIFF_LAYOUT = 4,
    DIFF_SPARSITY = 8,
    DIFF_BLOCK_SIZE = 16,
    DIFF_VALUES = 32,
    DIFF_BYTES = 64, /* stored alike, and not the same; values are equal or were not compared */
    DIFF_WAYS = 7,
};
extern const char *const diff_ways[DIFF_WAYS]; /* "type", "shape", ... by bit */

struct diff_sums { /* of elements compared */
    uint64_t elements, differing;
    uint64_t first; /* index of the first that differs, row-major */
    double first_a, first_b;
    uint64_t finite; /* pairs with two finite values: the sums are over them */
    double largest;  /* absolute difference */
    uint64_t largest_at;
    double error2, a2, b2, ab; /* sums of (a - b)^2, a^2, b^2, a b */
    uint64_t nan_a, nan_b, inf_a, inf_b;
    uint64_t unlike; /* pairs of which one is not finite and the other not the same */
};

enum diff_way {                 /* how the values were compared */
                DIFF_BY_BYTES,  /* equal, without decoding */
                DIFF_BY_VALUES, /* after decoding: see SUMS */
                DIFF_NOT,       /* not at all: see WHY */
};

struct diff_tensor {
    const struct hk_tensor *a, *b; /* NULL: not there */
    unsigned differs;              /* DIFF_TYPE and so on; 0 also for what is only in one */
    enum diff_way way;
    char *why; /* NULL: not asked for */
    struct diff_sums sums;
    struct hk_decoder *decoder_a, *decoder_b; /* while its elements are compared */
    uint64_t head_rows; /* of a tensor whose rows B has in the other order; 0 for all others */
};
double diff_rmse(const struct diff_sums *s);
double diff_relative(const struct diff_sums *s); /* RMSE by the root mean square of A; NAN: x / 0 */
double diff_cosine(const struct diff_sums *s);   /* NAN: one of them is all zero */

/* T is not compared, for the reason WHY. */
void diff_give_up(struct diff_tensor *t, const char *why);
/* Whether BYTES more, counted in *SUM, are within what may be read of D's files; if not, T is given
 * up. */
bool diff_affordable(const struct diff *d, struct diff_tensor *t, uint64_t bytes, uint64_t *sum);

/* Compare elements of those of COUNT pairs whose way is DIFF_BY_VALUES; it becomes DIFF_NOT where
 * that cannot be done. */
void diff_values(const struct diff *d, struct diff_tensor *tensors, size_t count);

/* ---- appendix (diff_entries.c) ---- */

enum { DIFF_FIELDS = 8 };
extern const char *const diff_fields[DIFF_FIELDS]; /* "target", ... by bit */

struct diff_record {
    const struct hk_record *a, *b; /* NULL: not there */
    unsigned differs;              /* bits of diff_fields */
};

/* ---- all of it ---- */

struct diff {
    const char *name_a, *name_b;
    struct hk_file *a, *b;
    enum hk_rotation rotation_a, rotation_b;
    const struct diff_options *options;
    struct diff_kv *kvs; /* only those that differ */
    size_t kv_count;
    uint64_t ignored;            /* keys left out that would differ */
    struct diff_tensor *tensors; /* only those that differ */
    size_t tensor_count;
    uint64_t same, tolerated;    /* tensors */
    struct diff_record *records; /* only those that differ */
    size_t record_count;
    bool differ;
};

/* Whether it is known of both models in which order they have rows that are rotated. */
bool diff_orders_known(const struct diff *d);

void diff_metadata(struct diff *d);
void diff_tensors(struct diff *d);
void diff_appendix(struct diff *d);

/* Coordinates of element I of T, outermost first. */
void diff_place(const struct hk_tensor *t, uint64_t i, uint64_t place[HK_MAX_DIMS]);
/* "added", "removed" or "changed". */
const char *diff_kind(bool in_a, bool in_b);

void diff_print_text(const struct diff *d);
void diff_print_json(const struct diff *d);

#endif
