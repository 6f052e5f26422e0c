/* Who uses a .hk at the same time, and for how long others wait. Locks of ranges far behind any
 * file's end, which belong to an open file description and go with it, also when its process is
 * killed:
 *
 *   writer    exclusive for as long as a writer has the file open: writers take turns
 *   records   shared by who reads records' payloads in place; exclusive while records are removed
 *   gate      passed by who wants the next, so that readers cannot keep a writer out for ever
 *   heads     shared while a reader copies header, metadata, table and record heads; exclusive for
 *             the moments in which a writer changes what counts, or the file becomes shorter
 *
 * They are taken in this order. */
#ifndef HK_LOCK_H
#define HK_LOCK_H

#include "libhkfmt/hkfmt.h"

/* ---- writers ---- */

struct hk_lock {
    int fd; /* open for reading and writing */
    struct hk_wait wait;
};

/* Open regular file PATH for reading and writing and wait until no other writer holds it. WAIT may
 * be NULL. Closing the descriptor lets the next one in. */
enum hk_status hk_lock_open(struct hk_lock *out, const char *path, const struct hk_wait *wait,
                            struct hk_error *err);
/* Keep readers from copying until hk_lock_leave(): for moments only. */
enum hk_status hk_lock_enter(const struct hk_lock *lock, struct hk_error *err);
void hk_lock_leave(const struct hk_lock *lock);
/* Wait until nobody uses records' payloads, and keep it so while the file is open. */
enum hk_status hk_lock_records(const struct hk_lock *lock, struct hk_error *err);

/* ---- readers ---- */

/* Keep writers from changing what is copied from FD; waits for 10 seconds at most. *LOCKED is false
 * where the file system, or the descriptor, has no locks. */
enum hk_status hk_lock_heads(int fd, bool *locked, struct hk_error *err);
void hk_unlock_heads(int fd);
/* Keep records' payloads from being removed, likewise. */
enum hk_status hk_lock_payloads(int fd, struct hk_error *err);
void hk_unlock_payloads(int fd);
/* Whether a writer has the file open by another description than FD's. */
bool hk_has_writer(int fd);

/* Whether a journal of the reference's metadata edits lies beside PATH, or beside the file that a
 * link PATH leads to: one of its edits was broken off, and only that program knows how to end it.
 */
enum hk_status hk_has_journal(const char *path, bool *out, struct hk_error *err);

#endif
