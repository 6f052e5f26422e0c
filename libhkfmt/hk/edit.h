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

/* What the edit has to record under hk.gguf.types to keep it in step with what C touches, in *OUT
 * if *CHANGED (edit_types.c). */
enum hk_status hk_settle_types(const struct hk_changes *c, const struct hk_file *f,
                               struct hk_arena *arena, struct hk_kv *out, bool *changed,
                               struct hk_error *err);

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
