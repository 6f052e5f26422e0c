/* append.h: the payloads that hk-append takes. */
#ifndef TOOL_APPEND_H
#define TOOL_APPEND_H

#include "tools/lib/tool.h"

/* A payload ready to be copied: SIZE bytes from the beginning of FD, which the caller closes. */
struct payload {
    int fd;
    uint64_t size;
};

/* What is in PATH ("-" is standard input) as the payload of a record of TYPE for FILE: an adapter
 * in whatever form becomes the one of hk(5), patches and layers have to be safetensors, evaluations
 * and heads JSON; caches are taken as they are. STRICT: an adapter that cannot be applied to FILE
 * is refused, else a line says so. */
enum hk_status append_payload(struct payload *out, enum hk_record_type type, const char *path,
                              const char *file, bool strict, struct hk_error *err);

#endif
