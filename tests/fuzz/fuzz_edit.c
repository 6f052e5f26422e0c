/* Edits of a file that opens, in a row: after each the file opens and has what was asked for, all
 * else is as it was, and verifying finds no more errors; after one that is refused no byte has
 * changed. The input is a script of bytes, then the file. */
#include "tests/fuzz/fuzz.h"

static const char name[] = "model.hk";

struct before { /* the file before a change: a copy */
    int fd;
    struct hk_file *file;
    uint64_t errors;
};

struct change { /* of one key */
    struct hk_bytes key, value;
    enum hk_meta_type type;
    bool remove;
};

enum { MAX_CHANGES = 3, MAX_STEPS = 6 };

static struct hk_file *open_model(void)
{
    struct hk_file *f;
    struct hk_error err;
    fuzz_must(hk_open(&f, fuzz_path(name).text, &err), &err, "a file opens after a change");
    return f;
}

static void remember(struct before *b)
{
    struct hk_file *f = open_model();
    hk_close(&f);
    struct hk_bytes content = fuzz_file_content(name);
    b->fd = fuzz_file(content);
    struct hk_error err;
    fuzz_must(hk_open_fd(&b->file, b->fd, &err), &err, "a copy opens");
    fuzz_refused(fuzz_path(name).text, &b->errors);
    free((void *)(uintptr_t)content.p);
}

static void forget(struct before *b)
{
    hk_close(&b->file);
    close(b->fd);
}

/* ---- what must be as it was ---- */

static bool same(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static void check_base(const struct hk_file *was, const struct hk_file *is)
{
    uint8_t a[HK_SHA256_SIZE], b[HK_SHA256_SIZE];
    bool known = hk_base_digest(was, a, NULL) == HK_OK;
    fuzz_require(known == (hk_base_digest(is, b, NULL) == HK_OK), "the base digest stays known");
    fuzz_require(!known || memcmp(a, b, sizeof a) == 0, "the base digest stays the same");
}

static void check_records(const struct hk_file *was, const struct hk_file *is, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct hk_record *a = hk_record_at(was, i), *b = hk_record_at(is, i);
        fuzz_require(a != NULL && b != NULL, "a record is kept");
        fuzz_require(same(a->name, b->name) && same(a->target, b->target), "a record's names stay");
        fuzz_require(a->type == b->type && a->flags == b->flags && a->generation == b->generation &&
                         memcmp(a->parent_hash, b->parent_hash, sizeof a->parent_hash) == 0,
                     "a record's header stays");
        fuzz_require(same(hk_record_data(was, a), hk_record_data(is, b)), "a record's data stay");
    }
}

static bool is_named(const struct hk_kv *kv, const char *key)
{
    return hk_bytes_are(kv->key, key);
}

/* Keys that follow from others. */
static bool is_derived(const struct hk_kv *kv)
{
    return is_named(kv, "hk.gguf.types") || is_named(kv, "hk.alignment");
}

static const struct change *change_of(const struct change *c, size_t n, struct hk_bytes key)
{
    for (size_t i = n; i-- > 0;)
        if (same(c[i].key, key))
            return &c[i];
    return NULL;
}

static const struct hk_kv *find(const struct hk_file *f, struct hk_bytes key)
{
    for (size_t i = 0; i < hk_kv_count(f); i++)
        if (same(hk_kv_at(f, i)->key, key))
            return hk_kv_at(f, i);
    return NULL;
}

static void check_metadata(const struct hk_file *was, const struct hk_file *is,
                           const struct change *c, size_t n)
{
    for (size_t i = 0; i < hk_kv_count(was); i++) {
        const struct hk_kv *a = hk_kv_at(was, i), *b = find(is, a->key);
        if (is_derived(a) || change_of(c, n, a->key) != NULL)
            continue;
        fuzz_require(b != NULL && a->type == b->type && same(a->value, b->value),
                     "other keys stay as they are");
    }
    for (size_t i = 0; i < hk_kv_count(is); i++) {
        const struct hk_kv *b = hk_kv_at(is, i);
        fuzz_require(is_derived(b) || change_of(c, n, b->key) != NULL || find(was, b->key) != NULL,
                     "no key comes by itself");
    }
    for (size_t i = 0; i < n; i++) {
        const struct hk_kv *b = find(is, c[i].key);
        if (change_of(c, n, c[i].key) != &c[i] || hk_bytes_are(c[i].key, "hk.gguf.types"))
            continue;
        fuzz_require(c[i].remove == (b == NULL), "a key is there if it was set and not deleted");
        fuzz_require(b == NULL || (b->type == c[i].type && same(b->value, c[i].value)),
                     "a key has the value that was given");
    }
}

static void check_refused(const struct before *b)
{
    struct hk_bytes content = fuzz_file_content(name), old = fuzz_content(b->fd);
    fuzz_require(same(content, old), "a change that is refused changes nothing");
    free((void *)(uintptr_t)content.p);
    free((void *)(uintptr_t)old.p);
}

/* ---- changes ---- */

static struct hk_bytes take(struct hk_bytes *script, size_t n)
{
    struct hk_bytes taken = {script->p, n < script->n ? n : script->n};
    script->p += taken.n;
    script->n -= taken.n;
    return taken;
}

static void choose(struct change *c, const struct hk_file *f, struct hk_bytes *script)
{
    static uint8_t blank[600];
    uint8_t how = fuzz_byte(script), which = fuzz_byte(script);
    if (how % 2 == 0 && hk_kv_count(f) > 0)
        c->key = hk_kv_at(f, which % hk_kv_count(f))->key;
    else
        c->key = take(script, which % 32);
    c->remove = how / 2 % 4 == 0;
    c->type = (enum hk_meta_type)(how / 8 % 6 + 1);
    if (how / 64 == 3)
        c->value = (struct hk_bytes){blank, fuzz_byte(script) * sizeof blank / 256};
    else
        c->value =
            take(script, c->type == HK_META_BOOL                                  ? 1
                         : c->type == HK_META_INT64 || c->type == HK_META_FLOAT64 ? 8
                                                                                  : how % 32);
}

static enum hk_status edit(const struct before *b, struct hk_bytes *script, struct hk_error *err)
{
    struct change change[MAX_CHANGES];
    size_t n = fuzz_byte(script) % MAX_CHANGES + 1;
    struct hk_edit *e;
    enum hk_status st = hk_edit_begin(&e, fuzz_path(name).text, NULL, err);
    if (st != HK_OK)
        return st;
    for (size_t i = 0; i < n && st == HK_OK; i++) {
        choose(&change[i], b->file, script);
        st = change[i].remove ? hk_edit_delete(e, change[i].key, err)
                              : hk_edit_set(e, change[i].key, change[i].type, change[i].value, err);
    }
    if (st == HK_OK)
        st = hk_edit_commit(&e, err);
    hk_edit_discard(&e);
    if (st != HK_OK)
        return st;
    struct hk_file *f = open_model();
    check_metadata(b->file, f, change, n);
    fuzz_require(hk_record_count(f) == hk_record_count(b->file), "an edit keeps the records");
    check_records(b->file, f, hk_record_count(f));
    hk_close(&f);
    return HK_OK;
}

static enum hk_status append(const struct before *b, struct hk_bytes *script, struct hk_error *err)
{
    struct hk_appender *a;
    struct hk_new_record r = {.size = sizeof r,
                              .type = (enum hk_record_type)(fuzz_byte(script) % 6 + 1),
                              .generation = fuzz_byte(script) % 4};
    unsigned options = fuzz_byte(script) % 4 == 0 ? HK_APPEND_BIND_BASE : 0;
    enum hk_status st = hk_append_open(&a, fuzz_path(name).text, options, NULL, err);
    if (st != HK_OK)
        return st;
    if (r.generation == 0)
        r.generation = hk_append_generation(a) + 1;
    r.name = take(script, fuzz_byte(script) % 16);
    r.target = take(script, fuzz_byte(script) % 4);
    struct hk_bytes data = take(script, fuzz_byte(script));
    st = hk_append_record(a, &r, err);
    if (st == HK_OK)
        st = hk_append_write(a, data.p, data.n, err);
    if (st == HK_OK)
        st = hk_append_commit(&a, err);
    hk_append_discard(&a);
    if (st != HK_OK)
        return st;
    struct hk_file *f = open_model();
    size_t last = hk_record_count(b->file);
    check_metadata(b->file, f, NULL, 0);
    check_records(b->file, f, last);
    fuzz_require(hk_record_count(f) == last + 1, "a record more");
    const struct hk_record *is = hk_record_at(f, last);
    fuzz_require(same(is->name, r.name) && same(is->target, r.target) && is->type == r.type &&
                     is->generation == r.generation && same(hk_record_data(f, is), data),
                 "a record is as it was given");
    hk_close(&f);
    return HK_OK;
}

static enum hk_status roll_back(const struct before *b, struct hk_bytes *script, unsigned options,
                                struct hk_error *err)
{
    struct hk_rollback_report report;
    uint32_t generation = fuzz_byte(script) % 4;
    enum hk_status st = hk_rollback(fuzz_path(name).text, generation, options, NULL, &report, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = open_model();
    size_t count = hk_record_count(f);
    check_metadata(b->file, f, NULL, 0);
    check_records(b->file, f, count);
    fuzz_require(count == report.kept, "as many records as the report says are kept");
    fuzz_require(count + report.removed == hk_record_count(b->file), "and the others are gone");
    if (options == 0)
        for (size_t i = 0; i < hk_record_count(b->file); i++)
            fuzz_require((hk_record_at(b->file, i)->generation <= generation) == (i < count),
                         "records go by generation");
    hk_close(&f);
    return HK_OK;
}

static void step(struct hk_bytes *script)
{
    struct before b;
    struct hk_error err;
    remember(&b);
    uint8_t how = fuzz_byte(script) % 8;
    enum hk_status st = how < 4    ? edit(&b, script, &err)
                        : how < 6  ? append(&b, script, &err)
                        : how == 6 ? roll_back(&b, script, 0, &err)
                                   : roll_back(&b, script, HK_ROLLBACK_REPAIR, &err);
    if (fuzz_may(st, &err)) {
        uint64_t errors;
        fuzz_refused(fuzz_path(name).text, &errors);
        fuzz_require(errors <= b.errors, "a change adds no error");
        struct hk_file *f = open_model();
        check_base(b.file, f);
        hk_close(&f);
    } else {
        check_refused(&b);
    }
    forget(&b);
}

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    struct hk_bytes script = fuzz_part(&input);
    fuzz_put(name, input);
    if (!fuzz_may(hk_open(&f, fuzz_path(name).text, &err), &err))
        return;
    hk_close(&f);
    for (int i = 0; i < MAX_STEPS && script.n > 0; i++)
        step(&script);
}
