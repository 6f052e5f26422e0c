/* What the parts of editing in place share: the changes, the tail of a file that an edit may have
 * left, and the order of writes. */
#ifndef HK_EDIT_H
#define HK_EDIT_H

#include "libhkfmt/buf.h"
#include "libhkfmt/internal.h"

/* ---- staging (edit_tail.c) ----
 *
 * What an edit writes behind the last section or record begins with a head of the size of a
 * record's. It claims a payload that no file can hold, so that a reader of records stops there, has
 * a mark by which an edit that was broken off is known for what it is, and says where what stays
 * ends: metadata that once lay there must not be taken for records. */

enum { HK_STAGING_SIZE = 80 };

/* SETTLED: what follows the head is where it is to stay. */
void hk_staging_head(uint8_t p[HK_STAGING_SIZE], uint64_t base, bool settled);
/* Whether the N bytes at P begin with such a head, or are the beginning of one. */
bool hk_is_staging(const uint8_t *p, uint64_t n);
/* Where all that belongs to the edit begins whose head stands directly before OFFSET of MAP; OFFSET
 * where there is none. */
uint64_t hk_staging_start(const uint8_t *map, uint64_t offset);

/* What lies where in a file, as far as an edit has to know. */
struct hk_tail {
    uint64_t limit; /* what may be used before the payloads begins at 128 and ends here */
    uint64_t base;  /* end of what stays where it is: sections, records */
    uint64_t keep;  /* size of the file when nothing more is behind it: BASE and old padding */
    uint64_t live;  /* end of everything that counts, metadata and table included */
    bool appendix;  /* nothing may stay behind BASE */
    bool untidy;    /* an edit was broken off, or metadata lie behind the appendix */
};

/* HK_E_FORMAT: F has bytes behind BASE that belong to nothing and are no edit's. */
enum hk_status hk_find_tail(const struct hk_file *f, struct hk_tail *out, struct hk_error *err);

/* ---- the new metadata (edit_pairs.c) ---- */

struct hk_change {
    struct hk_kv kv; /* type 0: to be deleted */
    bool touched;    /* named by the edit */
    bool merged;     /* a later change of a key that stands before */
};

struct hk_changes {
    struct hk_change *list; /* the pairs of the file, then the changes in order */
    size_t count, room;
    size_t old; /* how many are the file's */
};

/* Each change to where its key stands; hk.gguf.types into step. ARENA holds what is made. */
enum hk_status hk_settle_changes(struct hk_changes *c, const struct hk_file *f,
                                 struct hk_arena *arena, struct hk_error *err);
enum hk_status hk_add_change(struct hk_changes *c, const struct hk_kv *kv, struct hk_error *err);
/* Whether pair I is one of the metadata to be. */
bool hk_change_stays(const struct hk_change *change);
/* Keep hk.gguf.types in step with what was touched (edit_types.c). */
enum hk_status hk_settle_types(struct hk_changes *c, const struct hk_file *f,
                               struct hk_arena *arena, struct hk_error *err);

/* ---- writing (edit_write.c) ---- */

struct hk_new_metadata {
    struct hk_buf bytes; /* the section as it is written */
    uint64_t count;      /* pairs in it */
};

enum hk_status hk_write_metadata(const struct hk_file *f, int fd, const struct hk_tail *tail,
                                 const struct hk_new_metadata *m, struct hk_error *err);

#endif
