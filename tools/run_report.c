/* The text, its statistics and its JSON. */
#include "tools/run.h"

/* ", N a second", or nothing where nothing was measured. */
static void rate_text(char *out, size_t size, size_t tokens, double seconds)
{
    out[0] = '\0';
    if (tokens > 0 && seconds > 0)
        snprintf(out, size, ", %.1f a second", (double)tokens / seconds);
}

void run_print_statistics(const struct run_report *r)
{
    const double mib = 1 << 20;
    char prompt[48], decode[48];
    struct hke_memory m = hke_memory_now();
    rate_text(prompt, sizeof prompt, r->prompt_tokens, r->times->prompt_seconds);
    rate_text(decode, sizeof decode, r->times->decoded, r->times->decode_seconds);
    tool_warn(NULL,
              "prompt: %zu tokens%s; generated: %zu tokens%s; memory: %.1f MiB private, "
              "%.1f MiB mapped; kernels: %s; threads: %u",
              r->prompt_tokens, prompt, r->generated->n, decode, (double)m.private / mib,
              (double)m.mapped / mib, r->kernels, r->threads);
}

static json_t *rate_json(size_t tokens, double seconds)
{
    return tokens > 0 && seconds > 0 ? tool_json_double((double)tokens / seconds) : json_null();
}

void run_print_json(const struct run_report *r)
{
    struct hke_memory m = hke_memory_now();
    json_t *o = json_object(), *tokens = json_array(), *usage = json_object();
    json_t *timings = json_object(), *memory = json_object();
    for (size_t i = 0; i < r->generated->n; i++)
        tool_json_push(tokens, tool_json_uint(r->generated->id[i]));
    tool_json_set(usage, "prompt_tokens", tool_json_uint(r->prompt_tokens));
    tool_json_set(usage, "completion_tokens", tool_json_uint(r->generated->n));
    tool_json_set(timings, "prompt_tps", rate_json(r->prompt_tokens, r->times->prompt_seconds));
    tool_json_set(timings, "decode_tps", rate_json(r->times->decoded, r->times->decode_seconds));
    tool_json_set(memory, "private", m.private > 0 ? tool_json_uint(m.private) : json_null());
    tool_json_set(memory, "mapped", m.mapped > 0 ? tool_json_uint(m.mapped) : json_null());
    tool_json_set(o, "text", tool_json_bytes((struct hk_bytes){r->text->p, r->text->n}));
    tool_json_set(o, "tokens", tokens);
    tool_json_set(o, "finish_reason", tool_json_text(r->stopped ? "stop" : "length"));
    tool_json_set(o, "usage", usage);
    tool_json_set(o, "timings", timings);
    tool_json_set(o, "memory", memory);
    tool_json_print(o, stdout);
}
