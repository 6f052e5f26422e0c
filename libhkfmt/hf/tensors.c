/* Which tensors of a directory's weights become which of the model: renamed, or several stacked
 * into one. What is stacked is not copied: the open file says which bytes it is made of. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"

struct expert_slice { /* a source that is a slice of a stack */
    struct hk_tensor_place place;
    const struct hk_tensor *source;
};

struct gathering {
    struct hk_file *f;
    const struct hk_hf_config *config;
    struct expert_slice *slices;
    size_t slice_count;
    struct hk_error *err;
};

/* Frequencies of the rope that old versions of the library saved; they follow from the config. */
static bool is_rope_frequencies(struct hk_bytes name)
{
    static const char end[] = ".rotary_emb.inv_freq";
    const size_t n = sizeof end - 1;
    return name.n > n && memcmp(name.p + name.n - n, end, n) == 0;
}

static enum hk_status name_as_in_gguf(const struct gathering *g,
                                      const struct hk_tensor_place *place, struct hk_tensor *t)
{
    char name[HK_MAX_NAME + 1];
    hk_tensor_place_name(place, true, name);
    const size_t n = strlen(name);
    uint8_t *p = hk_arena_alloc(&g->f->arena, n);
    if (p == NULL)
        return hk_fail_nomem(g->err);
    memcpy(p, name, n);
    t->name = (struct hk_bytes){p, n};
    return HK_OK;
}

/* ---- experts ---- */

static int compare_slices(const void *a, const void *b)
{
    const struct hk_tensor_place *x = &((const struct expert_slice *)a)->place,
                                 *y = &((const struct expert_slice *)b)->place;
    const int layers = (x->layer > y->layer) - (x->layer < y->layer),
              rows = (x->row > y->row) - (x->row < y->row);
    return layers != 0 ? layers
           : rows != 0 ? rows
                       : (x->expert > y->expert) - (x->expert < y->expert);
}

static bool is_of_one_stack(const struct hk_tensor_place *a, const struct hk_tensor_place *b)
{
    return a->layer == b->layer && a->row == b->row;
}

/* The COUNT slices from S on are those of experts 0, 1, ..., all alike. */
static enum hk_status check_slices(const struct gathering *g, const struct expert_slice *s,
                                   size_t count)
{
    const struct hk_tensor *first = s[0].source;
    for (size_t i = 0; i < count; i++) {
        const struct hk_tensor *t = s[i].source;
        if (s[i].place.expert != i) {
            struct hk_tensor_place missing = s[i].place;
            char name[HK_MAX_NAME + 1];
            missing.expert = (uint32_t)i;
            hk_tensor_place_name(&missing, false, name);
            return hk_fail(g->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", name);
        }
        if (t->type != first->type || t->ndim != 2 ||
            memcmp(t->shape, first->shape, sizeof t->shape) != 0)
            return hk_fail(g->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tensor %.*s is not of the type and shape of %.*s", HK_STR(t->name),
                           HK_STR(first->name));
    }
    return HK_OK;
}

static enum hk_status stack_slices(struct gathering *g, const struct expert_slice *s, size_t count)
{
    struct hk_file *f = g->f;
    enum hk_status st = check_slices(g, s, count);
    if (st != HK_OK)
        return st;
    struct hk_how *pieces = hk_arena_alloc(&f->arena, count * sizeof *pieces);
    if (pieces == NULL)
        return hk_fail_nomem(g->err);
    struct hk_tensor t = *s[0].source;
    t.ndim = 3;
    t.shape[0] = count;
    t.shape[1] = s[0].source->shape[0];
    t.shape[2] = s[0].source->shape[1];
    t.data_size *= count; /* each lies in a file of its own bytes */
    t.data_offset = 0;
    t.part = HK_NO_PART;
    for (size_t i = 0; i < count; i++)
        pieces[i] = (struct hk_how){.source = s[i].source};
    st = name_as_in_gguf(g, &s[0].place, &t);
    f->how[f->tensor_count] = (struct hk_how){.pieces = pieces, .piece_count = (uint32_t)count};
    f->tensors[f->tensor_count++] = t;
    return st;
}

static enum hk_status stack_experts(struct gathering *g)
{
    enum hk_status st = HK_OK;
    size_t next;
    if (g->slice_count > 0)
        qsort(g->slices, g->slice_count, sizeof *g->slices, compare_slices);
    for (size_t i = 0; st == HK_OK && i < g->slice_count; i = next) {
        for (next = i + 1;
             next < g->slice_count && is_of_one_stack(&g->slices[i].place, &g->slices[next].place);)
            next++;
        st = stack_slices(g, &g->slices[i], next - i);
    }
    return st;
}

/* ---- all ---- */

static enum hk_status gather_tensor(struct gathering *g, const struct hk_tensor *source)
{
    struct hk_file *f = g->f;
    struct hk_tensor_place place;
    if (is_rope_frequencies(source->name) ||
        hk_is_of_next_layers_in_hf(g->config->model.layers, g->config->next_layers, source->name))
        return HK_OK;
    enum hk_status st = hk_tensor_place_find(g->config->family, g->config->model.layers,
                                             source->name, false, &place, g->err);
    if (st != HK_OK)
        return st;
    if (hk_tensor_row_by_expert(place.row)) {
        g->slices[g->slice_count++] = (struct expert_slice){place, source};
        return HK_OK;
    }
    f->tensors[f->tensor_count] = *source;
    f->how[f->tensor_count] = (struct hk_how){.source = source};
    return name_as_in_gguf(g, &place, &f->tensors[f->tensor_count++]);
}

/* Where nothing is stacked, all tensors lie in the files as they are. */
static void forget_sources(struct hk_file *f)
{
    free(f->how);
    free(f->sources);
    f->how = NULL;
    f->sources = NULL;
}

enum hk_status hk_hf_gather(struct hk_file *f, const struct hk_hf_config *config,
                            struct hk_error *err)
{
    struct gathering g = {.f = f, .config = config, .err = err};
    const size_t count = f->tensor_count;
    f->sources = f->tensors;
    f->tensor_count = 0;
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    f->how = calloc(count + 1, sizeof *f->how);
    g.slices = calloc(count + 1, sizeof *g.slices);
    enum hk_status st =
        f->tensors == NULL || f->how == NULL || g.slices == NULL ? hk_fail_nomem(err) : HK_OK;
    for (size_t i = 0; st == HK_OK && i < count; i++)
        st = gather_tensor(&g, &f->sources[i]);
    if (st == HK_OK)
        st = stack_experts(&g);
    if (st == HK_OK && g.slice_count == 0)
        forget_sources(f);
    free(g.slices);
    return st;
}
