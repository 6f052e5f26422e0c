/* Many texts in one batch, by a random schedule: parts of any length, logits of any of them, forks,
 * adapters, rewinds, texts that end and begin, a KV cache that is full. Every logit is that of the
 * same text alone, with one thread. HK_SEED replaces the seed; HK_FULL runs the whole grid. */
#include "engine/plan/adapters.h"
#include "engine/plan/model.h"
#include "engine/sample/random.h"
#include "engine/sequences.h"
#include "kernels/kernels.h"
#include "tests/lib/mini_model.h"

enum { MAX_TEXTS = 64, POSITIONS = 700, LISTS = 3 };

struct setting {
    size_t texts, batch, steps;
    size_t cache_positions; /* 0: no bound */
    unsigned threads;
    bool best; /* kernels; else generic */
};

/* A text with all that it gave so far. */
struct text {
    struct hke_sequence *sequence;
    size_t list; /* of adapters */
    uint32_t id[POSITIONS];
    bool known[POSITIONS]; /* the logits behind it were wanted */
    float *logits;         /* [POSITIONS][vocab] */
};

struct run {
    struct hke_random random;
    const struct hke_model *model;
    size_t vocab, texts;
    struct hke_runner *runner;
    struct hke_adapters *adapters[LISTS]; /* the first: NULL */
    struct hke_context *alone[LISTS];     /* with each of them */
    struct text text[MAX_TEXTS];
    struct hke_part part[MAX_TEXTS];
    struct text *of_part[MAX_TEXTS];
    size_t start[MAX_TEXTS]; /* positions that they had */
    size_t compared, forks, rewinds, refused;
    bool same;
};

static size_t draw(struct run *r, size_t below)
{
    return (size_t)(hke_random_next(&r->random) % below);
}

/* ---- alone ---- */

struct comparison {
    struct run *run;
    const struct text *text;
};

static enum hk_status compare_position(void *arg, size_t position, const float *logits,
                                       size_t vocab, struct hk_error *err)
{
    (void)err;
    const struct comparison *c = arg;
    if (!c->text->known[position])
        return HK_OK;
    c->run->compared++;
    if (memcmp(c->text->logits + position * vocab, logits, vocab * sizeof *logits) != 0 ||
        !isfinite(logits[0])) {
        if (c->run->same)
            printf("# text %td differs at position %zu of %zu\n", c->text - c->run->text, position,
                   hke_sequence_used(c->text->sequence));
        c->run->same = false;
    }
    return HK_OK;
}

/* What T gave so far against the same text alone. */
static void compare_text(struct run *r, const struct text *t)
{
    struct comparison c = {r, t};
    struct hk_error err;
    const size_t used = hke_sequence_used(t->sequence);
    hke_context_reset(r->alone[t->list]);
    if (used > 0)
        mini_must(hke_eval(r->alone[t->list], t->id, used, compare_position, &c, &err), &err);
}

/* ---- what may happen to a text ---- */

static void begin_text(struct run *r, struct text *t)
{
    struct hk_error err;
    t->list = draw(r, LISTS);
    mini_must(hke_sequence_new(&t->sequence, r->runner, r->adapters[t->list], &err), &err);
    memset(t->known, 0, sizeof t->known);
}

static void end_text(struct run *r, struct text *t)
{
    compare_text(r, t);
    hke_sequence_free(&t->sequence);
}

/* A text in the place of TO that begins as FROM did. */
static void fork_text(struct run *r, struct text *to, const struct text *from)
{
    struct hk_error err;
    if (to == from)
        return;
    end_text(r, to);
    mini_must(hke_sequence_fork(&to->sequence, from->sequence, &err), &err);
    to->list = from->list;
    memcpy(to->id, from->id, sizeof to->id);
    memcpy(to->known, from->known, sizeof to->known);
    memcpy(to->logits, from->logits, POSITIONS * r->vocab * sizeof *to->logits);
    r->forks++;
}

static void rewind_text(struct run *r, struct text *t)
{
    const size_t used = hke_sequence_used(t->sequence);
    if (used == 0)
        return;
    size_t to = draw(r, used);
    compare_text(r, t);
    to = hke_sequence_rewind(t->sequence, to); /* or to nothing, where a window is too far */
    for (size_t i = to; i < POSITIONS; i++)
        t->known[i] = false;
    r->rewinds++;
}

static void change_a_text(struct run *r)
{
    struct text *t = &r->text[draw(r, r->texts)];
    switch (draw(r, 8)) {
    case 0:
        end_text(r, t);
        begin_text(r, t);
        break;
    case 1:
    case 2:
        rewind_text(r, t);
        break;
    case 3:
    case 4:
        fork_text(r, t, &r->text[draw(r, r->texts)]);
        break;
    default: /* mostly nothing */
        break;
    }
}

/* ---- a batch ---- */

/* How many ids T goes on with: mostly one, sometimes a prompt. */
static size_t draw_length(struct run *r, const struct text *t)
{
    const size_t left = POSITIONS - hke_sequence_used(t->sequence);
    const size_t most[] = {1, 1, 1, 4, 40, 300}, n = 1 + draw(r, most[draw(r, 6)]);
    return n < left ? n : left;
}

static void add_part(struct run *r, struct text *t, size_t *parts)
{
    const size_t used = hke_sequence_used(t->sequence), n = draw_length(r, t);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        t->id[used + i] = (uint32_t)draw(r, r->vocab);
    r->start[*parts] = used;
    r->of_part[*parts] = t;
    r->part[(*parts)++] = (struct hke_part){t->sequence, t->id + used, n,
                                            draw(r, 2) == 0 ? draw(r, n + 1) : draw(r, 2)};
}

static enum hk_status keep_logits(void *arg, size_t part, size_t index, const float *logits,
                                  size_t vocab, struct hk_error *err)
{
    (void)err;
    struct run *r = arg;
    struct text *t = r->of_part[part];
    const size_t position = r->start[part] + index;
    memcpy(t->logits + position * vocab, logits, vocab * sizeof *logits);
    t->known[position] = true;
    return HK_OK;
}

/* Some of the texts, in any order, go on. */
static void run_batch(struct run *r)
{
    struct hk_error err;
    size_t parts = 0, first = draw(r, r->texts), odd = draw(r, 3);
    for (size_t i = 0; i < r->texts; i++)
        if (odd == 0 || draw(r, odd + 1) != 0)
            add_part(r, &r->text[(first + i) % r->texts], &parts);
    enum hk_status st = hke_runner_eval(r->runner, r->part, parts, keep_logits, r, &err);
    if (st == HK_E_NOMEM) {
        struct text *t = &r->text[draw(r, r->texts)];
        for (size_t i = 0; i < parts; i++)
            r->same = r->same && hke_sequence_used(r->part[i].sequence) == r->start[i];
        r->refused++;
        end_text(r, t);
        begin_text(r, t);
        return;
    }
    mini_must(st, &err);
    for (size_t i = 0; i < parts; i++)
        r->same = r->same && hke_sequence_used(r->part[i].sequence) == r->start[i] + r->part[i].n;
}

/* ---- adapters ---- */

static float *random_floats(struct run *r, size_t n)
{
    float *x = calloc(n, sizeof *x);
    for (size_t i = 0; x != NULL && i < n; i++)
        x[i] = (float)draw(r, 2001) / 5000 - 0.2f;
    return x;
}

static void need_memory(const void *p)
{
    if (p == NULL)
        mini_must(HK_E_NOMEM, &(struct hk_error){.text = "out of memory"});
}

/* A pair of RANK, perhaps with scales for the rows as a DoRA has them. */
static void change_by_pair(struct run *r, struct hke_change *c, const struct hke_weight *w,
                           size_t rank)
{
    c->first = 1;
    c->rank = rank;
    need_memory(c->a = random_floats(r, rank * w->cols));
    need_memory(c->b = random_floats(r, rank * w->rows));
    if (draw(r, 3) == 0)
        need_memory(c->row_scale = random_floats(r, w->rows));
}

/* Every third row of W, or all. */
static void replace_weight(struct run *r, struct hke_change *c, const struct hke_weight *w,
                           bool all)
{
    c->first = 1;
    c->replaced_count = all ? w->rows : (w->rows + 2) / 3;
    need_memory(c->replaced = random_floats(r, c->replaced_count * w->cols));
    if (all)
        return;
    need_memory(c->row = calloc(c->replaced_count, sizeof *c->row));
    for (size_t i = 0; i < c->replaced_count; i++)
        c->row[i] = (uint32_t)(3 * i);
}

/* Ranks of 1 to 9 at some of the weights, others replaced; of the second list the embedding too. */
static void make_adapters(struct run *r, size_t list)
{
    const struct hke_plan *plan = r->model->plan;
    struct hke_adapters **a = &r->adapters[list];
    struct hk_error err;
    mini_must(hke_adapters_new(a, r->model, &err), &err);
    if (list == 1) {
        change_by_pair(r, &(*a)->embedding, plan->step[0].operand[0].weight, 3);
        replace_weight(r, &(*a)->embedding, plan->step[0].operand[0].weight, false);
    }
    for (size_t i = 0; i < plan->weights; i++) {
        struct hke_change *c = &(*a)->product[i];
        const size_t how = draw(r, 6);
        if (how > 2)
            change_by_pair(r, c, &plan->weight[i], 1 + draw(r, 9));
        if (how == 0 || how == 3)
            replace_weight(r, c, &plan->weight[i], draw(r, 2) == 0);
        hke_to_file_order(c->a, c->rank * plan->weight[i].cols);
        hke_to_file_order(c->replaced, c->replaced_count * plan->weight[i].cols);
        if (c->rank > (*a)->max_rank)
            (*a)->max_rank = c->rank;
    }
}

/* ---- a schedule ---- */

static void open_run(struct run *r, const struct hke_model *m, const struct setting *s,
                     uint64_t seed)
{
    struct hk_error err;
    const struct hkk_table *generic = NULL;
    *r = (struct run){.model = m, .texts = s->texts, .same = true};
    r->vocab = hke_model_params(m)->vocab;
    hke_random_seed(&r->random, seed);
    hkk_select("generic", &generic);
    struct hke_context_options alone = {.positions = POSITIONS,
                                        .batch = 64,
                                        .threads = 1,
                                        .every_logit = true,
                                        .kernels = s->best ? NULL : generic};
    const struct hke_context_options together = {.positions = POSITIONS,
                                                 .batch = s->batch,
                                                 .threads = s->threads,
                                                 .every_logit = s->batch % 2 == 0,
                                                 .cache_positions = s->cache_positions,
                                                 .kernels = s->best ? NULL : generic};
    for (size_t i = 0; i < LISTS; i++) {
        if (i > 0)
            make_adapters(r, i);
        alone.adapters = r->adapters[i];
        mini_must(hke_context_new(&r->alone[i], m, &alone, &err), &err);
    }
    mini_must(hke_runner_new(&r->runner, m, &together, &err), &err);
    for (size_t i = 0; i < r->texts; i++) {
        r->text[i].logits = calloc(POSITIONS * r->vocab, sizeof *r->text[i].logits);
        if (r->text[i].logits == NULL)
            mini_must(HK_E_NOMEM, &(struct hk_error){.text = "out of memory"});
        begin_text(r, &r->text[i]);
    }
}

static void close_run(struct run *r)
{
    for (size_t i = 0; i < r->texts; i++) {
        end_text(r, &r->text[i]);
        free(r->text[i].logits);
    }
    r->same = r->same && hke_runner_blocks(r->runner).used == 0;
    hke_runner_free(&r->runner);
    for (size_t i = 0; i < LISTS; i++) {
        hke_context_free(&r->alone[i]);
        hke_adapters_free(&r->adapters[i]);
    }
}

static void check_schedule(const char *name, const struct hke_model *m, const struct setting *s,
                           uint64_t seed)
{
    static struct run r;
    open_run(&r, m, s, seed);
    for (size_t i = 0; i < s->steps; i++) {
        change_a_text(&r);
        run_batch(&r);
    }
    close_run(&r);
    ok(r.same && r.compared > 0,
       "%s, %zu texts with 3 lists of adapters in batches of %zu, %s kernels, %u threads, seed %llu: %zu logits, %zu forks, "
       "%zu rewinds, %zu refused",
       name, s->texts, s->batch, s->best ? "best" : "generic", s->threads, (unsigned long long)seed,
       r.compared, r.forks, r.rewinds, r.refused);
}

static uint64_t first_seed(void)
{
    const char *seed = getenv("HK_SEED");
    return seed != NULL ? strtoull(seed, NULL, 10) : 1;
}

static void check_grid(const char *name, const struct hke_model *m, size_t steps)
{
    static const size_t texts[] = {2, 5, 16, 64}, batches[] = {512, 7, 64, 33};
    uint64_t seed = first_seed();
    for (size_t i = 0; i < 16; i++) {
        struct setting s = {.texts = texts[i / 4],
                            .batch = batches[(i + i / 4) % 4],
                            .steps = steps,
                            .threads = i % 2 ? 3 : 1,
                            .best = i / 2 % 2};
        check_schedule(name, m, &s, seed++);
        s.cache_positions = s.texts * HKE_BLOCK * 5 / 4;
        check_schedule(name, m, &s, seed++);
    }
}

static void check_sample(const char *name, const struct hke_model *m)
{
    static const struct setting settings[] = {
        {2, 7, 40, 2 * HKE_BLOCK, 1, false},
        {5, 512, 20, 0, 3, true},
        {16, 64, 12, 20 * HKE_BLOCK, 3, true},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_schedule(name, m, &settings[i], first_seed() + i);
}

static void check_model(const char *name, const struct hk_file *f)
{
    struct hke_model *m;
    struct hk_error err;
    mini_must(hke_model_new(&m, f, &err), &err);
    if (getenv("HK_FULL") != NULL)
        check_grid(name, m, hke_model_params(m)->vocab > MINI_VOCAB ? 12 : 40);
    else
        check_sample(name, m);
    hke_model_free(&m);
}

/* A model of the repository, or of HK_SHARED. */
static void check_stored_model(const char *variable, const char *folder, const char *name)
{
    char path[4096];
    struct hk_file *f;
    const char *root = getenv(variable);
    snprintf(path, sizeof path, "%s/%s%s", root != NULL ? root : "tests/fixtures", folder, name);
    if (hk_open(&f, path, NULL) != HK_OK) {
        tap_skip(name, "SKIPPED: not in the repository, and HK_SHARED does not have it");
        return;
    }
    check_model(name, f);
    hk_close(&f);
}

int main(void)
{
    static const char *const families[] = {"qwen3", "llama", "gemma2", "qwen2moe", "gpt-oss"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct hk_file *f = mini_model(families[i], (struct mini_change){MINI_AS_IS, "", 0, NULL});
        check_model(families[i], f);
        hk_close(&f);
    }
    check_stored_model("HK_FIXTURES", "models/", "stories260K-f16.gguf");
    check_stored_model("HK_SHARED", "fixtures/models/", "stories260K-q4_0.gguf");
    check_stored_model("HK_SHARED", "fixtures/models/", "stories260K-q5_1.gguf");
    return tap_done();
}
