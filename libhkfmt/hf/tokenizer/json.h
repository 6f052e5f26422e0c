/* The small JSON files beside a tokenizer, and what they are made of. */
#ifndef HK_HF_TOKENIZER_JSON_H
#define HK_HF_TOKENIZER_JSON_H

#include "libhkfmt/hf/hf.h"

enum { HK_TOK_FILE = 256 << 20 }; /* max bytes of a file */

/* DIR/NAME parsed, NULL where there is none. Integers beyond 64 bits become reals: transformers
 * writes int(1e30) for a length without limit. */
enum hk_status hk_tok_read_json(const char *dir, const char *name, json_t **out,
                                struct hk_error *err);
struct hk_bytes hk_json_string_bytes(const json_t *string);
/* Whether O is an object whose "type" is NAME. */
bool hk_json_has_type(const json_t *o, const char *name);
/* O.KEY as text, "(none)" if it is no string: for messages. */
const char *hk_json_text(const json_t *o, const char *key);
/* A new JSON string of B; NULL if it is no UTF-8 or memory is out. */
json_t *hk_json_new_string(struct hk_bytes b);
/* O.KEY = VALUE, which it takes over; false if memory is out. */
bool hk_json_set_new(json_t *o, const char *key, json_t *value);

#endif
