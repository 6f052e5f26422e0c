/* hk_save(): what its pieces share. */
#ifndef HK_SAVE_H
#define HK_SAVE_H

#include "libhkfmt/base/buf.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/set/set.h"

/* ---- files that an output must not touch (save_set.c) ---- */

struct hk_identity {
    uint64_t dev, ino;
};
struct hk_identities { /* sorted */
    struct hk_identity *list;
    size_t count;
};
enum hk_status hk_identities_of(const struct hk_file *f, struct hk_identities *out,
                                struct hk_error *err);
/* HK_E_USE if PATH, by whatever name, is one of them. */
enum hk_status hk_check_not_input(const struct hk_identities *input, const char *path,
                                  struct hk_error *err);
void hk_identities_free(struct hk_identities *x);

/* ---- shards (save_set.c) ---- */

struct hk_plan {
    size_t *first; /* COUNT + 1 of them: shard I has tensors FIRST[I] up to FIRST[I + 1] */
    size_t count;
};
/* As many tensors in a row as have SPLIT_SIZE bytes together (0: all), but at least one.
 * HK_E_RANGE: more shards than TO can count. */
enum hk_status hk_plan_shards(struct hk_plan *out, const struct hk_file *f, enum hk_format to,
                              uint64_t split_size, struct hk_error *err);
void hk_plan_free(struct hk_plan *p);

/* ---- a hidden directory that new files wait in (stage.c) ---- */

struct hk_stage {
    int lock;              /* held while it is in use; -1: none */
    char *temp;            /* with its slash */
    char *target;          /* the directory beside it, empty or with its slash */
    struct hk_names names; /* what was put in, in order */
    struct hk_names old;   /* beside it, to be taken away */
};
/* A new directory beside PATH. Released with hk_stage_free(), which removes what is still in it. */
enum hk_status hk_stage_new(struct hk_stage *s, const char *path, struct hk_error *err);
void hk_stage_free(struct hk_stage *s);
/* Remove the stages beside S for the same place whose process is gone. */
void hk_stage_remove_stale(const struct hk_stage *s);
/* Begin file NAME of the stage; when it is committed it is in it. */
enum hk_status hk_stage_create(struct hk_stage *s, const char *name, struct hk_out **out,
                               struct hk_error *err);
enum hk_status hk_stage_put(struct hk_stage *s, const char *name, const struct hk_buf *bytes,
                            struct hk_error *err);
/* Every file takes its name in s->target, in order, and s->old go; all or, if that fails or STOP is
 * set, none. With REPLACE, regular files of these names give way and pass on their permissions. */
enum hk_status hk_stage_publish(struct hk_stage *s, bool replace, const volatile sig_atomic_t *stop,
                                struct hk_error *err);
/* The stage becomes the directory PATH in one step. OLD is NULL, or names what is in the directory
 * that is there: that one then is the stage, and OLD empty. */
enum hk_status hk_stage_become(struct hk_stage *s, const char *path, struct hk_names *old,
                               struct hk_error *err);

/* ---- several files (save_set.c, save_dir.c) ---- */

struct hk_saving {
    struct hk_file *whole; /* as it is written */
    enum hk_format to;     /* of its files */
    const struct hk_convert_options *opt;
    struct hk_plan plan;
    const char *stem; /* names are STEM-00001-of-00003.EXT, of an only file STEM.EXT */
    size_t stem_size;
    const char *suffix;
};
/* The files of S and their index (but of GGUF, which has none) into STAGE. */
enum hk_status hk_save_files(const struct hk_saving *s, struct hk_stage *stage,
                             struct hk_error *err);
/* The shards beside PATH. */
enum hk_status hk_save_set(struct hk_saving *s, const char *path, const struct hk_identities *input,
                           struct hk_error *err);
/* F as a model directory. */
enum hk_status hk_save_dir(struct hk_file *f, const char *path,
                           const struct hk_convert_options *opt, const struct hk_identities *input,
                           struct hk_error *err);

/* One that is there is replaced only if it is empty, or has the first of NAMES and no files but
 * those and shards of STEM. */
struct hk_dir_kind {
    const char *what; /* "model" */
    const char *const *names;
    size_t name_count;
    const char *stem; /* of its safetensors files */
    /* Whether the directory that was written at PATH can be read again. */
    enum hk_status (*read_again)(const char *path, const struct hk_file *base,
                                 struct hk_error *err);
    const struct hk_file *base; /* of an adapter */
};
struct hk_side_files;
/* V, which is ready, as safetensors with SIDE beside it. */
enum hk_status hk_save_view_dir(const struct hk_dir_kind *kind, struct hk_view *v,
                                const struct hk_side_files *side, const char *path,
                                const struct hk_convert_options *opt,
                                const struct hk_identities *input, struct hk_error *err);

#endif
