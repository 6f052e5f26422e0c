/* hk-run: generate text with a model file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run.h"

/* ---- the report ---- */

struct run_report {
    const char *path;
    const struct hke_text *text;
    const struct hke_ids *generated;
    size_t prompt_tokens;
    const char *finish;
    const struct hke_generated *times;
    const char *kernels;
    unsigned threads;
};

/* ", N a second", or nothing where nothing was measured. */
static void rate_text(char *out, size_t size, size_t tokens, double seconds)
{
    out[0] = '\0';
    if (tokens > 0 && seconds > 0)
        snprintf(out, size, ", %.1f a second", (double)tokens / seconds);
}

static void print_run_statistics(const struct run_report *r)
{
    if (!tool_wants_statistics())
        return;
    const double mib = 1 << 20;
    char prompt[48], decode[48];
    struct hke_memory m = hke_memory_now();
    rate_text(prompt, sizeof prompt, r->prompt_tokens, r->times->prompt_seconds);
    rate_text(decode, sizeof decode, r->times->decoded, r->times->decode_seconds);
    tool_note(NULL,
              "prompt: %zu tokens%s; generated: %zu tokens%s; memory: %.1f MiB private, "
              "%.1f MiB mapped; kernels: %s; threads: %u",
              r->prompt_tokens, prompt, r->generated->n, decode, (double)m.private / mib,
              (double)m.mapped / mib, r->kernels, r->threads);
}

static json_t *rate_json(size_t tokens, double seconds)
{
    return tokens > 0 && seconds > 0 ? tool_json_double((double)tokens / seconds) : json_null();
}

static void print_run_json(const struct run_report *r)
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
    tool_json_set(o, "file", tool_json_text(r->path));
    tool_json_set(o, "text", tool_json_bytes((struct hk_bytes){r->text->p, r->text->n}));
    tool_json_set(o, "tokens", tokens);
    tool_json_set(o, "finish_reason", tool_json_text(r->finish));
    tool_json_set(o, "usage", usage);
    tool_json_set(o, "timings", timings);
    tool_json_set(o, "memory", memory);
    tool_json_print(o, stdout);
}

/* ---- the run ---- */

enum { MAX_PROMPT = 1 << 30 };

struct run {
    struct run_options opt;
    struct hk_file *file;
    struct hke_tokenizer *tokenizer;
    struct hke_model *model;
    struct hke_context *ctx;
    struct hke_sampler *sampler;
    struct hke_stop *stop;
    struct hke_ids prompt, generated;
    struct hke_stream stream;
    struct hke_text piece; /* what a token gave, before stop strings are looked for */
    struct hke_text text;  /* all of it with --json, else what is being written */
    struct hke_generated result;
    const volatile sig_atomic_t *interrupt; /* the signal that ends the text, once there is one */
    bool prompted;                          /* the prompt is evaluated */
    struct hk_error err;
    enum hk_status status; /* of a callback */
    const char *about;     /* what err is about: the model, or standard input */
};

/* ---- prompt ---- */

static enum hk_status read_prompt_text(struct run *r, struct hk_bytes *out)
{
    uint8_t *p;
    if (r->opt.prompt_count > 0) {
        r->about = "prompt";
        return tool_join_words(r->opt.prompt_words, r->opt.prompt_count, out, &r->err);
    }
    r->about = "-";
    tool_tell_reading("the prompt");
    enum hk_status st = tool_read_all("-", &p, &out->n, MAX_PROMPT, &r->err);
    if (st != HK_OK)
        return st;
    out->p = p;
    if (!r->opt.exact && out->n > 0 && p[out->n - 1] == '\n')
        out->n--;
    return out->n > 0 ? HK_OK : hk_fail(&r->err, HK_E_USE, HK_NO_OFFSET, "the prompt is empty");
}

static enum hk_status encode_prompt(struct run *r)
{
    struct hk_bytes text = {NULL, 0};
    unsigned how = HKE_ADD_SPECIAL | HKE_ONE_BOS | (r->opt.special ? HKE_PARSE_SPECIAL : 0);
    enum hk_status st = read_prompt_text(r, &text);
    if (st == HK_OK)
        st = hke_encode(r->tokenizer, text, how, &r->prompt, &r->err);
    free((void *)(uintptr_t)text.p);
    return st;
}

/* ---- output ---- */

static enum hk_status write_text_so_far(struct run *r)
{
    if (r->opt.json || r->text.n == 0)
        return HK_OK;
    tool_print_text((struct hk_bytes){r->text.p, r->text.n});
    r->text.n = 0;
    enum hk_status st = tool_flush(&r->err);
    if (st != HK_OK)
        r->about = "standard output";
    return st;
}

/* Write what is certain of the piece. */
static enum hk_status pass_stop_strings(struct run *r)
{
    enum hk_status st =
        hke_stop_push(r->stop, (struct hk_bytes){r->piece.p, r->piece.n}, &r->text, &r->err);
    r->piece.n = 0;
    return st == HK_OK ? write_text_so_far(r) : st;
}

/* The bar of a long prompt, gone once it is evaluated. */
static bool watch_run(void *arg, double part)
{
    enum { PARTS = 1000 };
    struct run *r = arg;
    if (!r->prompted)
        tool_progress("prompt", (uint64_t)(part * PARTS), PARTS);
    return *r->interrupt == 0;
}

static void end_prompt_bar(struct run *r)
{
    if (!r->prompted)
        tool_progress("prompt", 1, 1);
    r->prompted = true;
}

static bool take_token(void *arg, uint32_t id)
{
    struct run *r = arg;
    end_prompt_bar(r);
    r->generated.id[r->generated.n++] = id;
    r->status = hke_stream_push(&r->stream, id, &r->piece, &r->err);
    if (r->status == HK_OK)
        r->status = pass_stop_strings(r);
    return r->status == HK_OK && !hke_stop_found(r->stop);
}

static enum hk_status end_generated_text(struct run *r)
{
    enum hk_status st = hke_stream_end(&r->stream, &r->piece, &r->err);
    if (st == HK_OK)
        st = pass_stop_strings(r);
    if (st == HK_OK)
        st = hke_stop_end(r->stop, &r->text, &r->err);
    if (st == HK_OK)
        st = write_text_so_far(r);
    if (st == HK_OK && !r->opt.json && !r->opt.exact)
        putchar('\n');
    return st;
}

static enum hk_status generate_text(struct run *r)
{
    size_t room = hke_context_positions(r->ctx) + 1, most = r->opt.most;
    r->generated.id = calloc(most < room ? most + 1 : room, sizeof *r->generated.id);
    if (r->generated.id == NULL)
        return hk_fail_nomem(&r->err);
    const struct hke_generate_options opt = {
        .prompt = r->prompt.id,
        .prompt_count = r->prompt.n,
        .max_tokens = most,
        .tokenizer = r->tokenizer,
        .token = take_token,
        .arg = r,
        .sampler = r->sampler,
    };
    hke_stream_start(&r->stream, r->tokenizer,
                     HKE_CONTINUE | (r->opt.special ? HKE_SHOW_SPECIAL : 0));
    enum hk_status st = hke_generate(r->ctx, &opt, &r->result, &r->err);
    end_prompt_bar(r);
    if (st == HK_OK)
        st = r->status;
    return st == HK_OK ? end_generated_text(r) : st;
}

static const char *finish_reason(const struct run *r)
{
    if (r->result.finish == HKE_FINISH_STOPPED)
        return "interrupted";
    return r->result.finish == HKE_FINISH_STOP || hke_stop_found(r->stop) ? "stop" : "length";
}

static void report_run(const struct run *r)
{
    const struct run_report report = {
        .path = r->opt.path,
        .text = &r->text,
        .generated = &r->generated,
        .prompt_tokens = r->prompt.n,
        .finish = finish_reason(r),
        .times = &r->result,
        .kernels = hke_context_kernels(r->ctx),
        .threads = hke_context_threads(r->ctx),
    };
    if (r->opt.json)
        print_run_json(&report);
    else
        print_run_statistics(&report);
}

/* ---- the job ---- */

static enum hk_status load_run_model(struct run *r)
{
    r->about = r->opt.path;
    enum hk_status st =
        engine_options_open(&r->opt.engine, r->opt.path, &r->file, &r->model, &r->err);
    if (st == HK_OK)
        st = hke_tokenizer_new(&r->tokenizer, r->file, &r->err);
    return st;
}

static enum hk_status prepare_run(struct run *r)
{
    r->about = r->opt.path;
    r->interrupt = tool_catch_interrupt();
    r->opt.engine.context.watch = watch_run;
    r->opt.engine.context.watch_arg = r;
    enum hk_status st = hke_context_new(&r->ctx, r->model, &r->opt.engine.context, &r->err);
    size_t vocab = hke_model_params(r->model)->vocab;
    if (st == HK_OK)
        st = hke_sampler_new(&r->sampler, &r->opt.sampling, vocab, &r->err);
    if (st == HK_OK)
        st = hke_stop_new(&r->stop, r->opt.stop, r->opt.stops, &r->err);
    return st;
}

static enum hk_status run_model(struct run *r)
{
    enum hk_status st = load_run_model(r);
    if (st == HK_OK)
        st = encode_prompt(r);
    if (st == HK_OK)
        st = prepare_run(r);
    return st == HK_OK ? generate_text(r) : st;
}

static void free_run(struct run *r)
{
    hke_ids_free(&r->prompt);
    hke_ids_free(&r->generated);
    hke_text_free(&r->piece);
    hke_text_free(&r->text);
    hke_stop_free(&r->stop);
    hke_sampler_free(&r->sampler);
    hke_context_free(&r->ctx);
    hke_tokenizer_free(&r->tokenizer);
    hke_model_free(&r->model);
    hk_close(&r->file);
    engine_options_free(&r->opt.engine);
    free(r->opt.stop);
}

int main(int argc, char **argv)
{
    struct run r = {0};
    run_parse(&r.opt, argc, argv);
    int status = TOOL_OK;
    if (run_model(&r) != HK_OK)
        status = tool_error(r.about, &r.err);
    else
        report_run(&r);
    if (status == TOOL_OK && r.result.finish == HKE_FINISH_STOPPED)
        status = tool_interrupted(*r.interrupt);
    free_run(&r);
    return tool_end(status);
}
