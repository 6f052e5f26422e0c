/* A strict reader of JSON text (RFC 8259) that hands out one token after the other. It neither
 * recurses nor allocates, so hostile text costs time linear in its length and nothing else. Strings
 * are checked: UTF-8, escapes, pairs of surrogates. */
#ifndef HK_JSON_SCAN_H
#define HK_JSON_SCAN_H

#include "libhkfmt/hkfmt.h"

enum { HK_JSON_MAX_DEPTH = 64 };

enum hk_json_token {
    HK_JSON_ERROR, /* hk_json.why says what is wrong at hk_json.at; nothing follows */
    HK_JSON_END,   /* of the text, with no more than blanks behind its one value */
    HK_JSON_OBJECT,
    HK_JSON_OBJECT_END,
    HK_JSON_ARRAY,
    HK_JSON_ARRAY_END,
    HK_JSON_KEY, /* the value follows */
    HK_JSON_STRING,
    HK_JSON_NUMBER,
    HK_JSON_TRUE,
    HK_JSON_FALSE,
    HK_JSON_NULL,
};

struct hk_json {
    struct hk_bytes text;
    size_t at;            /* where the next token is looked for */
    size_t start;         /* where the last one begins */
    struct hk_bytes span; /* of a key or string what is between the quotes, of a number all */
    bool escaped;         /* SPAN has escapes: hk_json_decode() tells what it means */
    const char *why;
    uint64_t objects; /* one bit for each open bracket, the innermost lowest */
    unsigned depth;
    int expected; /* json_scan.c's */
};

/* To begin: {.text = TEXT}. */
enum hk_json_token hk_json_next(struct hk_json *j);

/* The bytes that the last key or string means, to TO, which has room for j->span.n; their number.
 */
size_t hk_json_decode(const struct hk_json *j, uint8_t *to);
/* Whether the last key or string means S, of at most 64 bytes. */
bool hk_json_is(const struct hk_json *j, const char *s);

/* Numbers written as integers, without point, exponent or sign (of an int64: but minus). False for
 * others and for what does not fit. */
bool hk_json_u64(struct hk_bytes number, uint64_t *out);
bool hk_json_i64(struct hk_bytes number, int64_t *out);

/* Append TEXT as a JSON string with quotes, escaping only what has to be. It is valid UTF-8. */
struct hk_buf;
void hk_json_quote(struct hk_buf *b, struct hk_bytes text);

#endif
