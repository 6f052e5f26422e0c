/* Low-rank adapters: what the parts of their reader share. */
#ifndef HK_ADAPTER_H
#define HK_ADAPTER_H

#include <jansson.h>

#include "libhkfmt/foreign/hf.h"

/* The payload of record I as an open safetensors file. It borrows F's mapping, or where it is
 * compressed has a copy of its own. */
enum hk_status hk_record_open(struct hk_file **out, const struct hk_file *f, size_t i,
                              struct hk_error *err);

/* ---- the base (adapter_base.c) ---- */

struct hk_adapter_base { /* from the keys of the model */
    const struct hk_hf_family *family;
    uint32_t layers, heads, kv_heads;
};

/* HK_E_UNSUPPORTED: its architecture is not known; HK_E_RANGE: a key is missing. */
enum hk_status hk_adapter_base_read(const struct hk_file *f, struct hk_adapter_base *out,
                                    struct hk_error *err);

/* ---- settings (adapter_config.c) ---- */

struct hk_adapter_config {
    json_t *json; /* adapter_config.json */
    double alpha;
    int64_t rank;
    bool rank_stabilised, dora;
};

/* From metadata "adapter_config" of PAYLOAD. HK_E_UNSUPPORTED names a setting that changes the
 * arithmetic in a way that is not known here. */
enum hk_status hk_adapter_config_read(struct hk_adapter_config *c, const struct hk_file *payload,
                                      struct hk_error *err);
void hk_adapter_config_free(struct hk_adapter_config *c);
/* Rank and scale of module NAME ("model.layers.0.self_attn.q_proj"): of the first of rank_pattern's
 * and alpha_pattern's keys that matches, as PEFT matches them, else the common ones. */
enum hk_status hk_adapter_module(const struct hk_adapter_config *c, const char *name,
                                 uint32_t *rank, double *scale, struct hk_error *err);

/* ---- names (adapter_names.c) ---- */

enum hk_adapter_part { HK_ADAPTER_A, HK_ADAPTER_B, HK_ADAPTER_MAGNITUDE, HK_ADAPTER_WHOLE };

/* Take "base_model.model.MODULE.lora_A.weight" and its like apart; MODULE has 256 bytes. For a
 * tensor that was trained whole MODULE is its own name, ".weight" and all. False: it is named
 * otherwise. */
bool hk_adapter_name(struct hk_bytes name, char *module, enum hk_adapter_part *part);

#endif
