/* The figures as JSON and as tables. */
#include <math.h>

#include "tools/bench.h"

/* Clocks and rates are not known more exactly than to three decimals. */
static json_t *rounded_json(double v)
{
    return tool_json_double(round(v * 1e3) / 1e3);
}

static const char *activations_name(const struct bench_options *o)
{
    return o->engine.context.activations == HKE_ACTIVATIONS_F32 ? "f32" : "q8";
}

/* ---- JSON ---- */

static json_t *speeds_json(const struct bench_speeds *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const struct bench_speed *v = &s->speed[i];
        json_t *o = json_object();
        tool_json_set(o, "n", tool_json_uint(v->n));
        tool_json_set(o, "depth", tool_json_uint(v->depth));
        tool_json_set(o, "sequences", tool_json_uint(v->sequences));
        tool_json_set(o, "tps", rounded_json(v->median));
        tool_json_set(o, "min", rounded_json(v->least));
        tool_json_set(o, "max", rounded_json(v->most));
        tool_json_push(list, o);
    }
    return list;
}

static json_t *bench_memory_json(const struct bench_result *r)
{
    json_t *o = json_object();
    tool_json_set(o, "private", tool_json_known(r->memory.private));
    tool_json_set(o, "mapped", tool_json_known(r->memory.mapped));
    tool_json_set(o, "peak", tool_json_known(r->peak));
    tool_json_set(o, "kv", tool_json_uint(r->kv));
    tool_json_set(o, "weights", tool_json_uint(r->weights));
    tool_json_set(o, "kept", tool_json_uint(r->kept));
    return o;
}

void bench_print_json(const struct bench_options *o, const struct bench_result *r)
{
    json_t *v = json_object();
    tool_json_set(v, "file", tool_json_text(o->path));
    tool_json_set(v, "model", tool_json_text(o->path)); /* its name before */
    tool_json_set(v, "type", tool_json_text(r->type));
    tool_json_set(v, "params", tool_json_uint(r->params));
    tool_json_set(v, "size", tool_json_uint(r->size));
    tool_json_set(v, "kernels", tool_json_text(r->kernels));
    tool_json_set(v, "threads", tool_json_uint(r->threads));
    tool_json_set(v, "gpu", json_null());
    tool_json_set(v, "batch", tool_json_uint(r->batch));
    tool_json_set(v, "activations", tool_json_text(activations_name(o)));
    tool_json_set(v, "reps", tool_json_uint(o->reps));
    tool_json_set(v, "prefill", speeds_json(&r->prefill));
    tool_json_set(v, "decode", speeds_json(&r->decode));
    tool_json_set(v, "load_ms", rounded_json(r->load_ms));
    tool_json_set(v, "first_token_ms", rounded_json(r->first_token_ms));
    tool_json_set(v, "memory", bench_memory_json(r));
    tool_json_print(v, stdout);
}

/* ---- tables ---- */

static void print_bench_facts(const struct bench_options *o, const struct bench_result *r)
{
    struct tool_table t = {.columns = 2, .right = "ll"};
    tool_cell(&t, "type");
    tool_cell(&t, "%s", r->type);
    tool_cell(&t, "parameters");
    tool_cell(&t, "%.2f million", (double)r->params / 1e6);
    tool_row_size(&t, "size", r->size);
    tool_cell(&t, "kernels");
    tool_cell(&t, "%s", r->kernels);
    tool_cell(&t, "threads");
    tool_cell(&t, "%u", r->threads);
    tool_cell(&t, "batch");
    tool_cell(&t, "%zu", r->batch);
    tool_cell(&t, "activations");
    tool_cell(&t, "%s", activations_name(o));
    tool_cell(&t, "load");
    tool_cell(&t, "%.1f ms, %.1f ms to the first token", r->load_ms, r->first_token_ms);
    tool_row_size(&t, "private memory", r->memory.private);
    tool_row_size(&t, "mapped memory", r->memory.mapped);
    tool_row_size(&t, "peak memory", r->peak);
    tool_row_size(&t, "keys and values", r->kv);
    tool_row_size(&t, "weights kept", r->kept);
    tool_table_print(&t, stdout);
}

static void speed_rows(struct tool_table *t, const char *what, const struct bench_speeds *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct bench_speed *v = &s->speed[i];
        tool_cell(t, "%s", what);
        tool_cell(t, "%zu", v->n);
        tool_cell(t, "%zu", v->depth);
        tool_cell(t, "%zu", v->sequences);
        tool_cell(t, "%.2f", v->median);
        tool_cell(t, "%.2f", v->least);
        tool_cell(t, "%.2f", v->most);
    }
}

void bench_print_table(const struct bench_options *o, const struct bench_result *r)
{
    struct tool_table t = {.columns = 7, .right = "lrrrrrr"};
    static const char *const titles[] = {"",           "tokens", "depth", "sequences",
                                         "per second", "min",    "max"};
    print_bench_facts(o, r);
    if (r->prefill.count + r->decode.count == 0)
        return;
    putchar('\n');
    tool_cell_titles(&t, titles);
    speed_rows(&t, "prefill", &r->prefill);
    speed_rows(&t, "decode", &r->decode);
    tool_table_print(&t, stdout);
}
