/* meta.h: the pieces of hk-meta. */
#ifndef TOOL_META_H
#define TOOL_META_H

#include "tools/lib/tool.h"

/* What a value is called on the command line and in JSON: the six types of the format, and the
 * arrays that are kept as bytes. */
enum meta_type {
    META_NONE,
    META_STRING,
    META_INT,
    META_FLOAT,
    META_BOOL,
    META_JSON,
    META_BYTES,
    META_STRINGS,
    META_F32S,
    META_I32S,
    META_TYPES,
};

const char *meta_type_name(enum meta_type type);
/* META_NONE: no such type. */
enum meta_type meta_type_of_name(const char *name);
/* Bytes that have the form of an array are one. */
enum meta_type meta_type_of(const struct hk_kv *kv);
enum hk_meta_type meta_stored_type(enum meta_type type);

/* A value as it is stored; BYTES is malloc's. */
struct meta_value {
    enum hk_meta_type type;
    uint8_t *bytes;
    size_t n;
};

/* Read TEXT, of the command line or a file, as TYPE (meta_parse.c). HK_E_USE: it is none; KEY is
 * for the message. */
HK_MUST enum hk_status meta_parse(struct meta_value *out, enum meta_type type, struct hk_bytes text,
                                  const char *key, struct hk_error *err);
/* The same of the object {"type":...,"value":...} or {"type":...,"base64":...} of an export. */
HK_MUST enum hk_status meta_parse_json(struct meta_value *out, const json_t *v, const char *key,
                                       struct hk_error *err);
/* Round the float64 in V to the nearest f32; false where that is infinite. */
bool meta_narrow(struct meta_value *v);

/* Whether TEXT is JSON as an import takes it and hk-verify checks it, with no key twice. Integers
 * of any size are kept as text. */
bool meta_is_json(struct hk_bytes text);
/* KV as that object (meta_value.c); an import of it gives the same bytes. */
json_t *meta_json(const struct hk_kv *kv);

/* Base64 as of RFC 4648; decoding is strict. NULL: out of memory, or no base64. */
json_t *meta_base64(struct hk_bytes b);
uint8_t *meta_from_base64(const char *s, size_t length, size_t *n);

#endif
