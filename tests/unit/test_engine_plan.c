/* The plan of each family, as text, so that a changed one is seen; weights that are rows of a
 * tensor or stacked; and what a backend does with a plan: ranges of steps, sequences in turn. */
#include <inttypes.h>

#include "engine/backend.h"
#include "engine/plan/model.h"
#include "tests/lib/mini_model.h"

static const struct mini_change as_is = {MINI_AS_IS, "", 0, NULL};

/* A model of ARCH in a memory file. */
struct fixture {
    struct hk_file *file;
    struct hke_model *model;
};

static bool load_mini(struct fixture *x, const char *arch, struct mini_change change)
{
    struct hk_error err = {0};
    *x = (struct fixture){.file = mini_model(arch, change)};
    bool good = hke_model_new(&x->model, x->file, &err) == HK_OK;
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

static void unload(struct fixture *x)
{
    hke_model_free(&x->model);
    hk_close(&x->file);
}

/* ---- plans as text ---- */

static const char *const buffers[HKE_BUFFERS] = {
    [HKE_RESIDUAL] = "residual",
    [HKE_DELTA] = "delta",
    [HKE_QUERIES] = "queries",
    [HKE_KEYS] = "keys",
    [HKE_VALUES] = "values",
    [HKE_ATTENDED] = "attended",
    [HKE_FFN] = "ffn",
    [HKE_SCORES] = "scores",
    [HKE_SHARED_GATE] = "shared gate",
    [HKE_EXPERT_FFN] = "expert ffn",
    [HKE_EXPERT_OUT] = "expert out",
};

static void print_norm(FILE *out, const char *of, const struct hke_norm *n)
{
    static const char *const kinds[] = {"", "rms", "layer"};
    if (n->kind == HKE_NO_NORM)
        return;
    fprintf(out, ", %s%s norm %g", of, kinds[n->kind], (double)n->epsilon);
    if (n->weight == NULL)
        fprintf(out, " without weight");
    if (n->bias != NULL)
        fprintf(out, " with bias");
}

static void print_number(FILE *out, const char *what, float v)
{
    if (v != 0)
        fprintf(out, ", %s %g", what, (double)v);
}

static void print_operand(FILE *out, const struct hke_step *s, size_t i)
{
    const struct hke_operand *o = &s->operand[i];
    fprintf(out, "    %.*s ", HK_STR(o->weight->tensor->name));
    if (o->weight->stack > 1)
        fprintf(out, "%zu x ", o->weight->stack);
    fprintf(out, "%zu x %zu -> %s", o->weight->rows, o->weight->cols,
            s->kind == HKE_LOGITS ? "logits" : buffers[o->to]);
    if (o->bias != NULL && o->heads == 0)
        fprintf(out, ", bias");
    print_number(out, "scale", o->scale);
    print_number(out, "soft-cap", o->soft_cap);
    print_norm(out, "row ", &o->row_norm);
    if (o->heads > 0)
        fprintf(out, ", %zu heads of %zu", o->heads, o->head_dim);
    if (o->bias != NULL && o->heads > 0)
        fprintf(out, ", bias");
    print_norm(out, "", &o->norm);
    if (o->rope != HKE_NO_ROPE)
        fprintf(out, ", rope %d", o->rope);
    if (o->period > 0)
        fprintf(out, ", temperature %g each %zu", (double)o->temperature, o->period);
    if (o->store != HKE_STORE_NOTHING)
        fprintf(out, ", store %s %u.%u", o->store == HKE_STORE_KEYS ? "keys" : "values", s->cache,
                s->cache_layer);
    if (o->adds)
        fprintf(out, ", added%s", o->gated ? " times sigmoid of shared gate" : "");
    fprintf(out, "\n");
}

static void print_router(FILE *out, const struct hke_router *r)
{
    fprintf(out, ", %zu of %zu by %s", r->chosen, r->experts, r->sigmoid ? "sigmoid" : "softmax");
    if (r->bias != NULL)
        fprintf(out, " with bias");
    if (r->groups > 0)
        fprintf(out, ", from %zu of %zu groups by their best %zu", r->kept_groups, r->groups,
                r->group_best);
    if (r->normalise)
        fprintf(out, ", normalised");
    if (r->scale != 1)
        fprintf(out, ", times %g", (double)r->scale);
    if (r->expert_scale != NULL)
        fprintf(out, ", times each its own");
}

static void print_activation(FILE *out, const struct hke_step *s)
{
    static const char *const names[] = {[HKE_SILU] = "silu",
                                        [HKE_GELU] = "gelu",
                                        [HKE_GELU_ERF] = "gelu erf",
                                        [HKE_RELU_2] = "relu squared",
                                        [HKE_CLAMPED_SWIGLU] = "clamped swiglu"};
    if (s->activation != HKE_NO_ACTIVATION)
        fprintf(out, ", %s%s", names[s->activation], s->operands > 1 ? " gate" : "");
    print_number(out, "limit", s->limit);
}

static void print_step(FILE *out, const struct hke_step *s)
{
    static const char *const kinds[] = {
        [HKE_EMBED] = "embed",           [HKE_PRODUCT] = "product",
        [HKE_ATTEND] = "attend",         [HKE_ROUTE] = "route",
        [HKE_EXPERTS_UP] = "experts up", [HKE_EXPERTS_DOWN] = "experts down",
        [HKE_LOGITS] = "logits"};
    fprintf(out, "%s", kinds[s->kind]);
    if (s->kind != HKE_EMBED && s->kind != HKE_LOGITS)
        fprintf(out, " %u", s->layer);
    fprintf(out, "%s", s->wanted_only ? " (wanted only)" : "");
    if (s->kind != HKE_EMBED)
        fprintf(out, ": %s", buffers[s->in]);
    if (s->add)
        fprintf(out, " + delta");
    print_norm(out, "delta ", &s->delta_norm);
    print_norm(out, "", &s->norm);
    print_activation(out, s);
    if (s->kind == HKE_ROUTE)
        print_router(out, &s->router);
    if (s->kind == HKE_ATTEND)
        fprintf(out, " -> attended, %u heads, scale %g, cache %u.%u", s->heads, (double)s->scale,
                s->cache, s->cache_layer);
    print_number(out, "soft-cap", s->soft_cap);
    if (s->sinks != NULL)
        fprintf(out, ", sinks");
    fprintf(out, "\n");
    for (size_t i = 0; i < s->operands; i++)
        print_operand(out, s, i);
}

static void print_cache(FILE *out, const struct hke_cache_class *c, size_t i)
{
    fprintf(out, "cache %zu: %u layers, %u heads, keys of %u, values of %u", i, c->layers,
            c->kv_heads, c->key_dim, c->value_dim);
    if (c->window > 0)
        fprintf(out, ", %s of %u", c->chunked ? "chunks" : "window", c->window);
    fprintf(out, "\n");
}

static void print_plan(FILE *out, const struct hke_plan *p)
{
    for (size_t i = 0; i < p->caches; i++)
        print_cache(out, &p->cache[i], i);
    for (size_t i = 0; i < p->ropes; i++)
        fprintf(out, "rope %zu: %zu pairs%s\n", i, p->rope[i].pairs,
                p->rope[i].halves ? ", halves" : "");
    for (size_t i = 0; i < p->steps; i++)
        print_step(out, &p->step[i]);
}

/* Whether NAME of the fixtures' plans has TEXT. */
static bool is_as_stored(const char *name, const char *text)
{
    static char want[16384];
    char path[4096];
    const char *fixtures = getenv("HK_FIXTURES");
    snprintf(path, sizeof path, "%s/plans/%s.txt", fixtures != NULL ? fixtures : "tests/fixtures",
             name);
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(want, 1, sizeof want - 1, f) : 0;
    want[n] = '\0';
    if (f != NULL)
        fclose(f);
    return strcmp(want, text) == 0;
}

static void check_text(const char *name, const struct hke_plan *p)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print_plan(out, p);
    fclose(out);
    if (!ok(is_as_stored(name, text), "the plan of %s is that of fixtures/plans/%s.txt", name,
            name))
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            printf("# %s\n", line);
    free(text);
}

static void check_texts(void)
{
    struct fixture x;
    const char *arch;
    for (size_t i = 0; (arch = hk_architecture(i)) != NULL; i++) {
        if (load_mini(&x, arch, as_is))
            check_text(arch, x.model->plan);
        unload(&x);
    }
    if (load_mini(&x, "llama", (struct mini_change){MINI_ROWS, "output.weight", MINI_VOCAB, NULL}))
        check_text("llama-untied", x.model->plan);
    unload(&x);
}

/* ---- weights that are parts of a tensor ---- */

/* A file of one tensor [STACK][ROWS][COLS], without the first where STACK is 0; VALUES NULL: they
 * count up from 0. */
static struct hk_file *tensor_file(size_t stack, size_t rows, size_t cols, const float *values)
{
    const size_t n = (stack > 0 ? stack : 1) * rows * cols;
    struct hk_writer *w;
    struct hk_error err;
    struct hk_out *out;
    struct hk_file *f;
    struct hk_tensor t = {.name = mini_text("fused"), .type = HK_TYPE_F32, .ndim = 2};
    t.ndim = stack > 0 ? 3 : 2;
    t.shape[0] = stack;
    t.shape[t.ndim - 2] = rows;
    t.shape[t.ndim - 1] = cols;
    t.data_size = n * sizeof(float);
    int fd = memfd_create("fused", MFD_CLOEXEC);
    mini_must(hk_writer_new(&w, NULL, &err), &err);
    mini_must(hk_writer_add(w, &t, 0, &err), &err);
    mini_must(hk_out_fd(&out, fd, &err), &err);
    mini_must(hk_writer_begin(w, out, &err), &err);
    for (size_t i = 0; i < n; i++) {
        float v = values != NULL ? values[i] : (float)i;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        const uint8_t b[] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                             (uint8_t)(bits >> 24)};
        mini_must(hk_writer_put(w, b, sizeof b, &err), &err);
    }
    mini_must(hk_writer_finish(w, &err), &err);
    mini_must(hk_out_commit(&out, &err), &err);
    hk_writer_free(&w);
    mini_must(hk_open_fd(&f, fd, &err), &err);
    close(fd);
    return f;
}

/* Each row of W, rows ROW_BEGIN.. of matrices of TENSOR_ROWS, has the elements it has to have. */
static bool rows_are_right(const struct hke_weight *w, size_t row_begin, size_t tensor_rows)
{
    float row[16];
    bool good = w->row_begin == row_begin && w->tensor_rows == tensor_rows;
    for (size_t i = 0; i < w->stack; i++)
        for (size_t r = 0; r < w->rows; r++) {
            const size_t at = hke_weight_row(w, i, r);
            hk_decoder_read(w->decoder, at * w->cols, w->cols, row);
            for (size_t c = 0; c < w->cols; c++)
                good = good && row[c] == (float)((i * tensor_rows + row_begin + r) * w->cols + c);
        }
    return good && w->data != NULL && w->type == HK_TYPE_F32;
}

static void check_parts(void)
{
    struct hk_file *flat = tensor_file(0, 10, 4, NULL), *stacked = tensor_file(3, 6, 4, NULL);
    struct hk_error err = {0};
    struct hke_weight q, v, experts, gates;
    bool good = hke_bind_weight(&q, flat, hk_tensor_at(flat, 0), 0, 6, &err) == HK_OK &&
                hke_bind_weight(&v, flat, hk_tensor_at(flat, 0), 6, 4, &err) == HK_OK &&
                hke_bind_weight(&experts, stacked, hk_tensor_at(stacked, 0), 0, 6, &err) == HK_OK &&
                hke_bind_weight(&gates, stacked, hk_tensor_at(stacked, 0), 3, 3, &err) == HK_OK;
    if (ok(good, "parts are bound %s", err.text)) {
        ok(rows_are_right(&q, 0, 10) && rows_are_right(&v, 6, 10), "rows of a fused matrix");
        ok(experts.stack == 3 && rows_are_right(&experts, 0, 6) && gates.stack == 3 &&
               rows_are_right(&gates, 3, 6),
           "stacked matrices, and the same rows of each");
    }
    hke_unbind_weight(&q);
    hke_unbind_weight(&v);
    hke_unbind_weight(&experts);
    hke_unbind_weight(&gates);
    hk_close(&flat);
    hk_close(&stacked);
}

/* ---- the CPU ---- */

enum { TOKENS = 6, MAX_TOKENS = 8, POSITIONS = 600 };

static struct hke_device *open_device(const struct hke_plan *p)
{
    const struct hke_device_options opt = {
        .batch = MAX_TOKENS, .logits = 4, .positions = POSITIONS, .threads = 2};
    struct hk_error err;
    struct hke_device *d = NULL;
    mini_must(hke_cpu_backend.open(&d, p, &opt, &err), &err);
    mini_must(d->backend->add_positions(d, POSITIONS, &err), &err);
    return d;
}

/* Sequences with a block each, which is all they need. */
enum { TEXTS = 2 };
static struct hke_sequence text[TEXTS];
static uint32_t number[TEXTS];

/* Blocks are numbered alike in all classes. */

static void begin_texts(struct hke_device *d, const struct hke_plan *p)
{
    struct hk_error err;
    for (uint32_t i = 0; i < TEXTS; i++) {
        number[i] = i;
        text[i] = (struct hke_sequence){.used = 0};
        for (size_t c = 0; c < p->caches; c++) {
            mini_must(d->backend->add_block(d, c, &err), &err);
            text[i].cache[c] = (struct hke_block_list){.number = &number[i], .n = 1};
        }
    }
}

/* N tokens more of S, in two ranges of steps where MIDDLE is not 0; their logits to OUT. */
static void run_tokens(struct hke_device *d, const struct hke_plan *p, struct hke_sequence *s,
                       size_t n, size_t middle, float *out)
{
    float residual[MAX_TOKENS * MINI_WIDTH];
    struct hke_token token[MAX_TOKENS];
    struct hk_error err;
    const struct hke_batch b = {token, n, n};
    for (size_t i = 0; i < n; i++)
        token[i] = (struct hke_token){(uint32_t)(s->used + i) * 7 % MINI_VOCAB,
                                      (uint32_t)(s->used + i), s};
    if (middle > 0)
        mini_must(d->backend->run(d, &b, 0, middle, residual, &err), &err);
    mini_must(d->backend->run(d, &b, middle, p->steps, residual, &err), &err);
    for (size_t i = 0, got; i < n; i += got) {
        const float *logits = d->backend->logits(d, i, &got);
        memcpy(out + i * p->vocab, logits, got * p->vocab * sizeof *out);
    }
    s->used += n;
}

static float whole[TOKENS * MINI_VOCAB], other[TOKENS * MINI_VOCAB];

/* A batch, then a token alone, of a new sequence. */
static void run_text(struct hke_device *d, const struct hke_plan *p, size_t middle, float *out)
{
    text[0].used = 0;
    run_tokens(d, p, &text[0], TOKENS - 1, middle, out);
    run_tokens(d, p, &text[0], 1, middle, out + (TOKENS - 1) * p->vocab);
}

static void check_ranges(const struct hke_plan *p, struct hke_device *d)
{
    bool same = true;
    size_t ranges = 0;
    run_text(d, p, 0, whole);
    for (size_t i = 1; i < p->steps; i++)
        if (p->step[i].in == HKE_RESIDUAL) {
            run_text(d, p, i, other);
            same = same && memcmp(whole, other, sizeof whole) == 0;
            ranges++;
        }
    ok(same && ranges == 2 * MINI_LAYERS + 1, "steps run in two ranges give the same bits");
}

static void check_sequences(const struct hke_plan *p, struct hke_device *d)
{
    struct hke_sequence *a = &text[0], *b = &text[1];
    bool same = true;
    a->used = b->used = 0;
    for (size_t i = 0; i < TOKENS; i++) {
        run_tokens(d, p, a, 1, 0, other + i * p->vocab);
        if (i % 2 == 0) {
            run_tokens(d, p, b, 3, 0, whole);
            run_tokens(d, p, b, 1, 0, whole);
        }
    }
    same = a->used == TOKENS && b->used == 12;
    run_text(d, p, 0, whole);
    ok(same && memcmp(whole, other, sizeof whole) == 0, "sequences in turn do not see each other");
}

/* Operands of the first product become rows of one fused matrix. */
static void check_fused(struct hke_plan *p, struct hke_device *d)
{
    const struct hke_step *s = &p->step[1];
    float values[4 * MINI_HEADS * MINI_HEAD * MINI_WIDTH];
    size_t rows = 0;
    for (size_t i = 0; i < s->operands; rows += s->operand[i++].weight->rows) {
        const struct hke_weight *w = s->operand[i].weight;
        hk_decoder_read(w->decoder, 0, w->rows * w->cols, values + rows * w->cols);
    }
    struct hk_file *fused = tensor_file(0, rows, MINI_WIDTH, values);
    struct hk_error err;
    run_text(d, p, 0, whole);
    rows = 0;
    for (size_t i = 0; i < s->operands; rows += s->operand[i++].weight->rows) {
        struct hke_weight *w = &p->weight[s->operand[i].weight - p->weight];
        const size_t n = w->rows;
        hke_unbind_weight(w);
        mini_must(hke_bind_weight(w, fused, hk_tensor_at(fused, 0), rows, n, &err), &err);
    }
    run_text(d, p, 0, other);
    ok(s->operands == 3 && memcmp(whole, other, sizeof whole) == 0,
       "queries, keys and values that are rows of one matrix give the same bits");
    for (size_t i = 0; i < s->operands; i++)
        hke_unbind_weight(&p->weight[s->operand[i].weight - p->weight]);
    hk_close(&fused);
}

static void check_backend(const char *arch)
{
    struct fixture x;
    if (load_mini(&x, arch, as_is)) {
        struct hke_device *d = open_device(x.model->plan);
        begin_texts(d, x.model->plan);
        check_ranges(x.model->plan, d);
        check_sequences(x.model->plan, d);
        check_fused(x.model->plan, d);
        d->backend->close(d);
    }
    unload(&x);
}

int main(void)
{
    check_texts();
    check_parts();
    check_backend("qwen3");
    check_backend("gemma2");
    check_backend("olmo2");
    return tap_done();
}
