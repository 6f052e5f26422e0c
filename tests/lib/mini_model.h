/* mini_model.h: a model of a few hundred weights in a memory file, every family, with one thing
 * changed: for tests of what a model has to be. */
#ifndef MINI_MODEL_H
#define MINI_MODEL_H

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/tap.h"

enum mini_how {
    MINI_AS_IS,
    MINI_DROP,   /* the key or tensor is left out */
    MINI_NUMBER, /* the key is this integer */
    MINI_REAL,   /* the key is this number, as f64 */
    MINI_TEXT,   /* the key is this string */
    MINI_TOKENS, /* the vocabulary has this many tokens */
    MINI_YES_NO, /* the key is this bool */
    MINI_ADD,    /* a vector of 8 more */
    MINI_ROWS,   /* the tensor has this many rows */
    MINI_COLS,   /* the tensor has this many columns */
    MINI_OPAQUE, /* the tensor has a type without a layout */
    MINI_NAN,    /* its first element is NaN */
    MINI_ZERO,   /* null_ref: all of it reads as zero */
    MINI_VAST,   /* null_ref of this many rows */
    MINI_SHARED, /* shared_ref to the embedding */
    MINI_MATRIX, /* the vector has two dimensions */
};

struct mini_change {
    enum mini_how how;
    const char *name; /* of a key, or of a tensor */
    double number;
    const char *text;
};

/* Two queries share a head of keys and values; a head's size is not the width over the heads. */
enum {
    MINI_WIDTH = 8,
    MINI_HEADS = 2,
    MINI_HEAD = 6,
    MINI_FFN = 12,
    MINI_EXPERTS = 5,
    MINI_EXPERT_FFN = 4,
    MINI_SHARED_FFN = 14,
    MINI_VOCAB = 16,
    MINI_LAYERS = 2,
    MINI_CONTEXT = 600,
    MINI_WINDOW = 40, /* of the architectures that have one */
};

struct mini {
    struct hk_writer *w;
    const char *arch;
    const struct mini_change *change;
    size_t tensors, sizes[64]; /* payload floats of each tensor */
    bool nan[64];
};

static inline void mini_must(enum hk_status st, const struct hk_error *err)
{
    if (st == HK_OK)
        return;
    printf("Bail out! mini model: %s\n", err->text);
    exit(2);
}

static inline struct hk_bytes mini_text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static inline bool mini_changed(const struct mini *m, const char *name, enum mini_how how)
{
    return m->change->how == how && strcmp(m->change->name, name) == 0;
}

static inline void mini_real(struct mini *m, const char *key, double v)
{
    struct hk_error err;
    uint8_t b[8];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (size_t i = 0; i < 8; i++)
        b[i] = (uint8_t)(bits >> (8 * i));
    mini_must(hk_writer_set(m->w, mini_text(key), HK_META_FLOAT64, (struct hk_bytes){b, 8}, &err),
              &err);
}

/* N empty strings, as an array blob. */
static inline void mini_tokens(struct mini *m, size_t n)
{
    uint8_t blob[8 + 4 * 64] = {1, 0, 0, 0, (uint8_t)n};
    struct hk_error err;
    mini_must(hk_writer_set(m->w, mini_text("tokenizer.ggml.tokens"), HK_META_BYTES,
                            (struct hk_bytes){blob, 8 + 4 * (n + 1)}, &err),
              &err);
}

/* The changed key, if the change is one of keys. */
static inline void mini_apply_key(struct mini *m)
{
    const struct mini_change *c = m->change;
    struct hk_error err;
    uint8_t flag = c->number != 0;
    if (c->how == MINI_NUMBER)
        mini_must(hk_writer_set_int(m->w, c->name, (int64_t)c->number, &err), &err);
    else if (c->how == MINI_TOKENS)
        mini_tokens(m, (size_t)c->number);
    else if (c->how == MINI_REAL)
        mini_real(m, c->name, c->number);
    else if (c->how == MINI_TEXT)
        mini_must(hk_writer_set_string(m->w, c->name, c->text, &err), &err);
    else if (c->how == MINI_YES_NO)
        mini_must(hk_writer_set(m->w, mini_text(c->name), HK_META_BOOL, (struct hk_bytes){&flag, 1},
                                &err),
                  &err);
}

/* What some architectures have beside the keys that all have. */
static inline void mini_family_keys(struct mini *m)
{
    static const struct {
        const char *arch, *name;
        double value;
        bool whole;
    } keys[] = {
        {"gemma2", "attention.sliding_window", MINI_WINDOW, true},
        {"gemma3", "attention.sliding_window", MINI_WINDOW, true},
        {"gemma3", "attention.sliding_window_pattern", 2, true},
        {"mistral3", "attention.temperature_scale", 0.5, false},
        {"mistral3", "rope.scaling.original_context_length", 64, true},
        {"gemma2", "attn_logit_softcapping", 5, false},
        {"gemma2", "final_logit_softcapping", 30, false},
        {"qwen2moe", "expert_count", MINI_EXPERTS, true},
        {"qwen2moe", "expert_used_count", 3, true},
        {"qwen2moe", "expert_feed_forward_length", MINI_EXPERT_FFN, true},
        {"qwen2moe", "expert_shared_feed_forward_length", MINI_SHARED_FFN, true},
        {"granitemoe", "expert_count", MINI_EXPERTS, true},
        {"granitemoe", "expert_used_count", 2, true},
        {"granitemoe", "expert_feed_forward_length", MINI_EXPERT_FFN, true},
        {"granitemoe", "attention.scale", 0.25, false},
        {"granitemoe", "residual_scale", 0.5, false},
        {"glm4moe", "expert_count", MINI_EXPERTS, true},
        {"glm4moe", "expert_used_count", 2, true},
        {"glm4moe", "expert_feed_forward_length", MINI_EXPERT_FFN, true},
        {"glm4moe", "expert_shared_feed_forward_length", MINI_SHARED_FFN, true},
        {"glm4moe", "expert_weights_scale", 1.5, false},
        {"gpt-oss", "attention.sliding_window", MINI_WINDOW, true},
        {"gpt-oss", "expert_count", MINI_EXPERTS, true},
        {"gpt-oss", "expert_used_count", 2, true},
        {"gpt-oss", "expert_feed_forward_length", MINI_EXPERT_FFN, true},
        {"qwen3moe", "expert_count", MINI_EXPERTS, true},
        {"qwen3moe", "expert_used_count", 2, true},
        {"qwen3moe", "expert_feed_forward_length", MINI_EXPERT_FFN, true},
        {"granite", "attention.scale", 0.25, false},
        {"granite", "embedding_scale", 3, false},
        {"granite", "residual_scale", 0.5, false},
        {"granite", "logit_scale", 4, false},
    };
    struct hk_error err;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.%s", m->arch, keys[i].name);
        if (strcmp(m->arch, keys[i].arch) != 0 || mini_changed(m, name, MINI_DROP))
            continue;
        if (keys[i].whole)
            mini_must(hk_writer_set_int(m->w, name, (int64_t)keys[i].value, &err), &err);
        else
            mini_real(m, name, keys[i].value);
    }
}

static inline void mini_keys(struct mini *m)
{
    static const struct {
        const char *name;
        int64_t value;
    } keys[] = {
        {"block_count", MINI_LAYERS},          {"embedding_length", MINI_WIDTH},
        {"feed_forward_length", MINI_FFN},     {"attention.head_count", MINI_HEADS},
        {"attention.head_count_kv", 1},        {"attention.key_length", MINI_HEAD},
        {"attention.value_length", MINI_HEAD}, {"context_length", MINI_CONTEXT},
        {"rope.dimension_count", 4},
    };
    struct hk_error err;
    if (!mini_changed(m, "general.architecture", MINI_DROP))
        mini_must(hk_writer_set_string(m->w, "general.architecture", m->arch, &err), &err);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.%s", m->arch, keys[i].name);
        if (!mini_changed(m, name, MINI_DROP))
            mini_must(hk_writer_set_int(m->w, name, keys[i].value, &err), &err);
    }
    mini_family_keys(m);
    mini_apply_key(m);
}

/* Whether LIST, names with blanks between them, has the architecture. */
static inline bool mini_is_one_of(const struct mini *m, const char *list)
{
    const size_t n = strlen(m->arch);
    for (const char *at = list; (at = strstr(at, m->arch)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* [STACK][ROWS][COLS]; without [STACK] where that is 0, [COLS] with ROWS 0. */
static inline void mini_stack(struct mini *m, const char *name, uint64_t stack, uint64_t rows,
                              uint64_t cols)
{
    if (mini_changed(m, name, MINI_DROP))
        return;
    if (mini_changed(m, name, MINI_ROWS) || mini_changed(m, name, MINI_VAST))
        rows = (uint64_t)m->change->number;
    if (mini_changed(m, name, MINI_COLS))
        cols = (uint64_t)m->change->number;
    if (mini_changed(m, name, MINI_MATRIX))
        rows = 1;
    struct hk_tensor t = {.name = mini_text(name), .type = HK_TYPE_F32, .ndim = rows > 0 ? 2 : 1};
    const uint64_t shape[] = {stack, rows, cols};
    t.ndim = (uint8_t)(t.ndim + (stack > 0));
    memcpy(t.shape, shape + 3 - t.ndim, t.ndim * sizeof *shape);
    size_t floats = (size_t)((stack > 0 ? stack : 1) * (rows > 0 ? rows : 1) * cols);
    if (mini_changed(m, name, MINI_OPAQUE))
        t.type = HK_TYPE_DQ6;
    if (mini_changed(m, name, MINI_ZERO) || mini_changed(m, name, MINI_VAST))
        t.type = HK_TYPE_NULL_REF;
    if (mini_changed(m, name, MINI_SHARED))
        t.type = HK_TYPE_SHARED_REF;
    if (t.type == HK_TYPE_NULL_REF || t.type == HK_TYPE_SHARED_REF)
        floats = 0;
    t.data_size = floats * sizeof(float);
    struct hk_error err;
    mini_must(hk_writer_add(m->w, &t, 0, &err), &err);
    m->nan[m->tensors] = mini_changed(m, name, MINI_NAN);
    m->sizes[m->tensors++] = floats;
}

static inline void mini_tensor(struct mini *m, const char *name, uint64_t rows, uint64_t cols)
{
    mini_stack(m, name, 0, rows, cols);
}

static inline void mini_experts(struct mini *m, unsigned layer)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } stacks[] = {
        {"ffn_gate_exps.weight", MINI_EXPERT_FFN, MINI_WIDTH},
        {"ffn_up_exps.weight", MINI_EXPERT_FFN, MINI_WIDTH},
        {"ffn_down_exps.weight", MINI_WIDTH, MINI_EXPERT_FFN},
    };
    for (size_t i = 0;
         i < 3 && mini_is_one_of(m, "qwen2moe qwen3moe gpt-oss glm4moe granitemoe granitemoe");
         i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", layer, stacks[i].name);
        mini_stack(m, name, MINI_EXPERTS, stacks[i].rows, stacks[i].cols);
    }
}

static inline void mini_layer(struct mini *m, unsigned layer)
{
    static const struct {
        const char *name;
        const char *only, *but; /* in these architectures; NULL: in all, in none */
        uint64_t rows, cols;
    } parts[] = {
        {"attn_norm.weight", NULL, "olmo2", 0, MINI_WIDTH},
        {"attn_norm.bias", "starcoder2 nemotron", NULL, 0, MINI_WIDTH},
        {"attn_q.weight", NULL, "phi3", MINI_HEADS * MINI_HEAD, MINI_WIDTH},
        {"attn_k.weight", NULL, "phi3", MINI_HEAD, MINI_WIDTH},
        {"attn_v.weight", NULL, "phi3", MINI_HEAD, MINI_WIDTH},
        {"attn_q.bias", "qwen2 qwen2moe starcoder2 gpt-oss glm4 seed_oss", NULL, 0,
         MINI_HEADS * MINI_HEAD},
        {"attn_k.bias", "qwen2 qwen2moe starcoder2 gpt-oss glm4 seed_oss", NULL, 0, MINI_HEAD},
        {"attn_v.bias", "qwen2 qwen2moe starcoder2 gpt-oss glm4 seed_oss", NULL, 0, MINI_HEAD},
        {"attn_q_norm.weight", "qwen3 qwen3moe gemma3", NULL, 0, MINI_HEAD},
        {"attn_k_norm.weight", "qwen3 qwen3moe gemma3", NULL, 0, MINI_HEAD},
        {"attn_q_norm.weight", "olmo2", NULL, 0, MINI_HEADS * MINI_HEAD},
        {"attn_k_norm.weight", "olmo2", NULL, 0, MINI_HEAD},
        {"attn_output.weight", NULL, NULL, MINI_WIDTH, MINI_HEADS * MINI_HEAD},
        {"exp_probs_b.bias", "glm4moe", NULL, 0, MINI_EXPERTS},
        {"attn_sinks.weight", "gpt-oss", NULL, 0, MINI_HEADS},
        {"ffn_gate_inp.bias", "gpt-oss", NULL, 0, MINI_EXPERTS},
        {"ffn_gate_exps.bias", "gpt-oss", NULL, MINI_EXPERTS, MINI_EXPERT_FFN},
        {"ffn_up_exps.bias", "gpt-oss", NULL, MINI_EXPERTS, MINI_EXPERT_FFN},
        {"ffn_down_exps.bias", "gpt-oss", NULL, MINI_EXPERTS, MINI_WIDTH},
        {"attn_output.bias", "starcoder2 gpt-oss", NULL, 0, MINI_WIDTH},
        {"post_attention_norm.weight", "gemma2 gemma3 olmo2 gpt-oss glm4 glm4moe seed_oss", NULL, 0,
         MINI_WIDTH},
        {"ffn_norm.weight", NULL, "olmo2 gpt-oss glm4moe seed_oss", 0, MINI_WIDTH},
        {"ffn_norm.bias", "starcoder2 nemotron", NULL, 0, MINI_WIDTH},
        {"ffn_gate.weight", NULL,
         "starcoder2 qwen2moe qwen3moe gpt-oss glm4moe granitemoe arcee nemotron glm4 phi3",
         MINI_FFN, MINI_WIDTH},
        {"ffn_up.weight", NULL, "qwen2moe qwen3moe gpt-oss glm4moe granitemoe glm4 phi3", MINI_FFN,
         MINI_WIDTH},
        {"ffn_up.bias", "starcoder2", NULL, 0, MINI_FFN},
        {"ffn_up.weight", "glm4 phi3", NULL, 2 * MINI_FFN, MINI_WIDTH},
        {"attn_qkv.weight", "phi3", NULL, (MINI_HEADS + 2) * MINI_HEAD, MINI_WIDTH},
        {"ffn_down.weight", NULL, "qwen2moe qwen3moe gpt-oss glm4moe granitemoe granitemoe",
         MINI_WIDTH, MINI_FFN},
        {"ffn_down.bias", "starcoder2", NULL, 0, MINI_WIDTH},
        {"post_ffw_norm.weight", "gemma2 gemma3 olmo2 glm4", NULL, 0, MINI_WIDTH},
        {"ffn_gate_inp.weight", "qwen2moe qwen3moe gpt-oss glm4moe granitemoe granitemoe", NULL,
         MINI_EXPERTS, MINI_WIDTH},
        {"ffn_gate_inp_shexp.weight", "qwen2moe", NULL, 1, MINI_WIDTH},
        {"ffn_gate_shexp.weight", "qwen2moe glm4moe", NULL, MINI_SHARED_FFN, MINI_WIDTH},
        {"ffn_up_shexp.weight", "qwen2moe glm4moe", NULL, MINI_SHARED_FFN, MINI_WIDTH},
        {"ffn_down_shexp.weight", "qwen2moe glm4moe", NULL, MINI_WIDTH, MINI_SHARED_FFN},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if ((parts[i].only == NULL || mini_is_one_of(m, parts[i].only)) &&
            (parts[i].but == NULL || !mini_is_one_of(m, parts[i].but)))
            mini_tensor(m, name, parts[i].rows, parts[i].cols);
    }
    mini_experts(m, layer);
}

static inline void mini_payloads(struct mini *m)
{
    uint32_t state = 1;
    struct hk_error err;
    for (size_t i = 0; i < m->tensors; i++)
        for (size_t k = 0; k < m->sizes[i]; k++) {
            state = state * 1664525u + 1013904223u;
            float f = (float)(state >> 8) / 8388608.0f - 1.0f;
            if (k == 0 && m->nan[i])
                f = NAN;
            uint32_t bits;
            memcpy(&bits, &f, sizeof bits);
            const uint8_t b[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                                  (uint8_t)(bits >> 24)};
            mini_must(hk_writer_put(m->w, b, sizeof b, &err), &err);
        }
}

/* A memory file of a model of ARCH with CHANGE. The embedding's first row is that of token 0; an
 * output matrix is there only as the change makes it. */
static inline int mini_file(const char *arch, struct mini_change change)
{
    struct mini m = {.arch = arch, .change = &change};
    struct hk_error err;
    struct hk_out *out;
    int fd = memfd_create("mini", MFD_CLOEXEC);
    mini_must(hk_writer_new(&m.w, NULL, &err), &err);
    mini_keys(&m);
    mini_tensor(&m, "token_embd.weight", MINI_VOCAB, MINI_WIDTH);
    for (unsigned i = 0; i < MINI_LAYERS; i++)
        mini_layer(&m, i);
    mini_tensor(&m, "output_norm.weight", 0, MINI_WIDTH);
    if (mini_is_one_of(&m, "starcoder2 nemotron"))
        mini_tensor(&m, "output_norm.bias", 0, MINI_WIDTH);
    if (change.name != NULL && strcmp(change.name, "output.weight") == 0)
        mini_tensor(&m, "output.weight", MINI_VOCAB, MINI_WIDTH);
    if (change.how == MINI_ADD)
        mini_tensor(&m, change.name, 0, change.number > 0 ? (uint64_t)change.number : MINI_WIDTH);
    mini_must(hk_out_fd(&out, fd, &err), &err);
    mini_must(hk_writer_begin(m.w, out, &err), &err);
    mini_payloads(&m);
    mini_must(hk_writer_finish(m.w, &err), &err);
    mini_must(hk_out_commit(&out, &err), &err);
    hk_writer_free(&m.w);
    return fd;
}

static inline struct hk_file *mini_model(const char *arch, struct mini_change change)
{
    struct hk_error err;
    struct hk_file *f;
    int fd = mini_file(arch, change);
    mini_must(hk_open_fd(&f, fd, &err), &err);
    close(fd);
    return f;
}

#endif
