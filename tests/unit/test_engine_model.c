/* What a model has to be, and what a context does with it: every refusal by its reason, the same
 * bits for every batch, the edges of a context. */
#include "tests/lib/mini_model.h"

/* ---- refusals ---- */

struct refusal {
    const char *arch;
    struct mini_change change;
    enum hk_status status;
    const char *message; /* a part of it */
};

/* clang-format off */
static const struct refusal refusals[] = {
    {"llama", {MINI_DROP, "general.architecture", 0, NULL}, HK_E_MISSING, "general.architecture"},
    {"rwkv7", {MINI_AS_IS, "", 0, NULL}, HK_E_UNSUPPORTED, "architecture 'rwkv7'"},
    {"LLAMA", {MINI_AS_IS, "", 0, NULL}, HK_E_UNSUPPORTED, "architecture 'LLAMA'"},
    {"llama", {MINI_NUMBER, "general.architecture", 1, NULL}, HK_E_FORMAT, "general.architecture"},

    {"llama", {MINI_NUMBER, "llama.attention.sliding_window", -1, NULL}, HK_E_RANGE, "is -1, not 0 to"},
    {"gemma2", {MINI_REAL, "gemma2.attn_logit_softcapping", -1, NULL}, HK_E_RANGE, "is -1, not a number from 0"},
    {"granite", {MINI_REAL, "granite.residual_scale", 0, NULL}, HK_E_RANGE, "is 0, not a number above 0"},
    {"qwen2", {MINI_NUMBER, "qwen2.expert_count", 8, NULL}, HK_E_UNSUPPORTED, "experts"},
    {"llama", {MINI_NUMBER, "llama.expert_count", 8, NULL}, HK_E_MISSING, "llama.expert_used_count"},
    {"llama", {MINI_YES_NO, "llama.attention.causal", 0, NULL}, HK_E_UNSUPPORTED, "causal"},
    {"llama", {MINI_TEXT, "llama.rope.scaling.type", 0, "longrope"}, HK_E_UNSUPPORTED, "rope scaling 'longrope'"},
    {"llama", {MINI_NUMBER, "llama.rope.scaling.type", 1, NULL}, HK_E_FORMAT, "llama.rope.scaling.type"},
    {"llama", {MINI_TEXT, "hk.rope_style", 0, "spiral"}, HK_E_UNSUPPORTED, "key hk.rope_style: order of rows 'spiral'"},
    {"llama", {MINI_OPAQUE, "blk.1.ffn_up.weight", 0, NULL}, HK_E_UNSUPPORTED, "tensor blk.1.ffn_up.weight: type dq6"},

    {"llama", {MINI_DROP, "llama.block_count", 0, NULL}, HK_E_MISSING, "llama.block_count"},
    {"llama", {MINI_DROP, "llama.embedding_length", 0, NULL}, HK_E_MISSING, "llama.embedding_length"},
    {"llama", {MINI_DROP, "llama.feed_forward_length", 0, NULL}, HK_E_MISSING, "llama.feed_forward_length"},
    {"llama", {MINI_DROP, "llama.attention.head_count", 0, NULL}, HK_E_MISSING, "llama.attention.head_count"},
    {"llama", {MINI_NUMBER, "llama.block_count", 4294967295, NULL}, HK_E_RANGE, "llama.block_count is 4294967295"},
    {"llama", {MINI_NUMBER, "llama.block_count", 1000000, NULL}, HK_E_RANGE, "llama.block_count is 1000000"},
    {"llama", {MINI_NUMBER, "llama.block_count", 0, NULL}, HK_E_RANGE, "llama.block_count is 0"},
    {"llama", {MINI_NUMBER, "llama.block_count", -1, NULL}, HK_E_RANGE, "llama.block_count is -1"},
    {"llama", {MINI_TEXT, "llama.block_count", 0, "2"}, HK_E_FORMAT, "llama.block_count"},
    {"llama", {MINI_NUMBER, "llama.block_count", 3, NULL}, HK_E_MISSING, "no tensor blk.2.attn_norm.weight"},
    {"llama", {MINI_NUMBER, "llama.block_count", 1, NULL}, HK_E_UNSUPPORTED, "tensor blk.1."},
    {"llama", {MINI_NUMBER, "llama.attention.head_count_kv", 3, NULL}, HK_E_FORMAT, "2 heads cannot share 3"},
    {"llama", {MINI_NUMBER, "llama.attention.key_length", 1048577, NULL}, HK_E_RANGE, "llama.attention.key_length"},
    {"llama", {MINI_NUMBER, "llama.rope.dimension_count", 3, NULL}, HK_E_FORMAT, "llama.rope.dimension_count is 3"},
    {"llama", {MINI_NUMBER, "llama.rope.dimension_count", 8, NULL}, HK_E_FORMAT, "above the head's 6"},
    {"llama", {MINI_REAL, "llama.rope.freq_base", 0, NULL}, HK_E_RANGE, "llama.rope.freq_base is 0"},
    {"llama", {MINI_REAL, "llama.rope.freq_base", NAN, NULL}, HK_E_RANGE, "llama.rope.freq_base"},
    {"llama", {MINI_REAL, "llama.rope.scaling.factor", -2, NULL}, HK_E_RANGE, "llama.rope.scaling.factor is -2"},
    {"llama", {MINI_REAL, "llama.rope.scaling.attn_factor", 0, NULL}, HK_E_RANGE, "llama.rope.scaling.attn_factor is 0"},
    {"llama", {MINI_REAL, "llama.rope.scaling.yarn_ext_factor", -1, NULL}, HK_E_RANGE, "yarn_ext_factor is -1"},
    {"llama", {MINI_REAL, "llama.rope.scaling.yarn_log_multiplier", 0.1, NULL}, HK_E_UNSUPPORTED, "yarn_log_multiplier"},
    {"llama", {MINI_REAL, "hk.rope.beta_fast", INFINITY, NULL}, HK_E_RANGE, "hk.rope.beta_fast"},
    {"llama", {MINI_ZERO, "output_norm.weight", 0, NULL}, HK_E_UNSUPPORTED, "output_norm.weight is null_ref: a norm or a bias"},
    {"llama", {MINI_REAL, "llama.attention.layer_norm_rms_epsilon", INFINITY, NULL}, HK_E_RANGE, "epsilon"},

    {"llama", {MINI_DROP, "token_embd.weight", 0, NULL}, HK_E_MISSING, "no tensor token_embd.weight"},
    {"llama", {MINI_DROP, "output_norm.weight", 0, NULL}, HK_E_MISSING, "no tensor output_norm.weight"},
    {"llama", {MINI_DROP, "blk.1.ffn_down.weight", 0, NULL}, HK_E_MISSING, "no tensor blk.1.ffn_down.weight"},
    {"llama", {MINI_COLS, "token_embd.weight", 9, NULL}, HK_E_FORMAT, "token_embd.weight is 16 x 9, but the model has it 16 x 8"},
    {"llama", {MINI_ROWS, "blk.0.attn_k.weight", 12, NULL}, HK_E_FORMAT, "blk.0.attn_k.weight is 12 x 8, but the model has it 6 x 8"},
    {"llama", {MINI_COLS, "blk.0.attn_output.weight", 8, NULL}, HK_E_FORMAT, "blk.0.attn_output.weight is 8 x 8, but the model has it 8 x 12"},
    {"llama", {MINI_COLS, "output_norm.weight", 7, NULL}, HK_E_FORMAT, "output_norm.weight is 7, but the model has it 8"},
    {"llama", {MINI_MATRIX, "output_norm.weight", 0, NULL}, HK_E_FORMAT, "output_norm.weight is 1 x 8"},
    {"llama", {MINI_ROWS, "output.weight", 17, NULL}, HK_E_FORMAT, "output.weight is 17 x 8"},
    {"llama", {MINI_VAST, "token_embd.weight", 100000000, NULL}, HK_E_RANGE, "token_embd.weight is 100000000 x 8: more weights than a file of"},
    {"llama", {MINI_VAST, "token_embd.weight", 1e17, NULL}, HK_E_FORMAT, "token_embd.weight has 2 dimensions and 100000000000000000 rows"},
    {"llama", {MINI_ADD, "rope_freqs.weight", 3, NULL}, HK_E_FORMAT, "rope_freqs.weight is 3"},
    {"llama", {MINI_TOKENS, "", 17, NULL}, HK_E_FORMAT, "the vocabulary has 17 tokens, the embedding 16 rows"},
    {"llama", {MINI_TOKENS, "", 0, NULL}, HK_E_FORMAT, "the vocabulary has 0 tokens"},
    {"llama", {MINI_NUMBER, "tokenizer.ggml.tokens", 4, NULL}, HK_E_FORMAT, "tokenizer.ggml.tokens"},

    {"llama", {MINI_ADD, "blk.0.attn_q.bias", 12, NULL}, HK_E_UNSUPPORTED, "blk.0.attn_q.bias has no place in a llama model"},
    {"mistral", {MINI_ADD, "blk.0.attn_q_norm.weight", 6, NULL}, HK_E_UNSUPPORTED, "has no place in a mistral model"},
    {"qwen2", {MINI_DROP, "blk.1.attn_v.bias", 0, NULL}, HK_E_MISSING, "no tensor blk.1.attn_v.bias"},
    {"qwen2", {MINI_ADD, "blk.0.attn_k_norm.weight", 6, NULL}, HK_E_UNSUPPORTED, "has no place in a qwen2 model"},
    {"qwen3", {MINI_DROP, "blk.0.attn_k_norm.weight", 0, NULL}, HK_E_MISSING, "no tensor blk.0.attn_k_norm.weight"},
    {"qwen3", {MINI_ADD, "blk.1.attn_k.bias", 6, NULL}, HK_E_UNSUPPORTED, "has no place in a qwen3 model"},
    {"llama", {MINI_ADD, "blk.0.ffn_gate_inp.weight", 0, NULL}, HK_E_UNSUPPORTED, "has no place"},
};
/* clang-format on */

static void check_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct hk_file *f = mini_model(r->arch, r->change);
        struct hke_model *m = NULL;
        struct hk_error err = {0};
        enum hk_status st = hke_model_new(&m, f, &err);
        if (!ok(st == r->status && m == NULL && strstr(err.text, r->message) != NULL,
                "refused: %s with %s", r->arch, r->message))
            printf("# %s: %s\n", hk_status_name(st), err.text);
        hke_model_free(&m);
        hk_close(&f);
    }
}

/* ---- what runs ---- */

struct bench {
    struct hk_file *file;
    struct hke_model *model;
    struct hke_context *ctx;
};

static bool start(struct bench *b, const char *arch, struct mini_change change,
                  struct hke_context_options opt)
{
    struct hk_error err = {0};
    *b = (struct bench){.file = mini_model(arch, change)};
    bool good = hke_model_new(&b->model, b->file, &err) == HK_OK &&
                hke_context_new(&b->ctx, b->model, &opt, &err) == HK_OK;
    if (!good)
        printf("# %s: %s\n", arch, err.text);
    return good;
}

static void stop(struct bench *b)
{
    hke_context_free(&b->ctx);
    hke_model_free(&b->model);
    hk_close(&b->file);
}

enum { TEXT = 530 }; /* three segments of the cache */

static void ids_of_test(uint32_t *id)
{
    for (uint32_t i = 0; i < TEXT; i++)
        id[i] = (i * 7 + i / 5) % MINI_VOCAB;
}

static enum hk_status keep(void *arg, size_t position, const float *logits, size_t vocab,
                           struct hk_error *err)
{
    (void)err;
    memcpy((float *)arg + position * vocab, logits, vocab * sizeof *logits);
    return HK_OK;
}

/* All logits of the test's text, in batches, into OUT. Rounding activations is not for weights that
 * are not rounded: both ways are the same here. */
static bool logits_of(const char *arch, struct mini_change change, size_t batch, float *out)
{
    uint32_t id[TEXT];
    struct bench b;
    ids_of_test(id);
    struct hke_context_options opt = {
        .batch = batch, .every_logit = true, .activations = HKE_ACTIVATIONS_F32, .threads = 1};
    bool good = start(&b, arch, change, opt) && hke_eval(b.ctx, id, TEXT, keep, out, NULL) == HK_OK;
    stop(&b);
    return good;
}

static const struct mini_change as_is = {MINI_AS_IS, "", 0, NULL};
static float first[TEXT * MINI_VOCAB], second[TEXT * MINI_VOCAB];

static void check_batches(void)
{
    static const size_t batches[] = {7, 64, 256, 512};
    const char *arch;
    for (size_t a = 0; (arch = hk_architecture(a)) != NULL; a++) {
        bool same = logits_of(arch, as_is, 1, first);
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            same = logits_of(arch, as_is, batches[i], second) && same &&
                   memcmp(first, second, sizeof first) == 0;
        ok(same, "%s: same bits for batches of 1, 7, 64, 256 and 512", arch);
    }
}

/* The same text with other threads, batches and activations. */
static void check_threads(void)
{
    static const unsigned threads[] = {2, 3, 8};
    static const size_t batches[] = {1, 7, 512};
    uint32_t id[TEXT];
    bool same = logits_of("qwen3", as_is, 64, first);
    ids_of_test(id);
    for (size_t i = 0; i < 9; i++) {
        struct bench b;
        struct hke_context_options opt = {
            .batch = batches[i % 3], .threads = threads[i / 3], .every_logit = true};
        same = start(&b, "qwen3", as_is, opt) && same &&
               hke_context_threads(b.ctx) == threads[i / 3] &&
               hke_eval(b.ctx, id, TEXT, keep, second, NULL) == HK_OK &&
               memcmp(first, second, sizeof first) == 0;
        stop(&b);
    }
    ok(same, "same bits for 1, 2, 3 and 8 threads, and for float weights in both ways");
}

/* Logits of the last position alone are those that are given with all the others. */
static void check_last(void)
{
    struct bench b;
    uint32_t id[TEXT];
    ids_of_test(id);
    bool same = logits_of("llama", as_is, 64, first);
    for (size_t batch = 1; batch <= TEXT; batch += 176) {
        struct hke_context_options opt = {.batch = batch, .threads = 2};
        same = start(&b, "llama", as_is, opt) && same &&
               hke_eval(b.ctx, id, TEXT, NULL, NULL, NULL) == HK_OK &&
               memcmp(first + (TEXT - 1) * MINI_VOCAB, hke_logits(b.ctx),
                      MINI_VOCAB * sizeof *first) == 0;
        stop(&b);
    }
    ok(same, "the last logits are the same without the others");
}

/* Whether a change that is allowed changes the result, and not into something unsound. */
static bool changes(const char *arch, struct mini_change change)
{
    if (!logits_of(arch, as_is, 64, first) || !logits_of(arch, change, 64, second))
        return false;
    for (size_t i = 0; i < TEXT * MINI_VOCAB; i++)
        if (!isfinite(second[i]))
            return false;
    return memcmp(first, second, sizeof first) != 0;
}

static void check_features(void)
{
    ok(changes("llama", (struct mini_change){MINI_TEXT, "hk.rope_style", 0, "neox"}) &&
           changes("qwen3", (struct mini_change){MINI_TEXT, "hk.rope_style", 0, "norm"}),
       "hk.rope_style goes before the architecture's");
    ok(!changes("llama", (struct mini_change){MINI_TEXT, "hk.rope_style", 0, "norm"}) &&
           !changes("qwen2", (struct mini_change){MINI_TEXT, "hk.rope_style", 0, "neox"}),
       "llama turns neighbours, qwen halves");
    ok(changes("llama", (struct mini_change){MINI_REAL, "llama.rope.scaling.factor", 2, NULL}),
       "a factor without a type scales linearly");
    ok(changes("llama", (struct mini_change){MINI_REAL, "llama.rope.scaling.attn_factor", 2, NULL}),
       "an attention factor stretches");
    ok(!changes("llama", (struct mini_change){MINI_TEXT, "llama.rope.scaling.type", 0, "yarn"}) &&
           !changes("llama",
                    (struct mini_change){MINI_TEXT, "llama.rope.scaling.type", 0, "llama3"}),
       "a scaling without a factor scales nothing");
    ok(changes("llama", (struct mini_change){MINI_ADD, "rope_freqs.weight", 2, NULL}),
       "rope_freqs.weight is used");
    ok(!changes("llama", (struct mini_change){MINI_SHARED, "output.weight", 0, NULL}) &&
           logits_of("llama", (struct mini_change){MINI_SHARED, "output.weight", 0, NULL}, 9,
                     second),
       "an output matrix shared with the embedding is as none");
    ok(changes("llama", (struct mini_change){MINI_ROWS, "output.weight", MINI_VOCAB, NULL}),
       "an output matrix of its own is used");
    ok(changes("llama", (struct mini_change){MINI_ZERO, "blk.0.ffn_up.weight", 0, NULL}),
       "a reference to nothing is zeros");
    struct bench b;
    struct hk_error err = {0};
    b.file = mini_model("llama", (struct mini_change){MINI_ZERO, "blk.0.ffn_up.weight", 0, NULL});
    b.ctx = NULL;
    ok(hke_model_new(&b.model, b.file, &err) == HK_OK &&
           hke_context_new(&b.ctx, b.model, &(struct hke_context_options){0}, &err) ==
               HK_E_UNSUPPORTED &&
           strcmp(err.text, "tensor blk.0.ffn_up.weight: there are no kernels for type null_ref; "
                            "it runs with --activations f32") == 0,
       "but has no kernels");
    stop(&b);
}

/* ---- the context's edges ---- */

static bool says(enum hk_status st, enum hk_status want, const struct hk_error *err,
                 const char *message)
{
    bool good = st == want && strstr(err->text, message) != NULL;
    if (!good)
        printf("# %s: %s\n", hk_status_name(st), err->text);
    return good;
}

static void check_edges(void)
{
    struct bench b;
    struct hk_error err = {0};
    uint32_t id[TEXT];
    ids_of_test(id);
    if (!ok(start(&b, "llama", as_is, (struct hke_context_options){.positions = 10}), "starts"))
        return;
    ok(says(hke_eval(b.ctx, id, 0, NULL, NULL, &err), HK_E_USE, &err, "no tokens"),
       "nothing to evaluate");
    ok(hke_eval(b.ctx, id, 6, NULL, NULL, &err) == HK_OK && hke_context_used(b.ctx) == 6 &&
           says(hke_eval(b.ctx, id, 5, NULL, NULL, &err), HK_E_RANGE, &err,
                "5 tokens after 6 do not fit a context of 10"),
       "one token too many");
    uint32_t beyond = MINI_VOCAB;
    ok(says(hke_eval(b.ctx, &beyond, 1, NULL, NULL, &err), HK_E_RANGE, &err, "is 16, but"),
       "a token outside the embedding");
    ok(hke_eval(b.ctx, id + 6, 4, NULL, NULL, &err) == HK_OK && hke_context_used(b.ctx) == 10,
       "the refused ids left no trace");
    float last[MINI_VOCAB];
    memcpy(last, hke_logits(b.ctx), sizeof last);
    hke_context_reset(b.ctx);
    ok(hke_eval(b.ctx, id, 10, NULL, NULL, &err) == HK_OK &&
           memcmp(last, hke_logits(b.ctx), sizeof last) == 0,
       "a context that was reset gives the same");
    hke_context_rewind(b.ctx, 11);
    ok(hke_context_used(b.ctx) == 10, "to rewind forward is nothing");
    hke_context_rewind(b.ctx, 7);
    ok(hke_context_used(b.ctx) == 7 && hke_eval(b.ctx, id, 3, NULL, NULL, &err) == HK_OK &&
           memcmp(last, hke_logits(b.ctx), sizeof last) != 0,
       "another end gives something else");
    hke_context_rewind(b.ctx, 7);
    ok(hke_eval(b.ctx, id + 7, 3, NULL, NULL, &err) == HK_OK &&
           memcmp(last, hke_logits(b.ctx), sizeof last) == 0,
       "a context that was wound back goes on as before");
    struct hke_context *too_big = NULL;
    ok(says(hke_context_new(&too_big, b.model,
                            &(struct hke_context_options){.positions = (size_t)1 << 40}, &err),
            HK_E_USE, &err, "at most"),
       "an absurd context");
    stop(&b);
}

struct heard {
    uint32_t id[TEXT];
    size_t n, stop_at;
};

static bool hear(void *arg, uint32_t id)
{
    struct heard *h = arg;
    h->id[h->n++] = id;
    return h->n != h->stop_at;
}

static void check_generate(void)
{
    struct bench b;
    struct hk_error err = {0};
    uint32_t id[TEXT];
    ids_of_test(id);
    struct heard h = {0};
    struct hke_generated g = {0};
    struct hke_generate_options opt = {
        .prompt = id, .prompt_count = 11, .max_tokens = SIZE_MAX, .token = hear, .arg = &h};
    if (!ok(start(&b, "qwen3", as_is, (struct hke_context_options){.positions = 10}), "starts"))
        return;
    ok(says(hke_generate(b.ctx, &opt, &g, &err), HK_E_RANGE, &err,
            "the prompt has 11 tokens, the context 10 positions; --ctx sets more"),
       "a prompt longer than the context");
    opt.prompt_count = 10;
    ok(hke_generate(b.ctx, &opt, &g, &err) == HK_OK && g.count == 1 && h.n == 1 &&
           g.finish == HKE_FINISH_LENGTH,
       "a prompt that fills the context gives one token");
    hke_context_reset(b.ctx);
    opt.prompt_count = 4;
    h.n = 0;
    ok(hke_generate(b.ctx, &opt, &g, &err) == HK_OK && g.count == 7 && h.n == 7, "to the edge");
    hke_context_reset(b.ctx);
    opt.max_tokens = 3;
    h.n = 0;
    ok(hke_generate(b.ctx, &opt, &g, &err) == HK_OK && g.count == 3 && h.n == 3,
       "as many as asked");
    hke_context_reset(b.ctx);
    h = (struct heard){.stop_at = 2};
    ok(hke_generate(b.ctx, &opt, &g, &err) == HK_OK && h.n == 2 && g.finish == HKE_FINISH_CALLER,
       "until the caller has enough");
    stop(&b);
}

/* How many of 100 ids generated with a vocabulary of TOKENS are below 3. */
static size_t below_three(double tokens)
{
    struct bench b;
    uint32_t id[2] = {1, 2};
    struct heard h = {0};
    struct hke_generated g;
    struct hke_generate_options opt = {
        .prompt = id, .prompt_count = 2, .max_tokens = 100, .token = hear, .arg = &h};
    if (!start(&b, "llama", (struct mini_change){MINI_TOKENS, "", tokens, NULL},
               (struct hke_context_options){0}) ||
        hke_generate(b.ctx, &opt, &g, NULL) != HK_OK)
        exit(2);
    stop(&b);
    size_t below = 0;
    for (size_t i = 0; i < h.n; i++)
        below += h.id[i] < 3;
    return below;
}

static void check_choice(void)
{
    struct hk_error err = {0};
    uint32_t id = 99;
    double nll = 0;
    const float logits[] = {1, 3, 2, 3}, bad[] = {1, NAN, 2}, huge[] = {1, INFINITY, 2};
    ok(hke_argmax(logits, 4, &id, &err) == HK_OK && id == 1, "the lowest of equals is taken");
    ok(says(hke_argmax(bad, 3, &id, &err), HK_E_FORMAT, &err, "logit 1 is not a number") &&
           says(hke_argmax(huge, 3, &id, &err), HK_E_FORMAT, &err, "logit 1 is infinite"),
       "logits that are no numbers are an error");
    double want = log(2 * exp(3.0) + exp(1.0) + exp(2.0)) - 2;
    ok(hke_nll(logits, 4, 2, &nll, &err) == HK_OK && fabs(nll - want) < 1e-12, "nll");
    struct bench b;
    uint32_t text[4] = {1, 2, 3, 4};
    struct heard h = {0};
    struct hke_generated g;
    struct hke_generate_options opt = {
        .prompt = text, .prompt_count = 4, .max_tokens = 9, .token = hear, .arg = &h};
    bool started =
        start(&b, "llama", (struct mini_change){MINI_NAN, "blk.0.ffn_up.weight", 0, NULL},
              (struct hke_context_options){0});
    ok(started && says(hke_generate(b.ctx, &opt, &g, &err), HK_E_FORMAT, &err, "not a number") &&
           h.n == 0,
       "a weight that is no number is an error");
    stop(&b);
}

/* ---- hostile bytes ---- */

/* Loaded and run as far as it goes; HK_OK where it was a model still. */
static enum hk_status try_file(int fd)
{
    static const uint32_t id[3] = {1, 2, 3};
    const struct hke_context_options opt = {.batch = 2, .threads = 1};
    struct bench b = {0};
    enum hk_status st = hk_open_fd(&b.file, fd, NULL);
    if (st == HK_OK)
        st = hke_model_new(&b.model, b.file, NULL);
    if (st == HK_OK)
        st = hke_context_new(&b.ctx, b.model, &opt, NULL);
    if (st == HK_OK)
        st = hke_eval(b.ctx, id, 3, NULL, NULL, NULL);
    stop(&b);
    return st;
}

/* Every byte before the weights, changed in each of four ways. */
static void check_bytes(const char *arch)
{
    int fd = mini_file(arch, as_is);
    uint8_t head[128];
    bool good = pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head;
    uint64_t end = 0;
    for (unsigned i = 0; i < 8; i++) /* tensor_data_offset */
        end |= (uint64_t)head[0x40 + i] << (8 * i);
    size_t sound = 0, refused = 0;
    for (uint64_t at = 0; good && at < end; at++) {
        uint8_t was = 0;
        good = pread(fd, &was, 1, (off_t)at) == 1;
        const uint8_t tries[] = {0, 0xff, was ^ 1, was ^ 0x80};
        for (size_t i = 0; good && i < sizeof tries; i++) {
            good = pwrite(fd, &tries[i], 1, (off_t)at) == 1;
            *(try_file(fd) == HK_OK ? &sound : &refused) += 1;
        }
        good = good && pwrite(fd, &was, 1, (off_t)at) == 1;
    }
    ok(good && refused > 1000 && sound > 0 && try_file(fd) == HK_OK,
       "%s: a changed byte is refused (%zu) or another model (%zu)", arch, refused, sound);
    close(fd);
}

int main(void)
{
    check_refusals();
    check_bytes("llama");
    check_bytes("qwen3");
    check_batches();
    check_threads();
    check_last();
    check_features();
    check_edges();
    check_generate();
    ok(below_three(16) < 100 && below_three(3) == 100, "rows without a token are never chosen");
    check_choice();
    return tap_done();
}
