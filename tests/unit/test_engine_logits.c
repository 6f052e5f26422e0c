/* Real models: logits against stored references with activations rounded and not, the stored greedy
 * runs id for id, the perplexity of the trained models. What is not in the repository is looked for
 * in HK_SHARED. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/lib/tap.h"

enum { PATH = 4096, MOST_IDS = 8192 };

/* Path of NAME in the repository's fixtures or else in the shared ones; false if in neither. */
static bool find(char path[PATH], const char *name)
{
    const char *own = getenv("HK_FIXTURES"), *shared = getenv("HK_SHARED");
    snprintf(path, PATH, "%s/%s", own != NULL ? own : "tests/fixtures", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL && shared != NULL) {
        snprintf(path, PATH, "%s/fixtures/%s", shared, name);
        f = fopen(path, "rb");
    }
    if (f != NULL)
        fclose(f);
    return f != NULL;
}

/* N little-endian words of NAME, as many as there are; as they lie in memory here, so floats need a
 * host of that order too. */
static size_t read_words(const char *name, uint32_t *to, size_t n)
{
    char path[PATH];
    if (!find(path, name))
        return 0;
    FILE *f = fopen(path, "rb");
    size_t got = f != NULL ? fread(to, 4, n, f) : 0;
    if (f != NULL)
        fclose(f);
    return got;
}

struct bench {
    struct hk_file *file;
    struct hke_model *model;
    struct hke_context *ctx;
};

static void stop(struct bench *b)
{
    hke_context_free(&b->ctx);
    hke_model_free(&b->model);
    hk_close(&b->file);
}

static bool start(struct bench *b, const char *name, const struct hke_context_options *opt)
{
    char path[PATH];
    struct hk_error err = {0};
    *b = (struct bench){0};
    if (!find(path, name))
        return false;
    if (hk_open(&b->file, path, &err) == HK_OK &&
        hke_model_new(&b->model, b->file, &err) == HK_OK &&
        hke_context_new(&b->ctx, b->model, opt, &err) == HK_OK)
        return true;
    printf("Bail out! %s: %s\n", path, err.text);
    exit(2);
}

/* ---- logits ---- */

static enum hk_status keep(void *arg, size_t position, const float *logits, size_t vocab,
                           struct hk_error *err)
{
    (void)err;
    memcpy((float *)arg + position * vocab, logits, vocab * sizeof *logits);
    return HK_OK;
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Logits of N ids in batches of BATCH, to be freed. */
static float *logits_of(const char *model, const uint32_t *id, size_t n, size_t batch,
                        enum hke_activations activations)
{
    struct bench b;
    const struct hke_context_options opt = {
        .batch = batch, .every_logit = true, .activations = activations};
    if (!start(&b, model, &opt))
        return NULL;
    float *out = calloc(n * hke_model_params(b.model)->vocab, sizeof *out);
    if (out == NULL || hke_eval(b.ctx, id, n, keep, out, NULL) != HK_OK)
        exit(2);
    stop(&b);
    return out;
}

/* The logits of MODEL for N ids have the cosine LEAST to those in REFERENCE, and are the same bits
 * one by one, by seven and together. */
static void check_logits(const char *model, const char *reference, const uint32_t *id, size_t n,
                         size_t vocab, double least)
{
    float *want = calloc(n * vocab, sizeof *want);
    float *one = logits_of(model, id, n, 1, HKE_ACTIVATIONS_Q8);
    if (want == NULL)
        exit(2);
    if (one == NULL || n == 0 || read_words(reference, (uint32_t *)(void *)want, n * vocab) == 0) {
        tap_skip(model, "SKIPPED: not in the repository, and HK_SHARED does not have it");
    } else {
        float *seven = logits_of(model, id, n, 7, HKE_ACTIVATIONS_Q8);
        float *all = logits_of(model, id, n, 64, HKE_ACTIVATIONS_Q8);
        float *exact = logits_of(model, id, n, 64, HKE_ACTIVATIONS_F32);
        size_t bytes = n * vocab * sizeof *want;
        double c = cosine(one, want, n * vocab);
        ok(c >= least, "%s: cosine of the logits %.9f is at least %g", model, c, least);
        c = cosine(exact, want, n * vocab);
        ok(c >= least, "%s: with activations in f32 %.9f", model, c);
        ok(memcmp(one, seven, bytes) == 0 && memcmp(one, all, bytes) == 0,
           "%s: same bits in batches of 1, 7 and 64", model);
        free(exact);
        free(seven);
        free(all);
    }
    free(want);
    free(one);
}

static size_t ids_of(const json_t *list, uint32_t *id)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < MOST_IDS; i++)
        id[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return n < MOST_IDS ? n : MOST_IDS;
}

static void check_stories_logits(const json_t *expected)
{
    static const struct {
        const char *model, *reference;
        double least;
    } cases[] = {
        {"models/stories260K.gguf", "models/stories260K.logits.f32", 0.9999999},
        {"models/stories260K-f16.gguf", "models/stories260K.logits.f32", 0.99999},
        {"models/stories260K-bf16.gguf", "models/stories260K.logits.f32", 0.99999},
        {"models/stories260K-q8_0.gguf", "models/stories260K-q8_0.logits.f32", 0.999},
        {"models/stories260K-q4_0.gguf", "models/stories260K-q4_0.logits.f32", 0.999},
        {"models/stories260K-q5_1.gguf", "models/stories260K-q5_1.logits.f32", 0.999},
        {"models/stories260K-iq4_nl.gguf", "models/stories260K-iq4_nl.logits.f32", 0.999},
    };
    static uint32_t id[MOST_IDS];
    size_t n = ids_of(json_object_get(json_object_get(expected, "logits"), "prompt_ids"), id);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_logits(cases[i].model, cases[i].reference, id, n, 512, cases[i].least);
}

/* ---- greedy runs ---- */

struct run {
    uint32_t id[MOST_IDS];
    size_t n;
};

static bool hear(void *arg, uint32_t id)
{
    struct run *r = arg;
    r->id[r->n++] = id;
    return true;
}

/* How many ids from the front are those of the stored run. */
static size_t agreement(const char *model, const json_t *stored, enum hke_activations activations)
{
    static uint32_t prompt[MOST_IDS], want[MOST_IDS];
    static struct run got;
    struct bench b;
    struct hke_generated g;
    size_t n = ids_of(json_object_get(stored, "ids"), want), same = 0;
    const struct hke_generate_options opt = {
        .prompt = prompt,
        .prompt_count = ids_of(json_object_get(stored, "prompt_ids"), prompt),
        .max_tokens = n,
        .token = hear,
        .arg = &got,
    };
    got.n = 0;
    if (!start(&b, model, &(struct hke_context_options){.activations = activations}) ||
        hke_generate(b.ctx, &opt, &g, NULL) != HK_OK)
        exit(2);
    stop(&b);
    while (same < n && got.n == n && got.id[same] == want[same])
        same++;
    return same;
}

/* All runs of RUNS id for id. Narrowing the weights to bf16 changes the model: in its fifth run the
 * float64 pass over the bf16 weights, too, takes another id at number 47, by a margin of 0.007. */
static void check_runs(const char *model, const json_t *runs, bool narrowed)
{
    char path[PATH];
    if (!find(path, model) || runs == NULL) {
        tap_skip(model, "SKIPPED: not in the repository, and HK_SHARED does not have it");
        return;
    }
    size_t i;
    const json_t *run;
    json_array_foreach((json_t *)(uintptr_t)runs, i, run)
    {
        size_t length = json_array_size(json_object_get(run, "ids"));
        size_t least = narrowed && i == 4 ? 47 : length,
               same = agreement(model, run, HKE_ACTIVATIONS_Q8);
        ok(same >= least, "%s: greedy run %zu, %zu of %zu ids", model, i, same, length);
        same = agreement(model, run, HKE_ACTIVATIONS_F32);
        ok(same >= least, "%s: greedy run %zu in f32, %zu of %zu ids", model, i, same, length);
    }
}

/* ---- trained models ---- */

static enum hk_status score(void *arg, size_t position, const float *logits, size_t vocab,
                            struct hk_error *err)
{
    const struct {
        const uint32_t *id;
        size_t n;
        double *sum;
    } *window = arg;
    double nll = 0;
    enum hk_status st = HK_OK;
    if (position + 1 < window->n)
        st = hke_nll(logits, vocab, window->id[position + 1], &nll, err);
    *window->sum += nll;
    return st;
}

/* Perplexity of the first COUNT tokens in windows of 512. */
static double perplexity(const char *model, const uint32_t *id, size_t count)
{
    struct bench b;
    double sum = 0;
    if (!start(&b, model, &(struct hke_context_options){.positions = 512, .every_logit = true}))
        return 0;
    for (size_t at = 0; at < count; at += 512) {
        struct {
            const uint32_t *id;
            size_t n;
            double *sum;
        } window = {id + at, 512, &sum};
        hke_context_reset(b.ctx);
        if (hke_eval(b.ctx, id + at, 512, score, &window, NULL) != HK_OK)
            exit(2);
    }
    stop(&b);
    return exp(sum / (double)(count / 512 * 511));
}

static void check_trained(const char *name, double want)
{
    char model[256], reference[256], tokens[256], greedy[256], path[PATH];
    static uint32_t id[MOST_IDS];
    snprintf(model, sizeof model, "trained/%s/%s-f16.gguf", name, name);
    snprintf(reference, sizeof reference, "trained/%s/logits.f32", name);
    snprintf(tokens, sizeof tokens, "trained/%s/val.tokens.u32", name);
    snprintf(greedy, sizeof greedy, "trained/%s/greedy.json", name);
    size_t n = read_words(tokens, id, MOST_IDS);
    check_logits(model, reference, id, n < 64 ? n : 64, 2048, 0.99999);
    json_t *runs = find(path, greedy) ? json_load_file(path, 0, NULL) : NULL;
    check_runs(model, runs, false);
    json_decref(runs);
    if (n < MOST_IDS) {
        tap_skip(tokens, "SKIPPED: not in the repository, and HK_SHARED does not have it");
        return;
    }
    const char *sanitizer = getenv("SAN");
    if (sanitizer != NULL && sanitizer[0] != '\0') {
        tap_skip(name, "SKIPPED: the perplexity takes minutes under a sanitizer");
        return;
    }
    double got = perplexity(model, id, MOST_IDS);
    ok(fabs(got / want - 1) < 0.001, "%s: perplexity %.4f is within 0.1 %% of %.4f", name, got,
       want);
}

int main(void)
{
    char path[PATH];
    json_t *expected = find(path, "models/expected.json") ? json_load_file(path, 0, NULL) : NULL;
    if (!ok(expected != NULL, "the expected results are there"))
        return tap_done();
    const json_t *greedy = json_object_get(expected, "greedy");
    check_stories_logits(expected);
    check_runs("models/stories260K.gguf", greedy, false);
    check_runs("models/stories260K-f16.gguf", greedy, false);
    check_runs("models/stories260K-bf16.gguf", greedy, true);
    check_trained("tiny-llama", 26.8746);
    check_trained("tiny-qwen3", 26.4280);
    json_decref(expected);
    return tap_done();
}
