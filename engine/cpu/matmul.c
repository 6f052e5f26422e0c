/* Weights times a batch: which form the activations take, and rows shared among the workers. A row
 * of a result is one dot product whatever the split, so only time depends on it. */
#include <string.h>

#include "engine/model.h"

/* Products use rows where they lie; where activations are not rounded, only float rows. */
static enum hkk_kind kind_of(const struct hke_context *c, const struct hke_matrix *w)
{
    return c->activations == HKE_ACTIVATIONS_F32 ? HKK_KIND_F32 : hkk_kind_of(w->type);
}

static bool in_place(const struct hke_context *c, const struct hke_matrix *w)
{
    return w->data != NULL && kind_of(c, w) == hkk_kind_of(w->type);
}

/* ---- activations ---- */

void hke_input_of(const struct hke_pass *p, const struct hke_worker *own, const float *x, size_t n,
                  const struct hke_matrix *const *w, size_t count, struct hke_input *in)
{
    void *const *memory = hke_pass_alone(p) ? own->acts : p->c->acts;
    in->kinds = 1u << HKK_KIND_F32;
    in->count = count;
    for (size_t i = 0; i < count; i++) {
        in->kinds |= 1u << kind_of(p->c, w[i]);
        in->w[i] = w[i];
        in->low[i] = hke_pass_alone(p) ? own->low[i] : p->c->low[i];
    }
    for (unsigned kind = HKK_KIND_F32; kind < HKK_KINDS; kind++)
        if (in->kinds & 1u << kind) {
            hkk_acts_place(&in->as[kind], (enum hkk_kind)kind, x, n, w[0]->cols, memory[kind]);
            in->as[kind].tiles = hke_pass_alone(p) ? NULL : p->c->tiles[kind];
        }
}

void hke_input_round(const struct hke_pass *p, const struct hke_input *in, size_t t)
{
    for (unsigned kind = HKK_KIND_F32 + 1; kind < HKK_KINDS; kind++)
        if (in->kinds & 1u << kind)
            p->c->kernels->quantize(&in->as[kind], t, 1);
}

void hke_input_round_all(const struct hke_pass *p, const struct hke_input *in)
{
    if (in->kinds == 1u << HKK_KIND_F32)
        return;
    if (hke_pass_alone(p)) {
        hke_input_round(p, in, 0);
        return;
    }
    size_t n = in->as[HKK_KIND_F32].n, begin, end;
    while (hke_pool_take(p->c->pool, n, hke_grain(p->c, n, n), &begin, &end))
        for (size_t t = begin; t < end; t++)
            hke_input_round(p, in, t);
    hke_pool_barrier(p->c->pool);
}

/* ---- rows ---- */

void hke_make_little(float *x, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(x + i, &bits, sizeof bits);
    }
}

/* Rows [BEGIN, END) of W to y[t * stride], y[t * stride + 1], ... */
static void base_rows(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                      const struct hke_matrix *w, size_t begin, size_t end, float *y, size_t stride)
{
    const struct hke_context *c = p->c;
    const struct hkk_acts *a = &in->as[kind_of(c, w)];
    if (in_place(c, w)) {
        struct hkk_matrix m = {w->data + begin * hkk_row_bytes(w->type, w->cols), w->cols};
        c->kernels->matmul[w->type](&m, 0, end - begin, a, y, stride, own->scratch);
        return;
    }
    struct hkk_matrix m = {(const uint8_t *)own->row, w->cols};
    for (size_t r = begin; r < end; r += HKE_ROW_GROUP) {
        size_t n = end - r < HKE_ROW_GROUP ? end - r : HKE_ROW_GROUP;
        hk_decoder_read(w->decoder, (uint64_t)r * w->cols, n * w->cols, own->row);
        hke_make_little(own->row, n * w->cols);
        c->kernels->matmul[HKK_F32](&m, 0, n, a, y + (r - begin), stride, own->scratch);
    }
}

static void rows(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                 const struct hke_matrix *w, size_t begin, size_t end, float *y, size_t stride)
{
    base_rows(p, own, in, w, begin, end, y, stride);
    hke_raise(in, w, begin, end, y, stride);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t hke_grain(const struct hke_context *c, size_t total, size_t most)
{
    size_t shares = (size_t)hke_pool_workers(c->pool) * 4;
    size_t grain = (total + shares - 1) / shares;
    return grain < 1 ? 1 : smaller(grain, most);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t units(const struct hke_product *to)
{
    return (to->w->rows + to->unit - 1) / to->unit;
}

bool hke_multiply_some(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                       const struct hke_product *to, size_t count, size_t *begin, size_t *end)
{
    enum { MOST = 256 }; /* rows at once: few enough to end together */
    size_t total = 0, most = 1;
    for (size_t i = 0; i < count; i++) {
        total += units(&to[i]);
        most = larger(most, MOST / to[i].unit);
    }
    if (!hke_pool_take(p->c->pool, total, hke_grain(p->c, total, most), begin, end))
        return false;
    size_t before = 0; /* units of the matrices before */
    for (size_t i = 0; i < count && before < *end; i++) {
        const struct hke_matrix *w = to[i].w;
        size_t from = *begin > before ? (*begin - before) * to[i].unit : 0;
        size_t stop = smaller((*end - before) * to[i].unit, w->rows);
        if (from < stop)
            rows(p, own, in, w, from, stop, to[i].y + from, w->rows);
        before += units(&to[i]);
    }
    return true;
}

void hke_multiply(const struct hke_pass *p, struct hke_worker *own, const struct hke_input *in,
                  const struct hke_matrix *w, float *y)
{
    const struct hke_product to = {w, y, HKE_ROW_GROUP};
    size_t begin, end;
    while (hke_multiply_some(p, own, in, &to, 1, &begin, &end))
        ;
}

void hke_multiply_gated(const struct hke_pass *p, struct hke_worker *own,
                        const struct hke_input *in, const struct hke_matrix *gate,
                        const struct hke_matrix *up, float *y)
{
    size_t n = in->as[HKK_KIND_F32].n, begin, end;
    size_t total = (gate->rows + HKE_ROW_GROUP - 1) / HKE_ROW_GROUP;
    size_t grain = hke_grain(p->c, total, HKE_FFN_ROWS / HKE_ROW_GROUP);
    while (hke_pool_take(p->c->pool, total, grain, &begin, &end)) {
        size_t from = begin * HKE_ROW_GROUP, to = smaller(end * HKE_ROW_GROUP, gate->rows);
        rows(p, own, in, gate, from, to, y + from, gate->rows);
        rows(p, own, in, up, from, to, own->up, HKE_FFN_ROWS);
        for (size_t t = 0; t < n; t++)
            p->c->kernels->silu_mul(y + t * gate->rows + from, own->up + t * HKE_FFN_ROWS,
                                    to - from);
    }
}
