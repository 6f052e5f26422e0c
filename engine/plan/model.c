/* A model: refused or complete. */
#include "engine/plan/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static enum hk_status check_types(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        const struct hk_type_info *type = hk_type_info(t->type);
        if (type == NULL || type->kind == HK_CLASS_OPAQUE)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: type %s is not supported", HK_STR(t->name),
                           type == NULL ? "unknown" : type->name);
    }
    return HK_OK;
}

/* A GGUF names the rows behind its vocabulary "[PAD12]", by their numbers: no text has them, and
 * they are never to be drawn. */
static uint32_t count_named_tokens(const struct hk_array *tokens)
{
    uint32_t n = tokens->count;
    while (n > 1 && hk_vocab_is_padding(hk_array_string(tokens, n - 1), n - 1))
        n--;
    return n;
}

static enum hk_status count_tokens(struct hke_model *m, const struct hk_file *f,
                                   const struct hk_tensor *embedding, struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TOKENS);
    struct hk_array tokens;
    m->tokens = m->params.vocab;
    if (kv == NULL)
        return HK_OK;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &tokens, err);
    if (st != HK_OK)
        return st;
    m->tokens = count_named_tokens(&tokens);
    hk_array_free(&tokens);
    if (m->tokens > 0 && m->tokens <= m->params.vocab)
        return HK_OK;
    return hk_fail(err, HK_E_FORMAT, embedding->entry_offset,
                   "the vocabulary has %u tokens, the embedding %u rows", m->tokens,
                   m->params.vocab);
}

/* The embedding, or NULL. */
static const struct hk_tensor *find_embedding_tensor(const struct hk_file *f,
                                                     const struct hk_model_params *p)
{
    struct hk_model_tensor t;
    size_t at = 0;
    while (hk_model_tensor_next(p, &at, &t))
        if (t.role == HK_ROLE_EMBEDDING)
            return hk_tensor_find(f, t.name);
    return NULL;
}

/* The rows of the embedding decide how many logits there are; its tokens must all have one. */
static enum hk_status count_vocab(struct hke_model *m, const struct hk_file *f,
                                  struct hk_error *err)
{
    const struct hk_tensor *t = find_embedding_tensor(f, &m->params);
    if (t == NULL)
        return HK_OK; /* hke_plan_new() says so */
    if (t->ndim != 2 || t->shape[0] == 0 || t->shape[0] > INT32_MAX)
        return hk_fail(err, HK_E_FORMAT, t->entry_offset,
                       "tensor %.*s has %u dimensions and %" PRIu64 " rows", HK_STR(t->name),
                       t->ndim, t->shape[0]);
    m->params.vocab = (uint32_t)t->shape[0];
    return count_tokens(m, f, t, err);
}

/* In this order, so that what is not run is never reported as broken: parameters, types; then
 * contents. */
static enum hk_status load_model(struct hke_model *m, const struct hk_file *f, struct hk_error *err)
{
    enum hk_status st = hk_model_params_read(&m->params, f, err);
    if (st == HK_OK)
        st = check_types(f, err);
    if (st == HK_OK)
        st = count_vocab(m, f, err);
    if (st == HK_OK)
        st = hke_plan_new(&m->plan, f, &m->params, err);
    return st;
}

enum hk_status hke_model_new(struct hke_model **out, const struct hk_file *f, struct hk_error *err)
{
    struct hke_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = load_model(m, f, err);
    if (st != HK_OK)
        hke_model_free(&m);
    else
        *out = m;
    return st;
}

void hke_model_free(struct hke_model **m)
{
    if (*m == NULL)
        return;
    hke_plan_free(&(*m)->plan);
    free(*m);
    *m = NULL;
}

const struct hk_model_params *hke_model_params(const struct hke_model *m)
{
    return &m->params;
}

uint32_t hke_model_tokens(const struct hke_model *m)
{
    return m->tokens;
}

uint64_t hke_model_kv_bytes(const struct hke_model *m, size_t positions)
{
    const size_t blocks = hke_blocks_for(positions);
    uint64_t halves = 0;
    for (size_t i = 0; i < m->plan->caches; i++) {
        const struct hke_cache_class *c = &m->plan->cache[i];
        const size_t window = c->window > 0 ? hke_window_blocks(c, HKE_DEFAULT_BATCH) : blocks;
        halves += hke_min_size(blocks, window) * HKE_BLOCK * (uint64_t)c->layers * c->kv_heads *
                  (c->key_dim + c->value_dim);
    }
    return halves * 2;
}

/* ---- weights that stay in memory ---- */

static enum hk_status fail_to_lock(uint64_t size, int sys, struct hk_error *err)
{
    struct rlimit limit;
    if (sys == EAGAIN || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return hk_fail_sys(err, sys, "cannot lock the weights in memory");
    return hk_fail_sys(err, sys,
                       "cannot lock the weights in memory, %llu KiB: the limit RLIMIT_MEMLOCK is "
                       "%llu KiB (ulimit -l)",
                       (unsigned long long)(size >> 10), (unsigned long long)limit.rlim_cur >> 10);
}

static int lock_pages(struct hk_bytes b)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)b.p / page * page;
    return b.n > 0 ? mlock((const void *)at, b.n + ((uintptr_t)b.p - at)) : 0;
}

enum hk_status hke_lock_weights(const struct hk_file *f, struct hk_error *err)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (lock_pages(hk_tensor_data(f, t)) != 0 || lock_pages(hk_tensor_scales(f, t)) != 0 ||
            lock_pages(hk_tensor_residual(f, t)) != 0)
            return fail_to_lock(hk_file_size(f), errno, err);
    }
    return HK_OK;
}
