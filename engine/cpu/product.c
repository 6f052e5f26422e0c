/* Weights times a batch: which form the activations take, and rows shared among the workers. A row
 * of a result is one dot product whatever the split, so only time depends on it.
 *
 * Adapters change a product as engine/plan/adapters.h says, where x is not rounded. Of A x and of
 * replaced rows a dot product is the kernels' for f32. */
#include "engine/cpu/cpu.h"

/* Products use rows where they lie; where activations are not rounded, only float rows. */
enum hkk_kind hke_activation_kind(const struct hke_cpu *c, const struct hke_weight *w)
{
    return c->opt.activations == HKE_ACTIVATIONS_F32 ? HKK_KIND_F32 : hkk_kind_of(w->type);
}

bool hke_has_kernels(const struct hke_weight *w)
{
    return w->data != NULL && hkk_kind_of(w->type) != HKK_KIND_NONE &&
           w->cols % hkk_block_elems(w->type) == 0;
}

static bool multiplies_in_place(const struct hke_cpu *c, const struct hke_weight *w)
{
    return hke_has_kernels(w) && hke_activation_kind(c, w) == hkk_kind_of(w->type);
}

/* ---- activations ---- */

void hke_set_input(const struct hke_pass *p, const struct hke_worker *own, const struct hke_step *s,
                   const float *x, size_t first, size_t n, struct hke_input *in)
{
    const bool single = hke_is_single_token(p);
    void *const *memory = single ? own->acts : p->cpu->acts;
    in->step = s;
    in->matrix = 0;
    in->first = first;
    in->kinds = 1u << HKK_KIND_F32;
    for (size_t i = 0; i < s->operands; i++) {
        in->kinds |= 1u << hke_activation_kind(p->cpu, s->operand[i].weight);
        in->low[i] = single ? own->low[i] : p->cpu->low[i];
    }
    for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
        if (in->kinds & 1u << kind) {
            hkk_acts_place(&in->as[kind], (enum hkk_kind)kind, x, n, s->operand[0].weight->cols,
                           memory[kind]);
            in->as[kind].tiles = single ? NULL : p->cpu->tiles[kind];
        }
}

void hke_round_token(const struct hke_pass *p, const struct hke_input *in, size_t t)
{
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        if (in->kinds & 1u << kind)
            p->cpu->kernels->quantize(&in->as[kind], t, 1);
}

void hke_round_input(const struct hke_pass *p, const struct hke_worker *own,
                     const struct hke_input *in)
{
    struct hke_pool *pool = p->cpu->pool;
    if (in->kinds == 1u << HKK_KIND_F32)
        return;
    if (hke_is_single_token(p)) {
        hke_round_token(p, in, 0);
        return;
    }
    size_t n = in->as[HKK_KIND_F32].n, begin, end;
    while (hke_pool_take(pool, own->number, n, hke_pool_grain(pool, n, n), &begin, &end))
        for (size_t t = begin; t < end; t++)
            hke_round_token(p, in, t);
    hke_pool_barrier(pool);
}

/* ---- adapters ---- */

/* What adapters change in the product of IN's token T with operand I, or NULL. */
static const struct hke_change *change_at(const struct hke_pass *p, const struct hke_input *in,
                                          size_t t, size_t i)
{
    return hke_change_of(p->batch->token[in->first + t].sequence->adapters,
                         in->step->operand[i].weight);
}

/* End of the tokens before END that have the adapters of T. */
static size_t adapters_end(const struct hke_pass *p, const struct hke_input *in, size_t t,
                           size_t end)
{
    return hke_min_size(p->cpu->group[in->first + t].adapters_end - in->first, end);
}

static bool is_projected(const struct hke_pass *p, const struct hke_input *in)
{
    const size_t n = in->as[HKK_KIND_F32].n;
    for (size_t t = 0; p->cpu->has_adapters && t < n; t = adapters_end(p, in, t, n))
        for (size_t i = 0; i < in->step->operands; i++)
            if (change_at(p, in, t, i) != NULL && change_at(p, in, t, i)->rank > 0)
                return true;
    return false;
}

/* IN's tokens [BEGIN, END), as they are. */
static struct hkk_acts tokens_of(const struct hke_input *in, size_t begin, size_t end)
{
    const struct hkk_acts *all = &in->as[HKK_KIND_F32];
    struct hkk_acts some;
    hkk_acts_place(&some, HKK_KIND_F32, all->x + begin * all->cols, end - begin, all->cols, NULL);
    return some;
}

/* A x of the tokens [BEGIN, END), which have the same adapters. */
static void project_group(const struct hke_pass *p, const struct hke_worker *own,
                          const struct hke_input *in, size_t begin, size_t end)
{
    const struct hkk_acts x = tokens_of(in, begin, end);
    const size_t stride = p->cpu->max_rank;
    for (size_t i = 0; i < in->step->operands; i++) {
        const struct hke_change *c = change_at(p, in, begin, i);
        if (c == NULL || c->rank == 0)
            continue;
        const struct hkk_matrix a = {(const uint8_t *)c->a, x.cols};
        p->cpu->kernels->matmul[HKK_F32](&a, 0, c->rank, &x, in->low[i] + begin * stride, stride,
                                         own->scratch);
    }
}

static void project_tokens(const struct hke_pass *p, const struct hke_worker *own,
                           const struct hke_input *in, size_t begin, size_t end)
{
    for (size_t t = begin; t < end; t = adapters_end(p, in, t, end))
        project_group(p, own, in, t, adapters_end(p, in, t, end));
}

void hke_project_adapters(const struct hke_pass *p, const struct hke_worker *own,
                          const struct hke_input *in)
{
    struct hke_pool *pool = p->cpu->pool;
    const size_t n = in->as[HKK_KIND_F32].n;
    size_t begin, end;
    if (!is_projected(p, in))
        return;
    if (hke_is_single_token(p)) {
        project_tokens(p, own, in, 0, n);
        return;
    }
    while (hke_pool_take(pool, own->number, n, hke_pool_grain(pool, n, n), &begin, &end))
        project_tokens(p, own, in, begin, end);
    hke_pool_barrier(pool);
}

/* Rows [BEGIN, END) of a product that is Y: of those that C replaces, for the tokens X. */
static void multiply_replaced_rows(const struct hke_pass *p, const struct hke_worker *own,
                                   const struct hke_change *c, const struct hkk_acts *x,
                                   size_t begin, size_t end, float *y, size_t stride)
{
    const size_t together = c->row == NULL ? end - begin : 1;
    for (size_t r = begin; r < end && c->replaced_count > 0; r += together) {
        const struct hkk_matrix m = {(const uint8_t *)hke_replaced_row(c, r, x->cols), x->cols};
        if (m.data != NULL)
            p->cpu->kernels->matmul[HKK_F32](&m, 0, together, x, y + (r - begin), stride,
                                             own->scratch);
    }
}

/* Likewise: rows are scaled, then B times LOW, of N tokens, is added. */
static void scale_and_add(const struct hke_pass *p, const struct hke_change *c, size_t rows_of_b,
                          const float *low, size_t n, size_t begin, size_t end, float *y,
                          size_t stride)
{
    const struct hkk_low_rank b = {c->b, rows_of_b, c->rank};
    for (size_t t = 0; t < n && c->row_scale != NULL; t++)
        for (size_t r = begin; r < end; r++)
            y[t * stride + r - begin] *= c->row_scale[r];
    if (c->rank > 0)
        p->cpu->kernels->add_low_rank(&b, begin, end - begin, low, p->cpu->max_rank, n, y, stride);
}

/* What adapters change in rows [BEGIN, END) of the product with operand I. */
static void change_rows(const struct hke_pass *p, const struct hke_worker *own,
                        const struct hke_input *in, size_t i, size_t begin, size_t end, float *y,
                        size_t stride)
{
    const size_t n = in->as[HKK_KIND_F32].n;
    for (size_t t = 0, stop; t < n; t = stop) {
        const struct hke_change *c = change_at(p, in, t, i);
        stop = adapters_end(p, in, t, n);
        if (c == NULL)
            continue;
        const struct hkk_acts x = tokens_of(in, t, stop);
        multiply_replaced_rows(p, own, c, &x, begin, end, y + t * stride, stride);
        scale_and_add(p, c, in->step->operand[i].weight->rows,
                      c->rank > 0 ? in->low[i] + t * p->cpu->max_rank : NULL, stop - t, begin, end,
                      y + t * stride, stride);
    }
}

/* ---- rows ---- */

static void multiply_decoded_rows(const struct hke_pass *p, struct hke_worker *own,
                                  const struct hke_weight *w, size_t index,
                                  const struct hkk_acts *a, size_t begin, size_t end, float *y,
                                  size_t stride)
{
    const struct hkk_matrix m = {(const uint8_t *)own->row, w->cols};
    for (size_t r = begin; r < end; r += HKE_ROW_GROUP) {
        size_t n = hke_min_size(end - r, HKE_ROW_GROUP);
        hk_decoder_read(w->decoder, (uint64_t)hke_weight_row(w, index, r) * w->cols, n * w->cols,
                        own->row);
        hke_to_file_order(own->row, n * w->cols);
        p->cpu->kernels->matmul[HKK_F32](&m, 0, n, a, y + (r - begin), stride, own->scratch);
    }
}

/* What the operand O does to each number by itself, of its matrix INDEX. */
static void finish_rows(const struct hkk_table *k, const struct hke_operand *o, size_t index,
                        size_t begin, size_t end, float *y)
{
    if (o->bias != NULL)
        k->add(y, o->bias + index * o->weight->rows + begin, end - begin);
    if (o->scale != 0)
        k->scale(y, o->scale, end - begin);
    if (o->soft_cap != 0)
        k->soft_cap(y, o->soft_cap, end - begin);
}

void hke_multiply_rows(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                       size_t i, size_t begin, size_t end, float *y, size_t stride)
{
    const struct hke_cpu *c = p->cpu;
    const struct hke_weight *w = in->step->operand[i].weight;
    const struct hkk_acts *a = &in->as[hke_activation_kind(c, w)];
    if (multiplies_in_place(c, w)) {
        const size_t row = hke_weight_row(w, in->matrix, begin);
        const struct hkk_matrix m = {w->data + row * hkk_row_bytes(w->type, w->cols), w->cols};
        c->kernels->matmul[w->type](&m, 0, end - begin, a, y, stride, own->scratch);
    } else {
        multiply_decoded_rows(p, own, w, in->matrix, a, begin, end, y, stride);
    }
    if (p->cpu->has_adapters && w->stack == 1)
        change_rows(p, own, in, i, begin, end, y, stride);
    for (size_t t = 0; t < a->n; t++)
        finish_rows(c->kernels, &in->step->operand[i], in->matrix, begin, end, y + t * stride);
}

/* ---- shares ---- */

static size_t units_of(const struct hke_weight *w, size_t unit)
{
    return (w->rows + unit - 1) / unit;
}

bool hke_multiply_share(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in, const struct hke_output *to, size_t *begin,
                        size_t *end)
{
    enum { MAX_ROWS = 256 }; /* at once: few enough to end together */
    const struct hke_step *s = in->step;
    size_t total = 0, max = 1;
    for (size_t i = 0; i < s->operands; i++) {
        total += units_of(s->operand[i].weight, to[i].unit);
        if (MAX_ROWS / to[i].unit > max)
            max = MAX_ROWS / to[i].unit;
    }
    if (!hke_pool_take(p->cpu->pool, own->number, total, hke_pool_grain(p->cpu->pool, total, max),
                       begin, end))
        return false;
    size_t before = 0; /* units of the operands before */
    for (size_t i = 0; i < s->operands && before < *end; i++) {
        const size_t rows = s->operand[i].weight->rows;
        size_t from = *begin > before ? (*begin - before) * to[i].unit : 0;
        size_t stop = hke_min_size((*end - before) * to[i].unit, rows);
        if (from < stop)
            hke_multiply_rows(p, own, in, i, from, stop, to[i].y + from, rows);
        before += units_of(s->operand[i].weight, to[i].unit);
    }
    return true;
}

void hke_multiply(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                  float *y)
{
    const struct hke_output to = {y, HKE_ROW_GROUP};
    size_t begin, end;
    while (hke_multiply_share(p, own, in, &to, &begin, &end))
        ;
}

void hke_activate(const struct hkk_table *k, const struct hke_step *s, float *y, const float *up,
                  size_t n)
{
    static const enum hkk_function functions[] = {[HKE_SILU] = HKK_SILU,
                                                  [HKE_GELU] = HKK_GELU,
                                                  [HKE_GELU_ERF] = HKK_GELU_ERF,
                                                  [HKE_RELU_2] = HKK_RELU_2};
    if (s->activation == HKE_CLAMPED_SWIGLU)
        k->clamped_swiglu(y, up, n, 1.702f, s->limit);
    else if (up != NULL)
        k->apply_mul[functions[s->activation]](y, y, up, n);
    else
        k->apply[functions[s->activation]](y, n);
}

void hke_multiply_activated(const struct hke_pass *p, struct hke_worker *own,
                            const struct hke_input *in, float *y)
{
    struct hke_pool *pool = p->cpu->pool;
    const struct hke_step *s = in->step;
    const size_t n = in->as[HKK_KIND_F32].n, rows = s->operand[0].weight->rows;
    const size_t total = units_of(s->operand[0].weight, HKE_ROW_GROUP);
    const size_t grain = hke_pool_grain(pool, total, HKE_FFN_ROWS / HKE_ROW_GROUP);
    const bool gated = s->operands > 1;
    size_t begin, end;
    while (hke_pool_take(pool, own->number, total, grain, &begin, &end)) {
        size_t from = begin * HKE_ROW_GROUP, to = hke_min_size(end * HKE_ROW_GROUP, rows);
        hke_multiply_rows(p, own, in, 0, from, to, y + from, rows);
        if (gated)
            hke_multiply_rows(p, own, in, 1, from, to, own->up, HKE_FFN_ROWS);
        for (size_t t = 0; t < n; t++)
            hke_activate(p->cpu->kernels, s, y + t * rows + from,
                         gated ? own->up + t * HKE_FFN_ROWS : NULL, to - from);
    }
}

void hke_multiply_and_add(const struct hke_pass *p, struct hke_worker *own,
                          const struct hke_input *in, float *y)
{
    struct hke_pool *pool = p->cpu->pool;
    const struct hke_operand *o = &in->step->operand[0];
    const size_t n = in->as[HKK_KIND_F32].n, rows = o->weight->rows;
    const size_t total = units_of(o->weight, HKE_ROW_GROUP);
    const size_t grain = hke_pool_grain(pool, total, HKE_FFN_ROWS / HKE_ROW_GROUP);
    const float *gates = p->cpu->buffer[HKE_SHARED_GATE] + in->first;
    size_t begin, end;
    while (hke_pool_take(pool, own->number, total, grain, &begin, &end)) {
        const size_t from = begin * HKE_ROW_GROUP, to = hke_min_size(end * HKE_ROW_GROUP, rows);
        hke_multiply_rows(p, own, in, 0, from, to, own->up, HKE_FFN_ROWS);
        for (size_t t = 0; t < n; t++) {
            float *part = own->up + t * HKE_FFN_ROWS, gate = o->gated ? gates[t] : 0;
            p->cpu->kernels->apply[HKK_SIGMOID](&gate, 1);
            if (o->gated)
                p->cpu->kernels->scale(part, gate, to - from);
            p->cpu->kernels->add(y + t * rows + from, part, to - from);
        }
    }
}
