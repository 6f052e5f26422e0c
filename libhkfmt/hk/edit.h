/* What the parts of editing in place share: the changes, what an edit may have left at the end of
 * a file, and the order of writes. */
#ifndef HK_EDIT_H
#define HK_EDIT_H

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/buf.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/source.h"

/* ---- the new metadata (edit.c) ---- */

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

/* Of F, which LOCK keeps other writers from. Nothing that counts is behind the records or staged
 * afterwards. */
enum hk_status hk_write_metadata(const struct hk_file *f, const struct hk_lock *lock,
                                 const struct hk_new_metadata *m, struct hk_error *err);

#endif
