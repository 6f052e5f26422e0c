/* Low-rank adapters: what the parts of their reader share. */
#ifndef HK_ADAPTER_H
#define HK_ADAPTER_H

#include <jansson.h>

#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hkmodel.h"

/* ---- payloads (adapter/record.c) ---- */

/* The payload of record I as an open safetensors file. It borrows F's mapping, or where it is
 * compressed has a copy of its own. */
enum hk_status hk_record_open(struct hk_file **out, const struct hk_file *f, size_t i,
                              struct hk_error *err);
/* The same of a lora_adapter record, which may also be a GGUF adapter. */
enum hk_status hk_adapter_record_open(struct hk_file **out, const struct hk_file *f, size_t i,
                                      struct hk_error *err);
/* PAYLOAD in PEFT's form: *OUT is a new file where PAYLOAD is a GGUF adapter, else NULL. */
enum hk_status hk_adapter_in_peft_form(struct hk_file **out, struct hk_file *payload,
                                       const struct hk_file *base, struct hk_error *err);

/* ---- the base (adapter/base.c) ---- */

struct hk_adapter_base { /* the model that adapters change */
    const struct hk_file *file;
    struct hk_model_params model; /* layers and heads at least */
    bool tied;                    /* the embedding is the output matrix too */
};

/* HK_E_UNSUPPORTED: its architecture is not known; HK_E_MISSING: a key that is needed is absent. */
enum hk_status hk_adapter_base_read(const struct hk_file *f, struct hk_adapter_base *out,
                                    struct hk_error *err);
/* The tensor that PEFT calls NAME ("lm_head.weight"), and which use of it that is. */
enum hk_status hk_adapter_base_find(const struct hk_adapter_base *b, const char *name,
                                    const struct hk_tensor **out, enum hk_weight_use *use,
                                    struct hk_error *err);

/* ---- adapter_config.json (adapter/config.c) ---- */

struct hk_adapter_pattern; /* a key of rank_pattern or alpha_pattern, compiled */

struct hk_adapter_patterns {
    struct hk_adapter_pattern *list;
    size_t count;
    json_t *object; /* whose keys and values they are */
};

/* Compile the keys of OBJECT (NULL: none). HK_E_UNSUPPORTED: one that is too long or complex, or
 * too many. */
enum hk_status hk_adapter_patterns_compile(struct hk_adapter_patterns *p, json_t *object,
                                           struct hk_error *err);
void hk_adapter_patterns_free(struct hk_adapter_patterns *p);
/* The value of the first key that matches module NAME as PEFT matches it, else NULL. */
json_t *hk_adapter_patterns_find(const struct hk_adapter_patterns *p, const char *name);

struct hk_adapter_config {
    json_t *json; /* adapter_config.json */
    double alpha;
    int64_t rank;
    bool rank_stabilised, dora;
    bool ties;          /* ensure_weight_tying */
    bool trains_biases; /* bias is "all" or "lora_only" */
    struct hk_adapter_patterns ranks, alphas;
};

/* From metadata "adapter_config" of PAYLOAD. */
enum hk_status hk_adapter_config_read(struct hk_adapter_config *c, const struct hk_file *payload,
                                      struct hk_error *err);
/* From JSON, which it takes over. */
enum hk_status hk_adapter_config_of(struct hk_adapter_config *c, json_t *json,
                                    struct hk_error *err);
void hk_adapter_config_free(struct hk_adapter_config *c);
/* Rank and scale of module NAME ("model.layers.0.self_attn.q_proj"): of the first of rank_pattern's
 * and alpha_pattern's keys that matches, else the common ones. */
enum hk_status hk_adapter_module(const struct hk_adapter_config *c, const char *name,
                                 uint32_t *rank, double *scale, struct hk_error *err);
/* The ids in trainable_token_indices for MODULE ("model.embed_tokens"), NULL if it names none. */
const json_t *hk_adapter_token_ids(const struct hk_adapter_config *c, const char *module);

/* ---- names (adapter/names.c) ---- */

enum hk_adapter_part {
    HK_ADAPTER_A,
    HK_ADAPTER_B,
    HK_ADAPTER_EMBEDDING_A,
    HK_ADAPTER_EMBEDDING_B,
    HK_ADAPTER_MAGNITUDE,
    HK_ADAPTER_TOKENS, /* rows of an embedding, trained */
    HK_ADAPTER_COPY,   /* of the base's tensor, not trained */
    HK_ADAPTER_WHOLE,
};

/* Take "base_model.model.MODULE.lora_A.weight" and its like apart; MODULE has 256 bytes. For a copy
 * and a tensor that was trained whole MODULE is the base's name of it, ".weight" and all. False: it
 * is named otherwise. */
bool hk_adapter_name(struct hk_bytes name, char *module, enum hk_adapter_part *part);
/* The same of T in an adapter with settings C: a copy of a bias was trained where they say so.
 * HK_E_UNSUPPORTED: it is named otherwise. */
enum hk_status hk_adapter_part_of(const struct hk_adapter_config *c, const struct hk_tensor *t,
                                  char *module, enum hk_adapter_part *part, struct hk_error *err);
/* Name I of the tensors that are PART of MODULE, to OUT (512 bytes). False: there are no more. */
bool hk_adapter_part_name(const char *module, enum hk_adapter_part part, size_t i, char *out);

/* ---- reading (adapter/adapter.c, adapter/tensors.c) ---- */

struct hk_adapter {
    struct hk_low_rank *pairs;
    size_t pair_count;
    struct hk_replacement *whole;
    size_t whole_count;
    struct hk_arena arena; /* values */
};

struct hk_adapter_reading {
    struct hk_adapter *a;
    const struct hk_file *payload;
    struct hk_adapter_config config;
    struct hk_adapter_base base;
    unsigned *marks; /* one a tensor of the base: what changes it */
};

/* Fails and says what is wrong with T. */
enum hk_status hk_adapter_misfit(const struct hk_tensor *t, const char *why, struct hk_error *err);
/* All values of T, into the adapter's arena. */
enum hk_status hk_adapter_decode(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                 float **out, struct hk_error *err);
/* The same of T whose rows are those of BASE, in BASE's order. */
enum hk_status hk_adapter_decode_rows(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                      const struct hk_tensor *base, float **out,
                                      struct hk_error *err);
/* T whose columns are the rows of a pair: ROWS x COLS values of it, transposed. */
enum hk_status hk_adapter_decode_transposed(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                            float **out, struct hk_error *err);
/* T, which the adapter has of the base's tensor NAME without having trained it, is the base's: bit
 * for bit once both have the narrower of their two types, or, where the base is quantised, as near
 * as its bits a weight allow. HK_E_FORMAT: it is not. */
enum hk_status hk_adapter_check_copy(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                     const char *name, struct hk_error *err);

#endif
