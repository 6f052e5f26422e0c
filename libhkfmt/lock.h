/* Writers of the same file take turns. */
#ifndef HK_LOCK_H
#define HK_LOCK_H

#include "libhkfmt/hkfmt.h"

/* Open regular file PATH for reading and writing and wait until no other writer holds it. The lock
 * is the descriptor's (and its duplicates'): closing it lets the next one in. */
enum hk_status hk_lock_open(int *out, const char *path, struct hk_error *err);

/* Whether a journal of the reference's metadata edits lies beside PATH, or beside the file that a
 * link PATH leads to: one of its edits was broken off, and only that program knows how to end it.
 */
enum hk_status hk_has_journal(const char *path, bool *out, struct hk_error *err);

#endif
