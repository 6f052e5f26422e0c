/* Pieces of GGUF values, for the two files that write them. */
#ifndef HK_GGUF_PUT_H
#define HK_GGUF_PUT_H

#include "libhkfmt/gguf/gguf.h"

/* Append an integer (or bool) of TYPE; false if it does not fit. */
bool hk_gguf_put_int(struct hk_buf *b, unsigned type, bool negative, uint64_t magnitude);
bool hk_gguf_put_int64(struct hk_buf *b, unsigned type, int64_t v);
void hk_gguf_put_f32(struct hk_buf *b, float f);
void hk_gguf_put_f64(struct hk_buf *b, double d);
void hk_gguf_put_string(struct hk_buf *b, struct hk_bytes s);

/* The same of JSON text (gguf/put_json.c); an array's TYPE begins with "array<". */
bool hk_gguf_put_json_int(struct hk_buf *b, unsigned type, struct hk_bytes text);
bool hk_gguf_put_json_array(struct hk_buf *b, struct hk_bytes text, const char *type);

#endif
