/* What the files that write a Hugging Face directory share. */
#ifndef HK_HF_EXPORT_H
#define HK_HF_EXPORT_H

#include "libhkfmt/hf/hf.h"

/* ---- the stored config (hf/stored.c) ---- */

/* config.json and generation_config.json as a .hk keeps them, and what they say: put beside the
 * keys of the .hk, this shows what was changed since. */
struct hk_hf_stored {
    json_t *json; /* NULL: none is stored, and the rest is empty */
    json_t *generation;
    struct hk_bytes text, generation_text;
    struct hk_hf_config config;
};
/* Released with hk_hf_stored_free(), also on failure. */
enum hk_status hk_hf_stored_read(const struct hk_file *f, struct hk_hf_stored *out,
                                 struct hk_error *err);
void hk_hf_stored_free(struct hk_hf_stored *s);
/* The JSON that F has under KEY, its text too; *OUT stays NULL where there is none. */
enum hk_status hk_hf_stored_json(const struct hk_file *f, const char *key, struct hk_bytes *text,
                                 json_t **out, struct hk_error *err);

/* ---- multipliers and soft-caps (hf/multipliers.c) ---- */

/* The next field that P's class has and STORED (NULL: none) does not say as P does; *AT is 0 at
 * first. False: there are no more. *VALUE is NULL when out of memory. */
bool hk_hf_next_multiplier(const struct hk_model_params *p, const struct hk_model_params *stored,
                           size_t *at, const char **field, json_t **value);
/* HK_E_UNSUPPORTED: P has one that its class has no field for. */
enum hk_status hk_hf_refuse_multipliers(const struct hk_model_params *p, struct hk_error *err);

/* ---- small files (hf/side.c) ---- */

/* Add NAME with JSON as text: indented by two, numbers as short as they can be. */
enum hk_status hk_side_files_json(struct hk_side_files *s, const char *name, json_t *json,
                                  struct hk_error *err);
/* The real number with the fewest digits that is read as V, or as (float)V where V is one. */
double hk_hf_short(double v);

#endif
