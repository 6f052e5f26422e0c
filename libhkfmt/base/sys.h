/* What is asked of the system beyond POSIX, each with what it comes to where a system lacks it. */
#ifndef HK_SYS_H
#define HK_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- locks of one byte that belong to an open file description ---- */

/* TYPE is F_RDLCK, F_WRLCK or F_UNLCK. 0, EAGAIN where another description has it, or another
 * errno: there are no such locks. */
int hk_sys_lock_byte(int fd, off_t at, int type);
/* Whether another description than FD's has locked it for writing. */
bool hk_sys_is_locked(int fd, off_t at);

/* ---- files without a name ---- */

/* A new file in DIRECTORY, which hk_sys_name_file() can name; -1 where that is not possible. */
int hk_sys_open_unnamed(const char *directory);
bool hk_sys_name_file(int fd, const char *name); /* false with errno */
/* A file in memory; NAME is for debuggers. -1 with errno. */
int hk_sys_open_memory(const char *name);

/* ---- names ---- */

/* A path that leads to what FD has open. */
void hk_sys_path_of_fd(char path[40], int fd);
/* FD's file for reading, by an open file description of its own if that is possible; -1 with errno.
 */
int hk_sys_reopen(int fd);
/* Rename, but with EEXIST where TO exists; and exchange two names. False with errno. */
bool hk_sys_rename_new(const char *from, const char *to);
bool hk_sys_exchange(const char *a, const char *b);

/* ---- bytes ---- */

/* Whether to repeat a read or write of FD that failed with the present errno: a signal interrupted
 * it, or FD does not block, and then it has been waited for. */
bool hk_sys_try_again(int fd, bool writing);

/* Copy up to N bytes at *FROM_AT of FROM to where TO is at, in the kernel; *FROM_AT moves. -1 with
 * errno, of which hk_sys_cannot_copy() says whether the kernel does not copy between such files,
 * and not that the copy went wrong. */
ssize_t hk_sys_copy(int from, off_t *from_at, int to, size_t n);
bool hk_sys_cannot_copy(int sys);
/* Whether the page of the byte at P, in a mapping, is in memory. True where that is not told, as of
 * files that are not this user's to change. */
bool hk_sys_is_resident(const void *p);
/* Of the whole pages among the N bytes at P, in a shared mapping: read them ahead; let go of them;
 * read only what is touched, from now on. */
void hk_sys_read_ahead(const void *p, size_t n);
void hk_sys_let_go(const void *p, size_t n);
void hk_sys_expect_random(const void *p, size_t n);
/* Forget N bytes at AT of FD's file, where nobody has them mapped. */
void hk_sys_forget(int fd, off_t at, off_t n);

/* ---- others ---- */

/* Bits for a name that nobody else takes. */
uint32_t hk_sys_random(void);
/* What errno value SYS means, perhaps in TEXT. */
const char *hk_sys_error_text(int sys, char *text, size_t size);

#endif
