/* hash.h: the pieces of hk-hash. */
#ifndef TOOL_HASH_H
#define TOOL_HASH_H

#include "tools/lib/tool.h"

/* What a line's name names: a file, the base of a model file, one of its tensors. */
enum hash_kind { HASH_FILE, HASH_BASE, HASH_TENSOR };

/* Print "HEX  NAME": FILE, "FILE:base" or "FILE:tensor:NAME"; a newline, carriage return or
 * backslash in it becomes \n, \r or \\, and the line then begins with a backslash. */
void hash_print_line(const uint8_t digest[HK_SHA256_SIZE], const char *file, enum hash_kind kind,
                     struct hk_bytes tensor);

struct hash_checking {
    const char *list; /* "-" is standard input */
    bool quiet;       /* say nothing of what is as it should be */
    bool status;      /* say nothing at all */
    const struct hk_loop *loop;
};
/* Check every line of the list; returns an exit status. */
int hash_check(const struct hash_checking *c);

#endif
