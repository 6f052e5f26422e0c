/* Hugging Face model directories: what the parts of their reader and writer share. */
#ifndef HK_HF_H
#define HK_HF_H

#include <jansson.h>

#include "libhkfmt/base/buf.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/model/model.h"

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

/* The weights in DIR as an open file of their own. */
enum hk_status hk_hf_open_weights(struct hk_file **out, const char *dir, struct hk_error *err);
/* Whether a file called NAME is of those weights; or of others, of whatever format. */
bool hk_hf_is_own_weights(const char *name);
bool hk_hf_is_other_weights(const char *name);
/* The indexes of F after a change of names or keys. */
enum hk_status hk_hf_rebuild_indexes(struct hk_file *f, struct hk_error *err);

/* ---- fields of a JSON object (hf/field.c): null is absent; the first refusal is kept, after which
 * nothing is read ---- */

struct hk_hf_in {
    const char *where; /* begins the field's name in messages: "config.json: " */
    const char *arch;  /* that keys begin with */
    struct hk_kvlist *out;
    struct hk_error *err;
    enum hk_status st; /* of the first refusal */
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

/* ---- reading ---- */

enum { HK_HF_MAX_CONFIG = 4 << 20 }; /* bytes of config.json and generation_config.json */

struct hk_hf_config { /* what config.json settles for the others */
    const struct hk_family *family;
    json_t *json;                          /* config.json; borrowed */
    json_t *generation;                    /* generation_config.json or NULL; borrowed */
    struct hk_bytes text, generation_text; /* of both as they are; borrowed */
    struct hk_model_params model;          /* vocab is the one that config.json has */
    uint32_t next_layers;                  /* its num_nextn_predict_layers, which are left out */
    bool tied;                             /* its tie_word_embeddings, or the family's default */
};

/* Check config.json and set what it says as keys (hf/config.c, hf/config_rope.c): architecture,
 * sizes, rope with every parameter, order of rows, and config.json and generation_config.json as
 * they are (json). What would not run is refused as it is in every other format. */
enum hk_status hk_hf_read_config(struct hk_hf_config *c, struct hk_kvlist *out,
                                 struct hk_error *err);

/* The rope's part of it: rope_theta, rope_scaling, rope_parameters, partial_rotary_factor. */
void hk_hf_read_rope(struct hk_hf_in *in, const struct hk_hf_config *c);

/* The tensors of F, a model of FAMILY under its names in GGUF, as every reader has them: norms that
 * transformers has less one are made anew, in f32 (hf/norms.c). */
enum hk_status hk_hf_make_norms(struct hk_file *f, const struct hk_family *family,
                                struct hk_error *err);
/* The way back, in V: such norms less one, as TYPE. */
enum hk_status hk_hf_lower_norms(struct hk_view *v, const struct hk_family *family,
                                 enum hk_type type, struct hk_error *err);

/* Refuse the lists of factors in the rope object O that are not numbers for PAIRS pairs
 * (hf/longrope.c). */
void hk_hf_check_longrope(struct hk_hf_in *in, const json_t *o, uint32_t pairs);
/* Those of config.json JSON, if it has some, as tensors of F. */
enum hk_status hk_hf_make_longrope(struct hk_file *f, const json_t *json, struct hk_error *err);
/* HK_E_UNSUPPORTED, HK_E_MISSING: F's tensors of factors are not those of STORED, a config.json or
 * NULL. */
enum hk_status hk_hf_refuse_longrope(const struct hk_file *f, const json_t *stored,
                                     struct hk_error *err);

/* What config.json calls it. */
const char *hk_hf_activation_name(enum hk_activation activation);

/* Its multipliers and soft-caps (hf/multipliers.c); those that the family's class has not are
 * refused unless they do nothing. */
void hk_hf_read_multipliers(struct hk_hf_in *in, const struct hk_hf_config *c);

/* Give the tensors of F, a directory's weights, the names that they have in a .hk; the experts' of
 * transformers become stacks (hf/tensors.c). Indexes are not rebuilt. HK_E_UNSUPPORTED,
 * HK_E_MISSING, HK_E_FORMAT: one has no place in the model, is missing in a stack or is unlike the
 * others in it. */
enum hk_status hk_hf_gather(struct hk_file *f, const struct hk_hf_config *config,
                            struct hk_error *err);

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
 * object, with every field that a key of F settles set from it (hf/export_config.c). MODEL is
 * F's, as config.json can say it. DENSE: dtype named. */
enum hk_status hk_hf_export_config(const struct hk_file *f, const struct hk_model_params *model,
                                   enum hk_type dense, struct hk_side_files *out,
                                   struct hk_error *err);

/* V, a view of a runnable model, as its directory has it: tensors renamed, decoded and reordered,
 * metadata that the side files tell taken out (hf/export.c). hk_view_ready() was not called yet. */
enum hk_status hk_hf_export(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_side_files *out, struct hk_error *err);

/* The Hugging Face model in directory PATH (hf/open.c). */
enum hk_status hk_open_hf(struct hk_file **out, const char *path, struct hk_error *err);

#endif
