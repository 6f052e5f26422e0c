/* What the files that write a Hugging Face directory share: a model's sizes and rope as its keys
 * give them, with the defaults of the file format filled in. */
#ifndef HK_HF_WRITE_H
#define HK_HF_WRITE_H

#include "libhkfmt/hf/hf.h"

enum { /* kinds of rope scaling; each has the parameters below that name it */
       HK_HF_LINEAR = 1 << 0,
       HK_HF_LLAMA3 = 1 << 1,
       HK_HF_YARN = 1 << 2,
       HK_HF_DYNAMIC = 1 << 3,
};

struct hk_hf_rope {
    unsigned kind; /* 0: not scaled */
    double base;
    double factor;               /* all */
    double original;             /* llama3, yarn: positions before scaling */
    double low, high;            /* llama3 */
    double beta_fast, beta_slow; /* yarn */
    double magnitude;            /* yarn: beyond 1 + 0.1 ln(factor) */
};

struct hk_hf_model {
    uint32_t layers, context, width, ffn, heads, kv_heads, head_dim, rope_dims;
    double epsilon;
    int64_t window; /* of attention; 0: all that came before */
    bool pairs;     /* rows of q and k that are rotated together are neighbours */
    struct hk_hf_rope rope;
};

/* "linear", ... of one kind; NULL for 0. */
const char *hk_hf_rope_name(unsigned kind);

/* F's keys; rope_freqs.weight, where F has it, is turned into the llama3 parameters that give these
 * factors (hf/model.c). HK_E_MISSING: a key without a default; HK_E_UNSUPPORTED: what the classes
 * of transformers do not do. */
enum hk_status hk_hf_read_model(const struct hk_file *f, const struct hk_hf_family *family,
                                struct hk_hf_model *out, struct hk_error *err);
/* Whether config.json has a field for KEY, and whether KEY is one of FAMILY's that it has no field
 * for and that hk_hf_read_model() does not look at either. */
bool hk_hf_model_tells(const struct hk_hf_family *family, struct hk_bytes key);
bool hk_hf_model_lacks(const struct hk_hf_family *family, struct hk_bytes key);

/* The same of rope alone, but for the tensor (hf/model_rope.c). */
struct hk_hf_keys { /* a reading that goes on until something fails */
    const struct hk_file *f;
    const char *architecture;
    struct hk_error *err;
    enum hk_status status;
};
const struct hk_kv *hk_hf_meta(const struct hk_hf_keys *k, const char *suffix);
/* KV's finite number, at least 0, or above it unless ZERO; FALLBACK where KV is NULL. */
double hk_hf_meta_number(struct hk_hf_keys *k, const struct hk_kv *kv, bool zero, double fallback);
void hk_hf_model_rope(struct hk_hf_keys *k, uint32_t context, struct hk_hf_rope *r);
/* What rope_freqs.weight of F says, into R. */
enum hk_status hk_hf_model_factors(const struct hk_file *f, uint32_t dims, struct hk_hf_rope *r,
                                   struct hk_error *err);

/* Whether the output matrix is the embedding: it is not there, or shares it; or, where TIED says
 * that the model's config has it so, is equal to it. */
enum hk_status hk_hf_is_tied(const struct hk_file *f, bool tied, bool *out, struct hk_error *err);

/* The stored config.json, and what it says as keys: put beside the keys of a .hk, these show what
 * was changed since. */
struct hk_hf_told {
    json_t *json; /* NULL: none is stored, and the rest is empty */
    json_t *generation;
    struct hk_bytes text, generation_text;
    struct hk_hf_config config;
    struct hk_hf_model model;
};
/* hf/told.c; released with hk_hf_told_free(), also on failure. */
enum hk_status hk_hf_read_told(const struct hk_file *f, struct hk_hf_told *out,
                               struct hk_error *err);
/* The JSON that F has under KEY, its text too; *OUT stays NULL where there is none. */
enum hk_status hk_hf_told_json(const struct hk_file *f, const char *key, struct hk_bytes *text,
                               json_t **out, struct hk_error *err);
void hk_hf_told_free(struct hk_hf_told *t);
/* The family of F: the stored config's, unless general.architecture is another's. */
enum hk_status hk_hf_family_of(const struct hk_file *f, const struct hk_hf_told *told,
                               const struct hk_hf_family **out, struct hk_error *err);

/* Add NAME with JSON as text: indented by two, numbers as short as they can be (hf/side.c). */
enum hk_status hk_side_files_json(struct hk_side_files *s, const char *name, json_t *json,
                                  struct hk_error *err);
/* The real number with the fewest digits that is read as V, or as (float)V where V is one. */
double hk_hf_short(double v);

#endif
