/* The same bits for any number of threads and any batch, with quantised weights of each kind of
 * activations, rounded or not; and the same greedy text. The text has more than one segment. */
#include <string.h>

#include "engine/engine.h"
#include "tests/lib/tap.h"

enum { PATH = 4096, TEXT = 300, SHORT = 40, VOCAB = 512, GENERATED = 24 };

/* Path of NAME in HK_SHARED's models, or else in the repository's. */
static bool find(char path[PATH], const char *name)
{
    const char *own = getenv("HK_FIXTURES"), *shared = getenv("HK_SHARED");
    snprintf(path, PATH, "%s/models/%s", own != NULL ? own : "tests/fixtures", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL && shared != NULL) {
        snprintf(path, PATH, "%s/fixtures/models/%s", shared, name);
        f = fopen(path, "rb");
    }
    if (f != NULL)
        fclose(f);
    return f != NULL;
}

struct result {
    float logits[TEXT][VOCAB];
    uint32_t text[GENERATED];
    size_t generated;
};

static enum hk_status keep(void *arg, size_t position, const float *logits, size_t vocab,
                           struct hk_error *err)
{
    (void)err;
    struct result *r = arg;
    memcpy(r->logits[position], logits, vocab * sizeof *logits);
    return HK_OK;
}

static bool hear(void *arg, uint32_t id)
{
    struct result *r = arg;
    r->text[r->generated++] = id;
    return true;
}

/* Evaluate N tokens, then (once for a number of threads: one token goes one way) generate from the
 * first ids. */
static bool run(const struct hke_model *m, const struct hke_context_options *opt, size_t n,
                struct result *out)
{
    uint32_t id[TEXT];
    struct hke_context *c;
    struct hke_generated g;
    const struct hke_generate_options more = {
        .prompt = id, .prompt_count = SHORT, .max_tokens = GENERATED, .token = hear, .arg = out};
    for (uint32_t i = 0; i < TEXT; i++)
        id[i] = (i * 37 + 260) % VOCAB;
    memset(out, 0, sizeof *out);
    if (hke_context_new(&c, m, opt, NULL) != HK_OK)
        return false;
    bool good = hke_eval(c, id, n, keep, out, NULL) == HK_OK;
    hke_context_reset(c);
    if (opt->batch <= 1)
        good = good && hke_generate(c, &more, &g, NULL) == HK_OK;
    hke_context_free(&c);
    return good;
}

/* Of the first N tokens. */
static bool same_results(const struct result *got, const struct result *want, size_t n)
{
    return memcmp(got->logits, want->logits, n * sizeof *got->logits) == 0 &&
           (got->generated == 0 || (got->generated == want->generated &&
                                    memcmp(got->text, want->text, sizeof got->text) == 0));
}

static bool all_same(const struct hke_model *m, enum hke_activations activations,
                     const struct result *want)
{
    static const size_t batches[] = {1, 7, 64, 512};
    static struct result got;
    bool same = true;
    for (unsigned threads = 1; threads <= 8; threads++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            const struct hke_context_options opt = {.batch = batches[i],
                                                    .threads = threads,
                                                    .activations = activations,
                                                    .every_logit = true};
            const size_t n = threads % 4 == 2 ? TEXT : SHORT;
            if (run(m, &opt, n, &got) && same_results(&got, want, n))
                continue;
            printf("# not with %u threads in batches of %zu\n", threads, batches[i]);
            same = false;
        }
    return same;
}

static void check(const char *name)
{
    static struct result q8, f32;
    char path[PATH];
    struct hk_file *f = NULL;
    struct hke_model *m = NULL;
    struct hk_error err = {0};
    struct hke_context_options opt = {.batch = 1, .threads = 1, .every_logit = true};
    if (!find(path, name)) {
        tap_skip(name, "SKIPPED: not in the repository, and HK_SHARED does not have it");
        return;
    }
    bool good = hk_open(&f, path, &err) == HK_OK && hke_model_new(&m, f, &err) == HK_OK &&
                run(m, &opt, TEXT, &q8);
    opt.activations = HKE_ACTIVATIONS_F32;
    if (ok(good && run(m, &opt, TEXT, &f32), "%s runs %s", name, err.text)) {
        ok(all_same(m, HKE_ACTIVATIONS_Q8, &q8), "%s: 1 to 8 threads, 1, 7, 64, 512 together",
           name);
        ok(all_same(m, HKE_ACTIVATIONS_F32, &f32), "%s: the same with activations in f32", name);
    }
    hke_model_free(&m);
    hk_close(&f);
}

int main(void)
{
    check("stories260K-q4_0.gguf");
    check("stories260K-q5_1.gguf");
    return tap_done();
}
