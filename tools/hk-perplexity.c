/* hk-perplexity: how well a model predicts a text. */
#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/pool.h"
#include "engine/engine.h"
#include "tools/lib/engine_options.h"

enum { MAX_TEXT = 1 << 30, DEFAULT_CTX = 512 };

enum option {
    OPT_ADAPTER,
    OPT_CTX,
    OPT_FORCE,
    OPT_IDS,
    OPT_LOGITS,
};

static const struct tool_option options[] = {
    [OPT_ADAPTER] = ENGINE_OPTION_ADAPTER,
    [OPT_CTX] = {"ctx", 0, "N", "cut the text into windows of N tokens (default 512)"},
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_IDS] = TOOL_OPTION_IDS,
    [OPT_LOGITS] = {"logits", 0, "OUT", "write the logits of every position to OUT, as f32"},
};

static const struct tool tool = {
    .name = "hk-perplexity",
    .operands = "FILE",
    .about = "Measure the perplexity of a model on the text on standard input, as JSON.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .group = &engine_options_group,
    .statistics = true,
};

struct perplexity {
    const char *path, *logits_path;
    struct engine_options engine;
    bool ids_given, force;

    struct hk_file *file;
    struct hke_model *model;
    struct hke_context *ctx;
    struct hk_out *logits;
    struct hke_ids ids;
    size_t window, window_size; /* where the current window starts, and its length */
    double nll;                 /* sum over the positions scored */
    uint64_t scored;
    double seconds; /* that evaluating took */
    struct hk_error err;
    const char *about; /* what err is about */
};

static void set_perplexity_option(struct perplexity *p, enum option option, const char *value)
{
    switch (option) {
    case OPT_ADAPTER:
        engine_options_add_adapter(&p->engine, value);
        break;
    case OPT_CTX:
        p->engine.context.positions = tool_uint(value, 2, HKE_MAX_POSITIONS);
        break;
    case OPT_FORCE:
        p->force = true;
        break;
    case OPT_IDS:
        p->ids_given = true;
        break;
    case OPT_LOGITS:
        p->logits_path = value;
        break;
    }
}

static void parse_perplexity_options(struct perplexity *p, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin_group(&args, &tool, &p->engine, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_perplexity_option(p, (enum option)o, value);
    tool_check_operands(&args, "FILE");
    p->path = args.operands[0];
    if (tool_is_standard(p->path))
        tool_usage("the model cannot be standard input: the text is read from there");
    if (p->logits_path != NULL && tool_is_standard(p->logits_path))
        tool_usage("--logits: standard output is for the result; name a file");
    engine_options_settle(&p->engine);
}

/* ---- the text ---- */

static enum hk_status ids_of_bytes(struct perplexity *p, const uint8_t *b, size_t n)
{
    if (n % 4 != 0)
        return hk_fail(&p->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%zu bytes are not a whole number of 4-byte ids", n);
    p->ids.id = calloc(n / 4 + 1, sizeof *p->ids.id);
    if (p->ids.id == NULL)
        return hk_fail_nomem(&p->err);
    for (size_t i = 0; i < n; i++)
        p->ids.id[i / 4] |= (uint32_t)b[i] << (8 * (i % 4));
    p->ids.n = n / 4;
    return HK_OK;
}

static enum hk_status ids_of_text(struct perplexity *p, struct hk_bytes text)
{
    struct hke_tokenizer *t;
    p->about = p->path;
    enum hk_status st = hke_tokenizer_new(&t, p->file, &p->err);
    if (st != HK_OK)
        return st;
    p->about = "-";
    st = hke_encode(t, text, 0, &p->ids, &p->err);
    hke_tokenizer_free(&t);
    return st;
}

static enum hk_status check_scored_ids(struct perplexity *p)
{
    uint32_t vocab = hke_model_params(p->model)->vocab;
    for (size_t i = 0; i < p->ids.n; i++)
        if (p->ids.id[i] >= vocab)
            return hk_fail(&p->err, HK_E_RANGE, HK_NO_OFFSET,
                           "token %zu is %u, but the vocabulary has %u tokens", i, p->ids.id[i],
                           vocab);
    return HK_OK;
}

static enum hk_status read_scored_ids(struct perplexity *p)
{
    uint8_t *b = NULL;
    size_t n = 0;
    p->about = "-";
    tool_tell_reading(p->ids_given ? "token ids" : "the text");
    enum hk_status st = tool_read_all(&b, &n, MAX_TEXT, &p->err);
    if (st == HK_OK)
        st = p->ids_given ? ids_of_bytes(p, b, n) : ids_of_text(p, (struct hk_bytes){b, n});
    free(b);
    if (st == HK_OK && p->ids.n < 2)
        st =
            hk_fail(&p->err, HK_E_RANGE, HK_NO_OFFSET, "need at least 2 tokens, got %zu", p->ids.n);
    return st == HK_OK ? check_scored_ids(p) : st;
}

/* ---- measuring ---- */

/* N floats, little-endian whatever the host is. */
static enum hk_status write_logits(struct hk_out *out, const float *logits, size_t n,
                                   struct hk_error *err)
{
    enum { PIECE = 1024 };
    uint32_t bits[PIECE];
    enum hk_status st = HK_OK;
    for (size_t at = 0; at < n && st == HK_OK; at += PIECE) {
        size_t count = n - at < PIECE ? n - at : PIECE;
        memcpy(bits, logits + at, count * sizeof *bits);
        for (size_t i = 0; i < count; i++)
            bits[i] = htole32(bits[i]);
        st = hk_out_write(out, bits, count * sizeof *bits, err);
    }
    return st;
}

static enum hk_status score_position(void *arg, size_t position, const float *logits, size_t vocab,
                                     struct hk_error *err)
{
    struct perplexity *p = arg;
    enum hk_status st = HK_OK;
    if (position + 1 < p->window_size) {
        double nll = 0;
        st = hke_nll(logits, vocab, p->ids.id[p->window + position + 1], &nll, err);
        p->nll += nll;
        p->scored++;
    }
    if (st == HK_OK && p->logits != NULL)
        st = write_logits(p->logits, logits, vocab, err);
    return st;
}

static bool watch_window(void *arg, double part)
{
    const struct perplexity *p = arg;
    const double done = (double)p->window + part * (double)p->window_size;
    tool_progress("perplexity", (uint64_t)done, p->ids.n);
    return true;
}

static enum hk_status measure_perplexity(struct perplexity *p)
{
    size_t ctx = hke_context_positions(p->ctx);
    double start = tool_seconds();
    enum hk_status st = HK_OK;
    p->about = p->path;
    for (size_t at = 0; at < p->ids.n && st == HK_OK; at += ctx) {
        p->window = at;
        p->window_size = p->ids.n - at < ctx ? p->ids.n - at : ctx;
        hke_context_reset(p->ctx);
        st = hke_eval(p->ctx, p->ids.id + at, p->window_size, score_position, p, &p->err);
    }
    tool_progress("perplexity", 1, 1);
    p->seconds = tool_seconds() - start;
    return st;
}

static void print_perplexity(const struct perplexity *p)
{
    double nll = p->nll / (double)p->scored;
    json_t *o = json_object();
    tool_json_set(o, "file", tool_json_text(p->path));
    tool_json_set(o, "perplexity", tool_json_double(exp(nll)));
    tool_json_set(o, "nll", tool_json_double(nll));
    tool_json_set(o, "tokens", tool_json_uint(p->scored));
    tool_json_set(o, "ctx", tool_json_uint(hke_context_positions(p->ctx)));
    tool_json_print(o, stdout);
}

static void print_perplexity_statistics(const struct perplexity *p)
{
    if (!tool_wants_statistics())
        return;
    const double mib = 1 << 20;
    struct hke_memory m = hke_memory_now();
    tool_note(NULL,
              "%zu tokens, %.1f a second; memory: %.1f MiB private, %.1f MiB mapped; kernels: %s; "
              "threads: %u",
              p->ids.n, (double)p->ids.n / p->seconds, (double)m.private / mib,
              (double)m.mapped / mib, hke_context_kernels(p->ctx), hke_context_threads(p->ctx));
}

/* ---- the job ---- */

static enum hk_status prepare_perplexity(struct perplexity *p)
{
    p->about = p->path;
    p->engine.context.watch = watch_window;
    p->engine.context.watch_arg = p;
    enum hk_status st = engine_options_open(&p->engine, p->path, &p->file, &p->model, &p->err);
    if (st == HK_OK)
        st = hke_context_new(&p->ctx, p->model, &p->engine.context, &p->err);
    if (st == HK_OK)
        st = read_scored_ids(p);
    if (st == HK_OK && p->logits_path != NULL) {
        p->about = p->logits_path;
        st = tool_create(&p->logits, p->logits_path, p->path, p->force, &p->err);
    }
    return st;
}

static enum hk_status run_perplexity(struct perplexity *p)
{
    enum hk_status st = prepare_perplexity(p);
    if (st == HK_OK)
        st = measure_perplexity(p);
    if (st == HK_OK && p->logits != NULL) {
        p->about = p->logits_path;
        st = hk_out_commit(&p->logits, &p->err);
    }
    return st;
}

static void free_perplexity(struct perplexity *p)
{
    hk_out_discard(&p->logits);
    hke_ids_free(&p->ids);
    hke_context_free(&p->ctx);
    hke_model_free(&p->model);
    engine_options_free(&p->engine);
    hk_close(&p->file);
}

int main(int argc, char **argv)
{
    struct perplexity p = {
        .engine = {.context = {.positions = DEFAULT_CTX, .every_logit = true},
                   .keep = HK_KEEP_RECORDS},
    };
    parse_perplexity_options(&p, argc, argv);
    int status = TOOL_OK;
    if (run_perplexity(&p) != HK_OK)
        status = tool_error(p.about, &p.err);
    else {
        print_perplexity(&p);
        if (fflush(stdout) == 0) /* else tool_end() has something to say */
            print_perplexity_statistics(&p);
    }
    free_perplexity(&p);
    return tool_end(status);
}
