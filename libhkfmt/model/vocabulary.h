/* The vocabulary in a model file, as it is written: hkmodel.h has the other direction. */
#ifndef HK_VOCABULARY_H
#define HK_VOCABULARY_H

#include "libhkfmt/hkmodel.h"

/* The name of KIND as the value of HK_VOCAB_MODEL; NULL for HK_VOCAB_OTHER. */
const char *hk_vocab_kind_name(enum hk_vocab_kind kind);
/* "<0x0A>" and "[PAD12]", terminated. */
enum { HK_VOCAB_BYTE_SIZE = 7, HK_VOCAB_PADDING_SIZE = 16 };
void hk_vocab_put_byte(uint8_t byte, char out[HK_VOCAB_BYTE_SIZE]);
void hk_vocab_put_padding(uint32_t id, char out[HK_VOCAB_PADDING_SIZE]);
/* Whether KEY is that of one of several chat templates, and its name. */
bool hk_vocab_is_template(struct hk_bytes key, struct hk_bytes *name);

#endif
