/* bench.h: the pieces of hk-bench. */
#ifndef TOOL_BENCH_H
#define TOOL_BENCH_H

#include "engine/engine.h"
#include "tools/lib/engine_options.h"
#include "tools/lib/tool.h"

/* ---- what the command line says (hk-bench.c) ---- */

struct bench_sizes {
    size_t *n; /* free() it */
    size_t count;
};

struct bench_options {
    const char *path;
    struct bench_sizes prefill, depth, sequences;
    size_t decode, reps, prefill_depth;
    bool table, levels;
    struct engine_options engine;
};

/* ---- what is measured (bench_measure.c) ---- */

struct bench_speed {
    size_t n, depth, sequences;
    double median, least, most; /* tokens a second over the repetitions */
};

struct bench_speeds {
    struct bench_speed *speed;
    size_t count;
};

struct bench_result {
    const char *type; /* hk_model_facts() has these */
    uint64_t params, size;
    const char *kernels;
    unsigned threads;
    size_t batch;
    struct bench_speeds prefill, decode;
    double load_ms, first_token_ms;
    struct hke_memory memory;
    uint64_t peak;          /* most bytes resident at any time; 0: unknown */
    uint64_t kv;            /* bytes of keys and values, in whole segments */
    uint64_t kept, weights; /* bytes of weights that stay in memory, of how many */
};

/* Load the model, measure with O's kernels, unload it. *OUT is freed by the caller in any case. */
enum hk_status bench_measure(const struct bench_options *o, struct bench_result *out,
                             struct hk_error *err);
void bench_free(struct bench_result *r);

/* ---- what comes out (bench_report.c), on standard output ---- */

void bench_print_json(const struct bench_options *o, const struct bench_result *r);
void bench_print_table(const struct bench_options *o, const struct bench_result *r);

#endif
