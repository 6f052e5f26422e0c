/* Weights as pieces of the file, in the order of the steps that need them. */
#include "engine/cpu/residency.h"

#include <stdlib.h>

#include "kernels/kernels.h"

enum {
    PIECE = 4 << 20,   /* bytes that are kept or not together */
    WINDOW = 64 << 20, /* that are read ahead of a step */
};

struct piece {
    struct hk_bytes bytes;
    uint64_t before; /* bytes of the pieces before it */
    bool kept;
};

struct hke_residency {
    const struct hk_file *file;
    size_t steps;
    size_t *begin; /* [steps + 1]: the first piece of each step */
    struct piece *piece;
    size_t pieces;
    uint64_t total, kept;
    bool fits, warm;  /* all are kept; a pass has read all */
    bool chosen_only; /* experts do not all fit */
    size_t done;      /* a step that is done, whose pieces have not been let go; or STEPS */
    size_t ahead;     /* pieces that have been read ahead; above PIECES: of the next pass */
};

/* ---- pieces ---- */

static struct hk_bytes bytes_of_matrix(const struct hke_weight *w, size_t index)
{
    const size_t row = hkk_row_bytes(w->type, w->cols);
    return (struct hk_bytes){w->data + hke_weight_row(w, index, 0) * row, w->rows * row};
}

/* Bytes of the rows of operand O; empty where they are not needed whole. */
static struct hk_bytes rows_of_operand(const struct hke_step *s, size_t o)
{
    const struct hke_weight *w = s->operand[o].weight;
    if (s->kind == HKE_EMBED || w->data == NULL || w->stack != 1)
        return (struct hk_bytes){0};
    return bytes_of_matrix(w, 0);
}

/* Cut B into pieces, which go to OUT unless that is NULL; gives their number. */
static size_t cut_pieces(struct hk_bytes b, struct piece *out, uint64_t before)
{
    size_t n = 0;
    for (size_t at = 0; at < b.n; at += PIECE, n++)
        if (out != NULL)
            out[n] =
                (struct piece){{b.p + at, b.n - at < PIECE ? b.n - at : PIECE}, before + at, false};
    return n;
}

static size_t count_pieces(const struct hke_plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->steps; i++)
        for (size_t o = 0; o < p->step[i].operands; o++)
            n += cut_pieces(rows_of_operand(&p->step[i], o), NULL, 0);
    return n;
}

static void list_pieces(struct hke_residency *r, const struct hke_plan *p)
{
    for (size_t i = 0; i < p->steps; i++) {
        r->begin[i] = r->pieces;
        for (size_t o = 0; o < p->step[i].operands; o++) {
            const struct hk_bytes b = rows_of_operand(&p->step[i], o);
            r->pieces += cut_pieces(b, r->piece + r->pieces, r->total);
            r->total += b.n;
        }
    }
    r->begin[p->steps] = r->pieces;
}

/* Bytes before the pieces of STEP. */
static uint64_t bytes_before(const struct hke_residency *r, size_t step)
{
    return r->begin[step] < r->pieces ? r->piece[r->begin[step]].before : r->total;
}

/* What a step needs is there all at once, so keeping a large one costs nothing more. */
static bool is_large(const struct hke_residency *r, size_t step)
{
    return bytes_before(r, step + 1) - bytes_before(r, step) > WINDOW;
}

static void keep_step(struct hke_residency *r, size_t step, double part, uint64_t *kept,
                      uint64_t *seen)
{
    for (size_t i = r->begin[step]; i < r->begin[step + 1]; i++) {
        struct piece *p = &r->piece[i];
        *seen += p->bytes.n;
        p->kept = (double)(*kept + p->bytes.n) <= part * (double)*seen;
        *kept += p->kept ? p->bytes.n : 0;
    }
}

/* Keep so many pieces that MEMORY also holds what is read ahead: large steps, and the same part of
 * every other one, so that there is always something to read. */
static void choose_pieces(struct hke_residency *r, uint64_t memory)
{
    uint64_t room = memory > 2 * WINDOW ? memory - 2 * WINDOW : 0, large = 0, seen = 0;
    for (size_t i = 0; i < r->steps; i++)
        large += is_large(r, i) ? bytes_before(r, i + 1) - bytes_before(r, i) : 0;
    r->fits = r->total <= memory;
    large = large < room ? large : 0;
    room -= large;
    const double part = r->fits ? 1 : (double)room / (double)(r->total - large);
    for (size_t i = 0; i < r->steps; i++) {
        uint64_t all = 0, none = 0;
        if (large > 0 && is_large(r, i))
            keep_step(r, i, 1, &all, &none);
        else
            keep_step(r, i, part, &r->kept, &seen);
    }
    r->kept += large;
}

typedef void weight_fn(void *arg, const struct hke_weight *w);

/* FN for each stack of experts' matrices that lies in the file as it is used. */
static void each_stack(const struct hke_plan *p, weight_fn *fn, void *arg)
{
    for (size_t i = 0; i < p->steps; i++)
        for (size_t o = 0; o < p->step[i].operands; o++) {
            const struct hke_weight *w = p->step[i].operand[o].weight;
            if (w->data != NULL && w->stack > 1)
                fn(arg, w);
        }
}

static void add_stack_bytes(void *arg, const struct hke_weight *w)
{
    uint64_t *sum = arg;
    *sum += (uint64_t)w->stack * bytes_of_matrix(w, 0).n;
}

static void expect_random(void *arg, const struct hke_weight *w)
{
    const struct hke_residency *r = arg;
    for (size_t i = 0; i < w->stack; i++)
        hk_expect_random(r->file, bytes_of_matrix(w, i));
}

enum hk_status hke_residency_new(struct hke_residency **out, const struct hke_plan *p,
                                 uint64_t memory, struct hk_error *err)
{
    struct hke_residency *r = calloc(1, sizeof *r);
    if (r == NULL)
        return hk_fail_nomem(err);
    r->file = p->file;
    r->steps = r->done = p->steps;
    r->begin = calloc(p->steps + 1, sizeof *r->begin);
    r->piece = calloc(count_pieces(p) + 1, sizeof *r->piece);
    if (r->begin == NULL || r->piece == NULL) {
        hke_residency_free(&r);
        return hk_fail_nomem(err);
    }
    list_pieces(r, p);
    choose_pieces(r, memory);
    uint64_t experts = 0;
    each_stack(p, add_stack_bytes, &experts);
    r->chosen_only = experts > 0 && (memory < r->total || memory - r->total < experts);
    if (r->chosen_only)
        each_stack(p, expect_random, r);
    *out = r;
    return HK_OK;
}

void hke_residency_free(struct hke_residency **r)
{
    if (*r == NULL)
        return;
    free((*r)->begin);
    free((*r)->piece);
    free(*r);
    *r = NULL;
}

uint64_t hke_residency_kept(const struct hke_residency *r, uint64_t *total)
{
    *total = r->total;
    return r->kept;
}

/* ---- a pass ---- */

static void let_step_go(struct hke_residency *r, size_t step)
{
    for (size_t i = r->begin[step]; i < r->begin[step + 1]; i++)
        if (!r->piece[i].kept)
            hk_let_go(r->file, r->piece[i].bytes);
}

/* Asking the system to read what it has takes time for every page, so in the first pass it is asked
 * about the last one. */
static void read_piece_ahead(const struct hke_residency *r, const struct piece *p)
{
    if (p->kept && (r->warm || hk_is_in_memory(r->file, p->bytes)))
        return;
    hk_read_ahead(r->file, p->bytes);
}

/* Up to a window behind the pieces of STEP; where pieces are read in every pass, those at the end
 * are followed by the first of the next. */
static void read_step_ahead(struct hke_residency *r, size_t step)
{
    const uint64_t to = bytes_before(r, step + 1) + WINDOW;
    const size_t most = r->fits ? r->pieces : 2 * r->pieces;
    for (; r->ahead < most; r->ahead++) {
        const bool next = r->ahead >= r->pieces;
        const struct piece *p = &r->piece[next ? r->ahead - r->pieces : r->ahead];
        if (p->before + (next ? r->total : 0) >= to)
            return;
        read_piece_ahead(r, p);
    }
}

void hke_residency_step(struct hke_residency *r, size_t step)
{
    if (r->fits && r->warm)
        return;
    if (r->done < r->steps)
        let_step_go(r, r->done);
    r->done = step;
    if (step == 0)
        r->ahead = r->ahead >= r->pieces ? r->ahead - r->pieces : 0;
    read_step_ahead(r, step);
}

void hke_residency_experts(struct hke_residency *r, const struct hke_step *step,
                           const uint32_t *expert, size_t n)
{
    if (!r->chosen_only)
        return;
    for (const struct hke_step *s = step; s <= step + 1; s++)
        for (size_t o = 0; o < s->operands; o++)
            for (size_t i = 0; i < n && s->operand[o].weight->data != NULL; i++)
                hk_read_ahead(r->file, bytes_of_matrix(s->operand[o].weight, expert[i]));
}

void hke_residency_pass(struct hke_residency *r)
{
    r->warm = true;
}
