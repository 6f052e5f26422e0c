/* A runner: its options settled, and parts of texts cut into batches for the device. */
#include "engine/run/runner.h"

#include <errno.h>
#include <stdlib.h>

enum {
    LOGIT_FLOATS = 4 << 20, /* 16 MiB of logits at once, or of TEXTS_AT_ONCE tokens, or of one */
    TEXTS_AT_ONCE = 64,
};

struct hke_origin { /* where a token of a batch comes from */
    size_t part, index;
};

static bool watch_step(void *arg, size_t step)
{
    struct hke_runner *r = arg;
    struct hke_watched *w = &r->watched;
    const double part = (double)step / (double)r->model->plan->steps;
    w->stopped = !w->fn(w->arg, ((double)w->done + (double)w->batch * part) / (double)w->all);
    return !w->stopped;
}

/* ---- open and close ---- */

static size_t logits_at_once(size_t vocab)
{
    const size_t n = LOGIT_FLOATS / vocab;
    return n > TEXTS_AT_ONCE ? n : n > 0 ? TEXTS_AT_ONCE : 1;
}

static enum hk_status settle_options(struct hke_runner *r, const struct hke_context_options *opt,
                                     struct hke_device_options *out, struct hk_error *err)
{
    const struct hk_model_params *p = &r->model->params;
    r->positions =
        opt->positions > 0 ? opt->positions : hke_min_size(p->context, HKE_MAX_POSITIONS);
    r->batch = opt->batch > 0 ? opt->batch : HKE_DEFAULT_BATCH;
    if (r->positions > HKE_MAX_POSITIONS || r->batch > HKE_MAX_BATCH)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "a context of %zu positions in batches of %zu: at most %d and %d",
                       r->positions, r->batch, (int)HKE_MAX_POSITIONS, (int)HKE_MAX_BATCH);
    if (p->rope.kind == HK_ROPE_DYNAMIC && r->positions > p->context)
        return hk_fail(
            err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "a context of %zu positions: beyond the %u of the model its rope would change "
            "with the length of the text",
            r->positions, p->context);
    *out = (struct hke_device_options){
        .batch = r->batch,
        .logits = 1,
        .positions = r->positions,
        .activations = opt->activations,
        .kernels = opt->kernels,
        .threads = opt->threads,
        .huge_pages = opt->huge_pages,
        .weights_memory = opt->weights_memory,
        .watch = opt->watch != NULL ? watch_step : NULL,
        .watch_arg = r,
    };
    r->watched = (struct hke_watched){.fn = opt->watch, .arg = opt->watch_arg};
    if (opt->every_logit)
        out->logits = hke_min_size(r->batch, logits_at_once(p->vocab));
    return HK_OK;
}

static enum hk_status open_runner(struct hke_runner *r, const struct hke_context_options *opt,
                                  struct hk_error *err)
{
    struct hke_device_options options;
    enum hk_status st = settle_options(r, opt, &options, err);
    if (st == HK_OK)
        st = hke_cpu_backend.open(&r->device, r->model->plan, &options, err);
    if (st != HK_OK)
        return st;
    r->blocks.device = r->device;
    r->blocks.most = opt->cache_positions > 0 ? hke_blocks_for(opt->cache_positions) : SIZE_MAX;
    r->token = calloc(r->batch, sizeof *r->token);
    r->origin = calloc(r->batch, sizeof *r->origin);
    return r->token != NULL && r->origin != NULL ? HK_OK : hk_fail_nomem(err);
}

enum hk_status hke_runner_new(struct hke_runner **out, const struct hke_model *m,
                              const struct hke_context_options *opt, struct hk_error *err)
{
    struct hke_runner *r = calloc(1, sizeof *r);
    if (r == NULL)
        return hk_fail_nomem(err);
    r->model = m;
    enum hk_status st = open_runner(r, opt, err);
    if (st != HK_OK)
        hke_runner_free(&r);
    else
        *out = r;
    return st;
}

void hke_runner_free(struct hke_runner **r)
{
    if (*r == NULL)
        return;
    if ((*r)->device != NULL)
        (*r)->device->backend->close((*r)->device);
    hke_free_blocks(&(*r)->blocks);
    free((*r)->token);
    free((*r)->origin);
    free(*r);
    *r = NULL;
}

size_t hke_runner_positions(const struct hke_runner *r)
{
    return r->positions;
}

unsigned hke_runner_threads(const struct hke_runner *r)
{
    return r->device->backend->threads(r->device);
}

const char *hke_runner_kernels(const struct hke_runner *r)
{
    return r->device->backend->kernels(r->device);
}

uint64_t hke_runner_weights_kept(const struct hke_runner *r, uint64_t *total)
{
    return r->device->backend->weights_kept(r->device, total);
}

struct hke_cache_blocks hke_runner_blocks(const struct hke_runner *r)
{
    struct hke_cache_blocks blocks = {0, r->blocks.most};
    for (size_t i = 0; i < r->model->plan->caches; i++)
        if (r->blocks.cache[i].used > blocks.used)
            blocks.used = r->blocks.cache[i].used;
    return blocks;
}

/* ---- what is to be evaluated ---- */

static enum hk_status check_part(const struct hke_runner *r, const struct hke_part *p,
                                 struct hk_error *err)
{
    const struct hke_sequence *s = p->sequence;
    if (s->runner != r || s->in_call)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       s->in_call ? "a sequence is continued twice in one call"
                                  : "a sequence is another runner's");
    if (p->n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "no tokens to evaluate");
    if (p->wanted > p->n)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "logits of %zu tokens of %zu are wanted",
                       p->wanted, p->n);
    if (p->n > r->positions - s->used)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "%zu tokens after %zu do not fit a context of %zu", p->n, s->used,
                       r->positions);
    for (size_t i = 0; i < p->n; i++)
        if (p->id[i] >= r->model->params.vocab)
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                           "token %zu is %u, but the embedding has %u rows", i, p->id[i],
                           r->model->params.vocab);
    return HK_OK;
}

static enum hk_status prepare_parts(const struct hke_runner *r, const struct hke_part *part,
                                    size_t parts, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    size_t checked = 0;
    while (checked < parts && (st = check_part(r, &part[checked], err)) == HK_OK)
        part[checked++].sequence->in_call = true;
    for (size_t i = 0; i < checked; i++)
        part[i].sequence->in_call = false;
    for (size_t i = 0; i < parts && st == HK_OK; i++)
        st = hke_sequence_reserve(part[i].sequence, part[i].n, err);
    return st;
}

/* ---- batches ---- */

/* The ids of some parts that are computed together: from id BEGIN of part FIRST to before id END of
 * part LAST, both of them in it. */
struct batch_range {
    size_t first, begin, last, end;
};

/* The range of at most BATCH ids that begins with id BEGIN of part FIRST. */
static struct batch_range range_from(const struct hke_part *part, size_t parts, size_t first,
                                     size_t begin, size_t batch)
{
    struct batch_range range = {first, begin, first, begin};
    size_t left = batch;
    for (size_t i = first; i < parts && left > 0; i++) {
        const size_t from = i == first ? begin : 0, n = hke_min_size(part[i].n - from, left);
        range.last = i;
        range.end = from + n;
        left -= n;
    }
    return range;
}

/* Ids of PART in RANGE. */
static size_t range_begin(const struct batch_range *range, size_t part)
{
    return part == range->first ? range->begin : 0;
}

static size_t range_end(const struct batch_range *range, const struct hke_part *part, size_t i)
{
    return i == range->last ? range->end : part[i].n;
}

/* Add the ids of part I in RANGE whose logits are wanted, or those of which they are not. */
static void add_tokens(const struct hke_runner *r, struct hke_batch *b, const struct hke_part *part,
                       size_t i, const struct batch_range *range, bool wanted)
{
    const struct hke_part *p = &part[i];
    const size_t begin = range_begin(range, i), end = range_end(range, part, i);
    for (size_t k = begin; k < end; k++) {
        if ((k + p->wanted >= p->n) != wanted)
            continue;
        r->token[b->n] =
            (struct hke_token){p->id[k], (uint32_t)(p->sequence->used + k - begin), p->sequence};
        r->origin[b->n++] = (struct hke_origin){i, k};
        b->wanted += wanted;
    }
}

/* Whether no part of RANGE before part I has its adapters. */
static bool is_first_with_adapters(const struct hke_part *part, const struct batch_range *range,
                                   size_t i)
{
    for (size_t k = range->first; k < i; k++)
        if (part[k].sequence->adapters == part[i].sequence->adapters)
            return false;
    return true;
}

/* Those whose logits are wanted come last; of these and of the others, those with the same adapters
 * are together. */
static struct hke_batch gather_batch(const struct hke_runner *r, const struct hke_part *part,
                                     const struct batch_range *range)
{
    struct hke_batch b = {.token = r->token};
    for (unsigned wanted = 0; wanted < 2; wanted++)
        for (size_t i = range->first; i <= range->last; i++) {
            if (!is_first_with_adapters(part, range, i))
                continue;
            for (size_t k = i; k <= range->last; k++)
                if (part[k].sequence->adapters == part[i].sequence->adapters)
                    add_tokens(r, &b, part, k, range, wanted);
        }
    return b;
}

static enum hk_status give_logits(struct hke_runner *r, const struct hke_batch *b, hke_part_fn *fn,
                                  void *arg, struct hk_error *err)
{
    const size_t vocab = r->model->params.vocab;
    enum hk_status st = HK_OK;
    for (size_t i = 0, n; fn != NULL && i < b->wanted && st == HK_OK; i += n) {
        const float *logits = r->device->backend->logits(r->device, i, &n);
        const struct hke_origin *o = &r->origin[b->n - b->wanted + i];
        for (size_t k = 0; k < n && st == HK_OK; k++)
            st = fn(arg, o[k].part, o[k].index, logits + k * vocab, vocab, err);
    }
    return st;
}

static enum hk_status eval_range(struct hke_runner *r, const struct hke_part *part,
                                 const struct batch_range *range, hke_part_fn *fn, void *arg,
                                 struct hk_error *err)
{
    const struct hke_batch b = gather_batch(r, part, range);
    r->watched.batch = b.n;
    if (r->watched.fn != NULL && !watch_step(r, 0))
        return hk_fail_sys(err, EINTR, "evaluating tokens");
    enum hk_status st = r->device->backend->run(r->device, &b, 0, r->model->plan->steps, NULL, err);
    if (st != HK_OK)
        return st;
    r->watched.done += b.n;
    for (size_t i = range->first; i <= range->last; i++) {
        part[i].sequence->used += range_end(range, part, i) - range_begin(range, i);
        hke_sequence_slide(part[i].sequence);
    }
    return give_logits(r, &b, fn, arg, err);
}

enum hk_status hke_runner_eval(struct hke_runner *r, const struct hke_part *part, size_t parts,
                               hke_part_fn *fn, void *arg, struct hk_error *err)
{
    enum hk_status st = prepare_parts(r, part, parts, err);
    r->watched.done = r->watched.all = 0;
    r->watched.stopped = false;
    for (size_t i = 0; i < parts; i++)
        r->watched.all += part[i].n;
    for (size_t first = 0, begin = 0; first < parts && st == HK_OK;) {
        const struct batch_range range = range_from(part, parts, first, begin, r->batch);
        st = eval_range(r, part, &range, fn, arg, err);
        const bool whole = range.end == part[range.last].n;
        first = range.last + whole;
        begin = whole ? 0 : range.end;
    }
    for (size_t i = 0; i < parts && st != HK_OK; i++)
        if (part[i].sequence->runner == r)
            hke_sequence_trim(part[i].sequence);
    return st;
}
