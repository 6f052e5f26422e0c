/* Chat templates. */
#ifndef HK_HF_TOKENIZER_TEMPLATES_H
#define HK_HF_TOKENIZER_TEMPLATES_H

#include "libhkfmt/hf/tokenizer/export_tokens.h"

/* As keys; sets T->templates. */
enum hk_status hk_tok_put_templates(struct hk_tok *t);
/* As files, or in P's tokenizer_config.json. */
enum hk_status hk_tok_export_templates(struct hk_tok_export *p);

#endif
