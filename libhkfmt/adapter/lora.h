/* Adapters of other formats. */
#ifndef HK_LORA_H
#define HK_LORA_H

#include <jansson.h>

#include "libhkfmt/convert/view.h"
#include "libhkfmt/set/save.h"

/* ---- GGUF (adapter/read_gguf.c) ---- */

struct hk_lora_gguf {     /* a GGUF adapter in PEFT's form */
    struct hk_view *view; /* its tensors under PEFT's names, not ready yet */
    json_t *config;       /* adapter_config.json */
    bool alpha_is_zero;   /* for which llama.cpp's scale is 1 */
};

/* Whether F, a GGUF, says that it is an adapter. */
bool hk_lora_is_gguf(const struct hk_file *f);
/* Bring F, such a GGUF for BASE, into PEFT's form. HK_E_UNSUPPORTED, HK_E_MISSING, HK_E_FORMAT name
 * a key or tensor that has none. */
enum hk_status hk_lora_from_gguf(struct hk_lora_gguf *out, struct hk_file *f,
                                 const struct hk_file *base, struct hk_error *err);
void hk_lora_gguf_free(struct hk_lora_gguf *g);

/* ---- payloads (adapter/payload.c) ---- */

/* V, whose metadata is made here, with CONFIG as its adapter_config, to OUT. */
enum hk_status hk_lora_write_payload(struct hk_view *v, const json_t *config, struct hk_out *out,
                                     struct hk_error *err);

/* ---- a payload (hk_record_open() or a file of hk_adapter_payload()) in the other forms ---- */

/* What GGUF cannot carry is refused by name. Scales that no common alpha gives are multiplied into
 * lora_b, which opt->loss is told of (adapter/write_gguf.c). */
enum hk_status hk_lora_to_gguf(struct hk_file *payload, const struct hk_file *base,
                               const struct hk_convert_options *opt, struct hk_out *out,
                               struct hk_error *err);

/* Of names like ORGANISATION/MODEL, as PEFT has them, in GGUF. */
#define HK_LORA_HUB "https://huggingface.co/"

#endif
