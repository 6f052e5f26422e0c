/* Metadata being made: dozens of pairs in order, their bytes in an arena. Setting a key again
 * replaces its value in place; to look for it costs time linear in the pairs. A failed allocation
 * or a value too long for .hk is remembered: the setters return nothing, and hk_kvlist_take()
 * fails. */
#ifndef HK_KVLIST_H
#define HK_KVLIST_H

#include "libhkfmt/base/arena.h"

struct hk_kvlist {
    struct hk_kv *kvs;
    size_t count, room;
    struct hk_arena *arena; /* the caller's, outlives the pairs */
    enum hk_status status;  /* of the first failure */
    char failed[96];        /* the key it was about, cut */
};

/* KEY and VALUE are copied. */
void hk_kvlist_set(struct hk_kvlist *l, struct hk_bytes key, enum hk_meta_type type,
                   struct hk_bytes value);
void hk_kvlist_string(struct hk_kvlist *l, const char *key, struct hk_bytes value);
void hk_kvlist_text(struct hk_kvlist *l, const char *key, const char *value);
void hk_kvlist_json(struct hk_kvlist *l, const char *key, struct hk_bytes text);
void hk_kvlist_int(struct hk_kvlist *l, const char *key, int64_t v);
/* Rounded to f32 first, as GGUF has such values: what is read from a .hk then does not depend on
 * the way that the model took. */
void hk_kvlist_float(struct hk_kvlist *l, const char *key, double v);
void hk_kvlist_bool(struct hk_kvlist *l, const char *key, bool v);
/* Array blobs (format-notes 2.2). */
void hk_kvlist_strings(struct hk_kvlist *l, const char *key, const struct hk_bytes *v,
                       uint32_t count);
void hk_kvlist_f32s(struct hk_kvlist *l, const char *key, const float *v, uint32_t count);
void hk_kvlist_i32s(struct hk_kvlist *l, const char *key, const int32_t *v, uint32_t count);

/* NULL if KEY is not in the list; valid until the next change. */
const struct hk_kv *hk_kvlist_find(const struct hk_kvlist *l, const char *key);
void hk_kvlist_remove(struct hk_kvlist *l, const char *key);

/* The pairs become F's metadata (what it had is forgotten), LIST is empty afterwards; the name
 * index of F is not built. */
enum hk_status hk_kvlist_take(struct hk_kvlist *l, struct hk_file *f, struct hk_error *err);
void hk_kvlist_free(struct hk_kvlist *l);

/* KEY says something of one shard or of the set, not of the model (format-notes 1.2). */
bool hk_shard_key(struct hk_bytes key);
/* KV belongs to one file of a sharded set that becomes a whole. */
bool hk_is_shard_key(const struct hk_file *f, const struct hk_kv *kv);

#endif
