/* Sets: several files that are one model. What the pieces that name, index, open and merge them
 * share. File names are without directory everywhere, since those of an index are not to be
 * trusted. */
#ifndef HK_SET_H
#define HK_SET_H

#include <jansson.h>

#include "libhkfmt/base/fault.h"

/* ---- STEM-00001-of-00003.EXT (set/names.c) ---- */

struct hk_shard_name {      /* a name taken apart */
    size_t stem;            /* bytes before "-00001-of-" */
    unsigned number, count; /* 1 <= number <= count */
    const char *suffix;     /* ".hk" */
};
bool hk_shard_name_parse(const char *name, struct hk_shard_name *out);
/* The same whatever the two numbers are: some tools count from 0. */
bool hk_shard_name_split(const char *name, struct hk_shard_name *out);
/* Allocated with malloc(); NULL when out of memory. */
char *hk_shard_name_make(const char *stem, size_t n, unsigned number, unsigned count,
                         const char *suffix);
/* Whether two names differ in their numbers only. */
bool hk_shard_name_kin(const char *a, const char *b);
/* A name that cannot lead out of its directory. */
bool hk_plain_name(const char *name);

/* ---- names of files in order (set/names.c) ---- */

struct hk_names {
    char **names;
    size_t count, room;
};
/* Takes NAME over, which may be NULL for want of memory. */
enum hk_status hk_names_add(struct hk_names *l, char *name, struct hk_error *err);
/* In order of their bytes, each once. */
void hk_names_sort(struct hk_names *l);
bool hk_names_have(const struct hk_names *sorted, const char *name);
/* All names of the set that shard NAME says it is of. */
enum hk_status hk_names_of_shard(struct hk_names *l, const char *name, struct hk_error *err);
void hk_names_free(struct hk_names *l);

/* ---- STEM.EXT.index.json (set/index.c) ---- */

struct hk_set_index {
    char *name; /* of its file; NULL: there is no index */
    json_t *json;
    json_t *map; /* tensor -> file, every one a string that is a plain name; borrowed */
};
bool hk_is_index_name(const char *name);
/* Names of all models and indexes of models in DIR (empty, or ends in a slash), sorted; hidden
 * files are nobody's model. */
enum hk_status hk_list_models(const char *dir, struct hk_names *models, struct hk_names *indexes,
                              struct hk_error *err);
/* Read DIR/NAME; DIR is empty or ends in a slash. Released with hk_set_index_free(). */
enum hk_status hk_set_index_read(struct hk_set_index *x, const char *dir, const char *name,
                                 struct hk_error *err);
/* Add the files that X names, sorted: these are the set, whatever they are called. */
enum hk_status hk_set_index_files(const struct hk_set_index *x, struct hk_names *out,
                                  struct hk_error *err);
/* Whether X and WHOLE, made of all the files, say the same. */
enum hk_status hk_set_index_check(const struct hk_set_index *x, const struct hk_file *whole,
                                  struct hk_error *err);
void hk_set_index_free(struct hk_set_index *x);
/* Bytes of all tensors, those that are shared once. */
uint64_t hk_payload_size(const struct hk_file *f);

/* ---- what shards say of themselves (set/merge.c) ---- */

struct hk_place { /* NUMBER counts from 1; 1 of 1 is a whole file */
    unsigned number, count;
};
/* NAME is the file's, or NULL where an index says that it is one of several. */
enum hk_status hk_place_of(const struct hk_file *f, const char *name, struct hk_place *out,
                           struct hk_error *err);
/* Whether the totals that the shards of WHOLE state are right. */
enum hk_status hk_check_totals(const struct hk_file *whole, struct hk_error *err);

/* ---- opening (set/open.c, set/merge.c, set/dir.c) ---- */

struct hk_set {
    char *dir; /* empty, or ends in a slash */
    struct hk_names names;
    struct hk_set_index index;
    enum hk_format format;       /* of the first file */
    struct hk_file **files;      /* names.count of them, in order of parts */
    const struct hk_reporter *r; /* of what does not prevent opening; NULL: nobody wants to know */
    const char *about; /* name of the file that a fault for R, or the failure to open, lies in */
};
/* The files of the model at PATH, a file or an index; S->names stays empty where it is one file.
 * Of a file that cannot be read its name tells. Released with hk_set_free(), also after a failure.
 */
enum hk_status hk_set_find(struct hk_set *s, const char *path, struct hk_error *err);
void hk_set_free(struct hk_set *s);
/* All files of S->names as one. */
enum hk_status hk_set_open_files(struct hk_file **out, struct hk_set *s, struct hk_error *err);
/* Path of the weights in directory PATH: a file, or an index. *HF: it is a Hugging Face model. */
enum hk_status hk_find_in_dir(char **out, const char *path, bool *hf, struct hk_error *err);
/* hk_open_set() of a file or an index. */
enum hk_status hk_open_files(struct hk_file **out, const char *path, struct hk_error *err);

#endif
