/* Files of random layout, as the format allows them, edited, appended to, rolled back, torn and
 * repaired at random: each result is valid, has what was asked and nothing else, and its tensors
 * are what they were. 100 files, 1000 with HK_FULL. */
#include "libhkfmt/hk/wire.h"
#include "tests/lib/sample.h"

static char path[64];

/* ---- chance ---- */

static uint64_t seed;

static uint32_t chance(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* ---- what the file is to have ---- */

enum { KEYS = 6, MOST_RECORDS = 40 };

struct pair {
    unsigned key, n; /* "key-K" is a string of N letters of K */
};

struct wanted {
    struct pair pairs[KEYS];
    size_t pair_count;
    uint32_t records[MOST_RECORDS]; /* generations; record I has a payload of 5 * I bytes and 3 */
    size_t record_count;
    uint8_t base[HK_SHA256_SIZE];
};

static void fill(uint8_t *p, size_t n, unsigned letter)
{
    memset(p, (int)('a' + letter), n);
}

/* ---- a file ---- */

struct piece { /* of a file: head or payload */
    uint8_t bytes[9000];
    size_t n;
    uint64_t at;
    bool aligned;
};

enum { METADATA, TABLE, PAYLOADS, MOST_PIECES = PAYLOADS + 4 };

static void put_pair(struct piece *p, const struct pair *pair)
{
    char key[8];
    snprintf(key, sizeof key, "key-%u", pair->key);
    put16(p->bytes + p->n, 5);
    memcpy(p->bytes + p->n + 2, key, 5);
    p->bytes[p->n + 7] = HK_META_STRING;
    put32(p->bytes + p->n + 8, pair->n);
    fill(p->bytes + p->n + 12, pair->n, pair->key);
    p->n += 12 + pair->n;
}

/* A vector of bytes or, with N 0, a reference to nothing. */
static void put_tensor(struct piece *table, size_t i, const struct piece *payload)
{
    uint8_t *p = table->bytes + table->n;
    memset(p, 0, 2 + 2 + 4 + 8 + 54);
    put16(p, 2);
    p[2] = 't';
    p[3] = (uint8_t)('0' + i);
    p[4] = payload->n > 0 ? HK_TYPE_UINT8 : HK_TYPE_NULL_REF;
    p[7] = 1;
    put64(p + 8, payload->n > 0 ? payload->n : 7);
    put64(p + 16, payload->n > 0 ? payload->at : 0);
    put64(p + 24, payload->n);
    put16(p + 64, 32);
    table->n += 70;
}

/* Places in a random order, each behind the one before. */
static uint64_t place(struct piece *pieces, size_t count, uint32_t alignment)
{
    size_t order[MOST_PIECES];
    uint64_t at = HK_HEADER_SIZE, end = at;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; chance(3) > 0 && i-- > 1;) {
        const size_t k = chance((uint32_t)i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (size_t i = 0; i < count; i++) {
        struct piece *p = &pieces[order[i]];
        at += chance(4) == 0 ? chance(300) : 0;
        if (p->aligned && p->n > 0)
            at = (at + alignment - 1) / alignment * alignment;
        p->at = at;
        at += p->n;
        if (p->n > 0)
            end = at;
    }
    return end;
}

static uint64_t first_payload(const struct piece *pieces, size_t count)
{
    uint64_t first = 0;
    for (size_t i = PAYLOADS; i < count; i++)
        if (pieces[i].n > 0 && (first == 0 || pieces[i].at < first))
            first = pieces[i].at;
    return first;
}

/* tensor_data_offset: with payloads at or before the first, else anything. */
static uint64_t data_offset(const struct piece *pieces, size_t count, uint64_t end)
{
    const uint64_t first = first_payload(pieces, count);
    const uint64_t none[] = {0, HK_HEADER_SIZE, (end + 127) / 128 * 128, end, end + 5000};
    if (first > 0)
        return chance(4) == 0 ? 0 : first;
    return none[chance(5)];
}

static struct image assemble(const struct piece *pieces, size_t count, uint64_t end,
                             const struct hk_header *h, bool sealed)
{
    struct image image = {calloc(1, end + 8), (size_t)end};
    hk_encode_header(h, image.p);
    put16(image.p + HK_AT_SPLIT_COUNT, 1);
    if (sealed) {
        put32(image.p + HK_AT_FLAGS, h->flags | HK_FLAG_HAS_SHA256_CHECKSUM);
        memset(image.p + HK_AT_RESERVED, 0x5a, HK_SHA256_SIZE);
    }
    for (size_t i = 0; i < count; i++)
        memcpy(image.p + pieces[i].at, pieces[i].bytes, pieces[i].n);
    if (chance(8) == 0) /* padding that a rollback left */
        image.n = (image.n + 7) / 8 * 8;
    if (chance(8) == 0) /* an offset of records that are gone */
        put64(image.p + HK_AT_APPENDIX_OFFSET, (image.n + 7) / 8 * 8 + 8 * (uint64_t)chance(100));
    return image;
}

static struct image make_file(struct wanted *w)
{
    static const uint16_t alignments[] = {1, 8, 32, 128, 4096};
    static struct piece pieces[MOST_PIECES];
    const size_t tensors = chance(5), count = PAYLOADS + tensors;
    const uint16_t alignment = alignments[chance(5)];
    const bool only_null = chance(4) == 0;
    memset(pieces, 0, sizeof pieces);
    w->pair_count = chance(KEYS);
    for (unsigned i = 0; i < w->pair_count; i++) {
        w->pairs[i] = (struct pair){i, chance(chance(4) == 0 ? 1000 : 50)};
        put_pair(&pieces[METADATA], &w->pairs[i]);
    }
    for (size_t i = PAYLOADS; i < count; i++) {
        pieces[i].n = only_null ? 0 : chance(200);
        pieces[i].aligned = true;
        for (size_t k = 0; k < pieces[i].n; k++)
            pieces[i].bytes[k] = (uint8_t)chance(256);
    }
    pieces[TABLE].n = 70 * tensors;
    uint64_t end = place(pieces, count, alignment);
    pieces[TABLE].n = 0;
    for (size_t i = 0; i < tensors; i++)
        put_tensor(&pieces[TABLE], i, &pieces[PAYLOADS + i]);
    struct hk_header h = {.version_major = 1,
                          .alignment = alignment,
                          .split_count = 1,
                          .tensor_count = tensors,
                          .metadata_kv_count = w->pair_count,
                          .metadata_offset = pieces[METADATA].at,
                          .metadata_size = pieces[METADATA].n,
                          .tensor_toc_offset = pieces[TABLE].at,
                          .tensor_toc_size = pieces[TABLE].n,
                          .tensor_data_offset = data_offset(pieces, count, end)};
    h.flags = hk_flags_of(&h);
    return assemble(pieces, count, end, &h, chance(4) == 0);
}

/* ---- looking ---- */

static void save_image(const struct image *image)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0 || write(fd, image->p, image->n) != (ssize_t)image->n) {
        puts("Bail out! cannot write the file");
        exit(2);
    }
    close(fd);
}

static struct image load_image(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct image image = read_back(fd);
    close(fd);
    return image;
}

struct found {
    unsigned errors;
    char first[320];
};

static void find_fault(void *arg, const struct hk_fault *fault)
{
    struct found *f = arg;
    if (fault->severity == HK_ERROR && f->errors++ == 0)
        snprintf(f->first, sizeof f->first, "%s: %s", fault->code, fault->text);
}

static bool is_letters(struct hk_bytes b, size_t n, unsigned letter)
{
    bool same = b.n == n;
    for (size_t i = 0; same && i < n; i++)
        same = b.p[i] == 'a' + letter;
    return same;
}

static const char *compare_pairs(const struct hk_file *f, const struct wanted *w)
{
    if (hk_kv_count(f) != w->pair_count)
        return "another number of keys";
    for (size_t i = 0; i < w->pair_count; i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        char key[8];
        snprintf(key, sizeof key, "key-%u", w->pairs[i].key);
        if (!hk_bytes_are(kv->key, key) || !is_letters(kv->value, w->pairs[i].n, w->pairs[i].key))
            return "other metadata";
    }
    return NULL;
}

static const char *compare_records(const struct hk_file *f, const struct wanted *w)
{
    if (hk_record_count(f) != w->record_count)
        return "another number of records";
    for (size_t i = 0; i < w->record_count; i++) {
        const struct hk_record *r = hk_record_at(f, i);
        if (r->generation != w->records[i] || !hk_bytes_are(r->name, "record") ||
            !is_letters(hk_record_data(f, r), 5 * i + 3, (unsigned)i % 26))
            return "other records";
    }
    return NULL;
}

/* What is wrong with the file, or NULL. */
static const char *look_at(const struct wanted *w)
{
    static struct found found;
    struct hk_verify_report report;
    struct hk_error err = {0};
    struct hk_file *f;
    uint8_t base[HK_SHA256_SIZE];
    found = (struct found){0};
    if (hk_verify(path, HK_VERIFY_PAYLOAD, find_fault, &found, &report, &err) != HK_OK ||
        found.errors > 0)
        return found.errors > 0 ? found.first : "cannot be verified";
    if (hk_open(&f, path, &err) != HK_OK)
        return "does not open";
    const char *what = compare_pairs(f, w);
    if (what == NULL)
        what = compare_records(f, w);
    if (hk_base_digest(f, base, &err) != HK_OK || memcmp(base, w->base, sizeof base) != 0)
        what = "other tensors";
    hk_close(&f);
    return what;
}

/* ---- changing ---- */

static void want_key(struct wanted *w, unsigned key, unsigned n)
{
    for (size_t i = 0; i < w->pair_count; i++)
        if (w->pairs[i].key == key) {
            w->pairs[i].n = n;
            return;
        }
    w->pairs[w->pair_count++] = (struct pair){key, n};
}

static bool drop_key(struct wanted *w, unsigned key)
{
    for (size_t i = 0; i < w->pair_count; i++)
        if (w->pairs[i].key == key) {
            memmove(&w->pairs[i], &w->pairs[i + 1], (--w->pair_count - i) * sizeof *w->pairs);
            return true;
        }
    return false;
}

static enum hk_status change_keys(struct wanted *w, struct hk_error *err)
{
    static uint8_t letters[8000];
    struct hk_edit *e;
    enum hk_status st = hk_edit_begin(&e, path, NULL, err);
    const unsigned first = chance(KEYS), count = 1 + chance(3);
    for (unsigned i = 0; st == HK_OK && i < count; i++) {
        const unsigned key = (first + i) % KEYS, n = chance(chance(5) == 0 ? 8000 : 60);
        char name[8];
        snprintf(name, sizeof name, "key-%u", key);
        fill(letters, n, key);
        const bool in_file = hk_kv_find(hk_edit_file(e), name) != NULL;
        if (chance(2) == 0 && in_file) {
            st = hk_edit_delete(e, text(name), err);
            drop_key(w, key);
        } else {
            st = hk_edit_set(e, text(name), HK_META_STRING, (struct hk_bytes){letters, n}, err);
            want_key(w, key, n);
        }
    }
    return st == HK_OK ? hk_edit_commit(&e, err) : st;
}

static enum hk_status add_record(struct wanted *w, struct hk_appender *a, struct hk_error *err)
{
    uint8_t payload[5 * MOST_RECORDS + 3];
    const size_t i = w->record_count, n = 5 * i + 3;
    const uint32_t generation = hk_append_generation(a) + chance(2);
    const struct hk_new_record r = {.size = sizeof r,
                                    .type = HK_RECORD_CODE_EVAL,
                                    .name = text("record"),
                                    .generation = generation,
                                    .flags = HK_RECORD_ACTIVE};
    fill(payload, n, (unsigned)i % 26);
    w->records[w->record_count++] = generation;
    enum hk_status st = hk_append_record(a, &r, err);
    return st == HK_OK ? hk_append_write(a, payload, n, err) : st;
}

static enum hk_status append_some(struct wanted *w, struct hk_error *err)
{
    struct hk_appender *a;
    enum hk_status st = hk_append_open(&a, path, 0, NULL, err);
    if (st != HK_OK)
        return st;
    for (unsigned left = 1 + chance(2); st == HK_OK && left > 0 && w->record_count < MOST_RECORDS;
         left--)
        st = add_record(w, a, err);
    return st == HK_OK ? hk_append_commit(&a, err) : st;
}

static enum hk_status cut_back(struct wanted *w, struct hk_error *err)
{
    const uint32_t generation = chance(4);
    while (w->record_count > 0 && w->records[w->record_count - 1] > generation)
        w->record_count--;
    return hk_rollback(path, generation, 0, NULL, NULL, err);
}

/* What a torn append leaves is removed without a trace. */
static enum hk_status tear_and_repair(struct wanted *w, struct hk_error *err)
{
    uint8_t stray[200] = {0};
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    const size_t n = 90 + chance(100);
    (void)w;
    memset(stray + 80, 'x', sizeof stray - 80);
    if (fd < 0 || write(fd, stray, n) != (ssize_t)n)
        return HK_E_IO;
    close(fd);
    return hk_rollback(path, 0, HK_ROLLBACK_REPAIR, NULL, NULL, err);
}

typedef enum hk_status change_fn(struct wanted *w, struct hk_error *err);

static const struct {
    const char *name;
    change_fn *make;
} changes[] = {
    {"edit", change_keys},
    {"append", append_some},
    {"rollback", cut_back},
    {"repair", tear_and_repair},
};

/* No room before the records is the only reason for a refusal, and changes nothing. */
static bool change_once(struct wanted *w, unsigned number)
{
    const struct wanted before = *w;
    const struct image old = load_image();
    struct hk_error err = {.text = ""};
    const unsigned which = chance(4);
    const char *what = NULL;
    if (changes[which].make(w, &err) != HK_OK) {
        struct image now = load_image();
        if (which != 0 || err.status != HK_E_RANGE || w->record_count == 0)
            what = err.text;
        else if (now.n != old.n || memcmp(now.p, old.p, old.n) != 0)
            what = "refused, but changed";
        *w = before;
        free(now.p);
    }
    if (what == NULL)
        what = look_at(w);
    if (what != NULL)
        printf("# file %u: %s: %s\n", number, changes[which].name, what);
    free(old.p);
    return what == NULL;
}

static bool try_file(unsigned number)
{
    struct wanted w = {0};
    struct hk_error err = {0};
    struct hk_file *f;
    seed = number * UINT64_C(0x9e3779b97f4a7c15);
    struct image image = make_file(&w);
    must(open_image(&image, &f, &err), &err, "a file as it was made");
    must(hk_base_digest(f, w.base, &err), &err, "its base digest");
    hk_close(&f);
    save_image(&image);
    free(image.p);
    const char *what = look_at(&w);
    if (what != NULL)
        printf("# file %u as it was made: %s\n", number, what);
    bool good = what == NULL;
    for (unsigned left = 12; good && left > 0; left--)
        good = change_once(&w, number);
    return good;
}

int main(void)
{
    const unsigned files = getenv("HK_FULL") != NULL ? 1000 : 100;
    const int fd = memory_file(&(struct image){0});
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    unsigned bad = 0;
    for (unsigned i = 1; i <= files; i++)
        bad += !try_file(i);
    ok(bad == 0, "%u of %u files with 12 changes each go wrong", bad, files);
    close(fd);
    return tap_done();
}
