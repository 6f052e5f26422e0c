/* Layers that see a window of a text: the same bits in any batches, blocks out of the window used
 * again, forks, rewinds as far as they go; chunks; sinks. */
#include "engine/plan/model.h"
#include "engine/run/runner.h"
#include "tests/lib/mini_model.h"

enum { TEXT = 1000, WHOLE = 0, WINDOW = 1 }; /* classes of gemma2's two layers */

struct fixture {
    struct hk_file *file;
    struct hke_model *model;
    struct hke_runner *runner;
    struct hke_sequence *sequence;
};

static void open_model(struct fixture *x, const char *arch, size_t batch, size_t cache_positions)
{
    const struct hke_context_options opt = {.threads = 2,
                                            .batch = batch,
                                            .positions = 2 * TEXT,
                                            .cache_positions = cache_positions,
                                            .every_logit = true};
    struct hk_error err;
    *x = (struct fixture){.file = mini_model(arch, (struct mini_change){MINI_AS_IS, "", 0, NULL})};
    mini_must(hke_model_new(&x->model, x->file, &err), &err);
    mini_must(hke_runner_new(&x->runner, x->model, &opt, &err), &err);
    mini_must(hke_sequence_new(&x->sequence, x->runner, NULL, &err), &err);
}

static void open_fixture(struct fixture *x, size_t batch, size_t cache_positions)
{
    open_model(x, "gemma2", batch, cache_positions);
}

static void close_fixture(struct fixture *x)
{
    hke_sequence_free(&x->sequence);
    hke_runner_free(&x->runner);
    hke_model_free(&x->model);
    hk_close(&x->file);
}

static struct hke_plan *plan_of(const struct fixture *x)
{
    return (struct hke_plan *)(uintptr_t)x->model->plan;
}

static size_t blocks_of(const struct fixture *x, size_t cache)
{
    return x->runner->blocks.cache[cache].used;
}

static enum hk_status keep_logits(void *arg, size_t part, size_t index, const float *logits,
                                  size_t vocab, struct hk_error *err)
{
    (void)part, (void)err;
    memcpy((float *)arg + index * vocab, logits, vocab * sizeof *logits);
    return HK_OK;
}

/* Text WHICH from where S is to before END; logits to OUT. */
static enum hk_status go_on(const struct fixture *x, struct hke_sequence *s, unsigned which,
                            size_t end, float *out)
{
    static uint32_t id[2 * TEXT];
    struct hk_error err = {0};
    const size_t used = hke_sequence_used(s);
    for (size_t i = used; i < end; i++)
        id[i] = (uint32_t)(i * 7 + i / 5 + which * (i / 3 + 1)) % MINI_VOCAB;
    const struct hke_part part = {s, id + used, end - used, end - used};
    enum hk_status st =
        hke_runner_eval(x->runner, &part, 1, keep_logits, out + used * MINI_VOCAB, &err);
    if (st != HK_OK)
        printf("# %s\n", err.text);
    return st;
}

static float whole[TEXT * MINI_VOCAB], got[TEXT * MINI_VOCAB];

static bool same_from(size_t first, size_t end)
{
    return memcmp(whole + first * MINI_VOCAB, got + first * MINI_VOCAB,
                  (end - first) * MINI_VOCAB * sizeof *got) == 0;
}

/* All of text 0 in one batch, nothing of which is out of any window before it ends. */
static void compute_whole(void)
{
    struct fixture x;
    open_fixture(&x, TEXT, 0);
    go_on(&x, x.sequence, 0, TEXT, whole);
    close_fixture(&x);
}

static void check_batches(void)
{
    static const size_t batches[] = {1, 7, 64, 300};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct fixture x;
        open_fixture(&x, batches[i], 0);
        bool good = go_on(&x, x.sequence, 0, TEXT, got) == HK_OK && same_from(0, TEXT);
        ok(good, "batches of %zu give the bits of one", batches[i]);
        ok(blocks_of(&x, WHOLE) == 4 && blocks_of(&x, WINDOW) == 2, "%zu and %zu blocks are in use",
           blocks_of(&x, WHOLE), blocks_of(&x, WINDOW));
        ok(x.runner->blocks.cache[WINDOW].n <=
               hke_window_blocks(&plan_of(&x)->cache[WINDOW], batches[i]),
           "of %zu that were made", x.runner->blocks.cache[WINDOW].n);
        close_fixture(&x);
    }
}

static void check_rewinds(void)
{
    struct fixture x;
    open_fixture(&x, 64, 0);
    go_on(&x, x.sequence, 0, TEXT, got);
    ok(hke_sequence_rewind(x.sequence, TEXT - HKE_REWIND) == TEXT - HKE_REWIND,
       "256 positions can be taken back");
    memset(got, 0, sizeof got);
    ok(go_on(&x, x.sequence, 0, TEXT, got) == HK_OK && same_from(TEXT - HKE_REWIND, TEXT),
       "and evaluated again");
    ok(hke_sequence_rewind(x.sequence, 300) == 0 && blocks_of(&x, WHOLE) == 0 &&
           blocks_of(&x, WINDOW) == 0,
       "what is too far back means from the start");
    ok(go_on(&x, x.sequence, 0, TEXT, got) == HK_OK && same_from(0, TEXT), "as if it were new");
    close_fixture(&x);
}

static void check_forks(void)
{
    struct fixture x;
    struct hke_sequence *fork;
    struct hk_error err;
    static float other[TEXT * MINI_VOCAB];
    open_fixture(&x, 64, 0);
    go_on(&x, x.sequence, 0, 600, got);
    mini_must(hke_sequence_fork(&fork, x.sequence, &err), &err);
    ok(blocks_of(&x, WINDOW) == 2 && hke_sequence_used(fork) == 600, "a fork takes no block");
    go_on(&x, fork, 1, 900, other);
    bool good = go_on(&x, x.sequence, 0, TEXT, got) == HK_OK && same_from(0, TEXT);
    ok(good, "what it comes from goes on as if it were alone");
    hke_sequence_free(&x.sequence);
    ok(hke_sequence_rewind(fork, 700) == 700, "the fork rewinds by itself");
    memcpy(got, other, sizeof got);
    go_on(&x, fork, 1, 900, other);
    ok(memcmp(got, other, sizeof got) == 0, "with the same bits");
    hke_sequence_free(&fork);
    ok(blocks_of(&x, WHOLE) == 0 && blocks_of(&x, WINDOW) == 0, "no block is left behind");
    close_fixture(&x);
}

/* A window's blocks are used again, so the bound is reached by the other layers first. */
static void check_full(void)
{
    struct fixture x;
    open_fixture(&x, 64, 3 * HKE_BLOCK);
    ok(go_on(&x, x.sequence, 0, 768, got) == HK_OK && same_from(0, 768),
       "a bounded cache is filled");
    ok(go_on(&x, x.sequence, 0, 769, got) == HK_E_NOMEM && hke_sequence_used(x.sequence) == 768,
       "and then full");
    close_fixture(&x);
}

/* Chunks of 64: what is in the first of them sees all there is, and what is first in the next sees
 * itself alone, as token 0 does. */
static void check_chunks(void)
{
    struct fixture x;
    bool same = true;
    open_fixture(&x, TEXT, 0);
    for (unsigned i = 0; i < 2; i++) {
        plan_of(&x)->cache[i].window = 64;
        plan_of(&x)->cache[i].chunked = true;
    }
    go_on(&x, x.sequence, 0, TEXT, whole);
    close_fixture(&x);
    for (size_t batch = 1; batch < 200; batch += 66) {
        open_fixture(&x, batch, 0);
        for (unsigned i = 0; i < 2; i++) {
            plan_of(&x)->cache[i].window = 64;
            plan_of(&x)->cache[i].chunked = true;
        }
        go_on(&x, x.sequence, 0, TEXT, got);
        same = same && same_from(0, TEXT) && blocks_of(&x, WHOLE) <= 3;
        close_fixture(&x);
    }
    ok(same, "chunks in batches of 1, 67 and 133 give the same bits");
    open_fixture(&x, TEXT, 0);
    plan_of(&x)->cache[WINDOW].window = 0;
    go_on(&x, x.sequence, 0, TEXT, got);
    ok(same_from(0, 64) && !same_from(64, 65), "the first chunk sees all, the next does not");
    close_fixture(&x);
    compute_whole();
}

static void set_sinks(const struct fixture *x, const float *sinks)
{
    for (size_t i = 0; i < plan_of(x)->steps; i++)
        if (plan_of(x)->step[i].kind == HKE_ATTEND)
            plan_of(x)->step[i].sinks = sinks;
}

/* A sink that is small changes nothing; one that is large leaves nothing of what is attended to. */
static void check_sinks(void)
{
    static const float small[MINI_HEADS] = {-1e30f, -INFINITY}, large[MINI_HEADS] = {1e30f, 1e30f};
    const float *sinks[] = {small, large};
    struct fixture x;
    for (unsigned i = 0; i < 2; i++)
        for (size_t batch = 5; batch <= 100; batch += 95) {
            open_fixture(&x, batch, 0);
            set_sinks(&x, sinks[i]);
            go_on(&x, x.sequence, 0, 600, got);
            if (i == 0)
                ok(same_from(0, 600), "small sinks change nothing in batches of %zu", batch);
            const size_t a = 90 * MINI_VOCAB, b = 570 * MINI_VOCAB; /* the same id */
            if (i == 1)
                ok(memcmp(got + a, got + b, MINI_VOCAB * sizeof *got) == 0 && isfinite(got[a]),
                   "large sinks leave a token alone in batches of %zu", batch);
            close_fixture(&x);
        }
}

/* Queries of a model with a temperature grow from position 64 on. */
static void check_temperature(void)
{
    struct fixture x;
    for (unsigned i = 0; i < 2; i++) {
        open_model(&x, "mistral3", 50, 0);
        for (size_t k = 0; i == 1 && k < plan_of(&x)->steps; k++)
            plan_of(&x)->step[k].operand[0].period = 0;
        go_on(&x, x.sequence, 0, 200, i == 0 ? whole : got);
        close_fixture(&x);
    }
    ok(same_from(0, 64) && !same_from(64, 65) && !same_from(199, 200),
       "a temperature counts from its period on");
}

int main(void)
{
    compute_whole();
    check_batches();
    check_rewinds();
    check_forks();
    check_full();
    check_chunks();
    check_sinks();
    check_temperature();
    return tap_done();
}
