/* sys.h: what the engine asks of the system beyond POSIX. */
#ifndef HKE_SYS_H
#define HKE_SYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Processors that the calling thread may use, a bit each, into SIZE bytes at WORD; false where the
 * system does not say. */
bool hke_read_affinity(unsigned long *word, size_t size);

/* Sleep until somebody wakes those that wait for WORD; at once where it is not VALUE. May return
 * early. */
void hke_futex_wait(atomic_uint *word, unsigned value);
void hke_futex_wake_all(atomic_uint *word);

/* SIZE bytes (a multiple of 64), aligned to 64; free() them. HUGE_PAGES: on large pages, where they
 * fill some. */
void *hke_alloc_pages(size_t size, bool huge_pages);

#endif
