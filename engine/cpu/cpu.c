/* The CPU's backend: a runner with its threads and kernels, and the memory that it computes in: one
 * allocation, cut twice, once to measure and once to keep. Pages that a text never reaches are
 * never touched. */
#include "engine/cpu/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/cores.h"
#include "engine/cpu/memory.h"

/* ---- sizes ---- */

static void raise_to(size_t *max, size_t n)
{
    if (n > *max)
        *max = n;
}

static void size_attention(struct hke_cpu *c, const struct hke_step *s)
{
    const struct hke_cache_class *cache = &c->plan->cache[s->cache];
    const size_t group = s->heads / cache->kv_heads;
    raise_to(&c->max_heads, s->heads);
    raise_to(&c->max_queries, group < HKK_QUERIES ? HKK_QUERIES / group * group : group);
    raise_to(&c->max_key_dim, cache->key_dim);
    raise_to(&c->max_value_dim, cache->value_dim);
}

static void size_experts(struct hke_cpu *c, const struct hke_step *s)
{
    raise_to(&c->max_experts, s->router.experts);
    raise_to(&c->max_chosen, s->router.chosen);
    raise_to(&c->max_expert_cols, s->operand[0].weight->cols);
}

static void find_sizes(struct hke_cpu *c)
{
    for (size_t i = 0; i < c->plan->steps; i++) {
        const struct hke_step *s = &c->plan->step[i];
        size_t weights = 0;
        for (size_t k = 0; k < s->operands; k++) {
            raise_to(&c->max_cols, s->operand[k].weight->cols);
            weights += s->operand[k].weight->rows * s->operand[k].weight->cols;
        }
        if (s->kind == HKE_ATTEND)
            size_attention(c, s);
        if (s->kind == HKE_EXPERTS_UP || s->kind == HKE_EXPERTS_DOWN) {
            size_experts(c, s);
            weights *= s->router.chosen;
        }
        if (s->kind != HKE_EMBED && s->kind != HKE_LOGITS && s->layer == 0)
            c->layer_weights += weights;
    }
    for (size_t i = 0; i < c->plan->ropes; i++)
        c->cos_sin_elems += 2 * c->plan->rope[i].pairs;
}

/* ---- buffers ---- */

struct arena {
    char *base; /* NULL while it is measured */
    size_t used;
    bool too_big;
};

/* COUNT things of SIZE bytes, on lines of their own. */
static void *cut_buffer(struct arena *a, size_t count, size_t size)
{
    size_t bytes, at = a->used;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)HKK_ALIGN - 1, &bytes) ||
        __builtin_add_overflow(at, bytes / HKK_ALIGN * HKK_ALIGN, &a->used))
        a->too_big = true;
    return a->base != NULL ? a->base + at : NULL;
}

static void cut_step_buffer(struct arena *a, struct hke_cpu *c, enum hke_buffer b)
{
    c->buffer[b] = cut_buffer(a, c->opt.batch, c->plan->elems[b] * sizeof(float));
}

/* The feed-forward part's is in use where those of attention are not, and starts where they do. */
static void cut_step_buffers(struct arena *a, struct hke_cpu *c)
{
    cut_step_buffer(a, c, HKE_RESIDUAL);
    cut_step_buffer(a, c, HKE_DELTA);
    c->normed = c->buffer[HKE_DELTA];
    struct arena attention = *a;
    for (unsigned b = HKE_QUERIES; b <= HKE_ATTENDED; b++)
        cut_step_buffer(&attention, c, (enum hke_buffer)b);
    for (unsigned b = HKE_FFN; b < HKE_BUFFERS; b++)
        cut_step_buffer(a, c, (enum hke_buffer)b);
    raise_to(&a->used, attention.used);
    a->too_big |= attention.too_big;
}

/* Rounded activations of N tokens, where any are rounded. */
static void cut_acts(struct arena *a, const struct hke_cpu *c, size_t n, void *acts[HKK_KINDS])
{
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        acts[kind] = c->opt.activations == HKE_ACTIVATIONS_F32
                         ? NULL
                         : cut_buffer(a, 1, hkk_acts_bytes((enum hkk_kind)kind, n, c->max_cols));
}

/* The same in tiles, where the kernels want them. */
static void cut_tiles(struct arena *a, struct hke_cpu *c)
{
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        c->tiles[kind] =
            c->opt.activations == HKE_ACTIVATIONS_F32 || c->kernels->tiles_bytes == NULL
                ? NULL
                : cut_buffer(
                      a, 1,
                      c->kernels->tiles_bytes((enum hkk_kind)kind, c->opt.batch, c->max_cols));
}

/* Routes of N tokens, and activations of their places. */
static void cut_places(struct arena *a, const struct hke_cpu *c, size_t n, struct hke_routes *r,
                       void *acts[HKK_KINDS])
{
    const size_t places = n * c->max_chosen;
    *r = (struct hke_routes){
        .expert = cut_buffer(a, places, sizeof *r->expert),
        .weight = cut_buffer(a, places, sizeof *r->weight),
        .place = cut_buffer(a, places, sizeof *r->place),
        .token = cut_buffer(a, places, sizeof *r->token),
        .begin = cut_buffer(a, c->max_experts + 1, sizeof *r->begin),
        .active = cut_buffer(a, c->max_experts, sizeof *r->active),
    };
    acts[HKK_KIND_F32] = n > 1 ? cut_buffer(a, places, c->max_expert_cols * sizeof(float)) : NULL;
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        acts[kind] =
            c->opt.activations == HKE_ACTIVATIONS_F32
                ? NULL
                : cut_buffer(a, 1, hkk_acts_bytes((enum hkk_kind)kind, places, c->max_expert_cols));
}

static void cut_worker(struct arena *a, const struct hke_cpu *c, struct hke_worker *w)
{
    size_t scratch = hkk_attend_scratch_bytes(c->max_key_dim, c->max_value_dim);
    raise_to(&scratch, c->kernels->scratch_bytes(c->max_cols, c->opt.batch));
    *w = (struct hke_worker){
        .scratch = cut_buffer(a, 1, scratch),
        .row = c->opt.activations == HKE_ACTIVATIONS_F32
                   ? cut_buffer(a, HKE_ROW_GROUP, c->max_cols * sizeof(float))
                   : NULL,
        .up = cut_buffer(a, c->opt.batch, HKE_FFN_ROWS * sizeof(float)),
        .query = cut_buffer(a, c->max_queries, sizeof(struct hkk_query)),
        .running = cut_buffer(a, c->max_queries, sizeof(struct hkk_attention)),
        .part = cut_buffer(a, c->max_queries, c->max_value_dim * sizeof(float)),
        .residual = cut_buffer(a, c->plan->hidden, sizeof(float)),
        .normed = cut_buffer(a, c->plan->hidden, sizeof(float)),
    };
    cut_acts(a, c, 1, w->acts);
    w->scores = cut_buffer(a, 2 * c->max_experts, sizeof *w->scores);
    cut_places(a, c, 1, &w->routes, w->place_acts);
}

static void cut_all_buffers(struct arena *a, struct hke_cpu *c)
{
    cut_step_buffers(a, c);
    cut_acts(a, c, c->opt.batch, c->acts);
    cut_tiles(a, c);
    cut_places(a, c, c->opt.batch, &c->routes, c->place_acts);
    c->logits = cut_buffer(a, c->opt.logits, c->plan->vocab * sizeof *c->logits);
    c->group = cut_buffer(a, c->opt.batch, sizeof *c->group);
    for (unsigned i = 0; i < hke_pool_workers(c->pool); i++) {
        cut_worker(a, c, &c->worker[i]);
        c->worker[i].number = i;
    }
}

static enum hk_status allocate_buffers(struct hke_cpu *c, struct hk_error *err)
{
    struct arena a = {0};
    c->span = calloc((c->opt.positions + HKE_BLOCK - 1) / HKE_BLOCK, sizeof *c->span);
    c->worker = calloc(hke_pool_workers(c->pool), sizeof *c->worker);
    if (c->span == NULL || c->worker == NULL)
        return hk_fail_nomem(err);
    cut_all_buffers(&a, c);
    c->arena_bytes = a.used;
    if (!a.too_big)
        c->arena = hke_alloc_pages(a.used, c->opt.huge_pages);
    if (c->arena == NULL)
        return hk_fail_nomem(err);
    a = (struct arena){.base = c->arena};
    cut_all_buffers(&a, c);
    return HK_OK;
}

/* A x of adapters, of at most MAX_RANK ranks. */
static void cut_low_buffers(struct arena *a, struct hke_cpu *c, size_t max_rank)
{
    for (size_t i = 0; i < HKE_MAX_OPERANDS; i++)
        c->low[i] = cut_buffer(a, c->opt.batch, max_rank * sizeof(float));
    for (unsigned w = 0; w < hke_pool_workers(c->pool); w++)
        for (size_t i = 0; i < HKE_MAX_OPERANDS; i++)
            c->worker[w].low[i] = cut_buffer(a, 1, max_rank * sizeof(float));
}

static enum hk_status add_adapters_to_cpu(struct hke_device *d, const struct hke_adapters *adapters,
                                          struct hk_error *err)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    struct arena a = {0};
    void *bigger = NULL;
    if (adapters->max_rank <= c->max_rank)
        return HK_OK;
    cut_low_buffers(&a, c, adapters->max_rank);
    if (!a.too_big)
        bigger = hke_alloc_pages(a.used, c->opt.huge_pages);
    if (bigger != NULL) {
        free(c->low_arena);
        c->low_arena = bigger;
        c->max_rank = adapters->max_rank;
    }
    a = (struct arena){.base = c->low_arena};
    cut_low_buffers(&a, c, c->max_rank);
    return bigger != NULL ? HK_OK : hk_fail_nomem(err);
}

/* ---- what needs kernels ---- */

/* Matrices can be multiplied with rounded activations. */
static enum hk_status need_kernels(const struct hke_weight *w, const struct hk_file *f,
                                   struct hk_error *err)
{
    const struct hk_tensor *target;
    if (hke_has_kernels(w))
        return HK_OK;
    enum hk_status st = hk_tensor_resolve(f, w->tensor, &target, err);
    if (st != HK_OK)
        return st;
    const char *form = target->scale_size > 0 || target->sparsity != HK_SPARSITY_NONE ||
                               target->layout != HK_LAYOUT_ROW_MAJOR
                           ? " in this layout"
                           : "";
    return hk_fail(err, HK_E_UNSUPPORTED, w->tensor->entry_offset,
                   "tensor %.*s: there are no kernels for type %s%s; it runs with --activations "
                   "f32",
                   HK_STR(w->tensor->name), hk_type_info(target->type)->name, form);
}

static enum hk_status check_kernels(const struct hke_plan *p, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < p->weights && st == HK_OK; i++)
        st = need_kernels(&p->weight[i], p->file, err);
    return st;
}

/* ---- open and close ---- */

static enum hk_status choose_threads_and_kernels(struct hke_cpu *c, struct hk_error *err)
{
    unsigned threads = c->opt.threads;
    if (threads == 0) {
        struct hke_cores cores;
        hke_cores_find(&cores, "", NULL);
        threads = cores.threads;
    }
    const char *why_not = NULL;
    c->kernels = c->opt.kernels;
    if (c->kernels == NULL)
        why_not = hkk_select(NULL, &c->kernels);
    if (why_not != NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "no kernels: %s", why_not);
    return hke_pool_new(threads, &c->pool, err);
}

/* Of what there is an eighth is left for the KV cache and for others. */
static enum hk_status choose_weights_to_keep(struct hke_cpu *c, struct hk_error *err)
{
    uint64_t memory = c->opt.weights_memory;
    if (memory == 0) {
        memory = hke_memory_available("");
        memory -= memory / 8;
        memory = memory > c->arena_bytes ? memory - c->arena_bytes : 0;
    }
    return hke_residency_new(&c->residency, c->plan, memory, err);
}

static void close_cpu(struct hke_device *d)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    hke_free_spans(c);
    hke_free_kv(c);
    hke_residency_free(&c->residency);
    free(c->arena);
    free(c->low_arena);
    free(c->worker);
    hke_pool_free(&c->pool);
    free(c);
}

static enum hk_status open_cpu(struct hke_device **out, const struct hke_plan *p,
                               const struct hke_device_options *opt, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    if (opt->activations != HKE_ACTIVATIONS_F32)
        st = check_kernels(p, err);
    if (st != HK_OK)
        return st;
    struct hke_cpu *c = calloc(1, sizeof *c);
    if (c == NULL)
        return hk_fail_nomem(err);
    c->device.backend = &hke_cpu_backend;
    c->plan = p;
    c->opt = *opt;
    find_sizes(c);
    st = choose_threads_and_kernels(c, err);
    if (st == HK_OK)
        st = allocate_buffers(c, err);
    if (st == HK_OK)
        st = choose_weights_to_keep(c, err);
    if (st != HK_OK)
        close_cpu(&c->device);
    else
        *out = &c->device;
    return st;
}

/* ---- running ---- */

static void group_tokens(struct hke_cpu *c, const struct hke_batch *b)
{
    c->has_adapters = false;
    for (size_t i = b->n; i-- > 0;) {
        const struct hke_token *t = &b->token[i];
        struct hke_group own = {(uint32_t)i + 1, (uint32_t)i + 1};
        if (i + 1 < b->n && t[1].sequence->adapters == t->sequence->adapters)
            own.adapters_end = c->group[i + 1].adapters_end;
        if (i + 1 < b->n && t[1].sequence == t->sequence && t[1].position == t->position + 1)
            own.text_end = c->group[i + 1].text_end;
        c->group[i] = own;
        c->has_adapters |= t->sequence->adapters != NULL;
    }
}

static struct hke_pass pass_of(struct hke_cpu *c, const struct hke_batch *b)
{
    return (struct hke_pass){.cpu = c, .batch = b, .n = b->n, .end = c->plan->steps};
}

/* The residual of the tokens that the steps before END were computed for, complete. */
static void copy_residual(const struct hke_pass *p, float *out)
{
    const struct hke_cpu *c = p->cpu;
    const size_t hidden = c->plan->hidden;
    for (size_t t = hke_first_token(p, &c->plan->step[p->end - 1]); t < p->n; t++) {
        float *x =
            hke_is_single_token(p) ? c->worker[0].residual : c->buffer[HKE_RESIDUAL] + t * hidden;
        float *delta = c->buffer[HKE_DELTA] + t * hidden;
        if (c->plan->step[p->end].add)
            c->kernels->add(x, hke_finish_delta(p, &c->plan->step[p->end], delta, delta), hidden);
        memcpy(out + t * hidden, x, hidden * sizeof *x);
    }
}

static enum hk_status run_cpu(struct hke_device *d, const struct hke_batch *b, size_t first,
                              size_t end, float *residual, struct hk_error *err)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    (void)err;
    c->last = *b;
    group_tokens(c, b);
    c->logits_first = 0;
    c->logits_n = b->wanted < c->opt.logits ? b->wanted : c->opt.logits;
    struct hke_pass p = pass_of(c, &c->last);
    p.first = first;
    p.end = end;
    p.residual = first > 0 ? residual : NULL;
    p.logits_n = c->logits_n;
    if (p.residual != NULL && !hke_is_single_token(&p))
        memcpy(c->buffer[HKE_RESIDUAL], residual, b->n * c->plan->hidden * sizeof *residual);
    if (!hke_run_pass(&p))
        return hk_fail_sys(err, EINTR, "evaluating tokens");
    if (end == c->plan->steps)
        hke_residency_pass(c->residency);
    if (end < c->plan->steps)
        copy_residual(&p, residual);
    return HK_OK;
}

static const float *logits_of_cpu(struct hke_device *d, size_t first, size_t *n)
{
    struct hke_cpu *c = (struct hke_cpu *)d;
    if (first < c->logits_first || first >= c->logits_first + c->logits_n) {
        struct hke_pass p = pass_of(c, &c->last);
        const size_t left = c->last.wanted - first;
        c->logits_first = p.logits_first = first;
        c->logits_n = p.logits_n = left < c->opt.logits ? left : c->opt.logits;
        hke_run_logits(&p);
    }
    *n = c->logits_first + c->logits_n - first;
    return c->logits + (first - c->logits_first) * c->plan->vocab;
}

static unsigned threads_of_cpu(const struct hke_device *d)
{
    return hke_pool_workers(((const struct hke_cpu *)d)->pool);
}

static const char *kernels_of_cpu(const struct hke_device *d)
{
    return ((const struct hke_cpu *)d)->kernels->name;
}

static uint64_t weights_kept_of_cpu(const struct hke_device *d, uint64_t *total)
{
    return hke_residency_kept(((const struct hke_cpu *)d)->residency, total);
}

const struct hke_backend hke_cpu_backend = {
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .add_block = hke_cpu_add_block,
    .add_positions = hke_cpu_add_positions,
    .add_adapters = add_adapters_to_cpu,
    .copy_block = hke_cpu_copy_block,
    .run = run_cpu,
    .logits = logits_of_cpu,
    .threads = threads_of_cpu,
    .kernels = kernels_of_cpu,
    .weights_kept = weights_kept_of_cpu,
};
