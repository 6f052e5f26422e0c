/* Sequences that share a KV cache: forks, rewinds, blocks counted, a cache that is full, calls that
 * break the contract. */
#include "engine/cpu/cpu.h"
#include "engine/run/runner.h"
#include "tests/lib/mini_model.h"

enum { TEXT = 530 }; /* three blocks */

static const struct mini_change as_is = {MINI_AS_IS, "", 0, NULL};

struct fixture {
    struct hk_file *file;
    struct hke_model *model;
    struct hke_runner *runner;
};

static void open_fixture(struct fixture *x, struct hke_context_options opt)
{
    struct hk_error err;
    opt.threads = 2;
    opt.every_logit = true;
    *x = (struct fixture){.file = mini_model("qwen3", as_is)};
    mini_must(hke_model_new(&x->model, x->file, &err), &err);
    mini_must(hke_runner_new(&x->runner, x->model, &opt, &err), &err);
}

static void close_fixture(struct fixture *x)
{
    hke_runner_free(&x->runner);
    hke_model_free(&x->model);
    hk_close(&x->file);
}

static struct hke_sequence *new_sequence(const struct fixture *x)
{
    struct hke_sequence *s;
    struct hk_error err;
    mini_must(hke_sequence_new(&s, x->runner, NULL, &err), &err);
    return s;
}

static struct hke_sequence *fork_of(const struct hke_sequence *s)
{
    struct hke_sequence *fork;
    struct hk_error err;
    mini_must(hke_sequence_fork(&fork, s, &err), &err);
    return fork;
}

static size_t used_blocks(const struct fixture *x)
{
    return hke_runner_blocks(x->runner).used;
}

/* Id of position I in text WHICH. */
static uint32_t id_of(unsigned which, size_t i)
{
    return (uint32_t)(i * 7 + i / 5 + which * (i / 3 + 1)) % MINI_VOCAB;
}

static enum hk_status keep_last(void *arg, size_t part, size_t index, const float *logits,
                                size_t vocab, struct hk_error *err)
{
    (void)part, (void)index, (void)err;
    memcpy(arg, logits, vocab * sizeof *logits);
    return HK_OK;
}

/* Go on with S as text WHICH up to position END; the last logits to OUT. */
static enum hk_status go_on(const struct fixture *x, struct hke_sequence *s, unsigned which,
                            size_t end, float *out, struct hk_error *err)
{
    uint32_t id[TEXT];
    const size_t used = hke_sequence_used(s);
    for (size_t i = used; i < end; i++)
        id[i - used] = id_of(which, i);
    const struct hke_part part = {s, id, end - used, 1};
    return hke_runner_eval(x->runner, &part, 1, keep_last, out, err);
}

/* The logits after END positions of a text that is WHICH before AT, and WHICH_NEXT behind it. */
static void eval_alone(const struct fixture *x, unsigned which, size_t at, unsigned which_next,
                       size_t end, float *out)
{
    struct hk_error err;
    struct hke_sequence *s = new_sequence(x);
    if (at > 0)
        mini_must(go_on(x, s, which, at, out, &err), &err);
    mini_must(go_on(x, s, which_next, end, out, &err), &err);
    hke_sequence_free(&s);
}

static bool same_logits(const float *a, const float *b)
{
    return memcmp(a, b, MINI_VOCAB * sizeof *a) == 0;
}

/* ---- forks and rewinds ---- */

static void check_fork(size_t at)
{
    struct fixture x;
    struct hk_error err;
    float got[MINI_VOCAB], want[MINI_VOCAB];
    open_fixture(&x, (struct hke_context_options){.batch = 100});
    struct hke_sequence *s = new_sequence(&x);
    mini_must(go_on(&x, s, 0, at, got, &err), &err);
    const size_t before = used_blocks(&x);
    struct hke_sequence *fork = fork_of(s);
    ok(used_blocks(&x) == before && hke_sequence_used(fork) == at,
       "a fork after %zu positions takes no block", at);
    bool same = true;
    mini_must(go_on(&x, fork, 1, at + 20, got, &err), &err);
    ok(used_blocks(&x) == before + 1, "and one when it goes on");
    eval_alone(&x, 0, at, 1, at + 20, want);
    same = same_logits(got, want);
    mini_must(go_on(&x, s, 2, at + 20, got, &err), &err);
    eval_alone(&x, 0, at, 2, at + 20, want);
    ok(same && same_logits(got, want), "both go on as if they were alone");
    hke_sequence_free(&s);
    mini_must(go_on(&x, fork, 1, at + 30, got, &err), &err);
    eval_alone(&x, 0, at, 1, at + 30, want);
    ok(same_logits(got, want), "a fork outlives what it comes from");
    hke_sequence_free(&fork);
    ok(used_blocks(&x) == 0 && fork == NULL, "no block is left behind");
    close_fixture(&x);
}

static void check_rewind(void)
{
    struct fixture x;
    struct hk_error err;
    float got[MINI_VOCAB], want[MINI_VOCAB];
    open_fixture(&x, (struct hke_context_options){0});
    struct hke_sequence *s = new_sequence(&x);
    mini_must(go_on(&x, s, 0, TEXT, got, &err), &err);
    struct hke_sequence *fork = fork_of(s);
    hke_sequence_rewind(s, TEXT + 1);
    ok(hke_sequence_used(s) == TEXT && used_blocks(&x) == 3, "to rewind forward is nothing");
    hke_sequence_rewind(s, 200);
    ok(hke_sequence_used(s) == 200 && used_blocks(&x) == 3, "blocks of a fork stay");
    mini_must(go_on(&x, s, 1, 260, got, &err), &err);
    eval_alone(&x, 0, 200, 1, 260, want);
    ok(same_logits(got, want) && used_blocks(&x) == 5, "a shared full block is copied");
    mini_must(go_on(&x, fork, 2, TEXT + 5, got, &err), &err);
    eval_alone(&x, 0, TEXT, 2, TEXT + 5, want);
    ok(same_logits(got, want), "the fork has its own still");
    hke_sequence_rewind(s, 0);
    ok(used_blocks(&x) == 3, "a sequence that was rewound to nothing has no block");
    hke_sequence_free(&s);
    hke_sequence_free(&fork);
    close_fixture(&x);
}

/* ---- a cache that is full ---- */

static void check_full(void)
{
    struct fixture x;
    struct hk_error err = {0};
    float got[MINI_VOCAB], want[MINI_VOCAB];
    open_fixture(&x, (struct hke_context_options){.cache_positions = 3 * HKE_BLOCK});
    struct hke_sequence *a = new_sequence(&x), *b = new_sequence(&x);
    mini_must(go_on(&x, a, 0, 300, got, &err), &err);
    mini_must(go_on(&x, b, 1, 100, got, &err), &err);
    ok(hke_runner_blocks(x.runner).most == 3 && used_blocks(&x) == 3, "three blocks are in use");
    ok(go_on(&x, b, 1, 300, got, &err) == HK_E_NOMEM &&
           strstr(err.text, "the KV cache is full: all 3 blocks of 256 positions") != NULL &&
           hke_sequence_used(b) == 100,
       "a fourth is refused: %s", err.text);
    struct hke_sequence *fork = fork_of(b);
    ok(go_on(&x, fork, 1, 101, got, &err) == HK_E_NOMEM, "and so is a copy for a fork");
    hke_sequence_rewind(a, 256);
    mini_must(go_on(&x, b, 1, 101, got, &err), &err);
    mini_must(go_on(&x, fork, 1, 102, got, &err), &err);
    hke_sequence_free(&a);
    mini_must(go_on(&x, b, 1, 300, got, &err), &err);
    hke_sequence_free(&fork);
    hke_sequence_free(&b);
    eval_alone(&x, 1, 0, 1, 300, want);
    ok(same_logits(got, want), "once others are freed it goes on as if nothing had been");
    close_fixture(&x);
}

/* ---- what a block held before ---- */

/* Every half in the KV cache becomes a NaN, as a text with broken logits would leave them. */
static void poison_blocks(const struct fixture *x)
{
    const struct hke_cpu *c = (const struct hke_cpu *)x->runner->device;
    const struct hke_cache_class *class = &c->plan->cache[0];
    const size_t halves =
        (size_t)HKE_BLOCK * class->layers * class->kv_heads * (class->key_dim + class->value_dim);
    for (size_t i = 0; i < c->kv[0].n; i++)
        memset(c->kv[0].block[i], 0xff, halves * sizeof(uint16_t));
}

static void check_reuse(void)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    const size_t levels = hkk_levels(level);
    for (size_t i = 0; i < levels; i++) {
        struct fixture x;
        float got[MINI_VOCAB], want[MINI_VOCAB];
        bool same = true;
        if (level[i].table == NULL || level[i].why_not != NULL)
            continue;
        open_fixture(&x, (struct hke_context_options){.batch = 100, .kernels = level[i].table});
        for (size_t end = TEXT - 20; end <= TEXT; end++) {
            eval_alone(&x, 0, 0, 0, end, want);
            poison_blocks(&x);
            eval_alone(&x, 0, end - 3, 0, end, got);
            same = same && same_logits(got, want) && isfinite(got[0]);
        }
        ok(same, "%s: nothing is seen of what a block held before", level[i].name);
        close_fixture(&x);
    }
}

/* ---- the contract ---- */

static void check_contract(void)
{
    struct fixture x, y;
    struct hk_error err;
    float got[MINI_VOCAB];
    static const uint32_t id[] = {1, 2, 3}, wrong[] = {1, MINI_VOCAB};
    open_fixture(&x, (struct hke_context_options){.positions = 10});
    open_fixture(&y, (struct hke_context_options){.positions = 10});
    struct hke_sequence *s = new_sequence(&x), *t = new_sequence(&x), *other = new_sequence(&y);
    const struct {
        const char *what;
        enum hk_status status;
        struct hke_part part[2];
    } cases[] = {
        {"a sequence twice", HK_E_USE, {{s, id, 2, 0}, {s, id, 2, 0}}},
        {"a sequence of another runner", HK_E_USE, {{s, id, 2, 0}, {other, id, 2, 0}}},
        {"an empty part", HK_E_USE, {{s, id, 2, 0}, {t, id, 0, 0}}},
        {"more logits than ids", HK_E_USE, {{s, id, 2, 0}, {t, id, 2, 3}}},
        {"an id outside the embedding", HK_E_RANGE, {{s, id, 2, 0}, {t, wrong, 2, 1}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok(hke_runner_eval(x.runner, cases[i].part, 2, NULL, NULL, &err) == cases[i].status &&
               hke_sequence_used(s) == 0 && used_blocks(&x) == 0,
           "%s is refused", cases[i].what);
    mini_must(go_on(&x, s, 0, 10, got, &err), &err);
    ok(go_on(&x, s, 0, 11, got, &err) == HK_E_RANGE &&
           strstr(err.text, "1 tokens after 10 do not fit a context of 10") != NULL,
       "a sequence that is full is refused more");
    ok(hke_runner_eval(x.runner, NULL, 0, NULL, NULL, &err) == HK_OK, "no parts are nothing");
    struct hke_adapters *adapters;
    struct hke_sequence *none = NULL;
    mini_must(hke_adapters_new(&adapters, y.model, &err), &err);
    ok(hke_sequence_new(&none, x.runner, adapters, &err) == HK_E_USE && none == NULL,
       "adapters of another model are refused");
    hke_adapters_free(&adapters);
    hke_sequence_free(&s);
    hke_sequence_free(&s);
    hke_sequence_free(&t);
    hke_sequence_free(&other);
    close_fixture(&x);
    close_fixture(&y);
}

int main(void)
{
    check_fork(100);
    check_fork(256);
    check_fork(300);
    check_rewind();
    check_full();
    check_reuse();
    check_contract();
    return tap_done();
}
