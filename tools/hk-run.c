/* hk-run: generate text with a model file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tools/input.h"
#include "tools/tool.h"

enum { MAX_PROMPT = 1 << 30 };

enum option { OPT_BATCH, OPT_CTX, OPT_JSON, OPT_COUNT, OPT_TEMP };

static const struct tool_option options[] = {
    [OPT_BATCH] = {"batch", 0, "N", "evaluate N tokens of the prompt together (default 256)"},
    [OPT_CTX] = {"ctx", 0, "N", "room for N tokens (default: what the model was made for)"},
    [OPT_JSON] = {"json", 0, NULL, "print one JSON object instead of the text"},
    [OPT_COUNT] = {"max-tokens", 'n', "N", "generate at most N tokens"},
    [OPT_TEMP] = {"temp", 0, "T", "temperature; only 0, the likeliest token each time"},
};

static const struct tool tool = {
    .name = "hk-run",
    .operands = "FILE [PROMPT...]",
    .about = "Generate text that goes on from a prompt (or from standard input).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct run {
    const char *path;
    char **prompt_words; /* none: standard input */
    int prompt_count;
    struct hke_context_options context;
    size_t most;
    bool json;

    struct hk_file *file;
    struct hke_tokenizer *tokenizer;
    struct hke_model *model;
    struct hke_context *ctx;
    struct hke_ids prompt, generated;
    struct hke_stream stream;
    struct hke_text text; /* all of it with --json, else what is being written */
    struct hke_generated result;
    struct hk_error err;
    enum hk_status status; /* of a callback */
    const char *about;     /* what err is about: the model, or standard input */
};

/* ---- options ---- */

static void parse(struct run *r, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        switch ((enum option)o) {
        case OPT_BATCH:
            r->context.batch = tool_uint("batch", value, 1, HKE_MAX_BATCH);
            break;
        case OPT_CTX:
            r->context.positions = tool_uint("ctx", value, 1, HKE_MAX_POSITIONS);
            break;
        case OPT_JSON:
            r->json = true;
            break;
        case OPT_COUNT:
            r->most = tool_uint("max-tokens", value, 0, HKE_MAX_POSITIONS);
            break;
        case OPT_TEMP:
            if (tool_double("temp", value, 0, 100) != 0)
                tool_usage("--temp: only 0 is available so far, not %s", value);
            break;
        }
    }
    if (args.operand_count == 0)
        tool_usage("no model file");
    r->path = args.operands[0];
    r->prompt_words = args.operands + 1;
    r->prompt_count = args.operand_count - 1;
    if (strcmp(r->path, "-") == 0 && r->prompt_count == 0)
        tool_usage("standard input is the model: the prompt has to be an argument");
}

/* ---- prompt ---- */

static enum hk_status join_words(const struct run *r, uint8_t **out, size_t *n,
                                 struct hk_error *err)
{
    size_t size = 0;
    for (int i = 0; i < r->prompt_count; i++)
        size += strlen(r->prompt_words[i]) + 1;
    char *text = malloc(size), *at = text;
    if (text == NULL)
        return hk_fail_nomem(err);
    for (int i = 0; i < r->prompt_count; i++) {
        at = stpcpy(at, r->prompt_words[i]);
        *at++ = ' ';
    }
    *out = (uint8_t *)text;
    *n = size - 1;
    return HK_OK;
}

static enum hk_status read_prompt(struct run *r)
{
    uint8_t *p = NULL;
    size_t n = 0;
    r->about = r->prompt_count > 0 ? "prompt" : "-";
    enum hk_status st = r->prompt_count > 0 ? join_words(r, &p, &n, &r->err)
                                            : tool_read_all(&p, &n, MAX_PROMPT, &r->err);
    if (st == HK_OK && n == 0 && r->prompt_count == 0)
        st = hk_fail(&r->err, HK_E_USE, HK_NO_OFFSET, "empty: there is no prompt");
    if (st == HK_OK)
        st =
            hke_encode(r->tokenizer, (struct hk_bytes){p, n}, HKE_ADD_SPECIAL, &r->prompt, &r->err);
    free(p);
    return st;
}

/* ---- output ---- */

/* On a terminal the model must not send control sequences. */
static void write_text(const struct hke_text *text)
{
    if (isatty(STDOUT_FILENO) == 0) {
        fwrite(text->p, 1, text->n, stdout);
        return;
    }
    for (size_t at = 0, n; at < text->n; at += n) {
        struct hk_bytes c = {text->p + at, 1};
        uint32_t code = 0;
        n = tool_utf8(c.p, text->n - at, &code);
        c.n = n = n > 0 ? n : 1;
        if (*c.p == '\n' || *c.p == '\t')
            putchar(*c.p);
        else
            tool_escape(stdout, c);
    }
}

/* A failure is kept with its reason, which tool_end() could not tell any more. */
static enum hk_status flush_text(struct run *r)
{
    if (r->json)
        return HK_OK;
    errno = 0;
    write_text(&r->text);
    r->text.n = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return HK_OK;
    int reason = errno != 0 ? errno : EIO;
    clearerr(stdout);
    r->about = "standard output";
    return hk_fail_sys(&r->err, reason, "cannot write");
}

static bool take_token(void *arg, uint32_t id)
{
    struct run *r = arg;
    r->generated.id[r->generated.n++] = id;
    r->status = hke_stream_push(&r->stream, id, &r->text, &r->err);
    if (r->status == HK_OK)
        r->status = flush_text(r);
    return r->status == HK_OK;
}

static enum hk_status generate(struct run *r)
{
    size_t room = hke_context_positions(r->ctx) + 1;
    r->generated.id = calloc(r->most < room ? r->most + 1 : room, sizeof *r->generated.id);
    if (r->generated.id == NULL)
        return hk_fail_nomem(&r->err);
    const struct hke_generate_options opt = {
        .prompt = r->prompt.id,
        .prompt_count = r->prompt.n,
        .most = r->most,
        .tokenizer = r->tokenizer,
        .token = take_token,
        .arg = r,
    };
    hke_stream_start(&r->stream, r->tokenizer, HKE_CONTINUE);
    enum hk_status st = hke_generate(r->ctx, &opt, &r->result, &r->err);
    if (st == HK_OK)
        st = r->status;
    if (st == HK_OK)
        st = hke_stream_end(&r->stream, &r->text, &r->err);
    if (st == HK_OK)
        st = flush_text(r);
    if (st == HK_OK && !r->json && isatty(STDOUT_FILENO) != 0)
        putchar('\n');
    return st;
}

/* ", N a second", or nothing where nothing was measured. */
static void rate_text(char *out, size_t size, size_t tokens, double seconds)
{
    out[0] = '\0';
    if (tokens > 0 && seconds > 0)
        snprintf(out, size, ", %.1f a second", (double)tokens / seconds);
}

static void print_statistics(const struct run *r)
{
    const double mib = 1 << 20;
    char prompt[48], decode[48];
    struct hke_memory m = hke_memory_now();
    rate_text(prompt, sizeof prompt, r->prompt.n, r->result.prompt_seconds);
    rate_text(decode, sizeof decode, r->result.decoded, r->result.decode_seconds);
    tool_warn(NULL,
              "prompt: %zu tokens%s; generated: %zu tokens%s; memory: %.1f MiB private, "
              "%.1f MiB mapped",
              r->prompt.n, prompt, r->result.count, decode, (double)m.private / mib,
              (double)m.mapped / mib);
}

static json_t *rate_json(size_t tokens, double seconds)
{
    return tokens > 0 && seconds > 0 ? tool_json_double((double)tokens / seconds) : json_null();
}

static void print_json(const struct run *r)
{
    struct hke_memory m = hke_memory_now();
    json_t *o = json_object(), *tokens = json_array(), *usage = json_object();
    json_t *timings = json_object(), *memory = json_object();
    for (size_t i = 0; i < r->generated.n; i++)
        tool_json_push(tokens, tool_json_uint(r->generated.id[i]));
    tool_json_set(usage, "prompt_tokens", tool_json_uint(r->prompt.n));
    tool_json_set(usage, "completion_tokens", tool_json_uint(r->result.count));
    tool_json_set(timings, "prompt_tps", rate_json(r->prompt.n, r->result.prompt_seconds));
    tool_json_set(timings, "decode_tps", rate_json(r->result.decoded, r->result.decode_seconds));
    tool_json_set(memory, "private", m.private > 0 ? tool_json_uint(m.private) : json_null());
    tool_json_set(memory, "mapped", m.mapped > 0 ? tool_json_uint(m.mapped) : json_null());
    tool_json_set(o, "text", tool_json_bytes((struct hk_bytes){r->text.p, r->text.n}));
    tool_json_set(o, "tokens", tokens);
    tool_json_set(o, "finish_reason",
                  tool_json_text(r->result.finish == HKE_FINISH_STOP ? "stop" : "length"));
    tool_json_set(o, "usage", usage);
    tool_json_set(o, "timings", timings);
    tool_json_set(o, "memory", memory);
    tool_json_print(o, stdout);
}

/* ---- the job ---- */

static enum hk_status load(struct run *r)
{
    r->about = r->path;
    enum hk_status st = tool_open(&r->file, r->path, &r->err);
    if (st == HK_OK)
        st = hke_model_new(&r->model, r->file, &r->err);
    if (st == HK_OK)
        st = hke_tokenizer_new(&r->tokenizer, r->file, &r->err);
    return st;
}

static enum hk_status run(struct run *r)
{
    enum hk_status st = load(r);
    if (st == HK_OK)
        st = read_prompt(r);
    if (st == HK_OK) {
        r->about = r->path;
        st = hke_context_new(&r->ctx, r->model, &r->context, &r->err);
    }
    if (st == HK_OK)
        st = generate(r);
    return st;
}

static void release(struct run *r)
{
    hke_ids_free(&r->prompt);
    hke_ids_free(&r->generated);
    hke_text_free(&r->text);
    hke_context_free(&r->ctx);
    hke_tokenizer_free(&r->tokenizer);
    hke_model_free(&r->model);
    hk_close(&r->file);
}

int main(int argc, char **argv)
{
    struct run r = {.most = SIZE_MAX};
    parse(&r, argc, argv);
    int status = TOOL_OK;
    if (run(&r) != HK_OK)
        status = tool_error(r.about, &r.err);
    else if (r.json)
        print_json(&r);
    else
        print_statistics(&r);
    release(&r);
    return tool_end(status);
}
