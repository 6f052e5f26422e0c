/* Strings and pairs of tokens to numbers, with a bound on probes that a hostile vocabulary cannot
 * exceed. */
#include "engine/tokenizer/hash.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"

enum { MAX_PROBES = 256, MAX_TRIES = 8, AHEAD = 16 };

static uint64_t mix_hash(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

uint64_t hke_hash_bytes(uint64_t seed, const uint8_t *p, size_t n)
{
    uint64_t h = mix_hash(seed ^ n);
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        p += 8;
        n -= 8;
    }
    uint64_t last = 0;
    memcpy(&last, p, n);
    return mix_hash(h ^ last);
}

/* A power of two at least one and a half times N, doubled with every second failed try. */
static uint32_t choose_table_size(uint32_t n, unsigned tries)
{
    uint64_t size = 16, want = (uint64_t)n + n / 2;
    while (size < want)
        size *= 2;
    size <<= tries / 2;
    return size > UINT32_MAX / 2 ? 0 : (uint32_t)size;
}

static bool is_same_string(struct hk_bytes a, const uint8_t *p, size_t n)
{
    return a.n == n && (n == 0 || memcmp(a.p, p, n) == 0);
}

static bool insert_string(struct tok_table *x, const struct tok_strings *s, uint32_t id)
{
    struct hk_bytes b = tok_string(s, id);
    uint32_t h = (uint32_t)hke_hash_bytes(x->seed, b.p, b.n);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        struct tok_slot *slot = &x->slot[(h + i) & x->mask];
        if (slot->id == TOK_NONE) {
            *slot = (struct tok_slot){h, id};
            x->probes = i + 1 > x->probes ? i + 1 : x->probes;
            return true;
        }
        if (slot->hash == h && is_same_string(tok_string(s, slot->id), b.p, b.n))
            return true;
    }
    return false;
}

static bool fill_string_table(struct tok_table *x, const struct tok_strings *s, const bool *keep)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->n - i > AHEAD) {
            struct hk_bytes later = tok_string(s, i + AHEAD);
            hke_prefetch_string(x, later.p, later.n);
        }
        if ((keep == NULL || keep[i]) && !insert_string(x, s, i))
            return false;
    }
    return true;
}

enum hk_status hke_index_strings(struct tok_table *x, const struct tok_strings *s, const bool *keep,
                                 struct hk_error *err)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n; i++)
        kept += keep == NULL || keep[i];
    for (unsigned tries = 0; tries < MAX_TRIES; tries++) {
        uint32_t size = choose_table_size(kept, tries);
        struct tok_slot *slot = size > 0 ? malloc(size * sizeof *slot) : NULL;
        if (slot == NULL)
            return hk_fail_nomem(err);
        for (uint32_t i = 0; i < size; i++)
            slot[i].id = TOK_NONE;
        *x = (struct tok_table){.slot = slot, .mask = size - 1, .seed = mix_hash(tries + 1)};
        if (fill_string_table(x, s, keep))
            return HK_OK;
        hke_free_string_index(x);
    }
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "%s: strings made to collide cannot be indexed", hk_vocab_key(HK_VOCAB_TOKENS));
}

uint32_t hke_find_string(const struct tok_table *x, const struct tok_strings *s, const uint8_t *p,
                         size_t n)
{
    uint32_t h = (uint32_t)hke_hash_bytes(x->seed, p, n);
    for (uint32_t i = 0; i < x->probes; i++) {
        const struct tok_slot *slot = &x->slot[(h + i) & x->mask];
        if (slot->id == TOK_NONE)
            return TOK_NONE;
        if (slot->hash == h && is_same_string(tok_string(s, slot->id), p, n))
            return slot->id;
    }
    return TOK_NONE;
}

void hke_prefetch_string(const struct tok_table *x, const uint8_t *p, size_t n)
{
    __builtin_prefetch(&x->slot[(uint32_t)hke_hash_bytes(x->seed, p, n) & x->mask]);
}

void hke_free_string_index(struct tok_table *x)
{
    free(x->slot);
    *x = (struct tok_table){0};
}

static uint32_t hash_pair(uint64_t seed, uint32_t left, uint32_t right)
{
    return (uint32_t)mix_hash(seed ^ ((uint64_t)left << 32 | right));
}

static bool insert_merge(struct tok_merges *x, const struct tok_merge *m)
{
    uint32_t h = hash_pair(x->seed, m->left, m->right);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        struct tok_merge *slot = &x->slot[(h + i) & x->mask];
        if (slot->rank == TOK_NONE) {
            *slot = *m;
            x->probes = i + 1 > x->probes ? i + 1 : x->probes;
            return true;
        }
        if (slot->left == m->left && slot->right == m->right)
            return true;
    }
    return false;
}

static bool fill_merge_table(struct tok_merges *x, const struct tok_merge *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct tok_merge *later = n - i > AHEAD ? &m[i + AHEAD] : m;
        __builtin_prefetch(&x->slot[hash_pair(x->seed, later->left, later->right) & x->mask]);
        if (!insert_merge(x, &m[i]))
            return false;
    }
    return true;
}

enum hk_status hke_index_merges(struct tok_merges *x, const struct tok_merge *m, uint32_t n,
                                struct hk_error *err)
{
    for (unsigned tries = 0; tries < MAX_TRIES; tries++) {
        uint32_t size = choose_table_size(n, tries);
        struct tok_merge *slot = size > 0 ? malloc(size * sizeof *slot) : NULL;
        if (slot == NULL)
            return hk_fail_nomem(err);
        for (uint32_t i = 0; i < size; i++)
            slot[i].rank = TOK_NONE;
        *x = (struct tok_merges){.slot = slot, .mask = size - 1, .seed = mix_hash(tries + 1)};
        if (fill_merge_table(x, m, n))
            return HK_OK;
        free(slot);
        *x = (struct tok_merges){0};
    }
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "%s: pairs made to collide cannot be indexed", hk_vocab_key(HK_VOCAB_MERGES));
}

const struct tok_merge *hke_find_merge(const struct tok_merges *x, uint32_t left, uint32_t right)
{
    uint32_t h = hash_pair(x->seed, left, right);
    for (uint32_t i = 0; i < x->probes; i++) {
        const struct tok_merge *slot = &x->slot[(h + i) & x->mask];
        if (slot->rank == TOK_NONE)
            return NULL;
        if (slot->left == left && slot->right == right)
            return slot;
    }
    return NULL;
}
