/* What the parts of the GGUF reader and writer share. The layout they follow is GGUF versions 2
 * and 3: 64-bit counts and lengths, little-endian. */
#ifndef HK_GGUF_H
#define HK_GGUF_H

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/buf.h"
#include "libhkfmt/base/cursor.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT,
};

enum {
    GGUF_HEADER_SIZE = 24,
    GGUF_LEAST_KV = 8 + 1 + 4 + 1,         /* key length, a key of one byte, type, a value */
    GGUF_LEAST_TENSOR = 8 + 1 + 4 + 4 + 8, /* name length, name, n_dims, type, offset */
    GGUF_ALIGNMENT = 32,                   /* where general.alignment is absent */
    GGUF_NAME_LIMIT = 64,                  /* ggml keeps names with a terminator in this many */
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_DEPTH = 8, /* of arrays in arrays */
};

/* ---- value types (gguf/value.c) ---- */

/* Bytes of a value of TYPE; 0 for string, array and unknown types. */
size_t hk_gguf_type_size(unsigned type);
/* The type that *NAME begins with; *NAME moves behind it. GGUF_TYPE_COUNT: no type. */
unsigned hk_gguf_type_parse(const char **name);

/* ---- reading (gguf/value.c) ---- */

struct gguf_reader {
    struct cursor c;
    bool stream;   /* more bytes may follow what the cursor has */
    bool short_of; /* the bytes ended early */
    struct hk_arena *arena;
    struct hk_error *err;
    enum hk_status status;
    const char *kind; /* "key" or "tensor" that is being read, NULL in the header */
    uint64_t index;
    struct hk_bytes name;
};

/* Fail with a text that names the key or tensor at hand; returns false. */
bool hk_gguf_fail(struct gguf_reader *r, enum hk_status status, uint64_t offset, const char *fmt,
                  ...) HK_PRINTF(4, 5);
bool hk_gguf_fail_nomem(struct gguf_reader *r);
/* The next N bytes, holding WHAT, or NULL after failing. */
const uint8_t *hk_gguf_take(struct gguf_reader *r, uint64_t n, const char *what);
/* Whether COUNT things of at least LEAST bytes each can follow; fails if not. */
bool hk_gguf_expect(struct gguf_reader *r, uint64_t count, uint64_t least, const char *what);
bool hk_gguf_take_u32(struct gguf_reader *r, uint32_t *out, const char *what);
bool hk_gguf_take_u64(struct gguf_reader *r, uint64_t *out, const char *what);
/* A length and as many bytes. */
bool hk_gguf_take_string(struct gguf_reader *r, struct hk_bytes *out, const char *what);
/* A type and its value as .hk has it. */
bool hk_gguf_take_value(struct gguf_reader *r, struct hk_kv *kv);

/* ---- writing (gguf/put.c) ---- */

/* The type that KV gets where nothing is recorded; NULL: GGUF has none for it. */
const char *hk_gguf_default_type(const struct hk_kv *kv);
/* Append type and value of KV as TYPE says. HK_E_FORMAT and HK_E_RANGE name the key. */
enum hk_status hk_gguf_put_value(struct hk_buf *b, const struct hk_kv *kv, const char *type,
                                 struct hk_error *err);

/* ---- the head (gguf/read.c) ---- */

/* Parse the GGUF of F's only part into F. */
enum hk_status hk_parse_gguf(struct hk_file *f, struct hk_error *err);
/* The same of the bytes read so far. HK_E_RANGE with *SHORT_OF set: they end before the head does.
 */
enum hk_status hk_parse_gguf_start(struct hk_file *f, bool *short_of, struct hk_error *err);
/* The same of a file that ends too early, as far as it goes. *WHOLE: its table is; where it is not
 * nothing is known of where tensors are. */
enum hk_status hk_parse_gguf_cut(struct hk_file *f, bool *whole, struct hk_error *err);

/* ---- conversion to GGUF (gguf/view.c, gguf/write.c) ---- */

/* A view of F as llama.cpp wants it; NULL where F is a GGUF itself, or a stream. */
struct hk_view;
enum hk_status hk_view_for_gguf(struct hk_view **out, struct hk_file *f,
                                const struct hk_convert_options *opt, struct hk_error *err);
/* All of F, perhaps such a view, to OUT. */
enum hk_status hk_write_gguf(struct hk_file *f, const struct hk_convert_options *opt,
                             struct hk_out *out, struct hk_error *err);

#endif
