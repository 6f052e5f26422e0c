/* Editing in place: what is to change is collected under the file's lock, then written at once. */
#include "libhkfmt/hk/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/lock.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/ends.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"

struct hk_edit {
    struct hk_lock lock;
    struct hk_file *file;
    struct hk_changes changes;
    struct hk_arena arena;
};

void hk_edit_discard(struct hk_edit **edit)
{
    struct hk_edit *e = *edit;
    if (e == NULL)
        return;
    hk_close(&e->file);
    free(e->changes.list);
    hk_arena_free(&e->arena);
    close(e->lock.fd);
    free(e);
    *edit = NULL;
}

static enum hk_status add_edit_change(struct hk_changes *c, const struct hk_kv *kv,
                                      struct hk_error *err)
{
    if (!hk_grow(&c->list, &c->room, c->count + 1, sizeof *c->list))
        return hk_fail_nomem(err);
    c->list[c->count++] = (struct hk_change){.kv = *kv};
    return HK_OK;
}

static enum hk_status refuse_journal(const char *path, struct hk_error *err)
{
    bool journal;
    enum hk_status st = hk_has_journal(path, &journal, err);
    if (st == HK_OK && journal)
        st = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                     "a journal (.hkmeta-journal) of the reference lies beside it: an edit was "
                     "interrupted, and \"hk repair\" of that program has to end it first");
    return st;
}

static enum hk_status refuse_format(enum hk_format format, struct hk_error *err)
{
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "a %s file is not edited in place; hk-convert makes a .hk of it",
                   hk_format_name(format));
}

/* What is no .hk is refused for that, not for what else may be wrong with it. */
static enum hk_status check_editable_format(int fd, struct hk_error *err)
{
    uint8_t p[HK_MODEL_START] = {0};
    if (pread(fd, p, sizeof p, 0) < 0)
        return hk_fail_sys(err, errno, "cannot read");
    const enum hk_format format = hk_format_of(p, UINT64_MAX);
    return format == HK_FORMAT_HK ? HK_OK : refuse_format(format, err);
}

static enum hk_status open_edited(struct hk_edit *e, struct hk_error *err)
{
    enum hk_status st = check_editable_format(e->lock.fd, err);
    if (st == HK_OK)
        st = hk_open_fd(&e->file, e->lock.fd, err);
    if (st != HK_OK)
        return st;
    const struct hk_header *h = &e->file->header;
    if (e->file->format != HK_FORMAT_HK)
        return refuse_format(e->file->format, err);
    if (h->split_index > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_AT_SPLIT_INDEX,
                       "is shard %u of %u: the metadata of a set is that of its first file",
                       h->split_index + 1u, h->split_count);
    for (size_t i = 0; st == HK_OK && i < e->file->kv_count; i++)
        st = add_edit_change(&e->changes, &e->file->kvs[i], err);
    e->changes.old = e->changes.count;
    return st;
}

enum hk_status hk_edit_begin(struct hk_edit **out, const char *path, const struct hk_wait *wait,
                             struct hk_error *err)
{
    struct hk_lock lock;
    enum hk_status st = hk_lock_open(&lock, path, wait, err);
    if (st != HK_OK)
        return st;
    struct hk_edit *e = calloc(1, sizeof *e);
    if (e == NULL) {
        close(lock.fd);
        return hk_fail_nomem(err);
    }
    e->lock = lock;
    st = refuse_journal(path, err);
    if (st == HK_OK)
        st = open_edited(e, err);
    if (st != HK_OK) {
        hk_edit_discard(&e);
        return st;
    }
    *out = e;
    return HK_OK;
}

const struct hk_file *hk_edit_file(const struct hk_edit *e)
{
    return e->file;
}

/* ---- what is to change ---- */

static struct hk_bytes key_of_kv(const void *table, size_t i)
{
    return ((const struct hk_kv *)table)[i].key;
}

static const struct hk_kv *find_old_pair(const struct hk_edit *e, struct hk_bytes key)
{
    const struct hk_file *f = e->file;
    size_t i = hk_index_find(&f->kv_index, f->kvs, key_of_kv, key);
    return i == SIZE_MAX ? NULL : &f->kvs[i];
}

/* Keys that say how the file is laid out. */
static enum hk_status check_editable_key(struct hk_bytes key, struct hk_error *err)
{
    if (!hk_bytes_are(key, "hk.alignment") && !hk_shard_key(key))
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "key %.*s says how the file is laid out and cannot be edited", HK_STR(key));
}

enum hk_status hk_edit_set(struct hk_edit *e, struct hk_bytes key, enum hk_meta_type type,
                           struct hk_bytes value, struct hk_error *err)
{
    size_t fixed = hk_meta_fixed_size(type);
    if (key.n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "empty metadata key");
    if (key.n > UINT16_MAX || value.n > UINT32_MAX)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "key %.*s: key of %zu or value of %zu bytes is too long for .hk",
                       HK_STR(key), key.n, value.n);
    if (hk_meta_type_name(type) == NULL || (fixed != 0 && value.n != fixed))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "key %.*s: value of %zu bytes for type %d",
                       HK_STR(key), value.n, (int)type);
    const struct hk_kv *has = find_old_pair(e, key);
    bool equal = has != NULL && has->type == type && hk_bytes_equal(has->value, value);
    enum hk_status st = equal ? HK_OK : check_editable_key(key, err);
    struct hk_kv kv = {.type = (uint8_t)type};
    if (st == HK_OK &&
        (!hk_arena_keep(&e->arena, key, &kv.key) || !hk_arena_keep(&e->arena, value, &kv.value)))
        st = hk_fail_nomem(err);
    return st == HK_OK ? add_edit_change(&e->changes, &kv, err) : st;
}

enum hk_status hk_edit_delete(struct hk_edit *e, struct hk_bytes key, struct hk_error *err)
{
    const struct hk_kv *has = find_old_pair(e, key);
    if (has == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no key %.*s", HK_STR(key));
    enum hk_status st = check_editable_key(key, err);
    struct hk_kv kv = {.key = has->key};
    return st == HK_OK ? add_edit_change(&e->changes, &kv, err) : st;
}

/* ---- the new section: the pairs of the file with each change where its key stands, new keys at
 * the end ---- */

static bool change_stays(const struct hk_change *change)
{
    return !change->merged && change->kv.type != 0;
}

static struct hk_bytes key_of_change(const void *table, size_t i)
{
    return ((const struct hk_change *)table)[i].kv.key;
}

/* Changes of one key come in their order, so that the last holds. */
static void merge_change(void *arg, size_t i, size_t first)
{
    struct hk_changes *c = arg;
    c->list[first].kv.type = c->list[i].kv.type;
    c->list[first].kv.value = c->list[i].kv.value;
    c->list[first].touched = true;
    c->list[i].merged = true;
}

static enum hk_status merge_changes(struct hk_changes *c, struct hk_error *err)
{
    struct hk_index x = {0};
    for (size_t i = c->old; i < c->count; i++)
        c->list[i].touched = true;
    if (!hk_index_build(&x, c->list, c->count, key_of_change, merge_change, c))
        return hk_fail_nomem(err);
    hk_index_free(&x);
    return HK_OK;
}

static enum hk_status settle_changes(struct hk_changes *c, const struct hk_file *f,
                                     struct hk_arena *arena, struct hk_error *err)
{
    enum hk_status st = merge_changes(c, err);
    struct hk_kv types;
    bool changed = false;
    if (st == HK_OK)
        st = hk_settle_types(c, f, arena, &types, &changed, err);
    if (st == HK_OK && changed)
        st = add_edit_change(c, &types, err);
    return st == HK_OK && changed ? merge_changes(c, err) : st;
}

static void put_pair(struct hk_buf *b, const struct hk_kv *kv)
{
    uint8_t fixed[5], key_len[2];
    put16(key_len, (uint16_t)kv->key.n);
    fixed[0] = kv->type;
    put32(fixed + 1, (uint32_t)kv->value.n);
    hk_buf_put(b, key_len, sizeof key_len);
    hk_buf_put(b, kv->key.p, kv->key.n);
    hk_buf_put(b, fixed, sizeof fixed);
    hk_buf_put(b, kv->value.p, kv->value.n);
}

static enum hk_status encode_metadata(const struct hk_changes *c, struct hk_new_metadata *out,
                                      struct hk_error *err)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!change_stays(&c->list[i]))
            continue;
        put_pair(&out->bytes, &c->list[i].kv);
        out->count++;
    }
    return out->bytes.failed ? hk_fail_nomem(err) : HK_OK;
}

static bool is_new_metadata(const struct hk_file *f, const struct hk_new_metadata *m)
{
    const struct hk_header *h = &f->header;
    return m->count != h->metadata_kv_count || m->bytes.n != h->metadata_size ||
           !hk_bytes_equal(f->metadata, (struct hk_bytes){m->bytes.p, m->bytes.n});
}

/* Whether an edit that was broken off left something to be put in order, or the reference did. */
static bool is_untidy(const struct hk_ends *l)
{
    return l->tail > HK_TAIL_PADDING || l->head_behind || l->staged;
}

static enum hk_status check_editable_end(const struct hk_file *f, struct hk_error *err)
{
    const struct hk_ends *l = &f->ends;
    enum hk_status st = hk_ends_check(f, err);
    if (st != HK_OK || l->tail != HK_TAIL_STRAY)
        return st;
    return hk_fail(err, HK_E_FORMAT, l->live,
                   "%llu bytes at the end of the file belong to nothing and would be lost (a torn "
                   "append?); hk-rollback --repair removes them",
                   (unsigned long long)(l->size - l->live));
}

static enum hk_status commit_edit(struct hk_edit *e, struct hk_new_metadata *m,
                                  struct hk_error *err)
{
    enum hk_status st = settle_changes(&e->changes, e->file, &e->arena, err);
    if (st == HK_OK)
        st = encode_metadata(&e->changes, m, err);
    if (st == HK_OK)
        st = check_editable_end(e->file, err);
    if (st != HK_OK || (!is_new_metadata(e->file, m) && !is_untidy(&e->file->ends)))
        return st;
    return hk_write_metadata(e->file, &e->lock, m, err);
}

enum hk_status hk_edit_commit(struct hk_edit **edit, struct hk_error *err)
{
    struct hk_new_metadata m = {0};
    enum hk_status st = commit_edit(*edit, &m, err);
    hk_buf_free(&m.bytes);
    hk_edit_discard(edit);
    return st;
}
