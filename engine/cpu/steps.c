/* A pass over a batch: all workers go through the plan's steps together, with a barrier wherever
 * what one wrote is read by others. Within a step the tokens, heads or rows are shared among them;
 * every number is computed from its own token alone, so neither batches nor threads change it.
 *
 * Of one token what is between the products is not worth a barrier: every worker does it for
 * itself, in memory of its own. A layer then has five barriers, or six where its past is long. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"

/* The next tokens of TOTAL for this worker. */
static bool take_tokens(const struct hke_pass *p, const struct hke_worker *own, size_t total,
                        size_t *begin, size_t *end)
{
    struct hke_pool *pool = p->cpu->pool;
    return hke_pool_take(pool, own->number, total, hke_pool_grain(pool, total, total), begin, end);
}

static float *buffer_at(const struct hke_pass *p, enum hke_buffer b, size_t token)
{
    return p->cpu->buffer[b] + token * p->cpu->plan->elems[b];
}

/* ---- EMBED ---- */

static void change_embedding(const struct hke_change *c, const struct hke_weight *w, size_t row,
                             float *x)
{
    const size_t cols = w->cols;
    const float *replaced = hke_replaced_row(c, row, cols);
    if (replaced != NULL)
        memcpy(x, replaced, cols * sizeof *x);
    for (size_t i = 0; i < cols && c->row_scale != NULL; i++)
        x[i] *= c->row_scale[row];
    for (size_t k = 0; k < c->rank; k++) {
        const float b = c->b[k * w->rows + row], *a = c->a + k * cols;
        for (size_t i = 0; i < cols; i++)
            x[i] += b * a[i];
    }
}

static void embed_token(const struct hke_pass *p, const struct hke_step *s, size_t t, float *x)
{
    const struct hke_adapters *adapters = p->batch->token[t].sequence->adapters;
    const struct hke_weight *w = s->operand[0].weight;
    const size_t row = hke_weight_row(w, 0, p->batch->token[t].id), cols = w->cols;
    hk_decoder_read(w->decoder, (uint64_t)row * cols, cols, x);
    if (adapters != NULL)
        change_embedding(&adapters->embedding, w, row, x);
    if (s->operand[0].scale != 0)
        p->cpu->kernels->scale(x, s->operand[0].scale, cols);
}

static void run_embed(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    size_t begin, end;
    if (hke_is_single_token(p)) {
        embed_token(p, s, 0, own->residual);
        return;
    }
    while (take_tokens(p, own, p->n, &begin, &end))
        for (size_t t = begin; t < end; t++)
            embed_token(p, s, t, buffer_at(p, HKE_RESIDUAL, t));
    hke_pool_barrier(p->cpu->pool);
}

/* ---- PRODUCT ---- */

/* The first step of a range starts from a residual that is complete. */
static bool adds_delta(const struct hke_pass *p, const struct hke_step *s)
{
    return s->add && s > &p->cpu->plan->step[p->first];
}

/* Each of ROWS rows of N numbers X, one behind the other, to OUT, which may be X. */
static void norm_rows(const struct hke_pass *p, const struct hke_norm *norm, float *out,
                      const float *x, size_t n, size_t rows)
{
    const struct hkk_table *k = p->cpu->kernels;
    if (norm->kind == HKE_RMS_NORM)
        k->rms_norm(out, x, norm->weight, n, rows, norm->epsilon);
    for (size_t r = 0; norm->kind == HKE_LAYER_NORM && r < rows; r++)
        k->layer_norm(out + r * n, x + r * n, norm->weight, norm->bias, n, norm->epsilon);
}

const float *hke_finish_delta(const struct hke_pass *p, const struct hke_step *s,
                              const float *delta, float *out)
{
    norm_rows(p, &s->delta_norm, out, delta, p->cpu->plan->hidden, 1);
    return s->delta_norm.kind == HKE_NO_NORM ? delta : out;
}

/* Residual add, then norm, of COUNT tokens. OUT may be DELTA. */
static void norm_some(const struct hke_pass *p, const struct hke_step *s, float *x,
                      const float *delta, float *out, size_t count)
{
    const size_t hidden = p->cpu->plan->hidden;
    for (size_t t = 0; adds_delta(p, s) && t < count; t++) {
        const size_t at = t * hidden;
        p->cpu->kernels->add(x + at, hke_finish_delta(p, s, delta + at, out + at), hidden);
    }
    if (s->norm.kind != HKE_NO_NORM)
        norm_rows(p, &s->norm, out, x, hidden, count);
    else
        memcpy(out, x, count * hidden * sizeof *out);
}

/* All tokens from FROM on, for the product with IN, which is of these. */
static void norm_tokens(const struct hke_pass *p, const struct hke_worker *own,
                        const struct hke_step *s, size_t from, const struct hke_input *in)
{
    enum { TOGETHER = 4 }; /* tokens that stay in the first cache */
    size_t begin, end;
    if (hke_is_single_token(p)) {
        norm_some(p, s, own->residual, p->cpu->buffer[HKE_DELTA], own->normed, 1);
        hke_round_token(p, in, 0);
        return;
    }
    while (take_tokens(p, own, p->n - from, &begin, &end))
        for (size_t t = begin; t < end; t += TOGETHER) {
            const size_t count = hke_min_size(end - t, TOGETHER), at = from + t;
            norm_some(p, s, buffer_at(p, HKE_RESIDUAL, at), buffer_at(p, HKE_DELTA, at),
                      p->cpu->normed + at * p->cpu->plan->hidden, count);
            for (size_t i = t; i < t + count; i++)
                hke_round_token(p, in, i);
        }
    hke_pool_barrier(p->cpu->pool);
}

static void store_head(const struct hke_pass *p, const struct hke_step *s,
                       const struct hke_operand *o, size_t head, size_t token, const float *y)
{
    const size_t block = hke_position(p, token) / HKE_BLOCK;
    const size_t at = hke_position(p, token) % HKE_BLOCK;
    const struct hkk_table *k = p->cpu->kernels;
    if (o->store == HKE_STORE_KEYS)
        k->store_key(hke_keys_of(p, s, token, head, block), at, y, o->head_dim);
    else if (o->store == HKE_STORE_VALUES)
        k->to_half(hke_values_of(p, s, token, head, block) + at * o->head_dim, y, o->head_dim);
}

/* Computed in double, rounded once. */
static float grown_by(const struct hke_operand *o, size_t position)
{
    return (float)(1 + (double)o->temperature * log(1 + (double)(position / o->period)));
}

/* COUNT heads from HEAD on. */
static void finish_heads_of(const struct hke_pass *p, const struct hke_step *s,
                            const struct hke_operand *o, size_t head, size_t count, size_t token)
{
    const struct hkk_table *k = p->cpu->kernels;
    float *y = buffer_at(p, o->to, token) + head * o->head_dim;
    norm_rows(p, &o->norm, y, y, o->head_dim, count);
    for (size_t i = 0; i < count; i++, y += o->head_dim) {
        if (o->rope != HKE_NO_ROPE) {
            const struct hke_rope_table *r = &p->cpu->plan->rope[o->rope];
            k->rope(y, hke_cos_sin_at(p->cpu, o->rope, hke_position(p, token)), r->pairs,
                    r->halves);
        }
        if (o->period > 0 && hke_position(p, token) >= o->period)
            k->scale(y, grown_by(o, hke_position(p, token)), o->head_dim);
        store_head(p, s, o, head + i, token, y);
    }
}

/* The heads [BEGIN, END), counted through all operands. */
static void finish_some_heads(const struct hke_pass *p, const struct hke_step *s, size_t begin,
                              size_t end, size_t token)
{
    for (const struct hke_operand *o = s->operand; begin < end; o++) {
        const size_t stop = hke_min_size(end, o->heads);
        if (begin < stop)
            finish_heads_of(p, s, o, begin, stop - begin, token);
        begin = begin > o->heads ? begin - o->heads : 0;
        end -= stop;
    }
}

static void finish_heads(const struct hke_pass *p, const struct hke_worker *own,
                         const struct hke_step *s, size_t heads)
{
    size_t begin, end;
    while (take_tokens(p, own, p->n * heads, &begin, &end))
        for (size_t i = begin; i < end; i++)
            finish_some_heads(p, s, i % heads, i % heads + 1, i / heads);
    hke_pool_barrier(p->cpu->pool);
}

/* What is done to all rows of an operand together, then its heads. */
static void finish_operands(const struct hke_pass *p, const struct hke_worker *own,
                            const struct hke_step *s)
{
    size_t begin, end;
    while (take_tokens(p, own, p->n * s->operands, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            const struct hke_operand *o = &s->operand[i % s->operands];
            float *y = buffer_at(p, o->to, i / s->operands);
            norm_rows(p, &o->row_norm, y, y, o->weight->rows, 1);
            finish_heads_of(p, s, o, 0, o->heads, i / s->operands);
        }
    hke_pool_barrier(p->cpu->pool);
}

static bool has_row_norm(const struct hke_step *s)
{
    for (size_t i = 0; i < s->operands; i++)
        if (s->operand[i].row_norm.kind != HKE_NO_NORM)
            return true;
    return false;
}

/* A worker that has all rows of a head finishes it; where there are too few heads to be shared
 * evenly, rows are, and heads on their own after a barrier. */
static void multiply_heads(const struct hke_pass *p, struct hke_worker *own,
                           const struct hke_step *s, const struct hke_input *in)
{
    struct hke_output to[HKE_MAX_OPERANDS];
    size_t heads = 0, begin, end;
    for (size_t i = 0; i < s->operands; i++)
        heads += s->operand[i].heads;
    const bool rows = has_row_norm(s);
    const bool whole = !rows && heads >= (size_t)hke_pool_workers(p->cpu->pool) * 4;
    for (size_t i = 0; i < s->operands; i++)
        to[i] = (struct hke_output){p->cpu->buffer[s->operand[i].to],
                                    whole ? s->operand[i].head_dim : HKE_ROW_GROUP};
    while (hke_multiply_share(p, own, in, to, &begin, &end))
        for (size_t t = 0; whole && t < p->n; t++)
            finish_some_heads(p, s, begin, end, t);
    hke_pool_barrier(p->cpu->pool);
    if (rows)
        finish_operands(p, own, s);
    else if (!whole)
        finish_heads(p, own, s, heads);
}

/* A product whose result needs no whole heads. */
static void multiply_one(const struct hke_pass *p, struct hke_worker *own,
                         const struct hke_input *in, float *y)
{
    const struct hke_step *s = in->step;
    struct hke_output to[HKE_MAX_OPERANDS];
    size_t begin, end;
    if (s->activation != HKE_NO_ACTIVATION)
        hke_multiply_activated(p, own, in, y);
    else if (s->operand[0].adds)
        hke_multiply_and_add(p, own, in, y);
    else
        for (size_t i = 0; i < s->operands; i++)
            to[i] = (struct hke_output){buffer_at(p, s->operand[i].to, in->first), HKE_ROW_GROUP};
    if (s->activation == HKE_NO_ACTIVATION && !s->operand[0].adds)
        while (hke_multiply_share(p, own, in, to, &begin, &end))
            ;
    hke_pool_barrier(p->cpu->pool);
}

static void run_product(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    const size_t from = hke_first_token(p, s), n = p->n - from;
    const float *x = buffer_at(p, s->in, from);
    float *y = buffer_at(p, s->operand[0].to, from);
    struct hke_input in;
    if (s->in == HKE_RESIDUAL)
        x = hke_is_single_token(p) ? own->normed : p->cpu->normed + from * p->cpu->plan->hidden;
    hke_set_input(p, own, s, x, from, n, &in);
    if (s->in == HKE_RESIDUAL)
        norm_tokens(p, own, s, from, &in);
    else
        hke_round_input(p, own, &in);
    hke_project_adapters(p, own, &in);
    if (s->kind == HKE_EXPERTS_UP)
        hke_expand_experts(p, own, &in);
    else if (s->operand[0].heads > 0)
        multiply_heads(p, own, s, &in);
    else
        multiply_one(p, own, &in, y);
}

/* The first operand is of all experts, a second one of the shared expert. */
static void run_route(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    run_product(p, own, s);
    hke_route_tokens(p, own, s);
}

/* ---- LOGITS ---- */

/* Of several tokens the residual is kept, since logits of others of them may be asked for later. */
static void add_last_delta(const struct hke_pass *p, const struct hke_worker *own,
                           const struct hke_step *s)
{
    const size_t hidden = p->cpu->plan->hidden, from = hke_first_token(p, s);
    size_t begin, end;
    if (!adds_delta(p, s))
        return;
    if (hke_is_single_token(p)) {
        const float *delta = hke_finish_delta(p, s, p->cpu->buffer[HKE_DELTA], own->normed);
        p->cpu->kernels->add(own->residual, delta, hidden);
        return;
    }
    while (take_tokens(p, own, p->n - from, &begin, &end))
        for (size_t t = from + begin; t < from + end; t++) {
            float *delta = buffer_at(p, HKE_DELTA, t);
            p->cpu->kernels->add(buffer_at(p, HKE_RESIDUAL, t),
                                 hke_finish_delta(p, s, delta, delta), hidden);
        }
    hke_pool_barrier(p->cpu->pool);
}

/* Norm the tokens whose logits are computed; the deltas are no longer needed. */
static void norm_wanted(const struct hke_pass *p, const struct hke_worker *own,
                        const struct hke_step *s, const struct hke_input *in)
{
    const size_t hidden = p->cpu->plan->hidden;
    const size_t from = hke_first_token(p, s) + p->logits_first;
    size_t begin, end;
    if (hke_is_single_token(p)) {
        norm_rows(p, &s->norm, own->normed, own->residual, hidden, 1);
        hke_round_token(p, in, 0);
        return;
    }
    while (take_tokens(p, own, p->logits_n, &begin, &end))
        for (size_t t = begin; t < end; t++) {
            norm_rows(p, &s->norm, p->cpu->normed + t * hidden,
                      buffer_at(p, HKE_RESIDUAL, from + t), hidden, 1);
            hke_round_token(p, in, t);
        }
    hke_pool_barrier(p->cpu->pool);
}

/* The end of the run is the last barrier. */
static void compute_logits(const struct hke_pass *p, struct hke_worker *own,
                           const struct hke_step *s)
{
    struct hke_input in;
    hke_set_input(p, own, s, hke_is_single_token(p) ? own->normed : p->cpu->normed,
                  hke_first_token(p, s) + p->logits_first, p->logits_n, &in);
    norm_wanted(p, own, s, &in);
    hke_project_adapters(p, own, &in);
    hke_multiply(p, own, &in, p->cpu->logits);
}

/* ---- all steps ---- */

/* Whether the pass ends before STEP, which is to be run. A product has a barrier in the pass of
 * several tokens, so what the first worker decides before one, all know before the next step. */
static bool is_pass_stopped(const struct hke_pass *p, unsigned worker, size_t step)
{
    struct hke_cpu *c = p->cpu;
    if (step >= atomic_load_explicit(&c->stop_before, memory_order_relaxed))
        return true;
    if (worker == 0 && c->opt.watch != NULL && !hke_is_single_token(p) &&
        c->plan->step[step].kind == HKE_PRODUCT && !c->opt.watch(c->opt.watch_arg, step))
        atomic_store_explicit(&c->stop_before, step + 1, memory_order_relaxed);
    return false;
}

static void run_step(const struct hke_pass *p, struct hke_worker *own, const struct hke_step *s)
{
    switch (s->kind) {
    case HKE_EMBED:
        run_embed(p, own, s);
        break;
    case HKE_PRODUCT:
    case HKE_EXPERTS_UP:
        run_product(p, own, s);
        break;
    case HKE_ATTEND:
        hke_attend(p, own, s);
        break;
    case HKE_ROUTE:
        run_route(p, own, s);
        break;
    case HKE_EXPERTS_DOWN:
        hke_sum_experts(p, own, s);
        break;
    case HKE_LOGITS:
        add_last_delta(p, own, s);
        compute_logits(p, own, s);
        break;
    }
}

static void run_steps(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    const struct hke_pass *p = arg;
    const struct hke_plan *plan = p->cpu->plan;
    struct hke_worker *own = &p->cpu->worker[worker];
    if (p->residual != NULL && hke_is_single_token(p))
        memcpy(own->residual, p->residual, plan->hidden * sizeof(float));
    for (size_t i = p->first; i < p->end; i++) {
        if (hke_first_token(p, &plan->step[i]) == p->n)
            continue;
        if (is_pass_stopped(p, worker, i))
            return;
        if (worker == 0)
            hke_residency_step(p->cpu->residency, i);
        run_step(p, own, &plan->step[i]);
    }
}

static void run_more_logits(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    const struct hke_pass *p = arg;
    compute_logits(p, &p->cpu->worker[worker], &p->cpu->plan->step[p->end - 1]);
}

/* Multiply-adds of a layer that several workers do no sooner than one, with five barriers. */
enum { FEW_MULTIPLY_ADDS = 1 << 16 };

static void run_in_pool(struct hke_pass *p, hke_pool_fn *fn)
{
    struct hke_cpu *c = p->cpu;
    if (p->n * c->layer_weights < FEW_MULTIPLY_ADDS || hke_pool_hindered(c->pool))
        hke_pool_run_alone(c->pool, fn, p);
    else
        hke_pool_run_some(
            c->pool,
            p->n <= HKE_SPLIT_TOKENS ? hke_pool_usable(c->pool) : hke_pool_workers(c->pool), fn, p);
}

bool hke_run_pass(struct hke_pass *p)
{
    atomic_store_explicit(&p->cpu->stop_before, SIZE_MAX, memory_order_relaxed);
    run_in_pool(p, run_steps);
    return atomic_load_explicit(&p->cpu->stop_before, memory_order_relaxed) == SIZE_MAX;
}

void hke_run_logits(struct hke_pass *p)
{
    run_in_pool(p, run_more_logits);
}
