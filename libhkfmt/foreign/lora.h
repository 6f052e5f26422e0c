/* Adapters of other formats. */
#ifndef HK_LORA_H
#define HK_LORA_H

#include <jansson.h>

#include "libhkfmt/view.h"

/* GGUF F as the payload of a lora_adapter record for BASE, to OUT; *KNOWN: it is an adapter
 * (lora_gguf.c). */
enum hk_status hk_lora_from_gguf(struct hk_file *f, const struct hk_file *base, struct hk_out *out,
                                 bool *known, struct hk_error *err);
/* V, whose metadata is made here, with CONFIG as its adapter_config, to OUT (lora_payload.c). */
enum hk_status hk_lora_write(struct hk_view *v, const json_t *config, struct hk_out *out,
                             struct hk_error *err);

#endif
