/* hk-perplexity: how well a model predicts a text. */
#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/pool.h"
#include "engine/sequences.h"
#include "tools/lib/engine_options.h"

enum { MAX_TEXT = 1 << 30, DEFAULT_CTX = 512, DEFAULT_BATCH = 512 };

enum option {
    OPT_ADAPTER,
    OPT_CTX,
    OPT_FORCE,
    OPT_IDS,
    OPT_LOGITS,
    OPT_SEQUENCES,
};

static const struct tool_option options[] = {
    [OPT_ADAPTER] = ENGINE_OPTION_ADAPTER,
    [OPT_CTX] = {"ctx", 0, "N", "cut the text into windows of N tokens (default 512)"},
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_IDS] = TOOL_OPTION_IDS,
    [OPT_LOGITS] = {"logits", 0, "OUT", "write the logits of every position to OUT, as f32"},
    [OPT_SEQUENCES] = {"sequences", 0, "N", "evaluate N windows in one batch (default 1)"},
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

struct window {
    struct hke_sequence *sequence;
    size_t at, end; /* ids: the next to be evaluated, and behind the last */
};

struct perplexity {
    const char *path, *logits_path;
    size_t sequences;
    struct engine_options engine;
    bool ids_given, force;

    struct hk_file *file;
    struct hke_model *model;
    struct hke_runner *runner;
    struct window *window; /* that are evaluated together */
    struct hke_part *part; /* of each of them */
    size_t windows;        /* of the text that are left, at most as many as there are sequences */
    size_t first;          /* id that the first of them begins with */
    struct hk_out *logits;
    float *held; /* logits of all windows, where there are several; else NULL */
    struct hke_ids ids;
    double *nll;        /* of each id that is scored */
    size_t done, doing; /* ids evaluated, and those being so */
    double seconds;     /* that evaluating took */
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
    case OPT_SEQUENCES:
        p->sequences = tool_uint(value, 1, HKE_MAX_BATCH);
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
    if (tool_is_standard_input(p->path))
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
    enum hk_status st = tool_read_all("-", &b, &n, MAX_TEXT, &p->err);
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

/* The logits behind the id INDEX of a part. */
static enum hk_status score_id(void *arg, size_t part, size_t index, const float *logits,
                               size_t vocab, struct hk_error *err)
{
    struct perplexity *p = arg;
    const struct window *w = &p->window[part];
    const size_t id = w->at + index;
    enum hk_status st = HK_OK;
    if (id + 1 < w->end)
        st = hke_nll(logits, vocab, p->ids.id[id + 1], &p->nll[id + 1], err);
    if (p->held != NULL)
        memcpy(p->held + (id - p->first) * vocab, logits, vocab * sizeof *logits);
    else if (st == HK_OK && p->logits != NULL)
        st = write_logits(p->logits, logits, vocab, err);
    return st;
}

static bool watch_window(void *arg, double part)
{
    const struct perplexity *p = arg;
    const double done = (double)p->done + part * (double)p->doing;
    tool_progress("perplexity", (uint64_t)done, p->ids.n);
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Windows of the same length but for the last of the text: all go on until they end together, or
 * the last one before. */
static enum hk_status eval_windows(struct perplexity *p)
{
    const size_t step = p->engine.context.batch / p->windows;
    enum hk_status st = HK_OK;
    while (st == HK_OK && p->window[0].at < p->window[0].end) {
        size_t parts = 0;
        p->doing = 0;
        for (; parts < p->windows && p->window[parts].at < p->window[parts].end; parts++) {
            const struct window *w = &p->window[parts];
            const size_t n = smaller(step > 0 ? step : 1, w->end - w->at);
            p->part[parts] = (struct hke_part){w->sequence, p->ids.id + w->at, n, n};
            p->doing += n;
        }
        st = hke_runner_eval(p->runner, p->part, parts, score_id, p, &p->err);
        for (size_t i = 0; i < parts; i++)
            p->window[i].at += p->part[i].n;
        p->done += p->doing;
    }
    return st;
}

/* The windows from id FIRST on, as many as there are sequences. */
static enum hk_status score_windows(struct perplexity *p, size_t first)
{
    const size_t ctx = hke_runner_positions(p->runner);
    p->first = first;
    p->windows = 0;
    for (size_t at = first; at < p->ids.n && p->windows < p->sequences; at += ctx) {
        struct window *w = &p->window[p->windows++];
        hke_sequence_rewind(w->sequence, 0);
        w->at = at;
        w->end = smaller(at + ctx, p->ids.n);
    }
    const size_t end = p->window[p->windows - 1].end;
    enum hk_status st = eval_windows(p);
    if (st == HK_OK && p->held != NULL)
        st = write_logits(p->logits, p->held, (end - first) * hke_model_params(p->model)->vocab,
                          &p->err);
    return st;
}

static enum hk_status measure_perplexity(struct perplexity *p)
{
    const size_t together = p->sequences * hke_runner_positions(p->runner);
    double start = tool_seconds();
    enum hk_status st = HK_OK;
    p->about = p->path;
    for (size_t at = 0; at < p->ids.n && st == HK_OK; at += together)
        st = score_windows(p, at);
    tool_progress("perplexity", 1, 1);
    p->seconds = tool_seconds() - start;
    return st;
}

static void print_perplexity(const struct perplexity *p)
{
    const size_t ctx = hke_runner_positions(p->runner);
    double sum = 0;
    uint64_t scored = 0;
    for (size_t i = 0; i < p->ids.n; i++)
        if (i % ctx != 0) { /* the first of a window has nothing before it */
            sum += p->nll[i];
            scored++;
        }
    double nll = sum / (double)scored;
    json_t *o = json_object();
    tool_json_set(o, "file", tool_json_text(p->path));
    tool_json_set(o, "perplexity", tool_json_double(exp(nll)));
    tool_json_set(o, "nll", tool_json_double(nll));
    tool_json_set(o, "tokens", tool_json_uint(scored));
    tool_json_set(o, "ctx", tool_json_uint(ctx));
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
              (double)m.mapped / mib, hke_runner_kernels(p->runner), hke_runner_threads(p->runner));
}

/* ---- the job ---- */

static enum hk_status make_windows(struct perplexity *p)
{
    struct hke_context_options opt = p->engine.context;
    if (opt.batch < p->sequences)
        opt.batch = p->sequences; /* one id of each, at least */
    enum hk_status st = hke_runner_new(&p->runner, p->model, &opt, &p->err);
    if (st != HK_OK)
        return st;
    p->window = calloc(p->sequences, sizeof *p->window);
    p->part = calloc(p->sequences, sizeof *p->part);
    if (p->window == NULL || p->part == NULL)
        return hk_fail_nomem(&p->err);
    for (size_t i = 0; i < p->sequences && st == HK_OK; i++)
        st = hke_sequence_new(&p->window[i].sequence, p->runner, opt.adapters, &p->err);
    return st;
}

/* What is known for each id, once they are read. */
static enum hk_status make_scores(struct perplexity *p)
{
    const size_t ctx = hke_runner_positions(p->runner), vocab = hke_model_params(p->model)->vocab;
    p->nll = calloc(p->ids.n, sizeof *p->nll);
    if (p->logits != NULL && p->sequences > 1)
        p->held = calloc(smaller(p->sequences * ctx, p->ids.n), vocab * sizeof *p->held);
    const bool good = p->nll != NULL && (p->logits == NULL || p->sequences == 1 || p->held != NULL);
    return good ? HK_OK : hk_fail_nomem(&p->err);
}

static enum hk_status prepare_perplexity(struct perplexity *p)
{
    p->about = p->path;
    p->engine.context.watch = watch_window;
    p->engine.context.watch_arg = p;
    enum hk_status st = engine_options_open(&p->engine, p->path, &p->file, &p->model, &p->err);
    if (st == HK_OK)
        st = make_windows(p);
    if (st == HK_OK)
        st = read_scored_ids(p);
    if (st == HK_OK && p->logits_path != NULL) {
        p->about = p->logits_path;
        st = tool_create(&p->logits, p->logits_path, p->path, p->force, &p->err);
    }
    return st == HK_OK ? make_scores(p) : st;
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
    for (size_t i = 0; p->window != NULL && i < p->sequences; i++)
        hke_sequence_free(&p->window[i].sequence);
    hke_runner_free(&p->runner);
    free(p->window);
    free(p->part);
    free(p->held);
    free(p->nll);
    hke_model_free(&p->model);
    engine_options_free(&p->engine);
    hk_close(&p->file);
}

int main(int argc, char **argv)
{
    struct perplexity p = {
        .sequences = 1,
        .engine = {.context = {.positions = DEFAULT_CTX,
                               .batch = DEFAULT_BATCH,
                               .every_logit = true},
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
