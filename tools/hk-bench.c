/* hk-bench: how fast a model reads prompts and generates here, and what memory it takes. */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "tools/bench.h"

/* One object, or one set of tables, for each level: each is printed when it is there. */
static int run(const struct bench_options *o)
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

static int run_levels(struct bench_options *o)
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
        o->context.kernels = level[i].table;
        status = run(o);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    bench_parse(&o, argc, argv);
    int status = o.levels ? run_levels(&o) : run(&o);
    free(o.prefill.n);
    free(o.depth.n);
    return tool_end(status);
}
