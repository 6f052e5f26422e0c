/* bench_measure.c: what a model is made of, and the clock around the engine. Each figure is taken
 * after a run that is not counted, which leaves the weights in memory and every buffer touched. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/sample/random.h"
#include "engine/sequences.h"
#include "kernels/kernels.h"
#include "tools/bench.h"

/* ---- the clock ---- */

enum { WARM_STEPS = 4 };

struct bench {
    const struct bench_options *o;
    struct bench_result *r;
    struct hk_file *file;
    struct hke_model *model;
    struct hke_adapters *adapters; /* of all texts; NULL: none */
    struct hke_runner *runner;
    struct hke_sequence **sequence;
    struct hke_part *part; /* of each */
    size_t sequences;      /* most at once */
    uint32_t *id;          /* one for each position */
    double *seconds;       /* of the repetitions */
    size_t done, all;      /* runs, for the bar */
};

/* ---- memory ---- */

/* Later levels are not to inherit the peak of earlier ones; where the system does not allow it they
 * do. */
static void reset_peak_memory(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f == NULL)
        return;
    fputs("5", f);
    fclose(f);
}

static uint64_t peak_memory(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %llu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

/* ---- loading ---- */

static size_t largest_size(const struct bench_sizes *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n = s->n[i] > n ? s->n[i] : n;
    return n;
}

static size_t prefill_positions(const struct bench_options *o)
{
    const size_t n = largest_size(&o->prefill);
    return n > 0 ? n + o->prefill_depth : 1; /* the first token is always evaluated */
}

static size_t decode_positions(const struct bench_options *o)
{
    return o->decode > 0 ? largest_size(&o->depth) + o->decode : 0;
}

/* Of one text. */
static size_t bench_positions(const struct bench_options *o)
{
    const size_t prefill = prefill_positions(o), decode = decode_positions(o);
    return prefill > decode ? prefill : decode;
}

/* The KV cache when it was largest: prompts are of one text. */
static uint64_t bench_kv_bytes(const struct bench *b)
{
    const uint64_t prefill = hke_model_kv_bytes(b->model, prefill_positions(b->o));
    const uint64_t decode = hke_model_kv_bytes(b->model, decode_positions(b->o)) * b->sequences;
    return prefill > decode ? prefill : decode;
}

static enum hk_status open_bench_model(struct bench *b, size_t positions, struct hk_error *err)
{
    struct engine_options engine = b->o->engine; /* whose list stays O's */
    enum hk_status st = engine_options_open(&engine, b->o->path, &b->file, &b->model, err);
    b->adapters = engine.opened;
    if (st == HK_OK && positions > hke_model_params(b->model)->context)
        st = hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                     "--prefill, --decode and --depth need %zu positions, the model has %u",
                     positions, hke_model_params(b->model)->context);
    return st;
}

static enum hk_status make_random_ids(struct bench *b, size_t positions, struct hk_error *err)
{
    struct hke_random random;
    uint32_t tokens = hke_model_tokens(b->model);
    b->id = calloc(positions, sizeof *b->id);
    if (b->id == NULL)
        return hk_fail_nomem(err);
    hke_random_seed(&random, 1);
    for (size_t i = 0; i < positions; i++)
        b->id[i] = (uint32_t)(hke_random_next(&random) % tokens);
    return HK_OK;
}

static enum hk_status make_sequences(struct bench *b, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    b->sequence = calloc(b->sequences, sizeof(struct hke_sequence *));
    b->part = calloc(b->sequences, sizeof *b->part);
    if (b->sequence == NULL || b->part == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < b->sequences && st == HK_OK; i++)
        st = hke_sequence_new(&b->sequence[i], b->runner, b->adapters, err);
    return st;
}

static enum hk_status ignore_logits(void *arg, size_t part, size_t index, const float *logits,
                                    size_t vocab, struct hk_error *err)
{
    (void)arg, (void)part, (void)index, (void)logits, (void)vocab, (void)err;
    return HK_OK;
}

/* Evaluate N ids more of each of the first SEQUENCES, up to the logits of the last. */
static enum hk_status evaluate_ids(struct bench *b, size_t sequences, size_t n,
                                   struct hk_error *err)
{
    for (size_t i = 0; i < sequences; i++)
        b->part[i] =
            (struct hke_part){b->sequence[i], b->id + hke_sequence_used(b->sequence[i]), n, 1};
    return hke_runner_eval(b->runner, b->part, sequences, ignore_logits, NULL, err);
}

/* The first SEQUENCES back to POSITIONS, which they have been at; where a window keeps them from
 * that they come from the start again. */
static enum hk_status rewind_sequences(struct bench *b, size_t sequences, size_t positions,
                                       struct hk_error *err)
{
    size_t left = positions;
    for (size_t i = 0; i < sequences; i++)
        left = hke_sequence_rewind(b->sequence[i], positions);
    return left < positions ? evaluate_ids(b, sequences, positions - left, err) : HK_OK;
}

/* From nothing to a runner, and on to the logits of a first token, which faults in the weights. */
static enum hk_status load_bench_model(struct bench *b, struct hk_error *err)
{
    size_t positions = bench_positions(b->o);
    struct hke_context_options opt = b->o->engine.context;
    opt.positions = positions;
    opt.every_logit = b->sequences > 1;
    if (opt.batch < b->sequences)
        opt.batch = b->sequences;
    double start = tool_seconds();
    enum hk_status st = open_bench_model(b, positions, err);
    if (st == HK_OK)
        st = hke_runner_new(&b->runner, b->model, &opt, err);
    if (st == HK_OK)
        st = make_sequences(b, err);
    b->r->load_ms = 1e3 * (tool_seconds() - start);
    if (st == HK_OK)
        st = make_random_ids(b, positions, err);
    if (st == HK_OK)
        st = evaluate_ids(b, 1, 1, err);
    b->r->first_token_ms = 1e3 * (tool_seconds() - start);
    return st;
}

/* ---- speed ---- */

/* Tokens that are timed: N of each of SEQUENCES texts, STEP at a time, after DEPTH. */
struct timed {
    size_t sequences, depth, n, step;
};

static enum hk_status time_evaluation(struct bench *b, const struct timed *t, double *seconds,
                                      struct hk_error *err)
{
    enum hk_status st = rewind_sequences(b, t->sequences, t->depth, err);
    double start = tool_seconds();
    for (size_t i = 0; i < t->n && st == HK_OK; i += t->step)
        st = evaluate_ids(b, t->sequences, t->step, err);
    *seconds = tool_seconds() - start;
    tool_progress(b->o->path, ++b->done, b->all);
    return st;
}

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static struct bench_speed summarise_speed(double *seconds, size_t reps, const struct timed *t)
{
    double count = (double)t->n * (double)t->sequences;
    qsort(seconds, reps, sizeof *seconds, compare_doubles);
    double middle = (seconds[(reps - 1) / 2] + seconds[reps / 2]) / 2;
    return (struct bench_speed){t->n,
                                t->depth,
                                t->sequences,
                                count / middle,
                                count / seconds[reps - 1],
                                count / seconds[0]};
}

/* Add to S the speed of T. The first steps warm up for all. */
static enum hk_status measure_speed(struct bench *b, const struct timed *t, struct bench_speeds *s,
                                    struct hk_error *err)
{
    size_t reps = b->o->reps;
    double uncounted;
    struct timed warm = *t;
    if (t->step < t->n && t->n > WARM_STEPS * t->step)
        warm.n = WARM_STEPS * t->step;
    enum hk_status st = time_evaluation(b, &warm, &uncounted, err);
    for (size_t i = 0; i < reps && st == HK_OK; i++)
        st = time_evaluation(b, t, &b->seconds[i], err);
    if (st == HK_OK)
        s->speed[s->count++] = summarise_speed(b->seconds, reps, t);
    return st;
}

/* Evaluate DEPTH tokens of each of SEQUENCES texts, which does not count. Each has its own, though
 * they are the same. */
static enum hk_status fill_kv_cache(struct bench *b, size_t sequences, size_t depth,
                                    struct hk_error *err)
{
    for (size_t i = 0; i < b->sequences; i++)
        hke_sequence_rewind(b->sequence[i], 0);
    return depth > 0 ? evaluate_ids(b, sequences, depth, err) : HK_OK;
}

static enum hk_status measure_prefill(struct bench *b, struct hk_error *err)
{
    size_t depth = b->o->prefill_depth;
    enum hk_status st = largest_size(&b->o->prefill) > 0 ? fill_kv_cache(b, 1, depth, err) : HK_OK;
    for (size_t i = 0; i < b->o->prefill.count && st == HK_OK; i++) {
        size_t n = b->o->prefill.n[i];
        if (n > 0)
            st = measure_speed(b, &(struct timed){1, depth, n, n}, &b->r->prefill, err);
    }
    return st;
}

/* The cache is filled once for each depth and number of sequences. */
static enum hk_status measure_decode(struct bench *b, struct hk_error *err)
{
    const size_t each = b->o->sequences.count, all = b->o->depth.count * each;
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < all && b->o->decode > 0 && st == HK_OK; i++) {
        const struct timed t = {b->o->sequences.n[i % each], b->o->depth.n[i / each], b->o->decode,
                                1};
        st = fill_kv_cache(b, t.sequences, t.depth, err);
        if (st == HK_OK)
            st = measure_speed(b, &t, &b->r->decode, err);
    }
    return st;
}

/* ---- the job ---- */

static enum hk_status make_bench_buffers(struct bench *b, struct hk_error *err)
{
    const struct bench_options *o = b->o;
    const size_t decodes = o->depth.count * o->sequences.count;
    size_t figures = o->decode > 0 ? decodes : 0;
    for (size_t i = 0; i < o->prefill.count; i++)
        figures += o->prefill.n[i] > 0;
    b->all = figures * (o->reps + 1);
    b->seconds = calloc(o->reps, sizeof *b->seconds);
    b->r->prefill.speed = calloc(o->prefill.count, sizeof *b->r->prefill.speed);
    b->r->decode.speed = calloc(decodes, sizeof *b->r->decode.speed);
    if (b->seconds == NULL || b->r->prefill.speed == NULL || b->r->decode.speed == NULL)
        return hk_fail_nomem(err);
    return HK_OK;
}

/* While everything is still there. */
static void note_bench_facts(struct bench *b)
{
    struct hk_model_facts facts;
    const struct bench_options *o = b->o;
    struct bench_result *r = b->r;
    hk_model_facts(b->file, &facts);
    r->type = facts.type;
    r->params = facts.params;
    r->size = facts.bytes;
    r->kernels = hke_runner_kernels(b->runner);
    r->threads = hke_runner_threads(b->runner);
    r->batch = o->engine.context.batch;
    r->memory = hke_memory_now();
    r->peak = peak_memory();
    r->kv = bench_kv_bytes(b);
    r->kept = hke_runner_weights_kept(b->runner, &r->weights);
}

enum hk_status bench_measure(const struct bench_options *o, struct bench_result *out,
                             struct hk_error *err)
{
    struct bench b = {.o = o, .r = out, .sequences = largest_size(&o->sequences)};
    *out = (struct bench_result){0};
    reset_peak_memory();
    enum hk_status st = make_bench_buffers(&b, err);
    if (st == HK_OK)
        st = load_bench_model(&b, err);
    if (st == HK_OK)
        st = measure_prefill(&b, err);
    if (st == HK_OK)
        st = measure_decode(&b, err);
    if (st == HK_OK)
        note_bench_facts(&b);
    free(b.id);
    free(b.seconds);
    for (size_t i = 0; b.sequence != NULL && i < b.sequences; i++)
        hke_sequence_free(&b.sequence[i]);
    hke_runner_free(&b.runner);
    free(b.sequence);
    free(b.part);
    hke_adapters_free(&b.adapters);
    hke_model_free(&b.model);
    hk_close(&b.file);
    return st;
}

void bench_free(struct bench_result *r)
{
    free(r->prefill.speed);
    free(r->decode.speed);
    *r = (struct bench_result){0};
}
