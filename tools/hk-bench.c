/* hk-bench: how fast a model reads prompts and generates here, and what memory it takes. */
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/pool.h"
#include "kernels/kernels.h"
#include "tools/bench.h"

/* ---- options ---- */

enum {
    DEFAULT_PREFILL = 512,
    DEFAULT_DECODE = 64,
    DEFAULT_REPS = 5,
    DEFAULT_BATCH = 512,
    MAX_REPS = 10000,
};

enum option {
    OPT_ADAPTER,
    OPT_DECODE,
    OPT_DEPTH,
    OPT_JSON,
    OPT_LEVELS,
    OPT_PREFILL,
    OPT_PREFILL_DEPTH,
    OPT_REPS,
    OPT_SEQUENCES,
    OPT_TABLE,
};

static const struct tool_option options[] = {
    [OPT_ADAPTER] = ENGINE_OPTION_ADAPTER,
    [OPT_DECODE] = {"decode", 0, "N", "time N tokens one by one (default 64; 0: do not)"},
    [OPT_DEPTH] = {"depth", 0, "N",
                   "decode after N tokens (default 0); may be given several times"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_LEVELS] = {"levels", 0, NULL, "measure every level of kernels that can run here"},
    [OPT_PREFILL] = {"prefill", 0, "N",
                     "time a prompt of N tokens (default 512; 0: do not); may be given several "
                     "times"},
    [OPT_PREFILL_DEPTH] = {"prefill-depth", 0, "N", "time prompts after N tokens (default 0)"},
    [OPT_REPS] = {"reps", 0, "N", "repeat each measurement N times (default 5)"},
    [OPT_SEQUENCES] = {"sequences", 0, "N",
                       "decode N texts at once (default 1); may be given several times"},
    [OPT_TABLE] = TOOL_OPTION_TABLE,
};

static const struct tool tool = {
    .name = "hk-bench",
    .operands = "FILE",
    .about = "Measure how fast a model reads prompts and generates, and its memory, as JSON.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .group = &engine_options_group,
};

/* Room for one of each argument, and for the default. */
static void make_size_list(struct bench_sizes *s, int argc)
{
    s->n = calloc((size_t)argc + 1, sizeof *s->n);
    if (s->n == NULL)
        tool_nomem();
}

static void add_bench_size(struct bench_sizes *s, const char *value)
{
    s->n[s->count++] = tool_uint(value, 0, HKE_MAX_POSITIONS);
}

static void set_bench_option(struct bench_options *o, enum option option, const char *value)
{
    switch (option) {
    case OPT_ADAPTER:
        engine_options_add_adapter(&o->engine, value);
        break;
    case OPT_DECODE:
        o->decode = tool_uint(value, 0, HKE_MAX_POSITIONS);
        break;
    case OPT_DEPTH:
        add_bench_size(&o->depth, value);
        break;
    case OPT_PREFILL:
        add_bench_size(&o->prefill, value);
        break;
    case OPT_PREFILL_DEPTH:
        o->prefill_depth = tool_uint(value, 0, HKE_MAX_POSITIONS);
        break;
    case OPT_REPS:
        o->reps = tool_uint(value, 1, MAX_REPS);
        break;
    case OPT_SEQUENCES:
        o->sequences.n[o->sequences.count++] = tool_uint(value, 1, HKE_MAX_BATCH);
        break;
    case OPT_LEVELS:
        o->levels = true;
        break;
    case OPT_JSON:
    case OPT_TABLE:
        o->table = option == OPT_TABLE;
        break;
    }
}

static void set_bench_defaults(struct bench_options *o)
{
    if (o->prefill.count == 0)
        o->prefill.n[o->prefill.count++] = DEFAULT_PREFILL;
    if (o->depth.count == 0)
        o->depth.n[o->depth.count++] = 0;
    if (o->sequences.count == 0)
        o->sequences.n[o->sequences.count++] = 1;
    if (o->levels && o->engine.context.threads == 0)
        o->engine.context.threads = tool_threads();
    else if (!o->levels)
        engine_options_settle(&o->engine);
}

static void parse_bench_options(struct bench_options *o, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin_group(&args, &tool, &o->engine, argc, argv);
    *o = (struct bench_options){
        .decode = DEFAULT_DECODE,
        .reps = DEFAULT_REPS,
        .engine = {.context = {.batch = DEFAULT_BATCH}},
    };
    make_size_list(&o->prefill, argc);
    make_size_list(&o->depth, argc);
    make_size_list(&o->sequences, argc);
    for (int option; (option = tool_next(&args, &value)) >= 0;)
        set_bench_option(o, (enum option)option, value);
    tool_check_operands(&args, "FILE");
    o->path = args.operands[0];
    set_bench_defaults(o);
}

/* ---- the program ---- */

/* One object, or one set of tables, for each level: each is printed when it is there. */
static int bench_level(const struct bench_options *o)
{
    struct bench_result r;
    struct hk_error err;
    int status = TOOL_OK;
    if (bench_measure(o, &r, &err) != HK_OK)
        status = tool_error(o->path, &err);
    else if (o->table)
        bench_print_table(o, &r);
    else
        bench_print_json(o, &r);
    fflush(stdout);
    bench_free(&r);
    return status;
}

static int bench_levels(struct bench_options *o)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t n = hkk_levels(level);
    int status = TOOL_OK;
    bool first = true;
    for (size_t i = 0; i < n && status == TOOL_OK && ferror(stdout) == 0; i++) {
        if (level[i].table == NULL || level[i].why_not != NULL)
            continue;
        if (!first && o->table)
            putchar('\n');
        first = false;
        o->engine.context.kernels = level[i].table;
        status = bench_level(o);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    parse_bench_options(&o, argc, argv);
    int status = o.levels ? bench_levels(&o) : bench_level(&o);
    free(o.prefill.n);
    free(o.depth.n);
    free(o.sequences.n);
    engine_options_free(&o.engine);
    return tool_end(status);
}
