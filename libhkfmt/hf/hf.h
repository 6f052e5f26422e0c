/* Hugging Face model directories: what the parts of their reader and writer share. A family is one
 * row of the table in model/family.c; nothing else names one. */
#ifndef HK_HF_H
#define HK_HF_H

#include <jansson.h>

#include "libhkfmt/base/buf.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/kvlist.h"

/* ---- families (model/family.c) ---- */

enum { /* tensors that layers of a family have, each required there and an error elsewhere */
       HK_HF_QKV_BIAS = 1 << 0,
       HK_HF_QK_NORM = 1 << 1,
};

struct hk_hf_family {
    const char *model_type;   /* of config.json */
    const char *class_name;   /* of "architectures" */
    const char *architecture; /* general.architecture, and prefix of the keys */
    unsigned tensors;
    bool pairs_in_gguf; /* llama.cpp rotates neighbouring rows, so q and k rows are reordered there
                         */
    bool slides;        /* sliding_window counts without use_sliding_window */
    uint32_t head_dim;  /* where config.json has none; 0: hidden_size / num_attention_heads */
};

const struct hk_hf_family *hk_hf_family_of_type(struct hk_bytes model_type); /* NULL if unknown */
/* By general.architecture, the first row with it; NULL if unknown. */
const struct hk_hf_family *hk_hf_family_of_architecture(struct hk_bytes architecture);

/* ---- tensor names (model/names.c): "model.layers.3.self_attn.q_proj.weight" <->
 * "blk.3.attn_q.weight" */

/* What a tensor's dimension is. */
enum hk_hf_dim { HK_HF_ONE, HK_HF_WIDTH, HK_HF_FFN, HK_HF_VOCAB, HK_HF_Q, HK_HF_KV, HK_HF_HEAD };

struct hk_hf_part {        /* a tensor that models have, once or in each layer */
    const char *hf, *gguf; /* names, behind "model.layers.N." and "blk.N." if LAYER */
    unsigned needs;        /* bit of hk_hf_family.tensors; 0: every family has it */
    uint8_t rows, cols;    /* enum hk_hf_dim; rows is HK_HF_ONE for a vector */
    bool layer;
    bool optional;
};
const struct hk_hf_part *hk_hf_part(size_t i); /* NULL past the last */
/* Its whole name in LAYER, as GGUF or transformers have it, to OUT (HK_MAX_NAME + 1 bytes). */
void hk_hf_part_name(const struct hk_hf_part *part, uint32_t layer, bool gguf, char *out);

/* Write the other name of NAME, terminated, to OUT (HK_MAX_NAME + 1 bytes). HK_E_UNSUPPORTED: it is
 * no tensor of FAMILY, whose layers are counted from 0 to LAYERS - 1. */
enum hk_status hk_hf_name_from(const struct hk_hf_family *family, uint32_t layers,
                               struct hk_bytes hf, char *out, struct hk_error *err);
enum hk_status hk_hf_name_to(const struct hk_hf_family *family, uint32_t layers,
                             struct hk_bytes gguf, char *out, struct hk_error *err);
/* Whether the tensor called GGUF (blk.N.attn_q.weight or .bias, attn_k) has rows that rotate. */
bool hk_hf_rotates(struct hk_bytes gguf, bool *key);

/* ---- a directory's files (hf/dir.c) ---- */

/* The bytes of DIR/NAME, in *OUT allocated with malloc() (NULL and OK where there is no such file),
 * one NUL behind them; HK_E_RANGE above MOST bytes. Messages begin with NAME. */
enum hk_status hk_hf_read(const char *dir, const char *name, size_t most, uint8_t **out, size_t *n,
                          struct hk_error *err);
/* The same parsed as JSON, whose top is an object; duplicate keys are refused, NUL in strings is
 * kept. *OUT is NULL where there is no such file. */
enum hk_status hk_hf_json(const char *dir, const char *name, size_t most, json_t **out,
                          struct hk_error *err);

/* The text of NAME's bytes as hk_hf_json() has it. Integers beyond 64 bits become reals. */
enum hk_status hk_hf_parse(const char *name, struct hk_bytes text, json_t **out,
                           struct hk_error *err);
/* DIR/NAME, allocated with malloc(); NULL when out of memory. */
char *hk_hf_path(const char *dir, const char *name);
/* ERR's text begins with NAME; gives back STATUS. */
enum hk_status hk_hf_about(const char *name, enum hk_status status, struct hk_error *err);

/* The weights are what transformers takes by default: the files that model.safetensors.index.json
 * names, else model.safetensors. Others beside them are left alone, unless they have such a name
 * too: then it is open which are meant, and they are refused by name. */
struct hk_hf_weights {
    bool index, whole; /* the two are there */
    char **names;      /* model.safetensors and shards, sorted */
    size_t count;
};
/* HK_E_MISSING, HK_E_UNSUPPORTED, HK_E_FORMAT: no weights, of another format only, ambiguous. */
enum hk_status hk_hf_list(const char *dir, struct hk_hf_weights *out, struct hk_error *err);
void hk_hf_list_free(struct hk_hf_weights *w);
/* Name of the file or index that the weights in DIR are opened by, allocated. */
enum hk_status hk_hf_weights_name(char **out, const char *dir, struct hk_error *err);

/* ---- fields of a JSON object (hf/field.c): null is absent; the first refusal is kept, after which
 * nothing is read ---- */

struct hk_hf_in {
    const char *where; /* begins the field's name in messages: "config.json: " */
    const char *arch;  /* hk_hf_key() */
    struct hk_kvlist *out;
    struct hk_error *err;
    enum hk_status status;
    char key[96];
};

json_t *hk_hf_field(const json_t *object, const char *name); /* NULL if absent */
void hk_hf_need(struct hk_hf_in *in, const json_t *object, const char *name);
/* Refuse NAME and show its value; WHY may be NULL. */
void hk_hf_refuse(struct hk_hf_in *in, enum hk_status status, const char *name, const json_t *value,
                  const char *why);
/* These leave *V as it is where the field is absent. */
void hk_hf_number(struct hk_hf_in *in, const json_t *object, const char *name, double *v);
void hk_hf_positive(struct hk_hf_in *in, const json_t *object, const char *name, double *v);
void hk_hf_count(struct hk_hf_in *in, const json_t *object, const char *name, uint32_t *v);
void hk_hf_flag(struct hk_hf_in *in, const json_t *object, const char *name, bool *v);
void hk_hf_text(struct hk_hf_in *in, const json_t *object, const char *name, struct hk_bytes *v);
/* "llama.SUFFIX", valid until the next call. */
const char *hk_hf_key(struct hk_hf_in *in, const char *suffix);

/* ---- reading ---- */

enum { HK_HF_MAX_CONFIG = 4 << 20 }; /* bytes of config.json and generation_config.json */

struct hk_hf_config { /* what config.json settles for the others */
    const struct hk_hf_family *family;
    json_t *json;                          /* config.json; borrowed */
    json_t *generation;                    /* generation_config.json or NULL; borrowed */
    struct hk_bytes text, generation_text; /* of both as they are; borrowed */
    uint32_t layers, width, ffn, heads, kv_heads, head_dim, context;
    uint32_t vocab_size; /* rows of the embedding as config.json has it */
    bool tied;           /* its tie_word_embeddings, or the family's default */
};

/* Check config.json and set what it says under the keys of format-notes 2.4 and beyond
 * (hf/config.c, hf/rope.c): architecture, sizes, rope with every parameter, hk.rope_style,
 * hk.hf.config and hk.hf.generation_config (json, verbatim). */
enum hk_status hk_hf_read_config(struct hk_hf_config *c, struct hk_kvlist *out,
                                 struct hk_error *err);

/* The rope's part of it: rope_theta, rope_scaling, rope_parameters, partial_rotary_factor. */
void hk_hf_read_rope(struct hk_hf_in *in, const struct hk_hf_config *c);

/* Set the tokenizer's keys from tokenizer.json, tokenizer.model, tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, chat_template.jinja/.json of DIR, and the end tokens
 * of both configs (hf/tokenizer/). Where DIR has no tokenizer at all, nothing is
 * set. hk.hf.tokenizer (json): tokenizer.json without model.vocab and model.merges;
 * hk.hf.tokenizer_config (json, without chat_template) and hk.hf.special_tokens_map (json). */
enum hk_status hk_hf_read_tokenizer(const char *dir, const struct hk_hf_config *c,
                                    struct hk_kvlist *out, struct hk_error *err);

/* ---- writing ---- */

struct hk_side_file { /* a small file of the directory to be written */
    const char *name;
    struct hk_buf bytes;
};
struct hk_side_files {
    struct hk_side_file *files;
    size_t count;
};
void hk_side_files_free(struct hk_side_files *s);
/* Add NAME (static storage) with BYTES, which it takes over. */
enum hk_status hk_side_files_add(struct hk_side_files *s, const char *name, struct hk_buf *bytes,
                                 struct hk_error *err);

/* config.json and generation_config.json: hk.hf.config and hk.hf.generation_config, or an empty
 * object, with every field that a key of F settles set from it (hf/put_config.c). DENSE: dtype
 * named. */
enum hk_status hk_hf_put_config(const struct hk_file *f, const struct hk_hf_family *family,
                                enum hk_type dense, struct hk_side_files *out,
                                struct hk_error *err);
/* tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja from F's keys
 * (hf/tokenizer/export.c). What transformers cannot be told goes to opt->loss. */
enum hk_status hk_hf_put_tokenizer(const struct hk_file *f, const struct hk_convert_options *opt,
                                   struct hk_side_files *out, struct hk_error *err);
/* Whether KEY is told by those files and so needs no place in the safetensors' __metadata__. Each
 * of the two names its own keys. */
bool hk_hf_config_tells(const struct hk_hf_family *family, struct hk_bytes key);
bool hk_hf_tokenizer_tells(struct hk_bytes key);

/* V, a view of a runnable model, as its directory has it: tensors renamed, decoded and reordered,
 * metadata that the side files tell taken out (hf/export.c). hk_view_ready() was not called yet. */
enum hk_status hk_hf_export(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_side_files *out, struct hk_error *err);

/* The Hugging Face model in directory PATH (hf/open.c). */
enum hk_status hk_open_hf(struct hk_file **out, const char *path, struct hk_error *err);

#endif
