/* Tokenizers of Hugging Face model directories: import and export. */
#ifndef HK_HF_TOKENIZER_TOKENIZER_H
#define HK_HF_TOKENIZER_TOKENIZER_H

#include "libhkfmt/hf/hf.h"

/* Set the tokenizer's keys (enum hk_vocab_key) from tokenizer.json, tokenizer.model,
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja/.json of
 * DIR, and the end tokens of both configs. Where DIR has no tokenizer at all, nothing is set. */
enum hk_status hk_hf_import_tokenizer(const char *dir, const struct hk_hf_config *c,
                                      struct hk_kvlist *out, struct hk_error *err);
/* tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja from F's
 * keys. What transformers has no place for goes to opt->loss. */
enum hk_status hk_hf_export_tokenizer(const struct hk_file *f, const struct hk_convert_options *opt,
                                      struct hk_side_files *out, struct hk_error *err);
/* Whether those files cover KEY, so that it needs no place in the safetensors' __metadata__. */
bool hk_hf_tokenizer_covers(struct hk_bytes key);

#endif
