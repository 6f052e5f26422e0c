/* signature.h: the files that hk-sign writes and hk-verify reads. */
#ifndef TOOL_SIGNATURE_H
#define TOOL_SIGNATURE_H

#include "tools/lib/tool.h"

struct signature {
    struct hk_digests digests;
    uint8_t bytes[HK_SIGNATURE_SIZE];
};

json_t *signature_json(const struct signature *s);
/* The signature in file PATH. HK_E_FORMAT: it is none. */
enum hk_status signature_read(struct signature *out, const char *path, struct hk_error *err);
/* All of the small file PATH (a key); free() what *OUT points to. */
enum hk_status signature_key(struct hk_bytes *out, const char *path, struct hk_error *err);

/* What is to be signed of the model at PATH, every file of a set. HK_E_USE: it is no .hk. */
HK_MUST enum hk_status signature_digests(const char *path, const struct hk_loop *loop,
                                         struct hk_digests *out, struct hk_error *err);
/* How hashing is done: in LOOP, with a progress bar. */
struct hk_work signature_work(const struct hk_loop *loop);
/* The name of the signature of the model at PATH, beside the first file of a set; the caller's to
 * free. */
HK_MUST enum hk_status signature_beside(char **out, const char *path, struct hk_error *err);

#endif
